// The rules of the header, each with a message that names the statement.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/loops/ranges.h"

namespace weft::loops {
namespace {

// What no nest needs, so that what is computed of a nest stays far from 64 bits, from the end of a
// stack, and from hours of compiling.
constexpr int64_t kFar = int64_t{1} << 56;       // of offsets in bytes, and bounds of loops
constexpr int64_t kFarthest = int64_t{1} << 62;  // of any number: limits of a let that never holds
constexpr int64_t kMostCoefficient = int64_t{1} << 40;
constexpr int64_t kMostStep = int64_t{1} << 40;
constexpr int64_t kMostLocalBytes = int64_t{1} << 40;
constexpr int64_t kMostRegisterBytes = int64_t{1} << 18;
constexpr int64_t kMostTasks = int64_t{1} << 46;   // of a band of parallel loops
constexpr int64_t kMostRounds = int64_t{1} << 24;  // of the loops around a barrier
constexpr int64_t kMostCopies = int64_t{1} << 16;  // of statements, by unrolling
constexpr int32_t kMostDepth = 4096;               // of an expression

int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// The operand and result types of an operation.
bool TypesAgree(const LoopNest& nest, const Expr& e) {
  const auto type = [&](size_t i) { return nest[e.args[i]].dtype; };
  const bool select = e.op == ScalarOp::kSelect;
  if (e.op == ScalarOp::kFmaFlush) {
    return type(0) == Dtype::kBF16 && type(1) == Dtype::kBF16 && type(2) == Dtype::kF32 &&
           e.dtype == Dtype::kF32;
  }
  if (e.op == ScalarOp::kPick) {
    const auto single = [&](ExprId arg) {
      return nest[arg].kind == ExprKind::kLiteral && nest[arg].dtype == Dtype::kF32;
    };
    return type(0) == Dtype::kI32 && e.dtype == Dtype::kF32 &&
           std::all_of(e.args.begin() + 1, e.args.end(), single);
  }
  if (e.op == ScalarOp::kAddFlush && e.dtype != Dtype::kF32) return false;
  for (size_t i = select ? 2 : 1; i < e.args.size(); ++i) {
    if (type(i) != type(select ? 1 : 0)) return false;
  }
  const Dtype t = type(0);
  const bool moves =
      e.op == ScalarOp::kSelect || e.op == ScalarOp::kCast || e.op == ScalarOp::kBitcast;
  if (SharesBytes(t) && !moves) return false;  // four bits are moved and converted only
  switch (e.op) {
    case ScalarOp::kSelect:
      return t == Dtype::kBool && e.dtype == type(1);
    case ScalarOp::kCast:
      return true;
    case ScalarOp::kBitcast:
      return Bits(t) == Bits(e.dtype) && t != Dtype::kBool && e.dtype != Dtype::kBool;
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNot:
      return t == Dtype::kBool && e.dtype == t;
    case ScalarOp::kIsNan:
      return IsFloat(t) && e.dtype == Dtype::kBool;
    case ScalarOp::kMin:
    case ScalarOp::kMax:
      return e.dtype == t;
    case ScalarOp::kBitAnd:
    case ScalarOp::kBitOr:
    case ScalarOp::kBitXor:
    case ScalarOp::kBitNot:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return IsInteger(t) && e.dtype == t;
    case ScalarOp::kSqrt:
      return IsFloat(t) && e.dtype == t;
    case ScalarOp::kLdexp:
      return (t == Dtype::kF32 || t == Dtype::kF64) && e.dtype == t;
    default:
      break;
  }
  return IsCompare(e.op) ? e.dtype == Dtype::kBool : t != Dtype::kBool && e.dtype == t;
}

class Verifier {
 public:
  explicit Verifier(const LoopNest& nest) : nest_(nest), ranges_(nest), seen_(nest.stmts.size()) {}

