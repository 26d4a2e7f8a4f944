// Which nodes become one kernel, why others don't, and that neither depends on order or names.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <random>
#include <set>

#include "graph/edit.h"
#include "partition/layouts.h"
#include "partition/testing.h"
#include "partition/work.h"
#include "tc_lang/bind.h"

namespace weft::partition {
namespace {

TEST(Partition, FusesWhatIsLegalAndPays) {
  const auto fused = Grouped(Parsed(kChain));
  EXPECT_EQ(ReasonsOf(fused), kNone);
  ASSERT_EQ(fused->groups.size(), 1u);
  EXPECT_EQ(fused->groups[0].members.size(), 3u);
  EXPECT_EQ(Grouped(Parsed(kChain), Flat(), {.fuse = false, .vendor = false})->groups.size(), 3u);
}

TEST(Grouping, RefusalsAreOfNodes) {
  const Graph graph = Parsed(kChain);
  const auto grouping = Grouped(graph, Square());
  const std::string text = Print(*grouping, graph), whole = "refused {a, b}:";
  ASSERT_NE(text.find(whole), std::string::npos) << text;
  const auto says = [&](std::string_view refused) {
    std::string changed = text;
    changed.replace(changed.find(whole), whole.size(), refused);
    return ParseGrouping(changed, "f", graph).status().ToString();
  };
  EXPECT_NE(says("refused {a, a}:").find("found a node twice"), std::string::npos);
  EXPECT_NE(says("refused {}:").find("found a refusal of no node"), std::string::npos);
  EXPECT_NE(says("refused {d}:").find("no node that gives \"d\""), std::string::npos);
}

TEST(Partition, EstimatedSlower) {
  const auto grouping = Grouped(Parsed(kChain), Square());
  EXPECT_EQ(ReasonsOf(grouping), Only("estimated_slower"));
  EXPECT_EQ(grouping->groups.size(), 3u);
}

TEST(Partition, SaysWhichAlternativesItLeft) {
  const Graph graph = Parsed("graph g (x: f32[4, 1000]) -> (b) {\nb = Softmax(x)\n}");
  NodeComprehensions c = ComprehensionsOf(graph);
  ASSERT_EQ(c.of[0].size(), 2U);
  c.left_out[NodeId(0)].emplace("rough", Refusal{Reason::kInaccurate, "3.00 > 2.00"});
  Square pricer;
  const auto grouping = Partition(graph, c, {}, pricer, {.vendor = false});
  ASSERT_TRUE(grouping.ok());
  ASSERT_EQ(grouping->refused.size(), 2U);
  const auto& [slower, inaccurate] = std::tie(grouping->refused[0], grouping->refused[1]);
  EXPECT_EQ(slower.refusal.reason, Reason::kEstimatedSlower);
  EXPECT_NE(slower.refusal.detail.find(" >= "), std::string::npos) << slower.refusal.detail;
  EXPECT_EQ(inaccurate.refusal, (Refusal{Reason::kInaccurate, "rough 3.00 > 2.00"}));
}

// Of the forms of a softmax, here the one that takes most words; or else the first.
TEST(Partition, TakesTheCheapestAlternative) {
  struct ByText : Flat {
    Price Own(const tc::Program& p, bool) override {
      return {.us = 1e6 * std::pow(0.9, static_cast<double>(tc::Print(p).size()) / 10)};
    }
  };
  const Graph graph = Parsed(kSoftmax);
  const auto names = [&](const PartitionOptions& options) {
    std::vector<std::string> names;
    const auto grouping = Grouped(graph, ByText(), options);
    for (const Group& group : grouping->groups)
      for (const Member& m : group.members) names.push_back(m.alternative);
    return names;
  };
  const auto all = ComprehensionsOf(graph).of[1];
  ASSERT_GT(all.size(), 1u);
  const auto size = [](const tc::Alternative& a) { return tc::Print(a.program).size(); };
  const std::string cheapest = std::ranges::max_element(all, {}, size)->name;
  ASSERT_NE(cheapest, all[0].name);
  EXPECT_EQ(names({.fuse = false, .vendor = false}).back(), cheapest);
  EXPECT_EQ(names({.fuse = false, .vendor = false, .variants = false}).back(), all[0].name);
}

// Prices that the model does not tell apart leave the plainest.
// A softmax that stores its exponentials computes each once.
TEST(Partition, TakesTheEasiestOfEqualAlternatives) {
  struct Nearly : Flat {
    double us = 100;
    Price Own(const tc::Program&, bool) override { return {.us = us *= 0.99}; }
  };
  const Graph graph = Parsed(kSoftmax);
  const auto grouping = Grouped(graph, Nearly(), {.fuse = false, .vendor = false});
  EXPECT_EQ(grouping->groups.back().members.back().alternative, "stored");
}

tc::Program ProgramOf(const std::string& text) {
  const auto defs = tc::ParseDefs(text, "test");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

// Lanes at fractions of an index read one by one, unless they lie along another axis or are told
// apart by a residue.
TEST(Partition, CountsGatheredReads) {
  const auto gathered = [](const char* value, const char* layout) {
    const tc::Program program = ProgramOf(fmt::format(
        "def f(float(4, 8) x) -> (y) {{\n  y(i, j) = {} where i in 0:4, j in 0:16\n}}", value));
    return GatheredReads(program, {{"y", *ParseLayout(layout)}});
  };
  EXPECT_EQ(gathered("x(i, j / 2)", "ab"), 64);
  EXPECT_EQ(gathered("x(i, j / 2) + x(i, (j + 1) / 3)", "ab"), 128);
  EXPECT_EQ(gathered("x(i, j / 2)", "ba"), 0);
  EXPECT_EQ(gathered("j % 2 == 0 ? x(i, j / 2) : 0.0", "ab"), 0);
  EXPECT_EQ(gathered("x(i, i) + x(i, min(j, 7))", "ab"), 0);
}

double OwnUs(const char* text) { return RooflinePricer(Target{}).Own(ProgramOf(text), false).us; }

// Maxima over windows compare each element wherever they overlap; sums load it at any place as fast
// as elsewhere, unless lanes lie along the window.
TEST(Partition, CountsReadsOfWindows) {
  const auto reads = [](const char* assign, const char* layout) {
    const tc::Program program = ProgramOf(fmt::format(
        "def f(float(4, 10) x) -> (y) {{ y(c, i) {} x(c, i + k) where i in 0:8, k in 0:3 }}",
        assign));
    return WindowReads(program, {{"x", *ParseLayout(layout)}});
  };
  EXPECT_EQ(reads("+=!", "ab"), 96);
  EXPECT_EQ(reads("+=!", "ba"), 0);
  EXPECT_EQ(reads("max=!", "ab"), 96);
  EXPECT_EQ(reads("max=!", "ba"), 96);
}

TEST(Partition, CountsFunctionsOfEqualArgumentsOnce) {
  const auto calls = [](std::string_view value) {
    const tc::Program program =
        ProgramOf(fmt::format("def f(float(100) x) -> (y) {{ y(i) = {} }}", value));
    return std::pair(MathCalls(program), PiecewiseCalls(program));
  };
  EXPECT_EQ(calls("exp(x(i)) / (1.0 + exp(x(i)))"), std::pair(100., 100.));
  EXPECT_EQ(calls("exp(x(i)) / (1.0 + exp(-x(i)))"), std::pair(200., 200.));
  EXPECT_EQ(calls("tanh(log(x(i)))"), std::pair(200., 100.));
}

// What a contraction is fed from passes through memory: two such tensors of 8 MB cost more than
// the multiply-adds that they save.
TEST(Partition, PricesWhatPassesThroughMemory) {
  const double fed = OwnUs(
      "def g(float(2000, 1000) x, float(1000, 4) w) -> (y) {\n"
      "  @pointwise a(i, k) = x(i, k) * 2.0\n  @contraction y(i, j) +=! a(i, k) * w(k, j)\n}");
  const double direct = OwnUs(
      "def g(float(2000, 1000) x, float(1000, 4) w) -> (y) {\n"
      "  @contraction y(i, j) +=! x(i, k) * w(k, j)\n}");
  EXPECT_GT(fed, 2 * direct);
}

// The operands of two forms of one operator may be a little more and a little less than half of the
// last cache, which must not decide between them.
TEST(Partition, PricesCachesWithoutASharpEdge) {
  const auto us_per_byte = [](int64_t bytes) {
    const std::string text =
        fmt::format("def g(float({}) x) -> (y) {{ @pointwise y(i) = x(i) + 1.0 }}", bytes / 8);
    return OwnUs(text.c_str()) / static_cast<double>(bytes);
  };
  const int64_t cache = Target{}.l3_bytes;
  const double held = us_per_byte(cache / 2), memory = us_per_byte(cache);
  EXPECT_LT(us_per_byte(cache / 2 + cache / 64), 1.05 * held);
  EXPECT_GT(us_per_byte(cache * 3 / 4), 1.2 * held);
  EXPECT_LT(us_per_byte(cache * 3 / 4), memory / 1.2);
  EXPECT_NEAR(us_per_byte(4 * cache), memory, 0.01 * memory);
}

// Two wide groups cost what one product of as many multiply-adds does, however their index is
// written, where single columns cost more.
TEST(Partition, PricesGroupsByTheirColumns) {
  const auto grouped = [](int64_t columns) {
    return OwnUs(fmt::format("def g(float(196, {}) x, float(512, 128) w) -> (y) {{\n"
                             "  @contraction y(i, k) +=! x(i, 128*(k/{}) + c) * w(k, c)"
                             " where i in 0:196, k in 0:512, c in 0:128\n}}",
                             128 * 512 / columns, columns)
                     .c_str());
  };
  const double apart = OwnUs(
      "def g(float(196, 2, 128) x, float(2, 256, 128) w) -> (y) {\n"
      "  @contraction y(i, g, k) +=! x(i, g, c) * w(g, k, c)\n}");
  EXPECT_NEAR(grouped(256), apart, 0.02 * apart);
  EXPECT_GT(grouped(1), 1.5 * apart);
}

// A library's activation takes as long as ours, and a filter of one channel a group leaves much of
// the peak to either, more of it to us.
TEST(Partition, PricesActivationsAndGroupsOfCalls) {
  const auto price = [](int64_t groups, const char* post_ops, const char* layout = "acdb") {
    const auto call = fallback::ParseCall(
        fmt::format(
            "onednn.convolution(src = x: f32[1, 256, 28, 28] {0}, weights = w: f32[256, {1}, "
            "3, 3] abcd) -> (dst = y: f32[1, 256, 28, 28] {0}) {{dilations = [1, 1], group = "
            "{2}, pads = [1, 1, 1, 1], strides = [1, 1]{3}}}",
            layout, 256 / groups, groups, post_ops),
        "test", BlobStore());
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    return RooflinePricer(Target{}).Call(*call).us;
  };
  EXPECT_GT(price(128, ""), 3 * price(256, ""));  // two columns each: no vector of channels
  EXPECT_GT(price(256, ", post = [swish(1, 0)]"), 1.5 * price(256, ", post = [relu]"));
  // Between plain images, windows of a channel are copied and functions computed one by one.
  EXPECT_GT(price(256, "", "abcd"), 4 * price(256, ""));
  EXPECT_GT(price(1, ", post = [tanh]", "abcd"), price(1, ", post = [relu]", "abcd") + 1000);
  EXPECT_EQ(price(1, ", post = [relu]", "abcd"), price(1, ", post = [relu]"));
  EXPECT_GT(price(256, ""),
            1.5 * OwnUs("def g(float(256, 30, 30) x, float(256, 3, 3) w) -> (y) {\n"
                        "  @contraction y(c, i, j) +=! x(c, i + r, j + s) * w(c, r, s)"
                        " where i in 0:28, j in 0:28\n}"));
}

// One plain side is enough for functions behind a deconvolution to be computed one by one.
TEST(Partition, PricesFunctionsOfDeconvolutions) {
  const auto price = [](const char* from, const char* post_op) {
    const auto call = fallback::ParseCall(
        fmt::format("onednn.deconvolution(src = x: f32[1, 8, 84, 88] {}, weights = w: f32[8, 4, 2, "
                    "2] abcd) -> (dst = y: f32[1, 4, 168, 176] abcd) {{dilations = [1, 1], group = "
                    "1, pads = [0, 0, 0, 0], strides = [2, 2], post = [{}]}}",
                    from, post_op),
        "test", BlobStore());
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    return RooflinePricer(Target{}).Call(*call).us;
  };
  for (const char* from : {"abcd", "acdb"}) {
    EXPECT_GT(price(from, "relu"), 1000) << from;
    EXPECT_GT(price(from, "mish"), 3 * price(from, "relu")) << from;
  }
}

// A product costs the same whichever way its matrix lies.
TEST(Partition, PricesProductsOfTransposedMatrices) {
  const auto price = [](const char* shape, int transposed) {
    const auto call = fallback::ParseCall(
        fmt::format("onednn.matmul(src = x: f32[128, 16] ab, weights = w: f32[{}] any const) -> "
                    "(dst = y: f32[128, 1024] ab) {{trans_a = 0, trans_b = {}}}",
                    shape, transposed),
        "test", BlobStore());
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    return RooflinePricer(Target{}).Call(*call).us;
  };
  EXPECT_EQ(price("16, 1024", 0), price("1024, 16", 1));
}

// Without AVX-512 the library adds up the windows of a deconvolution one element at a time.
TEST(Partition, PricesDeconvolutionsByIsa) {
  const auto call = fallback::ParseCall(
      "onednn.deconvolution(src = x: f32[1, 16, 64, 64] abcd, weights = w: f32[16, 8, 4, 4] abcd) "
      "-> "
      "(dst = y: f32[1, 8, 128, 128] abcd) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], "
      "strides = [2, 2], post = []}",
      "test", BlobStore());
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const auto price = [&](Isa isa) { return RooflinePricer(Target{.isa = isa}).Call(*call).us; };
  EXPECT_GT(price(Isa::kX86V3), price(Isa::kX86V4) + 1000);
}

TEST(Partition, Forced) {
  const Graph graph =
      Parsed("graph g (x: f32[16, 64], w: f32[64, 32]) -> (a) {\na = MatMul(x, w)\n}");
  const auto grouping = Grouped(graph, Flat(), {.force = PartitionOptions::Force::kVendor});
  ASSERT_TRUE(grouping.ok()) << grouping.status().ToString();
  ASSERT_EQ(grouping->groups[0].implementation, Implementation::kVendor);
  ASSERT_EQ(grouping->groups[0].rivals.size(), 1u);
  EXPECT_EQ(grouping->groups[0].rivals[0].refusal->reason, Reason::kForced);
  EXPECT_EQ(Grouped(graph, Flat(), {})->groups[0].implementation, Implementation::kOwn);
}

// Two branches end in one sum: the call that takes it leaves the other branch to a call without.
TEST(Partition, BranchesThatMeetAreBothForTheLibrary) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 16, 8, 8], v: f32[16, 16, 1, 1], w: f32[16, 16, 1, 1]) -> (y) {\n"
      "a = Conv(x, v)\nb = Conv(x, w)\nc = Add(a, b)\ny = Relu(c)\n}");
  const auto grouping = Grouped(graph, Flat(), {.force = PartitionOptions::Force::kVendor});
  ASSERT_TRUE(grouping.ok()) << grouping.status().ToString();
  ASSERT_EQ(grouping->groups.size(), 2u);
  for (const Group& group : grouping->groups)
    EXPECT_EQ(group.implementation, Implementation::kVendor) << group.name;
}

