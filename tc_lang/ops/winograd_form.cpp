#include "tc_lang/ops/winograd_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/threads/parallel.h"

namespace weft::tc {
namespace {

// p(x) (x - root), by ascending powers.
std::vector<double> TimesLinear(const std::vector<double>& p, double root) {
  std::vector<double> product(p.size() + 1, 0);
  for (size_t k = 0; k < p.size(); ++k) {
    product[k + 1] += p[k];
    product[k] -= root * p[k];
  }
  return product;
}

WinogradForm MakeForm(std::string_view alternative, std::string_view key,
                      const std::vector<double>& points) {
  WinogradForm form{.alternative = alternative, .key = key};
  const size_t outs = points.size() - 1, n = outs + 2;
  form.output.assign(outs, std::vector<double>(n, 0));
  std::vector<double> all{1};
  for (size_t j = 0; j < points.size(); ++j) {
    all = TimesLinear(all, points[j]);
    std::vector<double> others{1};
    double scale = 1;
    for (size_t l = 0; l < points.size(); ++l) {
      if (l == j) continue;
      others = TimesLinear(others, points[l]);
      scale *= points[j] - points[l];
    }
    // A sign common to both factors of a product changes nothing; the filter's shall be positive.
    const double sign = scale < 0 ? -1 : 1;
    for (double& x : others) x *= sign;
    others.resize(n, 0);
    form.input.push_back(std::move(others));
    scale *= sign;
    form.filter.push_back({1 / scale, points[j] / scale, points[j] * points[j] / scale});
    for (size_t i = 0; i < outs; ++i) form.output[i][j] = std::pow(points[j], i);
  }
  form.input.push_back(std::move(all));
  form.filter.push_back({0, 0, 1});
  form.output[outs - 1][n - 1] = 1;
  return form;
}

// m x m for an m of any form.
constexpr size_t kMost = 6;
template <typename T>
using Tile = std::array<std::array<T, kMost>, kMost>;

// row . (d[0], d[stride], d[2 stride], ...)
template <typename T>
T Dot(const std::vector<double>& row, const T* d, size_t stride) {
  T sum = 0;
  for (size_t k = 0; k < row.size(); ++k)
    if (row[k] != 0) sum += static_cast<T>(row[k]) * d[k * stride];
  return sum;
}

// M d N^T.
template <typename T>
Tile<T> Transform(const Matrix& m, const Matrix& n, const Tile<T>& d) {
  Tile<T> columns{}, all{};
  for (size_t i = 0; i < m.size(); ++i)
    for (size_t b = 0; b < n[0].size(); ++b) columns[i][b] = Dot(m[i], &d[0][b], kMost);
  for (size_t i = 0; i < m.size(); ++i)
    for (size_t j = 0; j < n.size(); ++j) all[i][j] = Dot(n[j], columns[i].data(), 1);
  return all;
}

// Sums of tiles stay finite where direct ones do if no weight is near the end of the range.
bool IsTame(const Tensor& filters) {
  constexpr float kLargest = 1e18F;
  const auto* g = static_cast<const float*>(filters.data());
  return std::all_of(g, g + filters.elems(), [](float w) { return std::abs(w) <= kLargest; });
}

// Kernels sum in blocks of about so many products (polyhedral/propose/contraction.cpp).
constexpr size_t kBlock = 384;

// Ends a block of sums.
void AddTo(Tile<float>& total, Tile<float>& block) {
  for (size_t i = 0; i < kMost; ++i)
    for (size_t j = 0; j < kMost; ++j) total[i][j] += std::exchange(block[i][j], 0);
}

// Errors of both ways on one tile of inputs and one filter, squared, computed in float as kernels
// do, against double precision. Inputs are [C] tiles, their transforms likewise.
struct Errors {
  double direct = 0, tiled = 0;
};
Errors ErrorsOf(const TileForms& forms, const std::vector<Tile<float>>& d,
                const std::vector<Tile<float>>& v, const float* g, const float* u, int64_t pairs) {
  const auto& [down, across] = forms;
  const size_t taps = down.taps() * across.taps();
  Tile<float> m{}, sum{}, m_block{}, sum_block{};
  Tile<double> exact{};
  for (size_t c = 0; c < d.size(); ++c) {
    for (size_t i = 0; i < down.ins(); ++i)
      for (size_t j = 0; j < across.ins(); ++j)
        m_block[i][j] = std::fma(
            v[c][i][j],
            u[static_cast<int64_t>(across.ins() * i + j) * pairs + static_cast<int64_t>(c)],
            m_block[i][j]);
    for (size_t y = 0; y < down.outs(); ++y)
      for (size_t z = 0; z < across.outs(); ++z)
        for (size_t tap = 0; tap < taps; ++tap) {
          const float x = d[c][y + tap / across.taps()][z + tap % across.taps()],
                      w = g[taps * c + tap];
          sum_block[y][z] = std::fma(x, w, sum_block[y][z]);
          exact[y][z] += static_cast<double>(x) * w;
        }
    const bool last = c + 1 == d.size();
    if (last || (c + 1) % kBlock == 0) AddTo(m, m_block);
    if (last || (c + 1) % (kBlock / taps) == 0) AddTo(sum, sum_block);
  }
  const Tile<float> out = Transform(down.output, across.output, m);
  Errors errors;
  for (size_t y = 0; y < down.outs(); ++y)
    for (size_t z = 0; z < across.outs(); ++z) {
      errors.direct += std::pow(sum[y][z] - exact[y][z], 2);
      errors.tiled += std::pow(out[y][z] - exact[y][z], 2);
    }
  return errors;
}

// Filters less `zero_of` each of their outputs, as [down.ins, across.ins, K, C, ...], `times` as
// much.
template <typename From, typename To, typename Zero>
Tensor Transformed(const TileForms& forms, Dtype dtype, const Tensor& filters, double times,
                   Zero zero_of) {
  const auto& [down, across] = forms;
  const Shape& given = filters.shape();
  const auto rows = static_cast<int64_t>(down.ins()), columns = static_cast<int64_t>(across.ins()),
             taps = static_cast<int64_t>(down.taps() * across.taps());
  Shape shape{rows, columns, given[0], given[1]};
  if (given.size() == 5) shape.push_back(given[2]);
  Tensor out(dtype, shape);
  const int64_t pairs = filters.elems() / taps, each = pairs / given[0];
  const From* from = filters.as<From>();
  To* to = out.mutable_as<To>();
  InParallel(static_cast<size_t>(given[0]), [&](size_t k) {
    const auto first = static_cast<int64_t>(k) * each;
    const auto zero = zero_of(static_cast<int64_t>(k));
    for (int64_t pair = first; pair < first + each; ++pair) {
      const From* g = from + pair * taps;
      Tile<double> filter{};
      for (size_t i = 0; i < down.taps(); ++i)
        for (size_t j = 0; j < across.taps(); ++j) filter[i][j] = *g++ - zero;
      const Tile<double> u = Transform(down.filter, across.filter, filter);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          to[(columns * i + j) * pairs + pair] = static_cast<To>(times * u[i][j]);
    }
  });
  return out;
}

}  // namespace

std::span<const WinogradForm> WinogradForms() {
  // For four outputs, mixed points round better than integers do (Barabasz et al., Error Analysis
  // and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020).
  static const std::array<WinogradForm, 2> forms = {
      MakeForm("winograd", "winograd 2 3", {0, 1, -1}),
      MakeForm("winograd4", "winograd 4 3", {0, 1, -1, 0.5, -2})};
  return forms;
}

TileForms FormsAlong(const WinogradForm& form, const Shape& filters) {
  static const WinogradForm one{.input = {{1}}, .filter = {{1}}, .output = {{1}}};
  const bool plane = filters.size() >= 4;
  return {plane && filters[filters.size() - 2] == 3 ? form : one, filters.back() == 3 ? form : one};
}

Tensor TransformFilters(const WinogradForm& form, const Tensor& filters) {
  return Transformed<float, float>(FormsAlong(form, filters.shape()), Dtype::kF32, filters, 1,
                                   [](int64_t) { return 0; });
}

std::optional<Tensor> TransformIntegers(const WinogradForm& form, const Tensor& filters,
                                        const Tensor* zero) {
  constexpr int64_t kLargest = 255;  // of an image's elements less their zero point
  const TileForms forms = FormsAlong(form, filters.shape());
  const int64_t times = int64_t{1} << forms.Halved(),
                most = std::numeric_limits<int32_t>::max() / (kLargest * times);
  const auto zero_of = [zero](int64_t k) {
    return !zero ? 0 : static_cast<int>(ElemAsInt(*zero, zero->elems() == 1 ? 0 : k));
  };
  const auto transformed = [&]<typename T>(const T* g) -> std::optional<Tensor> {
    const int64_t outs = filters.shape()[0], each = filters.elems() / outs;
    for (int64_t k = 0; k < outs; ++k) {
      int64_t sum = 0;
      for (int64_t e = k * each; e < (k + 1) * each; ++e) sum += std::abs(g[e] - zero_of(k));
      if (sum > most) return std::nullopt;
    }
    return Transformed<T, int16_t>(forms, Dtype::kI16, filters, times, zero_of);
  };
  return filters.dtype() == Dtype::kI8 ? transformed(filters.as<int8_t>())
                                       : transformed(filters.as<uint8_t>());
}

double ErrorRatio(const WinogradForm& form, const Tensor& filters, const Tensor& transformed) {
  constexpr int64_t kFilters = 32, kMostIns = 256, kTiles = 2;
  if (!IsTame(filters)) return INFINITY;
  const TileForms forms = FormsAlong(form, filters.shape());
  const auto& [down, across] = forms;
  const size_t taps = down.taps() * across.taps();
  const int64_t outs = filters.shape()[0], pairs = filters.elems() / static_cast<int64_t>(taps),
                ins = pairs / outs;  // of each plane of a filter
  const auto* g = static_cast<const float*>(filters.data());
  const auto* u = static_cast<const float*>(transformed.data());
  std::mt19937 random(1);
  double worst = 0;
  for (const float low : {-1.0F, 0.0F}) {
    Errors all;
    for (int64_t t = 0; t < kTiles; ++t) {
      std::vector<Tile<float>> d(static_cast<size_t>(std::min(ins, kMostIns))), v = d;
      for (size_t c = 0; c < d.size(); ++c) {
        for (size_t i = 0; i < down.ins(); ++i)
          for (size_t j = 0; j < across.ins(); ++j)
            d[c][i][j] = low + (1 - low) * static_cast<float>(random() >> 8) * 0x1p-24F;
        v[c] = Transform(down.input, across.input, d[c]);
      }
      for (int64_t f = 0; f < std::min(kFilters, outs); ++f) {
        const int64_t k = f * outs / std::min(kFilters, outs);
        const float* filter = g + static_cast<int64_t>(taps) * k * ins;
        double size = 0;
        for (size_t i = 0; i < taps * d.size(); ++i)
          size += static_cast<double>(filter[i]) * filter[i];
        if (size == 0) continue;  // both are exact
        const Errors errors = ErrorsOf(forms, d, v, filter, u + k * ins, pairs);
        all.direct += errors.direct / size;
        all.tiled += errors.tiled / size;
      }
    }
    const double ratio = all.tiled == 0 ? 0 : std::sqrt(all.tiled / all.direct);
    worst = std::isnan(ratio) ? INFINITY : std::max(worst, ratio);
  }
  return worst;
}

}  // namespace weft::tc
