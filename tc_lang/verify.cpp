#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tc_lang/program.h"
#include "tc_lang/region.h"
#include "tc_lang/syntax.h"

namespace weft::tc {
namespace {

// A name as the language takes it: printed text has to read back.
bool IsIdentifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  Status Run() {
    WEFT_TRY(CheckNames());
    for (const TensorDecl& tensor : program_.tensors) WEFT_TRY(CheckTensor(tensor));
    for (size_t k = 0; k < program_.statements.size(); ++k) {
      Status status = CheckStatement(program_.statements[k]);
      if (!status.ok())
        return std::move(status).At(fmt::format("{}, statement {}", program_.name, k + 1));
    }
    for (size_t t = 0; t < program_.tensors.size(); ++t) WEFT_TRY(CheckHull(TensorId(t)));
    const Result<std::vector<Step>> steps = Steps(program_);
    return steps.ok() ? Status() : steps.status();
  }

 private:
  template <typename T>
  bool Valid(T id, size_t size) const {
    return id.valid() && static_cast<size_t>(id.index) < size;
  }

  Status CheckNames() const {
    std::set<std::string> seen;
    for (const std::string& name : program_.params) {
      if (!IsIdentifier(name) || !seen.insert(name).second)
        return Invalid(fmt::format("the param name '{}' is taken or no name", name));
    }
    int stage = 0;  // inputs, then outputs, then the rest
    for (const TensorDecl& tensor : program_.tensors) {
      if (!IsIdentifier(tensor.name) || !seen.insert(tensor.name).second) {
        return Invalid(fmt::format("the tensor name '{}' is taken or no name", tensor.name));
      }
      const int own = tensor.role == Role::kInput ? 0 : tensor.role == Role::kOutput ? 1 : 2;
      if (own < stage)
        return Invalid(fmt::format("the tensor '{}' stands out of order", tensor.name));
      stage = own;
    }
    return {};
  }

  Status CheckTensor(const TensorDecl& tensor) const {
    if (KindOf(tensor.dtype) == DtypeKind::kText)
      return Invalid(fmt::format("'{}' holds strings", tensor.name));
    for (size_t d = 0; d < tensor.extents.size(); ++d) {
      const Affine& extent = tensor.extents[d];
      if (extent.IsConstant() ? extent.constant() < 0 : d > 0) {
        return Invalid(fmt::format("extent {} of '{}' is negative or a param", d, tensor.name));
      }
      WEFT_TRY(CheckParams(extent));
    }
    if (tensor.role != Role::kLiteral) return {};
    if (tensor.literal.dtype() != tensor.dtype || StaticExtents(tensor) != tensor.literal.shape()) {
      return Invalid(
          fmt::format("the constant '{}' has other elements than its type says", tensor.name));
    }
    return {};
  }

  Status CheckParams(const Affine& e) const {
    std::vector<Var> vars;
    e.CollectVars(vars);
    for (Var v : vars) {
      if (v < 0 || static_cast<size_t>(v) >= program_.params.size())
        return Invalid("an extent or a range uses an unknown param");
    }
    return {};
  }

  Status CheckStatement(const Statement& s) {
    if (!Valid(s.target, program_.tensors.size()) || !Valid(s.value, program_.exprs.size()))
      return Invalid("ids out of range");
    if (s.companion.valid() != s.companion_value.valid() ||
        (s.companion.valid() &&
         (!Valid(s.companion, program_.tensors.size()) ||
          !Valid(s.companion_value, program_.exprs.size()) || s.companion == s.target))) {
      return Invalid("the companion's ids are out of range");
    }
    WEFT_TRY(CheckIndices(s));
    std::vector<ExprId> roots = s.subscripts;
    roots.push_back(s.value);
    if (s.companion_value.valid()) roots.push_back(s.companion_value);
    for (ExprId root : roots) {
      if (!Valid(root, program_.exprs.size())) return Invalid("ids out of range");
      WEFT_TRY(CheckExpr(s, root, false, 0));
    }
    WEFT_TRY(CheckTarget(s, s.target));
    if (s.companion.valid()) WEFT_TRY(CheckTarget(s, s.companion));
    return CheckLeft(s);
  }

  Status CheckIndices(const Statement& s) const {
    std::set<std::string> seen;
    for (const Index& index : s.indices) {
      const bool taken = !seen.insert(index.name).second ||
                         std::any_of(program_.tensors.begin(), program_.tensors.end(),
                                     [&](const TensorDecl& t) { return t.name == index.name; });
      if (!IsIdentifier(index.name) || taken)
        return Invalid(fmt::format("the index name '{}' is taken or no name", index.name));
      WEFT_TRY(CheckParams(index.lo));
      WEFT_TRY(CheckParams(index.hi));
      const Affine extent = index.hi - index.lo;
      if (extent.IsConstant() && extent.constant() < 0)
        return Invalid(fmt::format("the range of '{}' ends before it begins", index.name));
    }
    return {};
  }

