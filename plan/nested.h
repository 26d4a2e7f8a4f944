// Steps that hold graphs, from which plans are built while the outer plan runs.
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

namespace weft::plan {

// The graph of a nested plan, read and verified; what fails names the step's graph and line.
Result<graph::Graph> ReadNested(const std::string& text, const BlobStore& blobs);
// Of a step of kind kPlan: its graphs verify, and their inputs and outputs are the step's in number
// and type. Extents are no matter: they are compared when it runs.
Status VerifyNested(const Plan& plan, const Specialization& s, const Step& step);

}  // namespace weft::plan
