// Sequences and optionals at a graph's border. Inside, the rewrites resolve_sequences and
// unroll_loops do away with those whose elements are known.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// What an input that is no tensor is made of: nothing (an optional without an element), one tensor
// (an optional with one), or the tensors of a sequence.
struct InputForm {
  struct Part {
    Dtype dtype = Dtype::kF32;
    Shape shape;
  };
  enum class Kind : uint8_t { kAbsent, kTensor, kSequence } kind = Kind::kAbsent;
  std::vector<Part> parts;
};

// Tensors take the input's place: itself, or "name[0]", "name[1]", … for a sequence; what is absent
// goes.
Status BindForm(Graph& graph, std::string_view input, const InputForm& form);
// The same for outputs whose elements are known; others stay. Whether there were any.
bool ExpandSequences(Graph& graph);

}  // namespace weft::graph
