// What a node of com.microsoft becomes: nodes of ONNX around values with new names. The operators
// are those of onnxruntime's ContribOperators.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/builder.h"

namespace weft::graph {

class Expansion {
 public:
  Expansion(Draft& draft, Node node, int64_t opset)
      : draft_(draft), node_(std::move(node)), opset_(opset) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }  // of the node's domain
  bool Has(size_t i) const { return InputAt(node_, i).valid(); }
  ValueId In(size_t i) const { return InputAt(node_, i); }
  const Tensor* ConstantIn(size_t i) const;  // null unless it is one, here or around
  std::optional<std::vector<int64_t>> ConstantInts(size_t i) const;
  bool HasOut(size_t i) const { return i < node_.outputs.size() && node_.outputs[i].valid(); }
  // Inputs `low` to `high`, of which the first `low` are there, and at most `outputs`.
  Status Counts(size_t low, size_t high, size_t outputs = 1) const;
  // Takes out those of these attributes that say, by 0 or "NONE", that a feature is not used.
  void DropUnused(std::initializer_list<std::string_view> features);
  // No other attributes than these.
  Status Only(std::initializer_list<std::string_view> attributes) const;
  // That the node is as a schema in the manner of schema.def says: operands, as far as their types
  // are known, and attributes.
  Status Obeys(std::string_view inputs, std::string_view outputs, std::string_view types,
               std::string_view attributes = "");
  Status Absent(size_t input, std::string_view what) const;
  Status Unused(size_t output, std::string_view what) const;

  // A new value that `op` computes.
  Result<ValueId> Make(Op op, std::vector<ValueId> inputs, std::string_view what,
                       std::vector<Attribute> attributes = {});
  // Several.
  Result<std::vector<ValueId>> MakeAll(Op op, std::vector<ValueId> inputs, size_t count,
                                       std::string_view what,
                                       std::vector<Attribute> attributes = {});
  // Output i of the node.
  Status Finish(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {},
                size_t i = 0);
  // Outputs of the node, some of them absent.
  Status FinishAll(Op op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                   std::vector<Attribute> attributes = {});
  ValueId Constant(std::string_view what, Tensor tensor);
  ValueId Ints(std::string_view what, std::vector<int64_t> list);
  ValueId Int(std::string_view what, int64_t value);  // of rank 0
  // A number in the type of `like`.
  Result<ValueId> Number(std::string_view what, double value, ValueId like);
  // What is known of a value here: shapes of computed values are inferred for it.
  const Value& Known(ValueId id);
  std::optional<size_t> RankOf(ValueId id);

 private:
  std::string Near(std::string_view what) const;

  Draft& draft_;
  Node node_;
  int64_t opset_;
};

// A formula in operators of ONNX. What fails makes all that is built upon it fail, so that it is
// asked for only once, at the end.
class Formula {
 public:
  explicit Formula(Expansion& e) : e_(e) {}

