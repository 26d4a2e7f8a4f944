// Operators that make tensors from sizes.

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

Result<Extents> ExtentsOfFacts(Context& c, const Facts& facts) {
  Extents out;
  for (const Elem& elem : facts) {
    if (elem.kind != Elem::kInteger) {
      out.push_back(c.Fresh("size"));
      continue;
    }
    WEFT_TRY(const Extent extent, c.ToExtent(elem.integer, "an extent of the shape"));
    out.push_back(extent);
  }
  return out;
}

// The output has the extents that input 0 lists.
Status OfShapeInput(Context& c) {
  WEFT_TRY(c.Rank(0, 1));
  if (const Facts* shape = c.FactsIn(0)) {
    WEFT_TRY(Extents out, ExtentsOfFacts(c, *shape));
    c.Out(0, std::move(out));
  } else if (const Extents* count = c.In(0);
             count && (*count)[0].IsConstant() && (*count)[0].value() <= 64) {
    WEFT_TRY(Extents out, ExtentsOfFacts(c, Facts(static_cast<size_t>((*count)[0].value()))));
    c.Out(0, std::move(out));
  }
  return {};
}

// The attribute "dtype", if it is there.
Result<std::optional<Dtype>> DtypeAttribute(Context& c) {
  const int64_t code = c.Int("dtype", 0);
  if (code == 0) return std::optional<Dtype>();
  const auto dtype =
      code > 0 && code < 1000 ? DtypeFromOnnx(static_cast<int32_t>(code)) : std::nullopt;
  if (!dtype)
    return Unsupported(
        fmt::format("attribute \"dtype\" is {}, which is no element type that weft has", code));
  return dtype;
}

}  // namespace

Status RangeRule(Context& c) {
  for (size_t i = 0; i < 3; ++i) {
    const Extents* in = c.In(i);
    if (in && !MayBeScalar(*in)) {
      return Invalid(fmt::format("input {} has the shape {}, expected a scalar", i, c.Text(*in)));
    }
  }
  const Facts* start = c.FactsIn(0);
  const Facts* limit = c.FactsIn(1);
  const Facts* delta = c.FactsIn(2);
  const bool known = start && limit && delta && start->size() == 1 && limit->size() == 1 &&
                     delta->size() == 1 && (*start)[0].known() && (*limit)[0].known() &&
                     (*delta)[0].IsConstant();
  if (!known) {
    c.Out(0, {c.Fresh("range")});
    return {};
  }
  const double step = (*delta)[0].AsDouble();
  if (step == 0) return Invalid("the step of the range is 0");
  if ((*start)[0].IsConstant() && (*limit)[0].IsConstant()) {
    if ((*start)[0].kind == Elem::kInteger && (*limit)[0].kind == Elem::kInteger &&
        (*delta)[0].kind == Elem::kInteger) {
      const bool down = step < 0;  // towards smaller numbers, which is upwards with both exchanged
      const int64_t from = (*(down ? limit : start))[0].integer.constant(),
                    to = (*(down ? start : limit))[0].integer.constant(),
                    by = (*delta)[0].integer.constant();
      const auto distance = [](int64_t a, int64_t b) {
        return static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
      };
      const uint64_t stride = down ? distance(by, 0) : distance(0, by),
                     count = from < to ? (distance(from, to) - 1) / stride + 1 : 0;
      if (count > INT64_MAX) return Limit("the range is too long");
      c.Out(0, {static_cast<int64_t>(count)});
      return {};
    }
    double count = std::ceil(((*limit)[0].AsDouble() - (*start)[0].AsDouble()) / step);
    if (!(count > 0)) count = 0;
    if (count > 9e18) return Limit("the range is too long");
    c.Out(0, {static_cast<int64_t>(count)});
    return {};
  }
  if (step != std::trunc(step) || step < 0 || step > INT32_MAX ||
      (*start)[0].kind != Elem::kInteger || (*limit)[0].kind != Elem::kInteger) {
    c.Out(0, {c.Fresh("range")});
    return {};
  }
  const auto length = AddScaled((*limit)[0].integer, (*start)[0].integer, -1);
  const auto count = length ? Plus(*length, static_cast<int64_t>(step) - 1) : std::nullopt;
  if (!count) {
    c.Out(0, {c.Fresh("range")});
  } else if (const Interval lengths = c.Range(*length); lengths.hi <= 0) {
    c.Out(0, {0});
  } else if (lengths.lo < 0) {  // none, or as many as a formula says
    c.Out(0, {c.Opaque(fmt::format("range({}, {})", c.Text(*length), static_cast<int64_t>(step)), 0,
                       lengths.hi)});
  } else {
    WEFT_TRY(const Extent extent,
             c.ToExtent(FloorDiv(*count, static_cast<int64_t>(step)), "the range"));
    c.Out(0, {extent});
  }
  return {};
}

Status ConstantOfShapeRule(Context& c) {
  const Attribute* value = FindAttribute(c.node, "value");
  const auto* tensor = value ? std::get_if<Tensor>(&value->value) : nullptr;
  if (tensor && tensor->elems() != 1)
    return Invalid(fmt::format("attribute \"value\" has {} elements, expected 1", tensor->elems()));
  c.OutType(0, tensor ? tensor->dtype() : Dtype::kF32);
  return OfShapeInput(c);
}

Status EyeLikeRule(Context& c) {
  WEFT_TRY(c.Rank(0, 2));
  WEFT_TRY(const auto dtype, DtypeAttribute(c));
  if (dtype) c.OutType(0, *dtype);
  if (!dtype && c.Type(0)) c.OutType(0, *c.Type(0));
  if (const Extents* x = c.In(0)) c.Out(0, *x);
  return {};
}

// Draw(shape, trip…) {distribution, seed or stream} -> f64: onnx/random.cpp makes it.
Status DrawRule(Context& c) {
  c.OutType(0, Dtype::kF64);
  return OfShapeInput(c);
}

// The file says how large its image is.
Status ImageDecoderRule(Context& c) {
  WEFT_TRY(c.Rank(0, 1));
  const std::string format = StringAttr(c.node, "pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return Invalid(fmt::format("attribute \"pixel_format\" is {}, expected RGB, BGR or Grayscale",
                               PrintString(format)));
  c.Out(0, {c.Fresh("height"), c.Fresh("width"), format == "Grayscale" ? 1 : 3});
  return {};
}

Status OneHotRule(Context& c) {
  const Extents* x = c.In(0);
  if (auto dtype = c.Type(2)) c.OutType(0, *dtype);
  if (!x) return {};
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", -1), static_cast<int64_t>(x->size()) + 1));
  const Facts* depth = c.FactsIn(1);
  if (depth && depth->size() != 1)
    return Invalid(fmt::format("input 1 has {} elements, expected 1", depth->size()));
  Extent classes = Extent(0);
  if (depth && (*depth)[0].kind == Elem::kInteger) {
    WEFT_TRY(classes, c.ToExtent((*depth)[0].integer, "the depth"));
  } else {
    classes = c.Fresh("depth");
  }
  Extents out = *x;
  out.insert(out.begin() + axis, classes);
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
