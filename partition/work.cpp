#include "partition/work.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "polyhedral/access.h"
#include "polyhedral/loops/math.h"

namespace weft::partition {

namespace {

double Instances(const tc::Statement& s) {
  double instances = 1;
  for (const tc::Index& i : s.indices)  // a symbolic extent counts as one
    if (i.lo.IsConstant() && i.hi.IsConstant())
      instances *= static_cast<double>(i.hi.constant() - i.lo.constant());
  return instances;
}

// Evaluations of the functions that `counts` says, those of equal arguments once
// (ShareOperations).
double Calls(const tc::Program& p, bool (*counts)(const tc::Expr&)) {
  double calls = 0;
  for (const tc::Statement& s : p.statements) {
    std::vector<tc::ExprId> functions, todo{s.value};
    while (!todo.empty()) {
      const tc::ExprId id = todo.back();
      const tc::Expr& e = p[id];
      todo.pop_back();
      const auto is_same = [&](tc::ExprId function) { return tc::Equal(p, function, p, id); };
      if (e.kind == tc::ExprKind::kOp && counts(e) && std::ranges::none_of(functions, is_same))
        functions.push_back(id);
      todo.insert(todo.end(), e.args.begin(), e.args.end());
    }
    calls += Instances(s) * static_cast<double>(functions.size());
  }
  return calls;
}

}  // namespace

double MathCalls(const tc::Program& program) {
  return Calls(program, [](const tc::Expr& e) { return IsMath(e.op); });
}

double PiecewiseCalls(const tc::Program& program) {
  return Calls(program, [](const tc::Expr& e) { return loops::HasPieces(e.op, e.dtype); });
}

namespace {

bool TakesFractions(const tc::Program& p, tc::ExprId e, Var index) {
  const auto affine = tc::AsAffine(p, e);
  return affine && std::ranges::any_of(affine->terms(), [&](const Affine::Term& t) {
           return t.dividend && t.dividend->Uses(index);
         });
}

// Whether a value is chosen by a residue of the index, as an output of Winograd's tiles is: loops
// write its residues out, so that no lane reads by itself.
bool ChoosesByResidue(const tc::Program& p, tc::ExprId e, Var index, bool in_condition = false) {
  if (in_condition && TakesFractions(p, e, index)) return true;
  const tc::Expr& expr = p[e];
  for (size_t a = 0; a < expr.args.size(); ++a) {
    const bool condition = expr.kind == tc::ExprKind::kOp && expr.op == ScalarOp::kSelect && a == 0;
    if (ChoosesByResidue(p, expr.args[a], index, in_condition || condition)) return true;
  }
  return false;
}

}  // namespace

double GatheredReads(const tc::Program& p, const std::map<std::string, Layout>& layouts) {
  double elements = 0;
  for (const tc::Statement& s : p.statements) {
    const auto lies = layouts.find(p[s.target].name);
    if (s.subscripts.empty()) continue;
    const size_t inner =
        lies == layouts.end() ? s.subscripts.size() - 1 : lies->second.axes.back().axis;
    const auto along = tc::AsAffine(p, s.subscripts[inner]);
    const std::optional<Var> lane = along ? along->AsVar() : std::nullopt;
    if (!lane || ChoosesByResidue(p, s.value, *lane)) continue;
    for (const tc::ExprId read : tc::Reads(p, s)) {
      if (p[p[read].tensor].role == tc::Role::kLiteral) continue;
      const bool gathers = std::ranges::any_of(
          p[read].args, [&](tc::ExprId sub) { return TakesFractions(p, sub, *lane); });
      if (gathers) elements += Instances(s);
    }
  }
  return elements;
}

double WindowReads(const tc::Program& p, const std::map<std::string, Layout>& layouts) {
  double elements = 0;
  for (const tc::Statement& s : p.statements) {
    if (s.assign == tc::Assign::kSet || tc::Contracts(s)) continue;
    const bool overlap = std::ranges::any_of(tc::Reads(p, s), [&](tc::ExprId read) {
      const polyhedral::AccessClass access = polyhedral::Classify(p, s, p[read].args);
      if (s.assign != tc::Assign::kSum) return access.kind == polyhedral::AccessKind::kWindow;
      const auto lies = layouts.find(p[p[read].tensor].name);
      return !access.subscripts.empty() &&
             polyhedral::SlidesAlong(s, lies == layouts.end()
                                            ? access.subscripts.back()
                                            : access.subscripts[lies->second.axes.back().axis]);
    });
    if (overlap) elements += Instances(s);
  }
  return elements;
}

double ColumnsOfGroup(const tc::Program& p, const tc::Statement& s) {
  const std::vector<tc::ExprId> reads = tc::Reads(p, s);
  if (!tc::Contracts(s) || reads.size() != 2) return 0;
  double alone[2] = {1, 1}, groups = 1;  // places that move one operand only, and both
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const Affine extent = s.indices[i].hi - s.indices[i].lo;
    if (s.indices[i].reduction || !extent.IsConstant()) continue;
    const auto places = std::max(1.0, static_cast<double>(extent.constant()));
    const auto index = static_cast<int32_t>(i);
    const int64_t x = polyhedral::StepsToMove(p, reads[0], index),
                  w = polyhedral::StepsToMove(p, reads[1], index);
    if (x == 0 || w == 0) {
      if (x != w) alone[x > 0 ? 0 : 1] *= places;
      continue;
    }
    const double columns = std::min(places, static_cast<double>(std::max(x, w)));
    alone[x < w ? 0 : 1] *= columns;
    groups *= places / columns;
  }
  return groups > 1 ? std::min(alone[0], alone[1]) : 0;
}

