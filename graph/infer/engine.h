// Shape inference, one node at a time.
//
// Extents are kept as quasi-affine expressions of the symbols of the inputs: a convolution makes
// floor((h + 1)/2) of h. Each distinct expression becomes one derived symbol, so two branches that
// compute the same size have the same extent, and an Add of them verifies. What has no such form (a
// product of symbols, a count that depends on data) is a symbol that stands for itself.
//
// Elements of small tensors are tracked too (facts): Shape -> Gather -> Concat -> Reshape keeps
// symbols.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "graph/edit.h"
#include "graph/graph.h"

namespace weft::graph::infer {

// An element that may be known: an integer expression, or a number that is no integer.
struct Elem {
  enum Kind : uint8_t { kUnknown, kInteger, kReal } kind = kUnknown;
  Affine integer;  // in a tensor of floats too, where the value is whole
  double real = 0;

  static Elem Of(Affine a) { return {kInteger, std::move(a), 0}; }
  static Elem OfReal(double value);  // kInteger if it is whole and fits
  bool known() const { return kind != kUnknown; }
  bool IsConstant() const { return kind == kReal || (kind == kInteger && integer.IsConstant()); }
  double AsDouble() const { return kind == kReal ? real : static_cast<double>(integer.constant()); }
};
// Element i; unknown if no int64 holds it.
Elem ElemOf(const Tensor& tensor, int64_t i);
using Facts = std::vector<Elem>;  // row-major, as many as the tensor has elements

using Extents = std::vector<Extent>;
inline constexpr int64_t kMaxFacts = 1024;

class Engine {
 public:
  // Symbols that the graph has stand for themselves.
  explicit Engine(Graph& graph, int depth = 0);
  // Fills in the outputs of a node whose inputs are done. Errors name the node.
  Status Infer(NodeId id);
  const Facts* FactsOf(ValueId id);
  // Elements of a value that the graph around this one knows.
  void SetFacts(ValueId id, Facts facts);
  // The element type of the tensors in a value that is a sequence of them.
  std::optional<Dtype> Held(ValueId id);
  void SetHeld(ValueId id, Dtype dtype);
  // What an extent is in terms of symbols that stand for themselves, and the factors of one that is
  // a product; none if it is not.
  const Affine& MeaningOf(SymbolId id) const { return meaning_[static_cast<size_t>(id.index)]; }
  const std::vector<Extent>& FactorsOf(SymbolId id) const {
    return factors_[static_cast<size_t>(id.index)];
  }
  // By value: whether a rule asked for its elements, or for those of what is computed from them,
  // and did not get them all.
  std::vector<bool> Wanted() const;

 private:
  friend class Context;
  void Grow();  // after values or symbols were added
  Graph& graph_;
  int depth_;                    // of the graph, if it is a subgraph
  std::vector<Affine> meaning_;  // by symbol, in terms of those that stand for themselves
  std::vector<std::vector<Extent>> factors_;  // by symbol: of a product, else empty
  std::map<Affine, SymbolId> derived_;
  std::map<std::string, SymbolId> opaque_;   // "a*b", "broadcast(a, b)": one symbol a text
  std::vector<std::optional<Facts>> facts_;  // by value
  std::vector<bool> facts_done_;             // constants are read on first use
  std::vector<std::optional<Dtype>> held_;   // by value
  bool in_rule_ = false;                     // rather than propagating facts
  std::vector<bool> wanted_;
  Names symbol_names_;
};

// What a rule sees of its node. Rules return early (ok) when what they need is unknown.
class Context {
 public:
  Context(Engine& engine, NodeId id)
      : engine_(engine), graph_(engine.graph_), node(engine.graph_[id]) {}

  bool Has(size_t i) const { return InputAt(node, i).valid(); }
  const Extents* In(size_t i) const;  // null if absent or unknown
  std::optional<Dtype> Type(size_t i) const;
  const Facts* FactsIn(size_t i);
  // All elements of input i, if they are known integers without symbols.
  std::optional<std::vector<int64_t>> Ints(size_t i);
  // The same for a check that no extent waits for.
  std::optional<std::vector<int64_t>> IntsIfKnown(size_t i);
  void Want(ValueId id);  // its elements decide extents
  int64_t Int(std::string_view name, int64_t otherwise) const {
    return IntAttr(node, name, otherwise);
  }

  void Out(size_t i, Extents extents);
  void OutType(size_t i, Dtype dtype);
  void OutFacts(size_t i, Facts facts);
  // Of sequences: the element type of their tensors.
  std::optional<Dtype> Held(size_t i) { return engine_.Held(InputAt(node, i)); }
  void OutHeld(size_t i, std::optional<Dtype> dtype);
  const Extents* OutShape(size_t i) const;

  // Extents and expressions.
  Affine Meaning(Extent extent) const;
  Result<Extent> ToExtent(const Affine& value,
                          std::string_view what);   // negative constants are errors
  Extent Product(std::span<const Extent> extents);  // saturates; the caller checks static shapes
  // The same product as a list: products are taken apart, at most one constant.
  std::vector<Extent> Factors(std::span<const Extent> extents);
  Extent Fresh(std::string_view hint, int64_t min = 0, int64_t max = INT32_MAX);
  Extent Opaque(const std::string& text, int64_t min = 0, int64_t max = INT32_MAX);  // one a text
  // Whether `have` may be `want` or 1; the run says which.
  Status BroadcastsTo(Extent have, Extent want, std::string_view what);
  Result<Extent> Broadcast(Extent a, Extent b);
  Result<Extents> Broadcast(const Extents& a, const Extents& b);
  // The same size, seen twice: the more precise of both, or an error if they differ.
  Result<Extent> Same(Extent a, Extent b, std::string_view what);
  Interval Range(Extent extent) const;
  Interval Range(const Affine& value) const;
  std::string Text(const Extents& extents) const;
  std::string Text(Extent extent) const;
  std::string Text(const Affine& value) const;

