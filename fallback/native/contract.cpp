// MatMul and Gemm. Floats of 16 bits accumulate in f32 and are rounded once; integers wrap.
#include <algorithm>
#include <utility>

#include "fallback/native/gemm.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

// `count` products of the same form. Strides are in elements; those of a batch lie on axes.
struct Products {
  int64_t m = 1, n = 1, k = 1;
  int64_t a_row = 0, a_k = 1, b_row = 0, b_column = 1;
  int64_t count = 1;
  Shape batch;
  std::vector<int64_t> batch_a, batch_b;

  // Where the matrices of product i begin.
  std::pair<int64_t, int64_t> At(int64_t i) const {
    std::pair<int64_t, int64_t> at{0, 0};
    for (size_t d = batch.size(); d-- > 0; i /= batch[d]) {
      at.first += i % batch[d] * batch_a[d];
      at.second += i % batch[d] * batch_b[d];
    }
    return at;
  }
};

// A panel of B as f32. One of its strides is 1.
template <typename T>
void PackWide(const T* from, const Products& p, int64_t height, int64_t width, float* to,
              int64_t pitch) {
  if (p.b_column == 1) {
    for (int64_t q = 0; q < height; ++q) Widen(from + q * p.b_row, width, to + q * pitch);
    return;
  }
  constexpr int64_t kStep = 16;
  float line[kStep];
  for (int64_t q = 0; q < height; q += kStep) {
    const int64_t count = std::min(kStep, height - q);
    for (int64_t j = 0; j < width; ++j) {
      Widen(from + j * p.b_column + q, count, line);
      for (int64_t r = 0; r < count; ++r) to[(q + r) * pitch + j] = line[r];
    }
  }
}

template <typename T>
void MultiplyFloats(const Products& p, const In& a, const In& b, Compute<T>* c) {
  using C = Compute<T>;
  const Widened<T> wide(a.as<T>(), a.elems);
  Multiply<C>(p.count, [&](int64_t i) {
    const auto [at_a, at_b] = p.At(i);
    Product<C> product{.m = p.m,
                       .n = p.n,
                       .k = p.k,
                       .a = wide.get() + at_a,
                       .a_row = p.a_row,
                       .a_k = p.a_k,
                       .b_row = p.b_row,
                       .b_column = p.b_column,
                       .c = c + i * p.m * p.n,
                       .c_row = p.n};
    const T* from = b.as<T>() + at_b;
    if constexpr (kIs16<T>) {
      product.pack = [from, &p](int64_t p0, int64_t p1, int64_t j, int64_t width, float* to,
                                int64_t pitch) {
        PackWide(from + p0 * p.b_row + j * p.b_column, p, p1 - p0, width, to, pitch);
      };
    } else {
      product.b = from;
    }
    return product;
  });
}

template <typename T>
void MultiplyInts(const Products& p, const In& a, const In& b, T* to) {
  using U = std::make_unsigned_t<T>;
  U* c = reinterpret_cast<U*>(to);
  for (int64_t i = 0; i < p.count; ++i) {
    const auto [at_a, at_b] = p.At(i);
    for (int64_t r = 0; r < p.m; ++r, c += p.n) {
      Poll();
      std::fill_n(c, p.n, U{0});
      for (int64_t q = 0; q < p.k; ++q) {
        const U x = static_cast<U>(a.as<T>()[at_a + r * p.a_row + q * p.a_k]);
        const T* row = b.as<T>() + at_b + q * p.b_row;
        for (int64_t j = 0; j < p.n; ++j) c[j] += x * static_cast<U>(row[j * p.b_column]);
      }
    }
  }
}

// The types that ONNX allows.
template <typename Body>
bool ByFactor(Dtype dtype, Body body) {
  if (dtype == Dtype::kI32) return body.template operator()<int32_t>(), true;
  if (dtype == Dtype::kI64) return body.template operator()<int64_t>(), true;
  if (dtype == Dtype::kU32) return body.template operator()<uint32_t>(), true;
  if (dtype == Dtype::kU64) return body.template operator()<uint64_t>(), true;
  return ByFloat(dtype, body);
}

