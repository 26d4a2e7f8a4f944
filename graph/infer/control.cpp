// If, Loop, Scan and SequenceMap: their bodies are graphs of their own, inferred with what is known
// around them.

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// Bodies nested deeper are inferred once: twice at each depth would be exponential in it.
constexpr int kDeepLoop = 3;

struct Type {
  std::optional<Dtype> dtype;
  std::optional<Extents> shape;
  std::optional<Dtype> held;  // of a sequence
};

// A body and the extents that cross its border: symbols from around keep their names inside.
class Body {
 public:
  Body(Context& outer, Graph& graph)
      : outer_(outer), graph_(graph), takes_(graph.inputs.size()), gives_(graph.outputs.size()) {
    ResetTypes(graph);
  }

  void SetInput(size_t i, const Type& type) {
    if (i >= graph_.inputs.size()) return;
    Value& value = graph_[graph_.inputs[i]];
    if (type.dtype) value.dtype = type.dtype;
    value.shape.reset();
    if (type.shape) value.shape = Inward(*type.shape);
    takes_[i] = type.held;
  }

  // A body that is wrong for the shapes around it is an error of the network only if it `runs`.
  // Where that is not known, it is one if it is wrong for all shapes; the run says the rest.
  Status Infer(bool runs) {
    Status wrong = InferOnce();
    if (wrong.ok() || runs || outer_.depth() >= kDeepLoop) return wrong;
    shapes_around_ = false;
    engine_.reset();
    outward_.clear();
    std::vector<std::optional<Dtype>> dtypes;
    for (const ValueId input : graph_.inputs) dtypes.push_back(graph_[input].dtype);
    ResetTypes(graph_);
    for (size_t i = 0; i < dtypes.size(); ++i) SetInput(i, {dtypes[i], {}, takes_[i]});
    return InferOnce().ok() ? Status() : wrong;
  }

  Type Output(size_t i) {
    if (i >= graph_.outputs.size()) return {};
    const Value& value = graph_[graph_.outputs[i]];
    Type type{value.dtype, {}, gives_[i]};
    if (value.shape) type.shape = Outward(*value.shape);
    return type;
  }

