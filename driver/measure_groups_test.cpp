// What a measured build decides by: records first, the clock only where there are none.
#include "driver/measure_groups.h"

#include <fmt/format.h>

#include <atomic>
#include <set>

#include "base/cache/tuning_db.h"
#include "driver/testing.h"

namespace weft::driver {
namespace {

using partition::Grouping;
using partition::Implementation;
using Force = partition::PartitionOptions::Force;
using testing::Advanced;
using testing::Options;

// One group, whoever does it.
constexpr const char* kNetwork =
    "graph g (x: f32[40, 48], w: f32[48, 56]) -> (y) {\ny = MatMul(x, w)\n}";

TuningRecord Exactly(double us) {
  return {.median_us = us, .low_us = us, .high_us = us, .samples = 9};
}

// Eight channels a group: lanes along the width with rows of channels or of the image.
constexpr const char* kGrouped =
    "graph g (x: f32[1, 64, 14, 14], w: f32[64, 8, 3, 3]) -> (y) {\n"
    "y = Conv(x, w) {group = 8, pads = [1, 1, 1, 1]}\n}";

class MeasureTest : public testing::CacheTest {
 protected:
  void SetUp() override {
    CacheTest::SetUp();
    if (!testing::HasOnednn()) GTEST_SKIP() << "without oneDNN there is nothing to choose between";
    db_ = *TuningDb::Open(":memory:");
  }

  std::string network_ = kNetwork;

  Module Forced(Force force, int32_t kind = 0) {
    BuildOptions options = Options();
    options.partition.force = force;
    Module module = Advanced(network_, Form::kGroups, options);
    EXPECT_EQ(module.grouping.groups.size(), 1u);
    module.grouping.groups[0].kind = kind;
    EXPECT_TRUE(Advance(module, Form::kCall, options).ok());
    return module;
  }

  // Says how long one way takes: its step, and the network as a whole.
  void Plant(Force force, double step_us, double network_us, int32_t kind = 0) {
    const Module module = Forced(force, kind);
    const auto keys = StepKeys(module);
    ASSERT_TRUE(keys.ok() && keys->size() == 1 && keys->front());
    db_->Store(*keys->front(), Exactly(step_us));
    db_->Store(NetworkKey(GraphText(module), module.target, *keys), Exactly(network_us));
  }

  Module Measured(double budget_s, const std::atomic<bool>* stop = nullptr,
                  Force force = Force::kNone) {
    BuildOptions options = Options();
    options.partition.force = force;
    options.budget_s = budget_s;
    options.tuning = db_.get();
    options.cache = &*cache_;
    options.stop = stop;
    options.decided = decided_;
    return Advanced(network_, Form::kGroups, options);
  }

  // By records alone: nothing is compiled, so nothing ran, and nothing is added.
  Implementation ByRecords() {
    const int64_t before = db_->size();
    const auto grouping = Measured(10).grouping;
    EXPECT_TRUE(Files("so").empty());
    EXPECT_EQ(db_->size(), before);
    EXPECT_EQ(grouping.groups.size(), 1u);
    EXPECT_TRUE(grouping.groups[0].measured);
    return grouping.groups[0].implementation;
  }

