#include "polyhedral/cuda/rewrite.h"

namespace weft::polyhedral::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;

namespace {

class Compacter {
 public:
  explicit Compacter(const LoopNest& nest) : from_(nest), to_(nest) {
    to_.exprs.clear();
    to_.stmts.clear();
    to_.body = Body(nest.body);
  }
  LoopNest Take() { return std::move(to_); }

 private:
  ExprId Copy(ExprId id) {
    if (const auto it = exprs_.find(id); it != exprs_.end()) return it->second;
    Expr e = from_[id];
    for (ExprId& arg : e.args) arg = Copy(arg);
    to_.exprs.push_back(std::move(e));
    return exprs_[id] = ExprId(to_.exprs.size() - 1);
  }

  std::vector<StmtId> Body(const std::vector<StmtId>& body) {
    std::vector<StmtId> result;
    for (const StmtId id : body) {
      Stmt s = from_[id];
      if (s.value.valid()) s.value = Copy(s.value);
      s.body = Body(s.body);
      s.otherwise = Body(s.otherwise);
      result.push_back(loops::AddStmt(to_, std::move(s)));
    }
    return result;
  }

  const LoopNest& from_;
  LoopNest to_;
  std::map<ExprId, ExprId> exprs_;
};

}  // namespace

Affine Rewriter::Of(const Affine& e) const {
  return e.Substitute([this](Var v) {
    const auto found = values_.find(v);
    return found == values_.end() ? Affine::OfVar(v) : found->second;
  });
}

std::vector<Affine> Rewriter::Of(const std::vector<Affine>& list) const {
  std::vector<Affine> result;
  for (const Affine& e : list) result.push_back(Of(e));
  return result;
}

std::vector<Affine> Rewriter::IndexOf(BufferId buffer, const std::vector<Affine>& index) const {
  if (const auto found = instead_.find(buffer); found != instead_.end()) return found->second;
  std::vector<Affine> result = Of(index);
  if (const auto more = more_.find(buffer); more != more_.end())
    result.insert(result.end(), more->second.begin(), more->second.end());
  return result;
}

ExprId Rewriter::Copy(ExprId id) {
  if (const auto it = done_.find(id); it != done_.end()) return it->second;
  Expr e = nest_[id];
  for (ExprId& arg : e.args) arg = Copy(arg);
  e.index = e.kind == ExprKind::kLoad ? IndexOf(e.buffer, e.index) : Of(e.index);
  e.guards = Of(e.guards);
  nest_.exprs.push_back(std::move(e));
  return done_[id] = ExprId(nest_.exprs.size() - 1);
}

Stmt Rewriter::Head(StmtId id) {
  Stmt s = nest_[id];
  s.lo = Of(s.lo), s.hi = Of(s.hi), s.conditions = Of(s.conditions);
  s.index = s.kind == loops::StmtKind::kStore ? IndexOf(s.buffer, s.index) : Of(s.index);
  if (s.value.valid()) s.value = Copy(s.value);
  s.body.clear(), s.otherwise.clear();
  return s;
}

StmtId Rewriter::Copy(StmtId id) {
  const std::vector<StmtId> body = nest_[id].body, otherwise = nest_[id].otherwise;
  Stmt s = Head(id);
  s.body = Copy(body), s.otherwise = Copy(otherwise);
  return loops::AddStmt(nest_, std::move(s));
}

std::vector<StmtId> Rewriter::Copy(const std::vector<StmtId>& body) {
  std::vector<StmtId> result;
  for (const StmtId id : body) result.push_back(Copy(id));
  return result;
}

LoopNest Compact(const LoopNest& nest) { return Compacter(nest).Take(); }

}  // namespace weft::polyhedral::cuda
