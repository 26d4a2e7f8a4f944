// The innermost loops of products. gemm.cpp includes this once for each instruction set, in a
// namespace of its own, with WEFT_TARGET for the attribute of its functions and kBytes for the
// width of its vectors: hence no guard, and no function without the attribute.

template <typename T>
struct Simd {
  static constexpr int kLanes = kBytes / sizeof(T);
  typedef T Vec __attribute__((vector_size(kBytes)));
  typedef T Loose __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};

constexpr bool kIsWide = kBytes == 64;  // which come with 32 registers
constexpr int64_t kMostRows = kIsWide ? 12 : 6;

// Sums of few rows need many columns: a multiply-add waits for the one before it in its sum.
constexpr int WideVecs(int rows) {
  if (rows == 1) return 8;
  return rows == 2 || (rows == 4 && kIsWide) ? 4 : 2;
}

// A tile of C, held in registers while k goes by.
template <typename T, int kRows, int kVecs>
WEFT_TARGET void Tile(const TileCall<T>& call) {
  using Vec = typename Simd<T>::Vec;
  using Loose = typename Simd<T>::Loose;
  constexpr int kLanes = Simd<T>::kLanes;
  Vec sums[kRows][kVecs] = {};
  const T *a = call.a, *b = call.b;
  for (int64_t p = 0; p < call.k; ++p, a += kRows, b += call.b_row) {
    Vec row[kVecs];
    if (call.next != 0) {
#pragma GCC unroll 16
      for (int v = 0; v < kVecs; v += 64 / kBytes) __builtin_prefetch(b + call.next + v * kLanes);
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) row[v] = *reinterpret_cast<const Loose*>(b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVecs; ++v) sums[i][v] += a[i] * row[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* c = call.c + i * call.c_row;
    const T start = call.bias == nullptr ? T{0} : call.bias[i];
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) {
      Loose& to = *reinterpret_cast<Loose*>(c + v * kLanes);
      if (call.adds)
        to += sums[i][v];
      else
        to = sums[i][v] + start;
    }
  }
}

template <typename T, int kRows>
WEFT_TARGET void TileOfRows(int vecs, const TileCall<T>& call) {
  if (vecs == 1) return Tile<T, kRows, 1>(call);
  if (vecs == 2) return Tile<T, kRows, 2>(call);
  Tile<T, kRows, WideVecs(kRows)>(call);
}

template <typename T>
WEFT_TARGET void AnyTile(int64_t rows, int vecs, const TileCall<T>& call) {
  if (rows == 1) return TileOfRows<T, 1>(vecs, call);
  if (rows == 2) return TileOfRows<T, 2>(vecs, call);
  if (rows == 4) return TileOfRows<T, 4>(vecs, call);
  if constexpr (kIsWide) {
    if (rows == 8) return TileOfRows<T, 8>(vecs, call);
  }
  TileOfRows<T, kMostRows>(vecs, call);
}

// The smallest tile with so many rows, or the largest one.
constexpr int64_t TileRows(int64_t rows) {
  if (rows <= 2) return rows;
  if (rows <= 4) return 4;
  return kIsWide && rows <= 8 ? 8 : kMostRows;
}

// kRows rows of A times kColumns columns of B, both of which lie along k.
template <typename T, int kRows, int kColumns>
WEFT_TARGET void DotTile(const DotsCall<T>& call, int64_t i, int64_t j) {
  using Vec = typename Simd<T>::Vec;
  using Loose = typename Simd<T>::Loose;
  constexpr int kLanes = Simd<T>::kLanes;
  const T *a = call.a + i * call.a_row, *b = call.b + j * call.b_column;
  Vec sums[kRows][kColumns] = {};
  int64_t p = 0;
  for (; p + kLanes <= call.k; p += kLanes) {
    Vec row[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      row[r] = *reinterpret_cast<const Loose*>(a + r * call.a_row + p);
#pragma GCC unroll 16
    for (int s = 0; s < kColumns; ++s) {
      const Vec column = *reinterpret_cast<const Loose*>(b + s * call.b_column + p);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][s] += row[r] * column;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int s = 0; s < kColumns; ++s) {
      T parts[kLanes];
      *reinterpret_cast<Loose*>(parts) = sums[r][s];
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) parts[l] += parts[l + half];
      for (int64_t q = p; q < call.k; ++q)
        parts[0] += a[r * call.a_row + q] * b[s * call.b_column + q];
      call.c[(i + r) * call.c_row + (j + s) * call.c_column] = parts[0];
    }
  }
}

template <typename T, int kRows>
WEFT_TARGET void DotRows(const DotsCall<T>& call, int64_t i, int64_t j) {
  constexpr int kColumns = kRows == 1 ? 8 : kIsWide || kRows == 2 ? 4 : 2;
  const int64_t end = std::min(call.columns, j + kDotColumns);
  for (; j + kColumns <= end; j += kColumns) DotTile<T, kRows, kColumns>(call, i, j);
  for (; j < end; ++j) DotTile<T, kRows, 1>(call, i, j);
}

// Some columns of B stay in the cache while the rows of A go by.
template <typename T>
WEFT_TARGET void Dots(const DotsCall<T>& call) {
  for (int64_t j = 0; j < call.columns; j += kDotColumns) {
    Poll();
    int64_t i = 0;
    for (; i + 4 <= call.rows; i += 4) DotRows<T, 4>(call, i, j);
    for (; i < call.rows; ++i) DotRows<T, 1>(call, i, j);
  }
}

template <typename T, int kVecs>
WEFT_TARGET void TapsBlock(const TapsCall<T>& call, int64_t at) {
  using Vec = typename Simd<T>::Vec;
  using Loose = typename Simd<T>::Loose;
  constexpr int kLanes = Simd<T>::kLanes;
  Vec sums[kVecs] = {};
  for (int64_t t = 0; t < call.taps; ++t) {
    const T* in = call.in + call.offsets[t] + at;
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v)
      sums[v] += call.weights[t] * *reinterpret_cast<const Loose*>(in + v * kLanes);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v)
    *reinterpret_cast<Loose*>(call.out + at + v * kLanes) = sums[v] + call.start;
}

template <typename T>
WEFT_TARGET void Taps(const TapsCall<T>& call) {
  constexpr int kLanes = Simd<T>::kLanes;
  int64_t at = 0;
  for (; at + 8 * kLanes <= call.count; at += 8 * kLanes) TapsBlock<T, 8>(call, at);
  for (; at < call.count; at += kLanes) TapsBlock<T, 1>(call, at);
}

template <typename T>
constexpr Instance<T> InstanceOf() {
  return {Simd<T>::kLanes, kMostRows, TileRows, WideVecs, AnyTile<T>, Dots<T>, Taps<T>};
}
