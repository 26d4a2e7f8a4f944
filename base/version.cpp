#include "base/version.h"

#include "base/sources_hash.h"

namespace weft {

std::string_view Version() { return WEFT_VERSION; }
std::string_view SourcesHash() { return WEFT_SOURCES_HASH; }

}  // namespace weft
