// com.microsoft::DynamicQuantizeLSTM (ContribOperators.md): an LSTM whose products are of integers,
// for which X is quantized as a whole, and the hidden state anew in each step, with one scale for
// its batch.
//
// X [length, batch, size]; W [directions, size, 4 * hidden] and R [directions, hidden, 4 * hidden],
// transposed against LSTM's; scales and zero points are [directions] or [directions, 4 * hidden].
// The product with W is one for all steps; a Scan does the rest. Sums stay exact until they are
// scaled, as in onnxruntime: a state that is rounded elsewhere may fall to another integer, and
// over many steps that adds up.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

enum Input : size_t {
  kX,
  kW,
  kR,
  kBias,
  kLengths,
  kH,
  kC,
  kPeepholes,
  kWScale,
  kWZero,
  kRScale,
  kRZero
};

struct Cell {
  std::vector<Op> activations;  // of the gates, of what is new in the cell, of what leaves it
  float clip;                   // 0: none
  bool couples;                 // the forget gate is what the input gate leaves
};

Result<Cell> CellOf(const Node& node, size_t direction) {
  Cell cell{{}, FloatAttr(node, "clip", 0), IntAttr(node, "input_forget", 0) != 0};
  std::vector<std::string> names;
  if (const Attribute* a = FindAttribute(node, "activations"))
    if (const auto* list = std::get_if<std::vector<std::string>>(&a->value)) names = *list;
  constexpr std::string_view kUsual[] = {"Sigmoid", "Tanh", "Tanh"};
  if (names.empty())
    for (size_t i = 0; i < 6; ++i) names.emplace_back(kUsual[i % 3]);
  if (names.size() < 3 * direction + 3)
    return Invalid(
        fmt::format("found {} activations, expected 3 for each direction", names.size()));
  for (size_t i = 3 * direction; i < 3 * direction + 3; ++i) {
    const auto op = ParseOp("", names[i]);
    constexpr Op kKnown[] = {Op::kHardSigmoid, Op::kRelu,     Op::kSigmoid,
                             Op::kSoftplus,    Op::kSoftsign, Op::kTanh};
    if (!op || std::ranges::count(kKnown, *op) == 0)
      return Unsupported(fmt::format("the activation {} is not supported", PrintString(names[i])));
    cell.activations.push_back(*op);
  }
  return cell;
}

// What a step reads from around it, of one direction.
struct Weights {
  ValueId r, zero, scale;          // [hidden, 4 * hidden]; zero and scale [] or [4 * hidden]
  ValueId bias;                    // [4 * hidden]
  std::vector<ValueId> peepholes;  // [hidden] of the input, output and forget gate, or none
};

class Body {
 public:
  Body(Expansion& e, const Cell& cell) : e_(e), cell_(cell) {}

  // (h, c, x) -> (h, c, h): states are [batch, hidden], x is X * W of a step [batch, 4 * hidden].
  std::shared_ptr<Graph> Make(const Weights& outer) {
    body_->name = "step";
    const ValueId r = Capture(outer.r), zero = Capture(outer.zero), scale = Capture(outer.scale),
                  bias = Capture(outer.bias);
    std::vector<ValueId> peepholes;
    for (const ValueId id : outer.peepholes) peepholes.push_back(Capture(id));
    names_ = Names(*body_);
    const ValueId h = State("h"), c = State("c"), x = State("x");
    const auto q = AddAll(Op::kDynamicQuantizeLinear, {h}, 3);
    const ValueId sums = Add(Op::kMatMulInteger, {q[0], r, q[2], zero});
    const ValueId real = Add(Op::kCast, {sums}, {{"to", int64_t{DtypeToOnnx(Dtype::kF32)}}});
    const ValueId product = Add(Op::kMul, {real, Add(Op::kMul, {q[1], scale})});
    ValueId all = Add(Op::kAdd, {x, product});
    if (bias.valid()) all = Add(Op::kAdd, {all, bias});
    const auto parts =
        AddAll(Op::kSplit, {all}, 4, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{4}}});
    const auto gate = [&](size_t part, size_t peephole, ValueId state) {
      if (peepholes.empty()) return Active(0, parts[part]);
      const ValueId seen = Add(Op::kMul, {peepholes[peephole], state});
      return Active(0, Add(Op::kAdd, {parts[part], seen}));
    };
    const ValueId in = gate(0, 0, c);
    const ValueId forget = cell_.couples ? Add(Op::kSub, {Number(1), in}) : gate(2, 2, c);
    const ValueId kept = Add(Op::kMul, {forget, c});
    const ValueId cell = Add(Op::kAdd, {kept, Add(Op::kMul, {in, Active(1, parts[3])})});
    const ValueId out = gate(1, 1, cell);
    const ValueId next = Add(Op::kMul, {out, Add(cell_.activations[2], {cell})});
    body_->outputs = {next, cell, Add(Op::kIdentity, {next})};
    return body_;
  }

 private:
  ValueId Capture(ValueId outer) {
    if (!outer.valid()) return outer;
    const std::string& name = e_.Known(outer).name;
    if (const ValueId found = FindValue(*body_, name); found.valid()) return found;
    body_->values.push_back({.name = name, .kind = ValueKind::kCaptured});
    return ValueId(body_->values.size() - 1);
  }
  ValueId State(std::string_view name) {
    body_->values.push_back(
        {.name = names_.Fresh(name), .kind = ValueKind::kInput, .dtype = Dtype::kF32});
    body_->inputs.emplace_back(body_->values.size() - 1);
    return body_->inputs.back();
  }
  ValueId Number(float value) {
    return AddConstant(*body_, names_.Fresh("number"), TensorOfScalar(Dtype::kF32, value));
  }
  std::vector<ValueId> AddAll(Op op, std::vector<ValueId> inputs, size_t count,
                              std::vector<Attribute> attributes = {}) {
    while (!inputs.back().valid()) inputs.pop_back();
    Node node{.op = op, .op_name = std::string(OpName(op)), .inputs = std::move(inputs)};
    for (size_t i = 0; i < count; ++i)
      node.outputs.push_back(AddComputed(*body_, names_.Fresh(OpName(op))));
    for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
    std::vector<ValueId> results = node.outputs;
    AddNode(*body_, std::move(node));
    return results;
  }
  ValueId Add(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {}) {
    return AddAll(op, std::move(inputs), 1, std::move(attributes))[0];
  }
  ValueId Active(size_t activation, ValueId x) {
    if (cell_.clip > 0) x = Add(Op::kClip, {x, Number(-cell_.clip), Number(cell_.clip)});
    return Add(cell_.activations[activation], {x});
  }

  Expansion& e_;
  const Cell& cell_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  Names names_{*body_};
};

