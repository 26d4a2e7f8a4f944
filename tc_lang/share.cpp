#include "tc_lang/share.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

namespace weft::tc {
namespace {

using IndexMap = std::map<int32_t, int32_t>;  // of one statement, to those of another

class Sharer {
 public:
  Sharer(const Program& program, int64_t row_bytes) : program_(program), row_bytes_(row_bytes) {}

  Program Run() {
    while (ShareOne()) {
    }
    return std::move(program_);
  }

 private:
  // All pairs are looked at, of whatever a stranger wrote.
  static constexpr size_t kMostStatements = 128, kMostFunctions = 32;

  bool ShareOne() {
    if (program_.statements.size() > kMostStatements || !program_.params.empty()) return false;
    const auto steps = Steps(program_);
    if (!steps.ok()) return false;
    std::set<size_t> alone;  // in no loop of a recurrence
    for (const Step& step : *steps) {
      const auto recurs = RecurrenceIndices(program_, program_.statements[step.first]);
      if (step.first == step.last && recurs.ok() && recurs->empty()) alone.insert(step.first);
    }
    for (const size_t later : alone)
      for (const size_t earlier : alone)
        if (earlier < later && Share(earlier, later)) return true;
    return false;
  }

  // Functions that are evaluated for every instance, and read only what is in place.
  std::vector<ExprId> Functions(ExprId root) const {
    std::vector<ExprId> found;
    const auto visit = [&](const auto& self, ExprId id) -> void {
      const Expr& e = program_[id];
      if (e.kind != ExprKind::kOp || found.size() == kMostFunctions) return;
      if (IsMath(e.op) && IsPlain(id)) found.push_back(id);
      const bool first_only =
          e.op == ScalarOp::kSelect || e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr;
      for (const ExprId arg : e.args) {
        self(self, arg);
        if (first_only) break;
      }
    };
    visit(visit, root);
    return found;
  }

  // No choice, no check and no index that is loaded below.
  bool IsPlain(ExprId id) const {
    const Expr& e = program_[id];
    if (e.kind == ExprKind::kCheck || (e.kind == ExprKind::kOp && e.op == ScalarOp::kSelect))
      return false;
    if (e.kind == ExprKind::kRead)
      return Writers(e.tensor) <= 1 && std::ranges::all_of(e.args, [&](ExprId sub) {
               return AsAffine(program_, sub).has_value();
             });
    return std::ranges::all_of(e.args, [&](ExprId arg) { return IsPlain(arg); });
  }

  int64_t Writers(TensorId tensor) const {
    return std::ranges::count_if(program_.statements, [&](const Statement& s) {
      return s.target == tensor || s.companion == tensor;
    });
  }

  bool Match(ExprId a, ExprId b, IndexMap& to) const {
    const Expr &x = program_[a], &y = program_[b];
    if (x.kind != y.kind || x.dtype != y.dtype || x.args.size() != y.args.size()) return false;
    switch (x.kind) {
      case ExprKind::kIndex:
        return to.emplace(x.position, y.position).first->second == y.position;
      case ExprKind::kLiteral:
        if (std::memcmp(&x.literal, &y.literal, sizeof x.literal) != 0) return false;
        break;
      case ExprKind::kRead:
        if (x.tensor != y.tensor) return false;
        break;
      case ExprKind::kOp:
        if (x.op != y.op) return false;
        break;
      case ExprKind::kParam:
      case ExprKind::kCheck:
        return false;
    }
    for (size_t i = 0; i < x.args.size(); ++i)
      if (!Match(x.args[i], y.args[i], to)) return false;
    return true;
  }

  bool Share(size_t earlier, size_t later) {
    const Statement &sum = program_.statements[earlier], &user = program_.statements[later];
    if (!Reduces(sum) || sum.companion.valid() || user.companion.valid()) return false;
    for (const ExprId a : Functions(sum.value)) {
      for (const ExprId b : Functions(user.value)) {
        IndexMap to;
        if (!Match(a, b, to) || !IsRow(sum, user, to)) continue;
        Replace(earlier, later, a, b, to);
        return true;
      }
    }
    return false;
  }

