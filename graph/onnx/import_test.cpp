// What a good model becomes.

#include <chrono>

#include "graph/onnx/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

TEST(Import, Small) {
  Graph g = Good(ReluModel());
  EXPECT_EQ(OpsOf(g), "Relu");
  EXPECT_EQ(TypeOf(g, "x"), "f32[2, 3]");
  EXPECT_EQ(TypeOf(g, "y"), "_");  // declared types of results are not trusted
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
}

TEST(Import, Digits) {
  auto g = ImportOnnx("models/digits.onnx");
  if (!g.ok() && g.status().ToString().find("No such file") != std::string::npos)
    GTEST_SKIP() << "models/digits.onnx is absent";
  ASSERT_TRUE(g.ok()) << g.status().ToString();
  ASSERT_TRUE(InferShapes(*g).ok());
  EXPECT_EQ(TypeOf(*g, g->values[static_cast<size_t>(g->outputs[0].index)].name), "f32[batch, 10]");
}

TEST(Import, ConstantsInEverySpelling) {
  onnx::AttributeProto floats = FloatA("value_floats", 0), text, tensor;
  floats.set_type(onnx::AttributeProto::FLOATS);
  floats.clear_f();
  floats.add_floats(1.5f);
  text.set_name("value_string");
  text.set_type(onnx::AttributeProto::STRING);
  text.set_s("hi");
  tensor.set_name("value");
  tensor.set_type(onnx::AttributeProto::TENSOR);
  *tensor.mutable_t() = Floats("", {1}, {7});
  const Graph g =
      Good(ModelOf({NodeP("Constant", {}, {"a"}, {IntA("value_int", 3)}),
                    NodeP("Constant", {}, {"b"}, {IntsA("value_ints", {1, 2})}),
                    NodeP("Constant", {}, {"c"}, {FloatA("value_float", 0.5f)}),
                    NodeP("Constant", {}, {"d"}, {floats}), NodeP("Constant", {}, {"e"}, {text}),
                    NodeP("Constant", {}, {"f"}, {tensor}), NodeP("Relu", {"x"}, {"y"})}));
  EXPECT_EQ(TypeOf(g, "a") + TypeOf(g, "b") + TypeOf(g, "c"), "i64[]i64[2]f32[]");
  EXPECT_EQ(TypeOf(g, "d") + TypeOf(g, "e") + TypeOf(g, "f"), "f32[1]string[]f32[1]");
  EXPECT_EQ(ElemAsInt(g[FindValue(g, "b")].constant, 1), 2);
  EXPECT_EQ(g[FindValue(g, "e")].constant.strings()[0], "hi");
  EXPECT_EQ(OpsOf(g), "Relu");
}

onnx::SparseTensorProto Sparse(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<int64_t>& indices, bool linear = true) {
  onnx::SparseTensorProto sparse;
  for (const int64_t extent : dims) sparse.add_dims(extent);
  const auto count = static_cast<int64_t>(linear ? indices.size() : indices.size() / dims.size());
  *sparse.mutable_values() = Floats(name, {count}, {});
  for (int64_t i = 0; i < count; ++i)
    sparse.mutable_values()->add_float_data(static_cast<float>(i) + 1);
  auto& places = *sparse.mutable_indices();
  places.set_data_type(onnx::TensorProto::INT64);
  places.add_dims(count);
  if (!linear) places.add_dims(static_cast<int64_t>(dims.size()));
  for (const int64_t index : indices) places.add_int64_data(index);
  return sparse;
}

onnx::ModelProto SparseModel(const onnx::SparseTensorProto& sparse, bool is_initializer = true) {
  onnx::ModelProto model = ModelOf({NodeP("Add", {"x", "w"}, {"y"})});
  onnx::AttributeProto value;
  value.set_name("sparse_value");
  value.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  *value.mutable_sparse_tensor() = sparse;
  if (is_initializer)
    *model.mutable_graph()->add_sparse_initializer() = sparse;
  else
    model = ModelOf({NodeP("Constant", {}, {"w"}, {value}), NodeP("Add", {"x", "w"}, {"y"})});
  return model;
}

TEST(Import, SparseTensorsHaveAllTheirZeros) {
  for (const auto& sparse :
       {Sparse("w", {2, 3}, {1, 5}), Sparse("w", {2, 3}, {0, 1, 1, 2}, false)}) {
    for (const bool is_initializer : {true, false}) {
      const Graph g = Good(SparseModel(sparse, is_initializer));
      EXPECT_EQ(TypeOf(g, "w"), "f32[2, 3]");
      const Tensor& w = g[FindValue(g, "w")].constant;
      for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(ElemAsDouble(w, i), i == 1 ? 1 : i == 5 ? 2 : 0);
    }
  }
}

