// Pad: constant, edge, reflect and wrap; negative pads cut.
#include <algorithm>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

struct Pads {
  std::vector<int64_t> before, after;
};

Result<Pads> PadsOf(const Args& args) {
  const In& in = args[0];
  WEFT_TRY(const auto pads, args.Ints(1));
  std::vector<int64_t> axes;
  for (size_t d = 0; d < in.rank(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (args.Has(3)) {
    WEFT_TRY(axes, args.Ints(3));
    WEFT_TRY(axes, args.Axes(axes, in.rank()));
  }
  if (pads.size() != 2 * axes.size())
    return args.Error("{} pads for {} axes", pads.size(), axes.size());
  Pads out{std::vector<int64_t>(in.rank()), std::vector<int64_t>(in.rank())};
  for (size_t i = 0; i < axes.size(); ++i) {
    out.before[axes[i]] = pads[i];
    out.after[axes[i]] = pads[axes.size() + i];
    for (int64_t pad : {pads[i], pads[axes.size() + i]}) {
      constexpr int64_t kMost = int64_t{1} << 61;  // sums of three fit
      if (pad < -kMost || pad > kMost) return args.Error("{} holds a pad of {}", args.Name(1), pad);
    }
  }
  return out;
}

// The place in [0, n) that place `at` shows of an axis of n elements with more around; -1: none.
int64_t SourceOf(std::string_view mode, int64_t at, int64_t n) {
  if (at >= 0 && at < n) return at;
  if (mode == "constant") return -1;
  if (mode == "edge" || n == 1) return at < 0 ? 0 : n - 1;
  const int64_t period = mode == "wrap" ? n : 2 * (n - 1);
  const int64_t phase = (at % period + period) % period;
  return phase < n ? phase : period - phase;
}

Status CheckMode(const Args& args, std::string_view mode, int64_t n, int64_t extent) {
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return args.Error("mode is \"{}\", expected constant, edge, reflect or wrap", mode);
  }
  if (n <= 0 && extent > 0 && mode != "constant")
    return args.Error("mode {} of an empty axis", mode);
  return {};
}

}  // namespace

Status RunPad(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(const Pads pads, PadsOf(args));
  const std::string mode = args.Text("mode", "constant");
  Shape shape = in.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t& extent = shape[d];
    const bool overflow = __builtin_add_overflow(extent, pads.before[d], &extent) ||
                          __builtin_add_overflow(extent, pads.after[d], &extent);
    if (overflow || extent < 0) {
      return args.Error("{} pads axis {} of {} by {} and {}", args.Name(1), d, Print(in.shape),
                        pads.before[d], pads.after[d]);
    }
    const int64_t kept =
        in.shape[d] + std::min<int64_t>(pads.before[d], 0) + std::min<int64_t>(pads.after[d], 0);
    WEFT_TRY(CheckMode(args, mode, kept, extent));
  }
  // Only the shape says how large the table of sources becomes: the output is allocated first.
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  if (out.elems == 0) return {};
  const uint64_t zero = 0;
  const std::string empty;
  const void* fill = in.dtype == Dtype::kString ? static_cast<const void*>(&empty) : &zero;
  if (args.Has(2)) {
    WEFT_TRY(args.NeedType(2, in.dtype));
    if (args[2].elems != 1)
      return args.Error("{} has {} elements, expected 1", args.Name(2), args[2].elems);
    fill = args[2].data;
  }
  std::vector<std::vector<int64_t>> sources(shape.size());
  const std::vector<int64_t> strides = Strides(in.shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    // What a negative pad cuts off is no longer there to be repeated.
    const int64_t first = std::max<int64_t>(-pads.before[d], 0);
    const int64_t left = in.shape[d] - first - std::max<int64_t>(-pads.after[d], 0);
    for (int64_t i = 0; i < shape[d]; ++i) {
      const int64_t from = SourceOf(mode, i - std::max<int64_t>(pads.before[d], 0), left);
      sources[d].push_back(from < 0 ? -1 : (first + from) * strides[d]);
    }
  }
  ByWidth(in.dtype, [&]<typename T>() {
    std::vector<int64_t> index(shape.size());
    for (int64_t i = 0; i < out.elems; ++i) {
      int64_t from = 0;
      for (size_t d = 0; d < shape.size() && from >= 0; ++d) {
        from = sources[d][index[d]] < 0 ? -1 : from + sources[d][index[d]];
      }
      out.as<T>()[i] = from < 0 ? *static_cast<const T*>(fill) : in.as<T>()[from];
      for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  });
  return {};
}

}  // namespace weft::fallback::native
