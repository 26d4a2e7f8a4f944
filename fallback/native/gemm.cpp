#include "fallback/native/gemm.h"

#include <algorithm>
#include <numeric>

#include "base/threads/parallel.h"
#include "fallback/native/loops.h"

namespace weft::fallback::native {
namespace {

// A tile of C = A * B + bias, or C += A * B. A is packed: k times a column of it.
template <typename T>
struct TileCall {
  int64_t k = 0;
  const T* a = nullptr;
  const T* b = nullptr;
  int64_t b_row = 0;
  const T* next = nullptr;  // rows of B to be fetched early, one in `next_every` steps; or none
  int64_t next_every = 1;
  T* c = nullptr;
  int64_t c_row = 0;
  const T* bias = nullptr;
  bool adds = false;
};

// C = A * B where k goes along the rows of A and the columns of B.
template <typename T>
struct DotsCall {
  int64_t rows = 0, columns = 0, k = 0;
  const T* a = nullptr;
  int64_t a_row = 0;
  const T* b = nullptr;
  int64_t b_column = 0;
  T* c = nullptr;
  int64_t c_row = 0, c_column = 0;
};
constexpr int64_t kDotColumns = 8;

template <typename T>
struct Instance {
  int64_t lanes;  // elements of a vector
  int64_t most_rows;
  int64_t (*tile_rows)(int64_t rows);
  int (*wide_vecs)(int rows);
  void (*tile)(int64_t rows, int vecs, const TileCall<T>& call);  // vecs: 1, 2 or wide_vecs(rows)
  void (*dots)(const DotsCall<T>& call);
  void (*taps)(const TapsCall<T>& call);
};

namespace plain {
constexpr int kBytes = 16;
#define WEFT_TARGET
#include "fallback/native/gemm_tiles.def"
#undef WEFT_TARGET
}  // namespace plain

#if defined(__x86_64__)
namespace v3 {
constexpr int kBytes = 32;
#define WEFT_TARGET __attribute__((target("avx2,fma")))
#include "fallback/native/gemm_tiles.def"
#undef WEFT_TARGET
}  // namespace v3
namespace v4 {
constexpr int kBytes = 64;
#ifdef __clang__  // does not know the last word
#define WEFT_TARGET __attribute__((target("avx512f,avx2,fma")))
#else
#define WEFT_TARGET __attribute__((target("avx512f,avx2,fma,prefer-vector-width=512")))
#endif
#include "fallback/native/gemm_tiles.def"
#undef WEFT_TARGET
}  // namespace v4
#endif

template <typename T>
const Instance<T>& Best() {
  static const Instance<T> instance = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return v4::InstanceOf<T>();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return v3::InstanceOf<T>();
#endif
    return plain::InstanceOf<T>();
  }();
  return instance;
}

// So many k are done at once: the rows of A that a tile reads lie in L1, the panels of B that they
// meet in L2.
constexpr int64_t kBlock = 256, kPanelBytes = int64_t{1} << 19;

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// So few rows do not pay for a copy of B in another order.
template <typename T>
bool IsLow(const Product<T>& p) {
  return p.m <= 8 * Best<T>().most_rows;
}

// Whether B lies along k and is best read so. Sums of sums at the end want to be worth it.
template <typename T>
bool UsesDots(const Product<T>& p) {
  const bool along = p.b != nullptr && p.b_row == 1 && p.a_k == 1 && (p.b_column != 1 || p.n == 1);
  return along && (IsLow(p) || p.n <= 4) && p.k >= (p.m <= 2 || p.n == 1 ? 16 : 128);
}

template <typename T>
class Run {
 public:
  Run(const Product<T>& p, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
      : p_(p), i0_(i0), i1_(i1), j0_(j0), j1_(j1) {}

  void operator()() {
    if (UsesDots(p_)) return ByDots();
    if (p_.b != nullptr && p_.b_column == 1 && IsLow(p_)) return InPlace();
    Packed();
  }

 private:
  void ByDots() const {
    DotsCall<T> call{.rows = i1_ - i0_,
                     .columns = j1_ - j0_,
                     .k = p_.k,
                     .a = p_.a + i0_ * p_.a_row,
                     .a_row = p_.a_row,
                     .b = p_.b + j0_ * p_.b_column,
                     .b_column = p_.b_column,
                     .c = C(i0_, j0_),
                     .c_row = p_.c_row,
                     .c_column = 1};
    if (call.rows > call.columns) {  // the shorter side stays, the longer one goes by
      std::swap(call.rows, call.columns);
      std::swap(call.a, call.b);
      std::swap(call.a_row, call.b_column);
      std::swap(call.c_row, call.c_column);
    }
    best_.dots(call);
    for (int64_t i = i0_; p_.bias != nullptr && i < i1_; ++i)
      for (int64_t j = j0_; j < j1_; ++j) *C(i, j) += p_.bias[i];
  }

  void InPlace() {
    const int64_t depth = DepthInPlace(), height = RoundUp(i1_ - i0_, best_.most_rows);
    Scratch<T> a(height * depth), b(best_.lanes * depth);
    const int64_t first = best_.tile_rows(i1_ - i0_);
    const int wide = first >= i1_ - i0_ ? best_.wide_vecs(static_cast<int>(first)) : 2;
    int64_t p0 = 0;
    do {
      const int64_t p1 = std::min(p_.k, p0 + depth);
      int64_t j = j0_, rows = 0;
      for (int64_t i = i0_; i < i1_; i += rows) {
        rows = best_.tile_rows(i1_ - i);
        PackA(i, rows, p0, p1, a.get() + (i - i0_) * depth);
      }
      for (int vecs : {wide, 2, 1}) {
        for (; j + vecs * best_.lanes <= j1_; j += vecs * best_.lanes)
          Column(j, vecs, p0, p1, a.get(), p_.b + p0 * p_.b_row + j, p_.b_row);
      }
      if (j < j1_) {  // no vector may reach behind B
        PackB(p0, p1, j, b.get(), best_.lanes);
        Column(j, 1, p0, p1, a.get(), b.get(), best_.lanes);
      }
      Poll();
      p0 = p1;
    } while (p0 < p_.k);
  }

  // Rows of B are streams to the hardware, which fetches ahead in some at a time; what meets B more
  // often gains by a sum that stays in registers. Measured on 1 to 64 rows and a B in memory.
  int64_t DepthInPlace() const {
    if (p_.m <= best_.most_rows) return kBlock / 16;
    return p_.m <= 2 * best_.most_rows ? kBlock / 8 : kBlock / 2;
  }

  void Column(int64_t j, int vecs, int64_t p0, int64_t p1, const T* a, const T* b, int64_t b_row) {
    int64_t rows = 0;
    for (int64_t i = i0_; i < i1_; i += rows) {
      rows = best_.tile_rows(i1_ - i);
      Tile(i, rows, j, vecs, p0, p1, a + (i - i0_) * DepthInPlace(), b, b_row);
    }
  }

  void Packed() {
    const int64_t pitch = 2 * best_.lanes, depth = std::min(p_.k, kBlock);
    const int64_t most = std::max(kPanelBytes / int64_t{sizeof(T)} / kBlock / pitch, int64_t{1});
    const int64_t columns = std::min(RoundUp(j1_ - j0_, pitch), most * pitch);
    Scratch<T> a(best_.most_rows * depth), b(depth * columns);
    for (int64_t j = j0_; j < j1_; j += columns) {
      int64_t p0 = 0;
      do {
        const int64_t p1 = std::min(p_.k, p0 + kBlock);
        Block(j, std::min(j1_, j + columns), p0, p1, a.get(), b.get());
        p0 = p1;
      } while (p0 < p_.k);
    }
  }

  // Columns [j0, j1) of rows [p0, p1) of B are packed, and meet all of A.
  void Block(int64_t j0, int64_t j1, int64_t p0, int64_t p1, T* a, T* b) {
    const int64_t pitch = 2 * best_.lanes, panel = pitch * (p1 - p0);
    for (int64_t j = j0; j < j1; j += pitch) {
      Poll();
      PackB(p0, p1, j, b + (j - j0) / pitch * panel, pitch);
    }
    int64_t rows = 0;
    for (int64_t i = i0_; i < i1_; i += rows) {
      Poll();
      rows = best_.tile_rows(i1_ - i);
      PackA(i, rows, p0, p1, a);
      for (int64_t j = j0; j < j1; j += pitch) {
        const int vecs = j1 - j <= best_.lanes ? 1 : 2;
        Tile(i, rows, j, vecs, p0, p1, a, b + (j - j0) / pitch * panel, pitch);
      }
    }
  }

  T* C(int64_t i, int64_t j) const { return p_.c + i * p_.c_row + j; }

  // A tile at (i, j); what of it lies outside is computed elsewhere and dropped.
  void Tile(int64_t i, int64_t rows, int64_t j, int vecs, int64_t p0, int64_t p1, const T* a,
            const T* b, int64_t b_row) {
    const int64_t height = std::min(rows, i1_ - i), width = std::min(vecs * best_.lanes, j1_ - j);
    TileCall<T> call{.k = p1 - p0, .a = a, .b = b, .b_row = b_row, .c = C(i, j), .c_row = p_.c_row};
    // Where rows of B are far apart, the hardware does not see what comes: each of the tiles that
    // meet these columns fetches its part of the next ones, evenly, as memory can give them.
    if (p_.b != nullptr && b_row == p_.b_row) {
      call.next_every = (i1_ - i0_ + best_.most_rows - 1) / best_.most_rows;
      const int64_t part = (call.k + call.next_every - 1) / call.next_every;
      call.next = b + (i - i0_) / best_.most_rows * part * b_row + vecs * best_.lanes;
    }
    const T* bias = p_.bias == nullptr ? nullptr : p_.bias + i;
    if (height == rows && width == vecs * best_.lanes) {
      call.bias = bias;
      call.adds = p0 > 0;
      return best_.tile(rows, vecs, call);
    }
    alignas(64) T spare[kMostTile];
    call.c = spare;
    call.c_row = vecs * best_.lanes;
    best_.tile(rows, vecs, call);
    for (int64_t r = 0; r < height; ++r) {
      const T* from = spare + r * call.c_row;
      T* to = C(i + r, j);
      const T start = bias == nullptr ? T{0} : bias[r];
      for (int64_t l = 0; l < width; ++l) to[l] = from[l] + (p0 > 0 ? to[l] : start);
    }
  }

  // For each k the elements of a column of the tile, side by side; those below A are zero.
  void PackA(int64_t i, int64_t rows, int64_t p0, int64_t p1, T* to) const {
    const int64_t height = std::min(rows, i1_ - i);
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = p_.a + (i + r) * p_.a_row + p0 * p_.a_k;
      for (int64_t p = 0; p < p1 - p0; ++p) to[p * rows + r] = r < height ? from[p * p_.a_k] : T{0};
    }
  }

