#include "polyhedral/cuda/columns.h"

#include <algorithm>
#include <utility>

#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

class Dealer {
 public:
  Dealer(LoopNest& nest, StmtId loop, int64_t columns)
      : nest_(nest),
        column_(nest[loop].var),
        trip_(loops::ConstantTrip(nest[loop])),
        columns_(columns) {
    const Var block = loops::AddVar(nest_, nest_.vars[column_] + "_block");
    Stmt& s = nest_.stmts[loop.index];
    s.var = block, s.hi = {(trip_ + columns_ - 1) / columns_};
    first_ = Affine::OfVar(block, columns_);
  }

  void AddAxes(const std::set<BufferId>& own) {
    for (size_t i = 0; i < nest_.buffers.size(); ++i) {
      Buffer& b = nest_.buffers[i];
      const bool is_local = b.access == loops::Access::kLocal && b.space != Space::kGrid;
      if (!is_local || own.contains(BufferId(i))) continue;
      shared_.emplace_back(i);
      b.shape.emplace_back(columns_);
      b.layout = Layout::Plain(b.shape.size());
      if (!b.fold.empty()) b.fold.push_back(0);
    }
  }

  std::optional<std::vector<StmtId>> Body(const std::vector<StmtId>& body) {
    std::vector<StmtId> all, stretch;
    const auto flush = [&] {
      if (!stretch.empty()) all.push_back(Threads(std::exchange(stretch, {})));
    };
    for (const StmtId id : body) {
      const StmtKind kind = nest_[id].kind;
      if (kind != StmtKind::kBarrier && kind != StmtKind::kLet && !HoldsBarrier(id)) {
        stretch.push_back(id);
        continue;
      }
      flush();
      all.push_back(id);
      if (!IsUniform(nest_[id])) return std::nullopt;
      for (auto part : {&Stmt::body, &Stmt::otherwise}) {
        auto inside = Body(std::vector(nest_[id].*part));
        if (!inside) return std::nullopt;
        nest_.stmts[id.index].*part = *std::move(inside);
      }
    }
    flush();
    return all;
  }

 private:
  StmtId Threads(const std::vector<StmtId>& stretch) {
    const Var mine = loops::AddVar(nest_, nest_.vars[column_]);
    Rewriter::Indices more;
    for (const BufferId id : shared_) more[id] = {Affine::OfVar(mine) - first_};
    std::vector<StmtId> own =
        Rewriter(nest_, {{column_, Affine::OfVar(mine)}}, std::move(more)).Copy(stretch);
    std::vector<Affine> end = {first_ + columns_};
    if (trip_ % columns_ != 0) end.emplace_back(trip_);
    return loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                  .var = mine,
                                  .lo = {first_},
                                  .hi = std::move(end),
                                  .loop = LoopKind::kThreadX,
                                  .body = std::move(own)});
  }

  bool HoldsBarrier(StmtId id) const {
    const auto is_barrier = [this](StmtId sub) {
      return nest_[sub].kind == StmtKind::kBarrier || HoldsBarrier(sub);
    };
    return std::ranges::any_of(nest_[id].body, is_barrier) ||
           std::ranges::any_of(nest_[id].otherwise, is_barrier);
  }

  // Whether a statement's own bounds, conditions and value are the same for all columns.
  bool IsUniform(const Stmt& s) const {
    const auto uses = [this](const std::vector<Affine>& list) {
      return std::ranges::any_of(list, [this](const Affine& e) { return e.Uses(column_); });
    };
    if (uses(s.lo) || uses(s.hi) || uses(s.conditions)) return false;
    return !s.value.valid() || !AnyBelow(nest_, s.value, [&](const Expr& e) {
      const bool is_local =
          e.kind == ExprKind::kLoad && nest_[e.buffer].access == loops::Access::kLocal;
      return is_local || uses(e.index) || uses(e.guards);
    });
  }

  LoopNest& nest_;
  Var column_;
  int64_t trip_, columns_;
  Affine first_;                  // column of a block
  std::vector<BufferId> shared_;  // with an axis of columns
};

}  // namespace

std::optional<std::vector<StmtId>> OverColumns(LoopNest& nest, StmtId loop, int64_t columns,
                                               const std::set<BufferId>& own,
                                               const std::vector<StmtId>& body) {
  Dealer dealer(nest, loop, columns);
  dealer.AddAxes(own);
  return dealer.Body(body);
}

}  // namespace weft::polyhedral::cuda
