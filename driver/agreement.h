// Whether different ways to run one network give the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver {

// How far ways to run a network may be apart, by parts of an output's scale.
double AgreementOf(const graph::Graph& graph);

// Tells what rounding explains from what is wrong, for outputs that differ: by the fp64 reference,
// and by how far this moves where its values are jittered as rounding may. One step of a
// quantization that falls to the other side is no fault, then; more of them than rounding takes
// there, or farther, are. Graph and inputs have to outlive it. What it asks for is computed once.
class Referee {
 public:
  Referee(const graph::Graph& graph, std::span<const Tensor> inputs)
      : graph_(graph), inputs_(inputs) {}

  // How far outputs leave the reference, "by 2.0e-02 of the scale"; empty if not farther than
  // rounding explains.
  Result<std::string> FaultOf(std::span<const Tensor> outputs);

 private:
  // What rounding does to one output.
  struct Moved {
    double by = 0, by_rel = 0;  // Accuracy's max_abs and max_rel
    int64_t elements = 0;       // of those that are no floats
    bool unbounded = false;     // shapes, or what is finite: it can't tell who is wrong
  };

  std::string FaultAsFarAsKnown(std::span<const Tensor> outputs) const;
  Status Jitter();

  const graph::Graph& graph_;
  std::span<const Tensor> inputs_;
  std::vector<Tensor> reference_;
  std::vector<Moved> moved_;
  uint64_t jittered_ = 0;  // references
};

struct Way {
  std::string name;
  std::span<const Tensor> outputs;
};

// Ways that differ in their outputs are held against the reference. One that leaves it, by more
// than rounding does, is a defect of ours or of a library: kInternal, with its name.
Status CheckAgreement(const graph::Graph& graph, std::span<const Tensor> inputs,
                      std::span<const Way> ways);

}  // namespace weft::driver