// What can be done without compiling is: by a library, by natives, and the rest by own kernels.
TEST(Partition, CallsAlone) {
  const Graph graph = Parsed(
      "graph g (x: f32[16, 64], w: f32[64, 32]) -> (c) {\na = MatMul(x, w)\n"
      "axis: i64[] = const(1)\nb = CumSum(a, axis)\nc = Hardmax(b)\n}");
  const auto grouping = Grouped(graph, Flat(), {.force = PartitionOptions::Force::kCalls});
  ASSERT_TRUE(grouping.ok()) << grouping.status().ToString();
  std::vector<Implementation> found;
  for (const Group& group : grouping->groups) found.push_back(group.implementation);
  EXPECT_EQ(found,
            (std::vector{Implementation::kVendor, Implementation::kNative, Implementation::kOwn}));
}

// The library scales no channels in the layout that its convolutions like; a native kernel does,
// where nothing else is in that layout.
TEST(Partition, CallsInLayoutsThatOthersHave) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 16, 8, 8], v: f32[16, 16, 1, 1], w: f32[16, 16, 3, 3]) -> (y) {\n"
      "a = Conv(x, w) {pads = [1, 1, 1, 1]}\nb = GlobalAveragePool(a)\nc = Conv(b, v)\n"
      "d = Sigmoid(c)\ne = Mul(d, a)\ny = Conv(e, w)\n}");
  const auto grouping = Grouped(graph, Flat(), {.force = PartitionOptions::Force::kCalls});
  ASSERT_TRUE(grouping.ok()) << grouping.status().ToString();
  for (const Group& group : grouping->groups)
    EXPECT_NE(group.implementation, Implementation::kOwn) << Print(*grouping, graph);
}

