// What looks at one axis as a whole: Softmax, LogSoftmax and LpNormalization. All in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/threads/parallel.h"
#include "fallback/native/fold.h"
#include "fallback/native/loops.h"
#include "fallback/native/wide.h"

namespace weft::fallback::native {
namespace {

// Rows along an axis: elements that lie `inner` apart.
struct Rows {
  int64_t extent = 1, inner = 1, outer = 1;
};

// A scalar is a row of one element.
Result<Rows> RowsOf(const Args& args) {
  const In& in = args[0];
  if (in.rank() == 0) return Rows();
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", -1), in.rank()));
  Rows rows{.extent = in.shape[axis], .inner = Strides(in.shape)[axis]};
  rows.outer = in.elems == 0 ? 0 : in.elems / rows.extent / rows.inner;
  return rows;
}

constexpr int64_t kLanes = 16;

// dense(row), in place, for each row whose elements follow each other; of others
// lanes(rows) for kLanes side by side, which are as many as there are and then zeros.
template <typename Dense, typename Lanes>
void EachRow(const Rows& rows, const In& in, const Out& out, Dense dense, Lanes lanes) {
  const int64_t n = rows.extent, width = rows.inner == 1 ? 1 : kLanes;
  const int64_t sets = (rows.inner + width - 1) / width;
  InPieces(rows.outer * sets, RowsOfPiece(n * width), [&](int64_t from, int64_t to) {
    std::vector<double> x(n * width);
    for (int64_t set = from; set < to; ++set) {
      Poll();
      const int64_t column = set % sets * width, count = std::min(width, rows.inner - column);
      const int64_t at = set / sets * n * rows.inner + column;
      if (width == 1) {
        Load(in, at, n, x.data());
        dense(x.data());
        Store(out, at, n, x.data());
        continue;
      }
      for (int64_t i = 0; i < n; ++i) Load(in, at + i * rows.inner, count, &x[i * width]);
      lanes(x.data());
      for (int64_t i = 0; i < n; ++i) Store(out, at + i * rows.inner, count, &x[i * width]);
    }
  });
}

// acc[k] = join(acc[k], x[i, k], k) for all i.
template <typename Join>
void FoldLanes(const double* x, int64_t n, double* acc, Join join) {
  for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
    for (int64_t k = 0; k < kLanes; ++k) acc[k] = join(acc[k], x[i * kLanes + k], k);
  }
}

// x[i, k] = f(x[i, k], k)
template <typename F>
void EachLane(double* x, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
    for (int64_t k = 0; k < kLanes; ++k) x[i * kLanes + k] = f(x[i * kLanes + k], k);
  }
}

// The maximum is taken off first, so that exp never overflows.
void Softmax(double* x, int64_t n, bool logarithm) {
  Vectorised([=] {
    const auto at = [=](int64_t i) { return x[i]; };
    const double least = -std::numeric_limits<double>::infinity();
    const double most = Fold(n, least, at, [](double a, double b) { return Larger(a, b); });
    if (logarithm) {
      const double sum = FoldSum(n, [=](int64_t i) { return std::exp(x[i] - most); });
      const double shift = std::log(sum);
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] - most - shift;
      return;
    }
    for (int64_t i = 0; i < n; ++i) x[i] = std::exp(x[i] - most);
    const double sum = FoldSum(n, at);
    for (int64_t i = 0; i < n; ++i) x[i] /= sum;
  });
}

void SoftmaxLanes(double* x, int64_t n, bool logarithm) {
  Vectorised([=] {
    double most[kLanes], sum[kLanes] = {};
    std::ranges::fill(most, -std::numeric_limits<double>::infinity());
    FoldLanes(x, n, most, [](double m, double v, int64_t) { return Larger(m, v); });
    if (logarithm) {
      FoldLanes(x, n, sum,
                [&](double s, double v, int64_t k) { return s + std::exp(v - most[k]); });
      for (double& s : sum) s = std::log(s);
      EachLane(x, n, [&](double v, int64_t k) { return v - most[k] - sum[k]; });
      return;
    }
    EachLane(x, n, [&](double v, int64_t k) { return std::exp(v - most[k]); });
    FoldLanes(x, n, sum, [](double s, double v, int64_t) { return s + v; });
    EachLane(x, n, [&](double v, int64_t k) { return v / sum[k]; });
  });
}

// A row of zeros stays one.
void Normalize(double* x, int64_t n, bool absolute) {
  Vectorised([=] {
    const double sum =
        FoldSum(n, [=](int64_t i) { return absolute ? std::fabs(x[i]) : x[i] * x[i]; });
    const double norm = sum == 0 ? 1 : absolute ? sum : std::sqrt(sum);
    for (int64_t i = 0; i < n; ++i) x[i] /= norm;
  });
}

void NormalizeLanes(double* x, int64_t n, bool absolute) {
  Vectorised([=] {
    double norm[kLanes] = {};
    FoldLanes(x, n, norm,
              [=](double s, double v, int64_t) { return s + (absolute ? std::fabs(v) : v * v); });
    for (double& s : norm) s = s == 0 ? 1 : absolute ? s : std::sqrt(s);
    EachLane(x, n, [&](double v, int64_t k) { return v / norm[k]; });
  });
}

}  // namespace

Status RunSoftmax(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  WEFT_TRY(const Rows rows, RowsOf(args));
  if (!IsFloat(in.dtype) || SizeBytes(in.dtype) < 2) return NoSuchType(args, in.dtype);
  WEFT_TRY(const Out out, args.Output(0, in.dtype, in.shape));
  if (in.elems == 0) return {};
  const std::string& op = args.call.op;
  const bool logarithm = op == "LogSoftmax", absolute = args.Int("p", 2) == 1;
  const int64_t n = rows.extent;
  WEFT_TRY(args.NeedScratch(static_cast<double>(n) * sizeof(double) *
                            static_cast<double>(rows.inner == 1 ? 1 : kLanes) * ThreadsOfArena()));
  if (op == "LpNormalization") {
    EachRow(
        rows, in, out, [=](double* x) { Normalize(x, n, absolute); },
        [=](double* x) { NormalizeLanes(x, n, absolute); });
  } else {
    EachRow(
        rows, in, out, [=](double* x) { Softmax(x, n, logarithm); },
        [=](double* x) { SoftmaxLanes(x, n, logarithm); });
  }
  return {};
}

}  // namespace weft::fallback::native
