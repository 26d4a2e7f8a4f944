#include "base/threads/barrier.h"

#include <atomic>

#include "base/check.h"
#include "base/threads/spinner.h"

namespace weft {
namespace {

constexpr size_t kLineBytes = 64;

}  // namespace

// The phase takes the part of the sense: it differs from round to round, and whoever arrives last
// turns it. The two counters lie on lines of their own, so that arriving does not disturb the
// waiting.
struct Barrier::State {
  alignas(kLineBytes) std::atomic<uint32_t> arrived = 0;
  alignas(kLineBytes) std::atomic<uint32_t> phase = 0;
  uint32_t size = 1;
};

Barrier::Barrier(uint32_t size) : state_(std::make_unique<State>()) { SetSize(size); }
Barrier::~Barrier() = default;

void Barrier::SetSize(uint32_t size) {
  WEFT_CHECK(size >= 1, "a barrier for nobody");
  state_->size = size;
}

void Barrier::Wait() {
  State& s = *state_;
  if (s.size == 1) return;
  const uint32_t phase = s.phase.load(std::memory_order_relaxed);
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == s.size) {
    s.arrived.store(0, std::memory_order_relaxed);
    s.phase.store(phase + 1, std::memory_order_release);
    return;
  }
  for (Spinner spinner; s.phase.load(std::memory_order_acquire) == phase;) spinner.Once();
}

}  // namespace weft
