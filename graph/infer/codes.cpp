#include "graph/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "graph/edit.h"
#include "graph/infer.h"

namespace weft::graph {
namespace {

bool IsSmallInteger(Dtype dtype) { return dtype == Dtype::kU2 || dtype == Dtype::kI2; }

// Operators that take elements from one place to another, whatever they are.
bool OnlyMoves(Op op) {
  switch (op) {
    case Op::kCompress:
    case Op::kConcat:
    case Op::kDepthToSpace:
    case Op::kDropout:
    case Op::kExpand:
    case Op::kFlatten:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherND:
    case Op::kIdentity:
    case Op::kReshape:
    case Op::kReverseSequence:
    case Op::kScatterElements:
    case Op::kScatterND:
    case Op::kShape:
    case Op::kSize:
    case Op::kSlice:
    case Op::kSpaceToDepth:
    case Op::kSplit:
    case Op::kSqueeze:
    case Op::kTile:
    case Op::kTranspose:
    case Op::kUnsqueeze:
    case Op::kWhere:
      return true;
    default:
      return false;
  }
}

class Lowering {
 public:
  explicit Lowering(Graph& graph, const Names* around = nullptr)
      : graph_(graph), names_(graph, around) {}

  // Whether anything changed. What a subgraph captures has the same type there.
  Result<bool> Run() {
    bool changed = false;
    for (const Node& node : graph_.nodes) {
      for (const auto& inner : Subgraphs(node)) {
        WEFT_TRY(const bool inside, Lowering(*inner, &names_).Run());
        changed |= inside;
      }
    }
    for (const Value& value : graph_.values) dtypes_.push_back(value.dtype);
    if (std::ranges::none_of(dtypes_, [](const auto& d) { return d && IsCode(*d); }))
      return changed;
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      node_ = &node;
      auto status = One();
      if (!status.ok()) return std::move(status).At(Where());
    }
    for (size_t i = 0; i < dtypes_.size(); ++i) {
      Value& value = graph_.values[i];
      if (!dtypes_[i] || !IsCode(*dtypes_[i])) continue;
      value.dtype = CodeStorage(*dtypes_[i]);
      if (value.kind == ValueKind::kConstant)
        value.constant = value.constant.ReadAs(*value.dtype, value.constant.shape());
    }
    return true;
  }

 private:
  std::string Where() const {
    return fmt::format("node {} ({})",
                       node_->name.empty() ? graph_[node_->outputs[0]].name : node_->name,
                       node_->op_name);
  }
  // As the model has it; f32 where nobody knows.
  Dtype TypeOf(ValueId id) const {
    const auto i = static_cast<size_t>(id.index);
    return id.valid() && i < dtypes_.size() && dtypes_[i] ? *dtypes_[i] : Dtype::kF32;
  }
  bool HasCode(const std::vector<ValueId>& ids) const {
    return std::ranges::any_of(ids, [&](ValueId id) { return IsCode(TypeOf(id)); });
  }
  ValueId In(size_t i) const { return InputAt(*node_, i); }

  Status One() {
    const bool reads = HasCode(node_->inputs), writes = HasCode(node_->outputs);
    if ((!reads && !writes) || !Subgraphs(*node_).empty()) return Keep();
    switch (node_->op) {
      case Op::kCast:
      case Op::kCastLike:
        return Cast();
      case Op::kBitCast:
        return BitCast();
      case Op::kQuantizeLinear:
        return Quantize();
      case Op::kDequantizeLinear:
        return Dequantize();
      case Op::kIsInf:
      case Op::kIsNaN:
        node_->inputs[0] = Decoded(In(0));
        return Keep();
      case Op::kConstantOfShape:
        return Fill();
      case Op::kPad:
        // The default is a number, whose code is 0 in all but e8m0.
        if (In(2).valid() || TypeOf(In(0)) != Dtype::kF8E8M0) return Keep();
        break;
      default:
        if (OnlyMoves(node_->op)) return Keep();
        break;
    }
    const Dtype code = TypeOf(*std::ranges::find_if(
        reads ? node_->inputs : node_->outputs, [&](ValueId id) { return IsCode(TypeOf(id)); }));
    return Unsupported(fmt::format("elements of {} are only moved and converted", DtypeName(code)));
  }

  Status Keep() {
    AddNode(graph_, std::move(*node_));
    return {};
  }

