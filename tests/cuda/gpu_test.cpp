// Kernels on a device compute the bits that their nests say. Skipped, with the reason, where there
// is none; written without one.
#include <fmt/format.h>

#include "codegen/reference/agree.h"
#include "polyhedral/cuda/map.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/device.h"
#include "tests/cuda/run.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

class CudaGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = Device::Open();
    if (!device.ok()) GTEST_SKIP() << device.status().ToString();
    device_ = *std::move(device);
  }

  // The nest by the device against its interpreter, and that against the comprehension.
  void ExpectRuns(const tc::Program& program, uint64_t seed) {
    auto scheduled = polyhedral::MapToCuda({.program = &program, .target = device_->target()});
    ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
    const loops::LoopNest& nest = scheduled->mapped.nest;
    const auto kernel = codegen::EmitCuda(nest, device_->target());
    ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
    const auto run = [&](std::span<void* const> operands, std::span<const int64_t> params,
                         KernelFault* fault) {
      return codegen::Agree(nest, operands, params, fault,
                            [&](std::span<void* const> own, KernelFault* found) {
                              return device_->Run(*kernel, nest, own, params, found);
                            });
    };
    const Status same = oracle::Compare({.program = &program,
                                         .inputs = tc::RandomInputs(program, seed),
                                         .machine = false,
                                         .run = run},
                                        {.program = &program, .target = device_->target()}, nest);
    EXPECT_TRUE(same.ok()) << "seed " << seed << ": " << same.ToString() << "\n"
                           << tc::Print(program) << loops::Print(nest);
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaGpu, RandomProgramsKeepTheirMeaning) {
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed)
    ExpectRuns(tc::RandomProgram(seed), seed);
}

TEST_F(CudaGpu, TheWholeLanguageKeepsItsMeaning) {
  for (uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed)
    ExpectRuns(tc::RandomProgram(seed, {.whole_language = true}), seed);
}

}  // namespace
}  // namespace weft::cuda_test