double ProductsAtOnce(Isa isa, Dtype a, Dtype b) {
  // Half of what AMX does at its peak: tiles have to be loaded, too.
  constexpr double kByMatrices = 16, kHalvesByMatrices = 8, kQuads = 4, kPairs = 2;
  // Weights that share a byte are taken apart for each few rows (docs/decisions/0008).
  constexpr double kTakenApart = 0.65;
  const auto byte = [](Dtype d) { return d == Dtype::kI8 || d == Dtype::kU8; };
  const auto small = [&](Dtype d) { return byte(d) || d == Dtype::kI16; };
  if (a == Dtype::kBF16 && b == Dtype::kBF16) {
    if (HasMatrixProducts(isa)) return kHalvesByMatrices;
    return HasBfloatProducts(isa) ? kPairs : 1;
  }
  if (SharesBytes(a) || SharesBytes(b)) return kTakenApart;
  if (!small(a) || !small(b)) return 1;
  if (!byte(a) || !byte(b)) return kPairs;
  if (HasMatrixProducts(isa)) return kByMatrices;
  return HasDotProducts(isa) && a != b ? kQuads : kPairs;
}

// Whether a statement multiplies matrices: rows of one factor are sums, and there are no guards.
static bool HasRows(const tc::Program& p, const tc::Statement& s,
                    const std::vector<tc::ExprId>& reads) {
  const auto is_row = [&](tc::ExprId read) {
    const auto inner = p[read].args.empty() ? std::nullopt : tc::AsAffine(p, p[read].args.back());
    const auto index = inner ? inner->AsVar() : std::nullopt;
    return index && s.indices[*index].reduction;
  };
  return !tc::AsGuarded(p, s.value) && std::ranges::any_of(reads, is_row);
}

double ProductsAtOnce(Isa isa, const tc::Program& p, const tc::Statement& s) {
  const std::vector<tc::ExprId> reads = tc::Reads(p, s);
  if (!tc::Contracts(s) || reads.size() != 2) return 1;
  if (HasMatrixProducts(isa) && !HasRows(p, s, reads)) isa = Isa::kX86V4Bf16;
  return ProductsAtOnce(isa, p[reads[0]].dtype, p[reads[1]].dtype);
}

namespace {

// Of all values that the indices of a statement which constraints use may have, the part for which
// these hold; 1 if they are too many to look.
double ShareInside(const tc::Statement& s, const std::set<Var>& used,
                   const std::vector<Affine>& constraints) {
  constexpr double kMostPlaces = 1 << 14;
  std::vector<int64_t> at(s.indices.size(), 0);
  double places = 1;
  for (const Var v : used) {
    if (v < 0 || v >= std::ssize(s.indices)) return 1;
    const tc::Index& i = s.indices[static_cast<size_t>(v)];
    if (!i.lo.IsConstant() || !i.hi.IsConstant() || i.hi.constant() <= i.lo.constant()) return 1;
    at[static_cast<size_t>(v)] = i.lo.constant();
    places *= static_cast<double>(i.hi.constant() - i.lo.constant());
  }
  if (places > kMostPlaces) return 1;
  double inside = 0;
  const auto next = [&] {
    for (const Var v : used) {
      const tc::Index& i = s.indices[static_cast<size_t>(v)];
      int64_t& value = at[static_cast<size_t>(v)];
      if (++value < i.hi.constant()) return true;
      value = i.lo.constant();
    }
    return false;
  };
  do {
    inside += std::ranges::all_of(constraints, [&](const Affine& e) { return e.Eval(at) >= 0; });
  } while (next());
  return inside / places;
}

}  // namespace

