// Whether different ways to run one network give the same.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver {

// How far ways to run a network may be apart, by parts of an output's scale.
double AgreementOf(const graph::Graph& graph);

struct Way {
  std::string name;
  std::span<const Tensor> outputs;
};

// Ways that differ in their outputs are held against the fp64 reference. One that leaves it, by
// more than rounding does, is a defect of ours or of a library: kInternal, with its name.
Status CheckAgreement(const graph::Graph& graph, std::span<const Tensor> inputs,
                      std::span<const Way> ways);

}  // namespace weft::driver
