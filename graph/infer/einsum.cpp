#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

constexpr char kDots = '.';  // one character for "..."

// "b...ij" as {'b', '.', 'i', 'j'}.
Result<std::string> Term(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (out.find(kDots) != std::string::npos)
        return Invalid("attribute \"equation\" has two ellipses in a term");
      out += kDots;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      out += text[i];
    } else {
      return Invalid(fmt::format("attribute \"equation\" has {}", PrintString(text.substr(i, 1))));
    }
  }
  return out;
}

}  // namespace

Status EinsumRule(Context& c) {
  const std::string equation = StringAttr(c.node, "equation", "");
  const size_t arrow = equation.find("->");
  std::string_view left = std::string_view(equation).substr(0, arrow);
  std::vector<std::string> terms;
  while (true) {
    const size_t comma = std::min(left.find(','), left.size());
    WEFT_TRY(auto term, Term(left.substr(0, comma)));
    terms.push_back(std::move(term));
    if (comma == left.size()) break;
    left.remove_prefix(comma + 1);
  }
  if (terms.size() != c.node.inputs.size()) {
    return Invalid(fmt::format("attribute \"equation\" has {} terms, expected {}", terms.size(),
                               c.node.inputs.size()));
  }
  std::map<char, Extent> extents;
  std::map<char, int> uses;
  Extents dots;
  bool any_dots = false;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Extents* in = c.In(i);
    if (!in) return {};
    const bool has_dots = terms[i].find(kDots) != std::string::npos;
    const size_t letters = terms[i].size() - has_dots;
    if (has_dots ? in->size() < letters : in->size() != letters) {
      return Invalid(
          fmt::format("input {} has the shape {}, attribute \"equation\" gives it {} axes", i,
                      c.Text(*in), letters));
    }
    size_t axis = 0;
    for (char letter : terms[i]) {
      if (letter == kDots) {
        any_dots = true;
        const size_t count = in->size() - letters;
        const Extents here(in->begin() + static_cast<int64_t>(axis),
                           in->begin() + static_cast<int64_t>(axis + count));
        WEFT_TRY(dots, c.Broadcast(dots, here));
        axis += count;
        continue;
      }
      ++uses[letter];
      const auto [found, fresh] = extents.emplace(letter, (*in)[axis]);
      if (!fresh) {
        WEFT_TRY(found->second, c.Broadcast(found->second, (*in)[axis]));
      }
      ++axis;
    }
  }
  std::string result;
  if (arrow == std::string::npos) {  // letters that occur once, in order of the alphabet
    if (any_dots) result += kDots;
    for (const auto& [letter, count] : uses) {
      if (count == 1) result += letter;
    }
  } else {
    WEFT_TRY(result, Term(std::string_view(equation).substr(arrow + 2)));
  }
  Extents out;
  for (char letter : result) {
    if (letter == kDots) {
      out.insert(out.end(), dots.begin(), dots.end());
    } else if (const auto found = extents.find(letter);
               found != extents.end() && std::ranges::count(result, letter) == 1) {
      out.push_back(found->second);
    } else {
      return Invalid(fmt::format(
          "attribute \"equation\" gives the result an axis {} that it has not, or has twice",
          letter));
    }
  }
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
