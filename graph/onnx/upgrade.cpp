// Older spellings of operators, brought to the newest: attributes that became inputs, changed
// meanings. Everything after the importer only knows opset 28.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ranges>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

class Upgrade {
 public:
  Upgrade(Draft& draft, Node node, int64_t opset)
      : draft_(draft), node_(std::move(node)), opset_(opset) {}

  Status Run() {
    if (opset_ < 7) WEFT_TRY(FirstForms());
    switch (node_.op) {
      case Op::kSqueeze:
      case Op::kUnsqueeze:
      case Op::kReduceSum:
        if (opset_ < 13) IntsToInput("axes", 1);
        break;
      case Op::kReduceLogSum:
      case Op::kReduceLogSumExp:
        if (opset_ < 18) IntsToInput("axes", 1);
        if (opset_ < 28) return RealLogarithm();
        break;
      case Op::kReduceL1:
      case Op::kReduceL2:
      case Op::kReduceMax:
      case Op::kReduceMean:
      case Op::kReduceMin:
      case Op::kReduceProd:
      case Op::kReduceSumSquare:
        if (opset_ < 18) IntsToInput("axes", 1);
        break;
      case Op::kSplit:
        if (opset_ < 13) IntsToInput("split", 1);
        if (opset_ < 18 && !InputAt(node_, 1).valid())
          SetAttribute(node_, "num_outputs", static_cast<int64_t>(node_.outputs.size()));
        break;
      case Op::kClip:
        if (opset_ < 11) ClipBounds();
        break;
      case Op::kPad:
        if (opset_ < 11) {
          IntsToInput("pads", 1);
          if (const auto value = Take("value")) SetInput(2, OfInputType(std::get<float>(*value)));
        }
        break;
      case Op::kSlice:
        if (opset_ < 10) {
          IntsToInput("starts", 1);
          IntsToInput("ends", 2);
          IntsToInput("axes", 3);
        }
        break;
      case Op::kTopK:
        if (opset_ < 10) {
          const auto k = Take("k");
          const int64_t count[] = {k ? std::get<int64_t>(*k) : 0};
          SetInput(1, Constant("k", TensorOfInts(count)));
        }
        break;
      case Op::kSoftmax:
      case Op::kLogSoftmax:
      case Op::kHardmax:
        if (opset_ < 13) return FlatSoftmax();
        break;
      case Op::kBatchNormalization:
        if (opset_ < 14) return OldBatchNorm();
        break;
      case Op::kUpsample:
        WEFT_TRY(OldUpsample());
        break;
      case Op::kResize:
        ResizeInputs();
        break;
      case Op::kDFT:
        if (opset_ < 20) {
          const auto axis = Take("axis");
          Tensor place(Dtype::kI64, {});
          SetElemInt(place, 0, axis ? std::get<int64_t>(*axis) : 1);
          SetInput(2, Constant("axis", std::move(place)));
        }
        break;
      case Op::kGridSample:
        GridMode();
        break;
      case Op::kGroupNormalization:
        if (opset_ < 21) WEFT_TRY(OldGroupNorm());
        break;
      case Op::kLoop:
        for (const auto& body : Subgraphs(node_)) {
          if (!body->inputs.empty()) CountTrips(*body, (*body)[body->inputs[0]].name);
          for (size_t i = 0; i < body->inputs.size() && i < 2; ++i) FromScalar(*body, i);
        }
        break;
      case Op::kRoiAlign:
        if (opset_ < 16)
          SetAttribute(node_, "coordinate_transformation_mode", std::string("output_half_pixel"));
        break;
      case Op::kScan:
        if (opset_ < 9) WEFT_TRY(ScanBatches(node_));
        break;
      case Op::kUnknown:
        if (node_.op_name == "Scatter") Rename(Op::kScatterElements);
        break;
      default:
        break;
    }
    return Push(std::move(node_));
  }