  void PackB(int64_t p0, int64_t p1, int64_t j, T* to, int64_t pitch) const {
    const int64_t width = std::min(pitch, j1_ - j);
    if (p_.b == nullptr) {
      p_.pack(p0, p1, j, width, to, pitch);
    } else if (p_.b_column == 1) {
      for (int64_t p = p0; p < p1; ++p)
        std::copy_n(p_.b + p * p_.b_row + j, width, to + (p - p0) * pitch);
    } else {
      Turn(p0, p1, j, width, to, pitch);
    }
    if (width == pitch) return;
    for (int64_t p = 0; p < p1 - p0; ++p)
      std::fill(to + p * pitch + width, to + (p + 1) * pitch, T{0});
  }

  // Few columns at a time, so that what is written lies in the cache until its lines are full.
  void Turn(int64_t p0, int64_t p1, int64_t j, int64_t width, T* to, int64_t pitch) const {
    constexpr int64_t kStep = 16;
    for (int64_t p = p0; p < p1; p += kStep) {
      const int64_t end = std::min(p1, p + kStep);
      for (int64_t l = 0; l < width; ++l) {
        const T* from = p_.b + (j + l) * p_.b_column;
        for (int64_t q = p; q < end; ++q) to[(q - p0) * pitch + l] = from[q * p_.b_row];
      }
    }
  }

