// The binder's state over one def; Bind and Infer are two views of what it finds.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tc_lang/bind.h"
#include "tc_lang/bind_expr.h"
#include "tc_lang/callables.h"
#include "tc_lang/ranges.h"

namespace weft::tc {

class DefBinder {
 public:
  DefBinder(const Def& def, const Sizes& sizes, std::span<const Def> defs);

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
    std::vector<int64_t> strides;  // of an input that is not dense
    int64_t cells = 0;             // from its first element to its last, then
    bool wide = false;             // and whether offsets to these leave int32
  };

  // A def that is being bound: the one asked for, or one that is called.
  struct Frame {
    const Def* def = nullptr;
    Scope scope;
    std::set<int32_t> arguments;              // tensors of the caller, which are only read
    std::map<std::string, TensorId> results;  // outputs that are tensors of the caller
    std::map<std::string, std::pair<Affine, std::string>> sizes;  // and who says so
    size_t first_statement = 0;
  };

  // bind_call.cpp
  bool BindCall(const SyntaxStatement& s, const Def& callee);
  bool HoistCalls(const SyntaxExpr& e);
  bool HoistCallsBelow(const SyntaxExpr& e);
  bool HoistCalls(const SyntaxStatement& s);
  bool Call(const SyntaxExpr& e, const Def& callee, const std::vector<TensorId>& targets);
  bool Argument(const SyntaxExpr& arg, const SyntaxParam& param, Frame& frame);
  std::optional<TensorId> TensorArgument(const SyntaxExpr& arg, const SyntaxParam& param);
  std::optional<TensorId> ScalarArgument(const SyntaxExpr& arg, const SyntaxParam& param);
  bool SizeArgument(const SyntaxExpr& arg, const SyntaxParam& param, Frame& frame);
  bool MatchExtents(const SyntaxExpr& arg, const SyntaxParam& param, TensorId tensor, Frame& frame);
  bool SetSize(const SyntaxExpr& arg, const SyntaxExpr& dim, const Affine& value,
               const std::string& source, Frame& frame);
  bool Enter(Frame frame, Location at);
  TensorId AddTemporary(const std::string& wanted, size_t rank, std::optional<Dtype> dtype);
  std::string UniqueName(const std::string& wanted);
  void RenameIndices();

  // bind_declare.cpp
  bool Declare();
  bool DeclareBody();
  bool DeclareSize(const SyntaxParam& param, const SyntaxExpr* dim);
  bool DeclareInput(const SyntaxParam& param);
  bool DeclareOutputs();
  bool DeclareConst(const SyntaxConst& c);
  bool DeclareTemporaries();
  bool AddName(const std::string& name, TensorId tensor, Location at);
  TensorId PushTensor(TensorDecl decl, State state);
  bool AddTensor(TensorDecl decl, Location at, const SyntaxParam* declared);
  std::optional<Affine> Dim(const SyntaxExpr& dim);
  bool CheckAnnotation(size_t tensor);

  // bind_strides.cpp
  bool SetStrides(const SyntaxParam& param, const TensorDecl& decl, State& state);
  bool IsWide(TensorId tensor) const;
  void Flatten();
  ExprId FlatSubscript(const Statement& s, const Expr& read, Dtype index_type);

  // bind_scatter.cpp
  bool GatherScatters();
  bool GatherScatter(Statement& s, Location at);
  void Renumber(const Statement& s, const std::vector<int32_t>& place);

  // bind_statement.cpp
  bool BindStatement(const SyntaxStatement& s);
  bool BindPlain(const SyntaxStatement& s);
  void AddStatement(Statement s, Location at, size_t first_expr, Dtype index_type);
  bool BindParts(const SyntaxStatement& s, Statement& out, Dtype index_type);
  bool BindTargets(const SyntaxStatement& s, Statement& out);
  bool AffineBound(Location at, Typed e, const Statement& out);
  bool BindClauses(const SyntaxStatement& s, Statement& out, std::vector<IndexRange>& indices,
                   std::vector<ExprId>& guards);
  bool BindSegments(const SyntaxStatement& s, const Statement& out, std::vector<ExprId>& guards);
  ExprId Masked(ExprId holds, const Statement& s, Location at);
  bool Store(const SyntaxStatement& s, size_t k, Typed value, Statement& out);
  void SetType(TensorId id, Dtype type);
  bool SettleType(const SyntaxStatement& s, size_t k, Typed value, Statement& out);
  void OrderReductions(const SyntaxStatement& s, Statement& out, size_t first_expr,
                       std::vector<IndexRange>& indices);
  bool MarkReductions(const SyntaxStatement& s, Statement& out,
                      const std::vector<IndexRange>& indices);
  // bind_access.cpp
  void CollectAccesses(const Statement& s, ExprId id, bool guarded, std::vector<Constraint>& out,
                       bool final);
  std::vector<Constraint> Constraints(const Statement& s, bool final);
  bool MixesWidths(const Expr& e, const std::vector<std::optional<Interval>>& bounds,
                   size_t first_expr) const;
  bool NeedsWideIndices(const std::vector<IndexRange>& indices, size_t first_expr) const;
  bool GrowHull(const SyntaxStatement& s, const Statement& out, TensorId target,
                const std::vector<IndexRange>& indices);

  // bind_def.cpp
  bool BindAll();
  bool Finish();
  bool FinishTensors(const std::vector<size_t>& tensors);
  bool CheckSpans();
  bool TooLarge(std::string_view what);
  bool CheckFinal(size_t first);
  void Rebase(size_t first);
  void ShiftIndex(Statement& s, size_t index, const Affine& by);
  ExprId FromAffine(const Affine& e, const Statement& s, Dtype dtype);
  bool Error(Problem problem, Location at, std::string what, std::string hint = "",
             Code code = Code::kInvalid);

  const Def& root_;
  const Def* def_;  // of the frame
  const Sizes& sizes_;
  Callables callables_;
  Diagnostics diagnostics_;
  Program program_;
  Scope scope_;             // of the frame
  Frame* frame_ = nullptr;  // none: the def asked for
  int32_t depth_ = 0;       // of calls
  bool called_ = false;
  std::set<std::string> names_;  // of the program's tensors and params
  std::map<std::string, int> name_counts_;
  ExprBinder exprs_;
  std::vector<State> states_;  // by tensor
  std::vector<std::vector<IndexRange>> ranges_;
  std::vector<std::vector<ExprId>> exists_;  // by statement: accesses that only bound indices
  std::vector<size_t> first_expr_;           // by statement
  std::vector<Dtype> index_types_;           // by statement
  std::vector<Location> at_;                 // by statement
  std::vector<bool> rebased_;                // by statement: of a call, 0-based already
  std::vector<std::string> preconditions_;
  std::set<int32_t> segment_guards_;  // what they guard bounds indices like any loop does
  // Types found in earlier attempts, for tensors that a recurrence reads before the statement that
  // defines them.
  std::map<int32_t, Dtype> guesses_;
  bool guessed_wrong_ = false;
};

}  // namespace weft::tc
