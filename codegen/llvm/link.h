// An object file into a shared object, by LLD as a library.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft::codegen {

// Serialised: LLD keeps its state in globals. Undefined symbols are an error.
Result<std::vector<uint8_t>> LinkShared(std::string_view object);

}  // namespace weft::codegen
