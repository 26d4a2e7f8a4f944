// Parse(Print(g)) == g, and what the parser refuses.

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "base/dtypes.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

// Graphs with everything that the noun can hold, and names that text has trouble with.
class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  Graph Make(int depth = 0, const Graph* outer = nullptr) {
    Graph g;
    g.name = Pick() ? "g" : Name();
    for (int i = 0; i < 3; ++i)
      AddSymbol(g, fmt::format("{}{}", Pick() ? "batch" : "a b*", i), i, 100 + i);
    for (int i = Next(3); i-- > 0;) AddInput(g, Fresh(), Type(), Shape_(g));
    for (int i = Next(4); i-- > 0;) AddConstant(g, Fresh(), Constant());
    if (outer && !outer->values.empty()) {
      Value captured =
          outer->values[static_cast<size_t>(Next(static_cast<int>(outer->values.size())))];
      g.values.push_back(
          {.name = captured.name, .kind = ValueKind::kCaptured, .dtype = captured.dtype});
    }
    for (int i = 1 + Next(5); i-- > 0;) MakeNode(g, depth);
    g.outputs = {ValueId(g.values.size() - 1)};
    return g;
  }

 private:
  void MakeNode(Graph& g, int depth) {
    Node node{.domain = Pick() ? "com.x" : "",
              .op_name = Pick() ? "Foo" : "Odd name",
              .name = Pick() ? "" : Name()};
    for (int i = Next(4); i-- > 0;) {
      node.inputs.push_back(
          Pick() || g.values.empty()
              ? ValueId()
              : ValueId(static_cast<size_t>(Next(static_cast<int>(g.values.size())))));
    }
    if (Pick()) SetAttribute(node, "i", static_cast<int64_t>(random_()) * (Pick() ? 1 : -1));
    if (Pick()) SetAttribute(node, "name", std::vector<int64_t>{INT64_MIN, -1, INT64_MAX});
    if (Pick()) SetAttribute(node, "f", Float());
    if (Pick()) SetAttribute(node, "fs", std::vector<float>{Float(), Float()});
    if (Pick()) SetAttribute(node, "ss", std::vector<std::string>{Name(), ""});
    if (Pick()) SetAttribute(node, "s", Name());
    if (Pick()) SetAttribute(node, "none i", std::vector<int64_t>());
    if (Pick()) SetAttribute(node, "none_f", std::vector<float>());
    if (Pick()) SetAttribute(node, "none_s", std::vector<std::string>());
    if (Pick()) SetAttribute(node, "t", Constant());
    if (depth < 3 && Next(3) == 0)
      SetAttribute(node, "body", std::make_shared<Graph>(Make(depth + 1, &g)));
    if (Pick()) node.outputs.emplace_back();
    for (int i = 1 + Next(2); i-- > 0;) {
      node.outputs.push_back(AddComputed(g, Fresh()));
      if (Pick()) g[node.outputs.back()].dtype = Type();
      if (Pick()) g[node.outputs.back()].shape = Shape_(g);
    }
    AddNode(g, std::move(node));
  }

  int Next(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  bool Pick() { return Next(2) == 0; }
  Dtype Type() { return kDtypes[Next(std::size(kDtypes))]; }
  std::string Name() {
    static const char* kNames[] = {"/a/b.c",   "symbol", "_",  "a\"b\\", "\n\x01", "größe",
                                   "captured", "const",  "1x", "graph1", "nan"};
    return kNames[Next(std::size(kNames))];
  }
  std::string Fresh() { return names_.Fresh(Pick() ? "v" : Name()); }
  float Float() {
    static const float kFloats[] = {0.0f,     -0.0f,     1.0f, 0.1f,        3.4e38f, 1e-45f,
                                    INFINITY, -INFINITY, NAN,  16777216.0f, -5.0f};
    return kFloats[Next(std::size(kFloats))];
  }
  std::vector<Extent> Shape_(const Graph& g) {
    std::vector<Extent> out;
    for (int i = Next(4); i-- > 0;) {
      out.push_back(
          Pick() ? Extent(Next(9))
                 : Extent(SymbolId(static_cast<size_t>(Next(static_cast<int>(g.symbols.size()))))));
    }
    return out;
  }
  Tensor Constant() {
    const Dtype dtype = Type();
    Shape shape;
    for (int i = Next(4); i-- > 0;) shape.push_back(Next(5));
    const int64_t elems = *CountElems(shape);
    Tensor tensor(dtype, shape);
    for (int64_t i = 0; i < elems; ++i) {
      if (dtype == Dtype::kString) {
        tensor.strings().resize(static_cast<size_t>(elems));
        tensor.strings()[static_cast<size_t>(i)] = Name();
      } else if (IsFloat(dtype)) {
        SetElem(tensor, i, Float());
      } else {
        SetElemInt(tensor, i, dtype == Dtype::kBool ? Next(2) : Next(120));
      }
    }
    return tensor;
  }

  std::mt19937 random_;
  Names names_{Graph{}};
};

