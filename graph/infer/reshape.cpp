#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// What one extent has to be so that `known` times it is `total`: common factors cancel.
Result<Extent> Quotient(Context& c, const Extents& total, const Extents& known) {
  const Extent above = c.Product(total), below = c.Product(known);
  if (above.IsConstant() && below.IsConstant()) {
    const int64_t a = above.value(), b = below.value();
    if (b == 0 || a % b != 0)
      return Invalid(fmt::format("{} elements do not divide into rows of {}", a, b));
    return Extent(a / b);
  }
  std::vector<Extent> up = c.Factors(total), down = c.Factors(known);
  for (size_t i = 0; i < down.size();) {  // symbols first
    const auto same = down[i].IsConstant() ? up.end() : std::ranges::find(up, down[i]);
    if (same == up.end()) {
      ++i;
      continue;
    }
    up.erase(same);
    down.erase(down.begin() + static_cast<int64_t>(i));
  }
  const bool plain = std::ranges::all_of(down, &Extent::IsConstant);
  const Extent rest = c.Product(down);
  if (plain && rest.IsConstant() && rest.value() > 0) {
    Extents symbols;
    std::ranges::copy_if(up, std::back_inserter(symbols),
                         [](const Extent& e) { return !e.IsConstant(); });
    Extents constants;
    std::ranges::copy_if(up, std::back_inserter(constants), &Extent::IsConstant);
    const Extent factor = c.Product(constants);
    if (factor.value() % rest.value() == 0) {
      symbols.emplace_back(factor.value() / rest.value());
      return c.Product(symbols);
    }
    const Extent whole = c.Product(up);
    return c.ToExtent(FloorDiv(c.Meaning(whole), rest.value()), "the extent that stands for -1");
  }
  return c.Opaque(fmt::format("({})/({})", c.Text(c.Product(up)), c.Text(rest)));
}

}  // namespace

Status ReshapeRule(Context& c) {
  const Extents* x = c.In(0);
  const Facts* shape = c.FactsIn(1);
  WEFT_TRY(c.Rank(1, 1));
  if (!shape) {  // at least the rank may be known
    const Extents* count = c.In(1);
    if (!count || !(*count)[0].IsConstant() || (*count)[0].value() > 64) return {};
    Extents out;
    for (int64_t i = 0; i < (*count)[0].value(); ++i) out.push_back(c.Fresh("reshaped"));
    c.Out(0, std::move(out));
    return {};
  }
  if (shape->size() > 64)
    return Limit(fmt::format("found rank {}, the limit is 64", shape->size()));
  const bool zeros = c.Int("allowzero", 0) != 0;
  Extents out, known;
  int64_t open = -1;
  bool guessed = false;
  for (size_t i = 0; i < shape->size(); ++i) {
    const Elem& elem = (*shape)[i];
    if (elem.kind != Elem::kInteger) {
      out.push_back(c.Fresh("reshaped"));
      guessed = true;
    } else if (elem.integer == Affine(-1)) {
      if (open >= 0) return Invalid("the shape has -1 twice");
      open = static_cast<int64_t>(i);
      out.emplace_back(-1);
      continue;
    } else if (elem.integer == Affine(0) && !zeros) {
      if (x && i >= x->size())
        return Invalid(
            fmt::format("the shape has 0 at axis {}, which {} does not have", i, c.Text(*x)));
      out.push_back(x ? (*x)[i] : c.Fresh("reshaped"));
    } else {
      WEFT_TRY(const Extent extent, c.ToExtent(elem.integer, "an extent of the shape"));
      out.push_back(extent);
    }
    known.push_back(out.back());
  }
  if (!x) {
    if (open >= 0) out[static_cast<size_t>(open)] = c.Fresh("reshaped");
  } else if (open >= 0 && guessed) {
    out[static_cast<size_t>(open)] = c.Fresh("reshaped");
  } else if (open >= 0) {
    auto quotient = Quotient(c, *x, known);
    if (!quotient.ok())
      return std::move(quotient.status()).Because(fmt::format("reshaping {}", c.Text(*x)));
    out[static_cast<size_t>(open)] = *quotient;
  } else if (!guessed) {
    auto same = c.Same(c.Product(*x), c.Product(out), "elements before and after");
    if (!same.ok())
      return std::move(same.status())
          .Because(fmt::format("reshaping {} to {}", c.Text(*x), c.Text(out)));
  }
  c.Out(0, std::move(out));
  return {};
}