std::vector<NodeId> NodesOf(const Group& group) {
  std::vector<NodeId> nodes;
  for (const Member& member : group.members) nodes.push_back(member.node);
  return nodes;
}

// What a call does needs no comprehension where calls are forced: the steps and the layouts are the
// same without.
TEST(Partition, CallsWithoutComprehensions) {
  const PartitionOptions options{.force = PartitionOptions::Force::kCalls};
  for (const char* const text :
       {"graph g (x: f32[16, 64], w: f32[64, 32]) -> (c) {\na = MatMul(x, w)\n"
        "axis: i64[] = const(1)\nb = CumSum(a, axis)\nc = Hardmax(b)\n}",
        "graph g (x: f32[1, 16, 8, 8], v: f32[16, 16, 1, 1], w: f32[16, 16, 3, 3]) -> (y) {\n"
        "a = Conv(x, w) {pads = [1, 1, 1, 1]}\nb = GlobalAveragePool(a)\nc = Conv(b, v)\n"
        "d = Sigmoid(c)\ne = Mul(d, a)\ny = Conv(e, w)\n}",
        "graph g (x: f32[1, 16, 8, 8], w: f32[16, 16, 3, 3]) -> (y) {\n"
        "a = Conv(x, w) {pads = [1, 1, 1, 1]}\nb = Relu(a)\nc = Add(b, x)\n"
        "shape: i64[2] = const(1, 1024)\nd = Reshape(c, shape)\ny = Softmax(d)\n}",
        "graph g (x: f32[1, 16, 8, 8], w: f32[16, 16, 3, 3]) -> (y) {\n"
        "a = Conv(x, w) {pads = [1, 1, 1, 1]}\nb = Softmax(a)\n"
        "y = Conv(b, w) {pads = [1, 1, 1, 1]}\n}"}) {
    const Graph graph = Parsed(text);
    NodeComprehensions few = ComprehensionsOf(graph);
    const fallback::Uses uses(graph);
    int left_out = 0;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (HasCall(graph, uses, NodeId(i), {}, options)) {
        few.of[i].clear();
        few.refusals[i] = Refusal{Reason::kForced, ""};
        ++left_out;
      }
    EXPECT_GT(left_out, 0);
    const auto all = Grouped(graph, Flat(), options);
    Flat pricer;
    const auto brief = Partition(graph, few, {}, pricer, options);
    ASSERT_TRUE(all.ok() && brief.ok()) << all.status().ToString() << brief.status().ToString();
    ASSERT_EQ(brief->groups.size(), all->groups.size())
        << Print(*brief, graph) << Print(*all, graph);
    for (size_t i = 0; i < all->groups.size(); ++i) {
      EXPECT_EQ(NodesOf(brief->groups[i]), NodesOf(all->groups[i])) << text;
      EXPECT_EQ(brief->groups[i].implementation, all->groups[i].implementation) << text;
    }
    EXPECT_EQ(brief->layouts, all->layouts) << text;
  }
}