 private:
  Status InferOnce() {
    std::unordered_map<std::string_view, ValueId> around;
    std::vector<std::pair<ValueId, ValueId>> captured;  // outer, inner
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      Value& value = graph_.values[i];
      if (value.kind != ValueKind::kCaptured) continue;
      if (around.empty()) {
        const auto& values = outer_.graph().values;
        for (size_t k = 0; k < values.size(); ++k) around.emplace(values[k].name, ValueId(k));
      }
      const auto found = around.find(value.name);
      if (found == around.end()) continue;
      const Value& from = outer_.graph()[found->second];
      value.dtype = from.dtype;
      if (from.shape && shapes_around_) value.shape = Inward(*from.shape);
      captured.emplace_back(found->second, ValueId(i));
    }
    Engine& engine = engine_.emplace(graph_, outer_.depth() + 1);
    for (size_t i = 0; i < takes_.size(); ++i)
      if (takes_[i]) engine.SetHeld(graph_.inputs[i], *takes_[i]);
    for (const auto& [from, to] : captured) {
      if (shapes_around_) PassFacts(from, to, engine);
      if (const auto held = outer_.HeldOf(from)) engine.SetHeld(to, *held);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) WEFT_TRY(engine.Infer(NodeId(n)));
    for (size_t i = 0; i < gives_.size(); ++i) gives_[i] = engine.Held(graph_.outputs[i]);
    const std::vector<bool> wanted = engine.Wanted();
    for (const auto& [from, to] : captured)
      if (wanted[static_cast<size_t>(to.index)]) outer_.Want(from);
    return {};
  }

  void PassFacts(ValueId from, ValueId to, Engine& engine) {
    const Facts* facts = outer_.FactsOf(from);
    if (!facts) return;
    Facts constant = *facts;
    for (Elem& elem : constant) {
      if (!elem.IsConstant()) elem = {};  // expressions have the variables of their graph
    }
    engine.SetFacts(to, std::move(constant));
  }

  Extents Inward(const Extents& extents) {
    Extents out;
    for (const Extent& extent : extents) {
      if (extent.IsConstant()) {
        out.push_back(extent);
        continue;
      }
      const Symbol symbol = outer_.graph().symbols[static_cast<size_t>(extent.symbol().index)];
      size_t k = 0;
      while (k < graph_.symbols.size() && graph_.symbols[k].name != symbol.name) ++k;
      if (k == graph_.symbols.size()) graph_.symbols.push_back(symbol);
      outward_.emplace(SymbolId(k), extent);
      out.emplace_back(SymbolId(k));
    }
    return out;
  }

  Extents Outward(const Extents& extents) {
    Extents out;
    for (const Extent& extent : extents) out.push_back(Outward(extent));
    return out;
  }

  // What the body made of symbols from around is the same of them there; a symbol of its own is
  // nobody else's, whatever it is called.
  Extent Outward(Extent extent) {
    if (extent.IsConstant()) return extent;
    const SymbolId id = extent.symbol();
    if (const auto known = outward_.find(id); known != outward_.end()) return known->second;
    const Symbol symbol = graph_.symbols[static_cast<size_t>(id.index)];
    const auto result = [&]() -> Extent {
      if (!engine_) return outer_.Fresh(symbol.name, symbol.min, symbol.max);
      if (const auto& factors = engine_->FactorsOf(id); !factors.empty())
        return outer_.Product(Outward(factors));
      const Affine& meaning = engine_->MeaningOf(id);
      if (meaning.AsVar()) return outer_.Fresh(symbol.name, symbol.min, symbol.max);
      const Affine around = meaning.Substitute([this](Var v) {
        return outer_.Meaning(Outward(Extent(SymbolId(static_cast<size_t>(v)))));
      });
      const auto derived = outer_.ToExtent(around, symbol.name);
      return derived.ok() ? *derived : outer_.Fresh(symbol.name, symbol.min, symbol.max);
    }();
    outward_.emplace(id, result);
    return result;
  }

  Context& outer_;
  Graph& graph_;
  std::vector<std::optional<Dtype>> takes_, gives_;  // by input and by output: what is held
  bool shapes_around_ = true;  // whether what is captured has the shape it has around
  std::optional<Engine> engine_;
  std::map<SymbolId, Extent> outward_;  // by a symbol of the body
};

std::shared_ptr<Graph> GraphAttribute(const Node& node, std::string_view name) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* graph = attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->value) : nullptr;
  return graph ? *graph : nullptr;
}

void SetOutput(Context& c, size_t i, const Type& type) {
  if (type.dtype) c.OutType(i, *type.dtype);
  if (type.shape) c.Out(i, *type.shape);
  c.OutHeld(i, type.held);
}

Type TypeOfInput(Context& c, size_t i) {
  Type type{c.Type(i), {}, c.Held(i)};
  if (const Extents* in = c.In(i)) type.shape = *in;
  return type;
}

// What holds for both.
Type Merge(Context& c, const Type& a, const Type& b, std::string_view hint) {
  Type out;
  if (a.dtype == b.dtype) out.dtype = a.dtype;
  if (a.held == b.held) out.held = a.held;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return out;
  out.shape = *a.shape;
  for (size_t i = 0; i < a.shape->size(); ++i) {
    if ((*a.shape)[i] == (*b.shape)[i]) continue;
    const Interval x = c.Range((*a.shape)[i]), y = c.Range((*b.shape)[i]);
    (*out.shape)[i] = c.Fresh(hint, std::min(x.lo, y.lo), std::max(x.hi, y.hi));
  }
  return out;
}

// How often a loop runs, which is the extent of what it stacks, where nothing ends it early: the
// condition is true, and the body gives back true or what it got.
std::optional<int64_t> TripsOf(Context& c, const Graph& body) {
  const Facts *count = c.FactsIn(0), *condition = c.FactsIn(1);
  if (!count || count->size() != 1 || !(*count)[0].IsConstant() || body.inputs.size() < 2 ||
      body.outputs.empty())
    return std::nullopt;
  if (InputAt(c.node, 1).valid()) {
    if (!condition || condition->size() != 1 || !(*condition)[0].IsConstant()) return std::nullopt;
    if ((*condition)[0].AsDouble() == 0) return 0;
  }
  ValueId given = body.outputs[0];
  while (body[given].kind == ValueKind::kComputed && body[given].producer.valid() &&
         body[body[given].producer].op == Op::kIdentity)
    given = body[body[given].producer].inputs[0];
  const Value& value = body[given];
  const bool is_true = value.kind == ValueKind::kConstant && value.constant.elems() == 1 &&
                       value.dtype == Dtype::kBool && ElemAsDouble(value.constant, 0) != 0;
  if (given != body.inputs[1] && !is_true) return std::nullopt;
  const double trips = (*count)[0].AsDouble();
  return trips > INT32_MAX ? std::nullopt
                           : std::optional(static_cast<int64_t>(std::max(trips, 0.0)));
}

