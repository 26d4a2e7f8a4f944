// Prices on a GPU: a roofline of what its data sheet says, with what few threads leave idle.
//
// Estimates, of no kernel that was timed: what they are worth is said by whoever measures.
#pragma once

#include "base/target.h"
#include "fallback/call.h"
#include "partition/partition.h"
#include "tc_lang/program.h"

namespace weft::partition {

// What a device of an ISA does at most; of those that NVIDIA sells with it, the largest.
struct DeviceFigures {
  double flops_per_us = 0;   // f32, a multiply-add counts 2
  double memory_per_us = 0;  // bytes
  double l2_per_us = 0;      // bytes
  double l2_bytes = 0;
  double multiprocessors = 0;
};
DeviceFigures FiguresOf(Isa isa);

Price OwnOnDevice(Isa isa, const tc::Program& program);
Price CallOnDevice(Isa isa, const fallback::LibraryCall& call);

}  // namespace weft::partition