TEST(Partition, SmallNumbersAreMultipliedSeveralAtOnce) {
  const auto at_once = [](Isa isa, Dtype a, Dtype b) { return ProductsAtOnce(isa, a, b); };
  for (const Isa isa : {Isa::kX86V3, Isa::kX86V4, Isa::kX86V4Vnni, Isa::kX86V4Amx}) {
    EXPECT_EQ(at_once(isa, Dtype::kF32, Dtype::kF32), 1);
    EXPECT_EQ(at_once(isa, Dtype::kI16, Dtype::kI8), 2);
    EXPECT_EQ(at_once(isa, Dtype::kI32, Dtype::kI8), 1);
    EXPECT_LT(at_once(isa, Dtype::kF32, Dtype::kI4), 1);
  }
  EXPECT_EQ(at_once(Isa::kX86V4, Dtype::kU8, Dtype::kI8), 2);
  EXPECT_EQ(at_once(Isa::kX86V4Vnni, Dtype::kU8, Dtype::kI8), 4);
  EXPECT_EQ(at_once(Isa::kX86V4Vnni, Dtype::kI8, Dtype::kI8), 2);
  EXPECT_GT(at_once(Isa::kX86V4Amx, Dtype::kI8, Dtype::kI8), 4);
  EXPECT_EQ(at_once(Isa::kX86V4Vnni, Dtype::kBF16, Dtype::kBF16), 1);
  EXPECT_EQ(at_once(Isa::kX86V4Bf16, Dtype::kBF16, Dtype::kBF16), 2);
}

