#include "polyhedral/cuda/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "polyhedral/cuda/columns.h"
#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/lanes.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/sums.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/cuda/works.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::Buffer;
using loops::BufferId;
using loops::ExprId;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

constexpr int64_t kWorthThreads = 8;  // shorter loops are not dealt to threads
constexpr int64_t kWarp = loops::kWarp;
// Registers that a thread has of all temporaries of a row; those of a multiprocessor (CUDA C++
// Programming Guide), of which half are for the rest.
constexpr int64_t kMostOfAll = 64, kRegisters = 65536;
// Blocks have more threads where they are fewer than two for each multiprocessor, or where rows are
// too long for the registers of less; threads have several accesses each where there are many.
constexpr int64_t kUsualThreads = 256, kFewRows = 264, kManyRows = 1024;
constexpr int64_t kMostScratch = 64 << 20;  // of all blocks

int64_t PowerOfTwo(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

class Mapper {
 public:
  Mapper(LoopNest nest, const RowSizes& most) : nest_(std::move(nest)), most_(most) {}
  Mapper(LoopNest nest, const std::optional<ColumnSizes>& wanted)
      : nest_(std::move(nest)), most_{.lanes = 1}, along_(LoopKind::kThreadY), wanted_(wanted) {}

  std::optional<Rows> Run(StmtId outermost) {
    std::vector<StmtId> band = loops::ParallelBand(nest_, outermost);
    if (InColumns() && !FindColumns(outermost, band)) return std::nullopt;
    int64_t rows = 1;
    for (const StmtId id : band) rows *= TripOf(nest_, id);
    std::vector<StmtId> row = nest_[band.back()].body;
    FindConstants(row);
    FindWorks(row);
    if (InColumns()) {
      ChooseColumns(rows);
    } else {
      ChooseSizes(rows);
    }
    FindReplicated(row);
    FindResident();
    KeepOperands(row);
    if (InCluster()) rank_ = loops::AddVar(nest_, "block");
    std::vector<StmtId> body = Pieces(row);
    if (InCluster()) body = OverBlocks(std::move(body));
    if (is_apart_) return std::nullopt;
    if (InColumns()) {
      auto over = OverColumns(nest_, band.back(), columns_, own_, body);
      if (!over) return std::nullopt;
      body = *std::move(over);
    }
    nest_.stmts[band.back().index].body = std::move(body);
    if (!Blocks(outermost, band, rows)) return std::nullopt;
    for (size_t i = 0; i < nest_.buffers.size(); ++i) Promote(BufferId(i));
    const int64_t bytes = loops::TeamScratchBytes(nest_);
    if (bytes > kSharedBytes && (InColumns() || bytes > kMostScratch / rows)) return std::nullopt;
    return Rows{.nest = Compact(nest_),
                .longest = longest_,
                .works = std::ssize(works_),
                .threads = threads_,
                .columns = columns_,
                .blocks = blocks_,
                .holds = !resident_.empty(),
                .moves = moves_};
  }

 private:
  bool IsLocal(BufferId id) const {
    return nest_[id].space == Space::kCache || nest_[id].space == Space::kRegister;
  }

  bool InColumns() const { return along_ == LoopKind::kThreadY; }

  // The band's innermost loop must be one of columns.
  bool FindColumns(StmtId& outermost, std::vector<StmtId>& band) {
    if (band.size() == 1) {
      band = Split(nest_, outermost);
      Replace(nest_, nest_.body, outermost, band[0]);
      outermost = band[0];
    }
    const Stmt& s = nest_[band.back()];
    return loops::ConstantTrip(s) > 0 && s.lo.size() == 1 && s.lo[0] == Affine(0) && s.step == 1;
  }

  // The band as blocks: its innermost loops along x, y and z, or all as one; y and z where x is
  // that of clusters. False if that is more than a grid has: a block with several rows would spoil
  // what threads still read of the one before.
  bool Blocks(StmtId outermost, const std::vector<StmtId>& band, int64_t rows) {
    const size_t first = InCluster() ? 1 : 0, axes = 3 - first;
    const auto along = [&](size_t k) {
      return static_cast<LoopKind>(static_cast<size_t>(LoopKind::kBlockX) + first + k);
    };
    const auto fits = [&](StmtId id) { return TripOf(nest_, id) <= kMostBlocks; };
    const auto end = band.end() - (InCluster() ? 0 : 1);
    const bool separate = band.size() <= axes && std::all_of(band.begin(), end, fits);
    if (!separate) {
      if (rows > (InCluster() ? kMostBlocks : INT32_MAX) || !CanMerge(nest_, band)) return false;
      const StmtId merged = Merge(nest_, band);
      nest_.stmts[merged.index].loop = along(0);
      Replace(nest_, nest_.body, outermost, merged);
      return true;
    }
    for (size_t k = 0; k < band.size(); ++k)
      nest_.stmts[band[k].index].loop = along(band.size() - 1 - k);
    return true;
  }

  bool InCluster() const { return blocks_ > 1; }

  // A block's slices may be read until all have come to the end.
  std::vector<StmtId> OverBlocks(std::vector<StmtId> body) {
    if (reductions_ > 0) body.push_back(AddClusterBarrier());
    return {loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                   .var = rank_,
                                   .lo = {0},
                                   .hi = {blocks_},
                                   .loop = LoopKind::kClusterX,
                                   .body = std::move(body)})};
  }

  StmtId AddClusterBarrier() {
    return loops::AddStmt(nest_, {.kind = StmtKind::kBarrier, .cluster = true});
  }

  bool IsOperand(BufferId id) const { return !IsLocal(id) && nest_[id].space != Space::kShared; }

  bool Writes(const std::vector<StmtId>& body, bool operands) const {
    return std::ranges::any_of(TouchesOf(nest_, body), [&](const Touch& t) {
      return t.is_write && !own_.contains(t.buffer) && IsOperand(t.buffer) == operands;
    });
  }

  // Loops that leave something for a block alone each block runs for itself.
  bool IsOfEachBlock(const std::vector<StmtId>& body) {
    if (!InCluster() || !Writes(body, false)) return false;
    is_apart_ |= Writes(body, true);
    return true;
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

  // What all rows only read, each thread fills for itself before its first.
  void FindConstants(const std::vector<StmtId>& row) {
    std::set<BufferId> written;
    for (const Touch& t : TouchesOf(nest_, row))
      if (t.is_write) written.insert(t.buffer);
    for (size_t i = 0; i < nest_.buffers.size(); ++i)
      if (const BufferId id(i); IsLocal(id) && !written.contains(id)) own_.insert(id);
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

  // What will become threads, wherever it stands.
  void FindWorks(const std::vector<StmtId>& body) {
    for (const StmtId id : body) {
      const Stmt& s = nest_[id];
      if (s.kind == StmtKind::kFor) {
        auto work = AsReduction(id);
        if (!work) work = AsThreads(id);
        if (work) {
          longest_ = std::max(longest_, work->trip);
          const Moves moves = MovesOf(nest_, {id}, nest_[work->loops.back()].var);
          moves_.along += moves.along;
          moves_.across += moves.across;
          work->lanes = LanesAlong(nest_, work->loops.back(), work->own);
          while (work->lanes > most_.lanes.value_or(kDeviceAlign)) work->lanes /= 2;
          works_.emplace(id, *std::move(work));
          continue;
        }
      }
      // Vector loops and unrolled ones around pieces would lose their meaning.
      const bool opens = s.kind == StmtKind::kMark || s.kind == StmtKind::kIf ||
                         (s.kind == StmtKind::kFor && s.loop == LoopKind::kSerial);
      if (!opens) continue;
      FindWorks(s.body);
      FindWorks(s.otherwise);
    }
  }

  // How many loops of the chain may run at once, from the outermost on, if that is worth it.
  std::optional<Work> AsThreads(StmtId loop) {
    Work work{.own = OwnOf(loop)};
    for (const StmtId id : Chain(loop)) {
      if (!FitsThreads(id) || !IsIndependent(nest_, id, work.own)) break;
      work.loops.push_back(id);
    }
    if (work.loops.empty()) return std::nullopt;
    RunAlongMemory(work.loops);
    Choose(work);
    return work.trip >= kWorthThreads ? std::optional(std::move(work)) : std::nullopt;
  }

  // Perfectly nested loops change places so that the innermost is one along which operands lie side
  // by side, if there is one.
  void RunAlongMemory(const std::vector<StmtId>& loops) {
    const auto runs_in_order = [this](StmtId id) { return nest_[id].loop != LoopKind::kVector; };
    if (!IsConstant(nest_, {.loops = loops}) || !std::ranges::all_of(loops, runs_in_order)) return;
    const auto along = [&](StmtId id) { return MovesOf(nest_, {loops[0]}, nest_[id].var).along; };
    const auto best = std::ranges::max_element(loops, {}, along);
    if (along(loops.back()) >= along(*best)) return;
    for (auto at = best; at + 1 != loops.end(); ++at) {
      Stmt &outer = nest_.stmts[at->index], &inner = nest_.stmts[(at + 1)->index];
      std::swap(outer.var, inner.var);
      std::swap(outer.hi, inner.hi);
    }
  }

  // All of the loops, as one; or the longest, the others one after another in each thread.
  void Choose(Work& work) const {
    if (!CanMerge(nest_, work.loops)) {
      const auto trip = [this](StmtId id) { return TripOf(nest_, id); };
      work.loops = {*std::ranges::max_element(work.loops, {}, trip)};
    }
    for (const StmtId id : work.loops) work.trip *= TripOf(nest_, id);
  }

  bool FitsThreads(StmtId id) const {
    const LoopKind kind = nest_[id].loop;
    return kind == LoopKind::kSerial || kind == LoopKind::kVector || kind == LoopKind::kUnroll;
  }

  std::optional<Work> AsReduction(StmtId loop) {
    auto sum = AsSum(nest_, loop);
    if (!sum) return std::nullopt;
    Work work{.loops = std::move(sum->loops),
              .own = {nest_[sum->store].buffer},
              .store = sum->store,
              .op = sum->op};
    RunAlongMemory(work.loops);
    Choose(work);
    return work.trip >= kWorthThreads * 2 ? std::optional(std::move(work)) : std::nullopt;
  }

  // Rows that a block holds only with all of a multiprocessor's threads, or not at all, have
  // several; so have few long ones, for the sake of the multiprocessors.
  void ChooseBlocks(int64_t rows) {
    constexpr int64_t kShare = kMostThreads / 2 * kMostOfOne, kLeastShare = 4096;
    const bool fits = longest_ <= kMostOfCluster;
    blocks_ = most_.blocks.value_or(1);
    if (most_.blocks || !most_.clusters || !fits) return;
    const auto constant = [this](const auto& work) { return IsConstant(nest_, work.second); };
    if (!std::ranges::all_of(works_, constant)) return;
    const auto more = [&] {
      return longest_ > blocks_ * kShare ||
             (rows * blocks_ < kFewRows / 2 && longest_ >= 2 * blocks_ * kLeastShare);
    };
    while (blocks_ < loops::kMostCluster && more()) blocks_ *= 2;
  }

  // Loops of one length have the same lanes, so that a thread meets the same places in all of them;
  // a warp has something to do before a thread has several. Threads are a power of two.
  void ChooseSizes(int64_t rows) {
    std::map<int64_t, int64_t> lanes;
    for (const auto& [id, work] : works_) {
      auto [at, fresh] = lanes.emplace(work.trip, work.lanes);
      at->second = std::min(at->second, work.lanes);
    }
    ChooseBlocks(rows);
    int64_t most = 1;
    for (auto& [id, work] : works_) {
      work.lanes = lanes[work.trip];
      while (!most_.lanes && work.lanes > 1 && work.trip / work.lanes < kWarp) work.lanes /= 2;
      most = std::max(most, (work.trip + work.lanes - 1) / work.lanes);
    }
    most = (most + blocks_ - 1) / blocks_;
    const int64_t registers = PowerOfTwo((most + kMostOfOne / 4 - 1) / (kMostOfOne / 4)),
                  usual = rows <= kFewRows ? kMostThreads : std::max(kUsualThreads, registers),
                  limit = most_.threads.value_or(std::min(kMostThreads, usual));
    if (rows >= kManyRows) most = (most + 3) / 4;
    threads_ = std::max(kWarp, PowerOfTwo(most));
    while (threads_ > limit) threads_ /= 2;
  }

  // A column's share is as much as a thread has registers for. Lines of a cache are whole where
  // that leaves two blocks for a multiprocessor; where there are few blocks, they are narrower and
  // have more threads.
  void ChooseColumns(int64_t all) {
    constexpr int64_t kLine = 32, kHalfLine = 16, kTwoABlock = 512, kFewThreads = 4, kMany = 16;
    if (wanted_) {
      columns_ = wanted_->columns, threads_ = wanted_->threads;
      return;
    }
    int64_t most = 1;
    for (const auto& [id, work] : works_) most = std::max(most, work.trip);
    const int64_t least = PowerOfTwo((most + kMostOfOne - 1) / kMostOfOne);
    threads_ = std::clamp(PowerOfTwo((most + kMany - 1) / kMany), kFewThreads,
                          std::max(least, kTwoABlock / kLine));
    columns_ = threads_ * kLine > kTwoABlock ? kHalfLine : kLine;
    if (all / columns_ < kFewRows) columns_ = kHalfLine;
    while (all / columns_ < kFewRows && 2 * threads_ * columns_ <= kTwoABlock &&
           threads_ * kFewThreads < most)
      threads_ *= 2;
  }

  // Values that all threads compute, each for itself: what is one cell, and follows from inputs,
  // from sums that all threads get, and from such values.
  void FindReplicated(const std::vector<StmtId>& row) {
    std::set<BufferId> cells, others;
    for (const Touch& t : TouchesOf(nest_, nest_.body)) {
      const bool fixed =
          std::ranges::all_of(t.index, [](const Affine& e) { return e.IsConstant(); });
      (IsLocal(t.buffer) && fixed ? cells : others).insert(t.buffer);
    }
    for (const BufferId id : others) cells.erase(id);
    for (size_t before = cells.size() + 1; before != cells.size();) {
      before = cells.size();
      KeepReplicated(row, cells);
    }
    replicated_ = cells;
    own_.insert(cells.begin(), cells.end());
  }

  void KeepReplicated(const std::vector<StmtId>& body, std::set<BufferId>& cells) const {
    for (const StmtId id : body) {
      const auto work = works_.find(id);
      if (work == works_.end() && HasThreads(id)) {
        KeepReplicated(nest_[id].body, cells);
        KeepReplicated(nest_[id].otherwise, cells);
      } else if (work != works_.end() ? !work->second.store.valid() : !IsReplicated(id, cells)) {
        for (const Touch& t : TouchesOf(nest_, {id}))
          if (t.is_write) cells.erase(t.buffer);
      }
    }
  }

  bool IsReplicated(StmtId id, const std::set<BufferId>& cells) const {
    const std::vector<Touch> touches = TouchesOf(nest_, {id});
    return std::ranges::all_of(touches, [&](const Touch& t) {
      return cells.contains(t.buffer) ||
             (!t.is_write && nest_[t.buffer].access == loops::Access::kIn);
    });
  }

  // Temporaries of a row that each thread meets in the same places of all loops: registers.
  void FindResident() {
    std::map<BufferId, const Work*> first;
    std::set<BufferId> others = own_;
    std::map<BufferId, size_t> all, seen;
    for (const Touch& t : TouchesOf(nest_, nest_.body)) ++all[t.buffer];
    for (const auto& [id, work] : works_) {
      others.insert(work.own.begin(), work.own.end());
      for (const Touch& t : TouchesOf(nest_, {id})) {
        ++seen[t.buffer];
        const Work* known = first.emplace(t.buffer, &work).first->second;
        if (!IsLocal(t.buffer) || !IsPlaceOf(nest_, t.index, work) ||
            !SameLoops(nest_, *known, work))
          others.insert(t.buffer);
      }
    }
    for (const auto& [buffer, work] : first) {
      if (others.contains(buffer) || seen[buffer] != all[buffer]) continue;
      if (!TakeRegisters(*work, nest_[buffer].dtype)) continue;
      Buffer& b = nest_.buffers[buffer.index];
      b.shape = ShareOf(*work);
      b.layout = Layout::Plain(2);
      b.fold.clear();
      b.space = Space::kRegister;
      resident_.insert(buffer);
      own_.insert(buffer);
    }
  }

  // What a thread has of such a loop: parts, and lanes.
  std::vector<Affine> ShareOf(const Work& work) const {
    return {Affine(Parts(work.trip / work.lanes)), Affine(work.lanes)};
  }

  // Registers for a thread's share, if they are left.
  bool TakeRegisters(const Work& work, Dtype dtype) {
    const int64_t cells = Parts(work.trip / work.lanes) * work.lanes,
                  words = cells * std::max<int64_t>(1, SizeBytes(dtype) / 4),
                  most = std::min(kMostOfAll, kRegisters / 2 / (threads_ * columns_));
    if (words > kMostOfOne || registers_ + words > most) return false;
    registers_ += words;
    return true;
  }

  // What several loops load at the same place, one in front of them brings to registers.
  void KeepOperands(std::vector<StmtId>& row) {
    for (const Loaded& l : LoadedAgain(nest_, row, works_)) {
      const Work& like = *l.readers[0];
      if (!TakeRegisters(like, nest_[l.buffer].dtype)) continue;
      Copy copy = CopyOnce(nest_, l, ShareOf(like));
      resident_.insert(copy.kept);
      own_.insert(copy.kept);
      row.insert(std::ranges::find(row, l.before), copy.loop);
      works_.emplace(copy.loop, std::move(copy.work));
    }
  }

  int64_t Parts(int64_t extent) const {
    const int64_t all = threads_ * blocks_;
    return (extent + all - 1) / all;
  }

  std::vector<StmtId> Pieces(const std::vector<StmtId>& body) {
    std::vector<StmtId> all, alone;
    std::vector<Touch> since;  // touched since the last barrier
    const auto add = [&](std::vector<StmtId> piece, const std::vector<Touch>& touches) {
      if (Meet(since, touches)) {
        const bool cluster = InCluster() && MeetsOperand(since, touches);
        all.push_back(cluster ? AddClusterBarrier() : AddBarrier(nest_));
        // A block's own barrier is none for what other blocks do with operands.
        std::erase_if(
            since, [&](const Touch& t) { return cluster || !InCluster() || !IsOperand(t.buffer); });
      }
      since.insert(since.end(), touches.begin(), touches.end());
      all.insert(all.end(), piece.begin(), piece.end());
    };
    const auto flush = [&] {  // stores that one thread does
      if (alone.empty()) return;
      const std::vector<Touch> touches = TouchesOf(nest_, alone);
      add({Alone(std::exchange(alone, {}))}, touches);
    };
    for (const StmtId id : body) {
      const std::vector<Touch> touches = TouchesOf(nest_, {id});
      const bool together =
          nest_[id].kind != StmtKind::kLet && !HasThreads(id) && IsReplicated(id, replicated_);
      if (!together && !HasThreads(id)) {
        // What the first block leaves, the others find behind a barrier only.
        if (InCluster() && MeetsOperand(TouchesOf(nest_, alone), touches)) flush();
        alone.push_back(id);
        continue;
      }
      flush();
      add(together ? std::vector{id} : Piece(id), touches);
    }
    flush();
    return all;
  }

  // A let is for all threads; of other statements, those with a loop in them that becomes threads.
  bool HasThreads(StmtId id) const {
    const Stmt& s = nest_[id];
    if (s.kind == StmtKind::kLet || works_.contains(id)) return true;
    const auto any = [this](const std::vector<StmtId>& body) {
      return std::ranges::any_of(body, [this](StmtId sub) {
        return nest_[sub].kind != StmtKind::kLet && HasThreads(sub);
      });
    };
    return any(s.body) || any(s.otherwise);
  }

  std::vector<StmtId> Piece(StmtId id) {
    const Stmt s = nest_[id];
    if (s.kind == StmtKind::kLet) return {id};
    if (const auto work = works_.find(id); work != works_.end())
      return work->second.store.valid() ? Reduce(id, work->second)
                                        : std::vector{Threads(id, work->second, work->second.own)};
    is_apart_ |= InCluster();
    // All threads run it together; what one round leaves must be there before the next begins.
    std::vector<StmtId> body = Pieces(s.body), otherwise = Pieces(s.otherwise);
    if (s.kind == StmtKind::kFor) body.push_back(AddBarrier(nest_));
    nest_.stmts[id.index].body = std::move(body);
    nest_.stmts[id.index].otherwise = std::move(otherwise);
    return {id};
  }

  // The loops as threads, in parts of as many as a block has.
  StmtId Threads(StmtId outermost, const Work& work, const std::set<BufferId>& own) {
    own_.insert(own.begin(), own.end());
    const Var part = loops::AddVar(nest_, "part");
    std::map<BufferId, Affine> resident;
    bool has_resident = false;
    for (const Touch& t : TouchesOf(nest_, nest_[work.loops.back()].body))
      has_resident |= resident_.contains(t.buffer);
    const bool whole = IsConstant(nest_, work);
    const int64_t trip = work.trip / work.lanes, blocks = IsOfEachBlock({outermost}) ? 1 : blocks_,
                  all = threads_ * blocks, parts = (trip + all - 1) / all;
    is_apart_ |= has_resident && blocks != blocks_;
    const Affine begin = (parts > 1 ? Affine::OfVar(part, all) : Affine(0)) +
                         (blocks > 1 ? Affine::OfVar(rank_, threads_) : Affine(0));
    for (const BufferId id : resident_) resident[id] = parts > 1 ? Affine::OfVar(part) : Affine(0);
    if (work.lanes > 1 || has_resident)
      TakeLanes(nest_, work.loops.back(), work.lanes, own, resident);
    const StmtId loop = work.loops.size() > 1 ? Merge(nest_, work.loops) : work.loops.back();
    StmtId dealt = loop;
    if (!whole) {
      is_apart_ |= InCluster();
      dealt = Deal(nest_, loop, LoopKind::kSerial, along_, threads_);
    } else {
      Stmt& s = nest_.stmts[loop.index];
      s.lo = {begin}, s.hi = {trip};
      if (blocks > 1 || parts > 1) {
        s.hi = {begin + threads_};
        if (trip % all != 0) s.hi.emplace_back(trip);
      }
      s.loop = along_;
      if (parts > 1)
        dealt = loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                       .var = part,
                                       .lo = {0},
                                       .hi = {parts},
                                       .loop = has_resident ? LoopKind::kUnroll : LoopKind::kSerial,
                                       .body = {loop}});
    }
    if (work.loops.size() > 1 || work.loops[0] == outermost) return dealt;
    Replace(nest_, nest_.stmts[outermost.index].body, work.loops[0], dealt);
    return outermost;
  }

  // Does one list write what the other touches, outside of a thread's own?
  bool Meet(const std::vector<Touch>& a, const std::vector<Touch>& b) const {
    return std::ranges::any_of(a, [&](const Touch& x) {
      return !own_.contains(x.buffer) && std::ranges::any_of(b, [&](const Touch& y) {
        return x.buffer == y.buffer && (x.is_write || y.is_write);
      });
    });
  }

  // So that blocks have to meet.
  bool MeetsOperand(std::vector<Touch> a, const std::vector<Touch>& b) const {
    std::erase_if(a, [this](const Touch& t) { return !IsOperand(t.buffer); });
    return Meet(a, b);
  }

  BufferId AddLocal(std::string_view name, Dtype dtype, std::vector<Affine> shape, Space space) {
    const size_t rank = shape.size();
    return loops::AddBuffer(nest_, {.name = fmt::format("{}{}", name, reductions_),
                                    .dtype = dtype,
                                    .shape = std::move(shape),
                                    .layout = Layout::Plain(rank),
                                    .space = space});
  }

  // Each thread's share in registers, one for each of its lanes; warps fold theirs by exchanges,
  // and all threads what the warps have, so that each has the sum.
  std::vector<StmtId> Reduce(StmtId outermost, const Work& work) {
    const Stmt store = nest_[work.store];
    const Dtype dtype = nest_[store.value].dtype;
    const BufferId share = AddLocal("share", dtype, {}, Space::kRegister),
                   sum = AddLocal("sum", dtype, {}, Space::kRegister),
                   other = AddLocal("other", dtype, {}, Space::kRegister);
    own_.insert({share, sum, other});
    Redirect(nest_, work.store, share);
    const StmtId loops = Threads(outermost, work, {share});
    const auto share_of = [&](int64_t lane) {
      return work.lanes > 1 ? std::vector<Affine>{lane} : std::vector<Affine>{};
    };
    std::vector<StmtId> piece;
    for (int64_t k = 0; k < work.lanes; ++k)
      piece.push_back(
          Put(share, share_of(k), loops::AddLiteral(nest_, dtype, IdentityOf(work.op))));
    piece.push_back(loops);
    piece.push_back(Put(sum, {}, loops::AddLoad(nest_, share, share_of(0))));
    for (int64_t k = 1; k < work.lanes; ++k)
      piece.push_back(AddTo(nest_, work.op, sum, {}, loops::AddLoad(nest_, share, share_of(k))));
    FoldThreads(work.op, sum, other, piece);
    ++reductions_;
    const StmtId result =
        AddTo(nest_, work.op, store.buffer, store.index, loops::AddLoad(nest_, sum, {}));
    const bool together = replicated_.contains(store.buffer);
    piece.push_back(together ? result : Alone({result}));
    return piece;
  }

  // By one thread, of a row or of each column. In a cluster, what stays in a block is for each of
  // them, and the rest for the first.
  StmtId Alone(std::vector<StmtId> body) {
    if (InCluster()) {
      for (StmtId& id : body) {
        if (!Writes({id}, true)) continue;
        is_apart_ |= Writes({id}, false);
        id = loops::AddStmt(
            nest_, {.kind = StmtKind::kIf, .conditions = {-Affine::OfVar(rank_)}, .body = {id}});
      }
    }
    if (!InColumns()) return AddSingle(nest_, std::move(body));
    return loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                  .var = loops::AddVar(nest_, "one"),
                                  .lo = {0},
                                  .hi = {1},
                                  .loop = along_,
                                  .body = std::move(body)});
  }

  // A sum is the same in both orders, so that after exchanges all threads of a warp have the same.
  // The larger of two zeros is whichever comes first: then all threads take what one has.
  // Threads of one column are of several warps: they meet in shared memory alone.
  void FoldThreads(ScalarOp op, BufferId sum, BufferId other, std::vector<StmtId>& piece) {
    const int64_t each = InColumns() ? 1 : kWarp, parts = threads_ / each;
    const bool ordered = op == ScalarOp::kMin || op == ScalarOp::kMax;
    const BufferId part = AddLocal("part", nest_[sum].dtype, {Affine(parts)}, Space::kShared);
    const Var t = loops::AddVar(nest_, "thread");
    const Affine thread = Affine::OfVar(t);
    std::vector<StmtId> body;
    for (auto across = static_cast<int32_t>(each / 2); across > 0; across /= 2) {
      body.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kStore,
                                            .buffer = other,
                                            .value = loops::AddLoad(nest_, sum, {}),
                                            .across = across}));
      body.push_back(AddTo(nest_, op, sum, {}, loops::AddLoad(nest_, other, {})));
    }
    const bool meet = parts > 1 || ordered;
    if (meet) {
      StmtId put = Put(part, {FloorDiv(thread, each)}, loops::AddLoad(nest_, sum, {}));
      if (each > 1)
        put = loops::AddStmt(
            nest_, {.kind = StmtKind::kIf, .conditions = {-Mod(thread, each)}, .body = {put}});
      body.push_back(put);
    }
    piece.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                           .var = t,
                                           .lo = {0},
                                           .hi = {threads_},
                                           .loop = along_,
                                           .body = std::move(body)}));
    if (meet) {
      piece.push_back(AddBarrier(nest_));
      AddUp(op, sum, part, parts, piece);
    }
    if (!InCluster()) return;
    const BufferId slices =
        AddLocal("slices", nest_[sum].dtype, {Affine(blocks_)}, Space::kCluster);
    piece.push_back(
        AddSingle(nest_, {Put(slices, {Affine::OfVar(rank_)}, loops::AddLoad(nest_, sum, {}))}));
    piece.push_back(AddClusterBarrier());
    AddUp(op, sum, slices, blocks_, piece);
  }

  // The sum of so many cells, in their order.
  void AddUp(ScalarOp op, BufferId sum, BufferId cells, int64_t count, std::vector<StmtId>& piece) {
    piece.push_back(Put(sum, {}, loops::AddLoad(nest_, cells, {0})));
    for (int64_t k = 1; k < count; ++k)
      piece.push_back(AddTo(nest_, op, sum, {}, loops::AddLoad(nest_, cells, {k})));
  }

  StmtId Put(BufferId buffer, std::vector<Affine> index, ExprId value) {
    return loops::AddStmt(
        nest_,
        {.kind = StmtKind::kStore, .buffer = buffer, .index = std::move(index), .value = value});
  }

  LoopNest nest_;
  RowSizes most_;
  LoopKind along_ = LoopKind::kThreadX;  // of a row's threads; those of columns are along x
  std::optional<ColumnSizes> wanted_;
  int64_t columns_ = 1, threads_ = kWarp;  // of a block, and of a row or a column
  int64_t blocks_ = 1;                     // of a row
  Var rank_ = -1;                          // of a block, if a row has several
  bool is_apart_ = false;                  // blocks would have to hand on what stays in each
  int64_t registers_ = 0;                  // that are taken for what a thread has of a row
  std::map<StmtId, Work> works_;           // by the outermost loop of its chain
  std::set<BufferId> own_;                 // of threads; other locals are shared by the block
  std::set<BufferId> replicated_;          // of those, what all compute
  std::set<BufferId> resident_;            // and what each has a part of
  int64_t longest_ = 1;
  Moves moves_;
  int reductions_ = 0;
};

}  // namespace

bool ColumnSizes::IsValid() const {
  const int64_t all = columns * threads;
  return columns > 1 && columns <= kMostThreads && threads > 1 && threads <= kMostThreads &&
         all <= kMostThreads && all % kWarp == 0;
}

std::optional<Rows> MapRows(LoopNest nest, StmtId outermost, const RowSizes& most) {
  auto rows = Mapper(nest, most).Run(outermost);
  if (rows || !most.clusters || most.blocks) return rows;
  RowSizes one = most;
  one.clusters = false;
  return Mapper(std::move(nest), one).Run(outermost);
}

std::optional<Rows> MapColumns(LoopNest nest, StmtId outermost,
                               const std::optional<ColumnSizes>& wanted) {
  return Mapper(std::move(nest), wanted).Run(outermost);
}

}  // namespace weft::polyhedral::cuda