  static constexpr int64_t kMostTile = 12 * 64 / sizeof(T) * 2;

  const Product<T>& p_;
  const Instance<T>& best_ = Best<T>();
  int64_t i0_, i1_, j0_, j1_;
};

bool IsWorthThreads(double work) { return work >= 1 << 19 && ThreadsOfArena() > 1; }

// How a product is cut into so many pieces or some more.
template <typename T>
struct Cuts {
  // Columns first, since each piece packs its part of B for all its rows, and more of them than are
  // asked for, which even out; but not into strips so narrow that packing A would take as long.
  Cuts(const Product<T>& p, int64_t pieces) {
    const Instance<T>& best = Best<T>();
    const int64_t wide = 8 * best.lanes;
    across = std::clamp<int64_t>(p.n / wide, 1, pieces > 1 ? 4 * pieces : 1);
    if (across < pieces && p.n >= pieces * wide / 2) across = pieces;
    width = RoundUp((p.n + across - 1) / across, best.lanes);
    across = (p.n + width - 1) / width;
    const int64_t left = (pieces + across - 1) / across;
    height = RoundUp((p.m + left - 1) / left, best.most_rows);
    down = (p.m + height - 1) / height;
  }
  int64_t height, width, across, down;
};

}  // namespace

void ForRanges(int64_t count, double work, const std::function<void(int64_t, int64_t)>& body) {
  if (count < 2 || !IsWorthThreads(work)) return body(0, count);
  const int64_t ranges = 16 * int64_t{ThreadsOfArena()};
  InPieces(count, (count + ranges - 1) / ranges, body);
}

