// How a nest's names, types and index expressions are spelled in CUDA C++.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/dtype.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen::cuda {

// Identifiers, each used once and none a word of the language.
struct Names {
  std::vector<std::string> vars, buffers;  // by position in the nest
};
Names NamesOf(const loops::LoopNest& nest);

// Whether a name is the language's, or that of what texts call.
bool IsWord(std::string_view name);

// Of a value in a register and of an element in memory: 16-bit floats are computed in float and lie
// as unsigned short, bools lie as unsigned char.
std::string_view RegisterType(Dtype dtype);
std::string_view MemoryType(Dtype dtype);
// The unsigned type in which arithmetic of an integer type wraps without undefined behaviour.
std::string_view WrapType(Dtype dtype);

std::string LiteralText(Dtype dtype, Scalar value);

// True if some index, bound or guard may leave 31 bits: then indices are 64-bit.
bool NeedsWideIndex(const loops::LoopNest& nest);

// e as C++; floor_div(dividend, divisor) spells a floor.
std::string AffineText(const Affine& e, const std::function<std::string(Var)>& name,
                       const std::function<std::string(const Affine&, int64_t)>& floor_div);

}  // namespace weft::codegen::cuda
