#include "plan/memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "base/memory.h"

namespace weft::plan {
namespace {

constexpr int64_t kAlign = 64;

int64_t RoundUp(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Where a large buffer of this step's begins, within a period (base/memory.h): other steps' results
// that it reads begin elsewhere, and so do inputs and outputs.
int64_t PhaseOf(const Buffer& b) { return b.first_step % 2 ? 768 : 1792; }

// The lowest place for it from `offset` on.
int64_t Place(const Buffer& b, int64_t offset) {
  if (b.bytes < kLeastPhasedBytes) return offset;
  const int64_t ahead = (PhaseOf(b) - offset) % kPhasePeriodBytes;
  return offset + (ahead < 0 ? ahead + kPhasePeriodBytes : ahead);
}

bool IsPlanned(const Buffer& b) {
  return b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded;
}

void SetLifetimes(Specialization& s) {
  const auto last = static_cast<int32_t>(std::max<size_t>(s.steps.size(), 1)) - 1;
  for (Buffer& b : s.buffers) {
    // What the caller gives and weights live all the time; the rest begins with its first use.
    const bool passes =
        IsPlanned(b) || b.kind == BufferKind::kAlias || b.kind == BufferKind::kDynamic;
    b.first_step = passes ? last : 0;
    b.last_step = passes ? 0 : last;
  }
  const auto touch = [&](BufferId id, int32_t step) {
    while (id.valid()) {
      Buffer& b = s.buffers[id.index];
      b.first_step = std::min(b.first_step, step);
      b.last_step = std::max(b.last_step, step);
      id = b.kind == BufferKind::kAlias ? b.alias : BufferId();
    }
  };
  for (size_t i = 0; i < s.steps.size(); ++i) {
    for (BufferId id : s.steps[i].inputs) touch(id, static_cast<int32_t>(i));
    for (BufferId id : s.steps[i].outputs) touch(id, static_cast<int32_t>(i));
  }
  for (BufferId id : s.outputs) touch(id, last);
  for (Buffer& b : s.buffers) b.last_step = std::max(b.first_step, b.last_step);
}

// Offsets for the buffers in this order, each at the tightest gap that holds it; how many bytes all
// take.
int64_t PlaceAll(Specialization& s, const std::vector<size_t>& order) {
  std::vector<const Buffer*> placed;  // by offset
  int64_t arena = 0;
  for (size_t i : order) {
    Buffer& b = s.buffers[i];
    const int64_t need = RoundUp(b.bytes);
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (const Buffer* p : placed) {
      if (p->last_step < b.first_step || p->first_step > b.last_step) continue;
      const int64_t at = Place(b, end), gap = p->offset - end;
      if (p->offset - at >= need && gap < best_gap) {
        best = at;
        best_gap = gap;
      }
      end = std::max(end, p->offset + RoundUp(p->bytes));
    }
    b.offset = best >= 0 ? best : Place(b, end);
    arena = std::max(arena, b.offset + need);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &b,
                         [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; }),
        &b);
  }
  return arena;
}

}  // namespace

Status PlanMemory(Specialization& s) {
  SetLifetimes(s);
  std::vector<size_t> planned;
  for (size_t i = 0; i < s.buffers.size(); ++i)
    if (IsPlanned(s.buffers[i])) planned.push_back(i);
  // Big ones are the hardest to place, those that live long are in many others' way, and where all
  // come as they are made the last one fits behind those that it follows. Which is best depends on
  // the network.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  const std::array<Key (*)(const Buffer&), 4> keys = {
      [](const Buffer& b) { return Key(-b.bytes, b.first_step - b.last_step, 0); },
      [](const Buffer& b) { return Key(b.first_step - b.last_step, -b.bytes, b.first_step); },
      [](const Buffer& b) { return Key(b.first_step, -b.bytes, b.first_step - b.last_step); },
      [](const Buffer& b) { return Key(-b.last_step, -b.bytes, b.first_step - b.last_step); }};
  constexpr int64_t kEffort = 1 << 22;  // buffers compared, after a first placement
  constexpr int64_t kMostRounds = 64;
  const auto count = static_cast<int64_t>(std::max<size_t>(1, planned.size()));
  int64_t rounds = std::min(kMostRounds, kEffort / count / count);
  const int64_t enough = MaximumLiveBytes(s) / 100 * 101;
  std::vector<int64_t> offsets(s.buffers.size());
  s.arena_bytes = INT64_MAX;
  for (const auto key : keys) {
    std::vector<size_t> order = planned;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return key(s.buffers[i]); });
    // What ends last is placed sooner next time.
    for (int64_t round = 0; round <= kMostRounds / 4; ++round) {
      const int64_t arena = PlaceAll(s, order);
      if (arena < s.arena_bytes) {
        s.arena_bytes = arena;
        for (size_t i : planned) offsets[i] = s.buffers[i].offset;
      }
      if (s.arena_bytes <= enough || --rounds < 0) break;
      const auto last = std::ranges::max_element(
          order, {}, [&](size_t i) { return s.buffers[i].offset + s.buffers[i].bytes; });
      std::rotate(order.begin(), last, last + 1);
    }
    if (s.arena_bytes <= enough || rounds < 0) break;
  }
  for (size_t i : planned) s.buffers[i].offset = offsets[i];
  return {};
}

int64_t NeededBytes(const Plan& plan, const Specialization& s, int32_t threads) {
  int64_t bytes = s.arena_bytes, rank_bytes = 0, team_bytes = 0, all_ranks = 0;
  const auto add = [&](int64_t more) {  // a file may ask for anything
    if (__builtin_add_overflow(bytes, more, &bytes)) bytes = INT64_MAX;
  };
  for (const Buffer& b : s.buffers)
    if (b.kind == BufferKind::kWeight || b.kind == BufferKind::kInput ||
        b.kind == BufferKind::kOutput)
      add(b.bytes);
  for (const Kernel& k : plan.kernels) {
    rank_bytes = std::max(rank_bytes, k.rank_scratch_bytes);
    team_bytes = std::max(team_bytes, k.team_scratch_bytes);
  }
  if (__builtin_mul_overflow(rank_bytes, threads, &all_ranks)) all_ranks = INT64_MAX;
  add(all_ranks);
  add(team_bytes);
  return bytes;
}

BufferId OwnerOf(const Specialization& s, BufferId id) {
  while (s.buffers[id.index].kind == BufferKind::kAlias) id = s.buffers[id.index].alias;
  return id;
}

int64_t MaximumLiveBytes(const Specialization& s) {
  std::vector<int64_t> change(s.steps.size() + 2, 0);
  for (const Buffer& b : s.buffers)
    if (IsPlanned(b)) {
      change[static_cast<size_t>(b.first_step)] += b.bytes;
      change[static_cast<size_t>(b.last_step) + 1] -= b.bytes;
    }
  int64_t live = 0, most = 0;
  for (int64_t c : change) most = std::max(most, live += c);
  return most;
}

}  // namespace weft::plan