  Status Run() {
    if (nest_.params < 0 || nest_.params > static_cast<int32_t>(nest_.vars.size()))
      return Bad("params");
    bool locals = false;
    int64_t local_bytes = 0, register_bytes = 0;
    for (const Buffer& b : nest_.buffers) {
      locals |= b.access == Access::kLocal;
      if (locals && b.access != Access::kLocal)
        return Bad(fmt::format("operand {} after a local", b.name));
      WEFT_TRY(CheckBuffer(b));
      const int64_t bytes = Times(SomeElems(b), SizeBytes(b.dtype));
      if (bytes > (locals ? kMostLocalBytes : kFar))
        return Bad(fmt::format("buffer {}: too large", b.name));
      if (!locals) continue;
      (b.space == Space::kRegister ? register_bytes : local_bytes) += bytes;
      if (local_bytes > kMostLocalBytes || register_bytes > kMostRegisterBytes)
        return Bad(fmt::format("buffers up to {}: {} bytes of scratch and {} of registers", b.name,
                               local_bytes, register_bytes));
    }
    std::vector<int32_t> depths;
    for (size_t i = 0; i < nest_.exprs.size(); ++i) {
      WEFT_TRY(CheckExpr(i));
      int32_t depth = 0;
      for (ExprId arg : nest_.exprs[i].args) depth = std::max(depth, depths[arg.index]);
      depths.push_back(depth + 1);
      if (depth >= kMostDepth) return Bad(fmt::format("expression {}: deeper than {}", i, depth));
    }
    for (const Stmt& s : nest_.stmts)
      if (s.kind == StmtKind::kFor && s.loop == LoopKind::kThreadX)
        threads_x_ = std::max(threads_x_, ConstantTrip(s));
    WEFT_TRY(CheckBody(nest_.body));
    return CheckLaunches();
  }

 private:
  Status Bad(std::string what) const {
    return Internal(fmt::format("nest {}: {}", nest_.name, what));
  }

  // As many as are stored, or would be if no extent were 0: strides are computed even then.
  static int64_t SomeElems(const Buffer& b) {
    std::vector<int64_t> shape = StoredShape(b);
    for (int64_t& extent : shape) extent = std::max<int64_t>(1, extent);
    return AllocElems(b.layout, shape);
  }

  std::string Text(const Affine& e) const {
    return e.Print([this](Var v) {
      return v >= 0 && v < static_cast<Var>(nest_.vars.size()) ? nest_.vars[v]
                                                               : fmt::format("?{}", v);
    });
  }

  Status CheckBuffer(const Buffer& b) const {
    const auto bad = [&](std::string_view what) {
      return Bad(fmt::format("buffer {}: {}", b.name, what));
    };
    if ((b.space == Space::kGlobal) == (b.access == Access::kLocal))
      return bad("operands are global, and only they");
    if (b.dtype == Dtype::kString || IsCode(b.dtype))
      return bad(fmt::format("{} has no kernels", DtypeName(b.dtype)));
    if (b.layout.rank() != b.shape.size()) return bad("rank of layout and shape differ");
    if (!b.fold.empty() && b.fold.size() != b.shape.size())
      return bad("rank of fold and shape differ");
    if (!b.fold.empty() && b.space == Space::kGlobal) return bad("operands are stored whole");
    if (std::ranges::any_of(b.fold, [](int64_t window) { return window < 0; }))
      return bad("negative fold");
    if (b.align_bytes < 0 || (b.align_bytes & (b.align_bytes - 1)) != 0)
      return bad("alignment is no power of two");
    if (b.align_bytes > kOperandAlign)
      return bad(fmt::format("alignment of {}, at most {} is kept", b.align_bytes, kOperandAlign));
    if (b.space == Space::kCluster && !HasSlices(b))
      return bad(fmt::format("in cluster space the outermost extent, in one piece, is 2 to {}",
                             kMostCluster));
    for (size_t axis = 0; axis < b.shape.size(); ++axis) {
      if (!IsSmall(b.shape[axis])) return bad("too large numbers");
      if (b.shape[axis].IsConstant()) {
        if (b.shape[axis].constant() < 0) return bad("negative extent");
        continue;
      }
      if (axis != 0 || b.layout.axes[0].axis != 0)
        return bad("only the outermost extent may be a param");
      if (b.space != Space::kGlobal) return bad("scratch has constant extents");
      std::vector<Var> used;
      b.shape[axis].CollectVars(used);
      for (Var v : used) {
        if (v < 0 || v >= nest_.params) return bad("an extent depends on a loop");
      }
    }
    return {};
  }