  // A new value, or `out` if that is given.
  ValueId Add(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {},
              ValueId out = {}) {
    Node node{.op = op,
              .op_name = std::string(OpName(op)),
              .name = node_->name,
              .inputs = std::move(inputs)};
    for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
    if (!out.valid())
      out = AddComputed(graph_, names_.Fresh(graph_[node_->outputs[0]].name + "_" + node.op_name));
    node.outputs = {out};
    AddNode(graph_, std::move(node));
    return out;
  }
  ValueId Scalar(Dtype dtype, double value) {
    return AddConstant(graph_, names_.Fresh(graph_[node_->outputs[0]].name + "_number"),
                       TensorOfScalar(dtype, value));
  }
  ValueId Ints(const Shape& values) {
    return AddConstant(graph_, names_.Fresh(graph_[node_->outputs[0]].name + "_shape"),
                       TensorOfInts(values));
  }
  ValueId CastTo(Dtype dtype, ValueId x, ValueId out = {}) {
    return Add(Op::kCast, {x}, {{"to", int64_t{DtypeToOnnx(dtype)}}}, out);
  }
  ValueId In32(ValueId x) { return TypeOf(x) == Dtype::kF32 ? x : CastTo(Dtype::kF32, x); }

  // The numbers of a value of codes, in f32.
  ValueId Decoded(ValueId x) {
    const Dtype code = TypeOf(x);
    if (!IsCode(code)) return In32(x);
    if (IsSmallInteger(code)) return CastTo(Dtype::kF32, x);
    return Add(Op::kDecodeFloat, {x}, {{"format", int64_t{DtypeToOnnx(code)}}});
  }

  // `out` from numbers in f32.
  void Encode(ValueId x, ValueId out) {
    std::vector<Attribute> attributes = {{"format", int64_t{DtypeToOnnx(TypeOf(out))}},
                                         {"saturate", IntAttr(*node_, "saturate", 1)}};
    if (TypeOf(out) == Dtype::kF8E8M0)
      attributes.push_back({"round_mode", StringAttr(*node_, "round_mode", "up")});
    Add(Op::kEncodeFloat, {x}, std::move(attributes), out);
  }

  // The two low bits of integers, as a number of `out`'s type.
  void Low(ValueId integers, Dtype dtype, ValueId out) {
    const ValueId bits = Add(Op::kBitwiseAnd, {integers, Scalar(dtype, 3)});
    if (TypeOf(out) == Dtype::kU2) {
      CastTo(Dtype::kU8, bits, out);
      return;
    }
    const ValueId as_signed = CastTo(Dtype::kI8, bits);
    const ValueId flipped = Add(Op::kBitwiseXor, {as_signed, Scalar(Dtype::kI8, 2)});
    Add(Op::kSub, {flipped, Scalar(Dtype::kI8, 2)}, {}, out);
  }

  Status Cast() {
    const ValueId x = In(0), y = node_->outputs[0];
    const Dtype from = TypeOf(x), to = TypeOf(y);
    if (from == to) {
      Add(Op::kIdentity, {x}, {}, y);
    } else if (IsSmallInteger(to)) {
      const ValueId number = IsCode(from) && !IsSmallInteger(from) ? Decoded(x) : x;
      Low(CastTo(Dtype::kI32, number), Dtype::kI32, y);
    } else if (IsCode(to)) {
      Encode(Decoded(x), y);
    } else if (IsSmallInteger(from)) {
      CastTo(to, x, y);
    } else if (to == Dtype::kF32) {
      Add(Op::kDecodeFloat, {x}, {{"format", int64_t{DtypeToOnnx(from)}}}, y);
    } else {
      CastTo(to, Decoded(x), y);
    }
    return {};
  }

  Status BitCast() {
    const ValueId x = In(0), y = node_->outputs[0];
    const Dtype from = TypeOf(x), to = TypeOf(y);
    if (SharesBytes(from) || SharesBytes(to))
      return Unsupported(
          fmt::format("no way from the bits of {} to those of {}", DtypeName(from), DtypeName(to)));
    if (IsSmallInteger(to) && from != to) {
      Low(x, CodeStorage(from), y);
    } else if (from == Dtype::kI2 && from != to) {
      return Unsupported("no way from the bits of i2 to those of another type");
    } else if (CodeStorage(from) == CodeStorage(to)) {
      Add(Op::kIdentity, {x}, {}, y);
    } else {
      Add(Op::kBitCast, {x}, {{"to", int64_t{DtypeToOnnx(CodeStorage(to))}}}, y);
    }
    return {};
  }

  Status Fill() {
    if (const Attribute* value = FindAttribute(*node_, "value")) {
      if (const auto* tensor = std::get_if<Tensor>(&value->value)) {
        Tensor bytes = tensor->ReadAs(CodeStorage(tensor->dtype()), tensor->shape());
        SetAttribute(*node_, "value", std::move(bytes));
      }
    }
    return Keep();
  }

