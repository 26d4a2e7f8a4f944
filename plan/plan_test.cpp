#include "plan/plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "base/text.h"
#include "plan/file.h"
#include "plan/memory.h"
#include "plan/pack.h"

namespace weft::plan {
namespace {

// Two kernels over one arena buffer, a weight and a view: every kind of line but calls.
Plan SmallPlan() {
  Plan plan{
      .name = "small", .model_hash = "ab", .weft = "weft 0", .codegen = "none", .libraries = ""};
  plan.target.threads = 2;
  plan.kernels = {
      {.name = "first",
       .loops = "loops first (a: in f32[2, 3], w: in f32[4] align 64, b: out f32[2, 3]) {\n}\n",
       .key = "00ff"},
      {.name = "second",
       .loops = "loops second (a: in f32[6], b: out f32[6]) for \"n {\" {\n}\n",
       .key = "00ff"}};
  for (const Kernel& k : plan.kernels) plan.blobs.Put(TextBlob(k.loops));
  Tensor weight(Dtype::kF32, {4});
  for (int i = 0; i < 4; ++i) weight.mutable_as<float>()[i] = static_cast<float>(i);
  Specialization s;
  const auto add = [&](std::string name, Shape shape, BufferKind kind) {
    Buffer b{.name = std::move(name), .shape = std::move(shape), .kind = kind};
    b.layout = Layout::Plain(b.shape.size());
    b.bytes = *BufferBytes(b);
    s.buffers.push_back(std::move(b));
    return BufferId(s.buffers.size() - 1);
  };
  const BufferId in = add("in put", {2, 3}, BufferKind::kInput),
                 w = add("w", {4}, BufferKind::kWeight);
  s.buffers[w.index].blob = plan.blobs.Put(weight);
  const BufferId a = add("a", {2, 3}, BufferKind::kArena), b = add("b", {6}, BufferKind::kAlias);
  s.buffers[b.index].alias = a;
  const BufferId out = add("out", {6}, BufferKind::kOutput);
  s.inputs = {in};
  s.outputs = {out};
  s.steps = {{.kind = StepKind::kOwn,
              .name = "one",
              .kernel = KernelId(0),
              .inputs = {in, w},
              .outputs = {a},
              .us = 1.5,
              .flops = 12,
              .bytes = 64,
              .nodes = {"/a \"b\""}},
             {.kind = StepKind::kView, .name = "flat", .inputs = {a}, .outputs = {b}},
             {.kind = StepKind::kOwn,
              .name = "two",
              .kernel = KernelId(1),
              .inputs = {b},
              .outputs = {out},
              .measured = true}};
  EXPECT_TRUE(PlanMemory(s).ok());
  plan.specializations.push_back(std::move(s));
  return plan;
}

TEST(Plan, RoundTrips) {
  const Plan plan = SmallPlan();
  ASSERT_TRUE(Verify(plan).ok()) << Verify(plan).ToString();
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << Print(plan);
  EXPECT_TRUE(Equal(plan, *parsed));
  EXPECT_EQ(Print(plan), Print(*parsed));
}

// Texts from before steps said what they do read as if they said nothing.
TEST(Plan, WhatAStepDoesMayBeAbsent) {
  std::string text = Print(SmallPlan());
  const std::string_view said = " flops 12 bytes 64";
  ASSERT_NE(text.find(said), text.npos) << text;
  text.erase(text.find(said), said.size());
  auto parsed = ParsePlan(text, "t", SmallPlan().blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->specializations[0].steps[0].flops, 0);
  EXPECT_EQ(parsed->specializations[0].steps[0].bytes, 0);
  EXPECT_EQ(Print(*parsed), text);
}

TEST(Plan, FileRoundTripsToTheSameBytes) {
  const Plan plan = SmallPlan();
  auto bytes = SerializePlan(plan);
  ASSERT_TRUE(bytes.ok());
  auto read = ReadPlan(std::as_bytes(std::span(*bytes)), "t");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*SerializePlan(*read), *bytes);
}

TEST(Plan, EveryFlippedBitOfAFileIsNoticed) {
  const std::string bytes = *SerializePlan(SmallPlan());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    auto read = ReadPlan(std::as_bytes(std::span(damaged)), "t");
    ASSERT_FALSE(read.ok()) << "byte " << i;
    EXPECT_EQ(read.status().code(), Code::kInvalid);
    EXPECT_FALSE(read.status().where().empty());
  }
}