  ValueId Do(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {});
  ValueId Add(ValueId a, ValueId b) { return Do(Op::kAdd, {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Do(Op::kSub, {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Do(Op::kMul, {a, b}); }
  ValueId Div(ValueId a, ValueId b) { return Do(Op::kDiv, {a, b}); }
  ValueId Cast(ValueId a, Dtype to);
  // A number in the type of `like`.
  ValueId Number(double value, ValueId like);
  // Output i of the node.
  Status Finish(ValueId value, size_t i = 0);
  const Status& status() const { return status_; }

 private:
  Expansion& e_;
  Status status_;
};

using Expander = Status (*)(Expansion& e);
// How an operator of another domain, or an old one, is said in operators of ONNX; null if weft
// knows no way. `opset` is that of the domain.
Expander FindExpansion(std::string_view domain, std::string_view op, int64_t opset);

// contrib.cpp, ml.cpp, preview.cpp, training.cpp: by operator of com.microsoft, ai.onnx.ml,
// ai.onnx.preview and ai.onnx.preview.training.
Expander FindContrib(std::string_view op);
Expander FindMl(std::string_view op);
Expander FindPreview(std::string_view op);
Expander FindTraining(std::string_view op);
// experimental.cpp, by operator of ai.onnx that this opset had.
Expander FindExperimental(std::string_view op, int64_t opset);
// random.cpp, by operator of ai.onnx. Nodes without a seed are told apart by attribute "stream".
Expander FindRandom(std::string_view op);
// Gives what draws without a seed in a loop's body its value `trip`, to differ in each. Whether
// anything does.
bool CountTrips(Graph& body, const std::string& trip);
// ngrams.cpp
Status ExpandTfIdf(Expansion& e);
// contrib.cpp
std::vector<Attribute> Kept(const Node& node, std::initializer_list<std::string_view> names);
std::vector<Attribute> WindowOf(const Node& node);  // what a convolution says of its window
// The activation that a convolution or product names, as the last node.
Status FinishActivated(Expansion& e, ValueId x);
// contrib_nhwc.cpp: images [n, ..., c] as [n, c, ...] and the other way.
Result<ValueId> ChannelsFirst(Expansion& e, ValueId x);
Result<ValueId> ChannelsLast(Expansion& e, ValueId x);
Status ExpandNhwcConv(Expansion& e);
Status ExpandNhwcMaxPool(Expansion& e);
Status ExpandQLinearConv(Expansion& e);
Status ExpandGroupNorm(Expansion& e);
// contrib_experts.cpp
Status ExpandExperts(Expansion& e);
// contrib_matmul_nbits.cpp
struct PackedRows {
  size_t weights, scales, zeros;  // inputs
  int64_t bits, block;            // 0: one for each row
};
// Constant weights [matrices, rows, bytes of a row] as numbers [matrices, rows, columns].
Result<ValueId> DequantizedRows(Expansion& e, const PackedRows& packed);
Status ExpandMatMulBnb4(Expansion& e);
Status ExpandMatMulNBits(Expansion& e);
Status ExpandGatherBlockQuantized(Expansion& e);
// contrib_dynamic_lstm.cpp
Status ExpandDynamicQuantizeLSTM(Expansion& e);
// contrib_decoding.cpp
Status ExpandDecoderMaskedAttention(Expansion& e);
Status ExpandSparseAttention(Expansion& e);
// contrib_images.cpp
Status ExpandConvTransposeWithDynamicPads(Expansion& e);
Status ExpandCropAndResize(Expansion& e);
// contrib_inverse.cpp
Status ExpandInverse(Expansion& e);
// contrib_tokens.cpp
Status ExpandNGramRepeatBlock(Expansion& e);
Status ExpandTorchEmbedding(Expansion& e);
// contrib_integers.cpp
Status ExpandMatMulInteger16(Expansion& e);
Status ExpandMulInteger(Expansion& e);
Status ExpandQLinearReduceMean(Expansion& e);
Status ExpandReduceSumInteger(Expansion& e);
// contrib_positions.cpp
Status ExpandBiasSoftmax(Expansion& e);
Status ExpandGatedRelativePositionBias(Expansion& e);
Status ExpandGemmaRotaryEmbedding(Expansion& e);
Status ExpandMRotaryEmbedding(Expansion& e);
Status ExpandRelativePositionBias(Expansion& e);
// contrib_signal.cpp
Status ExpandComplexMul(Expansion& e);
Status ExpandIrfft(Expansion& e);
Status ExpandRfft(Expansion& e);
Status ExpandUnfoldTensor(Expansion& e);
// contrib_recurrent.cpp
Status ExpandCausalConvWithState(Expansion& e);
Status ExpandLinearAttention(Expansion& e);
Status ExpandLinearAttentionGate(Expansion& e);
// contrib_attention.cpp
Result<int64_t> KnownExtent(Expansion& e, ValueId id, size_t axis, std::string_view what);
// As a list of one number.
Result<ValueId> ExtentOf(Expansion& e, ValueId x, int64_t axis, std::string_view what);
// 0 to n - 1; n is a list of one number.
Result<ValueId> Counting(Expansion& e, ValueId n, std::string_view what);
// [batch, length, heads * size] as [batch, heads, length, size], and back.
Result<ValueId> Unpacked(Expansion& e, ValueId x, int64_t heads, std::string_view what);
Result<ValueId> Packed(Expansion& e, ValueId x, std::string_view what);
// What is added to the scores for a mask of 1 and 0, [batch, keys] or [batch, queries, keys], and
// for what is added anyway.
Result<ValueId> Bias(Expansion& e, ValueId mask, ValueId added, ValueId like);
// A number of heads.
Result<int64_t> Heads(const Expansion& e, std::string_view attribute);
// Columns of x, which has `sizes` of them one behind the other.
Result<std::vector<ValueId>> Columns(Expansion& e, ValueId x, std::vector<int64_t> sizes,
                                     std::string_view what);
Status ExpandMultiHeadAttention(Expansion& e);
Status ExpandGroupQueryAttention(Expansion& e);
Status ExpandPackedAttention(Expansion& e);
Status ExpandRotaryEmbedding(Expansion& e);
// What ONNX's RotaryEmbedding does with input 0 and these tables.
Status FinishTurned(Expansion& e, std::vector<ValueId> tables);

}  // namespace weft::graph
