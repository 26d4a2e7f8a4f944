// Files that mean harm: each ends in an error that says where, in bounded time and memory.

#include <random>

#include "graph/onnx/testing.h"

namespace weft::graph {
namespace {

using namespace testing;
using onnx::TensorProto;

std::string ErrorOf(const std::string& bytes) {
  const auto graph = Imported(bytes);
  return graph.ok() ? "accepted" : graph.status().ToString();
}

TEST(HostileBytes, EmptyShortAndRandom) {
  EXPECT_NE(ErrorOf("").find("empty"), std::string::npos);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_NE(ErrorOf(std::string(1, static_cast<char>(byte))), "accepted");
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_NE(ErrorOf(bytes), "accepted");
  }
}

TEST(HostileBytes, TruncatedAndChanged) {
  onnx::ModelProto model =
      ModelOf({NodeP("Add", {"x", "w"}, {"y"}), NodeP("Softmax", {"y"}, {"z"}, {IntA("axis", 0)})});
  *model.mutable_graph()->add_initializer() = Floats("w", {3}, {1, 2, 3});
  const std::string good = model.SerializeAsString();
  ASSERT_TRUE(Imported(good).ok());
  for (size_t n = 0; n < good.size(); ++n)
    (void)Imported(good.substr(0, n)).ok();  // some prefixes are whole messages
  EXPECT_NE(ErrorOf(good.substr(0, good.size() - 3)), "accepted");
  EXPECT_NE(ErrorOf(good + "\xFF").find("byte " + std::to_string(good.size())), std::string::npos);
  for (size_t n = 0; n < good.size(); ++n) {  // must not crash; may still be a model
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ (1 << bit));
      auto graph = Imported(bad);
      if (graph.ok()) (void)InferShapes(*graph).ok();
    }
  }
}

