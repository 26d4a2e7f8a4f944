// What a kernel's nest says of its operands, read from the head of its text.
//
// Machine code trusts the sizes that its nest declares. A plan comes from anywhere, so Verify
// compares each own step with the nest of its kernel before anything runs. Only the head of the
// text is read:
//
//   loops NAME <params> (x: in f32[1, 28, 28] layout "acb" align 64, y: out f32[…]) for … {
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft::plan {

struct Operand {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;  // -1: depends on a parameter
  Layout layout;
  bool is_written = false;
  int64_t align_bytes = 0;  // of the first element; 0: that of an element
};

struct Signature {
  std::string name;  // the symbol
  size_t params = 0;
  std::vector<Operand> operands;  // in the order of the call
};

Result<Signature> ReadSignature(std::string_view loops, const std::string& file);

}  // namespace weft::plan