Status FlattenRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  int64_t axis = c.Int("axis", 1);
  if (axis < -rank || axis > rank)
    return Invalid(fmt::format("found axis {}, expected {} to {}", axis, -rank, rank));
  if (axis < 0) axis += rank;
  const std::span<const Extent> all(*x);
  const auto cut = static_cast<size_t>(axis);
  c.Out(0, {c.Product(all.first(cut)), c.Product(all.subspan(cut))});
  return {};
}

Status SqueezeRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  Extents out;
  if (!c.Has(1)) {  // every axis of one element: known only if all extents are
    if (!std::ranges::all_of(*x, &Extent::IsConstant)) return {};
    std::ranges::copy_if(*x, std::back_inserter(out),
                         [](const Extent& e) { return e.value() != 1; });
    c.Out(0, std::move(out));
    return {};
  }
  const auto given = c.Ints(1);
  if (!given) return {};
  WEFT_TRY(const auto axes, c.Axes(*given, static_cast<int64_t>(x->size())));
  for (size_t i = 0; i < x->size(); ++i) {
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end()) {
      out.push_back((*x)[i]);
    } else if ((*x)[i].IsConstant() && (*x)[i].value() != 1) {
      return Invalid(
          fmt::format("axis {} of {} has {}, expected 1", i, c.Text(*x), (*x)[i].value()));
    }
  }
  c.Out(0, std::move(out));
  return {};
}

Status UnsqueezeRule(Context& c) {
  const Extents* x = c.In(0);
  const auto given = c.Ints(1);
  const Extents* count = c.In(1);
  if (!x) return {};
  if (!given) {  // at least the rank may be known
    if (!count || count->size() != 1 || !(*count)[0].IsConstant() || (*count)[0].value() > 64)
      return {};
    Extents out;
    for (size_t i = 0; i < x->size() + static_cast<size_t>((*count)[0].value()); ++i)
      out.push_back(c.Fresh("unsqueezed"));
    c.Out(0, std::move(out));
    return {};
  }
  const auto rank = static_cast<int64_t>(x->size() + given->size());
  WEFT_TRY(const auto axes, c.Axes(*given, rank));
  Extents out;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    out.push_back(std::ranges::find(axes, i) != axes.end() ? Extent(1) : (*x)[next++]);
  }
  c.Out(0, std::move(out));
  return {};
}

Status TransposeRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  auto perm = IntsAttr(c.node, "perm");
  if (!FindAttribute(c.node, "perm")) {
    for (size_t i = x->size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  WEFT_TRY(c.Size("perm", perm.size(), x->size()));
  WEFT_TRY(perm, c.Axes(perm, static_cast<int64_t>(x->size())));
  Extents out;
  for (int64_t axis : perm) out.push_back((*x)[static_cast<size_t>(axis)]);
  c.Out(0, std::move(out));
  return {};
}

Status ExpandRule(Context& c) {
  const Extents* x = c.In(0);
  const Facts* shape = c.FactsIn(1);
  WEFT_TRY(c.Rank(1, 1));
  if (!x) return {};
  Facts unknown;
  if (!shape) {  // at least the rank may be known
    const Extents* count = c.In(1);
    if (!count || !(*count)[0].IsConstant() || (*count)[0].value() > 64) return {};
    unknown.resize(static_cast<size_t>((*count)[0].value()));
    shape = &unknown;
  }
  Extents wanted;
  for (const Elem& elem : *shape) {
    if (elem.kind != Elem::kInteger) {
      wanted.push_back(c.Fresh("expanded"));
      continue;
    }
    WEFT_TRY(const Extent extent, c.ToExtent(elem.integer, "an extent of the shape"));
    wanted.push_back(extent);
  }
  WEFT_TRY(Extents out, c.Broadcast(*x, wanted));
  // What the run decides stays the run's: no operand's shape would show what does not fit.
  for (size_t k = 0; k < wanted.size(); ++k) {
    if ((*shape)[k].kind != Elem::kInteger) out[out.size() - wanted.size() + k] = wanted[k];
  }
  c.Out(0, std::move(out));
  return {};
}

Status ShapeRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(std::max<int64_t>(c.Int("start", 0), -rank));
  const int64_t end = std::max(start, place(std::max<int64_t>(c.Int("end", rank), -rank)));
  Facts facts;
  for (int64_t i = start; i < end; ++i)
    facts.push_back(Elem::Of(c.Meaning((*x)[static_cast<size_t>(i)])));
  c.Out(0, {end - start});
  c.OutFacts(0, std::move(facts));
  return {};
}

Status SizeRule(Context& c) {
  c.Out(0, {});
  if (const Extents* x = c.In(0)) c.OutFacts(0, {Elem::Of(c.Meaning(c.Product(*x)))});
  return {};
}

}  // namespace weft::graph::infer
