// Old spellings come out in the newest form, with the same meaning.

#include <cfloat>

#include "graph/onnx/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

// The node's operators and the type of y, after import and inference.
std::string Upgraded(const std::vector<onnx::NodeProto>& nodes, int64_t opset,
                     const std::vector<int64_t>& x = {2, 3}) {
  onnx::ModelProto model = ModelOf(nodes, opset);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", x);
  Graph g = Good(model);
  const Status status = InferShapes(g);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Verify(g).ok());
  return OpsOf(g) + " " + TypeOf(g, "y");
}

TEST(Upgrade, AxesBecomeInputs) {
  EXPECT_EQ(Upgraded({NodeP("Unsqueeze", {"x"}, {"y"}, {IntsA("axes", {0})})}, 11),
            "Unsqueeze f32[1, 2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Squeeze", {"x"}, {"y"}, {IntsA("axes", {0})})}, 7, {1, 3}),
            "Squeeze f32[3]");
  EXPECT_EQ(Upgraded({NodeP("Squeeze", {"x"}, {"y"})}, 7, {1, 3}), "Squeeze f32[3]");
  EXPECT_EQ(
      Upgraded({NodeP("ReduceSum", {"x"}, {"y"}, {IntsA("axes", {1}), IntA("keepdims", 0)})}, 11),
      "ReduceSum f32[2]");
  EXPECT_EQ(Upgraded({NodeP("ReduceMean", {"x"}, {"y"}, {IntsA("axes", {-1})})}, 17),
            "ReduceMean f32[2, 1]");
  EXPECT_EQ(Upgraded({NodeP("ReduceMax", {"x"}, {"y"})}, 13), "ReduceMax f32[1, 1]");
}

// Until opset 28 there were logarithms of integers.
TEST(Upgrade, LogarithmsOfIntegers) {
  onnx::ModelProto model = ModelOf({NodeP("ReduceLogSum", {"x"}, {"y"}, {IntsA("axes", {1})})}, 11);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", {2, 3});
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT32);
  Graph g = Good(model);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(OpsOf(g) + " " + TypeOf(g, "y"), "Cast ReduceLogSum Cast i32[2, 1]");
}

TEST(Upgrade, Split) {
  EXPECT_EQ(
      Upgraded({NodeP("Split", {"x"}, {"a", "y"}, {IntA("axis", 1), IntsA("split", {1, 2})})}, 11),
      "Split f32[2, 2]");
  EXPECT_EQ(Upgraded({NodeP("Split", {"x"}, {"a", "y"})}, 13), "Split f32[1, 3]");
}

TEST(Upgrade, ClipPadSliceTopK) {
  onnx::ModelProto model =
      ModelOf({NodeP("Clip", {"x"}, {"y"}, {FloatA("max", 6), FloatA("min", 0)})}, 7);
  const Graph g = Good(model);
  ASSERT_EQ(OpsOf(g), "Clip");
  EXPECT_EQ(ElemAsDouble(g[g.nodes[0].inputs[2]].constant, 0), 6);
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::FLOAT16);
  const Graph h = Good(model);
  EXPECT_EQ(h[h.nodes[0].inputs[1]].dtype, Dtype::kF16);  // the bounds have the type of the data
  EXPECT_EQ(Upgraded({NodeP("Clip", {"x"}, {"y"}, {FloatA("min", 0)})}, 10), "Clip f32[2, 3]");
  const Graph ends = Good(ModelOf({NodeP("Clip", {"x"}, {"y"})}, 6));
  ASSERT_EQ(ends.nodes[0].inputs.size(), 3u);
  EXPECT_EQ(ElemAsDouble(ends[ends.nodes[0].inputs[1]].constant, 0), -FLT_MAX);
  EXPECT_EQ(ElemAsDouble(ends[ends.nodes[0].inputs[2]].constant, 0), FLT_MAX);
  EXPECT_FALSE(InputAt(Good(ModelOf({NodeP("Clip", {"x"}, {"y"})}, 11)).nodes[0], 1).valid());
  EXPECT_EQ(
      Upgraded({NodeP("Pad", {"x"}, {"y"}, {IntsA("pads", {0, 1, 0, 1}), FloatA("value", 2)})}, 10),
      "Pad f32[2, 5]");
  EXPECT_EQ(Upgraded({NodeP("Slice", {"x"}, {"y"},
                            {IntsA("starts", {1}), IntsA("ends", {3}), IntsA("axes", {1})})},
                     9),
            "Slice f32[2, 2]");
  EXPECT_EQ(Upgraded({NodeP("TopK", {"x"}, {"y", "i"}, {IntA("k", 2)})}, 9), "TopK f32[2, 2]");
}

