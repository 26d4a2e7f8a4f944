// tc::Program: the mathematics of a node or a group. The second noun.
//
// One def of a comprehension after checking and range inference: names are resolved, types are
// known, every index has its range. Sizes are integers, except for those named in `params`, which
// are known only at run time (the general path; at most the outermost extents of tensors). What may
// be computed in which order is not said here; the text order is the meaning (sequential value
// semantics).
//
// Text form (`.tc`): the language itself, docs/language.md, in canonical form: every range
// explicit, sizes as numbers. Print gives text that Parse + Bind turns back into an equal Program.
//
//   def conv1_relu1(float(1, 1, 28, 28) image, float(16, 1, 3, 3) w1, float(16) b1) -> (relu1) {
//     @convolution conv1(n, k, h, w) +=! (h+r-1 >= 0 && h+r-1 < 28 && w+s-1 >= 0 && w+s-1 < 28
//         ? image(n, c, h+r-1, w+s-1) * w1(k, c, r, s) : 0.0)
//         where n in 0:1, k in 0:16, h in 0:28, w in 0:28, c in 0:1, r in 0:3, s in 0:3  #
//         /conv1/Conv
//     @pointwise relu1(n, k, h, w) = max(conv1(n, k, h, w) + b1(k), 0.0) where …         #
//     /relu1/Relu
//   }
//
// Verify(): (1) ids in range, expression children before parents; (2) subscript counts match ranks
// and are integers; (3) inputs and constants are never written, each read of a temporary or output
// follows a write (itself at an earlier recurrence step included); (4) types follow the rules of
// the language; (5) `=` has no reduction index; (6) affine accesses that no condition guards stay
// inside their tensor over the whole range; (7) extents of outputs equal the hull of what is
// written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/dtype.h"
#include "base/id.h"
#include "base/scalar.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft::tc {

using TensorId = Id<struct TcTensorTag>;
using ExprId = Id<struct TcExprTag>;

enum class Role : uint8_t { kInput, kOutput, kTemporary, kLiteral };

// A tensor of the def. Extents are over the program's params (Var p = params[p]); mostly constants.
struct TensorDecl {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<Affine> extents;
  Role role = Role::kInput;
  Tensor literal;  // kLiteral
};

enum class ExprKind : uint8_t { kLiteral, kIndex, kParam, kRead, kOp, kCheck };

// One node of a statement's expression. `args` are operands (kOp), subscripts (kRead), or a value
// and what it may be, `within(value, lo, hi)` (kCheck): lo <= value < hi, or the run ends with an
// error.
struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  Dtype dtype = Dtype::kF32;
  ScalarOp op = ScalarOp::kAdd;  // kOp
  Scalar literal;                // kLiteral
  int32_t position = 0;          // kIndex: place in Statement::indices; kParam: place in params
  TensorId tensor;               // kRead
  std::vector<ExprId> args;
};

// lo <= index < hi, over params; mostly constants.
struct Index {
  std::string name;
  Affine lo, hi;
  bool reduction = false;  // does not occur on the left
};

enum class Assign : uint8_t { kSet, kSum, kProduct, kMin, kMax };
enum class Tag : uint8_t {
  kNone,
  kContraction,
  kConvolution,
  kReduction,
  kPointwise,
  kGather,
  kWindow,
  kCopy,
  kRecurrence
};

struct Statement {
  TensorId target;
  std::vector<ExprId> subscripts;  // of the target; mostly plain indices
  Assign assign = Assign::kSet;
  bool init = false;  // `!`: the target starts from the identity
  ExprId value;
  std::vector<Index> indices;  // those of the left first, in the order of the left; then reductions
  Dtype accumulate = Dtype::kF32;  // type in which a reduction is kept until it is stored
  // Tuple reductions, `(v(i), k(i)) max=! (A(i, j), j)` with kMin or kMax and init: where `value`
  // wins (the first one that is extreme), `companion_value` is what `companion` gets, at the same
  // subscripts.
  TensorId companion;  // invalid: none
  ExprId companion_value;
  Tag tag = Tag::kNone;
  std::string origin;  // ONNX nodes it stands for, "/conv1/Conv"; may be empty
};

