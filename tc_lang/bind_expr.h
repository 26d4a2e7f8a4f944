// Expressions of one statement: names resolved, types decided, casts made explicit.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tc_lang/callables.h"
#include "tc_lang/diagnostics.h"
#include "tc_lang/program.h"
#include "tc_lang/syntax.h"

namespace weft::tc {

// What a name of the def stands for.
struct Scope {
  std::map<std::string, TensorId, std::less<>> tensors;
  std::map<std::string, int64_t, std::less<>> sizes;   // known
  std::map<std::string, int32_t, std::less<>> params;  // left open
  std::vector<std::string> Names() const;
};

bool IsBuiltin(std::string_view name);
std::vector<std::string> BuiltinNames();

// A node and its type in the language: float16 is computed in float32 nodes, rounded when stored.
struct Typed {
  ExprId id;
  Dtype type = Dtype::kF32;
  // Read by a recurrence before the statement that settles its type: it fits anywhere and takes
  // the type of what it stands beside. The program is bound again once that type is known.
  bool open = false;
};

class ExprBinder {
 public:
  ExprBinder(Program& program, const Scope& scope, Callables& callables, Diagnostics& diagnostics)
      : program_(program), scope_(scope), callables_(callables), diagnostics_(diagnostics) {}

  // Forgets everything; from here on, `def` is what calls are made in.
  void Clear(const Def& def);
  void SetDef(const Def& def) { def_ = &def; }
  // What a call gives, computed by statements above this one.
  void SetCall(const SyntaxExpr& call, TensorId result) { calls_[&call] = result; }
  std::optional<Typed> Recursion(const SyntaxExpr& e, const Def& in);
  std::optional<TensorId> CallOf(const SyntaxExpr& e) const;

  // Starts a statement. Indices of the left first, then in order of appearance.
  void Begin(Dtype index_type);
  bool AddIndex(const std::string& name, Location at);  // false if the name means something else
  bool AddLet(const SyntaxClause& clause);
  // `j in a:b max n` with bounds that are read: j is a + an index from 0 to n.
  bool AddSegment(const SyntaxClause& clause);
  bool IsSegment(std::string_view name) const { return segments_.contains(name); }
  // Whether that index is still inside of the segment, whose length is checked.
  std::optional<Typed> SegmentGuard(const SyntaxClause& clause);
  // Unknown names become indices unless `closed`: then they are errors (bounds of ranges).
  std::optional<Typed> Bind(const SyntaxExpr& e, bool closed = false);
  std::optional<Typed> BindSubscript(const SyntaxExpr& e);
  // The same value in `dtype`: nothing, a literal of it, or a cast.
  ExprId Convert(Typed value, Dtype dtype);

  // within(value, 0, end), factor * value, a + b: at least as wide as `type`.
  Typed Checked(ExprId value, int64_t end, Dtype type);
  Typed Scaled(Typed value, int64_t factor);
  Typed Sum(Typed a, Typed b);

  const std::vector<std::string>& indices() const { return indices_; }
  bool HasRead(TensorId tensor) const { return read_.contains(tensor.index); }
  // Whether nothing has settled the type of a tensor yet; see Typed::open.
  void SetOpen(TensorId tensor) { open_.insert(tensor.index); }
  void Settle(TensorId tensor) { open_.erase(tensor.index); }
  bool IsOpen(TensorId tensor) const { return open_.contains(tensor.index); }
  const std::set<int32_t>& open_reads() const { return open_reads_; }
  // A cast that nobody wrote: where types meet.
  bool IsImplicit(ExprId id) const { return implicit_.contains(id.index); }
  Location At(ExprId id) const { return at_[static_cast<size_t>(id.index)]; }
  ExprId Add(Expr e, Location at);

 private:
  std::optional<Typed> Name(const SyntaxExpr& e);
  std::optional<Typed> Number(const SyntaxExpr& e, bool negative);
  std::optional<Typed> Unary(const SyntaxExpr& e);
  std::optional<Typed> Binary(const SyntaxExpr& e);
  std::optional<Typed> Select(const SyntaxExpr& e);
  std::optional<Typed> Cast(const SyntaxExpr& e, Dtype to);
  std::optional<Typed> Apply(const SyntaxExpr& e);
  std::optional<Typed> Read(Location at, std::span<const SyntaxExprPtr> subscripts,
                            TensorId tensor);
  std::optional<Typed> Call(const SyntaxExpr& e);
  std::optional<Typed> Function(const SyntaxExpr& e, ScalarOp op);
  std::optional<Typed> Segment(const SyntaxExpr& e, Typed offset);
  std::optional<Typed> SegmentBound(const SyntaxExpr& e);
  std::optional<Typed> Check(const SyntaxExpr& e);
  Typed Within(Typed value, Typed lo, Typed hi, Location at);
  Typed IntLiteral(int64_t value, Location at);
  std::optional<Typed> Element(const SyntaxExpr& e);
  std::optional<Typed> CallFunction(const SyntaxExpr& e, const Def& def);
  std::optional<Typed> UnknownApply(const SyntaxExpr& e);
  std::optional<Typed> Arithmetic(ScalarOp op, std::vector<Typed> args, Location at);
  std::optional<Typed> Error(Problem problem, Location at, std::string what, std::string hint = "");
  Typed Op(ScalarOp op, Dtype node, Dtype type, std::vector<ExprId> args, Location at);
  Typed FloatLiteral(double wide, float narrow, Location at);

  Program& program_;
  const Scope& scope_;
  Callables& callables_;
  Diagnostics& diagnostics_;
  std::vector<Location> at_;                  // of program_.exprs
  std::set<int32_t> implicit_;                // casts
  std::map<int32_t, double> float_literals_;  // as written: read again beside a float64
  std::vector<std::string> indices_;
  std::set<int32_t> read_;  // tensors, since the program was empty
  std::set<int32_t> open_, open_reads_;
  // Lets of the statement or, in the body of a function of scalars, its names alone.
  struct Frame;
  struct Let {
    const SyntaxExpr* value = nullptr;
    Frame* frame = nullptr;  // in which the value is bound
    std::optional<Dtype> type;
    Location declared;  // of the type
  };
  struct Frame {
    std::map<std::string, Let, std::less<>> lets;
    const Def* function = nullptr;
  };
  std::optional<Typed> BindLet(const SyntaxExpr& e, const Let& let);
  std::deque<Frame> frames_;  // of this statement
  Frame* frame_ = nullptr;
  std::vector<const Let*> open_lets_;  // being bound: a let can't use itself
  std::map<std::string, const SyntaxClause*, std::less<>> segments_;
  std::vector<const SyntaxClause*> open_segments_;  // whose bounds are being bound
  std::map<const SyntaxExpr*, TensorId> calls_;
  const Def* def_ = nullptr;
  Dtype index_type_ = Dtype::kI32;
  bool closed_ = false;
  int64_t nodes_ = 0;   // of this statement, lets written out
  int64_t visits_ = 0;  // as many, if nothing fails
};

}  // namespace weft::tc
