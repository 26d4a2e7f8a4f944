// Sums of products of bytes and of bfloat16, a matrix at once.
//
// AMX has eight registers that are matrices, tiles of up to 16 rows of 64 bytes, and one
// instruction that adds to a tile of 16 by 16 sums of 32 bits the product of 16 rows of 64 bytes
// and 16 columns of as many (Intel's Software Developer's Manual, volume 2, TDPBUSD). The nest says
// so step by step, as for what multiplies four bytes in each lane (kernel_dot.cpp):
//
//   for r … { for k = 0:64 {
//     unroll m = 0:32 { vector n = 0:32 { unroll s = 0:4 {
//       y[m, n] = y[m, n] + cast(x[m.., r, k + s]):i32 * cast(w[r, k + s, n]):i32 } } } } }
//
// All loops around that do nothing else become loops over tiles, which keep the sums from the first
// to the last. Sums modulo 2^32 are the same in every order. A tile's rows, 16 numbers m, lie
// anywhere at equal distances; 64 steps of k follow each other in them. Columns are 16 numbers n,
// of each of which four steps lie side by side, and after them those of the next n.
//
// TDPBF16PS does so with 32 steps of bfloat16, of which two lie side by side. It rounds, so that
// the nest says in which order: even and odd steps are summed up from zero each, then both, and
// what comes out is added to the sum.
//
//   for r … { for k = 0:2 {
//     unroll m = 0:32 { vector n = 0:32 {
//       p[0, n] = 0.0; p[1, n] = 0.0
//       unroll s = 0:32 {
//         p[s % 2, n] = fma_flush(x[m.., r, 32*k + s], w[r, 32*k + s, n], p[s % 2, n]) }
//       y[m, n] = add_flush(y[m, n], add_flush(p[0, n], p[1, n])) } } } }
//
// The shapes of tiles are a state of the processor that takes long to change. It is set where a
// product needs another than the last one did.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/llvm/kernel_builder.h"
#include "codegen/llvm/sum_of_products.h"
#include "polyhedral/loops/matrix_tiles.h"
#include "polyhedral/loops/ranges.h"

namespace weft::codegen {

using llvm::Value;
using loops::LoopKind;
using loops::MatrixTiles;
using loops::Stmt;
using loops::StmtKind;

// One loop over products in lanes, and all that is around it.
struct KernelBuilder::MatrixSum {
  std::vector<const Stmt*> around;  // serial loops, outermost first, that over steps last
  std::vector<const Stmt*> fetches;
  const Stmt *rows = nullptr, *lanes = nullptr, *steps = nullptr;  // no rows: one
  const loops::Expr *a = nullptr, *b = nullptr;                    // moved by rows, by lanes
  const Stmt* store = nullptr;
  loops::MatrixTiles tiles;
  int64_t trip = 0;     // of the loop over steps
  int64_t quads = 1;    // of each iteration: 32 bits of a row of a
  int64_t at_once = 1;  // how many iterations one instruction takes
  int64_t row_stride = 0, quad_stride = 0, sum_stride = 0;  // bytes: of a, of b, of the sums

