// Plans as they are put together: whose names buffers have, what is stored once, what steps say.
#include <algorithm>

#include "driver/stages.h"
#include "driver/testing.h"
#include "plan/file.h"

namespace weft::driver {
namespace {

using partition::Implementation;
using plan::BufferKind;
using testing::Advanced;
using testing::Options;
using Force = partition::PartitionOptions::Force;

Module Planned(const std::string& text, bool fuse = true) {
  BuildOptions options = Options();
  options.partition.force = Force::kOwn;
  options.partition.fuse = fuse;
  return Advanced(text, Form::kPlan, options);
}

const plan::Specialization& Spec(const Module& module) { return module.plan.specializations.at(0); }

std::vector<std::string> Names(const Module& module, const std::vector<plan::BufferId>& ids) {
  std::vector<std::string> names;
  for (plan::BufferId id : ids) names.push_back(Spec(module).buffers[id.index].name);
  return names;
}

int64_t Count(const Module& module, BufferKind kind) {
  return std::ranges::count(Spec(module).buffers, kind, &plan::Buffer::kind);
}

TEST(Assemble, InputsAndOutputsAreTheModels) {
  const Module m = Planned(
      "graph g (late: f32[4], early: f32[4], unused: f32[2]) -> (z, y) {\n"
      "y = Relu(early)\nz = Sub(y, late)\n}");
  EXPECT_EQ(Names(m, Spec(m).inputs), (std::vector<std::string>{"late", "early", "unused"}));
  EXPECT_EQ(Names(m, Spec(m).outputs), (std::vector<std::string>{"z", "y"}));
  EXPECT_EQ(Count(m, BufferKind::kInput), 3);
  EXPECT_EQ(Count(m, BufferKind::kOutput), 2);  // y too, though z is made of it
}

TEST(Assemble, WhatIsBetweenStepsLiesInTheArena) {
  const char* chain = "graph g (x: f32[4]) -> (z) {\ny = Relu(x)\nz = Neg(y)\n}";
  const Module fused = Planned(chain), apart = Planned(chain, /*fuse=*/false);
  EXPECT_EQ(Spec(fused).steps.size(), 1u);
  EXPECT_EQ(Count(fused, BufferKind::kArena), 0);
  EXPECT_EQ(Spec(fused).arena_bytes, 0);
  EXPECT_EQ(Spec(apart).steps.size(), 2u);
  EXPECT_EQ(Count(apart, BufferKind::kArena), 1);
  EXPECT_GE(Spec(apart).arena_bytes, 16);
}

TEST(Assemble, AWeightIsStoredOncePerLayout) {
  const Module m = Planned(
      "graph g (x: f32[2, 20], y: f32[2, 20]) -> (a, b) {\n"
      "w: f32[20] = const(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)\n"
      "a = Add(x, w)\nb = Mul(y, w)\n}",
      /*fuse=*/false);
  EXPECT_EQ(Spec(m).steps.size(), 2u);
  EXPECT_EQ(Count(m, BufferKind::kWeight), 1);
  const auto weight = std::ranges::find(Spec(m).buffers, BufferKind::kWeight, &plan::Buffer::kind);
  EXPECT_EQ(weight->name, "w");
  EXPECT_EQ(weight->bytes, 80);
  EXPECT_TRUE(m.plan.blobs.Bytes(weight->blob).ok());
}

TEST(Assemble, AStepSaysItsNodesAndItsWork) {
  const Module m = Planned(
      "graph g (x: f32[6, 5], w: f32[5, 3]) -> (y) {\n"
      "h = MatMul(x, w) {name = \"/fc\"}\ny = Relu(h) {name = \"/act\"}\n}");
  ASSERT_EQ(Spec(m).steps.size(), 1u);
  const plan::Step& step = Spec(m).steps[0];
  EXPECT_EQ(step.kind, plan::StepKind::kOwn);
  EXPECT_EQ(step.nodes, (std::vector<std::string>{"/fc", "/act"}));
  EXPECT_EQ(step.bytes, 4 * (6 * 5 + 5 * 3 + 6 * 3));
  const int64_t product = 2 * 6 * 5 * 3;
  EXPECT_GE(step.flops, product);
  EXPECT_LE(step.flops, product + 2 * 6 * 3);  // the activation, and no work of a schedule
  EXPECT_FALSE(step.measured || m.plan.measured);
}

TEST(Assemble, KernelsOfOneNameAreToldApart) {
  const Module narrow = Planned("graph g (x: f32[4]) -> (y) {\ny = Relu(x)\n}"),
               wide = Planned("graph g (x: f32[5]) -> (y) {\ny = Relu(x)\n}");
  ASSERT_EQ(narrow.grouping.groups[0].name, wide.grouping.groups[0].name);
  EXPECT_NE(narrow.plan.kernels[0].name, wide.plan.kernels[0].name);
  EXPECT_NE(narrow.plan.kernels[0].key, wide.plan.kernels[0].key);
}

// Layers repeat: what is the same but for names is compiled once, and each step has its own.
TEST(Assemble, LikeLayersShareAKernel) {
  const Module m = Planned(
      "graph g (x: f32[1, 8, 9, 9], v: f32[8, 8, 3, 3], w: f32[8, 8, 3, 3], u: f32[8, 8, 5, 5])"
      " -> (h) {\na = Conv(x, v) {pads = [1, 1, 1, 1]}\nb = Relu(a)\n"
      "c = Conv(b, w) {pads = [1, 1, 1, 1]}\nd = Relu(c)\n"
      "e = Conv(d, v) {pads = [1, 1, 1, 1]}\nf = Relu(e)\nh = Conv(f, u) {pads = [2, 2, 2, 2]}\n}");
  ASSERT_EQ(Spec(m).steps.size(), 4u);
  const plan::Step &second = Spec(m).steps[1], &third = Spec(m).steps[2];
  EXPECT_EQ(second.kernel, third.kernel);
  EXPECT_EQ(Names(m, second.inputs), (std::vector<std::string>{"b", "w"}));
  EXPECT_EQ(Names(m, third.inputs), (std::vector<std::string>{"d", "v"}));
  EXPECT_NE(second.name, third.name);
  EXPECT_NE(Spec(m).steps[3].kernel, third.kernel);
  EXPECT_NE(Spec(m).steps[0].kernel, third.kernel);  // x is plain, the others have channels last
}

TEST(Assemble, ANativeStepIsACall) {
  const Module m = Planned(
      "graph g (x: f32[9]) -> (values, places) {\nk: i64[1] = const(3)\n"
      "values, places = TopK(x, k)\n}");
  ASSERT_EQ(Spec(m).steps.size(), 1u);
  const plan::Step& step = Spec(m).steps[0];
  EXPECT_EQ(step.kind, plan::StepKind::kNative);
  EXPECT_EQ(step.call.op, "TopK");
  EXPECT_EQ(Names(m, step.outputs), (std::vector<std::string>{"values", "places"}));
  EXPECT_TRUE(m.plan.kernels.empty());
}

TEST(Assemble, TheSameModuleGivesTheSameBytes) {
  Module m = Planned("graph g (x: f32[3, 4]) -> (y, z) {\ny = Softmax(x)\nz = ReduceSum(y)\n}");
  const std::string bytes = *plan::SerializePlan(m.plan);
  m.plan = {};
  ASSERT_TRUE(MakePlan(m, Options()).ok());
  EXPECT_EQ(*plan::SerializePlan(m.plan), bytes);
}

TEST(Assemble, AnOutputIsNoView) {
  Module m =
      Advanced("graph g (x: f32[3, 4]) -> (y) {\ns: i64[1] = const(12)\ny = Reshape(x, s)\n}",
               Form::kCall, Options());
  for (partition::Group& group : m.grouping.groups) group.implementation = Implementation::kView;
  const Status status = MakePlan(m, Options());
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.what().find("view"), std::string::npos);
}

}  // namespace
}  // namespace weft::driver
