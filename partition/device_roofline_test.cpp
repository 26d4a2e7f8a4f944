// What an estimate for a GPU must get right: which way is faster by far, and what grows with what.
#include "partition/device_roofline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "fallback/execute.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "tc_lang/bind.h"
#include "tc_lang/parser.h"
#include "tc_lang/to_tc.h"

namespace weft::partition {
namespace {

constexpr Isa kIsas[] = {Isa::kSm80, Isa::kSm90, Isa::kSm100};

double OwnUs(const std::string& text, Isa isa = Isa::kSm90) {
  const auto defs = tc::ParseDefs(text, "test");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return RooflinePricer({.kind = TargetKind::kCuda, .isa = isa}).Own(*program, false).us;
}

double CopyUs(int64_t elems, Isa isa) {
  return OwnUs(fmt::format("def g(float({}) x) -> (y) {{ @pointwise y(i) = x(i) * 2.0 }}", elems),
               isa);
}

std::string Product(int64_t m, int64_t k, int64_t n) {
  return fmt::format(
      "def g(float({}, {}) a, float({}, {}) b) -> (c) {{\n"
      "  @contraction c(i, j) +=! a(i, k) * b(k, j)\n}}",
      m, k, k, n);
}

double CallUs(int64_t m, int64_t k, int64_t n, Isa isa = Isa::kSm90) {
  const auto call = fallback::ParseCall(
      fmt::format("cublas.matmul(src = x: f32[{}, {}] ab, weights = w: f32[{}, {}] ab) -> "
                  "(dst = y: f32[{}, {}] ab)",
                  m, k, k, n, m, n),
      "test", BlobStore());
  EXPECT_TRUE(call.ok()) << call.status().ToString();
  return RooflinePricer({.kind = TargetKind::kCuda, .isa = isa}).Call(*call).us;
}

// Nothing is faster than the data sheet, and what fills the device is not far from it.
TEST(DeviceRoofline, StaysBelowTheDataSheet) {
  for (const Isa isa : kIsas) {
    const DeviceFigures device = FiguresOf(isa);
    const double bytes = 8.0 * (1 << 28), flops = 2.0 * 4096 * 4096 * 4096;
    EXPECT_GT(CopyUs(1 << 28, isa), bytes / device.memory_per_us);
    EXPECT_LT(CopyUs(1 << 28, isa), 1.3 * bytes / device.memory_per_us);
    for (const double us : {CallUs(4096, 4096, 4096, isa), OwnUs(Product(4096, 4096, 4096), isa)}) {
      EXPECT_GT(us, flops / device.flops_per_us);
      EXPECT_LT(us, 3 * flops / device.flops_per_us);
    }
  }
}

TEST(DeviceRoofline, NothingIsFasterThanALaunch) {
  EXPECT_GT(CopyUs(1, Isa::kSm90), 1);
  EXPECT_LT(CopyUs(1 << 14, Isa::kSm90), 2 * CopyUs(1, Isa::kSm90));
  EXPECT_GT(CopyUs(1 << 28, Isa::kSm90), 100 * CopyUs(1, Isa::kSm90));
}

// A sum that few results share: a library cuts it up, our tiles walk along it.
TEST(DeviceRoofline, FewResultsLeaveADeviceIdle) {
  EXPECT_GT(OwnUs(Product(16, 16384, 64)), 5 * CallUs(16, 16384, 64));
  EXPECT_GT(OwnUs(Product(16, 16384, 64)), 5 * OwnUs(Product(512, 512, 64)));
}

double RowsUs(int64_t m, int64_t n) {
  return OwnUs(
      fmt::format("def g(float({}, {}) x) -> (y) {{ @reduction y(i) +=! x(i, j) }}", m, n));
}

// A few rows do not have the threads that many have, where they are too short to be cut up.
TEST(DeviceRoofline, RowsWantThreads) {
  EXPECT_GT(RowsUs(2, 1 << 16), 1.5 * RowsUs(1 << 9, 1 << 8));
}

// Several sums of a row are one launch, where the blocks of a cluster hold it.
TEST(DeviceRoofline, RowsOfAClusterAreNotCutUp) {
  const auto us = [](Isa isa, int64_t n) {
    return OwnUs(
        fmt::format("def g(float(8, {}) x) -> (y) {{ m(i) max=! x(i, j) s(i) +=! x(i, j) - "
                    "m(i) y(i, j) = x(i, j) / s(i) }}",
                    n),
        isa);
  };
  EXPECT_LT(us(Isa::kSm90, 1 << 16), us(Isa::kSm80, 1 << 16) - 1.3);
  EXPECT_GT(us(Isa::kSm90, 1 << 20), us(Isa::kSm90, 1 << 16) + 1.3);
}

// Few long sums are cut up, for another launch.
TEST(DeviceRoofline, LongSumsFillADevice) {
  EXPECT_LT(RowsUs(2, 1 << 21), 2 * RowsUs(1 << 12, 1 << 10));
  EXPECT_GT(RowsUs(2, 1 << 21), RowsUs(1 << 12, 1 << 10));
  EXPECT_LT(RowsUs(1, 1 << 28), 1.3 * CopyUs(1 << 27, Isa::kSm90));
  const auto dot = [](int64_t n) {
    return OwnUs(fmt::format(
        "def g(float({0}) a, float({0}) b) -> (y) {{ @contraction y +=! a(k) * b(k) }}", n));
  };
  EXPECT_LT(dot(1 << 27), 1.3 * CopyUs(1 << 27, Isa::kSm90));
  const auto columns = [](int64_t m, int64_t n) {
    return OwnUs(
        fmt::format("def g(float({}, {}) x) -> (y) {{ @reduction y(j) +=! x(i, j) }}", m, n));
  };
  EXPECT_LT(columns(1 << 20, 64), 1.5 * columns(1 << 13, 1 << 13));
}

class OfferTest : public ::testing::Test {
 protected:
  void TearDown() override {
    unsetenv("WEFT_CUBLAS");
    unsetenv("WEFT_CUDNN");
  }
  static Grouping Grouped(const std::string& text) {
    auto graph = graph::ParseGraph(text, "test", BlobStore());
    EXPECT_TRUE(graph.ok()) << graph.status().ToString();
    EXPECT_TRUE(graph::InferShapes(*graph).ok());
    NodeComprehensions nodes;
    for (size_t i = 0; i < graph->nodes.size(); ++i) {
      auto alternatives = tc::ToTc(*graph, graph::NodeId(i));
      nodes.of.push_back(alternatives.yes() ? *std::move(alternatives)
                                            : std::vector<tc::Alternative>());
      nodes.refusals.emplace_back();
    }
    const Target target{.kind = TargetKind::kCuda, .isa = Isa::kSm90};
    RooflinePricer pricer(target);
    auto grouping = Partition(*graph, nodes, target, pricer, {});
    EXPECT_TRUE(grouping.ok()) << grouping.status().ToString();
    return grouping.ok() ? *std::move(grouping) : Grouping();
  }
};

const std::string kProduct =
    "graph g (x: f32[16, 16384], w: f32[16384, 64]) -> (y) {\ny = MatMul(x, w)\n}";

// Own kernels and calls are in one table: what is dearer is the other's rival.
TEST_F(OfferTest, ACallIsTakenWhereItIsCheaper) {
  if (fallback::LibraryVersion(fallback::Library::kCublas).empty())
    GTEST_SKIP() << "no cuBLASLt can be loaded here";
  const Grouping calls = Grouped(kProduct);
  ASSERT_EQ(calls.groups.size(), 1u);
  EXPECT_EQ(calls.groups[0].library_call, "cublas.matmul");
  ASSERT_EQ(calls.groups[0].rivals.size(), 1u);
  EXPECT_EQ(calls.groups[0].rivals[0].kind, "own");
  EXPECT_GT(calls.groups[0].rivals[0].us, calls.groups[0].us);
  EXPECT_FALSE(calls.groups[0].measured);
  // What a kernel keeps on the chip, a library passes through memory.
  const Grouping own = Grouped(
      "graph g (x: f32[4096, 4], w: f32[4, 4096]) -> (y) {\nm = MatMul(x, w)\ne = Exp(m)\n"
      "y = Sigmoid(e)\n}");
  ASSERT_EQ(own.groups.size(), 1u);
  EXPECT_EQ(own.groups[0].implementation, Implementation::kOwn);
  ASSERT_EQ(own.groups[0].rivals.size(), 1u);
  EXPECT_EQ(own.groups[0].rivals[0].kind, "cublas.matmul");
}

TEST_F(OfferTest, WhatIsNotHereIsNotTaken) {
  setenv("WEFT_CUBLAS", "none", 1);
  setenv("WEFT_CUDNN", "none", 1);
  const Grouping grouping = Grouped(kProduct);
  ASSERT_EQ(grouping.groups.size(), 1u);
  EXPECT_EQ(grouping.groups[0].implementation, Implementation::kOwn);
  EXPECT_EQ(std::ranges::count(grouping.refused, Reason::kNotInLibrary,
                               [](const Refused& r) { return r.refusal.reason; }),
            1);
}

}  // namespace
}  // namespace weft::partition
