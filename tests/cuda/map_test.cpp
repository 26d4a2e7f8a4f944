// Mapped groups against their meaning: whatever the mapping, a nest computes what the comprehension
// says, without a race, and NVRTC takes it.
#include "polyhedral/cuda/map.h"

#include <map>

#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/run.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

using polyhedral::CudaMapping;
using polyhedral::CudaScheduled;
using polyhedral::ScheduleRequest;

// Maps, runs and compares; the mapping that was taken.
CudaMapping ExpectMaps(const tc::Program& program, uint64_t seed, bool compile) {
  const ScheduleRequest request{.program = &program, .target = Sm90()};
  const Result<CudaScheduled> scheduled = polyhedral::MapToCuda(request);
  EXPECT_TRUE(scheduled.ok()) << scheduled.status().ToString() << "\n" << tc::Print(program);
  if (!scheduled.ok()) return CudaMapping::kGrid;
  const loops::LoopNest& nest = scheduled->mapped.nest;
  const Status same = oracle::Compare(
      {.program = &program, .inputs = tc::RandomInputs(program, seed), .machine = false}, request,
      nest);
  EXPECT_TRUE(same.ok()) << "seed " << seed << "\n"
                         << same.ToString() << "\n"
                         << tc::Print(program) << loops::Print(nest);
  if (compile) ExpectCompiles(nest);
  return scheduled->mapped.mapping;
}

CudaMapping ExpectMaps(std::string_view text, const std::map<std::string, int64_t>& sizes = {}) {
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? ExpectMaps(*program, 1, true) : CudaMapping::kGrid;
}

TEST(CudaMap, APointwiseChainIsAGrid) {
  EXPECT_EQ(ExpectMaps(R"(def chain(float(N, M) a, float(M) b) -> (y) {
      t(i, j) = a(i, j) * b(j)
      y(i, j) = max(t(i, j), 0.0) + exp(t(i, j)) })",
                       {{"N", 33}, {"M", 45}}),
            CudaMapping::kGrid);
}

TEST(CudaMap, SoftmaxIsRows) {
  EXPECT_EQ(ExpectMaps(R"(def softmax(float(N, M) x) -> (y) {
      top(i) max=! x(i, j)
      e(i, j) = exp(x(i, j) - top(i))
      sum(i) +=! e(i, j)
      y(i, j) = e(i, j) / sum(i) })",
                       {{"N", 5}, {"M", 300}}),
            CudaMapping::kRows);
}

TEST(CudaMap, WhatExchangesValuesIsOneBlock) {
  EXPECT_EQ(ExpectMaps(R"(def transposed_sums(float(N, M) x) -> (y) {
      rows(i) +=! x(i, j)
      columns(j) +=! x(i, j)
      y(i, j) = x(i, j) - rows(i) * columns(j) })",
                       {{"N", 20}, {"M", 30}}),
            CudaMapping::kBlock);
}

TEST(CudaMap, AProductIsAGrid) {
  EXPECT_EQ(ExpectMaps(R"(def product(float(N, K) a, float(K, M) b, float(M) c) -> (y) {
      t(i, j) +=! a(i, k) * b(k, j)
      y(i, j) = t(i, j) + c(j) })",
                       {{"N", 130}, {"M", 130}, {"K", 17}}),
            CudaMapping::kGrid);
}

TEST(CudaMap, RandomProgramsKeepTheirMeaning) {
  std::map<CudaMapping, int> taken;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const tc::Program program = tc::RandomProgram(seed);
    ++taken[ExpectMaps(program, seed, seed % 10 == 0)];
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(taken[CudaMapping::kGrid], 0);
  EXPECT_GT(taken[CudaMapping::kBlock], 0);
}

}  // namespace
}  // namespace weft::cuda_test