  // Whether each block of a cluster can have a part in one piece.
  static bool HasSlices(const Buffer& b) {
    const auto is_outermost = [](const Layout::Axis& a) { return a.axis == 0; };
    return !b.shape.empty() && b.shape[0].IsConstant() && IsCluster(b.shape[0].constant()) &&
           is_outermost(b.layout.axes[0]) &&
           std::ranges::count_if(b.layout.axes, is_outermost) == 1 &&
           (b.fold.empty() || b.fold[0] == 0);
  }

  static bool IsCluster(int64_t blocks) { return blocks >= 2 && blocks <= kMostCluster; }

  Status CheckExpr(size_t id) const {
    const Expr& e = nest_.exprs[id];
    if (e.kind == ExprKind::kLoad) {
      if (!Valid(e.buffer)) return Bad(fmt::format("expression {}: no such buffer", id));
      if (e.dtype != nest_[e.buffer].dtype)
        return Bad(fmt::format("expression {}: type of the load", id));
    }
    if (e.kind == ExprKind::kAffine && e.index.size() != 1)
      return Bad(fmt::format("expression {}: one index", id));
    if (e.kind != ExprKind::kOp) return {};
    if (IsMath(e.op))
      return Bad(fmt::format("expression {}: {} is not a primitive", id, ScalarName(e.op)));
    if (static_cast<int32_t>(e.args.size()) != ScalarArity(e.op))
      return Bad(fmt::format("expression {}: arity", id));
    for (ExprId arg : e.args) {
      if (!arg.valid() || arg.index >= static_cast<int32_t>(id)) {
        return Bad(fmt::format("expression {}: parts come before the whole", id));
      }
    }
    if (!TypesAgree(nest_, e)) {
      return Bad(fmt::format("expression {}: types of {}", id, ScalarName(e.op)));
    }
    return {};
  }

  bool Valid(BufferId id) const {
    return id.valid() && id.index < static_cast<int32_t>(nest_.buffers.size());
  }

  Status CheckVars(const std::vector<Affine>& list) const {
    std::vector<Var> used;
    for (const Affine& e : list) {
      used.clear();
      e.CollectVars(used);
      for (Var v : used) {
        if (v < 0 || !ranges_.IsBound(v))
          return Bad(fmt::format("{} uses a variable that is not bound", Text(e)));
      }
      if (!IsSmall(e)) return Bad(fmt::format("{} has too large numbers", Text(e)));
    }
    return {};
  }

  bool IsOfParams(const Affine& e) const {
    std::vector<Var> used;
    e.CollectVars(used);
    return !used.empty() &&
           std::ranges::all_of(used, [&](Var v) { return v >= 0 && v < nest_.params; });
  }

  static bool IsSmall(const Affine& e) {
    return e.constant() >= -kFarthest && e.constant() <= kFarthest &&
           std::ranges::all_of(e.terms(), [](const Affine::Term& t) {
             return t.coefficient >= -kMostCoefficient && t.coefficient <= kMostCoefficient &&
                    t.divisor <= kMostCoefficient && (!t.dividend || IsSmall(*t.dividend));
           });
  }