TEST(Upgrade, SoftmaxOverSeveralAxes) {
  EXPECT_EQ(Upgraded({NodeP("Softmax", {"x"}, {"y"})}, 11),
            "Softmax f32[2, 3]");  // axis 1 is the last
  EXPECT_EQ(Upgraded({NodeP("Softmax", {"x"}, {"y"})}, 11, {2, 3, 4}),
            "Shape Flatten Softmax Reshape f32[2, 3, 4]");
  EXPECT_EQ(Upgraded({NodeP("LogSoftmax", {"x"}, {"y"}, {IntA("axis", 2)})}, 11, {2, 3, 4}),
            "LogSoftmax f32[2, 3, 4]");
  EXPECT_EQ(
      Upgraded({NodeP("Relu", {"x"}, {"t"}), NodeP("Softmax", {"t"}, {"y"}, {IntA("axis", 1)})}, 9),
      "Relu Softmax f32[2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Softmax", {"x"}, {"y"}, {IntA("axis", 1)})}, 13, {2, 3, 4}),
            "Softmax f32[2, 3, 4]");
}

TEST(Upgrade, ResizeAndUpsample) {
  onnx::AttributeProto scales = FloatA("scales", 0);
  scales.set_type(onnx::AttributeProto::FLOATS);
  scales.clear_f();
  for (float s : {1.0f, 1.0f, 2.0f, 2.0f}) scales.add_floats(s);
  EXPECT_EQ(Upgraded({NodeP("Upsample", {"x"}, {"y"}, {scales})}, 7, {1, 2, 3, 3}),
            "Resize f32[1, 2, 6, 6]");
  onnx::ModelProto model = ModelOf({NodeP("Resize", {"x", "none", "none", "s"}, {"y"})}, 11);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", {1, 2, 3, 3});
  *model.mutable_graph()->add_initializer() = Floats("none", {0}, {});
  onnx::TensorProto sizes = Floats("s", {4}, {});
  sizes.set_data_type(onnx::TensorProto::INT64);
  for (int64_t s : {1, 2, 5, 5}) sizes.add_int64_data(s);
  *model.mutable_graph()->add_initializer() = sizes;
  Graph g = Good(model);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[1, 2, 5, 5]");
  EXPECT_FALSE(g.nodes[0].inputs[2].valid());
}

// Until opset 16 nothing shifted them by half a pixel.
TEST(Upgrade, PlacesOfRegions) {
  const auto mode = [](int64_t opset) {
    onnx::ModelProto model = ModelOf({NodeP("RoiAlign", {"x", "rois", "images"}, {"y"})}, opset);
    *model.mutable_graph()->mutable_input(0) = ValueP("x", {1, 1, 6, 6});
    *model.mutable_graph()->add_input() = ValueP("rois", {2, 4});
    onnx::ValueInfoProto images = ValueP("images", {2});
    images.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
    *model.mutable_graph()->add_input() = images;
    return StringAttr(Good(model).nodes[0], "coordinate_transformation_mode", "");
  };
  EXPECT_EQ(mode(10), "output_half_pixel");
  EXPECT_EQ(mode(15), "output_half_pixel");
  EXPECT_EQ(mode(16), "");
}

TEST(Upgrade, NormsAndDropout) {
  EXPECT_EQ(Upgraded({NodeP("Dropout", {"x"}, {"y"}, {FloatA("ratio", 0.3f)})}, 10),
            "Dropout f32[2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Dropout", {"x"}, {"z", "y"})}, 10), "Dropout bool[2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Dropout", {"x"}, {"z", "y"})}, 9),
            "Dropout Identity CastLike f32[2, 3]");
  onnx::ModelProto model =
      ModelOf({NodeP("BatchNormalization", {"x", "s", "s", "s", "s"}, {"y", "", "", "", ""})}, 9);
  *model.mutable_graph()->add_initializer() = Floats("s", {3}, {1, 1, 1});
  EXPECT_EQ(Good(model).nodes[0].outputs.size(), 1u);
  model.mutable_graph()->mutable_node(0)->set_output(1, "mean");
  const Node trained = Good(model).nodes[0];  // outputs that train meant that it trains
  EXPECT_EQ(IntAttr(trained, "training_mode", 0), 1);
  EXPECT_EQ(trained.outputs.size(), 2u);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", {2, 3, 4});
  *model.mutable_graph()->mutable_node(0)->add_attribute() = IntA("spatial", 0);
  model.mutable_opset_import(0)->set_version(8);
  ExpectRefused(model, "training statistics");
  model = ModelOf({NodeP("GroupNormalization", {"x", "s", "s"}, {"y"},
                         {IntA("num_groups", 3), FloatA("epsilon", 0.1f)})},
                  20);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", {2, 6, 4});
  *model.mutable_graph()->add_initializer() = Floats("s", {3}, {1, 2, 3});
  Graph g = Good(model);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 6, 4]");
  EXPECT_EQ(OpsOf(g),
            "Shape Div Concat Reshape Expand Reshape Reshape Expand Reshape GroupNormalization");
}