  Status CheckTarget(const Statement& s, TensorId id) const {
    const TensorDecl& tensor = program_[id];
    if (tensor.role == Role::kInput || tensor.role == Role::kLiteral)
      return Invalid(fmt::format("'{}' is written", tensor.name));
    if (tensor.extents.size() != s.subscripts.size()) {
      return Invalid(fmt::format("{} subscripts on '{}' of rank {}", s.subscripts.size(),
                                 tensor.name, tensor.extents.size()));
    }
    return {};
  }

  Status CheckLeft(const Statement& s) const {
    std::vector<bool> left(s.indices.size(), false);
    for (ExprId id : s.subscripts) {
      const std::optional<Affine> e = AsAffineWithParams(program_, s, id);
      if (!e) return Invalid("a subscript on the left is not affine");
      std::vector<Var> vars;
      e->CollectVars(vars);
      for (Var v : vars) {
        if (static_cast<size_t>(v) < left.size()) left[static_cast<size_t>(v)] = true;
      }
    }
    bool reductions = false;
    for (size_t k = 0; k < left.size(); ++k) {
      if (s.indices[k].reduction == left[k])
        return Invalid(fmt::format("the index '{}' is marked wrongly", s.indices[k].name));
      if (reductions && left[k]) return Invalid("an index of the left stands after a reduction's");
      reductions = reductions || !left[k];
    }
    if (s.assign == Assign::kSet && (reductions || s.init)) return Invalid("'=' reduces");
    const bool extreme = s.init && (s.assign == Assign::kMin || s.assign == Assign::kMax);
    if (s.companion.valid() && !extreme) return Invalid("a tuple is no min=! or max=!");
    const Dtype wanted = s.assign == Assign::kSet ? program_[s.target].dtype : s.accumulate;
    if (program_[s.value].dtype != wanted) {
      return Invalid(fmt::format("a value of type {} where {} is kept",
                                 DtypeName(program_[s.value].dtype), DtypeName(wanted)));
    }
    if (s.companion.valid() && program_[s.companion_value].dtype != program_[s.companion].dtype) {
      return Invalid("the companion's value has another type");
    }
    return {};
  }

  Status CheckExpr(const Statement& s, ExprId id, bool guarded, int32_t depth) const {
    if (depth > 2000) return Invalid("an expression is nested more than 2000 deep");
    const Expr& e = program_[id];
    const bool lazy = e.kind == ExprKind::kOp && (e.op == ScalarOp::kSelect ||
                                                  e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr);
    for (size_t k = 0; k < e.args.size(); ++k) {
      if (!e.args[k].valid() || e.args[k] >= id) return Invalid("a child stands after its parent");
      WEFT_TRY(CheckExpr(s, e.args[k], guarded || (lazy && k > 0), depth + 1));
    }
    switch (e.kind) {
      case ExprKind::kLiteral:
        return {};
      case ExprKind::kIndex:
      case ExprKind::kParam: {
        const size_t count = e.kind == ExprKind::kIndex ? s.indices.size() : program_.params.size();
        if (e.position < 0 || static_cast<size_t>(e.position) >= count)
          return Invalid("an index or param is out of range");
        if (e.dtype != Dtype::kI32 && e.dtype != Dtype::kI64)
          return Invalid("an index is no int32 or int64");
        return {};
      }
      case ExprKind::kRead:
        return CheckRead(s, e, guarded);
      case ExprKind::kCheck:
        return CheckCheck(s, e);
      case ExprKind::kOp:
        return CheckOp(e);
    }
    return {};
  }

  Status CheckCheck(const Statement& s, const Expr& e) const {
    if (e.args.size() != 3 || (e.dtype != Dtype::kI32 && e.dtype != Dtype::kI64))
      return Invalid("'within' checks no index");
    for (size_t k = 0; k < 3; ++k) {
      const std::optional<Affine> bound = AsAffineWithParams(program_, s, e.args[k]);
      bool fixed = bound.has_value();
      for (size_t v = 0; v < s.indices.size(); ++v)
        fixed = fixed && !bound->Uses(static_cast<Var>(v));
      if (program_[e.args[k]].dtype != e.dtype || (k > 0 && !fixed))
        return Invalid("the bounds of 'within' are no sizes of its type");
    }
    return {};
  }