void ForPieces(int64_t count, double work, const std::function<void(int64_t)>& body) {
  ForRanges(count, work, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) body(i);
  });
}

template <typename T>
void MultiplyHere(const Product<T>& product) {
  if (product.m == 0 || product.n == 0) return;
  Run<T>(product, 0, product.m, 0, product.n)();
}

template <typename T>
void Multiply(int64_t count, const std::function<Product<T>(int64_t)>& product) {
  if (count == 0) return;
  const Product<T> first = product(0);
  if (first.m == 0 || first.n == 0) return;
  const double work = static_cast<double>(first.m) * static_cast<double>(first.n) *
                      static_cast<double>(std::max<int64_t>(first.k, 1)) *
                      static_cast<double>(count);
  // Of few rows each element of B is hardly used: they take as long as more rows would.
  const double effort = first.m < 4 ? 4 * work : work;
  // As many that all threads have the same, unless there are many anyway.
  const int64_t threads = IsWorthThreads(effort) ? ThreadsOfArena() : 1;
  const int64_t wanted = count < 4 * threads ? threads / std::gcd(count, threads) : 1;
  const Cuts<T> cuts(first, wanted);
  const int64_t pieces = cuts.across * cuts.down;
  ForPieces(count * pieces, effort, [&](int64_t at) {
    const Product<T> p = product(at / pieces);
    const int64_t i = at % pieces / cuts.across * cuts.height, j = at % cuts.across * cuts.width;
    Run<T>(p, i, std::min(p.m, i + cuts.height), j, std::min(p.n, j + cuts.width))();
  });
}

template <typename T>
void SumTaps(const TapsCall<T>& call) {
  Best<T>().taps(call);
}

template void Multiply(int64_t, const std::function<Product<float>(int64_t)>&);
template void Multiply(int64_t, const std::function<Product<double>(int64_t)>&);
template void MultiplyHere(const Product<float>&);
template void MultiplyHere(const Product<double>&);
template void SumTaps(const TapsCall<float>&);
template void SumTaps(const TapsCall<double>&);

}  // namespace weft::fallback::native
