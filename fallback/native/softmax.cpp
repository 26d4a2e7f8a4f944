// What looks at one axis as a whole: Softmax, LogSoftmax and LpNormalization. All in double.
#include <algorithm>
#include <cmath>
#include <limits>

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

// body(row) for each, in place. Those that are not dense are copied, some side by side.
template <typename Body>
void EachRow(const Rows& rows, const In& in, const Out& out, Body body) {
  constexpr int64_t kMost = 16;
  const int64_t n = rows.extent, sets = (rows.inner + kMost - 1) / kMost;
  const int64_t width = std::min(rows.inner, kMost);
  InPieces(rows.outer * sets, RowsOfPiece(n * width), [&](int64_t from, int64_t to) {
    std::vector<double> row(n), line(width), side(rows.inner == 1 ? 0 : n * width);
    for (int64_t set = from; set < to; ++set) {
      Poll();
      const int64_t column = set % sets * kMost, count = std::min(kMost, rows.inner - column);
      const int64_t at = set / sets * n * rows.inner + column;
      if (rows.inner == 1) {
        Load(in, at, n, row.data());
        body(row.data());
        Store(out, at, n, row.data());
        continue;
      }
      for (int64_t i = 0; i < n; ++i) Load(in, at + i * rows.inner, count, side.data() + i * width);
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t i = 0; i < n; ++i) row[i] = side[i * width + k];
        body(row.data());
        for (int64_t i = 0; i < n; ++i) side[i * width + k] = row[i];
      }
      for (int64_t i = 0; i < n; ++i)
        Store(out, at + i * rows.inner, count, side.data() + i * width);
    }
  });
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

// A row of zeros stays one.
void Normalize(double* x, int64_t n, bool absolute) {
  Vectorised([=] {
    const double sum =
        FoldSum(n, [=](int64_t i) { return absolute ? std::fabs(x[i]) : x[i] * x[i]; });
    const double norm = sum == 0 ? 1 : absolute ? sum : std::sqrt(sum);
    for (int64_t i = 0; i < n; ++i) x[i] = sum == 0 ? 0 : x[i] / norm;
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
  EachRow(rows, in, out, [&](double* row) {
    if (op == "LpNormalization")
      Normalize(row, rows.extent, absolute);
    else
      Softmax(row, rows.extent, logarithm);
  });
  return {};
}

}  // namespace weft::fallback::native