TEST(Import, SparseTensorsThatMeanHarm) {
  for (const bool is_initializer : {true, false}) {
    const auto refused = [&](const onnx::SparseTensorProto& sparse, const std::string& part) {
      ExpectRefused(SparseModel(sparse, is_initializer), part);
    };
    refused(Sparse("w", {2, 3}, {1, 6}), "index 6 of element 1 is outside of [2, 3]");
    refused(Sparse("w", {2, 3}, {-1}), "index -1 of element 0 is outside of [2, 3]");
    refused(Sparse("w", {2, 3}, {0, 3}, false), "index 3 of element 0 is outside of [2, 3]");
    refused(Sparse("w", {2, 3}, {3, 3}), "elements 0 and 1 do not ascend");
    refused(Sparse("w", {2, 3}, {1, 0, 0, 1}, false), "elements 0 and 1 do not ascend");
    refused(Sparse("w", {1 << 20, 1 << 20}, {3}), "leaves the limit of 1073741824 bytes");
    refused(Sparse("w", {int64_t{1} << 62, 4}, {3}), "2^63");
    refused(Sparse("w", {-1}, {0}), "negative");
    auto shorter = Sparse("w", {2, 3}, {1, 5});
    shorter.mutable_values()->clear_float_data();
    refused(shorter, "found 0 elements, expected 2");
    auto square = Sparse("w", {2, 3}, {1, 5});
    square.mutable_values()->add_dims(1);
    refused(square, "expected one axis");
    auto fewer = Sparse("w", {2, 3}, {1, 5});
    *fewer.mutable_values() = Floats("w", {3}, {1, 2, 3});
    refused(fewer, "the indices are i64[2], expected i64[3] or i64[3, 2]");
  }
  onnx::ModelProto many = SparseModel(Sparse("w", {1 << 27}, {3}));
  *many.mutable_graph()->add_sparse_initializer() = Sparse("v", {1 << 27}, {3});
  EXPECT_TRUE(Imported(many).ok());
  *many.mutable_graph()->add_sparse_initializer() = Sparse("u", {1}, {0});
  ExpectRefused(many, "leaves the limit of 0 bytes");
}

TEST(Import, TypedAndRawData) {
  onnx::ModelProto model = ModelOf({NodeP("Add", {"x", "w"}, {"y"})});
  *model.mutable_graph()->add_initializer() = Floats("w", {3}, {1, 2, 3});
  EXPECT_EQ(ElemAsDouble(Good(model).values[0].constant, 2), 3);
  auto& w = *model.mutable_graph()->mutable_initializer(0);
  const float raw[] = {4, 5, 6};
  w.clear_float_data();
  w.set_raw_data(std::string(reinterpret_cast<const char*>(raw), sizeof raw));
  EXPECT_EQ(ElemAsDouble(Good(model).values[0].constant, 0), 4);
  w.clear_raw_data();
  w.set_data_type(onnx::TensorProto::FLOAT16);
  for (int i = 0; i < 3; ++i) w.add_int32_data(0x3C00);
  EXPECT_EQ(ElemAsDouble(Good(model).values[0].constant, 1), 1);
}

TEST(Import, InitializerThatIsAnInputIsAConstant) {
  onnx::ModelProto model = ModelOf({NodeP("Add", {"x", "w"}, {"y"})});
  *model.mutable_graph()->add_initializer() = Floats("w", {3}, {1, 2, 3});
  *model.mutable_graph()->add_input() = ValueP("w", {3});
  const Graph g = Good(model);
  EXPECT_EQ(g.inputs.size(), 1u);
  EXPECT_EQ(g[FindValue(g, "w")].kind, ValueKind::kConstant);
}

TEST(Import, OutputThatIsAnInputKeepsItsName) {
  onnx::ModelProto model = ReluModel();
  *model.mutable_graph()->add_output() = ValueP("x", {2, 3});
  const Graph g = Good(model);
  EXPECT_EQ(OpsOf(g), "Relu");
  EXPECT_EQ(g.outputs[1], g.inputs[0]);
}

TEST(Import, DimensionNames) {
  onnx::ModelProto model = ReluModel();
  auto* shape = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  shape->clear_dim();
  shape->add_dim()->set_dim_param("batch");
  shape->add_dim()->set_dim_param("?");
  shape->add_dim()->set_dim_param("?");
  shape->add_dim()->set_dim_value(-1);
  shape->add_dim();
  shape->add_dim()->set_dim_param("floor(h/2 - 1/2)");
  shape->add_dim()->set_dim_param("batch");
  EXPECT_EQ(TypeOf(Good(model), "x"), "f32[batch, x_1, x_2, x_3, x_4, floor(h/2 - 1/2), batch]");
}

