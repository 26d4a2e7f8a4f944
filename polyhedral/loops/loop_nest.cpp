#include "polyhedral/loops/loop_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"
#include "polyhedral/loops/math.h"

namespace weft::loops {
namespace {

constexpr int64_t kScratchAlign = 64;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

int64_t ScratchBytes(const LoopNest& nest, Space space, size_t end) {
  int64_t bytes = 0;
  for (size_t i = 0; i < end; ++i) {
    const Buffer& b = nest.buffers[i];
    if (b.space == space)
      bytes += RoundUp(AllocElems(b.layout, StoredShape(b)) * SizeBytes(b.dtype));
  }
  return bytes;
}

// x^n on integers by squaring; the bits of n decide which squares take part.
ExprId IntegerPow(LoopNest& nest, Dtype dtype, ExprId x, ExprId n) {
  const auto literal = [&](int64_t v) { return AddLiteral(nest, dtype, static_cast<double>(v)); };
  const auto op = [&](ScalarOp o, ExprId a, ExprId b) { return AddOp(nest, o, dtype, {a, b}); };
  const auto is = [&](ScalarOp o, ExprId a, ExprId b) {
    return AddOp(nest, o, Dtype::kBool, {a, b});
  };
  const auto select = [&](ExprId c, ExprId a, ExprId b) {
    return AddOp(nest, ScalarOp::kSelect, dtype, {c, a, b});
  };
  const ExprId zero = literal(0), one = literal(1);
  ExprId result = one, power = x;
  for (int64_t bit = 0; bit < Bits(dtype); ++bit) {
    const ExprId set = op(ScalarOp::kBitAnd, op(ScalarOp::kShr, n, literal(bit)), one);
    result = select(is(ScalarOp::kNe, set, zero), op(ScalarOp::kMul, result, power), result);
    power = op(ScalarOp::kMul, power, power);
  }
  if (KindOf(dtype) != DtypeKind::kSigned) return result;
  // 1 / x^-n is 0 but for x = 1 and x = -1.
  const ExprId minus = literal(-1);
  const ExprId odd = is(ScalarOp::kNe, op(ScalarOp::kBitAnd, n, one), zero);
  const ExprId sign = select(is(ScalarOp::kEq, x, minus), select(odd, minus, one), zero);
  const ExprId inverse = select(is(ScalarOp::kEq, x, one), one, sign);
  return select(is(ScalarOp::kLt, n, zero), inverse, result);
}

// Math in a type that has none of its own: f32 for 16 bits, f64 for integers.
ExprId ExpandIn(LoopNest& nest, Dtype wide, ScalarOp op, Dtype dtype, std::vector<ExprId> args) {
  for (ExprId& arg : args) arg = AddOp(nest, ScalarOp::kCast, wide, {arg});
  return AddOp(nest, ScalarOp::kCast, dtype, {ExpandMath(nest, op, wide, args)});
}

template <typename F>
std::string Unique(std::string name, const F& taken) {
  std::string unique = name;
  for (int suffix = 1; taken(unique); ++suffix) unique = fmt::format("{}_{}", name, suffix);
  return unique;
}

}  // namespace

Var AddVar(LoopNest& nest, std::string name) {
  const auto taken = [&](const std::string& n) { return std::ranges::count(nest.vars, n) > 0; };
  nest.vars.push_back(Unique(std::move(name), taken));
  return static_cast<Var>(nest.vars.size() - 1);
}

LoopNest Nameless(LoopNest nest) {
  nest.name = "f";
  nest.origins.clear();
  for (size_t v = 0; v < nest.vars.size(); ++v) nest.vars[v] = fmt::format("v{}", v);
  for (size_t b = 0; b < nest.buffers.size(); ++b) nest.buffers[b].name = fmt::format("b{}", b);
  for (Stmt& stmt : nest.stmts) stmt.label.clear();
  return nest;
}

BufferId AddBuffer(LoopNest& nest, Buffer buffer) {
  const auto taken = [&](const std::string& n) {
    return std::ranges::count(nest.buffers, n, &Buffer::name) > 0;
  };
  buffer.name = Unique(std::move(buffer.name), taken);
  nest.buffers.push_back(std::move(buffer));
  return BufferId(nest.buffers.size() - 1);
}

namespace {

ExprId AddExpr(LoopNest& nest, Expr expr) {
  nest.exprs.push_back(std::move(expr));
  return ExprId(nest.exprs.size() - 1);
}

}  // namespace

ExprId AddLiteral(LoopNest& nest, Dtype dtype, double value) {
  return AddExpr(nest,
                 {.kind = ExprKind::kLiteral, .dtype = dtype, .literal = ScalarOf(dtype, value)});
}

ExprId AddAffine(LoopNest& nest, Dtype dtype, Affine value) {
  return AddExpr(nest, {.kind = ExprKind::kAffine, .dtype = dtype, .index = {std::move(value)}});
}

ExprId AddLoad(LoopNest& nest, BufferId buffer, std::vector<Affine> index,
               std::vector<Affine> guards) {
  return AddExpr(nest, {.kind = ExprKind::kLoad,
                        .dtype = nest[buffer].dtype,
                        .buffer = buffer,
                        .index = std::move(index),
                        .guards = std::move(guards)});
}

ExprId AddOp(LoopNest& nest, ScalarOp op, Dtype dtype, std::vector<ExprId> args) {
  if (op == ScalarOp::kIntPow) return IntegerPow(nest, dtype, args[0], args[1]);
  if (IsMath(op)) {
    if (dtype == Dtype::kF32 || dtype == Dtype::kF64) return ExpandMath(nest, op, dtype, args);
    if (IsHalf(dtype)) return ExpandIn(nest, Dtype::kF32, op, dtype, std::move(args));
    return ExpandIn(nest, Dtype::kF64, op, dtype, std::move(args));
  }
  return AddExpr(nest, {.kind = ExprKind::kOp, .dtype = dtype, .op = op, .args = std::move(args)});
}

void ShareOperations(LoopNest& nest) {
  const auto key = [](const Expr& e, std::vector<ExprId> args) {
    return std::tuple(e.kind, e.dtype, e.op, e.literal.i, e.buffer, e.index, e.guards,
                      std::move(args));
  };
  std::vector<ExprId> first;  // the first expression equal to each, operands before
  std::map<decltype(key(Expr{}, {})), ExprId> known;
  const auto share = [&](ExprId& id) {
    if (nest[first[id.index]].kind == ExprKind::kOp) id = first[id.index];
  };
  for (size_t i = 0; i < nest.exprs.size(); ++i) {
    Expr& e = nest.exprs[i];
    std::vector<ExprId> args;
    for (const ExprId arg : e.args) args.push_back(first[arg.index]);
    first.push_back(known.try_emplace(key(e, std::move(args)), ExprId(i)).first->second);
    std::ranges::for_each(e.args, share);
  }
  for (Stmt& s : nest.stmts)
    if (s.value.valid()) share(s.value);
}

StmtId AddStmt(LoopNest& nest, Stmt stmt) {
  nest.stmts.push_back(std::move(stmt));
  return StmtId(nest.stmts.size() - 1);
}

std::vector<BufferId> Operands(const LoopNest& nest) {
  std::vector<BufferId> operands;
  for (size_t i = 0; i < nest.buffers.size(); ++i) {
    if (nest.buffers[i].access != Access::kLocal) operands.push_back(BufferId(i));
  }
  return operands;
}

int64_t RankScratchBytes(const LoopNest& nest) {
  return ScratchBytes(nest, Space::kCache, nest.buffers.size());
}

int64_t TeamScratchBytes(const LoopNest& nest) {
  return ScratchBytes(nest, Space::kShared, nest.buffers.size());
}

int64_t ScratchOffset(const LoopNest& nest, BufferId id) {
  return ScratchBytes(nest, nest[id].space, static_cast<size_t>(id.index));
}

int64_t BufferBytes(const Buffer& buffer, const std::vector<int64_t>& params) {
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < buffer.shape.size(); ++axis) {
    const int64_t window = axis < buffer.fold.size() ? buffer.fold[axis] : 0;
    shape.push_back(window > 0 ? window : buffer.shape[axis].Eval(params));
  }
  const int64_t elems = AllocElems(buffer.layout, shape);
  return buffer.space == Space::kGlobal ? StorageBytes(buffer.dtype, elems)
                                        : elems * SizeBytes(buffer.dtype);
}