// A state of a Scan, and what the body makes of it, which has its type. (ONNX, "Scan", loop state
// variables; those of a Loop may change their shape.)
Result<Type> SameState(Context& c, size_t i, Type state, const Type& made) {
  if (state.dtype && made.dtype && state.dtype != made.dtype) {
    return Invalid(fmt::format("state {} is {}, the body makes {} of it", i,
                               DtypeName(*state.dtype), DtypeName(*made.dtype)));
  }
  if (!state.shape || !made.shape) return state;
  const auto refuse = [&] {
    return Invalid(fmt::format("state {} has shape {}, the body makes {} of it", i,
                               c.Text(*state.shape), c.Text(*made.shape)));
  };
  if (state.shape->size() != made.shape->size()) return refuse();
  for (size_t k = 0; k < state.shape->size(); ++k) {
    const Extent a = (*state.shape)[k], b = (*made.shape)[k];
    if (a.IsConstant() && b.IsConstant() && a != b) return refuse();
  }
  return state;
}

}  // namespace

Status IfRule(Context& c) {
  const auto then_graph = GraphAttribute(c.node, "then_branch"),
             else_graph = GraphAttribute(c.node, "else_branch");
  if (!then_graph || !else_graph) return {};
  const size_t count = c.node.outputs.size();
  if (then_graph->outputs.size() != count || else_graph->outputs.size() != count) {
    return Invalid(fmt::format("the branches have {} and {} outputs, expected {}",
                               then_graph->outputs.size(), else_graph->outputs.size(), count));
  }
  for (const auto& branch : {then_graph, else_graph})
    if (!branch->inputs.empty())
      return Invalid(fmt::format("a branch has {} inputs, expected none", branch->inputs.size()));
  if (const Extents* condition = c.In(0)) {
    if (c.Product(*condition).IsConstant())
      WEFT_TRY(c.Same(c.Product(*condition), 1, "the elements of the condition"));
  }
  Body yes(c, *then_graph), no(c, *else_graph);
  const Facts* condition = c.FactsIn(0);
  const bool decided = condition && condition->size() == 1 && (*condition)[0].IsConstant();
  const bool taken = decided && (*condition)[0].AsDouble() != 0;
  // A branch that is never taken may be wrong: exporters write such branches.
  const Status yes_status = yes.Infer(decided && taken), no_status = no.Infer(decided && !taken);
  if (!yes_status.ok() && (!decided || taken))
    return Status(yes_status).Because("in its then_branch");
  if (!no_status.ok() && (!decided || !taken))
    return Status(no_status).Because("in its else_branch");
  for (size_t i = 0; i < count; ++i) {
    const Type a = yes.Output(i), b = no.Output(i);
    SetOutput(c, i, decided ? (taken ? a : b) : Merge(c, a, b, "if"));
  }
  return {};
}

