// A nest from its text, and what is expected of it.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "codegen/llvm/compare_for_test.h"

namespace weft::codegen {

inline loops::LoopNest Nest(std::string_view text) {
  Result<loops::LoopNest> nest = loops::Parse(text, "test");
  EXPECT_TRUE(nest.ok()) << nest.status().ToString();
  return nest.ok() ? *std::move(nest) : loops::LoopNest{};
}

// Loops = kernel on what this machine runs; for the rest it is only compiled.
inline void Check(std::string_view text, const CompareOptions& options = {},
                  const std::vector<Isa>& isas = {Isa::kX86V3, Isa::kX86V4, Isa::kX86V4Vnni,
                                                  Isa::kX86V4Bf16, Isa::kX86V4Amx}) {
  const loops::LoopNest nest = Nest(text);
  const Status status = loops::Verify(nest);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (const Isa isa : isas) {
    const Target target{.isa = isa};
    if (HostRuns(isa)) {
      EXPECT_EQ(Compare(nest, target, options), "") << text;
    } else {
      EXPECT_EQ(CompilesFor(nest, target), "") << text;
    }
  }
}

}  // namespace weft::codegen