std::vector<int64_t> StoredShape(const Buffer& buffer) {
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < buffer.shape.size(); ++axis) {
    const int64_t window = axis < buffer.fold.size() ? buffer.fold[axis] : 0;
    const Affine& extent = buffer.shape[axis];
    shape.push_back(window > 0 ? window : extent.IsConstant() ? extent.constant() : 1);
  }
  return shape;
}

Affine ElementOffset(const Buffer& buffer, const std::vector<Affine>& index) {
  std::vector<Affine> stored = index;
  for (size_t axis = 0; axis < buffer.fold.size(); ++axis) {
    if (buffer.fold[axis] > 0) stored[axis] = Mod(stored[axis], buffer.fold[axis]);
  }
  return OffsetOf(buffer.layout, StoredShape(buffer), stored);
}

Buffer SliceOf(Buffer buffer) {
  if (buffer.space == Space::kCluster) buffer.shape[0] = 1;
  return buffer;
}

std::vector<StmtId> ParallelBand(const LoopNest& nest, StmtId outermost) {
  std::vector<StmtId> band = {outermost};
  const auto is_parallel = [&](StmtId id) {
    return nest[id].kind == StmtKind::kFor && nest[id].loop == LoopKind::kParallel;
  };
  while (nest[band.back()].body.size() == 1 && is_parallel(nest[band.back()].body[0])) {
    band.push_back(nest[band.back()].body[0]);
  }
  return band;
}