  // Bounds of a loop: what is added to its counter stays a number.
  Status CheckBounds(const std::vector<Affine>& bounds) const {
    if (nest_.params > 0) return {};  // no plan has such: what its caller gives decides
    for (const Affine& e : bounds) {
      const Interval range = ranges_.Of(e);
      if (!range.empty() && (range.lo < -kFar || range.hi > kFar))
        return Bad(fmt::format("a loop to {}, which may be {} to {}", Text(e), range.lo, range.hi));
    }
    return {};
  }

  bool HoldsBarrier(const std::vector<StmtId>& body) const {
    return std::ranges::any_of(body, [&](StmtId id) {
      if (!id.valid() || id.index >= static_cast<int32_t>(nest_.stmts.size())) return false;
      const Stmt& s = nest_[id];
      return s.kind == StmtKind::kBarrier || HoldsBarrier(s.body) || HoldsBarrier(s.otherwise);
    });
  }

  Status CheckBody(const std::vector<StmtId>& body, bool directly = false) {
    for (StmtId id : body) {
      if (!id.valid() || id.index >= static_cast<int32_t>(nest_.stmts.size()))
        return Bad("no such statement");
      if (seen_[id.index]) return Bad(fmt::format("statement {} stands in two places", id.index));
      seen_[id.index] = true;
    }
    size_t lets = 0;
    for (StmtId id : body) {
      direct_ = directly && body.size() == 1;
      WEFT_TRY(CheckStmt(nest_[id]));
      lets += nest_[id].kind == StmtKind::kLet;
    }
    for (size_t i = body.size(); lets > 0; --i) {  // a let holds to the end of its block
      const Stmt& s = nest_[body[i - 1]];
      if (s.kind != StmtKind::kLet) continue;
      ranges_.Pop(s);
      varying_.pop_back();
      --lets;
    }
    return {};
  }

  Status CheckStmt(const Stmt& s) {
    if (vector_ && s.kind != StmtKind::kStore && s.kind != StmtKind::kLet &&
        s.kind != StmtKind::kIf && !(s.kind == StmtKind::kFor && s.loop == LoopKind::kUnroll)) {
      return Bad("a vector loop holds stores, lets, ifs and unrolled loops only");
    }
    switch (s.kind) {
      case StmtKind::kFor:
        return CheckLoop(s);
      case StmtKind::kIf:
        return CheckIf(s);
      case StmtKind::kStore:
        return CheckStore(s);
      case StmtKind::kLet:
        return CheckLet(s);
      case StmtKind::kBarrier:
        return CheckBarrier(s);
      case StmtKind::kMark:
        return CheckBody(s.body);
      case StmtKind::kPrefetch:
        return CheckPrefetch(s);
      case StmtKind::kSingle: {
        if (parallel_) return Bad("single inside a parallel loop");
        const bool single = std::exchange(single_, true), uniform = std::exchange(uniform_, false);
        const Status status = CheckBody(s.body);
        single_ = single;
        uniform_ = uniform;
        return status;
      }
    }
    return Bad("unknown statement");
  }

  Status CheckBarrier(const Stmt& s) {
    if (!uniform_ || parallel_) return Bad("a barrier that not all may reach");
    if (!s.cluster) return {};
    if (cluster_ == nullptr) return Bad("a barrier of a cluster outside of cluster_x");
    if (in_threads_ || !together_)
      return Bad("a barrier of a cluster that not all of its threads may reach");
    begun_ = true;
    reads_ = false;
    return {};
  }

  // All clusters of a launch have one size, and its blocks no other place along x.
  Status CheckLaunches() const {
    int64_t cluster = 0;  // blocks of each; 0: none so far
    bool block_x = false;
    for (const StmtId part : nest_.body) {
      if (nest_[part].kind == StmtKind::kBarrier) cluster = 0, block_x = false;
      for (std::vector<StmtId> todo = {part}; !todo.empty();) {
        const Stmt& s = nest_[todo.back()];
        todo.pop_back();
        todo.insert(todo.end(), s.body.begin(), s.body.end());
        todo.insert(todo.end(), s.otherwise.begin(), s.otherwise.end());
        block_x |= s.loop == LoopKind::kBlockX;
        if (s.loop != LoopKind::kClusterX) continue;
        const int64_t before = std::exchange(cluster, ConstantTrip(s));
        if (before > 0 && before != cluster)
          return Bad(fmt::format("clusters of {} and {} blocks in one launch", before, cluster));
      }
      if (cluster > 0 && block_x) return Bad("block_x beside cluster_x in one launch");
    }
    return {};
  }

