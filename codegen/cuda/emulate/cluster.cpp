#include "codegen/cuda/emulate/cluster.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

constexpr std::byte kPattern{0xff};  // NaN in every floating type, and an index out of range

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::Make(const EmulatedKernel& kernel, ThreadState& state,
                                               ThreadState::Dim threads, int64_t stack_bytes) {
  std::unique_ptr<Cluster> cluster(new Cluster(kernel, state));
  cluster->members_.resize(kernel.cluster);
  for (Member& m : cluster->members_) {
    WEFT_TRY(m.block, Block::Make(state, threads, stack_bytes));
    m.shared.resize(static_cast<size_t>(kernel.shared_end - kernel.shared_begin));
  }
  return cluster;
}

Status Cluster::Run(void* const* arguments) {
  state_.cluster = this;
  state_.of_block = OfBlock;
  for (Member& m : members_) {
    m.block->Start(kernel_.entry, arguments);
    std::ranges::fill(m.shared, kPattern);
  }
  const uint32_t first = state_.block_index.x;
  for (;;) {
    for (current_ = 0; current_ < members_.size(); ++current_) {
      state_.block_index.x = first + current_;
      WEFT_TRY(GoOn(members_[current_]));
    }
    state_.block_index.x = first;
    const auto [least, most] = std::ranges::minmax_element(members_, {}, &Member::line);
    if (least->line != most->line)
      return Internal(fmt::format("a barrier that not all blocks of a cluster reach, at line {}{}",
                                  most->line,
                                  least->line > 0 ? fmt::format(" and {}", least->line) : ""));
    if (most->line == 0) return {};
  }
}

Status Cluster::GoOn(Member& member) {
  std::ranges::copy(member.shared, kernel_.shared_begin);
  member.is_there = true;
  WEFT_TRY(member.line, member.block->GoOn());
  member.is_there = member.line > 0;
  std::copy(kernel_.shared_begin, kernel_.shared_end, member.shared.begin());
  if (astray_)
    return Internal("a block reads shared memory of one that has not begun, or has ended");
  return {};
}

const void* Cluster::OfBlock(void* cluster, const void* own, uint32_t block) {
  Cluster& c = *static_cast<Cluster*>(cluster);
  if (block == c.current_) return own;
  if (block < c.members_.size() && c.members_[block].is_there)
    return c.members_[block].shared.data() +
           (static_cast<const std::byte*>(own) - c.kernel_.shared_begin);
  c.astray_ = true;
  return own;
}

}  // namespace weft::codegen::cuda
