#include "polyhedral/cuda/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

constexpr int64_t kWorthThreads = 8;  // shorter loops are not dealt to threads

// x = op(x, term), x at one cell for all iterations of the loops around it.
struct Reduction {
  StmtId store;
  ScalarOp op = ScalarOp::kAdd;
  std::vector<StmtId> chain;  // loops, outermost first
};

class Mapper {
 public:
  Mapper(LoopNest nest, int64_t most_threads)
      : nest_(std::move(nest)), most_threads_(most_threads) {}

  std::optional<Rows> Run(StmtId outermost) {
    const std::vector<StmtId> band = loops::ParallelBand(nest_, outermost);
    if (band.size() > 3) return std::nullopt;
    std::vector<StmtId> body = Pieces(nest_[band.back()].body);
    nest_.stmts[band.back().index].body = std::move(body);
    for (size_t k = 0; k < band.size(); ++k) {
      const auto kind = static_cast<size_t>(LoopKind::kBlockX) + (band.size() - 1 - k);
      nest_.stmts[band[k].index].loop = static_cast<LoopKind>(kind);
    }
    for (size_t i = 0; i < nest_.buffers.size(); ++i) Promote(BufferId(i));
    if (loops::TeamScratchBytes(nest_) > kSharedBytes) return std::nullopt;
    return Rows{.nest = std::move(nest_), .longest = longest_};
  }

 private:
  bool IsLocal(BufferId id) const {
    return nest_[id].space == Space::kCache || nest_[id].space == Space::kRegister;
  }

  // Buffers that each thread may have for itself if the loop becomes threads: touched nowhere else,
  // and fresh in each iteration of the innermost loop of its chain, hence of those around it.
  std::set<BufferId> OwnOf(StmtId loop) const {
    std::map<BufferId, size_t> all, here;
    for (const Touch& t : TouchesOf(nest_, nest_.body)) ++all[t.buffer];
    for (const Touch& t : TouchesOf(nest_, nest_[loop].body)) ++here[t.buffer];
    const std::vector<Touch> innermost = TouchesOf(nest_, nest_[Chain(loop).back()].body);
    std::set<BufferId> own;
    for (const auto& [buffer, count] : here) {
      if (IsLocal(buffer) && count == all[buffer] && IsFreshIn(innermost, buffer))
        own.insert(buffer);
    }
    return own;
  }

  void Promote(BufferId id) {
    if (!IsLocal(id) || own_.contains(id)) return;
    const auto touches = TouchesOf(nest_, nest_.body);
    const auto uses =
        std::ranges::count_if(touches, [&](const Touch& t) { return t.buffer == id; });
    if (uses > 0) nest_.buffers[id.index].space = Space::kShared;
  }

  // Perfectly nested loops, outermost first.
  std::vector<StmtId> Chain(StmtId outermost) const {
    std::vector<StmtId> chain = {outermost};
    for (;;) {
      const auto& body = nest_[chain.back()].body;
      if (body.size() != 1 || nest_[body[0]].kind != StmtKind::kFor) return chain;
      chain.push_back(body[0]);
    }
  }

  std::vector<StmtId> Pieces(const std::vector<StmtId>& body) {
    std::vector<StmtId> all, alone;
    std::vector<Touch> since;  // touched since the last barrier
    const auto add = [&](std::vector<StmtId> piece, const std::vector<Touch>& touches) {
      if (Meet(since, touches)) {
        all.push_back(AddBarrier(nest_));
        since.clear();
      }
      since.insert(since.end(), touches.begin(), touches.end());
      all.insert(all.end(), piece.begin(), piece.end());
    };
    const auto flush = [&] {  // stores that one thread does
      if (alone.empty()) return;
      const std::vector<Touch> touches = TouchesOf(nest_, alone);
      add({AddSingle(nest_, std::exchange(alone, {}))}, touches);
    };
    for (const StmtId id : body) {
      const Stmt s = nest_[id];
      const bool shared = s.kind == StmtKind::kLet || s.kind == StmtKind::kMark ||
                          s.kind == StmtKind::kFor || s.kind == StmtKind::kIf;
      if (!shared || !HasThreads(id)) {
        alone.push_back(id);
        continue;
      }
      flush();
      const std::vector<Touch> touches = TouchesOf(nest_, {id});
      add(Piece(id), touches);
    }
    flush();
    return all;
  }