TEST(Plan, EveryTruncationAndAnyTailIsNoticed) {
  const std::string bytes = *SerializePlan(SmallPlan());
  for (size_t n = 0; n < bytes.size(); ++n)
    ASSERT_FALSE(ReadPlan(std::as_bytes(std::span(bytes).first(n)), "t").ok()) << n;
  const std::string longer = bytes + std::string(1, '\0');
  EXPECT_FALSE(ReadPlan(std::as_bytes(std::span(longer)), "t").ok());
}

TEST(Plan, AFileCutWhileItIsUsedChangesNothing) {
  const std::string path = ::testing::TempDir() + "weft_plan_cut_while_used.plan";
  const Plan plan = SmallPlan();
  ASSERT_TRUE(WritePlan(plan, path).ok());
  const auto read = ReadPlan(path);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_FALSE(read->blobs.Hashes().empty());
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(*SerializePlan(*read), *SerializePlan(plan));
  EXPECT_FALSE(ReadPlan(path).ok());
  std::filesystem::remove(path);
}

// A right hash does not make a plan right: structure is checked on its own.
TEST(Plan, VerifyFindsWrongStructure) {
  const auto broken = [](auto&& change) {
    Plan plan = SmallPlan();
    change(plan, plan.specializations[0]);
    const Status status = Verify(plan);
    return status.ok() ? std::string() : status.what();
  };
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[2].offset = 64; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[2].offset = -64; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.arena_bytes = 0; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[2].bytes += 4; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[1].blob = std::string(64, 'a'); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[3].alias = BufferId(4); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) {
              s.buffers[3].shape = {60};
              s.buffers[3].bytes = 240;
            }),
            "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[0].kernel = KernelId(9); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[0].inputs[0] = BufferId(77); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[0].inputs[0] = BufferId(4); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[2].outputs[0] = BufferId(0); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[1].outputs[0] = BufferId(4); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps.pop_back(); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[0].flops = -1; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.steps[0].bytes = -1; }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.buffers[2].last_step = 0; }), "");
  EXPECT_NE(broken([](Plan& p, Specialization&) { p.kernels[1].name = "first"; }), "");
  EXPECT_NE(broken([](Plan& p, Specialization&) { p.kernels[1].rank_scratch_bytes = -1; }), "");
  EXPECT_NE(broken([](Plan& p, Specialization&) { p.kernels[1].key = "../x"; }), "");
  EXPECT_NE(broken([](Plan& p, Specialization&) { p.kernels[1].key = ""; }), "");
  EXPECT_NE(broken([](Plan& p, Specialization&) {
              p.kernels[1].loops = "loops system (a: in f32[6], b: out f32[6]) {}";
            }),
            "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.inputs.clear(); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.inputs.push_back(s.inputs[0]); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.outputs[0] = BufferId(2); }), "");
  EXPECT_NE(broken([](Plan&, Specialization& s) { s.extents = {"n", "n"}; }), "");
  EXPECT_NE(
      broken([](Plan&, Specialization& s) { s.buffers[0].layout.row_pad_elems = INT64_MAX / 2; }),
      "");
}