  bool Varies(const std::vector<Affine>& list) const {
    return std::ranges::any_of(list, [&](const Affine& e) {
      return std::ranges::any_of(varying_, [&](Var v) { return e.Uses(v); });
    });
  }

  Status CheckLoop(const Stmt& s) {
    WEFT_TRY(CheckVars(s.lo));
    WEFT_TRY(CheckVars(s.hi));
    if (s.lo.empty() || s.hi.empty() || s.step < 1 || s.step > kMostStep)
      return Bad("a loop needs bounds and a positive step");
    WEFT_TRY(CheckBounds(s.lo));
    WEFT_TRY(CheckBounds(s.hi));
    WEFT_TRY(CheckBinder(s));
    const bool fixed = s.loop == LoopKind::kVector || s.loop == LoopKind::kUnroll;
    const int64_t trip = ConstantTrip(s);
    if (fixed && trip < 0)
      return Bad(fmt::format("the trip count of {} is not constant", nest_.vars[s.var]));
    if (s.loop == LoopKind::kVector && trip > kMostLanes) return Bad(fmt::format("{} lanes", trip));
    WEFT_TRY(CheckParallel(s));
    WEFT_TRY(CheckCluster(s));
    const auto saved = std::tuple(vector_, parallel_, uniform_, stores_, warps_, tasks_, rounds_,
                                  copies_, cluster_, together_, in_threads_);
    if (s.loop == LoopKind::kParallel)
      tasks_ = Times(tasks_, std::max<int64_t>(1, ranges_.MostTrips(s)));
    if (s.loop == LoopKind::kUnroll) copies_ = Times(copies_, std::max<int64_t>(1, trip));
    if (!IsGrid(s.loop) && HoldsBarrier(s.body))
      rounds_ = Times(rounds_, std::max<int64_t>(1, ranges_.MostTrips(s)));
    if ((tasks_ > kMostTasks && nest_.params == 0) || copies_ > kMostCopies ||
        rounds_ > kMostRounds)
      return Bad(fmt::format("the loop over {} runs too often", nest_.vars[s.var]));
    warps_ |= s.loop == LoopKind::kThreadX && trip > 0 && trip % kWarp == 0;
    vector_ |= s.loop == LoopKind::kVector;
    parallel_ |= s.loop == LoopKind::kParallel;
    stores_ |= s.loop == LoopKind::kParallel || IsGrid(s.loop);
    in_threads_ |= IsThread(s.loop);
    uniform_ &= !vector_ && !Varies(s.lo) && !Varies(s.hi);
    together_ &= !DiffersInCluster(s.lo) && !DiffersInCluster(s.hi);
    const bool varies = s.loop == LoopKind::kParallel || IsThread(s.loop);
    const bool begun = begun_, reads = reads_;
    if (s.loop == LoopKind::kClusterX) cluster_ = &s, together_ = true, begun_ = reads_ = false;
    if (varies) varying_.push_back(s.var);
    if (fixed) fixed_.push_back(s.var);
    ranges_.Push(s);
    Status status = CheckBody(s.body, s.loop == LoopKind::kParallel);
    if (status.ok() && s.loop == LoopKind::kClusterX && reads_)
      status = Bad(
          "a block may end while another reads its slice: no barrier of the cluster comes behind");
    ranges_.Pop(s);
    if (fixed) fixed_.pop_back();
    if (varies) varying_.pop_back();
    std::tie(vector_, parallel_, uniform_, stores_, warps_, tasks_, rounds_, copies_, cluster_,
             together_, in_threads_) = saved;
    if (IsGrid(s.loop) || trip < 1) begun_ = begun, reads_ |= reads;  // it may not run
    return status;
  }

