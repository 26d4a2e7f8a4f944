// Parts of weft in shared libraries of their own, each around libraries that a machine may lack.
#pragma once

#include <string>

#include "base/status.h"

namespace weft::fallback {

// The address of `symbol` in the library called `file`, which lies beside the binary, in bin/
// beside its folder (the build tree) or in lib/ (an installation). Loaded once, and never closed.
// kMissing, with the reason, if it is not there.
Result<void*> FindInModule(const std::string& file, const char* symbol);

}  // namespace weft::fallback
