// Mapped groups against their meaning: whatever the mapping, a nest computes what the comprehension
// says, without a race, its text too, and NVRTC takes it.
#include "polyhedral/cuda/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

using polyhedral::CudaMapping;

CudaMapping ExpectMaps(std::string_view text, const std::map<std::string, int64_t>& sizes = {}) {
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return CudaMapping::kGrid;
  Batch batch;
  const auto mapping = batch.Add("", *program, tc::RandomInputs(*program, 1));
  EXPECT_TRUE(mapping.ok()) << mapping.status().ToString();
  batch.ExpectRight();
  batch.ExpectCompiles(1);
  return mapping.ok() ? *mapping : CudaMapping::kGrid;
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

TEST(CudaMap, AProductOfManyTilesIsTiles) {
  EXPECT_EQ(ExpectMaps(R"(def product(float(N, K) a, float(K, M) b, float(M) c) -> (y) {
      t(i, j) +=! a(i, k) * b(k, j)
      y(i, j) = max(t(i, j) + c(j), 0.0) })",
                       {{"N", 130}, {"M", 260}, {"K", 17}}),
            CudaMapping::kTiles);
}

// How many of a kind: `usual`, or what WEFT_RANDOM_PROGRAMS says (tools/random_programs.sh).
uint64_t Count(uint64_t usual) {
  const char* wanted = std::getenv("WEFT_RANDOM_PROGRAMS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

// How often each mapping was taken.
std::map<CudaMapping, int> ExpectRandomMaps(const tc::RandomOptions& options, uint64_t count) {
  constexpr uint64_t kAtOnce = 50;  // so that what was compiled does not fill the memory
  std::map<CudaMapping, int> taken;
  for (uint64_t seed = 1; seed <= count && !::testing::Test::HasFailure();) {
    Batch batch;
    for (const uint64_t end = std::min(count + 1, seed + kAtOnce); seed < end; ++seed) {
      const tc::Program program = tc::RandomProgram(seed, options);
      const auto mapping =
          batch.Add(fmt::format("seed {}", seed), program, tc::RandomInputs(program, seed));
      EXPECT_TRUE(mapping.ok()) << "seed " << seed << ": " << mapping.status().ToString() << "\n"
                                << tc::Print(program);
      if (mapping.ok()) ++taken[*mapping];
    }
    batch.ExpectRight();
    batch.ExpectCompiles(10);
  }
  return taken;
}

TEST(CudaMap, RandomProgramsKeepTheirMeaning) {
  auto taken = ExpectRandomMaps({}, Count(150));
  EXPECT_GT(taken[CudaMapping::kGrid], 0);
  EXPECT_GT(taken[CudaMapping::kBlock], 0);
}

TEST(CudaMap, TheWholeLanguageKeepsItsMeaning) {
  ExpectRandomMaps({.whole_language = true}, Count(100));
}

}  // namespace
}  // namespace weft::cuda_test