TEST(Text, RoundTrip) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Graph g = Maker(seed).Make();
    ASSERT_TRUE(Verify(g).ok()) << seed << " " << Verify(g).ToString();
    BlobStore blobs;
    const std::string text = Print(g, blobs);
    const auto back = ParseGraph(text, "round", blobs);
    ASSERT_TRUE(back.ok()) << seed << " " << back.status().ToString() << "\n" << text;
    ASSERT_EQ(Print(*back, blobs), text) << seed;
    ASSERT_TRUE(Equal(g, *back)) << seed << "\n" << text;
    ASSERT_EQ(Print(*back, blobs), text) << seed;
    ASSERT_TRUE(Equal(Clone(g), g));
  }
}

TEST(Text, Reads) {
  const char* text =
      "graph digits (image: f32[batch, 1, 28, 28]) -> (out) {\n"
      "  symbol batch in 1:65536\n"
      "  w: f32[1, 1, 2, 2] = const(1.0, 0.5, -2.0, 3.0)\n"
      "  conv: f32[batch, 1, 27, 27] = Conv(image, w) {name = \"/conv1/Conv\", strides = [1, 1]}\n"
      "  out: f32[batch, 1, 27, 27] = Relu(conv)\n"
      "}\n";
  EXPECT_EQ(Printed(Parsed(text)), text);
}

TEST(Text, DifferencesAreSeen) {
  const std::string text =
      "graph g (x: f32[2]) -> (y) {\nc: f32[] = const(1)\ny = Add(x, c) {name = \"n\"}\n}";
  const Graph g = Parsed(text);
  for (auto [from, to] : {std::pair("f32[2]", "f32[3]"),
                          {"const(1)", "const(2)"},
                          {"\"n\"", "\"m\""},
                          {"Add(x", "Sub(x"},
                          {"(x, c)", "(c, x)"},
                          {"graph g", "graph h"}}) {
    std::string other = text;
    other.replace(other.find(from), std::string(from).size(), to);
    EXPECT_FALSE(Equal(g, Parsed(other))) << from;
  }
}

TEST(Text, Refuses) {
  for (auto [body, part] :
       {std::pair<std::string, std::string>{"y = Relu(z)", "not defined before its use"},
        {"y = Rely(x)", "unknown operator"},
        {"y: f32[2] = const(1)", "found 1 elements, expected 2"},
        {"x = Relu(x)\ny = Relu(x)", "defined twice"},
        {"y = Relu(x) {a = 1, a = 2}", "given twice"},
        {"y = Relu(x) {a = 1}", "unknown attribute"},
        {"y = Relu(x, x)", "found 2 inputs, expected 1"},
        {"y: f32[b] = Relu(x)", "not declared"},
        {"symbol b\nsymbol b\ny = Relu(x)", "declared twice"},
        {"symbol b in 14:6\ny = Relu(x)", "symbol b has the range 14:6"},
        {"y = \"d::If\"(x) {g = graph1}", "missing"},
        {"y: f32[100] = blob(\"" + std::string(64, '0') + "\", 400 bytes)", "0000"},
        {"symbol b in 5:4\ny = Relu(x)", "range"},
        {"z = Relu(x)", "no value y"}}) {
    const auto g =
        ParseGraph("graph g (x: f32[2]) -> (y) {\n" + body + "\n}", "bad.graph", BlobStore());
    ASSERT_FALSE(g.ok()) << body;
    EXPECT_NE(g.status().ToString().find(part), std::string::npos) << g.status().ToString();
  }
}

TEST(Text, DeepNestingEnds) {
  std::string text = "graph g () -> (y) {\n";
  for (int i = 1; i < 5000; ++i)
    text += "y = \"d::F\"() {g = graph" + std::to_string(i) + "}\nsubgraph graph" +
            std::to_string(i) + " g () -> (y) {\n";
  EXPECT_FALSE(ParseGraph(text, "deep", BlobStore()).ok());
}

TEST(Text, LongChain) {
  Graph g;
  ValueId last = AddInput(g, "x", Dtype::kF32, {2});
  for (int i = 0; i < 20'000; ++i) last = AddNode(g, Op::kRelu, {last}, "v" + std::to_string(i));
  g.outputs = {last};
  const Graph back = Parsed(Printed(g));
  EXPECT_EQ(back.nodes.size(), g.nodes.size());
  EXPECT_TRUE(Equal(g, back));
}

}  // namespace
}  // namespace weft::graph
