#include <fmt/format.h>

#include "base/text.h"
#include "graph/infer/engine.h"

namespace weft::graph::infer {

// The parts of each string, padded to the most that there are, and their number.
Status StringSplitRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  Extents parts = *x;
  parts.push_back(c.Fresh("parts"));
  c.Out(1, *x);
  c.Out(0, std::move(parts));
  return {};
}

// [C] or [1, C] to as many as are no stop words, at least one.
Status StringNormalizerRule(Context& c) {
  WEFT_TRY(c.OneOf("case_change_action", "NONE", {"NONE", "LOWER", "UPPER"}));
  // Unicode, SpecialCasing.txt: the languages whose case mappings differ.
  const std::string locale = StringAttr(c.node, "locale", "");
  for (const std::string_view own : {"az", "lt", "tr"})
    if (locale.starts_with(own))
      return Unsupported(fmt::format("attribute \"locale\" is {}, whose case mapping weft lacks",
                                     PrintString(locale)));
  const Extents* x = c.In(0);
  if (!x) return {};
  if (x->size() != 1) WEFT_TRY(c.Rank(0, 2));
  if (x->size() == 2) WEFT_TRY(c.Same((*x)[0], 1, "the extent of axis 0"));
  const Attribute* stops = FindAttribute(c.node, "stopwords");
  const auto* words = stops ? std::get_if<std::vector<std::string>>(&stops->value) : nullptr;
  Extents out = *x;
  const Interval range = c.Range(out.back());
  if ((words && !words->empty()) || range.lo < 1)
    out.back() = c.Fresh("kept", 1, std::max<int64_t>(range.hi, 1));
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