// A loop over a value that a native step makes: what only a run decides.
Plan NestedPlan() {
  constexpr std::string_view kText = R"(
plan nested for "cpu:x86-64-v3 threads=2" {
  model "ab"
  versions "weft 0" "none" ""
  prices estimated
  specialization (x, more) -> (all, rows) arena 0 {
    buffer x: f32[4] input live 0:1
    buffer more: bool[] input live 0:1
    buffer found: i64 dynamic live 0:1
    buffer all: i64 dynamic live 1:1
    buffer rows: i64 dynamic live 1:1
    step native found (x) -> (found) us 0 estimated nodes ("n")
      call native.NonZero(in0 = x: f32[4] a) -> (out0 = found: i64[1, ?] ab) {from = ["n"]}
    step plan all (_, more, found) -> (all, rows) us 0 estimated nodes ("l")
      repeat states 1 blob("HASH", BYTES bytes)
  }
})";
  const std::string graph =
      "graph b (i: i64[], c: bool[], s: i64) -> (d, t, r) {\n  d: bool[] = Identity(c)\n  t: i64 = "
      "Add(s, i)\n  r: i64 = Neg(t)\n}\n";
  BlobStore blobs;
  const std::string hash = blobs.Put(TextBlob(graph));
  std::string text(kText);
  text.replace(text.find("HASH"), 4, hash);
  text.replace(text.find("BYTES"), 5, std::to_string(graph.size()));
  auto plan = ParsePlan(text, "nested", blobs);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *std::move(plan) : Plan();
}

TEST(Plan, NestedRoundTrips) {
  const Plan plan = NestedPlan();
  ASSERT_TRUE(Verify(plan).ok()) << Verify(plan).ToString();
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << Print(plan);
  EXPECT_TRUE(Equal(plan, *parsed));
  const std::string bytes = *SerializePlan(plan);
  auto read = ReadPlan(std::as_bytes(std::span(bytes)), "t");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*SerializePlan(*read), bytes);
}

TEST(Plan, StepsShareTheGraphsThatTheyName) {
  Plan plan = NestedPlan();
  plan.specializations.push_back(plan.specializations[0]);
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto graph = [&](size_t s) { return parsed->specializations[s].steps[1].nested.graphs[0]; };
  EXPECT_EQ(graph(0), graph(1));
}

TEST(Plan, KernelsHaveNestsOfTheirOwn) {
  Plan plan = SmallPlan();
  plan.kernels[1].loops = plan.kernels[0].loops;
  BlobStore blobs;
  blobs.Put(TextBlob(plan.kernels[0].loops));
  EXPECT_NE(ParsePlan(Print(plan), "t", blobs).status().what().find("another one's nest"),
            std::string::npos);
}

TEST(Plan, VerifyComparesNestedStepsWithTheirGraphs) {
  const auto broken = [](auto&& change) {
    Plan plan = NestedPlan();
    change(plan.specializations[0], plan.specializations[0].steps[1]);
    const Status status = Verify(plan);
    return status.ok() ? std::string() : status.what();
  };
  const auto with = [&](std::string_view from, std::string_view to) {
    return broken([&](Specialization&, Step& step) {
      std::string text = *step.nested.graphs[0];
      text.replace(text.find(from), from.size(), to);
      step.nested.graphs[0] = std::make_shared<const std::string>(std::move(text));
    });
  };
  EXPECT_EQ(broken([](Specialization&, Step&) {}), "");
  EXPECT_EQ(with("Neg(t)", "Neg(u)"), "value u is not defined before its use");
  EXPECT_NE(with("s: i64", "s: f32"), "");
  EXPECT_NE(with("d: bool[]", "d: i64[]"), "");
  EXPECT_NE(with("t: i64 =", "t: f32 ="), "");
  EXPECT_NE(with("(d, t, r)", "(d, t)"), "");
  EXPECT_NE(with(", s: i64)", ")"), "");
  EXPECT_NE(with("Identity(c)", "Loop(i, c) {body = graph7}"), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.graphs.clear(); }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.states = 2; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.states = -1; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.states = INT64_MAX; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.control = Control::kStage; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.nested.control = Control::kBranch; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.inputs[2] = {}; }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.inputs[1] = BufferId(0); }), "");
  EXPECT_NE(broken([](Specialization&, Step& s) { s.inputs[2] = BufferId(3); }), "");  // its own
  EXPECT_NE(broken([](Specialization& s, Step&) { s.buffers[2].shape = {4}; }), "");
  EXPECT_NE(broken([](Specialization& s, Step&) { s.steps[0].inputs[0] = BufferId(2); }), "");
  EXPECT_NE(broken([](Specialization& s, Step&) { s.buffers[2].last_step = 0; }), "");
}

