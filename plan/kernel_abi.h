// How compiled kernels are called: the one contract between generated machine code and the
// executor.
//
// A CPU kernel is SPMD: every rank of a team calls it with the same KernelArgs and its own rank. It
// is right for every size >= 1. Layout is plain C; generated code addresses the fields by offset.
#pragma once

#include <stdint.h>

namespace weft {

struct KernelFault {
  // 0 none; 1 an index left its operand; 2 another integer left its range, computed from the
  // operand. The first fault wins: set by compare-and-swap from 0.
  uint64_t code;
  uint64_t operand;  // position of the buffer in the nest
  int64_t found;
  int64_t lo, hi;  // lo <= found < hi was expected
};

struct KernelArgs {
  void* const* buffers;   // operands in order; own ones 64-byte aligned, a caller's element-aligned
  const int64_t* params;  // run-time sizes in order
  void* team_scratch;     // shared space
  void*
      rank_scratch;  // cache space of rank 0; rank r's begins rank_scratch_stride bytes later each
  int64_t rank_scratch_stride;
  void (*barrier)(void*);  // waits for all ranks
  void* barrier_data;
  KernelFault* fault;
  const int32_t* cancel;  // not 0: return at the next barrier or outer serial iteration
};

using KernelFunction = void (*)(const KernelArgs*, uint32_t rank, uint32_t size);

static_assert(sizeof(KernelArgs) == 72);

}  // namespace weft