 private:
  // What opset 7 changed, and those before it: most of all, broadcasting that was said by
  // attributes.
  Status FirstForms() {
    Take("consumed_inputs");
    switch (node_.op) {
      case Op::kAdd:
      case Op::kAnd:
      case Op::kDiv:
      case Op::kEqual:
      case Op::kGreater:
      case Op::kLess:
      case Op::kMul:
      case Op::kOr:
      case Op::kPow:
      case Op::kSub:
      case Op::kXor:
        return OldBroadcast();
      case Op::kPRelu:
        return OldSlope();
      case Op::kGemm:
        Take("broadcast");
        return {};
      case Op::kCast:
        return OldCast();
      case Op::kConcat:
        if (!FindAttribute(node_, "axis")) SetAttribute(node_, "axis", int64_t{1});
        return {};
      case Op::kSelu:
        if (opset_ >= 6) return {};
        if (!FindAttribute(node_, "alpha")) SetAttribute(node_, "alpha", 1.6732F);
        if (!FindAttribute(node_, "gamma")) SetAttribute(node_, "gamma", 1.0507F);
        return {};
      case Op::kGRU:
      case Op::kLSTM:
      case Op::kRNN:
        Take("output_sequence");
        return {};
      case Op::kGlobalLpPool:
      case Op::kLpPool:
        if (const auto p = Take("p")) SetAttribute(node_, "p", WholeNumber(*p));
        return {};
      case Op::kPad:
        if (auto pads = Take("paddings")) SetAttribute(node_, "pads", *std::move(pads));
        return {};
      case Op::kReshape:
        IntsToInput("shape", 1);
        return {};
      case Op::kTile:
        if (opset_ < 6) return Unsupported("Tile of opset 1 is not supported");
        return {};
      case Op::kUpsample: {
        const auto width = Take("width_scale"), height = Take("height_scale");
        if (width && height)
          SetAttribute(node_, "scales",
                       std::vector<float>{1, 1, std::get<float>(*height), std::get<float>(*width)});
        return {};
      }
      default:
        return {};
    }
  }

  static int64_t WholeNumber(const AttributeValue& value) {
    const auto* real = std::get_if<float>(&value);
    return real ? static_cast<int64_t>(*real) : std::get<int64_t>(value);
  }

  // Input i with `count` axes of one element behind its own.
  Status AppendAxes(size_t i, int64_t count) {
    if (count <= 0) return {};
    const auto rank = static_cast<int64_t>(draft_.graph[node_.inputs[i]].shape->size());
    std::vector<int64_t> axes;
    for (int64_t k = 0; k < count; ++k) axes.push_back(rank + k);
    WEFT_TRY(
        node_.inputs[i],
        Extra(Op::kUnsqueeze, {node_.inputs[i], Constant("axes", TensorOfInts(axes))}, "aligned"));
    return {};
  }

  Status NeedsRank(size_t i) const {
    if (draft_.graph[node_.inputs[i]].shape) return {};
    return Unsupported(
        fmt::format("{} of opset {} whose input {} has no known rank is not supported",
                    node_.op_name, opset_, i));
  }

  // The second operand's axes were the first's from `axis` on; by default its last.
  Status OldBroadcast() {
    const auto broadcast = Take("broadcast"), given = Take("axis");
    if (!given || !broadcast || std::get<int64_t>(*broadcast) == 0) return {};
    for (size_t i = 0; i < 2; ++i) WEFT_TRY(NeedsRank(i));
    const auto rank = [&](size_t i) {
      return static_cast<int64_t>(draft_.graph[node_.inputs[i]].shape->size());
    };
    int64_t axis = std::get<int64_t>(*given);
    if (axis < -rank(0) || axis > rank(0))
      return Invalid(fmt::format("found axis {} for rank {}", axis, rank(0)));
    if (axis < 0) axis += rank(0);
    return AppendAxes(1, rank(0) - axis - rank(1));
  }

  // Slopes were one for all, or one for each channel.
  Status OldSlope() {
    for (size_t i = 0; i < 2; ++i) WEFT_TRY(NeedsRank(i));
    const auto& slope = *draft_.graph[node_.inputs[1]].shape;
    if (slope.size() != 1 || slope[0] == Extent(1)) return {};
    return AppendAxes(1, static_cast<int64_t>(draft_.graph[node_.inputs[0]].shape->size()) - 2);
  }

  // The type was a name.
  Status OldCast() {
    const auto to = Take("to");
    const auto* name = to ? std::get_if<std::string>(&*to) : nullptr;
    if (!name) {
      if (to) SetAttribute(node_, "to", *to);
      return {};
    }
    onnx::TensorProto::DataType type{};
    if (!onnx::TensorProto::DataType_Parse(*name, &type))
      return Invalid(fmt::format("found the element type {}", PrintString(*name)));
    SetAttribute(node_, "to", int64_t{type});
    return {};
  }

  Status Push(Node node) {
    draft_.Append(std::move(node));
    return {};
  }

