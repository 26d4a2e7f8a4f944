// Copies of parts of a nest with something else in the place of variables.
#pragma once

#include <map>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

class Rewriter {
 public:
  using Indices = std::map<loops::BufferId, std::vector<Affine>>;
  // Accesses of a buffer get the indices in `more` behind those they have, or those in `instead`.
  Rewriter(loops::LoopNest& nest, std::map<Var, Affine> values, Indices more = {},
           Indices instead = {})
      : nest_(nest),
        values_(std::move(values)),
        more_(std::move(more)),
        instead_(std::move(instead)) {}

  Affine Of(const Affine& e) const;
  std::vector<Affine> Of(const std::vector<Affine>& list) const;
  std::vector<Affine> IndexOf(loops::BufferId buffer, const std::vector<Affine>& index) const;
  loops::ExprId Copy(loops::ExprId id);
  // With all that it holds. Loops inside keep their variables, so that only one of the two may
  // stay.
  loops::StmtId Copy(loops::StmtId id);
  std::vector<loops::StmtId> Copy(const std::vector<loops::StmtId>& body);
  // The statement alone: what it holds is to be filled in.
  loops::Stmt Head(loops::StmtId id);

 private:
  loops::LoopNest& nest_;
  std::map<Var, Affine> values_;
  Indices more_, instead_;
  std::map<loops::ExprId, loops::ExprId> done_;
};

// What is left of a nest when nobody names the rest.
loops::LoopNest Compact(const loops::LoopNest& nest);

}  // namespace weft::polyhedral::cuda
