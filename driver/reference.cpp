#include "driver/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"
#include "driver/evaluate.h"
#include "driver/nested.h"
#include "driver/reference_loops.h"
#include "graph/edit.h"
#include "graph/stages.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;

// Float tensors travel as f64; everything else as it is.
Tensor Widen(const Tensor& t) {
  if (!IsFloat(t.dtype()) || t.dtype() == Dtype::kF64) return t;
  Tensor wide(Dtype::kF64, t.shape());
  double* out = wide.mutable_as<double>();
  for (int64_t i = 0; i < t.elems(); ++i) out[i] = ElemAsDouble(t, i);
  return wide;
}

// What an operand of the node's declared type would hold: natives and the interpreter take that
// type.
Tensor Narrow(const Tensor& t, Dtype dtype) {
  if (t.dtype() == dtype) return t;
  Tensor narrow(dtype, t.shape());
  for (int64_t i = 0; i < t.elems(); ++i) SetElem(narrow, i, ElemAsDouble(t, i));
  return narrow;
}

constexpr double kUnit = 0x1p-24;  // half a unit in the last place of f32, in which kernels compute
constexpr double kRoundings = 4;   // that an operator does on the way to a value
// What a value of 16 bits may be rounded by where it is stored, which may be here or later.
double StoredUnit(Dtype dtype) {
  return dtype == Dtype::kBF16 ? 0x1p-9 : dtype == Dtype::kF16 ? 0x1p-12 : 0;
}

// How many terms are added up for an element of the result; 0 if none are.
double TermsOfLoops(const graph::Node& node, const std::vector<const Tensor*>& operands,
                    const Tensor& result) {
  const Tensor& w = *operands[1];
  if (w.elems() == 0 || result.elems() == 0) return 0;
  if (node.op == graph::Op::kConv) return static_cast<double>(w.elems() / w.shape()[0]);
  if (node.op == graph::Op::kGemm) return static_cast<double>(w.elems() / result.shape().back());
  return static_cast<double>(operands[0]->shape().back());
}

double TermsOf(const tc::Program& program, const Tensor& operand, const Tensor& result) {
  const auto sums = [](const tc::Statement& s) { return s.assign == tc::Assign::kSum; };
  if (std::ranges::none_of(program.statements, sums) || result.elems() == 0) return 0;
  return std::max(1.0, static_cast<double>(operand.elems()) / static_cast<double>(result.elems()));
}

double RootMeanSquare(const Tensor& t) {
  double squares = 0;
  for (int64_t i = 0; i < t.elems(); ++i)
    if (const double x = ElemAsDouble(t, i); std::isfinite(x)) squares += x * x;
  return t.elems() == 0 ? 0 : std::sqrt(squares / static_cast<double>(t.elems()));
}

