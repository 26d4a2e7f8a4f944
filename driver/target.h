// The target that somebody asks for, on this machine.
#pragma once

#include <string_view>

#include "base/status.h"
#include "base/target.h"

namespace weft::driver {

// As ParseTarget. `cuda` without an architecture, which may have settings behind it, is that of the
// device that is here: kMissing, with what there is instead, if there is none.
Result<Target> TargetHere(std::string_view text);

}  // namespace weft::driver