Status LoopRule(Context& c) {
  const auto graph = GraphAttribute(c.node, "body");
  if (!graph) return {};
  const std::optional<int64_t> trips = TripsOf(c, *graph);
  const size_t carried = c.node.inputs.size() > 2 ? c.node.inputs.size() - 2 : 0;
  if (graph->inputs.size() != carried + 2 || graph->outputs.size() < carried + 1 ||
      c.node.outputs.size() > graph->outputs.size() - 1) {
    return Invalid(
        fmt::format("the body has {} inputs and {} outputs for {} carried values and {} outputs",
                    graph->inputs.size(), graph->outputs.size(), carried, c.node.outputs.size()));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < carried; ++i) types.push_back(TypeOfInput(c, i + 2));
  if (c.depth() >= kDeepLoop) {
    for (Type& type : types) type.shape.reset();
  }
  // A carried value keeps the type that the body gives back; twice more general, then unknown.
  std::optional<Body> body;
  for (int round = 0;; ++round) {
    body.emplace(c, *graph);
    body->SetInput(0, {Dtype::kI64, Extents{}});
    body->SetInput(1, {Dtype::kBool, Extents{}});
    for (size_t i = 0; i < carried; ++i) body->SetInput(i + 2, types[i]);
    auto status = body->Infer(trips.value_or(0) > 0);
    if (!status.ok()) return std::move(status).Because("in its body");
    bool stable = true;
    for (size_t i = 0; i < carried; ++i) {
      const Type back = body->Output(i + 1);
      if (!types[i].shape || back.shape == types[i].shape) continue;
      stable = false;
      types[i] =
          round == 0 ? Merge(c, types[i], back, "loop") : Type{types[i].dtype, {}, types[i].held};
    }
    if (stable) break;
  }
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    Type type = body->Output(i + 1);
    if (i < carried) {
      if (!type.dtype) type.dtype = types[i].dtype;
      if (!type.held) type.held = types[i].held;
      type.shape = trips == 0 ? TypeOfInput(c, i + 2).shape : types[i].shape;
    } else if (type.shape) {
      type.shape->insert(type.shape->begin(), trips ? Extent(*trips) : c.Fresh("trips"));
    }
    SetOutput(c, i, type);
  }
  return {};
}

Status ScanRule(Context& c) {
  const auto graph = GraphAttribute(c.node, "body");
  if (!graph) return {};
  const int64_t scanned = c.Int("num_scan_inputs", 0);
  const auto inputs = static_cast<int64_t>(c.node.inputs.size());
  if (scanned < 1 || scanned > inputs)
    return Invalid(
        fmt::format("attribute \"num_scan_inputs\" is {}, expected 1 to {}", scanned, inputs));
  const auto states = static_cast<size_t>(inputs - scanned);
  if (graph->inputs.size() != c.node.inputs.size() || graph->outputs.size() < states ||
      c.node.outputs.size() > graph->outputs.size()) {
    return Invalid(fmt::format("the body has {} inputs and {} outputs, expected {} and {}",
                               graph->inputs.size(), graph->outputs.size(), inputs,
                               c.node.outputs.size()));
  }
  auto axis_of = [&](std::string_view name, size_t i, size_t rank) -> Result<int64_t> {
    const auto axes = IntsAttr(c.node, name);
    return c.Axis(i < axes.size() ? axes[i] : 0, static_cast<int64_t>(rank));
  };
  Body body(c, *graph);
  std::optional<Extent> length;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    Type type = TypeOfInput(c, i);
    if (i >= states && type.shape) {
      WEFT_TRY(const int64_t axis, axis_of("scan_input_axes", i - states, type.shape->size()));
      const Extent here = (*type.shape)[static_cast<size_t>(axis)];
      WEFT_TRY(length, c.Same(length.value_or(here), here, "the lengths of the scanned inputs"));
      type.shape->erase(type.shape->begin() + axis);
    }
    body.SetInput(i, type);
  }
  auto status = body.Infer(length && c.Range(*length).lo > 0);
  if (!status.ok()) return std::move(status).Because("in its body");
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    Type type = body.Output(i);
    if (i < states) {
      WEFT_TRY(type, SameState(c, i, TypeOfInput(c, i), type));
    } else if (type.shape) {
      WEFT_TRY(const int64_t axis, axis_of("scan_output_axes", i - states, type.shape->size() + 1));
      type.shape->insert(type.shape->begin() + axis, length.value_or(c.Fresh("trips")));
    }
    SetOutput(c, i, type);
  }
  return {};
}

// The body takes the tensors of the sequences one by one, and gives the tensors of others.
Status SequenceMapRule(Context& c) {
  const auto graph = GraphAttribute(c.node, "body");
  if (!graph) return {};
  Body body(c, *graph);
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Type type = TypeOfInput(c, i);
    body.SetInput(i, type.held ? Type{type.held, {}, {}} : type);
  }
  auto status = body.Infer(false);  // of no tensor, perhaps
  if (!status.ok()) return std::move(status).Because("in its body");
  for (size_t i = 0; i < c.node.outputs.size(); ++i) c.OutHeld(i, body.Output(i).dtype);
  return {};
}

}  // namespace weft::graph::infer
