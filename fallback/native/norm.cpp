// Normalizations: (x - mean) / sqrt(variance + epsilon) over various sets of axes, and what is
// like it. All in double, the variance in a second pass.
#include <algorithm>
#include <cmath>

#include "fallback/native/fold.h"
#include "fallback/native/loops.h"
#include "fallback/native/wide.h"

namespace weft::fallback::native {
namespace {

struct Moments {
  double mean = 0, inverse = 0;  // 1 / sqrt(variance + epsilon)
};

double SumOf(const double* x, int64_t n) {
  double sum = 0;
  Vectorised([=, &sum] { sum = FoldSum(n, [=](int64_t i) { return x[i]; }); });
  return sum;
}

// Of what is left of x without the mean.
double SquaresOf(const double* x, int64_t n, double mean) {
  double sum = 0;
  Vectorised(
      [=, &sum] { sum = FoldSum(n, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); }); });
  return sum;
}

// Of a row of n elements; without_mean: its mean counts as 0.
Moments MomentsOf(const double* x, int64_t n, double epsilon, bool without_mean) {
  const auto count = static_cast<double>(n);
  const double mean = without_mean ? 0 : SumOf(x, n) / count;
  return {mean, 1 / std::sqrt(SquaresOf(x, n, mean) / count + epsilon)};
}

// x = (x - mean) * factor + shift
void Shift(double* x, int64_t n, double mean, double factor, double shift) {
  Vectorised([=] {
    for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - mean) * factor + shift;
  });
}

Status NeedFloat(const Args& args, size_t i) {
  WEFT_TRY(args.NeedOne(i));
  const Dtype dtype = args[i].dtype;
  return IsFloat(dtype) && SizeBytes(dtype) >= 2 ? Status() : NoSuchType(args, dtype);
}

// A scale or a bias of LayerNormalization: one row for all, or one for each.
struct PerElement {
  std::vector<double> values;  // empty: there is none
  int64_t step = 0;            // elements from row to row
  const double* Row(int64_t row) const { return values.data() + row * step; }
};

Result<PerElement> PerElementOf(const Args& args, size_t i, int64_t axis) {
  PerElement out;
  if (!args.Has(i)) return out;
  WEFT_TRY(NeedFloat(args, i));
  const Shape& x = args[0].shape;
  Shape own = args[i].shape;
  const auto rest = static_cast<int64_t>(x.size()) - static_cast<int64_t>(own.size());
  bool fits = rest >= 0, is_one_row = true;
  for (int64_t d = std::max<int64_t>(rest, 0); fits && d < static_cast<int64_t>(x.size()); ++d) {
    const int64_t extent = own[d - rest];
    fits = extent == 1 || extent == x[d];
    is_one_row &= d >= axis || extent == 1;
  }
  if (!fits) {
    return args.Error("{} of shape {} does not broadcast to {}", args.Name(i), Print(own),
                      Print(x));
  }
  if (args[0].elems == 0) return out;  // nor is there anything to scale
  Shape shape(x.begin() + (is_one_row ? axis : 0), x.end());
  WEFT_TRY(const int64_t elems, CountElems(shape));
  while (own.size() > shape.size()) own.erase(own.begin());
  const std::vector<double> wide = LoadAll(args[i]);
  out.values.resize(elems);
  BroadcastLoops<1>(shape, {&own}).Rows([&](auto at, int64_t count, auto step) {
    for (int64_t k = 0; k < count; ++k) out.values[at[0] + k * step[0]] = wide[at[1] + k * step[1]];
  });
  if (!is_one_row) {
    WEFT_TRY(out.step, CountElems(Shape(x.begin() + axis, x.end())));
  }
  return out;
}

// A vector of one element a channel.
Result<std::vector<double>> PerChannel(const Args& args, size_t i, int64_t channels) {
  WEFT_TRY(NeedFloat(args, i));
  if (args[i].rank() == 1 && args[i].elems == channels) return LoadAll(args[i]);
  return args.Error("{} has the shape {}, expected [{}]", args.Name(i), Print(args[i].shape),
                    channels);
}

double Epsilon(const Args& args) { return FloatAttr(args.call, "epsilon", 1e-5F); }

}  // namespace