  // The name of the first output says where a new value belongs.
  std::string Near(std::string_view what) const {
    for (ValueId id : node_.outputs) {
      if (id.valid()) return fmt::format("{}_{}", draft_.graph[id].name, what);
    }
    return std::string(what);
  }
  ValueId Constant(std::string_view what, Tensor tensor) {
    return AddConstant(draft_.graph, draft_.names.Fresh(Near(what)), std::move(tensor));
  }
  Result<ValueId> Extra(Op op, std::vector<ValueId> inputs, std::string_view what,
                        std::vector<Attribute> attributes = {}) {
    Node node{.op = op, .op_name = std::string(OpName(op)), .inputs = std::move(inputs)};
    for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
    const ValueId id = AddComputed(draft_.graph, draft_.names.Fresh(Near(what)));
    node.outputs = {id};
    WEFT_TRY(Push(std::move(node)));
    return id;
  }

  std::optional<AttributeValue> Take(std::string_view name) {
    const auto found = std::ranges::find(node_.attributes, name, &Attribute::name);
    if (found == node_.attributes.end()) return std::nullopt;
    AttributeValue value = std::move(found->value);
    node_.attributes.erase(found);
    return value;
  }
  void SetInput(size_t i, ValueId id) {
    if (node_.inputs.size() <= i) node_.inputs.resize(i + 1);
    node_.inputs[i] = id;
  }
  void IntsToInput(std::string_view attribute, size_t input) {
    const auto value = Take(attribute);
    const auto* ints = value ? std::get_if<std::vector<int64_t>>(&*value) : nullptr;
    if (ints) SetInput(input, Constant(attribute, TensorOfInts(*ints)));
  }
  void Rename(Op op) {
    node_.op = op;
    node_.op_name = OpName(op);
  }

  // A number in the type of input 0; where nobody knows that, f32 and a CastLike.
  ValueId OfInputType(float value) {
    const auto dtype = draft_.graph[node_.inputs[0]].dtype;
    Tensor tensor(dtype && *dtype != Dtype::kString ? *dtype : Dtype::kF32, {});
    SetElem(tensor, 0, value);
    const ValueId constant = Constant("bound", std::move(tensor));
    if (dtype) return constant;
    auto cast = Extra(Op::kCastLike, {constant, node_.inputs[0]}, "bound_cast");
    return cast.ok() ? *cast : constant;
  }

  // By default the ends of float32, so that no infinity stays.
  void ClipBounds() {
    constexpr float kMost = std::numeric_limits<float>::max();
    const auto low = Take("min"), high = Take("max");
    SetInput(1, OfInputType(low ? std::get<float>(*low) : -kMost));
    SetInput(2, OfInputType(high ? std::get<float>(*high) : kMost));
  }

  // Before opset 13 the axes from `axis` on were one: the same as now only if it is the last.
  Status FlatSoftmax() {
    const int64_t axis = IntAttr(node_, "axis", 1);
    const auto& shape = draft_.graph[node_.inputs[0]].shape;
    const bool last = axis == -1 || (shape && (axis == static_cast<int64_t>(shape->size()) - 1));
    Take("axis");
    SetAttribute(node_, "axis", int64_t{-1});
    if (last) return Push(std::move(node_));
    const auto rank = shape ? static_cast<int64_t>(shape->size()) : INT64_MAX;
    if (axis < -rank || axis >= rank)
      return Invalid(fmt::format("found axis {} for rank {}", axis, rank));
    const ValueId x = node_.inputs[0], y = node_.outputs[0];
    WEFT_TRY(const ValueId shape_of, Extra(Op::kShape, {x}, "shape"));
    WEFT_TRY(const ValueId flat, Extra(Op::kFlatten, {x}, "flat", {{"axis", axis}}));
    std::vector<Attribute> attributes = node_.attributes;
    WEFT_TRY(const ValueId soft, Extra(node_.op, {flat}, "soft", std::move(attributes)));
    Node back{.op = Op::kReshape,
              .op_name = "Reshape",
              .name = node_.name,
              .inputs = {soft, shape_of},
              .outputs = {y}};
    SetAttribute(back, "allowzero", int64_t{1});  // an extent of zero is meant
    return Push(std::move(back));
  }

  // Of integers, which the newest form does not take: the logarithm's whole part.
  Status RealLogarithm() {
    const auto dtype = draft_.Known(node_.inputs[0]).dtype;
    if (!dtype || !IsInteger(*dtype)) return Push(std::move(node_));
    WEFT_TRY(node_.inputs[0], Extra(Op::kCast, {node_.inputs[0]}, "real",
                                    {{"to", int64_t{DtypeToOnnx(Dtype::kF64)}}}));
    Node back{.op = Op::kCast, .op_name = "Cast", .name = node_.name, .outputs = node_.outputs};
    node_.outputs = {AddComputed(draft_.graph, draft_.names.Fresh(Near("logarithm")))};
    back.inputs = node_.outputs;
    SetAttribute(back, "to", int64_t{DtypeToOnnx(*dtype)});
    WEFT_TRY(Push(std::move(node_)));
    return Push(std::move(back));
  }