  // Each index of the value runs alike in both, the first sums along one of them and keeps another,
  // and the second computes every element once.
  bool IsRow(const Statement& sum, const Statement& user, const IndexMap& to) const {
    std::set<int32_t> used;
    int64_t bytes = 1;
    bool reduced = false, kept = false;
    for (const auto& [a, b] : to) {
      const Index &x = sum.indices[static_cast<size_t>(a)],
                  &y = user.indices[static_cast<size_t>(b)];
      if (x.lo != y.lo || x.hi != y.hi || x.lo != Affine(0) || !x.hi.IsConstant()) return false;
      if (y.reduction || !used.insert(b).second) return false;
      (x.reduction ? reduced : kept) = true;
      if (x.reduction && __builtin_mul_overflow(bytes, x.hi.constant(), &bytes)) return false;
    }
    const bool same = used.size() == user.indices.size();
    return reduced && kept && same && bytes <= row_bytes_ / SizeBytes(sum.accumulate);
  }

  ExprId Add(Expr e) {
    program_.exprs.push_back(std::move(e));
    return ExprId(program_.exprs.size() - 1);
  }

  // The expression with its indices at other places; `part` becomes `whole`.
  ExprId Copy(ExprId id, const IndexMap& places, ExprId part, ExprId whole) {
    if (id == part) return whole;
    Expr e = program_[id];
    if (e.kind == ExprKind::kIndex && !places.empty()) e.position = places.at(e.position);
    for (ExprId& arg : e.args) arg = Copy(arg, places, part, whole);
    return Add(std::move(e));
  }

  ExprId ReadAt(TensorId tensor, const std::vector<int32_t>& positions) {
    std::vector<ExprId> args;
    for (const int32_t position : positions)
      args.push_back(Add({.kind = ExprKind::kIndex, .dtype = Dtype::kI32, .position = position}));
    return Add({.kind = ExprKind::kRead,
                .dtype = program_[tensor].dtype,
                .tensor = tensor,
                .args = std::move(args)});
  }

  void Replace(size_t earlier, size_t later, ExprId a, ExprId b, const IndexMap& to) {
    const std::vector<Index> indices = program_.statements[earlier].indices;
    TensorDecl decl{.dtype = program_[a].dtype, .role = Role::kTemporary};
    decl.name = FreshName(program_[program_.statements[earlier].target].name + "_terms");
    const TensorId made(program_.tensors.size());
    Statement s{.target = made, .accumulate = decl.dtype};
    IndexMap places;
    std::vector<int32_t> here, there;
    for (const auto& [x, y] : to) {
      places[x] = static_cast<int32_t>(here.size());
      here.push_back(x);
      there.push_back(y);
      Index index = indices[static_cast<size_t>(x)];
      index.reduction = false;
      decl.extents.push_back(index.hi);
      s.indices.push_back(std::move(index));
    }
    program_.tensors.push_back(std::move(decl));
    for (size_t i = 0; i < here.size(); ++i)
      s.subscripts.push_back(Add(
          {.kind = ExprKind::kIndex, .dtype = Dtype::kI32, .position = static_cast<int32_t>(i)}));
    s.value = Copy(a, places, ExprId(), ExprId());
    s.origin = program_.statements[earlier].origin;
    Use(earlier, a, made, here);
    Use(later, b, made, there);
    s.tag = Classify(program_, s);
    program_.statements.insert(program_.statements.begin() + static_cast<ptrdiff_t>(earlier),
                               std::move(s));
  }

  void Use(size_t statement, ExprId part, TensorId made, const std::vector<int32_t>& positions) {
    Statement& s = program_.statements[statement];
    const ExprId read = ReadAt(made, positions);
    s.value = Copy(s.value, {}, part, read);
    s.tag = Classify(program_, s);
  }

  std::string FreshName(std::string name) const {
    while (std::ranges::count(program_.tensors, name, &TensorDecl::name) > 0) name += '_';
    return name;
  }

  Program program_;
  const int64_t row_bytes_;
};

}  // namespace

Program WithSharedValues(const Program& program, int64_t row_bytes) {
  return Sharer(program, row_bytes).Run();
}

}  // namespace weft::tc
