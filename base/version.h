// Which weft this is.
#pragma once

#include <string_view>

namespace weft {

std::string_view Version();  // "0.1.0"

// 16 hex digits over the sources of all stages, the same in every clone of them. Whatever is
// remembered between processes and depends on how weft works is filed under it: what one build of
// weft decided or measured is nothing to the next.
std::string_view SourcesHash();

}  // namespace weft