  // There was no attribute for training: more outputs than one meant it, but for those of a test in
  // opset 6 and before. Statistics could be of each place of an image (spatial = 0).
  Status OldBatchNorm() {
    const auto flag = [&](std::string_view name, int64_t otherwise) {
      const auto value = Take(name);
      return (value ? std::get<int64_t>(*value) : otherwise) != 0;
    };
    const bool is_test = flag("is_test", 0), by_channel = flag("spatial", 1);
    const bool trains =
        !is_test && std::ranges::any_of(node_.outputs | std::views::drop(1), &ValueId::valid);
    Expansion e(draft_, node_, opset_);
    Formula f(e);
    const ValueId x = e.In(0);
    if (!by_channel && e.RankOf(x) != 2) {
      if (trains) return Unsupported("training statistics of each place are not supported");
      WEFT_TRY(AreOfPlaces(e));
      const bool is_half = e.Known(x).dtype == Dtype::kF16;
      const auto in = [&](size_t i) { return is_half ? f.Cast(e.In(i), Dtype::kF32) : e.In(i); };
      const ValueId epsilon = f.Number(FloatAttr(node_, "epsilon", 1e-5F), in(4));
      const ValueId deviation = f.Do(Op::kSqrt, {f.Add(in(4), epsilon)});
      const ValueId normal = f.Div(f.Sub(in(0), in(3)), deviation);
      const ValueId y = f.Add(f.Mul(normal, in(1)), in(2));
      WEFT_TRY(f.Finish(is_half ? f.Cast(y, Dtype::kF16) : y));
    } else if (trains) {
      std::vector<ValueId> outputs = node_.outputs;
      if (outputs.size() > 3) outputs.resize(3);
      SetAttribute(node_, "training_mode", int64_t{1});
      WEFT_TRY(e.FinishAll(node_.op, node_.inputs, std::move(outputs), node_.attributes));
    } else {
      WEFT_TRY(e.Finish(node_.op, node_.inputs, node_.attributes));
    }
    // The running statistics, which a test leaves as they are, and those that it works with.
    if (!trains) {
      for (size_t i = 1; i < node_.outputs.size(); ++i)
        WEFT_TRY(f.Finish(e.In(i % 2 == 1 ? 3 : 4), i));
      return {};
    }
    return SavedStatistics(e);
  }

  // That inputs 1 to 4 have the shape of an image.
  static Status AreOfPlaces(Expansion& e) {
    const auto x = e.Known(e.In(0)).shape;
    for (size_t i = 1; i <= 4; ++i) {
      const auto given = e.Known(e.In(i)).shape;
      if (!x || x->empty() || !given) continue;
      const auto differ = [](Extent a, Extent b) {
        return a.IsConstant() && b.IsConstant() && a.value() != b.value();
      };
      if (given->size() + 1 != x->size() ||
          !std::equal(given->begin(), given->end(), x->begin() + 1, std::not_fn(differ)))
        return Invalid(fmt::format("input {} has not the shape of an image of input 0", i));
    }
    return {};
  }

  // Outputs 3 and 4: mean and variance of each channel of this batch.
  Status SavedStatistics(Expansion& e) {
    if (!e.HasOut(3) && !e.HasOut(4)) return {};
    WEFT_TRY(NeedsRank(0));
    std::vector<int64_t> axes = {0};
    for (size_t axis = 2; axis < *e.RankOf(e.In(0)); ++axis)
      axes.push_back(static_cast<int64_t>(axis));
    Formula f(e);
    const ValueId others = e.Ints("others", std::move(axes));
    const auto mean_of = [&](ValueId x, int64_t keeps) {
      return f.Do(Op::kReduceMean, {x, others}, {{"keepdims", keeps}});
    };
    const ValueId off = f.Sub(e.In(0), mean_of(e.In(0), 1));
    WEFT_TRY(f.Finish(mean_of(e.In(0), 0), 3));
    return f.Finish(mean_of(f.Mul(off, off), 0), 4);
  }

