// Cases of single operators with what ONNX says comes out, made by make_op_cases.py when weft is
// built.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::oracle {

struct OpCase {
  std::string name, op, graph;
  std::vector<std::string> inputs, outputs;  // raw elements
};

// All cases, or those whose name contains $WEFT_OP_CASE; counts why others were left out.
std::vector<OpCase> ReadOpCases(std::map<std::string, int>& skipped);
// True if the user asked for some cases only.
bool SomeCasesOnly();

// An input or output of the case's graph.
Tensor FromBytes(const graph::Value& value, const std::string& bytes);
// How the two differ as results of `op`; empty if they don't, within tests/data/tolerances.def.
std::string Difference(std::string_view op, const Tensor& found, const Tensor& expected);

}  // namespace weft::oracle
