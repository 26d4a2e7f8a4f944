// A group of a network on its own.
#pragma once

#include "base/status.h"
#include "driver/module.h"

namespace weft::driver {

// A network of nothing but an own group of the module's, under the group's name: what it computes,
// on the same constants and on operands in the same layouts. At Form::kGroups. Inputs and outputs
// of a network are plain, so those that are not have copies around the group, as groups of their
// own. kUnsupported for extents that are not known.
Result<Module> OneGroup(const Module& module, const partition::Group& group);

}  // namespace weft::driver