// Two elements a byte, the first in its low half, in raw data as in int32_data.
TEST(Import, ElementsOfFourBits) {
  const auto model = [](const std::function<void(onnx::TensorProto&)>& fill) {
    onnx::ModelProto m = ModelOf({NodeP("Cast", {"w"}, {"y"}, {IntA("to", 1)})}, 21);
    onnx::TensorProto& w = *m.mutable_graph()->add_initializer();
    w.set_name("w");
    w.set_data_type(onnx::TensorProto::INT4);
    w.add_dims(3);
    fill(w);
    return m;
  };
  const auto elements = [](const Graph& g) {
    const Tensor& t = g[FindValue(g, "w")].constant;
    return std::vector<int64_t>{ElemAsInt(t, 0), ElemAsInt(t, 1), ElemAsInt(t, 2),
                                t.as<uint8_t>()[1]};
  };
  const std::vector<int64_t> expected = {-8, 7, 2, 2};
  EXPECT_EQ(elements(Good(model([](auto& w) { w.set_raw_data("\x78\x52"); }))), expected);
  const auto typed = [](int32_t last) {
    return [last](onnx::TensorProto& w) {
      w.add_int32_data(0x78);
      w.add_int32_data(last);
    };
  };
  EXPECT_EQ(elements(Good(model(typed(2)))), expected);
  EXPECT_EQ(elements(Good(model(typed(0x52)))), expected);  // what is left of the last byte is 0
  ExpectRefused(model(typed(300)), "element 1 is 300, which i4 can't hold");
  ExpectRefused(model([](auto& w) { w.set_raw_data("\x78\x52\x01"); }),
                "raw data has 3 bytes, expected 2 for i4[3]");
  ExpectRefused(model([](auto& w) { w.add_int32_data(1); }), "found 1 elements, expected 2");
}

TEST(Import, UnknownOperatorsAndForeignOpsetsAreKept) {
  onnx::ModelProto model = ModelOf({NodeP("Frobnicate", {"x"}, {"a"}), NodeP("Foo", {"a"}, {"y"})});
  model.mutable_graph()->mutable_node(1)->set_domain("com.x");
  for (const char* domain : {"com.x", "ai.onnx.ml", "com.microsoft"}) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(1);
  }
  const Graph g = Good(model);
  ASSERT_EQ(OpsOf(g), "Frobnicate Foo");
  EXPECT_EQ(g.nodes[1].domain, "com.x");
}

TEST(Import, OptionalOperands) {
  onnx::ModelProto model =
      ModelOf({NodeP("Clip", {"x", "", "m"}, {"y"}), NodeP("Clip", {"x", "", ""}, {"z"})});
  *model.mutable_graph()->add_initializer() = Floats("m", {}, {6});
  const Graph g = Good(model);
  ASSERT_EQ(OpsOf(g), "Clip Clip");
  EXPECT_FALSE(g.nodes[0].inputs[1].valid());
  EXPECT_EQ(g.nodes[1].inputs.size(), 1u);
}

TEST(Import, SubgraphsCapture) {
  const auto inner = NodeP("If", {"c"}, {"i"},
                           {GraphA("then_branch", Branch({NodeP("Neg", {"x"}, {"n"})}, "n")),
                            GraphA("else_branch", Branch({}, "x"))});
  onnx::ModelProto model =
      ModelOf({NodeP("If", {"c"}, {"y"},
                     {GraphA("then_branch", Branch({inner}, "i")),
                      GraphA("else_branch", Branch({NodeP("Abs", {"x"}, {"a"})}, "a"))})});
  *model.mutable_graph()->add_input() = ValueP("c", {}, onnx::TensorProto::BOOL);
  Graph g = Good(model);
  ASSERT_EQ(OpsOf(g), "If");
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
  const auto branches = Subgraphs(g.nodes[0]);
  ASSERT_EQ(branches.size(), 2u);
  EXPECT_EQ(OpsOf(*branches[0]), "Abs");
  EXPECT_EQ(branches[1]->values[0].kind,
            ValueKind::kCaptured);  // x comes through, for the inner branch
  EXPECT_TRUE(Equal(g, Parsed(Printed(g))));
}

