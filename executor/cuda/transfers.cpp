#include "executor/cuda/transfers.h"

#include <algorithm>
#include <array>

#include "plan/memory.h"

namespace weft::executor::cuda {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::StepKind;

class Actions {
 public:
  Actions(const plan::Specialization& s, Side caller) : s_(s), at_(s.buffers.size()) {
    for (size_t i = 0; i < s.buffers.size(); ++i) {
      if (s.buffers[i].kind == BufferKind::kWeight) at_[i] = {true, true};
      if (s.buffers[i].kind == BufferKind::kInput) at_[i][Index(caller)] = true;
    }
  }

  std::vector<Action> Run(Side caller) {
    for (size_t i = 0; i < s_.steps.size(); ++i) AddStep(i);
    for (const BufferId id : s_.outputs) Need(id, caller);
    return std::move(actions_);
  }

 private:
  static size_t Index(Side side) { return static_cast<size_t>(side); }

  void AddStep(size_t i) {
    const plan::Step& step = s_.steps[i];
    if (step.kind == StepKind::kView) return;
    const bool is_launch = RunsOnDevice(step);
    const Side side = is_launch ? Side::kDevice : Side::kHost;
    for (const BufferId id : step.inputs) Need(id, side);
    // Where a step writes what another has written before, as through an alias, it may keep part of
    // it.
    for (const BufferId id : step.outputs) Need(id, side);
    actions_.push_back(
        {.kind = is_launch ? Action::Kind::kLaunch : Action::Kind::kHostStep, .step = i});
    for (const BufferId id : step.outputs)
      if (HasBytes(id)) {
        std::array<bool, 2>& at = at_[plan::OwnerOf(s_, id).index];
        at = {};
        at[Index(side)] = true;
      }
  }

  bool HasBytes(BufferId id) const {
    return id.valid() && !IsHeld(s_.buffers[id.index]) && s_.buffers[id.index].bytes > 0;
  }

  void Need(BufferId id, Side side) {
    if (!HasBytes(id)) return;
    const BufferId owner = plan::OwnerOf(s_, id);
    std::array<bool, 2>& at = at_[owner.index];
    if (at[Index(side)] || (!at[0] && !at[1])) return;
    actions_.push_back(
        {.kind = side == Side::kDevice ? Action::Kind::kToDevice : Action::Kind::kToHost,
         .buffer = owner});
    at[Index(side)] = true;
  }

  const plan::Specialization& s_;
  std::vector<std::array<bool, 2>>
      at_;  // by owner and side: what is there is what was written last
  std::vector<Action> actions_;
};

}  // namespace

bool RunsOnDevice(const plan::Step& step) {
  return step.kind == StepKind::kOwn ||
         (step.kind == StepKind::kVendor && fallback::IsOnDevice(step.call.library));
}

std::vector<Action> ActionsOf(const plan::Specialization& s, Side caller) {
  return Actions(s, caller).Run(caller);
}

}  // namespace weft::executor::cuda
