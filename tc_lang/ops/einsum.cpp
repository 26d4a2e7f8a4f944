// Einsum: "bij,bjk->bik" is itself a comprehension.
#include <algorithm>
#include <cctype>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

constexpr std::string_view kDots = "...";

struct Equation {
  std::vector<std::string> terms;  // letters of the operands; `.` stands for the ellipsis
  std::string result;
};

Equation ParseEquation(std::string text) {
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  for (size_t at = text.find(kDots); at != text.npos; at = text.find(kDots))
    text.replace(at, kDots.size(), ".");
  Equation e;
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  for (size_t at = 0; at <= left.size();) {
    const size_t end = std::min(left.find(',', at), left.size());
    e.terms.push_back(left.substr(at, end - at));
    at = end + 1;
  }
  if (arrow != text.npos) {
    e.result = text.substr(arrow + 2);
    return e;
  }
  // Without an arrow: the ellipsis, then the letters that occur once, in order.
  std::erase_if(left, [](char c) { return c == ','; });
  if (left.find('.') != left.npos) e.result = ".";
  std::sort(left.begin(), left.end());
  for (char c : left) {
    if (c != '.' && std::count(left.begin(), left.end(), c) == 1) e.result += c;
  }
  return e;
}

// Letters become k0, k1, … by first occurrence; the ellipsis i0, i1, … right-aligned.
class Letters {
 public:
  Letters(Writer& w, size_t dots) : w_(w), dots_(dots), dot_dims_(dots, Dim(1)) {}

  // The subscripts of an operand. An axis of 1 goes with a longer one of the same letter that was
  // seen before.

  Subs Of(const std::string& term, const Operand& x) {
    Subs out;
    const size_t plain =
        term.size() - static_cast<size_t>(std::count(term.begin(), term.end(), '.'));
    if (plain > x.dims.size() || (plain == term.size() && plain != x.dims.size())) {
      w_.Refuse(fmt::format("'{}' for a tensor of rank {}", term, x.rank()));
      return Subs(x.dims.size(), "0");
    }
    const size_t own_dots = x.dims.size() - plain;
    for (char c : term) {
      for (size_t n = 0; n < (c == '.' ? own_dots : 1); ++n) {
        const Dim& dim = x.dims[out.size()];
        out.push_back(c == '.' ? Dot(dots_ - own_dots + n, dim) : Letter(c, dim));
      }
    }
    return out;
  }

 private:
  std::string Letter(char c, const Dim& dim) {
    const size_t place = std::min(names_.find(c), names_.size());
    if (place == names_.size()) {
      names_ += c;
      dims_.push_back(dim);
    }
    Dim& widest = dims_[place];
    if (widest != dim && dim.IsOne()) return "0";
    if (widest.IsOne()) widest = dim;
    if (widest != dim)
      w_.Refuse(
          fmt::format("'{}' is {} and {}", c, widest.text(), dim.text()),
          widest.symbolic() || dim.symbolic() ? Reason::kOpenExtents : Reason::kNoComprehension);
    return w_.Range(fmt::format("k{}", place), widest);
  }
  std::string Dot(size_t place, const Dim& dim) {
    if (dim.IsOne() && !dot_dims_[place].IsOne()) return "0";
    dot_dims_[place] = dim;
    return w_.Range(fmt::format("i{}", place), dim);
  }

  Writer& w_;
  size_t dots_;
  Dims dot_dims_, dims_;
  std::string names_;
};

}  // namespace

void Einsum(Writer& w) {
  const Equation e = ParseEquation(graph::StringAttr(w.node, "equation", ""));
  if (e.terms.size() != w.node.inputs.size())
    return w.Refuse("an equation for another number of operands");
  const Operand y = w.Out();
  size_t dots = 0;
  for (size_t k = 0; k < e.terms.size(); ++k) {
    const auto letters = static_cast<size_t>(
        std::count_if(e.terms[k].begin(), e.terms[k].end(), [](char c) { return c != '.'; }));
    if (w.In(k).dims.size() > letters) dots = std::max(dots, w.In(k).dims.size() - letters);
  }
  Letters letters(w, dots);
  for (size_t k = 0; k < e.terms.size(); ++k) letters.Of(e.terms[k], w.In(k));
  const Subs at = letters.Of(e.result, y);
  Subs factors;
  bool reduces = false;
  for (size_t k = 0; k < e.terms.size() && w.ok(); ++k) {
    factors.push_back(w.At(w.In(k), letters.Of(e.terms[k], w.In(k))));
    for (char c : e.terms[k]) reduces = reduces || e.result.find(c) == e.result.npos;
  }
  if (!w.ok()) return;
  if (!reduces) return w.Set("pointwise", y, at, Join(factors, " * "));
  w.Reduce(factors.size() > 1 ? "contraction" : "reduction", y, at, "+=!", Join(factors, " * "));
}

}  // namespace weft::tc::ops