TEST(Partition, LibraryWhereItsArithmeticIsAllowed) {
  const Graph graph =
      Parsed("graph g (x: bf16[16, 64], w: bf16[64, 32]) -> (a) {\na = MatMul(x, w)\n}");
  const Target wide{.isa = Isa::kX86V4};
  const auto grouped = [&](bool flushes, const Target& target) {
    auto grouping = Grouped(
        graph, Flat(), {.force = PartitionOptions::Force::kVendor, .flushes = flushes}, target);
    EXPECT_TRUE(grouping.ok()) << grouping.status().ToString();
    return *std::move(grouping);
  };
  EXPECT_EQ(grouped(true, wide).groups[0].implementation, Implementation::kVendor);
  EXPECT_EQ(grouped(true, Target{}).groups[0].implementation, Implementation::kOwn);
  const Grouping strict = grouped(false, wide);
  EXPECT_EQ(strict.groups[0].implementation, Implementation::kOwn);
  ASSERT_EQ(strict.refused.size(), 1u);
  EXPECT_EQ(strict.refused[0].refusal.reason, Reason::kInaccurate);
}

TEST(Partition, NoComprehension) {
  const Graph native = Parsed("graph g (x: f32[8]) -> (i) {\ni = NonZero(x)\n}");
  EXPECT_EQ(ComprehensionsOf(native).refusals[0]->reason, Reason::kNoComprehension);
  EXPECT_EQ(Grouped(native)->groups[0].implementation, Implementation::kNative);
  const auto both =
      Grouped(Parsed("graph g (x: f32[1, 1, 2], w: f32[1, 2, 2]) -> (a, b) {\n"
                     "a = RNN(x, w, w) {activations = [\"Affine\"]}\n"
                     "b = RNN(x, w, w) {activations = [\"ScaledTanh\"]}\n}"));
  EXPECT_EQ(both.status().code(), Code::kUnsupported);
  EXPECT_NE(both.status().what().find("2 node(s) cannot be built"), std::string::npos);
  EXPECT_NE(both.status().what().find("Affine without its parameters"), std::string::npos);
}

TEST(Partition, OpenExtents) {
  const Graph open =
      Parsed("graph g (x: f32[2, n]) -> (y) {\nsymbol n in 1:9\ny = Softmax(x) {axis = 1}\n}");
  EXPECT_EQ(ComprehensionsOf(open).refusals[0]->reason, Reason::kOpenExtents);
}

TEST(Partition, ImagesHaveChannelsLastInside) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 4, 8, 8], w: f32[4, 4, 1, 1]) -> (y) {\na = Conv(x, w)\nb = Relu(a)\n"
      "s: i64[2] = const(1, -1)\nc = Reshape(b, s)\ny = Tanh(c)\n}");
  const auto layouts = PlanLayouts(graph);
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "a"))), "acdb");
  // Reshapes, inputs and outputs are of plain memory.
  EXPECT_EQ(layouts.size(), 1u);
  const Layout plain = Layout::Plain(4), last = Layout::Permuted(std::vector<int32_t>{0, 2, 3, 1});
  EXPECT_TRUE(SamePlaces(plain, last, {1, 4, 1, 1}));
  EXPECT_FALSE(SamePlaces(plain, last, {1, 4, 1, 2}));
}

