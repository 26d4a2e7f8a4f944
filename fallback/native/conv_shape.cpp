#include "fallback/native/conv.h"

namespace weft::fallback::native {

Result<std::vector<int64_t>> ListOf(const Args& args, std::string_view name, size_t count,
                                    int64_t least, int64_t otherwise) {
  std::vector<int64_t> list = IntsAttr(args.call, name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count)
    return args.Error("{} has {} numbers, expected {}", name, list.size(), count);
  for (int64_t x : list)
    if (x < least || x > kMostExtent) return args.Error("{} holds {}", name, x);
  return list;
}

Result<Convolution> ConvolutionOf(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &x = args[0], &w = args[1];
  WEFT_TRY(args.NeedType(1, x.dtype));
  if (x.rank() < 3 || w.rank() != x.rank()) {
    return args.Error("{} of shape {} for {} of shape {}", args.Name(1), Print(w.shape),
                      args.Name(0), Print(x.shape));
  }
  const size_t n = x.rank() - 2;
  WEFT_TRY(const auto strides, ListOf(args, "strides", n, 1, 1));
  WEFT_TRY(const auto dilations, ListOf(args, "dilations", n, 1, 1));
  WEFT_TRY(const auto pads, ListOf(args, "pads", 2 * n, 0, 0));
  Convolution c{.images = x.shape[0], .groups = args.Int("group", 1)};
  c.axes.resize(std::max<size_t>(n, 2));
  const std::vector<int64_t> kernel = IntsAttr(args.call, "kernel_shape");
  const std::vector<int64_t> own(w.shape.begin() + 2, w.shape.end());
  if (!kernel.empty() && kernel != own)
    return args.Error("kernel_shape {} for {} of shape {}", Print(kernel), args.Name(1),
                      Print(w.shape));
  const bool is_given = args.Text("auto_pad", "NOTSET") == "NOTSET";
  for (size_t i = 0; i < n; ++i) {
    Axis& a = c.axes[c.axes.size() - n + i];
    a = {.in = x.shape[i + 2], .kernel = own[i], .stride = strides[i], .dilation = dilations[i]};
    if (is_given) a.before = pads[i], a.after = pads[n + i];
    int64_t reach = 0;
    if (a.kernel < 1) return args.Error("{} of shape {} is empty", args.Name(1), Print(w.shape));
    if (__builtin_mul_overflow(a.kernel - 1, a.dilation, &reach) || reach > kMostExtent ||
        a.in > kMostExtent)
      return args.Error("axis {} of extent {} is too large for {} taps {} apart", i, a.in, a.kernel,
                        a.dilation);
  }
  return c;
}

Status CheckGroups(const Args& args, const Convolution& c, int64_t divided) {
  if (c.groups >= 1 && divided % c.groups == 0) return {};
  return args.Error("{} channels do not divide into {} groups", divided, c.groups);
}

Result<bool> IsSame(const Args& args) {
  const std::string mode = args.Text("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode == "VALID") return false;
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") return true;
  return args.Error("auto_pad is \"{}\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode);
}

int64_t PadsBefore(const Args& args, int64_t total) {
  const int64_t half = FloorDiv(total, 2);
  return args.Text("auto_pad", "NOTSET") == "SAME_UPPER" ? half : total - half;
}

static Status CheckBias(const Args& args, int64_t filters) {
  if (!args.Has(2)) return {};
  WEFT_TRY(args.NeedType(2, args[0].dtype));
  if (args[2].shape == Shape{filters}) return {};
  return args.Error("{} of shape {} for {} filters", args.Name(2), Print(args[2].shape), filters);
}

Result<Out> ResultOf(const Args& args, const Convolution& c) {
  int64_t filters = 0;
  if (__builtin_mul_overflow(c.groups, c.filters, &filters))
    return args.Error("{} groups of {} filters", c.groups, c.filters);
  WEFT_TRY(CheckBias(args, filters));
  Shape shape{c.images, filters};
  for (size_t d = c.first(args[0].rank()); d < c.axes.size(); ++d) shape.push_back(c.axes[d].out);
  return args.Output(0, args[0].dtype, std::move(shape));
}

}  // namespace weft::fallback::native