double GuardedShare(const tc::Program& p, const tc::Statement& s) {
  const auto guarded = tc::AsGuardedUpdate(p, s);
  if (!guarded) return 1;
  // Constraints that share an index are looked at together.
  std::vector<std::pair<std::set<Var>, std::vector<Affine>>> together;
  for (const Affine& e : guarded->constraints) {
    std::vector<Var> vars;
    e.CollectVars(vars);
    std::pair<std::set<Var>, std::vector<Affine>> joined{{vars.begin(), vars.end()}, {e}};
    std::erase_if(together, [&](const auto& other) {
      const bool meet =
          std::ranges::any_of(other.first, [&](Var v) { return joined.first.contains(v); });
      if (!meet) return false;
      joined.first.insert(other.first.begin(), other.first.end());
      joined.second.insert(joined.second.end(), other.second.begin(), other.second.end());
      return true;
    });
    together.push_back(std::move(joined));
  }
  double share = 1;
  for (const auto& [used, constraints] : together) share *= ShareInside(s, used, constraints);
  return share;
}

namespace {

double BytesOf(const tc::TensorDecl& decl) {  // a symbolic shape counts as one element
  double bytes = static_cast<double>(Bits(decl.dtype)) / 8;
  for (const int64_t extent : tc::StaticExtents(decl).value_or(Shape{}))
    bytes *= static_cast<double>(extent);
  return bytes;
}

}  // namespace

double StagedBytes(const tc::Program& p) {
  const auto is_plain = [&](tc::ExprId sub) {
    const auto e = tc::AsAffine(p, sub);
    return e && e->AsVar();
  };
  double bytes = 0;
  for (const tc::Statement& maker : p.statements) {
    const tc::TensorDecl& decl = p[maker.target];
    if (decl.role != tc::Role::kTemporary) continue;
    bool staged = false;
    for (const tc::Statement& user : p.statements)
      for (const tc::ExprId read : tc::Reads(p, user))
        staged |= p[read].tensor == maker.target &&
                  (tc::Contracts(user) ||
                   (tc::Contracts(maker) && !std::ranges::all_of(p[read].args, is_plain)));
    if (!staged) continue;
    bytes += 2 * BytesOf(decl);
  }
  return bytes;
}

double PassedAgainBytes(const tc::Program& p, double cache_bytes) {
  // By temporary and operand: bytes of the operand that must have been read for one element.
  std::map<tc::TensorId, std::map<tc::TensorId, double>> waits;
  std::set<tc::TensorId> passed;
  double bytes = 0;
  for (const tc::Statement& s : p.statements) {
    const auto summed = [&](tc::ExprId read) {  // elements of what is read, for one result
      double elems = 1;
      for (size_t i = 0; i < s.indices.size(); ++i) {
        const Affine extent = s.indices[i].hi - s.indices[i].lo;
        if (s.indices[i].reduction && extent.IsConstant() &&
            polyhedral::StepsToMove(p, read, static_cast<int32_t>(i)) > 0)
          elems *= static_cast<double>(extent.constant());
      }
      return elems;
    };
    std::map<tc::TensorId, double> own, before;
    for (const tc::ExprId read : tc::Reads(p, s)) {
      const tc::TensorId t = p[read].tensor;
      if (p[t].role == tc::Role::kInput)
        own[t] = std::max(own[t], summed(read) * static_cast<double>(Bits(p[t].dtype)) / 8);
      for (const auto& [operand, some] : waits[t])
        before[operand] = std::max(before[operand], summed(read) * some);
    }
    for (const auto& [t, some] : own) {
      if (!passed.insert(t).second && before[t] > cache_bytes) bytes += BytesOf(p[t]);
      before[t] = std::max(before[t], some);
    }
    for (const auto& [operand, some] : before)
      waits[s.target][operand] = std::max(waits[s.target][operand], some);
  }
  return bytes;
}