// Of a product of matrices channels are matrices of their own, which lie in one piece each.
TEST(Partition, MatricesOfChannelsArePlain) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 4, 8, 8], w: f32[4, 4, 1, 1]) -> (y) {\na = Conv(x, w)\nb = Conv(a, w)\n"
      "c = MatMul(b, b)\nd = Relu(c)\ny = Conv(d, w)\n}");
  const auto layouts = PlanLayouts(graph);
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "a"))), "acdb");
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "d"))), "acdb");
  EXPECT_EQ(layouts.size(), 2u);
}

// A window between reshapes, far from convolutions, is read as it lies.
TEST(Partition, IslandsBetweenReshapesArePlain) {
  const auto layouts_of = [](const std::string& nodes) {
    return PlanLayouts(
        Parsed("graph g (x: f32[1, 4, 64], z: f32[1, 4, 8, 8], w: f32[4, 4, 1, 1]) -> (y) {\n"
               "s: i64[4] = const(1, 4, 8, 8)\nt: i64[3] = const(1, 4, 64)\n"
               "a = Reshape(x, s)\nb = Add(a, z)\n" +
               nodes + "e = Reshape(d, t)\ny = Tanh(e)\n}"));
  };
  const std::string pads = "{kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n";
  EXPECT_TRUE(layouts_of("c = AveragePool(b) " + pads + "d = Sub(c, b)\n").empty());
  EXPECT_FALSE(
      layouts_of("c = Conv(b, w)\nf = AveragePool(c) " + pads + "d = Sub(f, b)\n").empty());
}

// Where channels last lie as the transpose has them, it moves nothing.
TEST(Partition, TransposesOfLayoutsAreViews) {
  const auto kind = [](const char* perm) {
    const Graph graph = Parsed(
        fmt::format("graph g (x: f32[1, 4, 8, 8], w: f32[4, 4, 1, 1]) -> (y) {{\na = Conv(x, w)\n"
                    "b = Transpose(a) {{perm = [{}]}}\ny = Tanh(b)\n}}",
                    perm));
    const auto grouping = Grouped(graph, Square());
    return std::string(ImplementationName(grouping->groups.at(1).implementation));
  };
  EXPECT_EQ(kind("0, 2, 3, 1"), "view");
  EXPECT_EQ(kind("0, 3, 2, 1"), "own");
}

// Volumes likewise; an image that is broadcast over one is of another kind.
TEST(Partition, VolumesHaveChannelsLastInside) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 8, 6, 8, 8], w: f32[8, 8, 3, 3, 3], v: f32[4, 4, 1, 1], "
      "z: f32[8, 4, 6, 6]) -> (y) {\na = Conv(x, w)\np = Conv(z, v)\nq = Relu(p)\nb = Add(a, q)\n"
      "y = Tanh(b)\n}");
  const auto layouts = PlanLayouts(graph);
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "a"))), "acdeb");
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "b"))), "acdeb");
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "p"))), "acdb");
  EXPECT_EQ(layouts.size(), 4u);
}

// Rows too, but for those that a reshape makes, which are read as they lie.
TEST(Partition, RowsHaveChannelsLastInside) {
  const Graph graph = Parsed(
      "graph g (x: f32[1, 8, 8], w: f32[8, 8, 3]) -> (y) {\na = Conv(x, w)\nb = Relu(a)\n"
      "s: i64[3] = const(1, 1, -1)\nt: i64[3] = const(1, 8, -1)\nc = Reshape(b, s)\n"
      "d = Tanh(c)\ne = Reshape(d, t)\nf = Conv(e, w)\ny = Relu(f)\n}");
  const auto layouts = PlanLayouts(graph);
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "a"))), "acb");
  EXPECT_EQ(Print(layouts.at(graph::FindValue(graph, "f"))), "acb");
  EXPECT_EQ(layouts.size(), 2u);
}

// Few channels fill no register: neither those that a convolution of windows makes, whose lanes are
// along rows, nor those of an image. Libraries have channels last for all.
TEST(Partition, ImagesOfFewChannelsArePlain) {
  const auto layouts_of = [](int64_t channels, int64_t results, int64_t taps, int64_t size,
                             bool by_library = false) {
    const Graph graph =
        Parsed(fmt::format("graph g (x: f32[1, {0}, {3}, {3}], w: f32[{0}, {0}, 1, 1], "
                           "v: f32[{1}, {0}, {2}, {2}]) -> (y) {{\na = Conv(x, w)\nb = Relu(a)\n"
                           "c = Conv(b, v)\ny = Tanh(c)\n}}",
                           channels, results, taps, size));
    const auto layouts = PlanLayouts(graph, {}, by_library);
    std::string last;
    for (const char* name : {"a", "b", "c"})
      if (layouts.contains(graph::FindValue(graph, name))) last += name;
    return last;
  };
  EXPECT_EQ(layouts_of(32, 8, 3, 9), "abc");
  EXPECT_EQ(layouts_of(32, 4, 3, 9), "ac");
  EXPECT_EQ(layouts_of(32, 3, 3, 9), "a");
  EXPECT_EQ(layouts_of(32, 3, 3, 9, true), "abc");
  EXPECT_EQ(layouts_of(32, 4, 1, 9), "abc");   // of points
  EXPECT_EQ(layouts_of(32, 4, 3, 32), "abc");  // planes of whole pages
  EXPECT_EQ(layouts_of(32, 4, 5, 32), "ac");
  EXPECT_EQ(layouts_of(3, 8, 1, 9), "c");
}

