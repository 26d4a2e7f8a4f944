// What detectors and segmenters need: NonMaxSuppression, RoiAlign, MaxRoiPool, MaxUnpool.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

struct Box {
  float y1, x1, y2, x2;
  float Area() const { return (y2 - y1) * (x2 - x1); }
};

Box BoxAt(const float* b, bool center) {
  if (center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

float Iou(const Box& a, const Box& b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(height > 0) || !(width > 0)) return 0;
  const float both = height * width, either = a.Area() + b.Area() - both;
  return either > 0 ? both / either : 0;
}

Result<float> ScalarOr(const Args& args, size_t i, float otherwise) {
  if (!args.Has(i)) return otherwise;
  WEFT_TRY(args.NeedType(i, Dtype::kF32));
  if (args[i].elems != 1)
    return args.Error("{} has {} elements, expected 1", args.Name(i), args[i].elems);
  return *args[i].as<float>();
}

}  // namespace

// Greedy, by falling score (equal scores by falling place: the earlier box first).
Status RunNonMaxSuppression(const Args& args) {
  WEFT_TRY(args.Need(2));
  WEFT_TRY(args.NeedType(0, Dtype::kF32));
  WEFT_TRY(args.NeedType(1, Dtype::kF32));
  const In &boxes = args[0], &scores = args[1];  // [batch, n, 4], [batch, classes, n]
  const bool fits = boxes.rank() == 3 && scores.rank() == 3 && boxes.shape[2] == 4 &&
                    boxes.shape[0] == scores.shape[0] && boxes.shape[1] == scores.shape[2];
  if (!fits)
    return args.Error("boxes of shape {}, scores of shape {}", Print(boxes.shape),
                      Print(scores.shape));
  int64_t most = 0;
  if (args.Has(2)) {
    WEFT_TRY(most, args.Int(2));
  }
  WEFT_TRY(const float iou_threshold, ScalarOr(args, 3, 0));
  WEFT_TRY(const float score_threshold, ScalarOr(args, 4, -std::numeric_limits<float>::infinity()));
  const bool center = args.Int("center_point_box", 0) != 0;
  const int64_t n = boxes.shape[1];
  std::vector<int64_t> selected, order;
  for (int64_t row = 0; row < (n == 0 ? 0 : scores.elems / n); ++row) {
    const int64_t batch = row / scores.shape[1], kind = row % scores.shape[1];
    const float* score = scores.as<float>() + row * n;
    const auto at = [&](int64_t i) {
      return BoxAt(boxes.as<float>() + (batch * n + i) * 4, center);
    };
    order.clear();
    for (int64_t i = 0; i < n; ++i) {
      if (args.Has(4) ? score[i] > score_threshold : !std::isnan(score[i])) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return score[i] > score[j]; });
    std::vector<Box> kept;
    for (int64_t i : order) {
      Poll();
      if (static_cast<int64_t>(kept.size()) >= most) break;
      const Box box = at(i);
      if (std::ranges::any_of(kept, [&](const Box& k) { return Iou(box, k) > iou_threshold; }))
        continue;
      kept.push_back(box);
      selected.insert(selected.end(), {batch, kind, i});
    }
  }
  WEFT_TRY(const Out out,
           args.Output(0, Dtype::kI64, {static_cast<int64_t>(selected.size()) / 3, 3}));
  std::ranges::copy(selected, out.as<int64_t>());
  return {};
}