  // The number of a trip and the condition are scalars. A body that declares one of them as a list
  // of one, as torch's older exporter does, makes that of the scalar.
  void FromScalar(Graph& body, size_t input) {
    const ValueId list = body.inputs[input];
    const auto shape = StaticShape(body[list]);
    if (!shape || *shape != Shape{1}) return;
    Names names(body, &draft_.names);
    const std::string name = body[list].name;
    const Value scalar{.name = names.Fresh(name + "_scalar"),
                       .kind = ValueKind::kInput,
                       .dtype = body[list].dtype,
                       .shape = std::vector<Extent>{}};
    const int64_t one[] = {1};
    const ValueId extents = AddConstant(body, names.Fresh(name + "_shape"), TensorOfInts(one));
    body.inputs[input] = ValueId(body.values.size());
    body.values.push_back(scalar);
    body[list].kind = ValueKind::kComputed;
    std::vector<NodeId> order{AddNode(body, {.op = Op::kReshape,
                                             .op_name = "Reshape",
                                             .inputs = {body.inputs[input], extents},
                                             .outputs = {list}})};
    for (size_t n = 0; n + 1 < body.nodes.size(); ++n) order.emplace_back(n);
    Reorder(body, order);
  }

  // Upsample is Resize with the first coordinate rule there was.
  Status OldUpsample() {
    if (opset_ >= 10) return Invalid("Upsample is gone since opset 10");
    ValueId scales = InputAt(node_, 1);
    if (const auto list = Take("scales")) {
      const auto& floats = std::get<std::vector<float>>(*list);
      Tensor tensor(Dtype::kF32, {static_cast<int64_t>(floats.size())});
      for (size_t i = 0; i < floats.size(); ++i)
        SetElem(tensor, static_cast<int64_t>(i), floats[i]);
      scales = Constant("scales", std::move(tensor));
    }
    node_.inputs = {node_.inputs[0], ValueId(), scales};
    Rename(Op::kResize);
    FirstCoordinates();
    return {};
  }

  // The standard did not say yet which of two elements is nearest; this is what runtimes took.
  void FirstCoordinates() {
    SetAttribute(node_, "coordinate_transformation_mode", std::string("asymmetric"));
    SetAttribute(node_, "nearest_mode", std::string("ceil_when_shrinking"));
  }

  bool IsEmptyConstant(ValueId id) const {
    const Tensor* constant = draft_.ConstantOf(id);
    return constant && constant->elems() == 0;
  }

  // Opset 10 had (X, scales). Later files often pass an empty tensor for what they leave out.
  void ResizeInputs() {
    if (opset_ < 11) {
      node_.inputs = {node_.inputs[0], ValueId(), InputAt(node_, 1)};
      FirstCoordinates();
    }
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      if (IsEmptyConstant(node_.inputs[i])) node_.inputs[i] = ValueId();
    }
    while (!node_.inputs.back().valid()) node_.inputs.pop_back();
  }

  void GridMode() {
    const std::string mode = StringAttr(node_, "mode", "linear");
    if (mode == "bilinear") SetAttribute(node_, "mode", std::string("linear"));
    if (mode == "bicubic") SetAttribute(node_, "mode", std::string("cubic"));
  }

  // Scale and bias were per group: each is repeated for the channels of its group.
  Status OldGroupNorm() {
    const int64_t groups[] = {IntAttr(node_, "num_groups", 0)}, column[] = {groups[0], 1},
                  flat[] = {-1};
    const ValueId count = Constant("groups", TensorOfInts(groups)),
                  as_column = Constant("column", TensorOfInts(column));
    const ValueId as_flat = Constant("flat", TensorOfInts(flat));
    WEFT_TRY(const ValueId channels, Extra(Op::kShape, {node_.inputs[0]}, "channels",
                                           {{"end", int64_t{2}}, {"start", int64_t{1}}}));
    WEFT_TRY(const ValueId each, Extra(Op::kDiv, {channels, count}, "each"));
    WEFT_TRY(const ValueId table,
             Extra(Op::kConcat, {count, each}, "table", {{"axis", int64_t{0}}}));
    for (size_t i = 1; i < 3; ++i) {
      WEFT_TRY(const ValueId a, Extra(Op::kReshape, {node_.inputs[i], as_column}, "by_group"));
      WEFT_TRY(const ValueId b, Extra(Op::kExpand, {a, table}, "repeated"));
      WEFT_TRY(node_.inputs[i], Extra(Op::kReshape, {b, as_flat}, "by_channel"));
    }
    return {};
  }

  Draft& draft_;
  Node node_;
  int64_t opset_;
};

}  // namespace

Status AppendUpgraded(Draft& draft, Node node, int64_t opset) {
  return Upgrade(draft, std::move(node), opset).Run();
}

}  // namespace weft::graph
