// Apart from the products, whose file has not the flags of loops in vectors.
#include "fallback/native/gemm.h"
#include "fallback/native/vectors.h"

namespace weft::fallback::native {

void Widen(const Half* from, int64_t count, float* to) {
  Vectorised([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  });
}

void Widen(const Bfloat* from, int64_t count, float* to) {
  Vectorised([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  });
}

}  // namespace weft::fallback::native