namespace {

struct RoiParams {
  double scale, offset;
  int64_t ratio, height, width;
  bool is_max, clamp_to_one;
};

// NaN if either is: a maximum of more pixels would forget it.
template <typename T>
T Larger(T a, T b) {
  return std::isnan(a) || b <= a ? a : b;
}

// One sample between four pixels; outside by more than a pixel there is nothing.
template <typename T>
double Sample(const T* plane, int64_t height, int64_t width, double y, double x, bool is_max) {
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return 0;
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  const int64_t y0 = std::min(static_cast<int64_t>(y), height - 1),
                x0 = std::min(static_cast<int64_t>(x), width - 1);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const double dy = y0 == height - 1 ? 0 : y - static_cast<double>(y0),
               dx = x0 == width - 1 ? 0 : x - static_cast<double>(x0);
  const auto at = [&](int64_t r, int64_t c) { return static_cast<double>(plane[r * width + c]); };
  const double a = (1 - dy) * (1 - dx) * at(y0, x0), b = (1 - dy) * dx * at(y0, x1);
  const double c = dy * (1 - dx) * at(y1, x0), d = dy * dx * at(y1, x1);
  return is_max ? Larger(Larger(a, b), Larger(c, d)) : a + b + c + d;
}

constexpr int64_t kMostSamples = 1 << 12;  // along one side of a bin

template <typename T>
Status AlignOne(const Args& args, const RoiParams& p, const T* roi, const T* plane, int64_t height,
                int64_t width, T* out) {
  const auto scaled = [&](int i) { return static_cast<double>(roi[i]) * p.scale - p.offset; };
  const double x1 = scaled(0), y1 = scaled(1);
  double w = scaled(2) - x1, h = scaled(3) - y1;
  if (p.clamp_to_one) w = std::max(w, 1.0), h = std::max(h, 1.0);
  const double bin_h = h / static_cast<double>(p.height), bin_w = w / static_cast<double>(p.width);
  const auto samples = [&](double bin) {
    return p.ratio > 0 ? p.ratio : To<int64_t>(std::max(std::ceil(bin), 0.0));
  };
  const int64_t ny = samples(bin_h), nx = samples(bin_w);
  if (ny > kMostSamples || nx > kMostSamples || std::isnan(w) || std::isnan(h)) {
    return Limit(fmt::format("RoiAlign: {} holds a region of {} by {} pixels", args.Name(1), h, w));
  }
  for (int64_t bin = 0; bin < p.height * p.width; ++bin) {
    Poll();
    const double top = y1 + static_cast<double>(bin / p.width) * bin_h,
                 left = x1 + static_cast<double>(bin % p.width) * bin_w;
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    for (int64_t s = 0; s < ny * nx; ++s) {
      const double y = top + (static_cast<double>(s / nx) + 0.5) * bin_h / static_cast<double>(ny);
      const double x = left + (static_cast<double>(s % nx) + 0.5) * bin_w / static_cast<double>(nx);
      const double v = Sample(plane, height, width, y, x, p.is_max);
      sum += v;
      most = Larger(most, v);
    }
    const auto count = static_cast<double>(std::max<int64_t>(ny * nx, 1));
    out[bin] = To<T>(p.is_max ? (ny * nx == 0 ? 0 : most) : sum / count);
  }
  return {};
}

}  // namespace

Status RunRoiAlign(const Args& args) {
  WEFT_TRY(args.Need(3));
  const In &x = args[0], &rois = args[1];  // [n, channels, height, width], [count, 4]
  WEFT_TRY(args.NeedType(1, x.dtype));
  WEFT_TRY(const auto batches, args.Ints(2));
  const RoiParams p{
      .scale = FloatAttr(args.call, "spatial_scale", 1),
      .offset = args.Text("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? 0.5 : 0,
      .ratio = args.Int("sampling_ratio", 0),
      .height = args.Int("output_height", 1),
      .width = args.Int("output_width", 1),
      .is_max = args.Text("mode", "avg") == "max",
      .clamp_to_one = args.Text("coordinate_transformation_mode", "half_pixel") != "half_pixel"};
  const bool fits = x.rank() == 4 && rois.rank() == 2 && rois.shape[1] == 4 && p.height > 0 &&
                    p.width > 0 && p.ratio >= 0 && p.ratio <= kMostSamples &&
                    static_cast<int64_t>(batches.size()) == rois.shape[0];
  if (!fits)
    return args.Error("X of shape {}, rois of shape {}, {} by {} bins", Print(x.shape),
                      Print(rois.shape), p.height, p.width);
  for (int64_t b : batches) {
    if (b < 0 || b >= x.shape[0])
      return args.Error("{} holds {}, outside [0, {})", args.Name(2), b, x.shape[0]);
  }
  const int64_t channels = x.shape[1], plane = x.shape[2] * x.shape[3];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, {rois.shape[0], channels, p.height, p.width}));
  if (out.elems == 0) return {};
  if (plane == 0) return args.Error("X of shape {} has no pixels", Print(x.shape));
  Status status;
  const bool known = ByFloat(x.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < rois.shape[0] * channels && status.ok(); ++i) {
      const int64_t roi = i / channels, from = batches[roi] * channels + i % channels;
      status = AlignOne<T>(args, p, rois.as<T>() + roi * 4, x.as<T>() + from * plane, x.shape[2],
                           x.shape[3], out.as<T>() + i * p.height * p.width);
    }
  });
  return known ? status : NoSuchType(args, x.dtype);
}

namespace {

// The pixels of bin `i` of `bins` along one side of a region, which lie in [0, extent).
struct BinSide {
  int64_t begin, end;
};

// In float, as the "RoI pooling layer" of R. Girshick, Fast R-CNN, ICCV 2015, has it: a side of 7
// pixels in bins of 7.0f / 3 may end a pixel later than exact arithmetic would have it.
BinSide SideOfBin(float from, float to, float scale, int64_t i, int64_t bins, int64_t extent) {
  const float first = std::round(from * scale);
  const float pixels = std::max(std::round(to * scale) - first + 1, 1.0f);
  const float bin = pixels / static_cast<float>(bins);
  const auto inside = [&](float at) { return std::clamp<int64_t>(To<int64_t>(at), 0, extent); };
  return {inside(std::floor(static_cast<float>(i) * bin) + first),
          inside(std::ceil(static_cast<float>(i + 1) * bin) + first)};
}

}  // namespace

