// Loops = kernel, bit for bit: runs a nest by the interpreter and as machine code on the same data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/target.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct CompareOptions {
  uint64_t seed = 1;
  std::vector<int64_t> params;
  std::vector<uint32_t> sizes = {1, 3};  // of the team
  bool wild = false;                     // NaNs, infinities, subnormals and extremes among the data
  bool check = true;                     // the interpreter's checks
};

// "" or what differs. Each operand ends at a page that can't be read, so that a byte outside is a
// crash.
std::string Compare(const loops::LoopNest& nest, const Target& target,
                    const CompareOptions& options = {});
// Compiles only: "" or what is wrong, symbols that are not defined among it.
std::string CompilesFor(const loops::LoopNest& nest, const Target& target);

}  // namespace weft::codegen
