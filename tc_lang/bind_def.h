// The binder's state over one def; Bind and Infer are two views of what it finds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tc_lang/bind.h"
#include "tc_lang/bind_expr.h"
#include "tc_lang/ranges.h"

namespace weft::tc {

class DefBinder {
 public:
  DefBinder(const Def& def, const Sizes& sizes);

  Status Run();
  Program& program() { return program_; }
  // By statement, in the def's own coordinates.
  const std::vector<std::vector<IndexRange>>& ranges() const { return ranges_; }
  const std::vector<std::string>& preconditions() const { return preconditions_; }

 private:
  // What is known of a tensor so far.
  struct State {
    bool typed = false;          // its dtype is settled
    bool defined = false;        // a statement above wrote it
    std::vector<Affine> lo, hi;  // hull of what is written, half open, over params
    const SyntaxParam* declared = nullptr;
  };

  // bind_declare.cpp
  bool Declare();
  bool DeclareSize(const SyntaxParam& param, const SyntaxExpr* dim);
  bool DeclareInput(const SyntaxParam& param);
  bool DeclareOutputs();
  bool DeclareConst(const SyntaxConst& c);
  bool DeclareTemporaries();
  bool AddTensor(TensorDecl decl, Location at, const SyntaxParam* declared);
  std::optional<Affine> Dim(const SyntaxExpr& dim);
  bool CheckAnnotation(size_t tensor);

  // bind_statement.cpp
  bool BindStatement(const SyntaxStatement& s);
  bool BindParts(const SyntaxStatement& s, Statement& out, Dtype index_type);
  bool BindTargets(const SyntaxStatement& s, Statement& out);
  bool AffineBound(Location at, Typed e, const Statement& out);
  bool BindClauses(const SyntaxStatement& s, Statement& out, std::vector<IndexRange>& indices);
  bool Store(const SyntaxStatement& s, size_t k, Typed value, Statement& out);
  bool SettleType(const SyntaxStatement& s, size_t k, Typed value, Statement& out);
  void OrderReductions(const SyntaxStatement& s, Statement& out, size_t first_expr,
                       std::vector<IndexRange>& indices);
  bool MarkReductions(const SyntaxStatement& s, Statement& out,
                      const std::vector<IndexRange>& indices);
  // bind_access.cpp
  void CollectAccesses(const Statement& s, ExprId id, bool guarded, std::vector<Constraint>& out,
                       bool final);
  std::vector<Constraint> Constraints(const Statement& s, bool final);
  bool NeedsWideIndices(const std::vector<IndexRange>& indices, size_t first_expr) const;
  bool GrowHull(const SyntaxStatement& s, const Statement& out, TensorId target,
                const std::vector<IndexRange>& indices);

  // bind_def.cpp
  bool BindAll();
  bool Finish();
  bool CheckFinal();
  void Rebase();
  void ShiftIndex(Statement& s, size_t index, const Affine& by);
  ExprId FromAffine(const Affine& e, const Statement& s, Dtype dtype);
  bool Error(Location at, std::string what, std::string hint = "", Code code = Code::kInvalid);

  const Def& def_;
  const Sizes& sizes_;
  Diagnostics diagnostics_;
  Program program_;
  Scope scope_;
  ExprBinder exprs_;
  std::vector<State> states_;  // by tensor
  std::vector<std::vector<IndexRange>> ranges_;
  std::vector<std::vector<ExprId>> exists_;  // by statement: accesses that only bound indices
  std::vector<size_t> first_expr_;           // by statement
  std::vector<std::string> preconditions_;
  // Types guessed for tensors that are read before the statement that defines them (recurrences).
  std::map<int32_t, Dtype> guesses_;
  bool guessed_wrong_ = false;
};

}  // namespace weft::tc
