// Machine code of the host in the clothes of a cubin: what the compiler that stands in for NVRTC
// gives, and the driver that stands in for a device runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::standin {

// An ELF file for CUDA with the sections that are asked for of a kernel's, and `code` in one more.
std::string Wrap(std::string_view symbol, std::string_view code);
// That section of an image that is somewhere in memory; empty if it is no such image.
std::string_view Unwrap(const void* image);

}  // namespace weft::standin
