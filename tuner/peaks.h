// What this machine does at most, measured: the roofline that kernels are held against.
#pragma once

#include <cstdint>

namespace weft::tuner {

struct Peaks {
  double flops_per_s = 0;  // f32 multiply-adds in registers, which count 2
  double bytes_per_s = 0;  // read and written in memory, beyond every cache
};

// By `threads` at once, at most as many as this process may use. Takes tenths of a second and up to
// 256 MiB.
Peaks MeasurePeaks(int32_t threads);

// The least time in which these peaks allow so many operations and bytes, as a part of `us`. Above
// 1 where operands were in a cache, or where not all of them was read.
double Efficiency(const Peaks& peaks, int64_t flops, int64_t bytes, double us);

}  // namespace weft::tuner