TEST(HostileBytes, WireFormat) {
  const std::string graph = "\x3A";  // field 7, a message
  for (const std::string& length : {std::string("\x7F"), std::string("\xFF\xFF\xFF\xFF\x07"),
                                    std::string("\x80\x80\x80\x80\x10"),
                                    std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")}) {
    EXPECT_NE(ErrorOf(graph + length + "abc").find("byte 0"), std::string::npos)
        << ErrorOf(graph + length + "abc");
  }
  EXPECT_NE(ErrorOf("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01").find("varint"),
            std::string::npos);
  EXPECT_NE(ErrorOf(std::string("\x02\x00", 2)).find("field number 0"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string("\x0A\x00", 2)).find("expected a varint"),
            std::string::npos);  // ir_version as bytes
  EXPECT_NE(ErrorOf("\x0B").find("wire type 3"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string("\x12\x02\xC3\x28", 4)).find("UTF-8"),
            std::string::npos);  // producer_name
  EXPECT_NE(ErrorOf(std::string("\x12\x03\xED\xA0\x80", 5)).find("UTF-8"),
            std::string::npos);  // a surrogate
}

TEST(HostileBytes, UnknownFieldsArePassedOver) {
  const std::string unknown("\xF8\x3F\x01\xFA\x3F\x02hi", 8);
  EXPECT_TRUE(Imported(ReluModel().SerializeAsString() + unknown).ok());
}

TEST(HostileBytes, DeepMessages) {
  std::string inner;  // graph -> node -> attribute -> graph -> …
  for (int i = 0; i < 3000; ++i) {
    for (char tag : {'\x32', '\x2A', '\x0A'}) {  // attribute.g, node.attribute, graph.node
      std::string length;
      for (size_t n = inner.size(); true; n >>= 7) {
        length += static_cast<char>((n & 0x7F) | (n > 0x7F ? 0x80 : 0));
        if (n <= 0x7F) break;
      }
      inner = tag + length + inner;
    }
  }
  std::string length;
  for (size_t n = inner.size(); true; n >>= 7) {
    length += static_cast<char>((n & 0x7F) | (n > 0x7F ? 0x80 : 0));
    if (n <= 0x7F) break;
  }
  EXPECT_NE(ErrorOf("\x3A" + length + inner).find("nest deeper"), std::string::npos);
}

void ExpectTensorRefused(const std::function<void(TensorProto&)>& harm, const std::string& part) {
  onnx::ModelProto model = ModelOf({NodeP("Add", {"x", "w"}, {"y"})});
  auto& w = *model.mutable_graph()->add_initializer();
  w = Floats("w", {3}, {1, 2, 3});
  harm(w);
  ExpectRefused(model, part);
  ExpectRefused(model, "\"w\"");
}

TEST(HostileTensors, Refused) {
  ExpectTensorRefused([](auto& w) { w.add_float_data(4); }, "found 4 elements, expected 3");
  ExpectTensorRefused([](auto& w) { w.clear_float_data(); }, "found 0 elements");
  ExpectTensorRefused([](auto& w) { w.set_raw_data("abcdabcdabcd"); }, "more than one field");
  ExpectTensorRefused(
      [](auto& w) {
        w.clear_float_data();
        w.set_raw_data("abcdefg");
      },
      "raw data has 7 bytes, expected 12");
  ExpectTensorRefused(
      [](auto& w) {
        w.clear_float_data();
        w.set_raw_data("abcdabcdabcdabcd");
      },
      "raw data has 16 bytes");
  ExpectTensorRefused(
      [](auto& w) {
        w.clear_float_data();
        for (int i = 0; i < 3; ++i) w.add_int64_data(i);
      },
      "expected float_data");
  ExpectTensorRefused([](auto& w) { w.set_data_type(9999); }, "unknown element type 9999");
  ExpectTensorRefused([](auto& w) { w.set_data_type(0); }, "missing");
  ExpectTensorRefused([](auto& w) { w.set_data_type(TensorProto::COMPLEX64); }, "not supported");
  ExpectTensorRefused([](auto& w) { w.set_data_type(TensorProto::STRING); },
                      "expected string_data");
  ExpectTensorRefused([](auto& w) { w.set_dims(0, -3); }, "-3");
  ExpectTensorRefused(
      [](auto& w) {
        w.set_dims(0, INT64_MAX);
        w.add_dims(INT64_MAX);
      },
      "");
  ExpectTensorRefused([](auto& w) { w.set_dims(0, int64_t{1} << 62); }, "too large");
  ExpectTensorRefused(
      [](auto& w) {
        for (int i = 0; i < 10'000; ++i) w.add_dims(1);
      },
      "rank");
  ExpectTensorRefused(
      [](auto& w) {
        w.set_data_type(TensorProto::INT8);
        w.clear_float_data();
        for (int i = 0; i < 3; ++i) w.add_int32_data(1000);
      },
      "can't hold");
  ExpectTensorRefused([](auto& w) { w.mutable_segment()->set_begin(1); }, "segments");
}

TEST(HostileModels, Versions) {
  for (int64_t opset : {int64_t{0}, int64_t{-1}, int64_t{29}, int64_t{1} << 31})
    EXPECT_FALSE(Imported(ReluModel(opset)).ok()) << opset;
  onnx::ModelProto model = ReluModel();
  model.clear_opset_import();
  ExpectRefused(model, "imports no opset");
  model = ReluModel();
  *model.add_opset_import() = model.opset_import(0);
  EXPECT_TRUE(Imported(model).ok());  // twice the same is no contradiction
  model.mutable_opset_import(1)->set_version(model.opset_import(0).version() - 1);
  ExpectRefused(model, "twice, with opsets");
  model = ReluModel();
  model.mutable_graph()->mutable_node(0)->set_domain("com.x");
  ExpectRefused(model, "\"com.x\" is not imported");
  model.add_opset_import()->set_domain("com.x:");
  model.mutable_opset_import(1)->set_version(1);
  model.mutable_graph()->mutable_node(0)->set_domain("com.x:");
  ExpectRefused(model, "\"com.x:\" holds a colon");
  for (int64_t ir : {0, 2, 99}) {
    model = ReluModel();
    model.set_ir_version(ir);
    ExpectRefused(model, "IR version");
  }
  model = ReluModel();
  model.clear_graph();
  ExpectRefused(model, "no graph");
}

TEST(HostileModels, Names) {
  ExpectRefused(ModelOf({NodeP("Relu", {"y"}, {"y"})}), "its own output");
  ExpectRefused(ModelOf({NodeP("Relu", {"a"}, {"y"}), NodeP("Relu", {"y"}, {"a"})}),
                "before the node that defines it");
  ExpectRefused(ModelOf({NodeP("Relu", {"q"}, {"y"})}), "\"q\" is produced by nobody");
  ExpectRefused(ModelOf({NodeP("Relu", {"x"}, {"q"})}), "output \"y\"");
  ExpectRefused(ModelOf({NodeP("Relu", {"x"}, {"y"}), NodeP("Abs", {"x"}, {"y"})}),
                "defined twice");
  ExpectRefused(ModelOf({NodeP("Relu", {"x"}, {"x"})}), "defined twice");
  ExpectRefused(ModelOf({NodeP("", {"x"}, {"y"})}), "no operator");
  onnx::ModelProto model = ReluModel();
  *model.mutable_graph()->add_input() = ValueP("x", {1});
  ExpectRefused(model, "twice");
  model = ReluModel();
  *model.mutable_graph()->add_output() = ValueP("y", {});
  ExpectRefused(model, "twice");
  model = ReluModel();
  *model.mutable_graph()->add_initializer() = Floats("y", {1}, {1});
  ExpectRefused(model, "defined twice");
  model = ReluModel();
  model.mutable_graph()->mutable_node(0)->set_name(
      "evil\n\x01"
      "\x1b[31m");
  model.mutable_graph()->mutable_node(0)->set_input(0, "q");
  const auto refused = Imported(model);
  ASSERT_FALSE(refused.ok());
  for (char c : refused.status().ToString()) EXPECT_GE(static_cast<unsigned char>(c), ' ');
  model = ReluModel();
  model.mutable_graph()->mutable_node(0)->set_name(std::string(10 << 20, 'n'));
  EXPECT_TRUE(Imported(model).ok());
}

TEST(HostileModels, SubgraphsSeeOnlyWhatIsBefore) {
  onnx::GraphProto branch;
  *branch.add_node() = NodeP("Relu", {"later"}, {"b"});
  branch.add_output()->set_name("b");
  onnx::ModelProto model = ModelOf(
      {NodeP("If", {"c"}, {"y"}, {GraphA("then_branch", branch), GraphA("else_branch", branch)}),
       NodeP("Relu", {"x"}, {"later"})});
  *model.mutable_graph()->add_input() = ValueP("c", {}, TensorProto::BOOL);
  ExpectRefused(model, "\"later\"");
  branch.mutable_node(0)->set_input(0, "c");
  branch.mutable_node(0)->set_output(0, "x");
  branch.mutable_output(0)->set_name("x");
  model = ModelOf(
      {NodeP("If", {"c"}, {"y"}, {GraphA("then_branch", branch), GraphA("else_branch", branch)})});
  *model.mutable_graph()->add_input() = ValueP("c", {}, TensorProto::BOOL);
  ExpectRefused(model, "already defined around");
}

TEST(HostileModels, Attributes) {
  ExpectRefused(ModelOf({NodeP("MatMul", {"x", "x"}, {"y"}, {IntA("out_dtype", 1)})}),
                "unknown attribute");
  ExpectRefused(ModelOf({NodeP("Relu", {"x"}, {"y"}, {IntA("k", 1)})}), "unknown attribute \"k\"");
  ExpectRefused(ModelOf({NodeP("Softmax", {"x"}, {"y"}, {FloatA("axis", 1)})}),
                "is a float, expected an integer");
  ExpectRefused(ModelOf({NodeP("Softmax", {"x"}, {"y"}, {IntA("axis", 1), IntA("axis", 1)})}),
                "given twice");
  ExpectRefused(ModelOf({NodeP("Concat", {"x"}, {"y"})}), "required attribute \"axis\"");
  ExpectRefused(ModelOf({NodeP("Concat", {}, {"y"}, {IntA("axis", 0)})}), "found 0 inputs");
  ExpectRefused(ModelOf({NodeP("Sum", {"x", "", "x"}, {"y"})}),
                "required input 1 (data_0) is absent");
  ExpectRefused(ModelOf({NodeP("Add", {"x"}, {"y"})}), "found 1 inputs, expected 2");
  ExpectRefused(ModelOf({NodeP("Add", {"x", ""}, {"y"})}), "required input 1 (B) is absent");
  ExpectRefused(ModelOf({NodeP("Relu", {"x"}, {"y", "z"})}), "found 2 outputs, expected 1");
  ExpectRefused(ModelOf({NodeP("Gelu", {"x"}, {"y"})}), "not in opset 17");
  ExpectRefused(ModelOf({NodeP("Upsample", {"x", "x"}, {"y"})}), "gone since opset 10");
  onnx::AttributeProto odd = IntA("axis", 1);
  odd.set_s("both");
  ExpectRefused(ModelOf({NodeP("Softmax", {"x"}, {"y"}, {odd})}), "more than its type says");
  odd = IntA("axis", 1);
  odd.set_ref_attr_name("outside");
  ExpectRefused(ModelOf({NodeP("Softmax", {"x"}, {"y"}, {odd})}), "outside of one");
  ExpectRefused(ModelOf({NodeP("Constant", {}, {"y"})}), "expected 1");
  ExpectRefused(ModelOf({NodeP("Constant", {}, {"y"}, {IntA("value_float", 1)})}), "another type");
}

TEST(HostileModels, NestedBranches) {
  onnx::GraphProto branch;
  *branch.add_node() = NodeP("Relu", {"x"}, {"b0"});
  branch.add_output()->set_name("b0");
  for (int i = 1; i < 34; ++i) {
    onnx::GraphProto next;
    const std::string name = "b" + std::to_string(i);
    onnx::GraphProto other;
    *other.add_node() = NodeP("Abs", {"x"}, {"o" + name});
    other.add_output()->set_name("o" + name);
    *next.add_node() =
        NodeP("If", {"c"}, {name}, {GraphA("then_branch", branch), GraphA("else_branch", other)});
    next.add_output()->set_name(name);
    branch = next;
    if (i != 30 && i != 33) continue;
    onnx::ModelProto model = ReluModel();
    *model.mutable_graph()->mutable_node() = branch.node();
    model.mutable_graph()->mutable_output(0)->set_name(name);
    *model.mutable_graph()->add_input() = ValueP("c", {}, TensorProto::BOOL);
    auto graph = Imported(model);
    EXPECT_EQ(graph.ok(), i == 30) << graph.status().ToString();
    if (graph.ok()) {
      EXPECT_TRUE(InferShapes(*graph).ok());
    }
  }
}

TEST(HostileModels,
     NestedLoopsInTime) {  // inference looks for stable shapes, but not 3^depth times
  onnx::GraphProto body;
  for (int i = 0; i < 25; ++i) {
    const std::string n = std::to_string(i);
    onnx::GraphProto next;
    for (const char* name : {"i", "c", "v"}) next.add_input()->set_name(name + n);
    *next.add_node() = NodeP("Identity", {"c" + n}, {"d" + n});
    *next.add_node() =
        i == 0 ? NodeP("Concat", {"v0", "v0"}, {"o0"}, {IntA("axis", 0)})
               : NodeP("Loop", {"m", "c" + n, "v" + n}, {"o" + n}, {GraphA("body", body)});
    next.add_output()->set_name("d" + n);
    next.add_output()->set_name("o" + n);
    body = next;
  }
  onnx::ModelProto model = ModelOf({NodeP("Loop", {"m", "", "x"}, {"y"}, {GraphA("body", body)})});
  *model.mutable_graph()->add_input() = ValueP("m", {}, TensorProto::INT64);
  Graph g = Good(model);
  EXPECT_TRUE(InferShapes(g).ok());
}

TEST(HostileModels, ManyBinds) {
  onnx::ModelProto model = ReluModel();
  auto* shape = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  shape->mutable_dim(0)->set_dim_value(INT64_MAX);
  ExpectRefused(model, "input \"x\"");
  for (int i = 0; i < 100; ++i) shape->add_dim()->set_dim_value(1);
  ExpectRefused(model, "rank");
}

}  // namespace
}  // namespace weft::graph
