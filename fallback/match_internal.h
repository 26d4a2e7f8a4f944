// What the matchers of the libraries share.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>

#include "base/verdict.h"
#include "fallback/match.h"

namespace weft::fallback {

using No = std::optional<Refusal>;  // nothing: yes

template <typename... T>
Refusal Refuse(Reason reason, fmt::format_string<T...> format, T&&... values) {
  return {reason, fmt::format(format, std::forward<T>(values)...)};
}

Verdict<LibraryCall> MatchNative(const graph::Graph& graph, graph::NodeId node);

// The ONNX name of the node, or what stands for it.
std::string Origin(const graph::Graph& graph, graph::NodeId node);

// A library's call that grows: the anchor first, then one epilogue node after the other. After a
// refusal the matcher is spent. Libraries take extents here that are known and not zero, and f32;
// oneDNN also bfloat16 in products and convolutions, whose sums are f32 and rounded once, behind
// the epilogue, if their result is no f32; and bytes, by operators of their own (match_bytes.cpp).
// What is written down is what oneDNN can do; other libraries do less (TakesOnDevice).
class CallMatcher {
 public:
  CallMatcher(const graph::Graph& graph, Library library, const LayoutOf& layout,
              const Abilities& can)
      : graph_(graph), layout_(layout), can_(can) {
    call_.library = library;
  }
  No Anchor(graph::NodeId node);
  No Epilogue(graph::NodeId node);
  No KeepsNan() const;  // what is matched so far
  LibraryCall Take() { return std::move(call_); }

 private:
  No Convolution(const graph::Node& node);
  No Deconvolution(const graph::Node& node);
  No Gemm(const graph::Node& node);
  No MatMul(const graph::Node& node);
  No FoldedProduct(const graph::Node& node);
  No Bytes(const graph::Node& node);
  No Pooling(const graph::Node& node);
  No Softmax(const graph::Node& node);
  No LayerNorm(const graph::Node& node);
  No Transpose(const graph::Node& node);
  No Eltwise(const graph::Node& node);
  No Binary(const graph::Node& node);

  // pads, strides and dilations as the library wants them, from the extents on both sides.
  No SetWindow(const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
               const std::vector<int64_t>& pads);
  No Window(const graph::Node& node, std::span<const int64_t> kernel);
  No Deconvolved(const graph::Node& node, std::span<const int64_t> kernel);
  No PostBinary(const graph::Node& node, std::string_view kind);
  No PostOperand(graph::ValueId other, std::string_view kind);
  bool TakesAsBias(graph::ValueId value) const;

  // ---- of a product of bytes ----
  No ByteOperands(const graph::Node& node, bool convolves, bool linear);
  No InputOf(std::string role, graph::ValueId value, std::span<const Dtype> dtypes,
             bool packs = false);
  No ZeroPoint(std::string role, graph::ValueId value);
  No Requantize(const graph::Node& node);
  No CheckSums(const graph::Node& node);

  // What the extents of a convolution, and of a product, say of them.
  No Convolved(const graph::Node& node);
  No Multiplied();
  // Settles the type of all operands by that of the first.
  No Halves(const graph::Node& node);
  // Both, and the type of the rest: that of the result, which of halves may be f32.
  No Factors(const graph::Node& node);

  // Operands. `packs`: in a layout of the library's own if it is constant.
  No Input(std::string role, graph::ValueId value, bool packs = false);
  No Output(graph::ValueId value);
  const Shape& ShapeOf(std::string_view role) const { return FindOperand(call_, role)->shape; }
  void Set(std::string name, CallAttributeValue value);

  const graph::Graph& graph_;
  const LayoutOf& layout_;
  const Abilities& can_;
  Dtype dtype_ = Dtype::kF32;
  LibraryCall call_;
  graph::ValueId result_;  // of what is matched so far
};

// Whether a library of a device does this call, as far as the call says.
No TakesOnDevice(const LibraryCall& call);

// What an elementwise node of one data operand does, as a post-op; nothing if the library has none.
std::optional<PostOp> UnaryPostOp(const graph::Graph& graph, const graph::Node& node);
// "binary_add" for Add and so on; empty if the library has none.
std::string_view BinaryKind(graph::Op op);
// The value of a constant of one element.
std::optional<float> ConstantScalar(const graph::Graph& graph, graph::ValueId value);

}  // namespace weft::fallback