  bool DiffersInCluster(const std::vector<Affine>& list) const {
    return cluster_ != nullptr &&
           std::ranges::any_of(list, [&](const Affine& e) { return e.Uses(cluster_->var); });
  }

  Status CheckCluster(const Stmt& s) const {
    if (s.loop != LoopKind::kClusterX) return {};
    if (cluster_ != nullptr) return Bad("cluster_x inside of cluster_x");
    if (s.lo[0] != Affine(0) || s.step != 1 || !IsCluster(ConstantTrip(s)))
      return Bad(fmt::format("{} runs over the blocks of a cluster: from 0 by 1 to 2 … {}",
                             nest_.vars[s.var], kMostCluster));
    return {};
  }

  // Every rank takes a part of a range, so it must run all that is around it.
  Status CheckParallel(const Stmt& s) const {
    if (s.loop != LoopKind::kParallel) return {};
    if (single_) return Bad("a parallel loop inside single");
    if (parallel_ && !direct_) return Bad("a parallel loop inside another, but not directly");
    if (!uniform_ || Varies(s.lo) || Varies(s.hi)) {
      return Bad(fmt::format("ranks see different ranges of {}", nest_.vars[s.var]));
    }
    return {};
  }

  Status CheckBinder(const Stmt& s) const {
    if (s.var < nest_.params || s.var >= static_cast<Var>(nest_.vars.size()))
      return Bad("no such variable");
    if (ranges_.IsBound(s.var)) return Bad(fmt::format("{} is bound twice", nest_.vars[s.var]));
    return {};
  }

  Status CheckIf(const Stmt& s) {
    WEFT_TRY(CheckVars(s.conditions));
    const bool uniform = std::exchange(uniform_, uniform_ && !Varies(s.conditions));
    const bool together = std::exchange(together_, together_ && !DiffersInCluster(s.conditions));
    const bool begun = begun_, reads = reads_;
    ranges_.PushConstraints(s.conditions);
    Status status = CheckBody(s.body);
    ranges_.PopConstraints(s.conditions.size());
    const bool begun_there = std::exchange(begun_, begun),
               reads_there = std::exchange(reads_, reads);
    // Of the negation only a single condition is known to fail.
    std::vector<Affine> negated;
    if (s.conditions.size() == 1) negated.push_back(-s.conditions[0] - 1);
    ranges_.PushConstraints(negated);
    if (status.ok()) status = CheckBody(s.otherwise);
    ranges_.PopConstraints(negated.size());
    begun_ &= begun_there;
    reads_ |= reads_there;
    uniform_ = uniform;
    together_ = together;
    return status;
  }

  Status CheckLet(const Stmt& s) {
    if (s.lo.size() != 1 || s.hi.size() != 1) return Bad("a let has one range");
    if (!Valid(s.buffer)) return Bad("a let is for a buffer");
    WEFT_TRY(CheckVars(s.lo));
    WEFT_TRY(CheckVars(s.hi));
    WEFT_TRY(CheckValue(s.value));
    if (!IsInteger(nest_[s.value].dtype)) return Bad("a let names an integer");
    WEFT_TRY(CheckBinder(s));
    const std::optional<Affine> length = AddScaled(s.hi[0], s.lo[0], -1);
    const std::optional<Affine> more = length ? AddScaled(*length, 1, -1) : std::nullopt;
    // What is outside becomes the least inside.
    if (!more || !(ranges_.NonNegative(*more) || IsOfParams(*length)))
      return Bad(
          fmt::format("nothing may lie in the range {}:{} of a let", Text(s.lo[0]), Text(s.hi[0])));
    ranges_.Push(s);
    varying_.push_back(s.var);
    return {};
  }