// To `c`, which is the result itself unless that has 16 bits.
template <typename T>
void MultiplyAs(const Products& p, const In& a, const In& b, Compute<T>* c) {
  if constexpr (std::is_integral_v<T>)
    MultiplyInts<T>(p, a, b, c);
  else
    MultiplyFloats<T>(p, a, b, c);
}

Status Misfit(const Args& args) {
  return args.Error("{} of shape {} does not fit {} of shape {}", args.Name(1),
                    Print(args[1].shape), args.Name(0), Print(args[0].shape));
}

// The axes before the matrices, by numpy's rule.
Result<Shape> BatchOf(const Args& args, const Shape& a, const Shape& b) {
  const Shape &longer = a.size() < b.size() ? b : a, &other = a.size() < b.size() ? a : b;
  Shape batch(longer.begin(), longer.end() - 2);
  for (size_t d = 0; d + 2 < other.size(); ++d) {
    int64_t& extent = batch[longer.size() - other.size() + d];
    if (extent == 1) extent = other[d];
    if (other[d] != 1 && other[d] != extent) return Misfit(args);
  }
  return batch;
}

std::vector<int64_t> BatchStrides(const Shape& shape, const Shape& batch) {
  const Shape own(shape.begin(), shape.end() - 2);
  std::vector<int64_t> strides = BroadcastStrides(own, batch);
  for (int64_t& stride : strides) stride *= shape[shape.size() - 2] * shape.back();
  return strides;
}

// Rows of all batches are rows of one product where all of them meet the same matrix.
void Fold(Products& p) {
  const bool is_shared = std::ranges::all_of(p.batch_b, [](int64_t s) { return s == 0; });
  int64_t whole = p.m * p.k;
  for (size_t d = p.batch.size(); d-- > 0; whole *= p.batch[d])
    if (!is_shared || (p.batch[d] != 1 && p.batch_a[d] != whole)) return;
  p.m *= std::exchange(p.count, 1);
  p.batch.clear();
}

// With the batch of products of matrices `a` and `b`, whose result is not empty. Beside an empty
// one, extents and their products may be anything.
Products ProductsOf(const Shape& a, const Shape& b, const Shape& batch) {
  Products p{.m = a[a.size() - 2], .n = b.back(), .k = a.back(), .batch = batch};
  p.a_row = p.k;
  p.b_row = p.n;
  p.batch_a = BatchStrides(a, batch);
  p.batch_b = BatchStrides(b, batch);
  for (int64_t extent : batch) p.count *= extent;
  Fold(p);
  return p;
}

}  // namespace

Status RunMatMul(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &left = args[0], &right = args[1];
  WEFT_TRY(args.NeedType(1, left.dtype));
  if (left.rank() == 0 || right.rank() == 0) return Misfit(args);
  Shape a = left.shape, b = right.shape;
  if (left.rank() == 1) a.insert(a.begin(), 1);
  if (right.rank() == 1) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return Misfit(args);
  WEFT_TRY(const Shape batch, BatchOf(args, a, b));
  Shape shape = batch;
  if (left.rank() > 1) shape.push_back(a[a.size() - 2]);
  if (right.rank() > 1) shape.push_back(b.back());
  WEFT_TRY(const Out out, args.Output(0, left.dtype, shape));
  const bool known = ByFactor(out.dtype, [&]<typename T>() {
    if (out.elems == 0) return;
    const Products p = ProductsOf(a, b, batch);
    if constexpr (kIs16<T>) {
      const Scratch<float> c(out.elems);
      MultiplyAs<T>(p, left, right, c.get());
      for (int64_t i = 0; i < out.elems; ++i) out.as<T>()[i] = To<T>(c.get()[i]);
    } else {
      MultiplyAs<T>(p, left, right, out.as<T>());
    }
  });
  return known ? Status() : NoSuchType(args, out.dtype);
}

