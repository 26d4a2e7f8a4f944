#include "driver/reference_loops.h"

#include <algorithm>

#include "base/affine.h"

namespace weft::driver::reference {
namespace {

std::vector<int64_t> OrElse(std::vector<int64_t> given, size_t count, int64_t value) {
  if (given.empty()) given.assign(count, value);
  return given;
}

struct Window {
  std::vector<int64_t> strides, dilations, begin_pads, out;  // per spatial axis
};

// Extents of the output and pads at the beginnings, by ONNX's rules for Conv.
Window WindowOf(const graph::Node& node, const Shape& x, const Shape& w) {
  const size_t n = x.size() - 2;
  Window win{OrElse(graph::IntsAttr(node, "strides"), n, 1),
             OrElse(graph::IntsAttr(node, "dilations"), n, 1),
             {},
             {}};
  const std::vector<int64_t> pads = OrElse(graph::IntsAttr(node, "pads"), 2 * n, 0);
  const std::string automatic = graph::StringAttr(node, "auto_pad", "NOTSET");
  for (size_t d = 0; d < n; ++d) {
    const int64_t span = win.dilations[d] * (w[d + 2] - 1) + 1;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t out = (x[d + 2] + win.strides[d] - 1) / win.strides[d];
      const int64_t total = std::max<int64_t>(0, (out - 1) * win.strides[d] + span - x[d + 2]);
      win.begin_pads.push_back(automatic == "SAME_UPPER" ? total / 2 : total - total / 2);
      win.out.push_back(out);
    } else {
      const bool padded = automatic == "NOTSET";
      const int64_t sum = padded ? pads[d] + pads[d + n] : 0;
      win.begin_pads.push_back(padded ? pads[d] : 0);
      win.out.push_back((x[d + 2] + sum - span) / win.strides[d] + 1);
    }
  }
  return win;
}

int64_t Product(const Shape& shape, size_t from, size_t to) {
  int64_t p = 1;
  for (size_t i = from; i < to; ++i) p *= shape[i];
  return p;
}

// y[i] += scale * x[i * stride] for i in [first, end).
__attribute__((target_clones("default", "avx2", "avx512f"))) void AddScaled(
    const double* x, int64_t stride, double scale, double* y, int64_t first, int64_t end) {
  if (stride == 1) {
    for (int64_t i = first; i < end; ++i) y[i] += scale * x[i];
  } else {
    for (int64_t i = first; i < end; ++i) y[i] += scale * x[i * stride];
  }
}

// x: [N, C, spatial…], w: [K, C/group, kernel…], y: [N, K, out…]. For each tap, one pass over the
// output row of the innermost axis: fast enough for whole networks, and nothing that could be
// wrong.
Tensor Convolve(const graph::Node& node, const Tensor& x, const Tensor& w, const Tensor* bias) {
  const Window win = WindowOf(node, x.shape(), w.shape());
  const size_t n = x.shape().size() - 2;
  const int64_t group = graph::IntAttr(node, "group", 1);
  const int64_t batch = x.shape()[0], channels = x.shape()[1], filters = w.shape()[0];
  Shape shape{batch, filters};
  shape.insert(shape.end(), win.out.begin(), win.out.end());
  Tensor y(Dtype::kF64, shape);
  double* out = y.mutable_as<double>();
  const int64_t per_group = channels / group, taps = Product(w.shape(), 2, n + 2);
  const int64_t in_plane = Product(x.shape(), 2, n + 2), out_plane = Product(shape, 2, n + 2);
  const int64_t row = win.out[n - 1], rows = row ? out_plane / row : 0;
  const int64_t in_row = x.shape()[n + 1];
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t k = 0; k < filters; ++k) {
      double* plane = out + (b * filters + k) * out_plane;
      std::fill_n(plane, out_plane, bias ? bias->as<double>()[k] : 0.0);
      for (int64_t c = 0; c < per_group; ++c) {
        const double* image =
            x.as<double>() + (b * channels + k / (filters / group) * per_group + c) * in_plane;
        const double* kernel = w.as<double>() + (k * per_group + c) * taps;
        for (int64_t tap = 0; tap < taps; ++tap)
          for (int64_t r = 0; r < rows; ++r) {
            // Split tap and output row into indices, innermost axis last.
            int64_t t = tap / w.shape()[n + 1], o = r, source = 0, scale = 1;
            bool inside = true;
            for (size_t d = n - 1; d-- > 0;) {
              const int64_t i = o % win.out[d] * win.strides[d] - win.begin_pads[d] +
                                t % w.shape()[d + 2] * win.dilations[d];
              inside &= i >= 0 && i < x.shape()[d + 2];
              source += i * scale;
              scale *= x.shape()[d + 2];
              o /= win.out[d];
              t /= w.shape()[d + 2];
            }
            if (!inside) continue;
            const int64_t shift =
                tap % w.shape()[n + 1] * win.dilations[n - 1] - win.begin_pads[n - 1];
            const int64_t stride = win.strides[n - 1];
            const int64_t first = shift < 0 ? -FloorDiv(shift, stride) : 0;
            const int64_t end = std::min(row, -FloorDiv(shift - in_row, stride));
            AddScaled(image + source * in_row + shift, stride, kernel[tap], plane + r * row, first,
                      end);
          }
      }
    }
  return y;
}