TEST(Partition, VerifyFindsWrongGroupings) {
  const Graph graph = Parsed(kChain);
  const Grouping right = *Grouped(graph, Square());
  const auto broken = [&](auto&& change) {
    Grouping wrong = right;
    change(wrong.groups);
    return Verify(wrong, graph).what();
  };
  using Groups = std::vector<Group>&;
  EXPECT_EQ(broken([](Groups g) { g.pop_back(); }), "in no group");
  EXPECT_EQ(broken([](Groups g) { g[1].members.clear(); }), "group \"b\" is empty");
  EXPECT_EQ(broken([](Groups g) { g[1].name = g[0].name; }), "two groups are called \"a\"");
  EXPECT_EQ(broken([](Groups g) { g[1].members.push_back(g[0].members[0]); }),
            "in \"a\" and in \"b\"");
  EXPECT_EQ(broken([](Groups g) { std::swap(g[0], g[1]); }),
            "group \"b\" runs before \"a\", whose \"a\" it reads");
}

// Elementwise, reducing and gathering nodes over 4x8 tensors, wired at random.
Graph RandomDag(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Graph graph{.name = "dag"};
  std::vector<ValueId> values = {graph::AddInput(graph, "x", Dtype::kF32, {4, 8}),
                                 graph::AddInput(graph, "y", Dtype::kF32, {4, 8})};
  const ValueId weight = graph::AddInput(graph, "w", Dtype::kF32, {8, 8});
  constexpr graph::Op kOne[] = {graph::Op::kRelu, graph::Op::kTanh, graph::Op::kSoftmax};
  constexpr graph::Op kTwo[] = {graph::Op::kAdd, graph::Op::kMul, graph::Op::kSub};
  // Big ones are wired to what is near, so that they are deep.
  const size_t count = seed % 20 == 0 ? 60 + below(60) : 4 + below(12);
  for (size_t i = 0; i < count; ++i) {
    const auto pick = [&] {
      return values[values.size() - 1 - below(std::min(values.size(), size_t{16}))];
    };
    const ValueId a = pick(), b = pick();
    const std::string name = "v" + std::to_string(i);
    const size_t kind = below(7);
    if (kind == 6)
      values.push_back(graph::AddNode(graph, graph::Op::kMatMul, {a, weight}, name));
    else if (kind < 3)
      values.push_back(graph::AddNode(graph, kOne[kind], {a}, name));
    else
      values.push_back(graph::AddNode(graph, kTwo[kind - 3], {a, b}, name));
  }
  graph.outputs = {values.back(), values[values.size() / 2]};
  if (graph.outputs[0] == graph.outputs[1] ||
      graph[graph.outputs[1]].kind == graph::ValueKind::kInput)
    graph.outputs.pop_back();
  graph::DropDead(graph);
  EXPECT_TRUE(graph::InferShapes(graph).ok());
  return graph;
}

// The same network in another topological order, its inner values renamed; `now[i]` is where node i
// has gone.
Graph Shuffled(const Graph& graph, uint64_t seed, std::vector<size_t>& now) {
  std::mt19937_64 random(seed);
  std::vector<bool> placed(graph.nodes.size());
  std::vector<NodeId> order;
  while (order.size() < graph.nodes.size()) {
    std::vector<NodeId> ready;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const bool is_ready = std::ranges::all_of(graph.nodes[i].inputs, [&](ValueId v) {
        return !v.valid() || !graph[v].producer.valid() || placed[graph[v].producer.index];
      });
      if (!placed[i] && is_ready) ready.emplace_back(i);
    }
    order.push_back(ready[random() % ready.size()]);
    placed[order.back().index] = true;
  }
  now.resize(order.size());
  for (size_t k = 0; k < order.size(); ++k) now[order[k].index] = k;
  Graph other = graph::Clone(graph);
  graph::Reorder(other, order);
  std::vector<size_t> names(other.values.size());
  for (size_t i = 0; i < names.size(); ++i) names[i] = i;
  std::ranges::shuffle(names, random);
  for (size_t i = 0; i < names.size(); ++i) {
    if (other.values[i].kind == graph::ValueKind::kComputed)
      other.values[i].name = "n" + std::to_string(names[i]);
  }
  return other;
}

using Sets = std::set<std::set<size_t>>;