class Reference {
 public:
  Reference(const graph::Graph& graph, Rounding rounding, uint64_t seed)
      : graph_(graph), rounding_(rounding), random_(seed), values_(graph.values.size()) {}

  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      values_[graph_.inputs[i].index] = Widen(inputs[i]);
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].kind == graph::ValueKind::kConstant)
        values_[v] = Widen(graph_.values[v].constant);
    const std::vector<size_t> last_readers = LastReaders();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      terms_ = 0;
      if (rounding_ == Rounding::kJittered && graph_.nodes[n].op == graph::Op::kQuantizeLinear) {
        WEFT_TRY(JitterQuotient(NodeId(n)));
      } else {
        WEFT_TRY(Compute(NodeId(n)));
      }
      if (rounding_ == Rounding::kEachValue) Round(graph_.nodes[n]);
      if (rounding_ == Rounding::kJittered) Jitter(graph_.nodes[n]);
      for (ValueId v : graph_.nodes[n].inputs)
        if (v.valid() && last_readers[v.index] == n) values_[v.index] = Tensor();
    }
    std::vector<Tensor> outputs;
    for (ValueId v : graph_.outputs) outputs.push_back(values_[v.index]);
    return outputs;
  }

 private:
  // By value, the last node that reads it: then it goes, since all of a network's in double
  // precision may be more than there is memory for. Results stay.
  std::vector<size_t> LastReaders() const {
    std::vector<size_t> last(graph_.values.size(), SIZE_MAX);
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (ValueId v : graph_.nodes[n].inputs)
        if (v.valid()) last[v.index] = n;
    for (ValueId v : graph_.outputs) last[v.index] = SIZE_MAX;
    return last;
  }

  void Round(const graph::Node& node) {
    for (ValueId v : node.outputs) {
      if (!v.valid() || !graph_[v].dtype) continue;
      Tensor& value = values_[v.index];
      if (value.dtype() == Dtype::kF64) value = Widen(Narrow(value, *graph_[v].dtype));
    }
  }

  double Uniform() {  // in [-1, 1), the same with every standard library
    return static_cast<double>(random_() >> 11) * 0x1p-52 - 1.0;
  }

  // What a type holds as it is was not rounded: zeros of a Relu, whole numbers, what is only moved.
  void Jitter(const graph::Node& node) {
    for (ValueId v : node.outputs) {
      if (!v.valid() || !graph_[v].dtype || values_[v.index].dtype() != Dtype::kF64) continue;
      const Dtype dtype = *graph_[v].dtype;
      Tensor& value = values_[v.index];
      const Tensor held = Narrow(value, StoredUnit(dtype) > 0 ? dtype : Dtype::kF32);
      const double of_sums = std::sqrt(terms_) * (terms_ > 0 ? RootMeanSquare(value) : 0);
      double* x = value.mutable_as<double>();
      for (int64_t i = 0; i < value.elems(); ++i) {
        if (!std::isfinite(x[i]) || ElemAsDouble(held, i) == x[i]) continue;
        const double size = std::abs(x[i]);
        x[i] += Uniform() * (StoredUnit(dtype) * size + kRoundings * kUnit * (size + of_sums));
      }
    }
  }

  // A quantization divides before it rounds to an integer, which its result does not show.
  Status JitterQuotient(NodeId id) {
    Tensor& x = values_[graph_[id].inputs[0].index];
    if (x.dtype() != Dtype::kF64) return Compute(id);
    const Tensor kept = x;
    double* moved = x.mutable_as<double>();
    for (int64_t i = 0; i < x.elems(); ++i) moved[i] *= 1 + Uniform() * kRoundings * kUnit;
    Status status = Compute(id);
    x = kept;
    return status;
  }

  Status Compute(NodeId id) {
    const graph::Node& node = graph_[id];
    if (graph::HoldsPlans(node.op)) return Nested(node);
    std::vector<const Tensor*> operands;
    for (ValueId v : node.inputs) operands.push_back(v.valid() ? &values_[v.index] : nullptr);
    if (auto loops = reference::RunLoops(node, operands)) {
      terms_ = TermsOfLoops(node, operands, *loops);
      values_[node.outputs[0].index] = std::move(*loops);
      return {};
    }
    if (auto alternatives = tc::ToTc(graph_, id); alternatives.yes())
      return Interpret((*alternatives)[0]);
    return Native(node, id);
  }

  Status Interpret(const tc::Alternative& direct) {
    std::vector<Tensor> operands;
    for (ValueId v : direct.inputs) operands.push_back(values_[v.index]);
    WEFT_TRY(auto results, tc::Interpret(direct.program, operands, {}, {.widen = true}));
    if (!operands.empty() && !results.empty())
      terms_ = TermsOf(direct.program, operands[0], results[0]);
    for (size_t i = 0; i < results.size(); ++i)
      values_[direct.outputs[i].index] = std::move(results[i]);
    return {};
  }

  // Natives compute in the declared type: they move and select values, or work on integers.
  Status Native(const graph::Node& node, NodeId id) {
    std::vector<Tensor> narrow(node.inputs.size());
    std::vector<const Tensor*> operands(node.inputs.size(), nullptr);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid()) continue;
      if (!graph_[v].dtype)
        return Internal(fmt::format("operand {} has no type", i)).At(graph::Describe(graph_, id));
      narrow[i] = Narrow(values_[v.index], *graph_[v].dtype);
      operands[i] = &narrow[i];
    }
    WEFT_TRY(auto results, EvaluateNode(graph_, node, operands));
    for (size_t i = 0; i < results.size(); ++i)
      if (node.outputs[i].valid()) values_[node.outputs[i].index] = Widen(results[i]);
    return {};
  }

  // One run of a body: a network for operands of these shapes.
  Result<std::vector<Tensor>> Body(const graph::Node& node, const char* name,
                                   std::span<const Tensor> operands) {
    const graph::Attribute* attribute = graph::FindAttribute(node, name);
    const graph::Graph& body = *std::get<std::shared_ptr<graph::Graph>>(attribute->value);
    std::vector<Tensor> narrow, free;
    for (size_t i = 0; i < operands.size(); ++i)
      narrow.push_back(Narrow(operands[i], *body[body.inputs[i]].dtype));
    WEFT_TRY(const NestedModule nested, OpenNested(body, narrow, {}));
    for (size_t i = 0; i < operands.size(); ++i)
      if (!nested.bound[i]) free.push_back(operands[i]);
    return Reference(nested.module.graph, rounding_, random_()).Run(free);
  }

  Status Nested(const graph::Node& node) {
    std::vector<Tensor> operands(node.inputs.size()), results;
    for (size_t i = 0; i < operands.size(); ++i)
      if (node.inputs[i].valid()) operands[i] = values_[node.inputs[i].index];
    if (node.op == graph::Op::kRepeat) {
      WEFT_TRY(results, Repeat(node, std::move(operands)));
    } else if (node.op == graph::Op::kBranch) {
      const bool taken = ElemAsInt(operands[0], 0) != 0;
      WEFT_TRY(results,
               Body(node, taken ? "then_branch" : "else_branch", std::span(operands).subspan(1)));
    } else {
      WEFT_TRY(results, Body(node, "body", operands));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].valid()) values_[node.outputs[i].index] = std::move(results[i]);
    return {};
  }

  Result<std::vector<Tensor>> Repeat(const graph::Node& node, std::vector<Tensor> operands) {
    const int64_t trips = node.inputs[0].valid() ? ElemAsInt(operands[0], 0) : INT64_MAX;
    bool goes_on = !node.inputs[1].valid() || ElemAsInt(operands[1], 0) != 0;
    const auto states = static_cast<size_t>(graph::IntAttr(node, "states", 0));
    std::vector<std::vector<Tensor>> rows(node.outputs.size() - states);
    operands[1] = graph::TensorOfScalar(Dtype::kBool, 1);
    for (int64_t t = 0; goes_on && t < trips; ++t) {
      operands[0] = Tensor(Dtype::kI64, {});
      SetElemInt(operands[0], 0, t);
      WEFT_TRY(auto results, Body(node, "body", operands));
      goes_on = ElemAsInt(results[0], 0) != 0;
      for (size_t i = 0; i < states; ++i) operands[i + 2] = std::move(results[i + 1]);
      for (size_t i = 0; i < rows.size(); ++i)
        rows[i].push_back(std::move(results[1 + states + i]));
    }
    const auto first = operands.begin() + 2;
    std::vector<Tensor> outputs(first, first + static_cast<std::ptrdiff_t>(states));
    for (const std::vector<Tensor>& parts : rows) {
      if (parts.empty()) return Unsupported("a loop of no trips gives rows of no known shape");
      Shape shape = parts[0].shape();
      shape.insert(shape.begin(), std::ssize(parts));
      if (SharesBytes(parts[0].dtype()))
        return Unsupported(fmt::format("rows of {} can't be stacked", DtypeName(parts[0].dtype())));
      Tensor all(parts[0].dtype(), shape);
      auto text = all.strings().begin();
      auto* to = static_cast<std::byte*>(all.mutable_data());
      for (const Tensor& part : parts) {
        if (part.shape() != parts[0].shape())
          return Invalid("the trips of a loop give rows of different shapes");
        text = std::ranges::copy(part.strings(), text).out;
        if (part.bytes() > 0) std::memcpy(to, part.data(), part.raw().size());
        to += part.bytes();
      }
      outputs.push_back(std::move(all));
    }
    return outputs;
  }

  const graph::Graph& graph_;
  Rounding rounding_;
  std::mt19937_64 random_;
  std::vector<Tensor> values_;
  double terms_ = 0;  // of the sums of the node at hand
};

}  // namespace

Result<std::vector<Tensor>> RunReference(const graph::Graph& graph, std::span<const Tensor> inputs,
                                         Rounding rounding, uint64_t seed) {
  if (inputs.size() != graph.inputs.size())
    return Usage(
        fmt::format("found {} inputs, the network has {}", inputs.size(), graph.inputs.size()));
  return Reference(graph, rounding, seed).Run(inputs);
}

}  // namespace weft::driver