namespace {

// Of oneDNN's names for functions of an element, those that are no few instructions.
bool IsMathKind(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"sigmoid", "tanh", "gelu_erf", "gelu_tanh",
                                         "swish",   "mish", "exp"};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

int64_t MathOfResult(const fallback::LibraryCall& call) {
  const bool own = call.op == "softmax" || IsMathKind(StringAttr(call, "algorithm", ""));
  return own + std::ranges::count_if(
                   call.post_ops, [](const fallback::PostOp& op) { return IsMathKind(op.kind); });
}

bool IsPlainImage(const fallback::CallOperand* image) {
  return image && image->shape.size() > 2 && image->layout.axes.back().axis != 1;
}

// What part of a convolution's taps lies in no padding.
double UnpaddedShare(const fallback::LibraryCall& call, const Shape& image, const Shape& weights,
                     const Shape& result) {
  const std::vector<int64_t> strides = IntsAttr(call, "strides"),
                             dilations = IntsAttr(call, "dilations"), pads = IntsAttr(call, "pads");
  double share = 1;
  for (size_t axis = 2; axis < std::min({image.size(), weights.size(), result.size()}); ++axis) {
    constexpr int64_t kMostTaps = 1 << 10;
    const auto of = [&](const std::vector<int64_t>& values, int64_t otherwise) {
      return axis - 2 < values.size() ? values[axis - 2] : otherwise;
    };
    const int64_t places = result[axis], taps = weights[axis],
                  stride = std::max<int64_t>(1, of(strides, 1));
    if (places <= 0 || taps <= 0 || taps > kMostTaps) continue;
    double inside = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {  // places p with 0 <= stride * p - to < image
      const int64_t to = of(pads, 0) - tap * of(dilations, 1),
                    begin = to > 0 ? (to + stride - 1) / stride : 0,
                    end = to + image[axis] > 0 ? (to + image[axis] - 1) / stride + 1 : 0;
      inside += static_cast<double>(std::max<int64_t>(0, std::min(end, places) - begin));
    }
    share *= inside / static_cast<double>(places * taps);
  }
  return share;
}

// Functions behind a deconvolution of plain images take three times as long as behind a
// convolution, those that are no few instructions four to twelve times.
double FunctionsAlone(const fallback::LibraryCall& call) {
  if (call.op == "deconvolution") {
    double functions = 0;
    for (const fallback::PostOp& op : call.post_ops) functions += IsMathKind(op.kind) ? 12 : 3;
    return functions;
  }
  return static_cast<double>(std::ranges::count_if(call.post_ops, [](const fallback::PostOp& op) {
    return op.kind != "relu" && op.kind != "sum" && !op.kind.starts_with("binary_");
  }));
}

}  // namespace

CallWork WorkOf(const fallback::LibraryCall& call) {
  CallWork work;
  const auto count = [](const fallback::CallOperand& o) {
    double elems = 1;
    for (int64_t e : o.shape) elems *= static_cast<double>(std::max<int64_t>(e, 0));
    return elems;
  };
  for (const auto& o : call.inputs)
    if (!o.value.empty()) work.bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
  for (const auto& o : call.outputs) {
    work.bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
    work.results += count(o);
  }
  // Its three passes over a row take 1.2 to 1.4 times as long as the one over memory.
  if (call.op == "layer_normalization") work.bytes *= 1.25;
  const fallback::CallOperand *weights = fallback::FindOperand(call, "weights"),
                              *src = fallback::FindOperand(call, "src");
  if (call.op == "convolution" && weights && weights->shape.size() > 1)
    work.depth = count(*weights) / static_cast<double>(std::max<int64_t>(1, weights->shape[0]));
  else if (call.op == "deconvolution" && src && weights && work.results > 0)
    work.depth = count(*src) * count(*weights) /
                 static_cast<double>(std::max<int64_t>(1, weights->shape[0])) / work.results;
  else if (call.op == "matmul" && weights && weights->shape.size() > 1)
    work.depth = static_cast<double>(
        weights->shape[weights->shape.size() - (IntAttr(call, "trans_b", 0) != 0 ? 1 : 2)]);
  work.flops =
      2 * work.results * work.depth + work.results * static_cast<double>(call.post_ops.size());
  if (call.op == "convolution" && src && weights && !call.outputs.empty())
    work.unpadded = UnpaddedShare(call, src->shape, weights->shape, call.outputs[0].shape);
  work.math = work.results * static_cast<double>(MathOfResult(call));
  if (src && weights) {
    work.factors[0] = src->dtype;
    work.factors[1] = weights->dtype;
  }
  const bool from_plain = IsPlainImage(src), to_plain = IsPlainImage(call.outputs.data());
  if (call.op == "pooling" && from_plain) work.bytes *= 2;  // turned around on the way in and out
  const int64_t groups = IntAttr(call, "group", 1);
  if (groups > 1 && !call.outputs.empty() && call.outputs[0].shape.size() > 1)
    work.columns = static_cast<double>(call.outputs[0].shape[1] / groups);
  if (weights && weights->shape.size() > 1)
    work.depth_of_group = static_cast<double>(weights->shape[1]);
  if (call.op == "deconvolution" && weights && weights->shape.size() > 1)
    work.folded =
        std::max(work.results, work.results * work.depth * static_cast<double>(groups) /
                                   static_cast<double>(std::max<int64_t>(1, weights->shape[0])));
  if ((call.op == "convolution" && from_plain && to_plain) ||
      (call.op == "deconvolution" && (from_plain || to_plain))) {
    work.alone = work.results * FunctionsAlone(call);
    if (work.columns > 0) work.unfolded = work.results * work.depth / work.columns;
  }
  return work;
}

}  // namespace weft::partition