  // -rank <= axis < rank, made non-negative.
  Result<int64_t> Axis(int64_t axis, int64_t rank) const;
  Result<std::vector<int64_t>> Axes(std::span<const int64_t> axes,
                                    int64_t rank) const;  // and unique
  Status Rank(size_t i, int64_t rank) const;              // input i has this rank, if it has one
  Status MinRank(size_t i, int64_t rank) const;
  Status Size(std::string_view attribute, size_t found, size_t expected) const;
  // The attribute is one of these words.
  Status OneOf(std::string_view attribute, std::string_view otherwise,
               std::initializer_list<std::string_view> known) const;

  Graph& graph() { return graph_; }
  int depth() const { return engine_.depth_; }
  const Facts* FactsOf(ValueId id) { return engine_.FactsOf(id); }
  std::optional<Dtype> HeldOf(ValueId id) { return engine_.Held(id); }

 private:
  Engine& engine_;
  Graph& graph_;

 public:
  const Node& node;
};

// a * b without overflow, or nothing.
std::optional<Affine> Times(const Affine& a, const Affine& b);
std::optional<Affine> Plus(const Affine& a, const Affine& b);

// No axes, or one of one element: not what ONNX says of scalars, but what some exporters write.
// What a symbol stands for a run says.
bool MayBeScalar(const Extents& shape);

// Forgets what was inferred before: types of computed and captured values, symbols that no input
// has.
void ResetTypes(Graph& graph);

using Rule = Status (*)(Context&);
Rule RuleOf(Op op);                     // null: outputs stay unknown
void PropagateFacts(Context& context);  // facts.cpp: elements of the outputs, where they are known

// The rules, by family.
Status Unary(Context& c);
Status Elementwise(Context& c);
Status IdentityRule(Context& c);
Status GeluRule(Context& c);
Status BitShiftRule(Context& c);
Status CastRule(Context& c);
Status BitCastRule(Context& c);
Status FloatCodeRule(Context& c);
Status ClipRule(Context& c);
Status WhereRule(Context& c);
Status ConvRule(Context& c);
Status ConvTransposeRule(Context& c);
Status PoolRule(Context& c);
Status GlobalPoolRule(Context& c);
Status RoiAlignRule(Context& c);
Status MatMulRule(Context& c);
Status DequantizeMatMulRule(Context& c);
Status GemmRule(Context& c);
Status EinsumRule(Context& c);
Status NormRule(Context& c);
Status BatchNormRule(Context& c);
Status LayerNormRule(Context& c);
Status SoftmaxRule(Context& c);
Status ReduceRule(Context& c);
Status ArgReduceRule(Context& c);
Status TopKRule(Context& c);
Status CumSumRule(Context& c);
Status ReshapeRule(Context& c);
Status FlattenRule(Context& c);
Status SqueezeRule(Context& c);
Status UnsqueezeRule(Context& c);
Status TransposeRule(Context& c);
Status ExpandRule(Context& c);
Status ShapeRule(Context& c);
Status SizeRule(Context& c);
Status ConcatRule(Context& c);
Status SplitRule(Context& c);
Status SliceRule(Context& c);
Status PadRule(Context& c);
Status TileRule(Context& c);
Status ResizeRule(Context& c);
Status DepthToSpaceRule(Context& c);
Status SpaceToDepthRule(Context& c);
Status TriluRule(Context& c);
Status RangeRule(Context& c);
Status ConstantOfShapeRule(Context& c);
Status EyeLikeRule(Context& c);
Status DrawRule(Context& c);
Status ImageDecoderRule(Context& c);
Status OneHotRule(Context& c);
Status GatherRule(Context& c);
Status GatherElementsRule(Context& c);
Status GatherNDRule(Context& c);
Status ScatterElementsRule(Context& c);
Status ScatterNDRule(Context& c);
Status NonZeroRule(Context& c);
Status CompressRule(Context& c);
Status NmsRule(Context& c);
Status UniqueRule(Context& c);
Status GridSampleRule(Context& c);
Status DeformConvRule(Context& c);
Status Col2ImRule(Context& c);
Status MaxUnpoolRule(Context& c);
Status CenterCropPadRule(Context& c);
Status DftRule(Context& c);
Status StftRule(Context& c);
Status MelWeightRule(Context& c);
Status LossRule(Context& c);
Status RecurrentRule(Context& c);
Status IfRule(Context& c);
Status LoopRule(Context& c);
Status ScanRule(Context& c);
Status QuantizeRule(Context& c);
Status DynamicQuantizeRule(Context& c);
Status DropoutRule(Context& c);
Status AttentionRule(Context& c);
Status RotaryRule(Context& c);
Status TensorScatterRule(Context& c);
Status CausalConvRule(Context& c);
Status LinearAttentionRule(Context& c);
Status DetRule(Context& c);
Status ConcatFromSequenceRule(Context& c);
Status SequenceAtRule(Context& c);
Status SequenceConstructRule(Context& c);
Status SequenceEmptyRule(Context& c);
Status SequenceEraseRule(Context& c);
Status SequenceInsertRule(Context& c);
Status SequenceLengthRule(Context& c);
Status SequenceMapRule(Context& c);
Status SplitToSequenceRule(Context& c);
Status StringNormalizerRule(Context& c);
Status StringSplitRule(Context& c);

}  // namespace weft::graph::infer