  int64_t OfQuad() const { return 4 / SizeBytes(a->dtype); }  // steps
};

// The distance of successive offsets at(0) to at(count - 1); nullopt if they differ.
template <typename At>
static std::optional<int64_t> StrideOf(int64_t count, At at) {
  if (count == 1) return 0;
  const Affine first = at(0);
  const Affine second = at(1) - first;
  if (!second.IsConstant()) return std::nullopt;
  for (int64_t i = 2; i < count; ++i)
    if (at(i) != first + i * second.constant()) return std::nullopt;
  return second.constant();
}

// The loops around, from `loop` on inwards, down to that over steps.
bool KernelBuilder::OpenMatrixSum(const Stmt& loop, MatrixSum& p) const {
  p.around.push_back(&loop);
  while (p.around.back()->body.size() == 1) {
    const Stmt& inner = nest_[p.around.back()->body[0]];
    if (inner.kind != StmtKind::kFor || inner.loop != LoopKind::kSerial) break;
    p.around.push_back(&inner);
  }
  const Stmt* body = nullptr;
  for (const loops::StmtId id : p.around.back()->body) {
    if (nest_[id].kind == StmtKind::kPrefetch)
      p.fetches.push_back(&nest_[id]);
    else if (std::exchange(body, &nest_[id]) != nullptr)
      return false;
  }
  const auto enters = [&](LoopKind kind, const Stmt*& into) {
    if (body == nullptr || body->kind != StmtKind::kFor || body->loop != kind) return false;
    if (loops::ConstantTrip(*body) < 1 || body->step != 1) return false;
    const bool one = body->body.size() == 1;
    into = std::exchange(body, one ? &nest_[body->body[0]] : nullptr);
    return true;
  };
  enters(LoopKind::kUnroll, p.rows);
  if (!enters(LoopKind::kVector, p.lanes)) return false;
  enters(LoopKind::kUnroll, p.steps);
  return true;
}

// The sum that is added to in the loops, and its factors.
std::optional<SumOfProducts> KernelBuilder::SumIn(MatrixSum& p) const {
  const int64_t trip = loops::ConstantTrip(*p.around.back());
  p.trip = trip;
  if (p.steps != nullptr) {
    const auto is_byte = [](const loops::Expr& e) {
      return (e.dtype == Dtype::kI8 || e.dtype == Dtype::kU8) && e.guards.empty();
    };
    const auto sum = AsSumOfProducts(nest_, *p.steps);
    const bool bytes = sum && nest_[sum->sum].dtype == Dtype::kI32 && is_byte(*sum->a) &&
                       is_byte(*sum->b) && loops::ConstantTrip(*p.steps) == MatrixTiles::kQuad;
    if (!bytes || trip < 1) return std::nullopt;
    p.at_once = MatrixTiles::QuadsAtOnce(trip);
    return sum;
  }
  const auto apart = AsSumApart(nest_, *p.lanes);
  if (!apart || trip < 1) return std::nullopt;
  p.steps = apart->steps;
  const int64_t steps = loops::ConstantTrip(*p.steps);
  p.quads = steps / 2;
  if (steps % 2 != 0 || p.quads > MatrixTiles::kMostQuads) return std::nullopt;
  return apart->sum;
}

std::optional<KernelBuilder::MatrixSum> KernelBuilder::AsMatrixSum(const Stmt& loop) {
  MatrixSum p;
  if (!HasMatrixProducts(target_.isa) || in_vector_ || !OpenMatrixSum(loop, p)) return std::nullopt;
  if (!p.around.back()->lo[0].IsConstant()) return std::nullopt;
  const auto sum = SumIn(p);
  if (!sum) return std::nullopt;
  p.store = sum->store;
  p.tiles = {p.rows == nullptr ? 1 : loops::ConstantTrip(*p.rows), loops::ConstantTrip(*p.lanes)};
  if (!p.tiles.Fit()) return std::nullopt;
  const auto uses = [](const std::vector<Affine>& index, const Stmt* s) {
    return s != nullptr &&
           std::ranges::any_of(index, [s](const Affine& e) { return e.Uses(s->var); });
  };
  for (const Stmt* s : p.around) {
    if (uses(p.store->index, s)) return std::nullopt;
    for (const Stmt* inner : {p.rows, p.lanes, p.steps})
      if (inner != nullptr && uses(inner->lo, s)) return std::nullopt;
  }
  p.a = uses(sum->a->index, p.lanes) ? sum->b : sum->a;
  p.b = p.a == sum->a ? sum->b : sum->a;
  if (uses(p.a->index, p.lanes) || uses(p.b->index, p.rows)) return std::nullopt;
  return FactorsLie(p) && SumsLie(p) ? std::optional(p) : std::nullopt;
}

// Where an element lies, of row m, lane n and step s of iteration q.
Affine KernelBuilder::OffsetIn(const MatrixSum& p, loops::BufferId buffer,
                               const std::vector<Affine>& index, int64_t m, int64_t n, int64_t s,
                               const Affine& q) const {
  const Affine offset = memory_.Offset(buffer, index);
  const Stmt& k = *p.around.back();
  return scope_.Resolve(offset.Substitute([&](Var v) {
    if (p.rows != nullptr && v == p.rows->var) return p.rows->lo[0] + m;
    if (v == p.lanes->var) return p.lanes->lo[0] + n;
    if (v == k.var) return k.lo[0] + q * k.step;
    return v == p.steps->var ? p.steps->lo[0] + s : Affine::OfVar(v);
  }));
}

// Whether no term of an offset is moved by both loops together, so that each moves it by itself.
bool KernelBuilder::MoveApart(loops::BufferId buffer, const std::vector<Affine>& index,
                              const Stmt* one, const Stmt* other) const {
  const Affine offset = memory_.Offset(buffer, index);
  return one == nullptr || std::ranges::none_of(offset.terms(), [&](const Affine::Term& t) {
           return t.dividend && t.dividend->Uses(one->var) && t.dividend->Uses(other->var);
         });
}

// Whether the factors lie as tiles are loaded.
bool KernelBuilder::FactorsLie(MatrixSum& p) {
  if (!MoveApart(p.a->buffer, p.a->index, p.rows, p.steps) ||
      !MoveApart(p.b->buffer, p.b->index, p.lanes, p.steps))
    return false;
  const Var q = scope_.NewVar();
  const auto at = [&](const loops::Expr& load, int64_t m, int64_t n, int64_t s) {
    return OffsetIn(p, load.buffer, load.index, m, n, s, Affine::OfVar(q));
  };
  const int64_t of_quad = p.OfQuad(), steps = of_quad * p.quads;
  const auto within = [&](const loops::Expr& load, int64_t count, int64_t by) {
    return StrideOf(count, [&](int64_t s) { return at(load, 0, 0, s * by); });
  };
  // Of the quads that one instruction takes, from iteration to iteration or within one.
  const auto quads = [&](const loops::Expr& load) -> std::optional<int64_t> {
    if (p.at_once == 1) return within(load, p.quads, of_quad);
    const Affine offset = at(load, 0, 0, 0);
    const int64_t stride = offset.CoefficientOf(q);
    if ((offset - Affine::OfVar(q, stride)).Uses(q)) return std::nullopt;
    return stride;
  };
  const int64_t size = SizeBytes(p.a->dtype);
  for (int64_t j = 0; j < p.tiles.lane_tiles(); ++j) {
    const int64_t lanes = p.tiles.LanesOf(j);
    const auto by_lanes =
        StrideOf(lanes, [&](int64_t n) { return at(*p.b, 0, MatrixTiles::kLanes * j + n, 0); });
    if (lanes > 1 && by_lanes != of_quad) return false;
  }
  const auto by_rows = StrideOf(p.tiles.rows, [&](int64_t m) { return at(*p.a, m, 0, 0); });
  const auto by_quads = quads(*p.b);
  if (within(*p.a, steps, 1) != 1 || within(*p.b, of_quad, 1) != 1) return false;
  if (p.at_once > 1 && quads(*p.a) != of_quad) return false;
  if (!by_rows || *by_rows < 0 || !by_quads || *by_quads < 0) return false;
  p.row_stride = *by_rows * size;
  p.quad_stride = *by_quads * size;
  return true;
}

// Whether the sums do, each in a place of its own.
bool KernelBuilder::SumsLie(MatrixSum& p) const {
  if (!MoveApart(p.store->buffer, p.store->index, p.rows, p.lanes)) return false;
  const auto at = [&](int64_t m, int64_t n) {
    return OffsetIn(p, p.store->buffer, p.store->index, m, n);
  };
  const auto [rows, lanes] = std::pair(p.tiles.rows, p.tiles.lanes);
  const auto by_rows = StrideOf(rows, [&](int64_t m) { return at(m, 0); }),
             by_lanes = StrideOf(lanes, [&](int64_t n) { return at(0, n); });
  if (!by_rows || (rows > 1 && std::abs(*by_rows) < lanes)) return false;
  if (lanes > 1 && by_lanes != 1) return false;
  p.sum_stride = *by_rows * 4;
  return true;
}

// The palette of the tiles, unless it is what was set last.
void KernelBuilder::UseTiles(const MatrixSum& p, int64_t quads) {
  std::array<uint8_t, 64> palette = {1};
  const auto set = [&](int64_t tile, int64_t rows, int64_t bytes) {
    palette[static_cast<size_t>(16 + 2 * tile)] = static_cast<uint8_t>(bytes);
    palette[static_cast<size_t>(48 + tile)] = static_cast<uint8_t>(rows);
  };
  const MatrixTiles& t = p.tiles;
  for (int64_t i = 0; i < t.row_tiles(); ++i)
    for (int64_t j = 0; j < t.lane_tiles(); ++j) set(t.Sum(i, j), t.RowsOf(i), 4 * t.LanesOf(j));
  for (int64_t i = 0; i < t.row_tiles(); ++i)
    set(t.ByRows(i), t.RowsOf(i), MatrixTiles::kQuad * quads);
  for (int64_t j = 0; j < t.lane_tiles(); ++j) set(t.ByLanes(j), quads, 4 * t.LanesOf(j));
  const auto found = std::ranges::find(palettes_, palette);
  const auto number = static_cast<uint32_t>(found - palettes_.begin());
  if (found == palettes_.end()) palettes_.push_back(palette);
  if (palette_ == nullptr) {
    llvm::IRBuilder<> entry(&*function_->getEntryBlock().getFirstInsertionPt());
    palette_ = entry.CreateAlloca(entry.getInt32Ty());
    entry.CreateStore(entry.getInt32(UINT32_MAX), palette_);
  }
  llvm::Value* last = b_.CreateLoad(b_.getInt32Ty(), palette_);
  auto *change = Block("palette"), *after = Block("tiles");
  b_.CreateCondBr(b_.CreateICmpEQ(last, b_.getInt32(number)), after, change);
  b_.SetInsertPoint(change);
  auto* bytes = llvm::ConstantDataArray::get(module_.getContext(), palette);
  auto* constant = new llvm::GlobalVariable(module_, bytes->getType(), true,
                                            llvm::GlobalValue::PrivateLinkage, bytes, "palette");
  constant->setAlignment(llvm::Align(palette.size()));
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {constant});
  b_.CreateStore(b_.getInt32(number), palette_);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// Loads or stores a tile whose rows are `stride` bytes apart.
void KernelBuilder::Tile(llvm::Intrinsic::ID move, int64_t tile, loops::BufferId buffer,
                         const Affine& at, int64_t stride) {
  b_.CreateIntrinsic(move, {},
                     {b_.getInt8(static_cast<uint8_t>(tile)), memory_.PointerTo(buffer, at),
                      b_.getInt64(static_cast<uint64_t>(stride))});
}

static llvm::Intrinsic::ID ProductOf(Dtype a, Dtype b) {
  const bool a_signed = a == Dtype::kI8, b_signed = b == Dtype::kI8;
  if (a == Dtype::kBF16) return llvm::Intrinsic::x86_tdpbf16ps;
  return a_signed ? (b_signed ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud)
                  : (b_signed ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud);
}

// The products of some iterations, from q on: every tile of a with every tile of b.
void KernelBuilder::MultiplyTiles(const MatrixSum& p, const Affine& q) {
  const llvm::Intrinsic::ID multiply = ProductOf(p.a->dtype, p.b->dtype);
  const auto load = [&](int64_t tile, const loops::Expr& from, int64_t m, int64_t n,
                        int64_t stride) {
    Tile(llvm::Intrinsic::x86_tileloadd64, tile, from.buffer,
         OffsetIn(p, from.buffer, from.index, m, n, 0, q), stride);
  };
  const auto number = [&](int64_t tile) { return b_.getInt8(static_cast<uint8_t>(tile)); };
  const MatrixTiles& t = p.tiles;
  for (int64_t i = 0; i < t.row_tiles(); ++i) {
    load(t.ByRows(i), *p.a, t.kRows * i, 0, p.row_stride);
    for (int64_t j = 0; j < t.lane_tiles(); ++j) {
      if (i == 0 || t.by_lanes() < t.lane_tiles())
        load(t.ByLanes(j), *p.b, 0, t.kLanes * j, p.quad_stride);
      b_.CreateIntrinsic(multiply, {},
                         {number(t.Sum(i, j)), number(t.ByRows(i)), number(t.ByLanes(j))});
    }
  }
}

// The loops around, from the `depth`-th on, then `times` products of `at_once` iterations from the
// `first`-th on.
void KernelBuilder::MatrixLoops(const MatrixSum& p, size_t depth, int64_t first, int64_t at_once,
                                int64_t times) {
  const Stmt& s = *p.around[depth];
  if (depth + 1 < p.around.size()) {
    scope_.ranges().Push(s);
    const int64_t trip = loops::ConstantTrip(s);
    const bool simple = s.lo.size() == 1 && s.lo[0].IsConstant();
    const int64_t multiple = simple ? std::gcd(s.lo[0].constant(), s.step) : 1;
    CountedLoop(BoundValue(s.lo, true), BoundValue(s.hi, false), s.step, trip > 0, false,
                [&](Value* counter) {
                  scope_.Bind(s.var, counter, multiple);
                  MatrixLoops(p, depth + 1, first, at_once, times);
                });
    scope_.ranges().Pop(s);
    return;
  }
  const auto body = [&](const Affine& q) {
    MultiplyTiles(p, q);
    const Copy around = copy_;
    for (int64_t i = 0; i < at_once && !p.fetches.empty(); ++i) {
      copy_ = {.loop = &s, .number = i};
      scope_.Substitute(s.var, s.lo[0] + (q + i) * s.step);
      for (const Stmt* fetch : p.fetches)
        if (!IsFetched(*fetch)) memory_.Prefetch(*fetch);
    }
    copy_ = around;
  };
  if (times == 1) return body(first);
  Stmt round = s;
  round.var = scope_.NewVar();
  round.lo = {first};
  round.hi = {first + times * at_once};
  round.step = at_once;
  scope_.ranges().Push(round);
  CountedLoop(b_.getInt64(static_cast<uint64_t>(first)),
              b_.getInt64(static_cast<uint64_t>(first + times * at_once)), at_once, true, false,
              [&](Value* counter) {
                scope_.Bind(round.var, counter, std::gcd(first, at_once));
                body(Affine::OfVar(round.var));
              });
  scope_.ranges().Pop(round);
}

// Whether a statement sets all sums to zero and does nothing else.
bool KernelBuilder::ClearsSums(const MatrixSum& p, const Stmt& first) const {
  const Stmt* s = &first;
  const auto enters = [&](LoopKind kind) -> const Stmt* {
    if (s->kind != StmtKind::kFor || s->loop != kind || s->body.size() != 1) return nullptr;
    return std::exchange(s, &nest_[s->body[0]]);
  };
  const Stmt *rows = enters(LoopKind::kUnroll), *lanes = enters(LoopKind::kVector);
  if (lanes == nullptr || (rows == nullptr) != (p.rows == nullptr)) return false;
  if (s->kind != StmtKind::kStore || s->buffer != p.store->buffer) return false;
  if (!IsZero(nest_[s->value])) return false;
  const auto alike = [](const Stmt* a, const Stmt* b) {
    return a == nullptr || (a->lo == b->lo && a->hi == b->hi && a->step == b->step);
  };
  const auto same = [&](const Affine& cleared, const Affine& summed) {
    return summed == cleared.Substitute([&](Var v) {
      if (rows != nullptr && v == rows->var) return Affine::OfVar(p.rows->var);
      return Affine::OfVar(v == lanes->var ? p.lanes->var : v);
    });
  };
  return alike(rows, p.rows) && alike(lanes, p.lanes) &&
         std::ranges::equal(s->index, p.store->index, same);
}

bool KernelBuilder::MatrixProduct(const Stmt& loop, const Stmt* first) {
  const auto p = AsMatrixSum(loop);
  if (!p || (first != nullptr && !ClearsSums(*p, *first))) return false;
  const auto each_sum = [&](auto what) {
    const MatrixTiles& t = p->tiles;
    for (int64_t i = 0; i < t.row_tiles(); ++i) {
      for (int64_t j = 0; j < t.lane_tiles(); ++j)
        what(t.Sum(i, j),
             OffsetIn(*p, p->store->buffer, p->store->index, t.kRows * i, t.kLanes * j));
    }
  };
  const auto load = [&](int64_t tile, const Affine& at) {
    Tile(llvm::Intrinsic::x86_tileloadd64, tile, p->store->buffer, at, p->sum_stride);
  };
  const auto store = [&](int64_t tile, const Affine& at) {
    Tile(llvm::Intrinsic::x86_tilestored64, tile, p->store->buffer, at, p->sum_stride);
  };
  const auto clear = [&](int64_t tile, const Affine&) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {b_.getInt8(static_cast<uint8_t>(tile))});
  };
  const int64_t at_once = p->at_once, times = p->trip / at_once, rest = p->trip % at_once;
  const auto part = [&](int64_t from, int64_t iterations, int64_t count) {
    if (iterations == 0 || count == 0) return;
    UseTiles(*p, iterations * p->quads);
    if (first != nullptr && from == 0)
      each_sum(clear);
    else
      each_sum(load);
    MatrixLoops(*p, 0, from, iterations, count);
    each_sum(store);
  };
  part(0, at_once, times);
  part(times * at_once, rest, 1);
  return true;
}

}  // namespace weft::codegen
