// What a GPU does at most, measured on it: the roofline that its kernels are held against.
#pragma once

#include "base/status.h"
#include "base/target.h"
#include "tuner/peaks.h"

namespace weft::tuner {

// Of the device that plans for this target run on: multiply-adds in registers of all its threads,
// and a copy within its memory, by the driver, of more than its caches hold. kMissing without a
// device, or without NVRTC, which compiles the former.
Result<Peaks> MeasureDevicePeaks(const Target& target);

}  // namespace weft::tuner