// C[m, n] += alpha * A[m, k] * B[k, n]: rows of B scaled and added to four of C at a time, a strip
// of columns that the first cache holds after the other. Each element adds up its products in the
// order of k.
__attribute__((target_clones("default", "avx2", "avx512f"))) void Multiply(
    const double* a, int64_t a_row, int64_t a_col, const double* b, int64_t b_row, double* c,
    int64_t m, int64_t n, int64_t k, double alpha) {
  constexpr int64_t kRows = 4, kColumns = 256;
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t columns = std::min(kColumns, n - j0);
    for (int64_t i = 0; i < m; i += kRows) {
      // Rows past the last repeat it, and are dropped.
      double sums[kRows][kColumns];
      const double* row[kRows];
      for (int64_t r = 0; r < kRows; ++r) {
        const int64_t at = std::min(i + r, m - 1);
        row[r] = a + at * a_row;
        std::copy_n(c + at * n + j0, columns, sums[r]);
      }
      for (int64_t l = 0; l < k; ++l) {
        const double* from = b + l * b_row + j0;
        const double s0 = alpha * row[0][l * a_col], s1 = alpha * row[1][l * a_col],
                     s2 = alpha * row[2][l * a_col], s3 = alpha * row[3][l * a_col];
        for (int64_t j = 0; j < columns; ++j) {
          sums[0][j] += s0 * from[j];
          sums[1][j] += s1 * from[j];
          sums[2][j] += s2 * from[j];
          sums[3][j] += s3 * from[j];
        }
      }
      for (int64_t r = 0; r < std::min(kRows, m - i); ++r)
        std::copy_n(sums[r], columns, c + (i + r) * n + j0);
    }
  }
}

Tensor MatMul(const Tensor& a, const Tensor& b) {
  Shape as = a.shape(), bs = b.shape();
  const bool vector_a = as.size() == 1, vector_b = bs.size() == 1;
  if (vector_a) as.insert(as.begin(), 1);
  if (vector_b) bs.push_back(1);
  const size_t rank = std::max(as.size(), bs.size());
  Shape ap(rank - as.size(), 1), bp(rank - bs.size(), 1), out;
  ap.insert(ap.end(), as.begin(), as.end());
  bp.insert(bp.end(), bs.begin(), bs.end());
  for (size_t d = 0; d + 2 < rank; ++d) out.push_back(ap[d] == 1 ? bp[d] : ap[d]);
  const int64_t m = ap[rank - 2], k = ap[rank - 1], n = bp[rank - 1],
                batch = Product(out, 0, out.size());
  Shape full = out;
  full.insert(full.end(), {m, n});
  Tensor c(Dtype::kF64, full);
  for (int64_t i = 0; i < batch; ++i) {
    int64_t rest = i, ia = 0, ib = 0, sa = 1, sb = 1;
    for (size_t d = out.size(); d-- > 0;) {
      const int64_t at = rest % out[d];
      rest /= out[d];
      if (ap[d] > 1) ia += at * sa;
      if (bp[d] > 1) ib += at * sb;
      sa *= ap[d];
      sb *= bp[d];
    }
    Multiply(a.as<double>() + ia * m * k, k, 1, b.as<double>() + ib * k * n, n,
             c.mutable_as<double>() + i * m * n, m, n, k, 1);
  }
  if (vector_b) full.pop_back();
  if (vector_a) full.erase(full.end() - (vector_b ? 1 : 2));
  return c.Reshaped(full);
}

