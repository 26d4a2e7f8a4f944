// cuBLASLt, loaded when it is first asked for. Its entries and constants that are used, as
// cublasLt.h of versions 12 and 13 has them, declared here so that building needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace weft::fallback::cublas {

using Handle = void*;  // cublasLtHandle_t, …MatmulDesc_t, …MatrixLayout_t, …MatmulPreference_t

inline constexpr int kOk = 0;
inline constexpr int kReal32 = 0;        // CUDA_R_32F
inline constexpr int kCompute32 = 68;    // CUBLAS_COMPUTE_32F
inline constexpr int kComputeTf32 = 77;  // CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr int kTransposed = 1;    // CUBLAS_OP_T

enum DescAttribute : int { kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBias = 8 };
enum LayoutAttribute : int { kLayoutBatches = 5, kLayoutBatchStride = 6 };
enum PreferenceAttribute : int {
  kMaxWorkspace = 1,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
  kImplementations = 12,
};
enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kBias = 4 };  // flags, but kDefault
// CUBLASLT_NUMERICAL_IMPL_FLAGS_…: fused multiply-adds of f32 operands into f32.
inline constexpr uint64_t kPlainF32 = 0x01ull | 0x02ull << 8 | 0x08ull << 16;
// Besides, tensor cores, of factors in TF32.
inline constexpr uint64_t kWithTf32 = kPlainF32 | 0x02ull | 0x04ull << 16;

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

struct Library {
  size_t (*version)() = nullptr;
  const char* (*status_string)(int) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*new_desc)(Handle*, int, int) = nullptr;
  int (*set_desc)(Handle, int, const void*, size_t) = nullptr;
  int (*end_desc)(Handle) = nullptr;
  int (*new_layout)(Handle*, int, uint64_t, uint64_t, int64_t) = nullptr;
  int (*set_layout)(Handle, int, const void*, size_t) = nullptr;
  int (*end_layout)(Handle) = nullptr;
  int (*new_preference)(Handle*) = nullptr;
  int (*set_preference)(Handle, int, const void*, size_t) = nullptr;
  int (*end_preference)(Handle) = nullptr;
  int (*heuristics)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Heuristic*,
                    int*) = nullptr;
  int (*matmul)(Handle, Handle, const void* alpha, const void* a, Handle, const void* b, Handle,
                const void* beta, const void* c, Handle, void* d, Handle, const Algorithm*,
                void* workspace, size_t, void* stream) = nullptr;
};

// kMissing, with what to try. WEFT_CUBLAS=none hides it.
Result<const Library*> Load();

}  // namespace weft::fallback::cublas