  Status CheckRead(const Statement& s, const Expr& e, bool guarded) const {
    if (!Valid(e.tensor, program_.tensors.size())) return Invalid("ids out of range");
    const TensorDecl& tensor = program_[e.tensor];
    if (e.args.size() != tensor.extents.size()) {
      return Invalid(fmt::format("{} subscripts on '{}' of rank {}", e.args.size(), tensor.name,
                                 tensor.extents.size()));
    }
    if (e.dtype != tensor.dtype)
      return Invalid(fmt::format("a read of '{}' has another type", tensor.name));
    const IntBox ranges = RangesOf(program_, s), hull = HullOf(program_, e.tensor);
    const bool runs =
        std::none_of(ranges.begin(), ranges.end(), [](const Interval& i) { return i.empty(); });
    for (size_t d = 0; d < e.args.size(); ++d) {
      if (!IsInteger(program_[e.args[d]].dtype))
        return Invalid(fmt::format("a subscript of '{}' is no integer", tensor.name));
      const std::optional<Affine> at = AsAffineWithParams(program_, s, e.args[d]);
      if (!at || guarded || !runs) continue;
      const Interval bounds = TightBounds(*at, ranges, hull[d]);
      if (bounds.lo < hull[d].lo || bounds.hi > hull[d].hi) {
        return Invalid(fmt::format("subscript {} of '{}' runs from {} to {}, the extent is {}", d,
                                   tensor.name, bounds.lo, bounds.hi, hull[d].hi + 1));
      }
    }
    return {};
  }

  Status CheckOp(const Expr& e) const {
    if (e.args.size() != static_cast<size_t>(ScalarArity(e.op)))
      return Invalid(fmt::format("'{}' has {} operands", ScalarName(e.op), e.args.size()));
    const auto dtype = [&](size_t k) { return program_[e.args[k]].dtype; };
    bool fine = true;
    const bool moves =
        e.op == ScalarOp::kSelect || e.op == ScalarOp::kCast || e.op == ScalarOp::kBitcast;
    for (size_t k = 0; k < e.args.size() && !moves; ++k)
      if (SharesBytes(dtype(k)))
        return Invalid(fmt::format("'{}' of integers of four bits", ScalarName(e.op)));
    switch (e.op) {
      case ScalarOp::kCast:
        break;
      case ScalarOp::kBitcast:
        fine = Bits(dtype(0)) == Bits(e.dtype);
        break;
      case ScalarOp::kSelect:
        fine = dtype(0) == Dtype::kBool && dtype(1) == e.dtype && dtype(2) == e.dtype;
        break;
      case ScalarOp::kAnd:
      case ScalarOp::kOr:
      case ScalarOp::kNot:
        fine = e.dtype == Dtype::kBool && dtype(0) == Dtype::kBool &&
               dtype(e.args.size() - 1) == Dtype::kBool;
        break;
      case ScalarOp::kIsNan:
        fine = e.dtype == Dtype::kBool && IsFloat(dtype(0));
        break;
      default:
        if (IsCompare(e.op)) {
          fine = e.dtype == Dtype::kBool && dtype(0) == dtype(1);
          break;
        }
        fine = e.dtype != Dtype::kBool;
        for (size_t k = 0; k < e.args.size(); ++k) fine = fine && dtype(k) == e.dtype;
        if (e.op == ScalarOp::kIntPow)
          fine = fine && IsInteger(e.dtype);
        else if (IsMath(e.op) || e.op == ScalarOp::kSqrt)
          fine = fine && IsFloat(e.dtype);
    }
    return fine ? Status()
                : Invalid(
                      fmt::format("the operands of '{}' have the wrong types", ScalarName(e.op)));
  }

  // Extents are those of the hull of what is written.
  Status CheckHull(TensorId id) const {
    const TensorDecl& tensor = program_[id];
    if (tensor.role == Role::kInput || tensor.role == Role::kLiteral) return {};
    const IntBox hull = HullOf(program_, id);
    IntBox written;
    for (const Statement& s : program_.statements) {
      if (s.target != id && s.companion != id) continue;
      const IntBox ranges = RangesOf(program_, s);
      for (size_t d = 0; d < s.subscripts.size(); ++d) {
        Affine e = *AsAffineWithParams(program_, s, s.subscripts[d]);
        Interval bounds = TightBounds(e, ranges, hull[d]);
        if (const std::optional<Var> v = e.AsVar(); v && static_cast<size_t>(*v) < ranges.size())
          bounds = ranges[static_cast<size_t>(*v)];
        if (written.size() <= d) written.push_back(bounds);
        written[d] = {std::min(written[d].lo, bounds.lo), std::max(written[d].hi, bounds.hi)};
      }
      if (s.subscripts.empty()) return {};
    }
    // Of a tensor without elements any box says as much.
    const auto is_empty = [](const IntBox& box) {
      return std::ranges::any_of(box, &Interval::empty);
    };
    if (written != hull && !(is_empty(written) && is_empty(hull)))
      return Invalid(
          fmt::format("the extents of '{}' are not those of what is written", tensor.name));
    return {};
  }

  const Program& program_;
};

}  // namespace

Status Verify(const Program& program) { return Verifier(program).Run(); }

}  // namespace weft::tc
