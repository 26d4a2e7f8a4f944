// What is done on a device and what on the host, and the copies between the two.
//
// Own kernels and calls of a device's libraries run on the device, everything else on the host. The
// arena is there twice, with the same offsets, and so are inputs and outputs; weights are on both
// sides from the start. A buffer is copied when a step reads it on the side where it is not, and at
// the end if it is an output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace weft::executor::cuda {

bool RunsOnDevice(const plan::Step& step);

enum class Side : uint8_t { kHost, kDevice };

struct Action {
  enum class Kind : uint8_t { kLaunch, kHostStep, kToDevice, kToHost };
  Kind kind = Kind::kLaunch;
  size_t step = 0;        // kLaunch, kHostStep: in the specialization
  plan::BufferId buffer;  // kToDevice, kToHost: one that has memory of its own
  bool operator==(const Action&) const = default;
};

// In the order in which they are to be done. Inputs lie and outputs are wanted at `caller`, those
// that are no bytes at an address (plan.h, IsHeld) always on the host. The plan must verify.
std::vector<Action> ActionsOf(const plan::Specialization& s, Side caller);

}  // namespace weft::executor::cuda