// LayerNormalization with its statistics, RMSNormalization.
Status RunLayerNormalization(const Args& args) {
  const bool is_rms = args.call.op == "RMSNormalization";
  WEFT_TRY(args.Need(2));
  WEFT_TRY(NeedFloat(args, 0));
  const In& x = args[0];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", -1), x.rank()));
  WEFT_TRY(const PerElement scale, PerElementOf(args, 1, axis));
  WEFT_TRY(const PerElement bias, PerElementOf(args, is_rms ? args.size() : 2, axis));
  WEFT_TRY(const Out out, args.Output(0, is_rms ? args[1].dtype : x.dtype, x.shape));
  const bool has_statistics = !is_rms && (args.Wants(1) || args.Wants(2));
  if (x.elems == 0 && !has_statistics) return {};  // rows of no elements may be many
  WEFT_TRY(const int64_t rows, CountElems(Shape(x.shape.begin(), x.shape.begin() + axis)));
  WEFT_TRY(const int64_t n, CountElems(Shape(x.shape.begin() + axis, x.shape.end())));
  Shape reduced = x.shape;
  std::fill(reduced.begin() + axis, reduced.end(), 1);
  Out means, inverses;
  if (!is_rms && args.Wants(1)) {
    WEFT_TRY(means, args.Output(1, Dtype::kF32, reduced));
  }
  if (!is_rms && args.Wants(2)) {
    WEFT_TRY(inverses, args.Output(2, Dtype::kF32, reduced));
  }
  const double epsilon = Epsilon(args);
  InPieces(rows, RowsOfPiece(n), [&](int64_t from, int64_t to) {
    std::vector<double> row(n);
    for (int64_t r = from; r < to; ++r) {
      Poll();
      Load(x, r * n, n, row.data());
      const Moments m = MomentsOf(row.data(), n, epsilon, is_rms);
      Vectorised([n, m, x = row.data(), s = scale.Row(r), b = bias.Row(r),
                  has_bias = !bias.values.empty()] {
        for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - m.mean) * m.inverse * s[i];
        for (int64_t i = 0; has_bias && i < n; ++i) x[i] += b[i];
      });
      Store(out, r * n, n, row.data());
      if (means.data != nullptr) means.as<float>()[r] = static_cast<float>(m.mean);
      if (inverses.data != nullptr) inverses.as<float>()[r] = static_cast<float>(m.inverse);
    }
  });
  return {};
}

// GroupNormalization, and InstanceNormalization, whose groups are channels.
Status RunGroupNormalization(const Args& args) {
  WEFT_TRY(args.Need(3));
  WEFT_TRY(NeedFloat(args, 0));
  const In& x = args[0];
  const bool is_instance = args.call.op == "InstanceNormalization";
  if (x.rank() < 2)
    return args.Error("{} has the shape {}, expected rank 2 or more", args.Name(0), Print(x.shape));
  const int64_t channels = x.shape[1];
  const int64_t groups = is_instance ? std::max<int64_t>(channels, 1) : args.Int("num_groups", 0);
  if (groups < 1 || channels % groups != 0)
    return args.Error("{} channels do not divide into {} groups", channels, groups);
  WEFT_TRY(const std::vector<double> scale, PerChannel(args, 1, channels));
  WEFT_TRY(const std::vector<double> bias, PerChannel(args, 2, channels));
  WEFT_TRY(const Out out, args.Output(0, x.dtype, x.shape));
  if (x.elems == 0) return {};
  const int64_t size = channels / groups, plane = x.elems / x.shape[0] / channels, n = size * plane;
  const double epsilon = Epsilon(args);
  InPieces(x.shape[0] * groups, RowsOfPiece(n), [&](int64_t from, int64_t to) {
    std::vector<double> row(n);
    for (int64_t r = from; r < to; ++r) {
      Poll();
      Load(x, r * n, n, row.data());
      const Moments m = MomentsOf(row.data(), n, epsilon, false);
      for (int64_t k = 0; k < size; ++k) {
        const int64_t c = r % groups * size + k;
        Shift(row.data() + k * plane, plane, m.mean, m.inverse * scale[c], bias[c]);
      }
      Store(out, r * n, n, row.data());
    }
  });
  return {};
}

namespace {

struct Channels {
  int64_t batch = 1, count = 1, plane = 1;
};

// The mean and the variance of each channel over the batch.
void MomentsOfBatch(const In& x, const Channels& of, std::vector<double>& mean,
                    std::vector<double>& variance) {
  const double count = static_cast<double>(of.batch) * static_cast<double>(of.plane);
  std::vector<double> row(of.plane);
  for (int64_t c = 0; c < of.count; ++c) {
    const auto sum = [&](auto f) {
      double sum = 0;
      for (int64_t b = 0; b < of.batch; ++b) {
        Poll();
        Load(x, (b * of.count + c) * of.plane, of.plane, row.data());
        sum += f(row.data(), of.plane);
      }
      return sum;
    };
    mean[c] = sum(SumOf) / count;
    variance[c] = sum([&](const double* r, int64_t n) { return SquaresOf(r, n, mean[c]); }) / count;
  }
}

// The running statistics, moved on by those of the batch.
Status MoveOn(const Args& args, size_t i, const std::vector<double>& of_batch) {
  const In& old = args[i + 2];
  const double kept = FloatAttr(args.call, "momentum", 0.9F);
  std::vector<double> now = LoadAll(old);
  for (size_t c = 0; c < now.size(); ++c) now[c] = now[c] * kept + of_batch[c] * (1 - kept);
  WEFT_TRY(const Out out, args.Output(i, old.dtype, old.shape));
  Store(out, 0, out.elems, now.data());
  return {};
}

}  // namespace