// Bins overlap by the pixel that they share; one without pixels is 0.
Status RunMaxRoiPool(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &x = args[0], &rois = args[1];  // [n, channels, height, width], [count, 5]
  WEFT_TRY(args.NeedType(1, x.dtype));
  const auto bins = IntsAttr(args.call, "pooled_shape");
  const float scale = FloatAttr(args.call, "spatial_scale", 1);
  if (x.rank() != 4 || rois.rank() != 2 || rois.shape[1] != 5 || bins.size() != 2 || bins[0] < 1 ||
      bins[1] < 1)
    return args.Error("X of shape {}, rois of shape {}, pooled_shape of {}", Print(x.shape),
                      Print(rois.shape), Print(bins));
  const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, {rois.shape[0], channels, bins[0], bins[1]}));
  Status status;
  const bool known = ByFloat(x.dtype, [&]<typename T>() {
    T* to = out.as<T>();
    for (int64_t r = 0; r < rois.shape[0]; ++r) {
      const T* roi = rois.as<T>() + r * 5;  // image, left, top, right, bottom
      const auto number = [&](int i) { return static_cast<float>(roi[i]); };
      const auto image = To<int64_t>(number(0));
      if (image < 0 || image >= x.shape[0]) {
        status = args.Error("{} holds image {}, outside [0, {})", args.Name(1), image, x.shape[0]);
        return;
      }
      const T* plane = x.as<T>() + image * channels * height * width;
      for (int64_t c = 0; c < channels; ++c, plane += height * width) {
        for (int64_t bin = 0; bin < bins[0] * bins[1]; ++bin, ++to) {
          const BinSide rows =
              SideOfBin(number(2), number(4), scale, bin / bins[1], bins[0], height);
          const BinSide columns =
              SideOfBin(number(1), number(3), scale, bin % bins[1], bins[1], width);
          const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
          Compute<T> most = empty ? 0 : -std::numeric_limits<Compute<T>>::infinity();
          for (int64_t i = rows.begin; i < rows.end; ++i) {
            for (int64_t j = columns.begin; j < columns.end; ++j)
              most = Larger(most, static_cast<Compute<T>>(plane[i * width + j]));
          }
          *to = To<T>(most);
        }
      }
    }
  });
  return known ? status : NoSuchType(args, x.dtype);
}

// Each value goes to the place, in the output of the attributes, that its number names; the last
// one stays. A larger shape that is given has that output in its corner.
Status RunMaxUnpool(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &x = args[0], &places = args[1];  // [n, channels, spatial...]
  WEFT_TRY(args.NeedType(1, Dtype::kI64));
  const auto kernel = IntsAttr(args.call, "kernel_shape");
  auto strides = IntsAttr(args.call, "strides"), pads = IntsAttr(args.call, "pads");
  const size_t rank = kernel.size();
  if (strides.empty()) strides.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (x.rank() != rank + 2 || places.shape != x.shape || strides.size() != rank ||
      pads.size() != 2 * rank)
    return args.Error("values of shape {}, places of shape {}, a kernel of {} axes", Print(x.shape),
                      Print(places.shape), rank);
  Shape own = x.shape;
  for (size_t i = 0; i < rank; ++i) {
    constexpr int64_t kMost = INT32_MAX;
    if (std::min({kernel[i], strides[i], pads[i], pads[rank + i]}) < 0 ||
        std::max({kernel[i], strides[i], pads[i], pads[rank + i], own[i + 2]}) > kMost)
      return args.Error("a window of {} in steps of {}", kernel[i], strides[i]);
    own[i + 2] = (own[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i];
    if (own[i + 2] < 0) return args.Error("spatial axis {} would have {}", i, own[i + 2]);
  }
  Shape shape = own;
  if (args.Has(2)) {
    WEFT_TRY(shape, args.Ints(2));
    bool holds = shape.size() == own.size();
    for (size_t i = 0; holds && i < own.size(); ++i) holds = shape[i] >= own[i];
    if (!holds) return args.Error("a shape of {} for {}", Print(shape), Print(own));
  }
  WEFT_TRY(const int64_t count, CountElems(own));
  WEFT_TRY(const Out out, args.Output(0, x.dtype, shape));
  const int64_t bytes = SizeBytes(x.dtype);
  std::memset(out.data, 0, static_cast<size_t>(out.elems * bytes));
  for (int64_t i = 0; i < x.elems; ++i) {
    int64_t place = places.as<int64_t>()[i], to = 0, stride = 1;
    if (place < 0 || place >= count)
      return args.Error("{} holds {}, outside [0, {})", args.Name(1), place, count);
    for (size_t axis = own.size(); axis-- > 0; stride *= shape[axis]) {
      to += place % own[axis] * stride;
      place /= own[axis];
    }
    std::memcpy(static_cast<char*>(out.data) + to * bytes,
                static_cast<const char*>(x.data) + i * bytes, static_cast<size_t>(bytes));
  }
  return {};
}

}  // namespace weft::fallback::native
