// Floats of any type as doubles and back, in vectors.
#pragma once

#include "fallback/native/types.h"
#include "fallback/native/vectors.h"

namespace weft::fallback::native {

inline void Load(const In& in, int64_t at, int64_t count, double* to) {
  ByFloat(in.dtype, [=, &in]<typename T>() {
    Vectorised([=, from = in.as<T>() + at] {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
    });
  });
}

inline void Store(const Out& out, int64_t at, int64_t count, const double* from) {
  ByFloat(out.dtype, [=, &out]<typename T>() {
    Vectorised([=, to = out.as<T>() + at] {
      for (int64_t i = 0; i < count; ++i) to[i] = To<T>(from[i]);
    });
  });
}

inline std::vector<double> LoadAll(const In& in) {
  std::vector<double> all(in.elems);
  Load(in, 0, in.elems, all.data());
  return all;
}

// How many rows make a piece of work for one thread.
inline int64_t RowsOfPiece(int64_t row) {
  return std::max<int64_t>((1 << 15) / std::max<int64_t>(row, 1), 1);
}

}  // namespace weft::fallback::native
