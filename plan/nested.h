// Steps that hold graphs, from which plans are built while the outer plan runs.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace weft::plan {

// The graph of a nested plan, read and verified; what fails names the step's graph and line.
Result<graph::Graph> ReadNested(const std::string& text, const BlobStore& blobs);
// Steps of kind kPlan: their graphs verify, and their inputs and outputs are the step's in number
// and type. Extents are no matter: they are compared when it runs. A graph that steps share is read
// once.
class NestedVerifier {
 public:
  explicit NestedVerifier(const Plan& plan) : plan_(plan) {}
  Status Verify(const Specialization& s, const Step& step);

 private:
  const Plan& plan_;
  std::map<const std::string*, graph::Graph> read_;
};

}  // namespace weft::plan
