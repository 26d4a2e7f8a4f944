#include "fallback/pooling.h"

#include <fmt/format.h>

#include <algorithm>

#include "fallback/device_operands.h"

namespace weft::fallback {

Verdict<Pooling> PoolingOf(const LibraryCall& call) {
  constexpr std::string_view kRoles[] = {"src"};
  if (call.op != "pooling") return Refusal{Reason::kOpUnknownToLibrary, call.op};
  if (auto no = CheckDeviceOperands(call, kRoles)) return *std::move(no);
  if (!call.post_ops.empty())
    return Refusal{Reason::kPatternUnknownToLibrary, "an epilogue of a pooling"};
  Pooling p{.x = call.inputs[0].shape,
            .y = call.outputs[0].shape,
            .window = IntsAttr(call, "kernel"),
            .strides = IntsAttr(call, "strides")};
  const std::string kind = StringAttr(call, "algorithm", "");
  if (kind == "avg_include_padding")
    p.kind = PoolingKind::kAverageWithPadding;
  else if (kind == "avg_exclude_padding")
    p.kind = PoolingKind::kAverageWithoutPadding;
  else if (kind != "max")
    return Refusal{Reason::kOpUnknownToLibrary, kind};
  const std::vector<int64_t> dilations = IntsAttr(call, "dilations"), pads = IntsAttr(call, "pads");
  const size_t spatial = std::max<size_t>(p.x.size(), 2) - 2;
  if (spatial < 1 || spatial > 3 || p.y.size() != p.x.size() || p.window.size() != spatial ||
      p.strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial)
    return UnknownShapes(call);
  if (std::ranges::any_of(dilations, [](int64_t d) { return d != 1; }))
    return Refusal{Reason::kShapeUnknownToLibrary, "a window with holes"};
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  p.before.assign(pads.begin(), middle);
  p.after.assign(middle, pads.end());
  bool fits = p.y[0] == p.x[0] && p.y[1] == p.x[1];
  constexpr int64_t kMost = 1 << 20;  // so that nothing below overflows
  for (size_t d = 0; d < spatial && fits; ++d) {
    const int64_t in = p.x[d + 2], taps = p.window[d];
    // A window that lies in the padding alone is of nothing.
    fits = in < kMost && taps > 0 && taps < kMost && p.strides[d] > 0 && p.strides[d] < kMost &&
           p.before[d] >= 0 && p.before[d] < taps && p.after[d] >= 0 && p.after[d] < taps;
    const int64_t room = fits ? in + p.before[d] + p.after[d] - taps : -1;
    fits = room >= 0 && room / p.strides[d] + 1 == p.y[d + 2];
  }
  if (!fits) return UnknownShapes(call);
  if (spatial == 1) {
    for (Shape* shape : {&p.x, &p.y}) shape->insert(shape->begin() + 2, 1);
    for (auto* list : {&p.window, &p.strides}) list->insert(list->begin(), 1);
    for (auto* list : {&p.before, &p.after}) list->insert(list->begin(), 0);
  }
  return p;
}

}  // namespace weft::fallback
