#include "codegen/reference/memory.h"

#include <fmt/format.h>

#include "base/text.h"

namespace weft::codegen {

using loops::Buffer;
using loops::BufferId;
using loops::Space;

CheckedMemory::CheckedMemory(const loops::LoopNest& nest, std::span<void* const> operands,
                             std::span<const int64_t> params, int32_t actors, bool check)
    : nest_(nest) {
  size_t operand = 0;
  for (const Buffer& buffer : nest.buffers) {
    Block b;
    const int64_t bytes = loops::BufferBytes(buffer, {params.begin(), params.end()});
    b.elems = bytes / SizeBytes(buffer.dtype) * (SharesBytes(buffer.dtype) ? 2 : 1);
    for (const Affine& extent : buffer.shape) b.shape.push_back(extent.Eval(params));
    b.is_private = buffer.space == Space::kCache || buffer.space == Space::kRegister;
    b.is_local = buffer.access == loops::Access::kLocal && buffer.space != Space::kGrid;
    if (buffer.access != loops::Access::kLocal) {
      b.data = static_cast<std::byte*>(operands[operand++]);
      b.initialised = buffer.access != loops::Access::kOut;
    } else {
      b.actor_bytes = b.is_private ? (bytes + 63) / 64 * 64 : 0;
      b.owned.resize(static_cast<size_t>(b.is_private ? b.actor_bytes * actors : bytes));
      b.data = b.owned.data();
    }
    if (check && buffer.access != loops::Access::kIn) {
      b.touches.resize(static_cast<size_t>(b.elems * (b.is_private ? actors : 1)));
    }
    blocks_.push_back(std::move(b));
  }
}

void CheckedMemory::ForgetLocals() {
  for (Block& b : blocks_) {
    if (b.is_local) b.touches.assign(b.touches.size(), {});
  }
}

void CheckedMemory::NextLaunch() {
  for (Block& b : blocks_)
    for (Touch& t : b.touches) t = {.written = t.written || t.writer >= 0};
}

Status CheckedMemory::Inside(const Block& b, const Buffer& buffer,
                             std::span<const int64_t> index) const {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    if (index[axis] >= 0 && index[axis] < b.shape[axis]) continue;
    return Internal(fmt::format("{}[{}] lies outside {}", PrintName(buffer.name),
                                fmt::join(index, ", "), weft::Print(b.shape)));
  }
  return {};
}

Status CheckedMemory::Read(BufferId id, std::span<const int64_t> index, int64_t offset,
                           const Actor& actor) {
  Block& b = blocks_[id.index];
  const Buffer& buffer = nest_[id];
  WEFT_TRY(Inside(b, buffer, index));
  if (b.touches.empty()) return {};
  Touch& t = TouchOf(b, offset, actor);
  const auto bad = [&](std::string_view what) {
    return Internal(fmt::format("{}[{}] {}", PrintName(buffer.name), fmt::join(index, ", "), what));
  };
  if (t.writer < 0 && !t.written && !b.initialised) return bad("is read before it is written");
  if (b.is_private) return {};
  if (t.writer >= 0 && (t.write_block != actor.block ||
                        (t.write_phase == actor.phase && t.writer != actor.thread))) {
    return bad("is written by one and read by another without a barrier between them");
  }
  const bool same_time = t.read_block == actor.block && t.read_phase == actor.phase;
  t.reader = same_time && t.reader != actor.thread && t.reader != -1 ? -2 : actor.thread;
  t.read_block = t.read_phase == 0 || t.read_block == actor.block ? actor.block : kSeveral;
  t.read_phase = actor.phase;
  return {};
}

Status CheckedMemory::Write(BufferId id, std::span<const int64_t> index, int64_t offset,
                            const Actor& actor) {
  Block& b = blocks_[id.index];
  const Buffer& buffer = nest_[id];
  WEFT_TRY(Inside(b, buffer, index));
  if (b.touches.empty()) return {};
  Touch& t = TouchOf(b, offset, actor);
  const auto other = [&](int32_t who, int64_t block, uint32_t phase) {
    return phase > 0 && (block != actor.block || (phase == actor.phase && who != actor.thread));
  };
  const bool race =
      other(t.writer, t.write_block, t.write_phase) || other(t.reader, t.read_block, t.read_phase);
  if (race && !b.is_private) {
    return Internal(fmt::format(
        "{}[{}] is written by one and touched by another without a barrier between them",
        PrintName(buffer.name), fmt::join(index, ", ")));
  }
  t.writer = actor.thread;
  t.write_block = actor.block;
  t.write_phase = actor.phase;
  return {};
}

}  // namespace weft::codegen