  // A scale or zero point in f32, with the axes of x: one number, one for each element of an axis,
  // or one for each block of them. Inference has seen that they fit, as far as extents are known.
  Result<ValueId> Aligned(ValueId parameter) {
    const auto x = graph_[In(0)].shape, p = graph_[parameter].shape;
    if (!p) return Unsupported("the rank of its scale or zero point is not known");
    const ValueId numbers = Decoded(parameter);
    if (std::ranges::all_of(*p, [](Extent e) { return e == Extent(1); }))
      return p->empty() ? numbers : Add(Op::kReshape, {numbers, Ints({})});
    if (!x) return Unsupported("the rank of what it converts is not known");
    const auto rank = static_cast<int64_t>(x->size());
    int64_t axis = IntAttr(*node_, "axis", 1);
    if (axis < 0) axis += rank;
    // Such an axis says nothing of a single number, and a run sees that it is one.
    if (axis < 0 || axis >= rank) return Add(Op::kReshape, {numbers, Ints({})});
    const int64_t block = IntAttr(*node_, "block_size", 0);
    if (block == 0) {
      Shape shape(x->size(), 1);
      shape[static_cast<size_t>(axis)] = -1;
      return Add(Op::kReshape, {numbers, Ints(shape)});
    }
    const auto extents = StaticShape(graph_[In(0)]), blocks = StaticShape(graph_[parameter]);
    return extents && blocks ? Expanded(numbers, axis, block, *extents, *blocks)
                             : Gathered(numbers, axis, block);
  }

  // Numbers of blocks, each as often as its block has elements, the last of which may be cut.
  // Where extents are known: along the last axis, where scales mostly have their blocks, what is
  // gathered took 2.6 times as long.
  ValueId Expanded(ValueId numbers, int64_t axis, int64_t block, const Shape& extents,
                   const Shape& blocks) {
    const auto at = static_cast<size_t>(axis);
    const int64_t width = std::min(block, extents[at]);
    Shape column = blocks, wide = blocks, whole = blocks;
    column.insert(column.begin() + axis + 1, 1);
    wide.insert(wide.begin() + axis + 1, width);
    whole[at] *= width;
    const ValueId as_column = Add(Op::kReshape, {numbers, Ints(column)});
    const ValueId spread =
        Add(Op::kReshape, {Add(Op::kExpand, {as_column, Ints(wide)}), Ints(whole)});
    if (whole == extents) return spread;
    return Add(Op::kSlice, {spread, Ints({0}), Ints({extents[at]}), Ints({axis})});
  }

  // The same at extents that a run brings.
  ValueId Gathered(ValueId numbers, int64_t axis, int64_t block) {
    // 0, 1, 2… along the axis: the running sum of ones, whose extent inference knows by name.
    const ValueId extent = Add(Op::kShape, {In(0)}, {{"start", axis}, {"end", axis + 1}});
    const ValueId ones =
        Add(Op::kConstantOfShape, {extent}, {{"value", TensorOfInts(std::array{int64_t{1}})}});
    const ValueId places =
        Add(Op::kCumSum, {ones, Scalar(Dtype::kI64, 0)}, {{"exclusive", int64_t{1}}});
    const ValueId blocks = Add(Op::kDiv, {places, Scalar(Dtype::kI64, static_cast<double>(block))});
    return Add(Op::kGather, {numbers, blocks}, {{"axis", axis}});
  }

  Status Dequantize() {
    const ValueId y = node_->outputs[0];
    ValueId x = Decoded(In(0));
    if (In(2).valid()) {
      WEFT_TRY(const ValueId zero, Aligned(In(2)));
      x = Add(Op::kSub, {x, zero});
    }
    WEFT_TRY(const ValueId scale, Aligned(In(1)));
    if (TypeOf(y) == Dtype::kF32) {
      Add(Op::kMul, {x, scale}, {}, y);
    } else {
      CastTo(TypeOf(y), Add(Op::kMul, {x, scale}), y);
    }
    return {};
  }

  Status Quantize() {
    const ValueId y = node_->outputs[0];
    const bool integer = IsSmallInteger(TypeOf(y));
    WEFT_TRY(const ValueId scale, Aligned(In(1)));
    ValueId x = Add(Op::kDiv, {Decoded(In(0)), scale});
    if (integer) x = Add(Op::kRound, {x});
    if (In(2).valid()) {
      WEFT_TRY(const ValueId zero, Aligned(In(2)));
      x = Add(Op::kAdd, {x, zero});
    }
    if (!integer) {
      Encode(x, y);
      return {};
    }
    const double least = TypeOf(y) == Dtype::kI2 ? -2 : 0;
    x = Add(Op::kClip, {x, Scalar(Dtype::kF32, least), Scalar(Dtype::kF32, least + 3)});
    CastTo(CodeStorage(TypeOf(y)), x, y);
    return {};
  }

  Graph& graph_;
  Names names_;
  std::vector<std::optional<Dtype>> dtypes_;  // by value, as the model has them
  Node* node_ = nullptr;
};

}  // namespace

Status LowerCodes(Graph& graph) {
  WEFT_TRY(const bool changed, Lowering(graph).Run());
  return changed ? InferShapes(graph) : Status();
}

}  // namespace weft::graph