// The same steps, started as grids.
Plan SmallCudaPlan() {
  Plan plan = SmallPlan();
  plan.target = *ParseTarget("cuda:sm_90");
  plan.kernels[0].launch = {
      .grid = {3, 2, 1}, .block = {32, 1, 4}, .shared_bytes = 1040, .scratch_bytes = 64};
  plan.kernels[1].launch.emplace();
  return plan;
}

TEST(Plan, CudaRoundTrips) {
  const Plan plan = SmallCudaPlan();
  ASSERT_TRUE(Verify(plan).ok()) << Verify(plan).ToString();
  EXPECT_NE(Print(plan).find(
                "kernel first key \"00ff\" grid [3, 2, 1] block [32, 1, 4] shared 1040 scratch 64"),
            std::string::npos)
      << Print(plan);
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << Print(plan);
  EXPECT_TRUE(Equal(plan, *parsed));
  EXPECT_EQ(parsed->kernels[0].launch, plan.kernels[0].launch);
  const std::string bytes = *SerializePlan(plan);
  auto read = ReadPlan(std::as_bytes(std::span(bytes)), "t");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*SerializePlan(*read), bytes);
}

TEST(Plan, KernelsOfSeveralLaunchesRoundTrip) {
  Plan plan = SmallCudaPlan();
  CudaLaunch& first = *plan.kernels[0].launch;
  first.grid_bytes = 4800;
  first.then = {{.grid = {2, 1, 1}, .block = {64, 1, 1}}, {.shared_bytes = 16}};
  ASSERT_TRUE(Verify(plan).ok()) << Verify(plan).ToString();
  EXPECT_NE(Print(plan).find("shared 1040 scratch 64 then grid [2, 1, 1] block [64, 1, 1] shared 0 "
                             "scratch 0 then grid [1, 1, 1] block [1, 1, 1] shared 16 scratch 0 "
                             "of_grid 4800 loops"),
            std::string::npos)
      << Print(plan);
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << Print(plan);
  EXPECT_EQ(parsed->kernels[0].launch, plan.kernels[0].launch);
  EXPECT_EQ(LaunchSymbol("first", 0), "first");
  EXPECT_EQ(LaunchSymbol("first", 2), "first_2");
}

TEST(Plan, VerifyRefusesLaunchesThatNoDeviceTakes) {
  const auto broken = [](auto&& change) {
    Plan plan = SmallCudaPlan();
    change(plan, plan.kernels[0], *plan.kernels[0].launch);
    const Status status = Verify(plan);
    return status.ok() ? std::string() : status.what();
  };
  EXPECT_EQ(broken([](Plan&, Kernel&, CudaLaunch&) {}), "");
  EXPECT_EQ(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid[0] = 0; }),
            "found a grid along x of 0, expected 1 to 2147483647");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid = {INT64_MIN, 1, 1}; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid[1] = 65536; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid = {INT32_MAX, 65535, 65535}; }),
            "");  // its scratch
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.block[0] = 0; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.block[2] = 65; }), "");
  EXPECT_EQ(broken([](Plan&, Kernel&, CudaLaunch& l) { l.block = {64, 32, 1}; }),
            "found threads of a block of 2048, expected 1 to 1024");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.block = {INT64_MAX, INT64_MAX, 1}; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.shared_bytes = (48 << 10) + 1; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.shared_bytes = -1; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.scratch_bytes = INT64_MAX; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid_bytes = -1; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.grid_bytes = INT64_MAX; }), "");
  EXPECT_EQ(broken([](Plan&, Kernel&, CudaLaunch& l) { l.then.resize(2); }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.then = {{.grid = {0, 1, 1}}}; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.then = {{.grid_bytes = 64}}; }), "");
  EXPECT_NE(broken([](Plan&, Kernel&, CudaLaunch& l) { l.then = {{.then = {{}}}}; }), "");
  EXPECT_NE(broken([](Plan&, Kernel& k, CudaLaunch&) { k.launch.reset(); }), "");
  EXPECT_NE(broken([](Plan&, Kernel& k, CudaLaunch&) { k.rank_scratch_bytes = 64; }), "");
  EXPECT_NE(broken([](Plan& p, Kernel&, CudaLaunch&) { p.target = *ParseTarget("cpu:x86-64-v3"); }),
            "");
  for (const std::string name : {"", "1st", "a b", "x() {} /*", "na\xc3\xafve"})
    EXPECT_NE(broken([&](Plan&, Kernel& k, CudaLaunch&) {
                k.name = name;
                k.loops = "loops " + PrintName(name) +
                          " (a: in f32[2, 3], w: in f32[4], b: out f32[2, 3]) {\n}\n";
              }),
              "")
        << name;
}