  // A let is for all threads; of other statements, those with a loop in them that becomes threads.
  bool HasThreads(StmtId id) const {
    const Stmt& s = nest_[id];
    if (s.kind == StmtKind::kLet) return true;
    if (s.kind == StmtKind::kFor && (AsReduction(id) || ThreadLoops(id) > 0)) return true;
    const auto any = [this](const std::vector<StmtId>& body) {
      return std::ranges::any_of(body, [this](StmtId sub) {
        return nest_[sub].kind != StmtKind::kLet && HasThreads(sub);
      });
    };
    // Vector loops and unrolled ones around pieces would lose their meaning.
    const bool opens = s.kind == StmtKind::kMark || s.kind == StmtKind::kIf ||
                       (s.kind == StmtKind::kFor && s.loop == LoopKind::kSerial);
    return opens && (any(s.body) || any(s.otherwise));
  }

  // How many loops of the chain may run at once, from the outermost on; 0 if that is not worth it.
  size_t ThreadLoops(StmtId loop) const {
    size_t count = 0;
    bool worth = false;
    const std::set<BufferId> own = OwnOf(loop);
    for (const StmtId id : Chain(loop)) {
      if (!FitsThreads(id) || !IsIndependent(nest_, id, own)) break;
      worth |= TripOf(nest_, id) >= kWorthThreads;
      ++count;
    }
    return worth ? count : 0;
  }

  bool FitsThreads(StmtId id) const {
    const LoopKind kind = nest_[id].loop;
    return kind == LoopKind::kSerial || kind == LoopKind::kVector || kind == LoopKind::kUnroll;
  }

  std::vector<StmtId> Piece(StmtId id) {
    const Stmt s = nest_[id];
    if (s.kind == StmtKind::kLet) return {id};
    if (s.kind == StmtKind::kFor) {
      if (auto reduction = AsReduction(id)) return Reduce(*reduction);
      if (const size_t count = ThreadLoops(id); count > 0) return {Threads(id, count)};
    }
    // All threads run it together; what one round leaves must be there before the next begins.
    std::vector<StmtId> body = Pieces(s.body), otherwise = Pieces(s.otherwise);
    if (s.kind == StmtKind::kFor) body.push_back(AddBarrier(nest_));
    nest_.stmts[id.index].body = std::move(body);
    nest_.stmts[id.index].otherwise = std::move(otherwise);
    return {id};
  }

  // Of the first `count` loops of the chain the longest becomes threads, the innermost among
  // equals; the others are serial inside each thread.
  StmtId Threads(StmtId outermost, size_t count) {
    own_.merge(OwnOf(outermost));
    std::vector<StmtId> chain = Chain(outermost);
    size_t best = 0;
    for (size_t k = 0; k < count; ++k) {
      if (TripOf(nest_, chain[k]) >= std::min(most_threads_, TripOf(nest_, chain[best]))) best = k;
    }
    longest_ = std::max(longest_, TripOf(nest_, chain[best]));
    const StmtId dealt =
        Deal(nest_, chain[best], LoopKind::kSerial, LoopKind::kThreadX, ThreadsFor(chain[best]));
    if (best == 0) return dealt;
    nest_.stmts[chain[best - 1].index].body = {dealt};
    return outermost;
  }

  int64_t ThreadsFor(StmtId loop) const {
    return RoundUpToWarps(TripOf(nest_, loop), most_threads_);
  }