size_t TypedBy(ScalarOp op) {
  if (op == ScalarOp::kFmaFlush) return 2;
  return op == ScalarOp::kSelect || op == ScalarOp::kPick ? 1 : 0;
}

bool Flushes(const LoopNest& nest) {
  return std::ranges::any_of(nest.exprs, [](const Expr& e) {
    return e.kind == ExprKind::kOp && (e.op == ScalarOp::kFmaFlush || e.op == ScalarOp::kAddFlush);
  });
}

std::string_view LoopKindName(LoopKind kind) {
  constexpr std::string_view kNames[] = {"for",       "parallel", "vector",  "unroll",
                                         "cluster_x", "block_x",  "block_y", "block_z",
                                         "thread_x",  "thread_y", "thread_z"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

bool HasBlocks(const LoopNest& nest, const std::vector<StmtId>& body) {
  return std::ranges::any_of(body, [&](StmtId id) {
    const Stmt& s = nest[id];
    const bool block = s.kind == StmtKind::kFor && IsGrid(s.loop) && !IsThread(s.loop);
    return block || HasBlocks(nest, s.body) || HasBlocks(nest, s.otherwise);
  });
}

}  // namespace

std::vector<LoopNest> LaunchesOf(const LoopNest& nest) {
  if (!HasBlocks(nest, nest.body)) return {nest};
  std::vector<LoopNest> launches;
  std::vector<StmtId> body;
  for (size_t i = 0; i <= nest.body.size(); ++i) {
    const bool ends = i == nest.body.size() || nest[nest.body[i]].kind == StmtKind::kBarrier;
    if (!ends) {
      body.push_back(nest.body[i]);
    } else if (!body.empty()) {
      launches.push_back(nest);
      launches.back().body = std::exchange(body, {});
    }
  }
  return launches;
}

std::string_view SpaceName(Space space) {
  constexpr std::string_view kNames[] = {"global", "cache", "shared", "reg", "grid", "cluster"};
  return kNames[static_cast<size_t>(space)];
}

}  // namespace weft::loops