Sets SetsOf(const Grouping& grouping) {
  Sets sets;
  for (const Group& group : grouping.groups) {
    std::set<size_t> set;
    for (const Member& m : group.members) set.insert(static_cast<size_t>(m.node.index));
    sets.insert(std::move(set));
  }
  return sets;
}

Sets Moved(const Sets& sets, const std::vector<size_t>& now) {
  Sets moved;
  for (const auto& set : sets) {
    std::set<size_t> there;
    for (const size_t n : set) there.insert(now[n]);
    moved.insert(std::move(there));
  }
  return moved;
}

// Layers of attention's wiring, with elementwise nodes that no two layers have alike.
Graph DeepNetwork(size_t nodes) {
  std::mt19937_64 random(1);
  Graph graph{.name = "deep"};
  ValueId x = graph::AddInput(graph, "x", Dtype::kF32, {8, 16});
  const ValueId weight = graph::AddInput(graph, "w", Dtype::kF32, {16, 16});
  constexpr graph::Op kOne[] = {graph::Op::kRelu, graph::Op::kTanh, graph::Op::kExp,
                                graph::Op::kSigmoid};
  const auto add = [&](graph::Op op, std::vector<ValueId> inputs) {
    return graph::AddNode(graph, op, inputs, fmt::format("v{}", graph.nodes.size()));
  };
  while (graph.nodes.size() < nodes) {
    std::vector<ValueId> branches;
    for (int k = 0; k < 3; ++k) {
      const ValueId product = add(graph::Op::kMatMul, {x, weight});
      branches.push_back(add(kOne[random() % 4], {product}));
    }
    const ValueId mixed = add(graph::Op::kMul, {branches[0], branches[1]});
    const ValueId kept = add(graph::Op::kSoftmax, {mixed});
    x = add(graph::Op::kAdd, {x, add(graph::Op::kAdd, {kept, branches[2]})});
  }
  graph.outputs = {x};
  EXPECT_TRUE(graph::InferShapes(graph).ok());
  return graph;
}

// One value that all the others read.
Graph Fan(size_t readers) {
  Graph graph{.name = "fan"};
  const ValueId x = graph::AddInput(graph, "x", Dtype::kF32, {8, 16}),
                weight = graph::AddInput(graph, "w", Dtype::kF32, {16, 16}),
                read = graph::AddNode(graph, graph::Op::kSoftmax, {x}, "read");
  for (size_t k = 0; k < readers; ++k)
    graph.outputs.push_back(
        graph::AddNode(graph, graph::Op::kMatMul, {read, weight}, fmt::format("v{}", k)));
  EXPECT_TRUE(graph::InferShapes(graph).ok());
  return graph;
}

// Four times the nodes take four times the time, not sixteen times. In processor time, the best of
// some, with room for a busy machine.
TEST(Partition, TimeGrowsWithTheNodes) {
  struct Timed {
    explicit Timed(const Graph& g) : graph(g), comprehensions(ComprehensionsOf(g)) {}
    void Run() {
      RooflinePricer pricer(Target{});
      const std::clock_t begin = std::clock();
      EXPECT_TRUE(Partition(graph, comprehensions, {}, pricer, {.vendor = false}).ok());
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    Graph graph;
    NodeComprehensions comprehensions;
    double best = 1e9;
  };
  for (const auto& network : {DeepNetwork, Fan}) {
    Timed small(network(2'500)), large(network(10'000));
    for (int turn = 0; turn < 6 && (turn < 2 || large.best >= 9 * small.best); ++turn) {
      small.Run();
      large.Run();
    }
    EXPECT_LT(large.best, 9 * small.best);
    EXPECT_LT(large.best, 10);
  }
}

// How many random networks: as many as WEFT_RANDOM_NETWORKS says.
uint64_t RandomNetworks() {
  const char* const text = std::getenv("WEFT_RANDOM_NETWORKS");
  const uint64_t count = text ? std::strtoull(text, nullptr, 10) : 0;
  return count > 0 ? count : 1000;
}

// Every node is in one group, and data flows from earlier groups to later ones: Grouped() sees to
// that.
TEST(Partition, SameGroupsWhateverTheOrderAndTheNames) {
  int failures = 0;
  const Target target;
  for (uint64_t seed = 1; seed <= RandomNetworks() && failures < 3; ++seed) {
    const Graph graph = RandomDag(seed);
    std::vector<size_t> now;
    const Graph other = Shuffled(graph, seed + 1000, now);
    const PartitionOptions options{.vendor = seed % 4 == 0};
    for (const bool flat : {true, false}) {
      const auto groups = [&](const Graph& g) {
        return flat ? Grouped(g, Flat(), options) : Grouped(g, RooflinePricer(target), options);
      };
      const auto a = groups(graph), b = groups(other);
      ASSERT_TRUE(a.ok() && b.ok()) << a.status().ToString() << b.status().ToString();
      const bool same = Moved(SetsOf(*a), now) == SetsOf(*b);
      EXPECT_TRUE(same) << "seed " << seed << "\n" << Print(*a, graph) << Print(*b, other);
      failures += !same;
    }
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::partition