  std::unique_ptr<TuningDb> db_;
  std::set<TuningKey>* decided_ = nullptr;
};

TEST_F(MeasureTest, RecordsDecide) {
  Plant(Force::kVendor, 50, 60);
  Plant(Force::kOwn, 20, 30);
  EXPECT_EQ(ByRecords(), Implementation::kOwn);
  Plant(Force::kOwn, 80, 90);
  EXPECT_EQ(ByRecords(), Implementation::kVendor);
}

TEST_F(MeasureTest, TheModelIsNotTrustedWithKindsOfTiles) {
  network_ = kGrouped;
  ASSERT_NE(Forced(Force::kOwn, 1).choices, Forced(Force::kOwn).choices);
  for (const int32_t best : {0, 1}) {
    Plant(Force::kVendor, 50, 60);
    Plant(Force::kOwn, 30, 40);
    Plant(Force::kOwn, best == 1 ? 20 : 40, best == 1 ? 30 : 50, 1);
    EXPECT_EQ(ByRecords(), Implementation::kOwn);
    EXPECT_EQ(Measured(10).grouping.groups[0].kind, best);
  }
}

// Where own kernels are forced they are what is chosen from, whatever is on record of calls.
TEST_F(MeasureTest, OwnKernelsAreMeasuredWhereTheyAreForced) {
  network_ = kGrouped;
  Plant(Force::kVendor, 1, 1);
  for (const int32_t best : {0, 1}) {
    for (const int32_t kind : {0, 1}) {
      const double us = kind == best ? 20 : 50;
      Plant(Force::kOwn, us, us, kind);
    }
    const partition::Group group = Measured(10, nullptr, Force::kOwn).grouping.groups[0];
    EXPECT_EQ(group.implementation, Implementation::kOwn);
    EXPECT_EQ(group.kind, best);
    EXPECT_TRUE(group.measured);
    EXPECT_EQ(group.us, 20);
  }
}

TEST_F(MeasureTest, ARecordsFiguresAreTheGroups) {
  Plant(Force::kVendor, 50, 60);
  Plant(Force::kOwn, 20, 30);
  EXPECT_EQ(Measured(10).grouping.groups[0].us, 20);
}

TEST_F(MeasureTest, AmongEqualsTheLibraryStays) {
  Plant(Force::kOwn, 50, 60);
  Plant(Force::kVendor, 50, 60);
  EXPECT_EQ(ByRecords(), Implementation::kVendor);
}

TEST_F(MeasureTest, TheWholeHasTheLastWord) {
  Plant(Force::kVendor, 50, 60);
  Plant(Force::kOwn, 20, 60 * 1.01);  // no slower, but for noise
  EXPECT_EQ(ByRecords(), Implementation::kOwn);
  Plant(Force::kOwn, 20, 60 * 1.05);
  EXPECT_EQ(ByRecords(), Implementation::kVendor);
}

TEST_F(MeasureTest, WithoutRecordsTheClockDecides) {
  const Module first = Measured(2);
  EXPECT_FALSE(Files("so").empty());
  const int64_t records = db_->size();
  EXPECT_GE(records, 4);  // two steps, two networks
  EXPECT_EQ(partition::Print(Measured(2).grouping, first.graph),
            partition::Print(first.grouping, first.graph));
  EXPECT_EQ(db_->size(), records);
}

// Times that no clock says, for one of two ways: both are measured, in turns.
TEST_F(MeasureTest, WhatIsMeasuredTogetherIsCompared) {
  for (const double us : {1e-3, 1e6}) {
    db_ = *TuningDb::Open(":memory:");
    Plant(Force::kVendor, us, us);
    const Module first = Measured(2);
    const auto keys = *StepKeys(Forced(Force::kVendor));
    const TuningKey whole = NetworkKey(GraphText(first), first.target, keys);
    for (const TuningKey& key : {*keys.front(), whole}) {
      EXPECT_GT(db_->Find(key)->median_us, 1e-3);
      EXPECT_LT(db_->Find(key)->median_us, 1e6);
    }
    const int64_t records = db_->size();
    EXPECT_EQ(partition::Print(Measured(2).grouping, first.graph),
              partition::Print(first.grouping, first.graph));
    EXPECT_EQ(db_->size(), records);
  }
}

// A second build has to find what the first one's parts each went by.
TEST_F(MeasureTest, WhatAnotherPartOfABuildWentByStays) {
  Plant(Force::kVendor, 1e-3, 1e-3);
  const auto keys = *StepKeys(Forced(Force::kVendor));
  std::set<TuningKey> decided = {*keys.front()};
  decided_ = &decided;
  EXPECT_TRUE(Measured(2).grouping.groups[0].measured);
  EXPECT_EQ(db_->Find(*keys.front())->median_us, 1e-3);
  EXPECT_GT(decided.size(), 2u);
}

// What is on record may be better than what was measured in a hurry, but not together with it.
TEST_F(MeasureTest, AHurryChangesNoRecord) {
  Plant(Force::kVendor, 1e-3, 1e-3);
  const std::atomic<bool> stop = true;
  const Module module = Measured(10, &stop);
  EXPECT_GT(module.grouping.groups[0].us, 1e-3);
  EXPECT_EQ(db_->Find(*StepKeys(Forced(Force::kVendor))->front())->median_us, 1e-3);
  EXPECT_EQ(db_->size(), 2);
}

// Own kernels round to 16 bits where a library's call rounds once behind its epilogue: neither is
// wrong.
TEST_F(MeasureTest, RoundingsOf16BitsAreNoDisagreement) {
  std::string text = "graph g (x: bf16[16, 64], w: bf16[64, 64], b: bf16[64]) -> (y) {\n";
  constexpr int kLayers = 12;
  for (int i = 0; i < kLayers; ++i)
    text += fmt::format("m{0} = MatMul({1}, w)\ns{0} = Add(m{0}, b)\n{2} = Gelu(s{0})\n", i,
                        i == 0 ? "x" : fmt::format("g{}", i - 1),
                        i + 1 == kLayers ? "y" : fmt::format("g{}", i));
  BuildOptions options = Options();
  options.budget_s = 2;
  options.tuning = db_.get();
  options.cache = &*cache_;
  EXPECT_FALSE(Advanced(text + "}", Form::kGroups, options).grouping.groups.empty());
}

// The logistic map doubles what sums rounded differently in the library and here.
TEST_F(MeasureTest, WhatRoundingMovesIsNoDisagreement) {
  std::string text =
      "graph g (x: f32[40, 48], w: f32[48, 56]) -> (y) {\nfour: f32[1] = const(4)\n"
      "one: f32[1] = const(1)\nm = MatMul(x, w)\nz0 = Sigmoid(m)\n";
  constexpr int kSteps = 40;
  for (int i = 0; i < kSteps; ++i)
    text += fmt::format("a{0} = Sub(one, z{0})\nb{0} = Mul(a{0}, z{0})\n{1} = Mul(b{0}, four)\n", i,
                        i + 1 == kSteps ? "y" : fmt::format("z{}", i + 1));
  BuildOptions options = Options();
  options.budget_s = 2;
  options.tuning = db_.get();
  options.cache = &*cache_;
  EXPECT_FALSE(Advanced(text + "}", Form::kGroups, options).grouping.groups.empty());
}

// The library adds up in another order, so a few of the bytes are their neighbours.
TEST_F(MeasureTest, AStepThatFallsToTheOtherSideIsNoDisagreement) {
  BuildOptions options = Options();
  options.budget_s = 2;
  options.tuning = db_.get();
  options.cache = &*cache_;
  const Module measured = Advanced(
      "graph g (x: f32[128, 1024], w: f32[1024, 512]) -> (y) {\n"
      "scale: f32[] = const(0.01)\nzero: u8[] = const(128)\nm = MatMul(x, w)\n"
      "y = QuantizeLinear(m, scale, zero)\n}",
      Form::kGroups, options);
  EXPECT_FALSE(measured.grouping.groups.empty());
}

// Numbers between -100 and 100 that are no rows of a table of 40.
TEST_F(MeasureTest, WhatGeneratedDataCanNotRunIsEstimated) {
  network_ =
      "graph g (x: f32[40], w: f32[40, 56]) -> (y) {\nmany: f32[] = const(100)\n"
      "a = Mul(x, many)\ni = Cast(a) {to = 7}\ny = Gather(w, i)\n}";
  const Grouping grouping = Measured(2).grouping;
  ASSERT_FALSE(grouping.groups.empty());
  for (const partition::Group& group : grouping.groups) EXPECT_FALSE(group.measured);
}

// Natives are taken for being there, not for their times.
TEST_F(MeasureTest, CallsAreForcedWhateverTheBudget) {
  BuildOptions options = Options();
  options.partition.force = Force::kCalls;
  const std::string network =
      "graph g (x: f32[16, 64], w: f32[64, 32]) -> (b) {\na = MatMul(x, w)\n"
      "axis: i64[] = const(1)\nb = CumSum(a, axis)\n}";
  const Module estimated = Advanced(network, Form::kGroups, options);
  options.budget_s = 2;
  const Module measured = Advanced(network, Form::kGroups, options);
  EXPECT_EQ(partition::Print(measured.grouping, measured.graph),
            partition::Print(estimated.grouping, estimated.graph));
  EXPECT_EQ(measured.grouping.groups.back().implementation, Implementation::kNative);
}

TEST_F(MeasureTest, WhatThisProcessorDoesNotRunIsEstimated) {
  BuildOptions options = Options();
  options.target.isa = Isa::kSm90;  // no processor does
  options.budget_s = 2;
  const Module module = Advanced(kNetwork, Form::kGroups, options);
  ASSERT_EQ(module.grouping.groups.size(), 1u);
  EXPECT_FALSE(module.grouping.groups[0].measured);
}

TEST_F(MeasureTest, AHurryLeavesNoRecord) {
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(Measured(10, &stop).grouping.groups[0].measured);
  EXPECT_EQ(db_->size(), 0);
}

TEST_F(MeasureTest, AnotherTargetIsAnotherRecord) {
  const Module module = Forced(Force::kOwn);
  BuildOptions options = Options();
  options.partition.force = Force::kOwn;
  options.target.threads = 1;
  const Module other = Advanced(kNetwork, Form::kCall, options);
  const auto keys = *StepKeys(module), others = *StepKeys(other);
  EXPECT_NE(keys[0], others[0]);
  const auto key = [](const Module& of, const auto& steps) {
    return NetworkKey(GraphText(of), of.target, steps);
  };
  EXPECT_NE(key(module, keys), key(other, others));
  EXPECT_NE(key(module, keys), key(module, *StepKeys(Forced(Force::kVendor))));
}

}  // namespace
}  // namespace weft::driver