TEST(Upgrade, BroadcastingByAttributes) {
  const auto sum = [](const std::vector<onnx::AttributeProto>& attributes, int64_t opset) {
    onnx::ModelProto model =
        ModelOf({NodeP("Relu", {"x"}, {"r"}), NodeP("Add", {"r", "b"}, {"y"}, attributes)}, opset);
    *model.mutable_graph()->mutable_input(0) = ValueP("x", {2, 3, 4});
    *model.mutable_graph()->add_input() = ValueP("b", {3});
    return model;
  };
  Graph g = Good(sum({IntA("broadcast", 1), IntA("axis", 1)}, 6));
  EXPECT_EQ(OpsOf(g), "Relu Unsqueeze Add");
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3, 4]");
  g = Good(sum({IntA("broadcast", 1), IntA("axis", -2)}, 6));
  EXPECT_EQ(OpsOf(g), "Relu Unsqueeze Add");
  EXPECT_EQ(OpsOf(Good(sum({IntA("broadcast", 1)}, 6))), "Relu Add");
  ExpectRefused(sum({IntA("broadcast", 1), IntA("axis", 4)}, 6), "found axis 4 for rank 3");
  ExpectRefused(sum({IntA("axis", 1)}, 7), "axis");
}

TEST(Upgrade, FirstForms) {
  EXPECT_EQ(Upgraded({NodeP("Relu", {"x"}, {"y"}, {IntsA("consumed_inputs", {0})})}, 1),
            "Relu f32[2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Concat", {"x", "x"}, {"y"})}, 3), "Concat f32[2, 6]");
  EXPECT_EQ(Upgraded({NodeP("Reshape", {"x"}, {"y"}, {IntsA("shape", {3, 2})})}, 4),
            "Reshape f32[3, 2]");
  EXPECT_EQ(Upgraded({NodeP("Cast", {"x"}, {"y"}, {StringA("to", "INT32")})}, 5), "Cast i32[2, 3]");
  EXPECT_EQ(Upgraded({NodeP("Pad", {"x"}, {"y"}, {IntsA("paddings", {0, 1, 0, 1})})}, 1),
            "Pad f32[2, 5]");
  EXPECT_EQ(Upgraded({NodeP("LpPool", {"x"}, {"y"}, {FloatA("p", 3), IntsA("kernel_shape", {2})})},
                     1, {1, 2, 5}),
            "LpPool f32[1, 2, 4]");
  EXPECT_EQ(Upgraded({NodeP("Upsample", {"x"}, {"y"},
                            {FloatA("width_scale", 3), FloatA("height_scale", 2)})},
                     1, {1, 1, 2, 2}),
            "Resize f32[1, 1, 4, 6]");
  ExpectRefused(ModelOf({NodeP("Cast", {"x"}, {"y"}, {StringA("to", "FLOTA")})}, 1),
                "the element type \"FLOTA\"");
}

// A running sum over the steps of each batch.
onnx::ModelProto OldScan() {
  onnx::GraphProto body;
  body.set_name("step");
  for (const char* name : {"sum", "next"}) *body.add_input() = ValueP(name, {});
  *body.add_node() = NodeP("Add", {"sum", "next"}, {"new_sum"});
  *body.add_node() = NodeP("Mul", {"new_sum", "factor"}, {"row"});
  for (const char* name : {"new_sum", "row"}) *body.add_output() = ValueP(name, {});
  onnx::ModelProto model =
      ModelOf({NodeP("ReduceSum", {"x"}, {"factor"}, {IntA("keepdims", 0)}),
               NodeP("Scan", {"", "start", "x"}, {"last", "y"},
                     {IntA("num_scan_inputs", 1), IntsA("directions", {1}), GraphA("body", body)})},
              8);
  *model.mutable_graph()->mutable_input(0) = ValueP("x", {2, 3});
  *model.mutable_graph()->add_input() = ValueP("start", {2});
  return model;
}

TEST(Upgrade, BatchesOfScan) {
  Graph g = Good(OldScan());
  ASSERT_EQ(OpsOf(g), "ReduceSum Scan");
  EXPECT_TRUE(InferShapes(g).ok());
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).ToString();
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
  EXPECT_EQ(TypeOf(g, "last"), "f32[2]");
  const Graph batch = *Subgraphs(g.nodes[1])[0];
  EXPECT_EQ(OpsOf(batch), "Scan");
  EXPECT_EQ(IntsAttr(batch.nodes[0], "scan_input_directions"), (std::vector<int64_t>{1}));

  onnx::ModelProto model = OldScan();
  model.mutable_graph()->mutable_node(1)->set_input(0, "x");
  ExpectRefused(model, "sequence_lens of a Scan of opset 8 are not supported");
  model = OldScan();
  model.mutable_graph()->mutable_node(1)->add_input("x");
  ExpectRefused(model, "the body has 2 inputs, expected 3");
  model = OldScan();
  model.mutable_graph()->mutable_node(1)->add_output("more");
  ExpectRefused(model, "found 3 outputs, the body has 2");
}

}  // namespace
}  // namespace weft::graph