  // Any place will do, since nothing is read; but it must be known.
  Status CheckPrefetch(const Stmt& s) {
    if (!Valid(s.buffer) || nest_[s.buffer].space != Space::kGlobal || s.index.size() != 1)
      return Bad("a prefetch names an operand and one offset");
    WEFT_TRY(CheckVars(s.index));
    const Interval at = ranges_.Of(s.index[0]);
    if (at.lo < -kFar || at.hi > kFar)
      return Bad(
          fmt::format("a prefetch of {} reaches {}", nest_[s.buffer].name, Text(s.index[0])));
    return {};
  }

  Status CheckStore(const Stmt& s) {
    if (!Valid(s.buffer)) return Bad("a store without a buffer");
    const Buffer& b = nest_[s.buffer];
    if (b.access == Access::kIn) return Bad(fmt::format("{} is an input and is written", b.name));
    const bool is_own = b.space == Space::kCache || b.space == Space::kRegister;
    if (!is_own && !stores_ && !single_) {
      return Bad(
          fmt::format("{} is written by every rank: outside of parallel and single", b.name));
    }
    if (b.space == Space::kGlobal && SharesBytes(b.dtype) && !single_) {
      return Bad(fmt::format(
          "{} has two elements a byte, which ranks would share: outside of single", b.name));
    }
    WEFT_TRY(CheckValue(s.value));
    if (nest_[s.value].dtype != b.dtype) {
      return Bad(fmt::format("{} holds {}, not {}", b.name, DtypeName(b.dtype),
                             DtypeName(nest_[s.value].dtype)));
    }
    if (s.across != 0) WEFT_TRY(CheckExchange(s));
    WEFT_TRY(CheckSlice(b, s.index, true));
    return CheckAccess(s.buffer, s.index);
  }

  // Whose slice of a buffer in cluster space is touched, and when.
  Status CheckSlice(const Buffer& b, const std::vector<Affine>& index, bool is_store) {
    if (b.space != Space::kCluster || index.empty()) return {};
    const auto bad = [&](std::string_view what) {
      return Bad(fmt::format("{}, in cluster space, {}", PrintName(b.name), what));
    };
    if (cluster_ == nullptr || b.shape[0] != Affine(ConstantTrip(*cluster_)))
      return bad("is not touched in a cluster_x loop of as many blocks");
    if (index[0] == Affine::OfVar(cluster_->var)) return {};
    if (is_store) return bad("is written by a block whose slice that is not");
    if (!begun_) return bad("is read of a block that may not have begun: no barrier comes before");
    reads_ = true;
    return {};
  }

  Status CheckExchange(const Stmt& s) const {
    const Buffer& b = nest_[s.buffer];
    const auto bad = [&](std::string_view what) {
      return Bad(fmt::format("an exchange into {} {}", PrintName(b.name), what));
    };
    if (s.across < 1 || s.across >= kWarp) return bad("with a thread of another warp");
    if (b.space != Space::kRegister && b.space != Space::kCache)
      return bad("which is no thread's own");
    if (SizeBytes(b.dtype) < 4) return bad("of less than 4 bytes");
    if (!warps_ || vector_ || single_ || threads_x_ % kWarp != 0)
      return bad("outside of a thread_x loop of whole warps");
    return uniform_ ? Status() : bad("that not all threads of a warp may reach");
  }

  // Shared parts are checked once for each statement.
  Status CheckValue(ExprId root) {
    if (!root.valid() || root.index >= static_cast<int32_t>(nest_.exprs.size()))
      return Bad("a statement without a value");
    std::vector<ExprId> todo = {root};
    std::set<ExprId> done;
    while (!todo.empty()) {
      const ExprId id = todo.back();
      todo.pop_back();
      if (!done.insert(id).second) continue;
      const Expr& e = nest_[id];
      todo.insert(todo.end(), e.args.begin(), e.args.end());
      WEFT_TRY(CheckVars(e.index));
      if (e.kind != ExprKind::kLoad) continue;
      WEFT_TRY(CheckVars(e.guards));
      WEFT_TRY(CheckSlice(nest_[e.buffer], e.index, false));
      ranges_.PushConstraints(e.guards);
      Status status = CheckAccess(e.buffer, e.index);
      ranges_.PopConstraints(e.guards.size());
      if (!status.ok()) return status;
    }
    return {};
  }