Tensor Gemm(const graph::Node& node, const Tensor& a, const Tensor& b, const Tensor* bias) {
  const bool ta = graph::IntAttr(node, "transA", 0), tb = graph::IntAttr(node, "transB", 0);
  const double alpha = graph::FloatAttr(node, "alpha", 1), beta = graph::FloatAttr(node, "beta", 1);
  const int64_t m = a.shape()[ta], k = a.shape()[!ta], n = b.shape()[!tb];
  Tensor c(Dtype::kF64, {m, n});
  double* out = c.mutable_as<double>();
  if (bias) {
    Shape s(2 - bias->shape().size(), 1);
    s.insert(s.end(), bias->shape().begin(), bias->shape().end());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        out[i * n + j] = beta * bias->as<double>()[(s[0] > 1 ? i * s[1] : 0) + (s[1] > 1 ? j : 0)];
  }
  Tensor turned;  // rows of B have unit stride
  if (tb) {
    turned = Tensor(Dtype::kF64, {k, n});
    const double* from = b.as<double>();
    double* to = turned.mutable_as<double>();
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l) to[l * n + j] = from[j * k + l];
  }
  Multiply(a.as<double>(), ta ? 1 : k, ta ? m : 1, (tb ? turned : b).as<double>(), n, out, m, n, k,
           alpha);
  return c;
}

// The integers less their zero point, which is one for all or one for each channel: of so many,
// each `inner` elements long.
std::optional<Tensor> Centred(const Tensor& t, const Tensor* zero, int64_t channels,
                              int64_t inner) {
  if (zero && zero->elems() != 1 && zero->elems() != channels) return std::nullopt;
  Tensor out(Dtype::kF64, t.shape());
  double* to = out.mutable_as<double>();
  for (int64_t i = 0; i < t.elems(); ++i) {
    const int64_t channel = zero && zero->elems() > 1 ? i / inner % channels : 0;
    to[i] = static_cast<double>(ElemAsInt(t, i) - (zero ? ElemAsInt(*zero, channel) : 0));
  }
  return out;
}

// ConvInteger and MatMulInteger: the sums are integers below 2^53, so those of doubles are exact.
std::optional<Tensor> MultiplyIntegers(const graph::Node& node,
                                       const std::vector<const Tensor*>& operands) {
  const bool convolves = node.op == graph::Op::kConvInteger;
  const Tensor &a = *operands[0], &b = *operands[1];
  const auto zero = [&](size_t i) { return operands.size() > i ? operands[i] : nullptr; };
  const size_t rank = a.shape().size();
  if (!convolves && (rank < 2 || b.shape().size() != 2)) return std::nullopt;
  const auto x = convolves ? Centred(a, zero(2), 1, a.elems())
                           : Centred(a, zero(2), a.shape()[rank - 2], a.shape()[rank - 1]);
  const auto w = convolves ? Centred(b, zero(3), b.shape()[0], Product(b.shape(), 1, rank))
                           : Centred(b, zero(3), b.shape()[1], 1);
  if (!x || !w) return std::nullopt;
  const Tensor sums = convolves ? Convolve(node, *x, *w, nullptr) : MatMul(*x, *w);
  Tensor out(Dtype::kI32, sums.shape());
  for (int64_t i = 0; i < sums.elems(); ++i)
    SetElemInt(out, i, static_cast<int64_t>(sums.as<double>()[i]));  // wraps as 32 bits do
  return out;
}

}  // namespace

std::optional<Tensor> RunLoops(const graph::Node& node,
                               const std::vector<const Tensor*>& operands) {
  const auto floats = [&](size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (i >= operands.size() || !operands[i] || operands[i]->dtype() != Dtype::kF64) return false;
    return true;
  };
  const Tensor* third = operands.size() > 2 ? operands[2] : nullptr;
  switch (node.op) {
    case graph::Op::kConv:
      return floats(2) ? std::optional(Convolve(node, *operands[0], *operands[1], third))
                       : std::nullopt;
    case graph::Op::kMatMul:
      return floats(2) ? std::optional(MatMul(*operands[0], *operands[1])) : std::nullopt;
    case graph::Op::kGemm:
      return floats(2) ? std::optional(Gemm(node, *operands[0], *operands[1], third))
                       : std::nullopt;
    case graph::Op::kConvInteger:
    case graph::Op::kMatMulInteger:
      return MultiplyIntegers(node, operands);
    default:
      return std::nullopt;
  }
}

}  // namespace weft::driver::reference
