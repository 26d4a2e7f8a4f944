// Models for the importer's tests, built with protobuf.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/onnx/proto/onnx-ml.pb.h"
#include "graph/testing.h"

namespace weft::graph::testing {

using Strings = std::vector<std::string>;

inline onnx::AttributeProto IntA(const std::string& name, int64_t value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
  return a;
}
inline onnx::AttributeProto FloatA(const std::string& name, float value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(value);
  return a;
}
inline onnx::AttributeProto StringA(const std::string& name, const std::string& value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
  return a;
}
inline onnx::AttributeProto IntsA(const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
  return a;
}
inline onnx::AttributeProto GraphA(const std::string& name, const onnx::GraphProto& graph) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = graph;
  return a;
}

inline onnx::NodeProto NodeP(const std::string& op, const Strings& inputs, const Strings& outputs,
                             const std::vector<onnx::AttributeProto>& attributes = {}) {
  onnx::NodeProto node;
  node.set_op_type(op);
  for (const auto& name : inputs) node.add_input(name);
  for (const auto& name : outputs) node.add_output(name);
  for (const auto& a : attributes) *node.add_attribute() = a;
  return node;
}

inline onnx::ValueInfoProto ValueP(const std::string& name, const std::vector<int64_t>& shape,
                                   int type = onnx::TensorProto::FLOAT) {
  onnx::ValueInfoProto value;
  value.set_name(name);
  auto* tensor = value.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (int64_t extent : shape) tensor->mutable_shape()->add_dim()->set_dim_value(extent);
  return value;
}

inline onnx::TensorProto Floats(const std::string& name, const std::vector<int64_t>& shape,
                                const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t extent : shape) tensor.add_dims(extent);
  for (float v : values) tensor.add_float_data(v);
  return tensor;
}

// input x: f32[2, 3] -> Relu -> output y, opset 17: changed by each test.
inline onnx::ModelProto ReluModel(int64_t opset = 17) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  auto& graph = *model.mutable_graph();
  graph.set_name("g");
  *graph.add_input() = ValueP("x", {2, 3});
  *graph.add_output() = ValueP("y", {});
  *graph.add_node() = NodeP("Relu", {"x"}, {"y"});
  return model;
}
// The same with these nodes in place of the Relu.
inline onnx::ModelProto ModelOf(const std::vector<onnx::NodeProto>& nodes, int64_t opset = 17) {
  onnx::ModelProto model = ReluModel(opset);
  model.mutable_graph()->clear_node();
  for (const auto& node : nodes) *model.mutable_graph()->add_node() = node;
  return model;
}

// A branch of an If: no inputs, and one output.
inline onnx::GraphProto Branch(const std::vector<onnx::NodeProto>& nodes,
                               const std::string& output) {
  onnx::GraphProto graph;
  graph.set_name("branch");
  for (const auto& node : nodes) *graph.add_node() = node;
  graph.add_output()->set_name(output);
  return graph;
}

inline Result<Graph> Imported(const std::string& bytes, const std::string& folder = "",
                              const ImportLimits& limits = {}) {
  return ImportOnnx(std::as_bytes(std::span(bytes)), "test", folder, limits);
}
inline Result<Graph> Imported(const onnx::ModelProto& model, const std::string& folder = "",
                              const ImportLimits& limits = {}) {
  return Imported(model.SerializeAsString(), folder, limits);
}
inline Graph Good(const onnx::ModelProto& model, const std::string& folder = "") {
  auto graph = Imported(model, folder);
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  if (!graph.ok()) return {};
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph).ToString();
  return *std::move(graph);
}
inline void ExpectRefused(const onnx::ModelProto& model, const std::string& part,
                          const std::string& folder = "") {
  const auto graph = Imported(model, folder);
  ASSERT_FALSE(graph.ok()) << "accepted, expected: " << part;
  EXPECT_NE(graph.status().ToString().find(part), std::string::npos) << graph.status().ToString();
}

}  // namespace weft::graph::testing