namespace {

// out = alpha * c + beta * addend. Integers come with factors of one.
template <typename T>
void Scale(const Args& args, const Compute<T>* c, double alpha, double beta, const Out& out) {
  using C = Compute<T>;
  const bool adds = args.Has(2) && beta != 0;
  const Loops<2> loops = BroadcastLoops<1>(out.shape, {adds ? &args[2].shape : &out.shape});
  loops.Rows([&](auto at, int64_t count, auto step) {
    const T* addend = adds ? args[2].as<T>() + at[1] : nullptr;
    T* to = out.as<T>() + at[0];
    for (int64_t i = 0; i < count; ++i) {
      const C sum = c[at[0] + i * step[0]];
      if constexpr (std::is_integral_v<C>) {
        using U = std::make_unsigned_t<C>;
        to[i * step[0]] = static_cast<T>(static_cast<U>(sum) +
                                         (adds ? static_cast<U>(addend[i * step[1]]) : U{0}));
      } else {
        const C more = adds ? static_cast<C>(beta) * static_cast<C>(addend[i * step[1]]) : C{0};
        to[i * step[0]] = To<T>(static_cast<C>(alpha) * sum + more);
      }
    }
  });
}

Status CheckAddend(const Args& args, const Shape& shape) {
  WEFT_TRY(args.NeedType(2, args[0].dtype));
  const Shape& own = args[2].shape;
  bool fits = own.size() <= shape.size();
  for (size_t d = 0; fits && d < own.size(); ++d)
    fits = own[d] == 1 || own[d] == shape[shape.size() - own.size() + d];
  if (fits) return {};
  return args.Error("{} of shape {} does not broadcast to {}", args.Name(2), Print(own),
                    Print(shape));
}

}  // namespace

Status RunGemm(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &a = args[0], &b = args[1];
  WEFT_TRY(args.NeedType(1, a.dtype));
  if (a.rank() != 2 || b.rank() != 2) return Misfit(args);
  const bool turned_a = args.Int("transA", 0) != 0, turned_b = args.Int("transB", 0) != 0;
  const double alpha = FloatAttr(args.call, "alpha", 1), beta = FloatAttr(args.call, "beta", 1);
  Products p{.m = a.shape[turned_a ? 1 : 0],
             .n = b.shape[turned_b ? 0 : 1],
             .k = a.shape[turned_a ? 0 : 1]};
  if (b.shape[turned_b ? 1 : 0] != p.k) return Misfit(args);
  (turned_a ? p.a_k : p.a_row) = a.shape[1];
  (turned_a ? p.a_row : p.a_k) = 1;
  (turned_b ? p.b_column : p.b_row) = b.shape[1];
  (turned_b ? p.b_row : p.b_column) = 1;
  const Shape shape{p.m, p.n};
  if (args.Has(2)) WEFT_TRY(CheckAddend(args, shape));
  if (!IsFloat(a.dtype) && (alpha != 1 || (args.Has(2) && beta != 0 && beta != 1)))
    return Unsupported(args.call.op + ": integers scaled by real numbers");
  WEFT_TRY(const Out out, args.Output(0, a.dtype, shape));
  const bool scales = alpha != 1 || (args.Has(2) && beta != 0);
  const bool known = ByFactor(out.dtype, [&]<typename T>() {
    if (out.elems == 0) return;
    if constexpr (kIs16<T>) {
      const Scratch<float> c(out.elems);
      MultiplyAs<T>(p, a, b, c.get());
      Scale<T>(args, c.get(), alpha, beta, out);
    } else {
      MultiplyAs<T>(p, a, b, out.as<T>());
      if (scales) Scale<T>(args, out.as<T>(), alpha, beta, out);
    }
  });
  return known ? Status() : NoSuchType(args, out.dtype);
}

}  // namespace weft::fallback::native