Status RunBatchNormalization(const Args& args) {
  WEFT_TRY(args.Need(5));
  WEFT_TRY(NeedFloat(args, 0));
  const In& x = args[0];
  if (x.rank() < 1)
    return args.Error("{} has the shape {}, expected rank 1 or more", args.Name(0), Print(x.shape));
  // [N] is one channel.
  Channels of{x.shape[0], x.rank() < 2 ? 1 : x.shape[1], 1};
  of.plane = x.elems == 0 ? 0 : x.elems / of.batch / of.count;
  if (x.rank() < 2) std::swap(of.batch, of.plane);
  std::vector<double> v[4];
  for (size_t i = 0; i < 4; ++i) {
    WEFT_TRY(v[i], PerChannel(args, i + 1, of.count));
  }
  auto& [scale, bias, mean, variance] = v;
  if (args.Int("training_mode", 0) != 0) {
    MomentsOfBatch(x, of, mean, variance);
    if (args.Wants(1)) WEFT_TRY(MoveOn(args, 1, mean));
    if (args.Wants(2)) WEFT_TRY(MoveOn(args, 2, variance));
  }
  WEFT_TRY(const Out out, args.Output(0, x.dtype, x.shape));
  if (x.elems == 0) return {};
  const double epsilon = Epsilon(args);
  std::vector<double> factor(of.count);
  for (int64_t c = 0; c < of.count; ++c) factor[c] = scale[c] / std::sqrt(variance[c] + epsilon);
  const int64_t n = of.count * of.plane;
  // Whole rows of short planes.
  const int64_t each = of.plane < 64 ? of.count : 1;
  const bool by_element = of.plane == 1;
  InPieces(
      x.elems / (each * of.plane), RowsOfPiece(each * of.plane), [&](int64_t from, int64_t to) {
        std::vector<double> row(each * of.plane);
        for (int64_t r = from; r < to; ++r) {
          const int64_t at = r * each * of.plane, first = at % n / of.plane;
          Poll();
          Load(x, at, each * of.plane, row.data());
          if (by_element) {
            Vectorised([x = row.data(), m = mean.data(), f = factor.data(), b = bias.data(), each] {
              for (int64_t c = 0; c < each; ++c) x[c] = (x[c] - m[c]) * f[c] + b[c];
            });
          }
          for (int64_t k = 0; !by_element && k < each; ++k) {
            const int64_t c = first + k;
            Shift(row.data() + k * of.plane, of.plane, mean[c], factor[c], bias[c]);
          }
          Store(out, at, each * of.plane, row.data());
        }
      });
  return {};
}

// Across channels: those from c - (size - 1) / 2 to c + size / 2 that exist.
Status RunLrn(const Args& args) {
  WEFT_TRY(args.Need(1));
  WEFT_TRY(NeedFloat(args, 0));
  const In& x = args[0];
  const int64_t size = args.Int("size", 1);
  if (x.rank() < 2)
    return args.Error("{} has the shape {}, expected rank 2 or more", args.Name(0), Print(x.shape));
  if (size < 1) return args.Error("size is {}, expected 1 or more", size);
  WEFT_TRY(const Out out, args.Output(0, x.dtype, x.shape));
  if (x.elems == 0) return {};
  const int64_t channels = x.shape[1], plane = x.elems / x.shape[0] / channels;
  const double bias = FloatAttr(args.call, "bias", 1), beta = FloatAttr(args.call, "beta", 0.75F);
  const double alpha = FloatAttr(args.call, "alpha", 1e-4F) / static_cast<double>(size);
  constexpr int64_t kMost = 256;  // elements of a plane at once
  const int64_t sets = (plane + kMost - 1) / kMost, width = std::min(plane, kMost);
  InPieces(x.shape[0] * sets, RowsOfPiece(channels * width), [&](int64_t from, int64_t to) {
    std::vector<double> all(channels * width), sum(width);
    for (int64_t set = from; set < to; ++set) {
      const int64_t first = set % sets * kMost, n = std::min(kMost, plane - first);
      const int64_t at = set / sets * channels * plane + first;
      for (int64_t c = 0; c < channels; ++c) Load(x, at + c * plane, n, all.data() + c * width);
      for (int64_t c = 0; c < channels; ++c) {
        Poll();
        const int64_t low = std::max<int64_t>(c - (size - 1) / 2, 0);
        const int64_t high = c + std::min(size / 2, channels - 1 - c);
        Vectorised([=, sum = sum.data(), all = all.data()] {
          for (int64_t i = 0; i < n; ++i) sum[i] = 0;
          for (int64_t k = low; k <= high; ++k)
            for (int64_t i = 0; i < n; ++i) sum[i] += all[k * width + i] * all[k * width + i];
          const double* own = all + c * width;
          for (int64_t i = 0; i < n; ++i) sum[i] = own[i] / std::pow(bias + alpha * sum[i], beta);
        });
        Store(out, at + c * plane, n, sum.data());
      }
    }
  });
  return {};
}

}  // namespace weft::fallback::native