// A key is what machine code is trusted by, so all that a kernel may touch goes into it.
TEST(Plan, TheKeyOfAKernelCoversItsLaunch) {
  const Kernel kernel = SmallCudaPlan().kernels[0];
  const auto key = [&](auto&& change) {
    Kernel other = kernel;
    change(*other.launch);
    return KernelKey(other, Isa::kSm90, "nvrtc");
  };
  std::set<std::string> keys = {KernelKey(kernel, Isa::kSm80, "nvrtc"),
                                KernelKey(kernel, Isa::kSm90, "nvrtc 2")};
  keys.insert(key([](CudaLaunch&) {}));
  keys.insert(key([](CudaLaunch& l) { l.grid = {2, 3, 1}; }));
  keys.insert(key([](CudaLaunch& l) { l.block = {1, 32, 4}; }));
  keys.insert(key([](CudaLaunch& l) { l.shared_bytes = 0; }));
  keys.insert(key([](CudaLaunch& l) { l.scratch_bytes = 0; }));
  keys.insert(key([](CudaLaunch& l) { l.grid_bytes = 64; }));
  keys.insert(key([](CudaLaunch& l) { l.then.resize(1); }));
  keys.insert(key([](CudaLaunch& l) { l.then.resize(2); }));
  EXPECT_EQ(keys.size(), 10u);
}

// Machine code trusts its nest, so a step must give it operands of that many bytes, in that order.
TEST(Plan, VerifyComparesStepsWithTheNestsOfTheirKernels) {
  const auto broken = [](const char* loops) {
    Plan plan = SmallPlan();
    plan.kernels[1].loops = loops;
    const Status status = Verify(plan);
    return status.ok() ? std::string() : status.what();
  };
  EXPECT_EQ(broken("loops second (a: in f32[2, 3], b: out f32[6]) {"), "");
  EXPECT_EQ(broken("loops second (a: in f32[6], b: inout f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[7], b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in i32[6], b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[6], b: out f32[6] layout \"a+2\") {"), "");
  EXPECT_NE(broken("loops second (a: out f32[6], b: in f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[6]) {"), "");
  EXPECT_NE(broken("loops second <n> (a: in f32[n], b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[3 + 1000000], b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[(6)], b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second (a: in f32[6] align 4096, b: out f32[6]) {"), "");
  EXPECT_NE(broken("loops second"), "");
  EXPECT_NE(broken(""), "");
}

