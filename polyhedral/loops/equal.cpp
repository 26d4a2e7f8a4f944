// Equality of meaning: ids and the order in which parts were made don't matter, names and structure
// do.
#include <cmath>
#include <set>

#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {
namespace {

class Comparer {
 public:
  Comparer(const LoopNest& a, const LoopNest& b) : a_(a), b_(b) {}

  bool Nests() const {
    if (a_.name != b_.name || a_.origins != b_.origins || a_.params != b_.params) return false;
    for (int32_t p = 0; p < a_.params; ++p) {
      if (a_.vars[p] != b_.vars[p]) return false;
    }
    if (a_.buffers.size() != b_.buffers.size()) return false;
    for (size_t i = 0; i < a_.buffers.size(); ++i) {
      if (!Same(a_.buffers[i], b_.buffers[i])) return false;
    }
    return Same(a_.body, b_.body);
  }

 private:
  Affine Renamed(const Affine& e) const {  // of a, in the variables of b
    return e.Substitute([this](Var v) {
      for (size_t i = 0; i < b_.vars.size(); ++i) {
        if (b_.vars[i] == a_.vars[v]) return Affine::OfVar(static_cast<Var>(i));
      }
      return Affine::OfVar(-2 - v);
    });
  }

  bool Same(const std::vector<Affine>& a, const std::vector<Affine>& b) const {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(Renamed(a[i]) == b[i])) return false;
    }
    return true;
  }

  bool Same(const Buffer& a, const Buffer& b) const {
    return a.name == b.name && a.dtype == b.dtype && Same(a.shape, b.shape) &&
           a.layout == b.layout && a.space == b.space && a.access == b.access &&
           a.align_bytes == b.align_bytes && a.fold == b.fold;
  }

  bool Same(const std::vector<StmtId>& a, const std::vector<StmtId>& b) const {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!Same(a_[a[i]], b_[b[i]])) return false;
    }
    return true;
  }

  bool Same(const Stmt& a, const Stmt& b) const {
    const bool names =
        (a.var < 0) == (b.var < 0) && (a.var < 0 || a_.vars[a.var] == b_.vars[b.var]);
    return a.kind == b.kind && names && Same(a.lo, b.lo) && Same(a.hi, b.hi) && a.step == b.step &&
           a.loop == b.loop && Same(a.conditions, b.conditions) && a.buffer == b.buffer &&
           Same(a.index, b.index) && a.value.valid() == b.value.valid() &&
           (!a.value.valid() || Same(a.value, b.value)) && a.label == b.label &&
           a.across == b.across && a.stream == b.stream && a.by_buffer == b.by_buffer &&
           a.near == b.near && a.cluster == b.cluster && Same(a.body, b.body) &&
           Same(a.otherwise, b.otherwise);
  }

  static bool SameLiteral(Dtype dtype, Scalar a, Scalar b) {
    if (!IsFloat(dtype)) return a.i == b.i;
    const double x = AsDouble(dtype, a), y = AsDouble(dtype, b);
    return (x == y && std::signbit(x) == std::signbit(y)) || (x != x && y != y);
  }

  bool Same(ExprId a, ExprId b) const {
    if (!known_.emplace(a, b).second)
      return true;  // compared before, and equal or we would be done
    const Expr &x = a_[a], &y = b_[b];
    if (x.kind != y.kind || x.dtype != y.dtype || x.args.size() != y.args.size()) return false;
    switch (x.kind) {
      case ExprKind::kLiteral:
        return SameLiteral(x.dtype, x.literal, y.literal);
      case ExprKind::kAffine:
        return Same(x.index, y.index);
      case ExprKind::kLoad:
        return x.buffer == y.buffer && Same(x.index, y.index) && Same(x.guards, y.guards);
      case ExprKind::kOp:
        break;
    }
    if (x.op != y.op) return false;
    for (size_t i = 0; i < x.args.size(); ++i) {
      if (!Same(x.args[i], y.args[i])) return false;
    }
    return true;
  }

  const LoopNest &a_, &b_;
  mutable std::set<std::pair<ExprId, ExprId>> known_;
};

}  // namespace

bool Equal(const LoopNest& a, const LoopNest& b) { return Comparer(a, b).Nests(); }

}  // namespace weft::loops