struct Program {
  std::string name;
  std::vector<std::string> params;  // sizes known only at run time
  std::vector<TensorDecl> tensors;  // inputs in order, then outputs in order, then the rest
  std::vector<Expr> exprs;          // children before parents
  std::vector<Statement> statements;

  const TensorDecl& operator[](TensorId id) const { return tensors[id.index]; }
  const Expr& operator[](ExprId id) const { return exprs[id.index]; }
};

// Questions.
std::string_view TagName(Tag tag);  // "contraction"
std::optional<Tag> ParseTag(std::string_view name);
std::string_view AssignText(Assign assign);   // "=", "+=", …
Scalar Identity(Assign assign, Dtype dtype);  // of the reduction
bool IsIdentity(Assign assign, Dtype dtype, Scalar value);
std::vector<TensorId> Inputs(const Program& program);
std::vector<TensorId> Outputs(const Program& program);
// The expression as a quasi-affine function of the statement's indices (Var i = indices[i]) if it
// is one; params are not representable there, so an expression that uses them is not affine here.
std::optional<Affine> AsAffine(const Program& program, ExprId expr);
// Every read below `expr`, in order of occurrence.
std::vector<ExprId> Reads(const Program& program, ExprId expr);
// Every read of a statement: of its value, then of its companion's.
std::vector<ExprId> Reads(const Program& program, const Statement& statement);
// The condition under which `value` is not `otherwise`: a conjunction of affine constraints e >= 0
// over the statement's indices, when value is `cond ? x : literal` with such a condition. Padding
// shows so.
struct GuardedValue {
  std::vector<Affine> constraints;
  ExprId inside;  // x
  Scalar otherwise;
};
std::optional<GuardedValue> AsGuarded(const Program& program, ExprId value);
// The guard of what a reduction adds, if outside it that changes nothing: such points are none. Of
// a tuple one may be the first of those that are extreme.
std::optional<GuardedValue> AsGuardedUpdate(const Program& program, const Statement& statement);
// Operations of one run on floats, and of sums of integers (a multiply-add counts 2, a math
// function 1), and the bytes of all inputs and outputs, each once: of a table no more than what is
// looked up in it. Params count as 1.
int64_t Flops(const Program& program);
int64_t Flops(const Program& program, const Statement& statement);
int64_t OperandBytes(const Program& program);
std::optional<Shape> StaticExtents(const TensorDecl& tensor);

// Statements in the order of execution. Mostly each is a step of its own. Consecutive statements
// that feed each other through their common first index are one loop over it, in text order inside:
// a read of cells that no earlier statement has written closes the loop. An error names what is
// never written.
struct Step {
  size_t first = 0, last = 0;  // statements, both included; several: a loop over index 0 of each
};
Result<std::vector<Step>> Steps(const Program& program);
// Places in `indices` of those that a statement's recurrence ascends in: it reads its own target at
// strictly smaller values of them. Empty for most; an error if it reads itself at other cells.
Result<std::vector<int32_t>> RecurrenceIndices(const Program& program, const Statement& statement);
// What a statement is, as its accesses show it.
Tag Classify(const Program& program, const Statement& statement);
// Whether it is a contraction or a convolution, by its tag.
bool Contracts(const Statement& statement);
bool Reduces(const Statement& statement);  // along any index
// float(x) * float(y), of elements of type bfloat16.
bool IsBfloatProduct(const Program& program, ExprId value);
// As AsAffine, with param p as Var `statement indices + p`.
std::optional<Affine> AsAffineWithParams(const Program& program, const Statement& statement,
                                         ExprId expr);
std::optional<Affine> AsAffineWithParams(const Program& program, size_t indices, ExprId expr);

std::string Print(const Program& program);
Result<Program> Parse(std::string_view text, const std::string& file);  // one def in canonical form
Status Verify(const Program& program);
bool Equal(const Program& a, const Program& b);  // up to nothing: names count
bool Equal(const Program& a, ExprId of_a, const Program& b, ExprId of_b);
// The program with tensors, indices and params renamed by first use, provenance dropped and tags as
// the accesses show them; every tensor keeps its id.
Program Canonical(const Program& program);
// Its text without tags: programs that compute the same have the same one. Keys of caches and of
// candidates.
std::string CanonicalText(const Program& program);

}  // namespace weft::tc
