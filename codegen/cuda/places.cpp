#include "codegen/cuda/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace weft::codegen::cuda {
namespace {

// CUDA C++ Programming Guide: static shared memory of a block, local memory of a thread.
constexpr int64_t kSharedBytes = 48 << 10, kLocalBytes = 512 << 10;
constexpr int64_t kAlign = 16;  // the widest access

int64_t RoundUp(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// By buffer, whether a statement names it.
std::vector<bool> Named(const loops::LoopNest& nest) {
  std::vector<bool> named(nest.buffers.size(), false), done(nest.exprs.size(), false);
  std::vector<loops::ExprId> values;
  std::vector<loops::StmtId> todo = nest.body;
  while (!todo.empty()) {
    const loops::Stmt& s = nest[todo.back()];
    todo.pop_back();
    todo.insert(todo.end(), s.body.begin(), s.body.end());
    todo.insert(todo.end(), s.otherwise.begin(), s.otherwise.end());
    if (s.buffer.valid()) named[static_cast<size_t>(s.buffer.index)] = true;
    if (s.value.valid()) values.push_back(s.value);
  }
  while (!values.empty()) {
    const auto id = static_cast<size_t>(values.back().index);
    values.pop_back();
    if (done[id]) continue;
    done[id] = true;
    const loops::Expr& e = nest.exprs[id];
    values.insert(values.end(), e.args.begin(), e.args.end());
    if (e.kind == loops::ExprKind::kLoad) named[static_cast<size_t>(e.buffer.index)] = true;
  }
  return named;
}

}  // namespace

Result<Places> PlaceBuffers(const loops::LoopNest& nest) {
  Places places{.of = std::vector<Place>(nest.buffers.size(), Place::kOperand),
                .offsets = std::vector<int64_t>(nest.buffers.size(), 0)};
  const auto bytes_of = [&](size_t i) {
    return RoundUp(loops::BufferBytes(loops::SliceOf(nest.buffers[i]), {}));
  };
  const auto is_slice = [&](size_t i) { return nest.buffers[i].space == loops::Space::kCluster; };
  const std::vector<bool> named = Named(nest);
  std::vector<size_t> order(nest.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return nest.buffers[i].space == loops::Space::kGlobal; });
  std::ranges::stable_sort(order, {}, bytes_of);
  std::ranges::stable_partition(order, is_slice);
  for (const size_t i : order) {
    const int64_t bytes = bytes_of(i);
    if (nest.buffers[i].space == loops::Space::kGrid) {
      places.of[i] = Place::kGrid;
      places.offsets[i] = places.grid_bytes;
      places.grid_bytes += bytes;
    } else if (!named[i]) {
      places.of[i] = Place::kNowhere;
    } else if (nest.buffers[i].space != loops::Space::kShared && !is_slice(i)) {
      places.of[i] = Place::kThread;
      places.local_bytes += bytes;
    } else if (places.shared_bytes + bytes <= kSharedBytes) {
      places.of[i] = Place::kShared;
      places.shared_bytes += bytes;
    } else if (is_slice(i)) {
      return Limit(fmt::format(
          "nest {}: a block has {} bytes of shared memory, too few for its slices up to {}",
          nest.name, kSharedBytes, PrintName(nest.buffers[i].name)));
    } else {
      places.of[i] = Place::kScratch;
      places.offsets[i] = places.scratch_bytes;
      places.scratch_bytes += bytes;
    }
  }
  if (places.local_bytes > kLocalBytes) {
    return Limit(fmt::format("nest {}: a thread wants {} bytes of its own, at most {}", nest.name,
                             places.local_bytes, kLocalBytes));
  }
  return places;
}

}  // namespace weft::codegen::cuda
