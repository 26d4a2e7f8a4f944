// Loops compiled for the vectors of the CPU at hand: the program starts on any x86-64.
//
// Files that include this are compiled with flags that let loops become vectors and change no
// result (CMakeLists.txt).
#pragma once

#include <cmath>

// Of glibc's mathematics there are versions on vectors, in double within 4 ulp (manual, "Errors in
// Math Functions"). GCC calls them from loops over functions declared so; other compilers don't.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#define WEFT_ON_VECTORS(f) __attribute__((simd("notinbranch"))) double f(double) noexcept;
extern "C" {
WEFT_ON_VECTORS(acos)
WEFT_ON_VECTORS(acosh)
WEFT_ON_VECTORS(asin)
WEFT_ON_VECTORS(asinh)
WEFT_ON_VECTORS(atan)
WEFT_ON_VECTORS(atanh)
WEFT_ON_VECTORS(cos)
WEFT_ON_VECTORS(cosh)
WEFT_ON_VECTORS(erf)
WEFT_ON_VECTORS(exp)
WEFT_ON_VECTORS(expm1)
WEFT_ON_VECTORS(log)
WEFT_ON_VECTORS(log1p)
WEFT_ON_VECTORS(sin)
WEFT_ON_VECTORS(sinh)
WEFT_ON_VECTORS(tan)
WEFT_ON_VECTORS(tanh)
__attribute__((simd("notinbranch"))) double pow(double, double) noexcept;
}
#undef WEFT_ON_VECTORS
#endif
#endif

namespace weft::fallback::native {

#if defined(__x86_64__)

// `body` and all that it calls, once for each kind of vectors.
template <typename Body>
[[gnu::target("arch=x86-64-v4"), gnu::flatten, gnu::noinline]] void OnWideVectors(Body body) {
  body();
}
template <typename Body>
[[gnu::target("arch=x86-64-v3"), gnu::flatten, gnu::noinline]] void OnVectors(Body body) {
  body();
}

template <typename Body>
void Vectorised(Body body) {
  if (__builtin_cpu_supports("x86-64-v4")) return OnWideVectors(body);
  if (__builtin_cpu_supports("x86-64-v3")) return OnVectors(body);
  body();
}

#else

template <typename Body>
void Vectorised(Body body) {
  body();
}

#endif

}  // namespace weft::fallback::native
