// The families on strings, and what is asked of a pattern before it is matched.
#pragma once

#include <string>

#include "fallback/native/args.h"

namespace weft::fallback::native {

Status RunRegexFullMatch(const Args& args);
Status RunStringConcat(const Args& args);
Status RunStringNormalizer(const Args& args);
Status RunStringSplit(const Args& args);

// Why the pattern of a RegexFullMatch is none of RE2's syntax; empty if it is, or of other calls.
std::string WhyNoPattern(const LibraryCall& call);

}  // namespace weft::fallback::native