TEST(Plan, AnUnderscoreIsAName) {
  Plan plan = SmallPlan();
  plan.specializations[0].buffers[0].name = "_";
  auto parsed = ParsePlan(Print(plan), "t", plan.blobs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_TRUE(Equal(plan, *parsed));
}

TEST(Plan, VerifyFindsOverlapsOfWhatIsLiveAtOnce) {
  Plan plan = SmallPlan();
  Specialization& s = plan.specializations[0];
  plan.kernels[0].loops =
      "loops first (a: in f32[2, 3], w: in f32[4], b: out f32[2, 3], c: out f32[2, 3]) {\n}\n";
  Buffer other = s.buffers[2];
  other.name = "other";
  s.buffers.push_back(other);
  s.steps[0].outputs.push_back(BufferId(s.buffers.size() - 1));
  EXPECT_FALSE(Verify(plan).ok());
  ASSERT_TRUE(PlanMemory(s).ok());
  EXPECT_TRUE(Verify(plan).ok()) << Verify(plan).ToString();
}

// Random lifetimes: nothing that is live at once overlaps, and the arena stays near the lower
// bound.
TEST(PlanMemory, PlacesRandomLifetimesApart) {
  std::mt19937 random(1);
  double ratios = 0;
  for (int round = 0; round < 200; ++round) {
    Specialization s;
    const int steps = 1 + static_cast<int>(random() % 20);
    s.steps.resize(static_cast<size_t>(steps));
    for (int b = 0; b < 30; ++b) {
      Buffer buffer{.name = std::to_string(b),
                    .dtype = Dtype::kU8,
                    .shape = {static_cast<int64_t>(64 * (random() % 256))}};
      buffer.layout = Layout::Plain(1);
      buffer.bytes = buffer.shape[0];
      s.buffers.push_back(buffer);
      const size_t first = random() % s.steps.size(),
                   last = first + random() % (s.steps.size() - first);
      s.steps[first].outputs.push_back(BufferId(static_cast<size_t>(b)));
      s.steps[last].inputs.push_back(BufferId(static_cast<size_t>(b)));
    }
    ASSERT_TRUE(PlanMemory(s).ok());
    for (const Buffer& x : s.buffers)
      for (const Buffer& y : s.buffers) {
        if (&x == &y || x.first_step > y.last_step || y.first_step > x.last_step) continue;
        EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset || !x.bytes ||
                    !y.bytes);
      }
    EXPECT_GE(s.arena_bytes, MaximumLiveBytes(s));
    ratios += static_cast<double>(s.arena_bytes) / static_cast<double>(MaximumLiveBytes(s)) / 200;
  }
  EXPECT_LT(ratios, 1.01);  // 1.03 if big ones always come first
}

// What a step writes begins nowhere a little behind what it reads, modulo 4096.
TEST(PlanMemory, LargeBuffersHavePhases) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    Specialization s;
    s.steps.resize(12);
    for (size_t b = 0; b < s.steps.size() - 1; ++b) {
      Buffer buffer{.name = std::to_string(b), .dtype = Dtype::kU8};
      buffer.shape = {32768 + static_cast<int64_t>(random() % 300'000)};
      buffer.layout = Layout::Plain(1);
      buffer.bytes = buffer.shape[0];
      s.buffers.push_back(buffer);
      s.steps[b].outputs.push_back(BufferId(b));
      s.steps[b + 1].inputs.push_back(BufferId(b));
      s.steps[b + 1 + random() % (s.steps.size() - b - 1)].inputs.push_back(BufferId(b));
    }
    ASSERT_TRUE(PlanMemory(s).ok());
    for (const Step& step : s.steps)
      for (const BufferId in : step.inputs)
        for (const BufferId out : step.outputs) {
          const int64_t behind = s.buffers[out.index].offset - s.buffers[in.index].offset;
          const int64_t phase = (behind % 4096 + 4096) % 4096;
          EXPECT_TRUE(phase == 0 || phase > 512) << phase;
        }
  }
}

TEST(Pack, UnpackIsItsInverse) {
  for (const char* text : {"abcd", "acdb", "aBcd8b", "acdb+3", "dcba", "ABcd4a8b"}) {
    auto layout = ParseLayout(text);
    ASSERT_TRUE(layout.ok()) << layout.status().ToString();
    Tensor plain(Dtype::kF32, {3, 5, 2, 4});
    for (int64_t i = 0; i < plain.elems(); ++i)
      plain.mutable_as<float>()[i] = static_cast<float>(i + 1);
    const Tensor packed = Pack(plain, *layout);
    EXPECT_EQ(packed.elems(), AllocElems(*layout, plain.shape())) << text;
    EXPECT_TRUE(Unpack(packed, *layout, plain.shape()) == plain) << text;
  }
}

}  // namespace
}  // namespace weft::plan
