#include "codegen/reference/memory.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace weft::codegen {

using loops::Buffer;
using loops::BufferId;
using loops::Space;

CheckedMemory::CheckedMemory(const loops::LoopNest& nest, std::span<void* const> operands,
                             std::span<const int64_t> params, Actors actors, bool check)
    : nest_(nest) {
  size_t operand = 0;
  for (const Buffer& buffer : nest.buffers) {
    Block b;
    const int64_t bytes = loops::BufferBytes(buffer, {params.begin(), params.end()});
    b.elems = bytes / SizeBytes(buffer.dtype) * (SharesBytes(buffer.dtype) ? 2 : 1);
    for (const Affine& extent : buffer.shape) b.shape.push_back(extent.Eval(params));
    if (buffer.space == Space::kShared) b.copies = Copies::kPerBlock;
    if (buffer.space == Space::kCache || buffer.space == Space::kRegister)
      b.copies = Copies::kPerThread;
    const int64_t copies =
        CopyOf(b, {.block = actors.blocks - 1, .thread = actors.threads - 1}) + 1;
    b.is_local = buffer.access == loops::Access::kLocal && buffer.space != Space::kGrid;
    if (buffer.access != loops::Access::kLocal) {
      b.data = static_cast<std::byte*>(operands[operand++]);
      b.initialised = buffer.access != loops::Access::kOut;
    } else {
      b.copy_bytes = (bytes + 63) / 64 * 64;
      b.owned.resize(static_cast<size_t>(b.copy_bytes * copies));
      b.data = b.owned.data();
    }
    if (check && buffer.access != loops::Access::kIn)
      b.touches.resize(static_cast<size_t>(b.elems * copies));
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
    for (Touch& t : b.touches) t = {.written = t.written || t.writer.phase > 0};
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
  if (t.writer.phase == 0 && !t.written && !b.initialised)
    return bad("is read before it is written");
  if (IsRace(t.writer, actor))
    return bad("is written by one and read by another without a barrier between them");
  const Actor before = std::exchange(t.reader, actor);
  if (!IsRace(before, actor)) return {};
  // Whoever writes now must come after all of them.
  t.reader.thread = kSeveral;
  if (before.block != actor.block) t.reader.block = kSeveral;
  if (before.cluster != actor.cluster) t.reader.cluster = kSeveral;
  return {};
}

bool CheckedMemory::IsRace(const Actor& before, const Actor& actor) {
  if (before.phase == 0) return false;
  if (before.cluster != actor.cluster) return true;
  if (before.block != actor.block) return before.round == actor.round;
  return before.phase == actor.phase && before.thread != actor.thread;
}

Status CheckedMemory::Write(BufferId id, std::span<const int64_t> index, int64_t offset,
                            const Actor& actor) {
  Block& b = blocks_[id.index];
  const Buffer& buffer = nest_[id];
  WEFT_TRY(Inside(b, buffer, index));
  if (b.touches.empty()) return {};
  Touch& t = TouchOf(b, offset, actor);
  if (IsRace(t.writer, actor) || IsRace(t.reader, actor)) {
    return Internal(fmt::format(
        "{}[{}] is written by one and touched by another without a barrier between them",
        PrintName(buffer.name), fmt::join(index, ", ")));
  }
  t.writer = actor;
  return {};
}

}  // namespace weft::codegen
