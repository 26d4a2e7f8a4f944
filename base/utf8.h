// Code points as UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// The length of the UTF-8 sequence at the start of `text` (RFC 3629: no overlong forms, surrogates
// or code points above 10FFFF), and its code point; 0 if there is none.
size_t DecodeUtf8(std::string_view text, uint32_t& code);
// False, and nothing is appended, if there is no such code point.
bool AppendUtf8(std::string& text, uint32_t code);

}  // namespace weft