// Values that a translation adds to a branch are not taken for those around it of the same name.
TEST(Import, AddedNamesAvoidThoseAround) {
  const auto branch = Branch(
      {NodeP("Clip", {"x"}, {"s"}, {FloatA("min", 0)}), NodeP("Add", {"s", "s_bound"}, {"q"})},
      "q");
  onnx::ModelProto model = ModelOf(
      {NodeP("Neg", {"x"}, {"s_bound"}),
       NodeP("If", {"c"}, {"y"}, {GraphA("then_branch", branch), GraphA("else_branch", branch)})},
      10);
  *model.mutable_graph()->add_input() = ValueP("c", {}, onnx::TensorProto::BOOL);
  const Graph g = Good(model);
  for (const auto& inner : Subgraphs(g.nodes[1])) {
    ASSERT_EQ(OpsOf(*inner), "Clip Add");
    EXPECT_EQ((*inner)[inner->nodes[0].inputs[1]].name, "s_bound_1");
    const Value& around = (*inner)[inner->nodes[1].inputs[1]];
    EXPECT_EQ(around.name, "s_bound");
    EXPECT_EQ(around.kind, ValueKind::kCaptured);
  }
}

// What a branch reads from around has the type and the elements it has there.
TEST(Import, BranchesKnowWhatIsAround) {
  const auto branch =
      Branch({NodeP("Resize", {"x", "none", "none", "sizes"}, {"r"}),
              NodeP("ReduceLogSum", {"i"}, {"l"}), NodeP("Cast", {"l"}, {"q"}, {IntA("to", 1)})},
             "q");
  onnx::ModelProto model = ModelOf(
      {NodeP("Cast", {"x"}, {"i"}, {IntA("to", 6)}),
       NodeP("If", {"c"}, {"y"}, {GraphA("then_branch", branch), GraphA("else_branch", branch)})});
  *model.mutable_graph()->add_input() = ValueP("c", {}, onnx::TensorProto::BOOL);
  *model.mutable_graph()->add_initializer() = Floats("none", {0}, {});
  *model.mutable_graph()->add_initializer() = Floats("sizes", {2}, {4, 6});
  const Graph g = Good(model);
  for (const auto& inner : Subgraphs(g.nodes[1])) {
    ASSERT_EQ(OpsOf(*inner), "Resize Cast ReduceLogSum Cast Cast");
    EXPECT_FALSE(inner->nodes[0].inputs[1].valid());
    EXPECT_FALSE(inner->nodes[0].inputs[2].valid());
    for (const Value& value : inner->values)
      EXPECT_FALSE(value.kind == ValueKind::kCaptured && value.shape);
  }
}

TEST(Import, LongChain) {
  onnx::ModelProto model = ReluModel(11);
  model.mutable_graph()->clear_node();
  std::string last = "x";
  for (int i = 0; i < 20'000; ++i) {
    const std::string next = i + 1 == 20'000 ? "y" : "v" + std::to_string(i);
    *model.mutable_graph()->add_node() = NodeP("Relu", {last}, {next});
    last = next;
  }
  const auto start = std::chrono::steady_clock::now();
  Graph g = Good(model);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(g.nodes.size(), 20'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Import, CodesShareBytesInTheFile) {
  const auto constant = [](int type, const std::vector<int64_t>& shape, const std::string& raw,
                           const std::vector<int>& typed) {
    onnx::TensorProto w;
    w.set_name("w");
    w.set_data_type(type);
    for (int64_t extent : shape) w.add_dims(extent);
    if (!raw.empty()) w.set_raw_data(raw);
    for (int entry : typed) w.add_int32_data(entry);
    onnx::ModelProto model = ModelOf({NodeP("Cast", {"w"}, {"y"}, {IntA("to", 1)})}, 25);
    *model.mutable_graph()->add_initializer() = w;
    return model;
  };
  const auto elements = [](const Graph& g) {
    std::vector<int64_t> out;
    const Tensor& w = g[FindValue(g, "w")].constant;
    for (int64_t i = 0; i < w.elems(); ++i) out.push_back(ElemAsInt(w, i));
    return out;
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(elements(Good(constant(onnx::TensorProto::INT2, {5}, "\x1b\x02", {}))),
            (List{-1, -2, 1, 0, -2}));
  EXPECT_EQ(elements(Good(constant(onnx::TensorProto::UINT2, {5}, "", {0x1b, 2}))),
            (List{3, 2, 1, 0, 2}));
  EXPECT_EQ(elements(Good(constant(onnx::TensorProto::FLOAT4E2M1, {3}, "\x21\x0f", {}))),
            (List{1, 2, 15}));
  EXPECT_EQ(elements(Good(constant(onnx::TensorProto::FLOAT8E4M3FN, {2}, "", {56, 200}))),
            (List{56, 200}));
  ExpectRefused(constant(onnx::TensorProto::INT2, {5}, "\x1b", {}), "has 1 bytes, expected 2");
  ExpectRefused(constant(onnx::TensorProto::UINT2, {5}, "", {1, 2, 3}),
                "found 3 elements, expected 2");
  ExpectRefused(constant(onnx::TensorProto::FLOAT8E5M2, {1}, "", {256}), "can't hold");
}

}  // namespace
}  // namespace weft::graph
