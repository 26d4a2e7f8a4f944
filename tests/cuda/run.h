// Mapped nests, executed by the interpreter and by their text on the CPU, and compiled for every
// CUDA target: no device is needed.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/emulate/emulate.h"
#include "codegen/cuda/kernel.h"
#include "codegen/reference/interpret.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::cuda_test {

inline Target Sm90() { return {.kind = TargetKind::kCuda, .isa = Isa::kSm90}; }

inline bool HasNvrtc() { return codegen::NvrtcVersion().ok(); }

inline loops::LoopNest ParseNest(std::string_view text) {
  Result<loops::LoopNest> nest = loops::Parse(text, "test");
  EXPECT_TRUE(nest.ok()) << nest.status().ToString();
  return nest.ok() ? *std::move(nest) : loops::LoopNest{};
}

inline loops::LoopNest VerifiedNest(std::string_view text) {
  loops::LoopNest nest = ParseNest(text);
  const Status status = loops::Verify(nest);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return nest;
}

// What the interpreter has against it; empty: nothing.
template <typename... T>
std::string Execute(const loops::LoopNest& nest, std::vector<T>&... operands) {
  std::vector<void*> pointers = {static_cast<void*>(operands.data())...};
  KernelFault fault{};
  const Status status = codegen::Interpret(nest, pointers, {}, &fault);
  return status.ok() ? "" : status.what();
}

// What the interpreter has against a nest, or the text against the interpreter; empty: nothing.
// `edit` changes the text first.
inline std::string CheckText(const loops::LoopNest& nest, const std::vector<void*>& operands,
                             const std::vector<int64_t>& params = {}, KernelFault* fault = nullptr,
                             const std::function<void(std::string&)>& edit = {}) {
  auto text = codegen::EmitCudaText(nest, Sm90());
  if (!text.ok()) return text.status().ToString();
  if (edit) edit(text->text);
  auto kernels = codegen::EmulatedKernels::Compile({*text});
  if (!kernels.ok()) return kernels.status().ToString();
  KernelFault own{};
  const Status status = kernels->Check(0, nest, operands, params, fault ? fault : &own);
  return status.ok() ? "" : status.what();
}

template <typename... T>
std::string ExecuteBoth(const loops::LoopNest& nest, std::vector<T>&... operands) {
  return CheckText(nest, {static_cast<void*>(operands.data())...});
}

// Compiles for each architecture, or says why nothing was compiled.
inline void ExpectCompiles(const loops::LoopNest& nest,
                           const std::vector<Isa>& isas = {Isa::kSm90}) {
  for (const Isa isa : isas) {
    const Target target{.kind = TargetKind::kCuda, .isa = isa};
    const auto text = codegen::EmitCudaText(nest, target);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    if (!HasNvrtc()) continue;
    const auto kernel = codegen::EmitCuda(nest, target);
    ASSERT_TRUE(kernel.ok()) << kernel.status().ToString() << "\n" << text->text;
    EXPECT_GT(kernel->cubin.image.size(), 500u);
    EXPECT_GT(kernel->cubin.resources.registers, 0);
  }
}

}  // namespace weft::cuda_test
