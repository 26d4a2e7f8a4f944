// Operators that move elements to places known from shapes and attributes.
#include <algorithm>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

// The product of the extents before `axis`, and behind it. No overflow: the caller has elements.
int64_t Product(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

struct Runs {
  int64_t outer, inner;
};
Runs AroundAxis(const Shape& shape, int64_t axis) {
  return {Product(std::span(shape).first(axis)), Product(std::span(shape).subspan(axis + 1))};
}

}  // namespace

Status RunConcat(const Args& args) {
  WEFT_TRY(args.Need(std::max<size_t>(args.size(), 1)));
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", 0), args[0].rank()));
  Shape shape = args[0].shape;
  shape[axis] = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    WEFT_TRY(args.NeedType(i, args[0].dtype));
    Shape other = args[i].shape;
    const bool same_rank = other.size() == shape.size();
    const int64_t extent = same_rank ? std::exchange(other[axis], shape[axis]) : 0;
    if (other != shape || __builtin_add_overflow(shape[axis], extent, &shape[axis])) {
      return args.Error("{} of shape {} does not join {} along axis {}", args.Name(i),
                        Print(args[i].shape), Print(args[0].shape), axis);
    }
  }
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, shape));
  if (out.elems == 0) return {};
  const auto [outer, inner] = AroundAxis(shape, axis);
  int64_t at = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const int64_t run = args[i].shape[axis] * inner;
    for (int64_t o = 0; o < outer; ++o) {
      CopyElems(out.dtype, out.data, o * shape[axis] * inner + at, args[i].data, o * run, run);
    }
    at += run;
  }
  return {};
}

Status RunSplit(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", 0), in.rank()));
  const int64_t extent = in.shape[axis], count = static_cast<int64_t>(args.call.outputs.size());
  std::vector<int64_t> sizes;
  if (args.Has(1)) {
    WEFT_TRY(sizes, args.Ints(1));
  } else {
    const int64_t parts = args.Int("num_outputs", count);
    if (parts != count) return args.Error("num_outputs is {} for {} outputs", parts, count);
    const int64_t size = extent / count + (extent % count != 0);  // the last may be smaller
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  }
  int64_t sum = 0;
  bool fits = static_cast<int64_t>(sizes.size()) == count;
  for (int64_t size : sizes) fits &= size >= 0 && !__builtin_add_overflow(sum, size, &sum);
  if (!fits || sum != extent) {
    return args.Error("split {} of axis {} of {} into {} outputs", Print(sizes), axis,
                      Print(in.shape), count);
  }
  int64_t from = 0;
  for (int64_t i = 0; i < count; ++i) {
    Shape shape = in.shape;
    shape[axis] = sizes[i];
    if (args.Wants(i)) {
      WEFT_TRY(const Out out, args.Output(i, in.dtype, shape));
      const std::vector<int64_t> strides = Strides(in.shape);
      CopyBox(in.dtype, shape, out.data, {0, Strides(shape)}, in.data,
              {from * strides[axis], strides});
    }
    from += sizes[i];
  }
  return {};
}

Status RunSlice(const Args& args) {
  WEFT_TRY(args.Need(3));
  const In& in = args[0];
  WEFT_TRY(const auto starts, args.Ints(1));
  WEFT_TRY(const auto ends, args.Ints(2));
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (args.Has(3)) {
    WEFT_TRY(axes, args.Ints(3));
  }
  if (args.Has(4)) {
    WEFT_TRY(steps, args.Ints(4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return args.Error("{} starts, {} ends, {} axes, {} steps", starts.size(), ends.size(),
                      axes.size(), steps.size());
  }
  WEFT_TRY(axes, args.Axes(axes, in.rank()));
  Shape shape = in.shape;
  std::vector<int64_t> strides = Strides(in.shape);
  int64_t offset = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t n = in.shape[axes[i]], step = steps[i];
    if (step == 0) return args.Error("{} has a step of 0", args.Name(4));
    // Negative places count from the end, and both are clamped to what a loop can visit.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
    const int64_t start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + n : starts[i], 0,
                                              std::max<int64_t>(high, 0));
    const int64_t end = place(ends[i]);
    // |step| as unsigned: the smallest int64 has no positive twin.
    const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const int64_t span = step > 0 ? end - start : start - end;
    const uint64_t count = span <= 0 || n == 0 ? 0 : (static_cast<uint64_t>(span) - 1) / by + 1;
    shape[axes[i]] = static_cast<int64_t>(count);
    if (count > 0) offset += start * strides[axes[i]];
    strides[axes[i]] = count > 1 ? strides[axes[i]] * step : 0;
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  if (out.elems > 0)
    CopyBox(in.dtype, shape, out.data, {0, Strides(shape)}, in.data, {offset, strides});
  return {};
}

Status RunTranspose(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  std::vector<int64_t> perm = IntsAttr(args.call, "perm");
  if (FindAttribute(args.call, "perm") == nullptr) {
    for (size_t d = in.rank(); d-- > 0;) perm.push_back(static_cast<int64_t>(d));
  }
  WEFT_TRY(perm, args.Axes(perm, in.rank()));
  if (perm.size() != in.rank()) return args.Error("perm {} for rank {}", Print(perm), in.rank());
  const std::vector<int64_t> from = Strides(in.shape);
  Shape shape;
  std::vector<int64_t> strides;
  for (int64_t axis : perm) {
    shape.push_back(in.shape[axis]);
    strides.push_back(from[axis]);
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  CopyBox(in.dtype, shape, out.data, {0, Strides(shape)}, in.data, {0, strides});
  return {};
}

Status RunTile(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(const auto repeats, args.Ints(1));
  if (repeats.size() != in.rank())
    return args.Error("{} repeats for rank {}", repeats.size(), in.rank());
  // Each axis as (repeat, extent): the repeat has stride 0 in the input.
  Shape shape, box;
  std::vector<int64_t> from;
  const std::vector<int64_t> strides = Strides(in.shape);
  for (size_t d = 0; d < in.rank(); ++d) {
    int64_t extent = 0;
    if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], in.shape[d], &extent)) {
      return args.Error("{} repeats axis {} of {} {} times", args.Name(1), d, Print(in.shape),
                        repeats[d]);
    }
    shape.push_back(extent);
    box.insert(box.end(), {repeats[d], in.shape[d]});
    from.insert(from.end(), {0, strides[d]});
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  if (out.elems > 0) CopyBox(in.dtype, box, out.data, {0, Strides(box)}, in.data, {0, from});
  return {};
}

