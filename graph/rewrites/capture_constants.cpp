// A constant around a subgraph becomes a constant in it (of the same name; the bytes are shared),
// so that shape arithmetic inside a branch or a loop folds like any other.

#include <unordered_map>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

Result<int> capture_constants(Graph& graph, const Evaluator&) {
  std::unordered_map<std::string_view, const Value*> constants;
  int count = 0;
  for (const Node& node : graph.nodes) {
    for (const auto& inner : Subgraphs(node)) {
      if (constants.empty()) {
        for (const Value& value : graph.values) {
          if (value.kind == ValueKind::kConstant) constants.emplace(value.name, &value);
        }
      }
      for (Value& value : inner->values) {
        const auto found =
            value.kind == ValueKind::kCaptured ? constants.find(value.name) : constants.end();
        if (found == constants.end()) continue;
        value.kind = ValueKind::kConstant;
        value.constant = found->second->constant;
        value.dtype = found->second->dtype;
        value.shape = found->second->shape;
        ++count;
      }
    }
  }
  return count;
}

}  // namespace weft::graph