  // Does one list write what the other touches, outside of a thread's own?
  bool Meet(const std::vector<Touch>& a, const std::vector<Touch>& b) const {
    return std::ranges::any_of(a, [&](const Touch& x) {
      return !own_.contains(x.buffer) && std::ranges::any_of(b, [&](const Touch& y) {
        return x.buffer == y.buffer && (x.is_write || y.is_write);
      });
    });
  }

  std::optional<Reduction> AsReduction(StmtId loop) const {
    Reduction r{.chain = Chain(loop)};
    const auto& body = nest_[r.chain.back()].body;
    if (body.size() != 1 || nest_[body[0]].kind != StmtKind::kStore) return std::nullopt;
    r.store = body[0];
    const Stmt& s = nest_[r.store];
    const Expr& e = nest_[s.value];
    // 16 bits round at each step, so that order would show more than it may.
    if (!IsFloat(e.dtype) || SizeBytes(e.dtype) < 4 || e.kind != ExprKind::kOp) return std::nullopt;
    const bool fma = e.op == ScalarOp::kFma;
    r.op = fma ? ScalarOp::kAdd : e.op;
    if (r.op != ScalarOp::kAdd && r.op != ScalarOp::kMul && r.op != ScalarOp::kMin &&
        r.op != ScalarOp::kMax) {
      return std::nullopt;
    }
    if (!IsCellOf(s, e.args[fma ? 2 : 0])) return std::nullopt;
    size_t loads = 0;
    for (const Touch& t : TouchesOf(nest_, {r.store})) loads += t.buffer == s.buffer && !t.is_write;
    if (loads != 1) return std::nullopt;
    for (const StmtId id : r.chain) {
      const Stmt& l = nest_[id];
      if (l.loop != LoopKind::kSerial && l.loop != LoopKind::kUnroll) return std::nullopt;
      if (std::ranges::any_of(s.index, [&](const Affine& i) { return i.Uses(l.var); }))
        return std::nullopt;
    }
    if (TripOf(nest_, Longest(r.chain)) < kWorthThreads * 2) return std::nullopt;
    return r;
  }

  bool IsCellOf(const Stmt& s, ExprId load) const {
    const Expr& e = nest_[load];
    return e.kind == ExprKind::kLoad && e.buffer == s.buffer && e.index == s.index &&
           e.guards.empty();
  }

  StmtId Longest(const std::vector<StmtId>& chain) const {
    return *std::ranges::max_element(chain, {}, [this](StmtId id) { return TripOf(nest_, id); });
  }