Status RunDepthSpace(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  const int64_t b = args.Int("blocksize", 0);
  const bool to_depth = args.call.op == "SpaceToDepth";
  const bool fits =
      in.rank() == 4 && b > 0 && b < (1 << 20) &&
      (to_depth ? in.shape[2] % b == 0 && in.shape[3] % b == 0 : in.shape[1] % (b * b) == 0);
  if (!fits) return args.Error("blocksize {} for shape {}", b, Print(in.shape));
  const int64_t n = in.shape[0];
  // Both are a permutation of six axes: the batch, channels, the two of a block, and the two of
  // space.
  Shape six, shape;
  std::vector<size_t> order;
  const bool crd = args.Text("mode", "DCR") == "CRD";
  if (to_depth) {
    const int64_t c = in.shape[1], h = in.shape[2] / b, w = in.shape[3] / b;
    WEFT_TRY(const int64_t depth, CountElems(Shape{c, b, b}));
    six = {n, c, h, b, w, b};
    shape = {n, depth, h, w};
    order = crd ? std::vector<size_t>{0, 1, 3, 5, 2, 4} : std::vector<size_t>{0, 3, 5, 1, 2, 4};
  } else {
    const int64_t c = in.shape[1] / (b * b), h = in.shape[2], w = in.shape[3];
    six = crd ? Shape{n, c, b, b, h, w} : Shape{n, b, b, c, h, w};
    WEFT_TRY(const int64_t height, CountElems(Shape{h, b}));
    WEFT_TRY(const int64_t width, CountElems(Shape{w, b}));
    shape = {n, c, height, width};
    order = crd ? std::vector<size_t>{0, 1, 4, 2, 5, 3} : std::vector<size_t>{0, 3, 4, 1, 5, 2};
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  const std::vector<int64_t> strides = Strides(six);
  Shape box;
  std::vector<int64_t> from;
  for (size_t d : order) {
    box.push_back(six[d]);
    from.push_back(strides[d]);
  }
  CopyBox(in.dtype, box, out.data, {0, Strides(box)}, in.data, {0, from});
  return {};
}

Status RunReverseSequence(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(const auto lengths, args.Ints(1));
  const int64_t batch = args.Int("batch_axis", 1), time = args.Int("time_axis", 0);
  if (in.rank() < 2 || batch < 0 || batch > 1 || time != 1 - batch) {
    return args.Error("batch_axis {}, time_axis {} of rank {}", batch, time, in.rank());
  }
  if (static_cast<int64_t>(lengths.size()) != in.shape[batch]) {
    return args.Error("{} has {} lengths for a batch of {}", args.Name(1), lengths.size(),
                      in.shape[batch]);
  }
  for (int64_t length : lengths) {
    if (length < 0 || length > in.shape[time]) {
      return args.Error("{} holds {}, outside [0, {}]", args.Name(1), length, in.shape[time]);
    }
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, in.shape));
  if (out.elems == 0) return {};
  const std::vector<int64_t> strides = Strides(in.shape);
  const int64_t run = strides[1];
  for (int64_t b = 0; b < in.shape[batch]; ++b) {
    for (int64_t t = 0; t < in.shape[time]; ++t) {
      const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
      const auto place = [&](int64_t at) { return b * strides[batch] + at * strides[time]; };
      CopyElems(in.dtype, out.data, place(t), in.data, place(from), run);
    }
  }
  return {};
}

}  // namespace weft::fallback::native
