// Kernels as a compiler would make them, built as a shared object whose bytes a test gives the
// executor.
#include <immintrin.h>

#include <atomic>
#include <cstring>

#include "plan/kernel_abi.h"

using weft::KernelArgs;

namespace {
constexpr int64_t kElems = 64;

template <typename T>
T* Operand(const KernelArgs* args, int i) {
  return static_cast<T*>(args->buffers[i]);
}

// The elements of one rank: a contiguous block.
template <typename Body>
void Split(uint32_t rank, uint32_t size, const Body& body) {
  for (int64_t i = kElems * rank / size; i < kElems * (rank + 1) / size; ++i) body(i);
}
}  // namespace

extern "C" {

// y[i] = x[i] + 1
void add_one(const KernelArgs* args, uint32_t rank, uint32_t size) {
  Split(rank, size,
        [&](int64_t i) { Operand<float>(args, 1)[i] = Operand<float>(args, 0)[i] + 1; });
}

// y[0] and y[1]: how far x and y are from the last multiple of 64
void tell_places(const KernelArgs* args, uint32_t rank, uint32_t) {
  for (int i = 0; rank == 0 && i < 2; ++i)
    Operand<float>(args, 1)[i] =
        static_cast<float>(reinterpret_cast<uintptr_t>(args->buffers[i]) % 64);
}

// y[i] = x[63 - i] * w[i]: reads what other ranks wrote in the step before
void flip_scale(const KernelArgs* args, uint32_t rank, uint32_t size) {
  Split(rank, size, [&](int64_t i) {
    Operand<float>(args, 2)[i] =
        Operand<float>(args, 0)[kElems - 1 - i] * Operand<float>(args, 1)[i];
  });
}

// y[i] = sum of x, through the scratch of the team, that of each rank, and a barrier
void sum_all(const KernelArgs* args, uint32_t rank, uint32_t size) {
  float* own = reinterpret_cast<float*>(static_cast<char*>(args->rank_scratch) +
                                        rank * args->rank_scratch_stride);
  own[0] = 0;
  Split(rank, size, [&](int64_t i) { own[0] += Operand<float>(args, 0)[i]; });
  static_cast<float*>(args->team_scratch)[rank] = own[0];
  args->barrier(args->barrier_data);
  float sum = 0;
  for (uint32_t r = 0; r < size; ++r) sum += static_cast<float*>(args->team_scratch)[r];
  Split(rank, size, [&](int64_t i) { Operand<float>(args, 1)[i] = sum; });
}

// y[i] = table[index[i]], with the check that a nest's `let` makes
void gather(const KernelArgs* args, uint32_t rank, uint32_t size) {
  Split(rank, size, [&](int64_t i) {
    int64_t at = Operand<int64_t>(args, 1)[i];
    if (at < 0 || at >= kElems) {
      uint64_t none = 0;
      if (__atomic_compare_exchange_n(&args->fault->code, &none, 1, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
        args->fault->operand = 0;
        args->fault->found = at;
      }
      at = 0;
    }
    Operand<float>(args, 2)[i] = Operand<float>(args, 0)[at];
  });
}

// Runs until it is cancelled; y[0] counts how often it was entered.
void wait_for_cancel(const KernelArgs* args, uint32_t rank, uint32_t) {
  if (rank == 0) Operand<float>(args, 1)[0] += 1;
  while (__atomic_load_n(args->cancel, __ATOMIC_RELAXED) == 0) _mm_pause();
}

// y[0] = the control word that the kernel ran under; y[1] = 1 if all operands are on lines of their
// own
void float_mode(const KernelArgs* args, uint32_t rank, uint32_t) {
  if (rank != 0) return;
  Operand<float>(args, 1)[0] = static_cast<float>(_mm_getcsr() & 0xffc0);
  const auto at = [&](int i) { return reinterpret_cast<uintptr_t>(args->buffers[i]); };
  Operand<float>(args, 1)[1] = (at(0) | at(1)) % 64 == 0;
}

}  // extern "C"