// What one direction computes: states [batch, hidden], and those of all steps [length, batch,
// hidden].
struct Outputs {
  ValueId h, c, y;
};

Result<Outputs> Direction(Expansion& e, Formula& f, std::span<const ValueId> x, int64_t hidden,
                          size_t direction, bool backward) {
  WEFT_TRY(const Cell cell, CellOf(e.node(), direction));
  const auto part = [&](size_t i) {
    return e.Has(i) ? f.Do(Op::kGather, {e.In(i), e.Int("place", static_cast<int64_t>(direction))})
                    : ValueId();
  };
  const auto pieces = [&](size_t i, int64_t count) {
    std::vector<ValueId> cut;
    const ValueId all = part(i);
    for (int64_t k = 0; all.valid() && k < count; ++k)
      cut.push_back(f.Do(Op::kSlice, {all, e.Ints("from", {k * hidden * (i == kBias ? 4 : 1)}),
                                      e.Ints("to", {(k + 1) * hidden * (i == kBias ? 4 : 1)})}));
    return cut;
  };
  const ValueId sums = f.Do(Op::kMatMulInteger, {x[0], part(kW), x[2], part(kWZero)});
  const ValueId product = f.Mul(f.Cast(sums, Dtype::kF32), f.Mul(x[1], part(kWScale)));
  const auto biases = pieces(kBias, 2);
  const Weights weights{part(kR), part(kRZero), part(kRScale),
                        biases.empty() ? ValueId() : f.Add(biases[0], biases[1]),
                        pieces(kPeepholes, 3)};
  const auto state = [&](size_t i) {
    if (e.Has(i)) return part(i);
    const ValueId batch =
        f.Do(Op::kShape, {e.In(kX)}, {{"end", int64_t{2}}, {"start", int64_t{1}}});
    const ValueId shape =
        f.Do(Op::kConcat, {batch, e.Ints("hidden", {hidden})}, {{"axis", int64_t{0}}});
    return f.Do(Op::kExpand, {e.Constant("none", TensorOfScalar(Dtype::kF32, 0)), shape});
  };
  const ValueId h = state(kH), c = state(kC);
  WEFT_TRY(f.status());
  const std::vector<int64_t> way = {int64_t{backward}};
  WEFT_TRY(const auto made, e.MakeAll(Op::kScan, {h, c, product}, 3, "scan",
                                      {{"body", Body(e, cell).Make(weights)},
                                       {"num_scan_inputs", int64_t{1}},
                                       {"scan_input_directions", way},
                                       {"scan_output_directions", way}}));
  return Outputs{made[0], made[1], made[2]};
}

}  // namespace

Status ExpandDynamicQuantizeLSTM(Expansion& e) {
  WEFT_TRY(e.Counts(3, 12, 3));
  WEFT_TRY(e.Only({"activations", "clip", "direction", "hidden_size", "input_forget"}));
  WEFT_TRY(e.Absent(kLengths, "lengths of the sequences"));
  for (const size_t i : {kWScale, kRScale})
    if (!e.Has(i)) return Invalid(fmt::format("input {} is absent", i));
  const Node& node = e.node();
  const int64_t hidden = IntAttr(node, "hidden_size", 0);
  if (hidden < 1 || hidden > INT32_MAX)
    return Invalid(fmt::format("hidden_size is {}, expected 1 or more", hidden));
  const std::string direction = StringAttr(node, "direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse")
    return Invalid(fmt::format("direction is {}, expected forward, reverse or bidirectional",
                               PrintString(direction)));
  WEFT_TRY(const auto x, e.MakeAll(Op::kDynamicQuantizeLinear, {e.In(kX)}, 3, "quantized"));
  Formula f(e);
  std::vector<ValueId> h, c, y;
  for (size_t d = 0; d < (both ? 2 : 1); ++d) {
    const bool backward = d == 1 || direction == "reverse";
    WEFT_TRY(const Outputs made, Direction(e, f, x, hidden, d, backward));
    h.push_back(f.Do(Op::kUnsqueeze, {made.h, e.Ints("axes", {0})}));
    c.push_back(f.Do(Op::kUnsqueeze, {made.c, e.Ints("axes", {0})}));
    y.push_back(f.Do(Op::kUnsqueeze, {made.y, e.Ints("axes", {1})}));
  }
  WEFT_TRY(f.Finish(f.Do(Op::kConcat, y, {{"axis", int64_t{1}}}), 0));
  WEFT_TRY(f.Finish(f.Do(Op::kConcat, h, {{"axis", int64_t{0}}}), 1));
  return f.Finish(f.Do(Op::kConcat, c, {{"axis", int64_t{0}}}), 2);
}

}  // namespace weft::graph