  double IdentityOf(ScalarOp op) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (op) {
      case ScalarOp::kAdd:
        return -0.0;  // -0 + x is x, also for x = -0
      case ScalarOp::kMul:
        return 1;
      case ScalarOp::kMin:
        return kInfinity;
      default:
        return -kInfinity;
    }
  }

  // Each thread's share in a register, and from there to shared memory; a sixteenth of the threads
  // fold 16 shares each, and one folds what they have and the cell. By halves it would be as many
  // barriers as the threads' number has bits, each of which costs more than reading some shares.
  std::vector<StmtId> Reduce(const Reduction& r) {
    const Stmt store = nest_[r.store];
    const Dtype dtype = nest_[store.value].dtype;
    const StmtId dealt = Longest(r.chain);
    int64_t threads = 32;
    while (threads * 2 <= std::min(most_threads_, TripOf(nest_, dealt))) threads *= 2;
    longest_ = std::max(longest_, TripOf(nest_, dealt));
    const int number = parts_++;
    const auto buffer = [&](std::string_view name, std::vector<Affine> shape, Space space) {
      const size_t rank = shape.size();
      return loops::AddBuffer(nest_, {.name = fmt::format("{}{}", name, number),
                                      .dtype = dtype,
                                      .shape = std::move(shape),
                                      .layout = Layout::Plain(rank),
                                      .space = space});
    };
    const BufferId part = buffer("part", {Affine(threads)}, Space::kShared),
                   share = buffer("share", {}, Space::kRegister);
    own_.insert(share);
    std::vector<StmtId> piece = {Lanes(threads, [&](const Affine& t) {
      const StmtId init = Put(share, {}, loops::AddLiteral(nest_, dtype, IdentityOf(r.op)));
      ShareOut(r, dealt, t, threads, share);
      return std::vector{init, r.chain[0], Put(part, {t}, loops::AddLoad(nest_, share, {}))};
    })};
    piece.push_back(AddBarrier(nest_));
    // share = part[t], then op with each count-th part that follows; part[t] = share.
    const auto fold = [&](const Affine& t, int64_t count, int64_t parts) {
      const Var k = loops::AddVar(nest_, "k");
      const ExprId next = loops::AddLoad(nest_, part, {t + Affine::OfVar(k)}),
                   sum = loops::AddLoad(nest_, share, {});
      const StmtId add = Put(share, {}, loops::AddOp(nest_, r.op, dtype, {sum, next}));
      const StmtId loop = loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                                 .var = k,
                                                 .lo = {count},
                                                 .hi = {parts},
                                                 .step = count,
                                                 .loop = LoopKind::kUnroll,
                                                 .body = {add}});
      return std::vector{Put(share, {}, loops::AddLoad(nest_, part, {t})), loop};
    };
    constexpr int64_t kFold = 16;
    int64_t left = threads;
    while (left > kFold) {
      const int64_t parts = std::exchange(left, left / kFold);
      piece.push_back(Lanes(left, [&](const Affine& t) {
        std::vector<StmtId> body = fold(t, left, parts);
        body.push_back(Put(part, {t}, loops::AddLoad(nest_, share, {})));
        return body;
      }));
      piece.push_back(AddBarrier(nest_));
    }
    std::vector<StmtId> last = fold(0, 1, left);
    const ExprId cell = loops::AddLoad(nest_, store.buffer, store.index);
    const ExprId value = loops::AddOp(nest_, r.op, dtype, {cell, loops::AddLoad(nest_, share, {})});
    last.push_back(Put(store.buffer, store.index, value));
    piece.push_back(AddSingle(nest_, std::move(last)));
    return piece;
  }

  StmtId Put(BufferId buffer, std::vector<Affine> index, ExprId value) {
    return loops::AddStmt(
        nest_,
        {.kind = StmtKind::kStore, .buffer = buffer, .index = std::move(index), .value = value});
  }

  template <typename Body>
  StmtId Lanes(int64_t count, Body body_of) {
    const Var t = loops::AddVar(nest_, "lane");
    std::vector<StmtId> body = body_of(Affine::OfVar(t));
    return loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                  .var = t,
                                  .lo = {0},
                                  .hi = {count},
                                  .loop = LoopKind::kThreadX,
                                  .body = std::move(body)});
  }

  // The loops again, thread t taking every threads-th iteration of one, adding to its own share.
  void ShareOut(const Reduction& r, StmtId dealt, const Affine& t, int64_t threads,
                BufferId share) {
    Stmt& loop = nest_.stmts[dealt.index];
    loop.loop = LoopKind::kSerial;
    for (Affine& lo : loop.lo) lo = lo + t * loop.step;
    loop.step *= threads;
    Expr value = nest_[nest_[r.store].value];
    const size_t place = value.op == ScalarOp::kFma ? 2 : 0;
    value.args[place] = loops::AddLoad(nest_, share, {});
    nest_.exprs.push_back(std::move(value));
    Stmt& store = nest_.stmts[r.store.index];
    store.value = ExprId(nest_.exprs.size() - 1);
    store.buffer = share;
    store.index = {};
  }

  LoopNest nest_;
  int64_t most_threads_;
  std::set<BufferId> own_;  // of threads; other locals are shared by the block
  int64_t longest_ = 1;
  int parts_ = 0;
};

}  // namespace

std::optional<Rows> MapRows(LoopNest nest, StmtId outermost, int64_t most_threads) {
  return Mapper(std::move(nest), most_threads).Run(outermost);
}

}  // namespace weft::polyhedral::cuda
