// Clip: min(max(x, low), high), each bound optional. A NaN stays, and one as a bound is the result.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"
#include "fallback/native/vectors.h"

namespace weft::fallback::native {
namespace {

// The bound, or what bounds nothing.
template <typename T>
T BoundOf(const Args& args, size_t i) {
  using C = Compute<T>;
  using Limits = std::numeric_limits<C>;
  if (args.Has(i)) return *args[i].as<T>();
  if constexpr (std::is_floating_point_v<C>)
    return To<T>(i == 1 ? -Limits::infinity() : Limits::infinity());
  else
    return i == 1 ? Limits::lowest() : Limits::max();
}

// Chooses among elements, so nothing is rounded.
template <typename T>
void Clip(const T* x, T* y, int64_t count, T low, T high) {
  using C = Compute<T>;
  const C least = low, most = high;
  if (most != most || least != least) {
    std::fill_n(y, count, most != most ? high : low);
    return;
  }
  Vectorised([=] {
    for (int64_t i = 0; i < count; ++i) {
      const C v = x[i];
      const bool rises = v < least;
      const bool falls = most < (rises ? least : v);
      const T risen = rises ? low : x[i];
      y[i] = falls ? high : risen;
    }
  });
}

}  // namespace

Status RunClip(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& x = args[0];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, x.shape));
  for (size_t i : {1, 2}) {
    if (!args.Has(i)) continue;
    WEFT_TRY(args.NeedType(i, x.dtype));
    if (args[i].elems != 1)
      return args.Error("{} has {} elements, expected 1", args.Name(i), args[i].elems);
  }
  const bool known = ByType(x.dtype, [&]<typename T>() {
    const T low = BoundOf<T>(args, 1), high = BoundOf<T>(args, 2);
    InPieces(out.elems, 1 << 17, [&](int64_t from, int64_t to) {
      Clip(x.as<T>() + from, out.as<T>() + from, to - from, low, high);
    });
  });
  return known ? Status() : NoSuchType(args, x.dtype);
}

}  // namespace weft::fallback::native