  // How far from 0 the variable or floor of a term gets, at least 1: what unrolling multiplies.
  int64_t Reach(const Affine::Term& term) const {
    const Interval range = ranges_.Of(term.dividend ? FloorDiv(*term.dividend, term.divisor)
                                                    : Affine::OfVar(term.var));
    if (range.empty() || nest_.params > 0) return 1;
    if (range.lo < -kFarthest || range.hi > kFarthest) return INT64_MAX;
    return std::max<int64_t>({1, std::abs(range.lo), std::abs(range.hi)});
  }

  Status CheckAccess(BufferId id, const std::vector<Affine>& index) const {
    const Buffer& b = nest_[id];
    if (index.size() != b.shape.size())
      return Bad(fmt::format("{} has {} axes, not {}", b.name, b.shape.size(), index.size()));
    WEFT_TRY(CheckVars(index));
    const int64_t elems = SomeElems(b);
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const Affine& e = index[axis];
      const int64_t extent = b.shape[axis].IsConstant() ? b.shape[axis].constant() : 1;
      const int64_t stride = elems / std::max<int64_t>(1, extent) + 1;
      for (const Affine::Term& term : e.terms())
        if (Times(Times(std::abs(term.coefficient), stride), Reach(term)) > kFar)
          return Bad(fmt::format("axis {} of {}: {} has too large numbers", axis, PrintName(b.name),
                                 Text(e)));
      const bool inside = ranges_.NonNegative(e) && ranges_.NonNegative(b.shape[axis] - 1 - e);
      if (!inside) {
        const Interval range = ranges_.Of(e);
        return Bad(fmt::format("axis {} of {}: {} is not shown to lie in 0:{} (found {}..{})", axis,
                               PrintName(b.name), Text(e), Text(b.shape[axis]), range.lo,
                               range.hi));
      }
      if (b.space != Space::kRegister) continue;
      std::vector<Var> used;
      e.CollectVars(used);
      for (Var v : used) {
        if (std::ranges::find(fixed_, v) != fixed_.end()) continue;
        return Bad(fmt::format("{} lies in registers: index {} is not constant after unrolling",
                               b.name, Text(e)));
      }
    }
    return {};
  }

  const LoopNest& nest_;
  Ranges ranges_;
  std::vector<bool> seen_;
  std::vector<Var> varying_;  // differ between ranks or threads
  std::vector<Var> fixed_;    // of unrolled and vector loops
  bool vector_ = false, parallel_ = false, single_ = false, uniform_ = true;
  bool direct_ = false;            // the statement is all that a parallel loop holds
  bool stores_ = false;            // inside a parallel or grid loop
  bool warps_ = false;             // inside a thread_x loop of whole warps
  const Stmt* cluster_ = nullptr;  // the cluster_x loop around
  bool in_threads_ = false;        // inside a thread loop
  bool together_ = true;           // all blocks of the cluster come here alike
  bool begun_ = false;             // all of them have begun
  bool reads_ = false;             // others' slices since the last barrier of the cluster
  int64_t threads_x_ = 0;
  int64_t tasks_ = 1, rounds_ = 1, copies_ = 1;
};

}  // namespace

Status Verify(const LoopNest& nest) { return Verifier(nest).Run(); }

Result<LoopNest> Read(std::string_view text, const std::string& file) {
  WEFT_TRY(LoopNest nest, Parse(text, file));
  if (Status status = Verify(nest); !status.ok()) return Invalid(status.what()).At(file);
  return nest;
}

}  // namespace weft::loops
