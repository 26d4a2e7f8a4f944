// Operators on strings of UTF-8. Bytes that are no UTF-8 stand for themselves: they are compared,
// joined and split like others, have no case, and are matched by no pattern.
#include "fallback/native/strings.h"

#include <re2/re2.h>

#include <array>
#include <clocale>
#include <cwctype>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

RE2::Options PatternOptions() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

enum class Case : uint8_t { kAsIs, kLower, kUpper };

// Unicode's simple mapping, a code point for each. C.UTF-8 has the tables of every locale but the
// Turkic ones and Lithuanian.
std::string Mapped(const std::string& text, Case to, locale_t tables) {
  if (to == Case::kAsIs) return text;
  std::string mapped;
  mapped.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t length = DecodeUtf8(std::string_view(text).substr(at), code);
    if (length == 0) {
      mapped += text[at++];
      continue;
    }
    AppendUtf8(mapped, to == Case::kLower ? towlower_l(code, tables) : towupper_l(code, tables));
    at += length;
  }
  return mapped;
}

// Unicode 15.0, PropList.txt, White_Space.
bool IsSpace(uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

// Behind the code points from `at` on of which IsSpace says what is wanted.
size_t Skip(std::string_view text, size_t at, bool spaces) {
  while (at < text.size()) {
    uint32_t code = 0;
    const size_t length = DecodeUtf8(text.substr(at), code);
    if ((length > 0 && IsSpace(code)) != spaces) break;
    at += std::max<size_t>(length, 1);
  }
  return at;
}

using Parts = std::vector<std::string_view>;

// Runs of what is no space, the last with all that is left.
Parts SplitAtSpaces(std::string_view text, int64_t most) {
  Parts parts;
  for (size_t at = Skip(text, 0, true); at < text.size();) {
    const bool is_last = std::ssize(parts) == most;
    const size_t end = is_last ? text.size() : Skip(text, at, false);
    parts.push_back(text.substr(at, end - at));
    at = Skip(text, end, true);
  }
  return parts;
}

Parts SplitAt(std::string_view text, std::string_view delimiter, int64_t most) {
  Parts parts;
  size_t at = 0;
  while (std::ssize(parts) != most) {
    const size_t end = text.find(delimiter, at);
    if (end == text.npos) break;
    parts.push_back(text.substr(at, end - at));
    at = end + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

}  // namespace

Status RunStringConcat(const Args& args) {
  WEFT_TRY(args.NeedType(0, Dtype::kString));
  WEFT_TRY(args.NeedType(1, Dtype::kString));
  const In &a = args[0], &b = args[1];
  WEFT_TRY(Shape shape, BroadcastShape(args, std::array<size_t, 2>{0, 1}));
  WEFT_TRY(const Out out, args.Output(0, Dtype::kString, std::move(shape)));
  const auto loops = BroadcastLoops<2>(out.shape, {&a.shape, &b.shape});
  loops.Rows([&](auto at, int64_t count, auto step) {
    for (int64_t i = 0; i < count; ++i)
      out.as<std::string>()[at[0] + i * step[0]] =
          a.as<std::string>()[at[1] + i * step[1]] + b.as<std::string>()[at[2] + i * step[2]];
  });
  return {};
}

// [..., most parts] padded with empty strings, and [...] how many there are.
Status RunStringSplit(const Args& args) {
  WEFT_TRY(args.NeedType(0, Dtype::kString));
  const In& in = args[0];
  const std::string delimiter = args.Text("delimiter", "");
  const int64_t most = FindAttribute(args.call, "maxsplit") ? args.Int("maxsplit", -1) : -1;
  std::vector<Parts> all;
  int64_t width = 0;
  for (int64_t i = 0; i < in.elems; ++i) {
    const std::string& text = in.as<std::string>()[i];
    all.push_back(delimiter.empty() ? SplitAtSpaces(text, most) : SplitAt(text, delimiter, most));
    width = std::max<int64_t>(width, std::ssize(all.back()));
  }
  Shape shape = in.shape;
  shape.push_back(width);
  WEFT_TRY(const Out parts, args.Output(0, Dtype::kString, std::move(shape)));
  WEFT_TRY(const Out counts, args.Output(1, Dtype::kI64, in.shape));
  for (int64_t i = 0; i < in.elems; ++i) {
    const Parts& found = all[static_cast<size_t>(i)];
    counts.as<int64_t>()[i] = std::ssize(found);
    for (size_t k = 0; k < found.size(); ++k)
      parts.as<std::string>()[i * width + static_cast<int64_t>(k)] = found[k];
  }
  return {};
}

// Elements that are stop words go; one empty string stands for none.
Status RunStringNormalizer(const Args& args) {
  WEFT_TRY(args.NeedType(0, Dtype::kString));
  const In& in = args[0];
  if (in.rank() != 1 && (in.rank() != 2 || in.shape[0] != 1))
    return args.Error("{} has the shape {}, expected [C] or [1, C]", args.Name(0), Print(in.shape));
  static const locale_t tables = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (tables == nullptr) return Missing("StringNormalizer: this system has no locale C.UTF-8");
  const std::string action = args.Text("case_change_action", "NONE");
  const Case to = action == "LOWER" ? Case::kLower : action == "UPPER" ? Case::kUpper : Case::kAsIs;
  const Case by = args.Int("is_case_sensitive", 0) != 0 ? Case::kAsIs : Case::kLower;
  std::set<std::string> stops;
  if (const CallAttribute* attribute = FindAttribute(args.call, "stopwords"))
    if (const auto* words = std::get_if<std::vector<std::string>>(&attribute->value))
      for (const std::string& word : *words) stops.insert(Mapped(word, by, tables));
  std::vector<std::string> kept;
  for (int64_t i = 0; i < in.elems; ++i) {
    const std::string& text = in.as<std::string>()[i];
    if (!stops.empty() && stops.contains(Mapped(text, by, tables))) continue;
    kept.push_back(Mapped(text, to, tables));
  }
  if (kept.empty()) kept.emplace_back();
  Shape shape = in.shape;
  shape.back() = std::ssize(kept);
  WEFT_TRY(const Out out, args.Output(0, Dtype::kString, std::move(shape)));
  std::ranges::move(kept, out.as<std::string>());
  return {};
}

Status RunRegexFullMatch(const Args& args) {
  WEFT_TRY(args.NeedType(0, Dtype::kString));
  const In& in = args[0];
  const RE2 pattern(args.Text("pattern", ""), PatternOptions());
  if (!pattern.ok()) return args.Error("{}", WhyNoPattern(args.call));
  WEFT_TRY(const Out out, args.Output(0, Dtype::kBool, in.shape));
  for (int64_t i = 0; i < in.elems; ++i)
    out.as<uint8_t>()[i] = RE2::FullMatch(in.as<std::string>()[i], pattern) ? 1 : 0;
  return {};
}

std::string WhyNoPattern(const LibraryCall& call) {
  if (call.op != "RegexFullMatch") return {};
  const std::string text = StringAttr(call, "pattern", "");
  const RE2 pattern(text, PatternOptions());
  if (pattern.ok()) return {};
  return fmt::format("pattern {} is no regular expression: {}", PrintString(text), pattern.error());
}

}  // namespace weft::fallback::native
