// Def + sizes -> Program: names, types, and ranges by inference.
//
// Ranges are inferred in rounds: all constraints with one unresolved variable, conjoined over the
// whole box of the resolved ones, give that variable its largest interval (research: range
// inference of Tensor Comprehensions, here over exact intervals, isl for coupled and div/mod
// constraints). What stays ambiguous, comes out empty or overflows is an error with the variable,
// the constraint and a suggested `where`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "tc_lang/program.h"
#include "tc_lang/syntax.h"

namespace weft::tc {

struct Sizes {
  std::map<std::string, int64_t> values;  // size symbols and `size` parameters
  // Symbols to leave open: they become params of the program. Only extents of the outermost axis of
  // tensors may use them.
  std::vector<std::string> params;
};

// `defs` are those of the text: what stands above `def` may be called, and is inlined.
Result<Program> Bind(const Def& def, const Sizes& sizes, std::span<const Def> defs = {});

// What `weft tc --infer` prints: ranges by variable (`i@1` if it occurs in several statements),
// output extents, and the conditions that only a call can check.
struct Inference {
  std::vector<std::pair<std::string, Interval>> ranges;  // closed
  std::vector<std::string> preconditions;
};
Result<Inference> Infer(const Def& def, const Sizes& sizes, std::span<const Def> defs = {});

// Sizes from the shapes of the given inputs, in parameter order; conflicts name both sources.
Result<Sizes> SizesFromShapes(const Def& def, const std::map<std::string, Shape>& shapes,
                              const std::map<std::string, int64_t>& size_params);

}  // namespace weft::tc
