// libcublasLt.so.13, for tests without a device: products of f32, as strict as cublasLt.h allows.
//
//   - Of the ways that are offered one wants a workspace, and spoils it, and one says that it
//     failed.
//   - C is not read where beta is 0. Addresses are followed when the product's turn comes.
//   - What a caller does not say of a preference is not assumed: without a mask of implementations
//     one way is TF32, which rounds. All do that are offered for products of TF32.
#include "tests/cuda/standin/driver.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

enum Status : int { kOk = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15 };
enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kBias = 4 };

struct Layout {
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

struct Desc {
  bool tf32 = false;
  int32_t trans_a = 0, trans_b = 0;
  uint32_t epilogue = kDefault;
  const void* bias = nullptr;
};

struct Preference {
  size_t workspace = 0;
  uint64_t implementations = ~uint64_t{0};
};

enum Way : uint64_t { kTf32 = 0x7000, kInPlace, kInWorkspace, kFailing };

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

struct Product {
  Desc desc;
  Layout a, b, c, d;
  float alpha, beta;
  const float *pa, *pb, *pc;
  float* pd;
  uint64_t way;
  std::byte* workspace;
  size_t workspace_bytes;
};

constexpr size_t kWorkspace = 4096;
constexpr uint64_t kTensorCores = 0xfe;  // CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK

float Element(const float* matrices, const Layout& l, int64_t batch, int64_t row, int64_t column) {
  return matrices[batch * l.batch_stride + row + column * l.leading];
}

float ToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= ~uint32_t{0x1fff};
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

float Ended(const Product& p, float value, uint64_t row) {
  if (p.desc.epilogue & kBias) value += static_cast<const float*>(p.desc.bias)[row];
  return p.desc.epilogue & kRelu && value < 0 ? 0 : value;
}

void Run(void* argument) {
  const auto& p = *static_cast<const Product*>(argument);
  if (p.way == kInWorkspace) std::memset(p.workspace, 0xff, p.workspace_bytes);
  const auto inner = static_cast<int64_t>(p.desc.trans_a ? p.a.rows : p.a.columns);
  for (int64_t batch = 0; batch < p.d.batches; ++batch)
    for (uint64_t column = 0; column < p.d.columns; ++column)
      for (uint64_t row = 0; row < p.d.rows; ++row) {
        const auto i = static_cast<int64_t>(row), j = static_cast<int64_t>(column);
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          float a =
              p.desc.trans_a ? Element(p.pa, p.a, batch, k, i) : Element(p.pa, p.a, batch, i, k);
          float b =
              p.desc.trans_b ? Element(p.pb, p.b, batch, j, k) : Element(p.pb, p.b, batch, k, j);
          if (p.way == kTf32) a = ToTf32(a), b = ToTf32(b);
          sum += static_cast<double>(a) * b;
        }
        float value = p.alpha * static_cast<float>(sum);
        if (p.beta != 0) value += p.beta * Element(p.pc, p.c, batch, i, j);
        p.pd[batch * p.d.batch_stride + i + j * p.d.leading] = Ended(p, value, row);
      }
}

bool Fits(const Layout& l, uint64_t rows, uint64_t columns, int32_t batches) {
  return l.rows == rows && l.columns == columns && l.batches == batches &&
         l.leading >= static_cast<int64_t>(rows);
}

bool Fit(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const uint64_t inner = desc.trans_a ? a.rows : a.columns;
  return Fits(a, desc.trans_a ? inner : d.rows, desc.trans_a ? d.rows : inner, d.batches) &&
         Fits(b, desc.trans_b ? d.columns : inner, desc.trans_b ? inner : d.columns, d.batches) &&
         Fits(c, d.rows, d.columns, d.batches) && Fits(d, d.rows, d.columns, d.batches) &&
         (d.batches == 1 || d.batch_stride >= d.leading * static_cast<int64_t>(d.columns));
}

bool HasContext() {
  void* context = nullptr;
  return cuCtxGetCurrent(&context) == 0 && context != nullptr;
}

template <typename T>
int Take(T& into, const void* from, size_t bytes) {
  if (bytes != sizeof into) return kInvalidValue;
  std::memcpy(static_cast<void*>(&into), from, bytes);
  return kOk;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of the library that this stands in for
extern "C" {

size_t cublasLtGetVersion() { return 130100; }

const char* cublasLtGetStatusString(int status) {
  return status == kOk               ? "CUBLAS_STATUS_SUCCESS"
         : status == kNotInitialized ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == kInvalidValue   ? "CUBLAS_STATUS_INVALID_VALUE"
                                     : "CUBLAS_STATUS_NOT_SUPPORTED";
}

int cublasLtCreate(void** handle) {
  if (!HasContext()) return kNotInitialized;
  *handle = new int(0);
  return kOk;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return kOk;
}

int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  constexpr int kCompute32 = 68, kComputeTf32 = 77, kReal32 = 0;
  if ((compute != kCompute32 && compute != kComputeTf32) || scale != kReal32) return kNotSupported;
  *desc = new Desc{.tf32 = compute == kComputeTf32};
  return kOk;
}
int cublasLtMatmulDescSetAttribute(void* handle, int attribute, const void* value, size_t bytes) {
  enum { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8 };
  auto& desc = *static_cast<Desc*>(handle);
  return attribute == kTransA        ? Take(desc.trans_a, value, bytes)
         : attribute == kTransB      ? Take(desc.trans_b, value, bytes)
         : attribute == kEpilogue    ? Take(desc.epilogue, value, bytes)
         : attribute == kBiasPointer ? Take(desc.bias, value, bytes)
                                     : int{kInvalidValue};
}
int cublasLtMatmulDescDestroy(void* desc) {
  delete static_cast<Desc*>(desc);
  return kOk;
}

int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  constexpr int kReal32 = 0;
  if (type != kReal32) return kNotSupported;
  *layout = new Layout{.rows = rows, .columns = columns, .leading = leading};
  return kOk;
}
int cublasLtMatrixLayoutSetAttribute(void* handle, int attribute, const void* value, size_t bytes) {
  enum { kBatches = 5, kBatchStride = 6 };
  auto& layout = *static_cast<Layout*>(handle);
  return attribute == kBatches       ? Take(layout.batches, value, bytes)
         : attribute == kBatchStride ? Take(layout.batch_stride, value, bytes)
                                     : int{kInvalidValue};
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return kOk;
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference;
  return kOk;
}
int cublasLtMatmulPreferenceSetAttribute(void* handle, int attribute, const void* value,
                                         size_t bytes) {
  enum { kMaxWorkspace = 1, kAlignmentA = 5, kAlignmentD = 8, kImplementations = 12 };
  auto& preference = *static_cast<Preference*>(handle);
  uint32_t alignment;
  return attribute == kMaxWorkspace      ? Take(preference.workspace, value, bytes)
         : attribute == kImplementations ? Take(preference.implementations, value, bytes)
         : attribute >= kAlignmentA && attribute <= kAlignmentD ? Take(alignment, value, bytes)
                                                                : int{kInvalidValue};
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return kOk;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d,
                                   void* preference, int most, Heuristic* results, int* found) {
  if (!handle || !Fit(*static_cast<Desc*>(desc), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
                      *static_cast<Layout*>(c), *static_cast<Layout*>(d)))
    return kInvalidValue;
  const auto& p = *static_cast<Preference*>(preference);
  *found = 0;
  const auto offer = [&](uint64_t way, size_t workspace, int state) {
    if (*found == most || workspace > p.workspace) return;
    Heuristic& h = results[(*found)++];
    h = {};
    h.algorithm[0] = way;
    h.workspace = workspace;
    h.state = state;
  };
  offer(kFailing, 0, kNotSupported);
  if (p.implementations & kTensorCores) offer(kTf32, 0, kOk);
  if (static_cast<Desc*>(desc)->tf32) return *found > 1 ? int{kOk} : int{kNotSupported};
  offer(kInWorkspace, kWorkspace, kOk);
  offer(kInPlace, 0, kOk);
  return *found > 0 ? int{kOk} : int{kNotSupported};
}

int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* layout_a,
                   const void* b, void* layout_b, const void* beta, const void* c, void* layout_c,
                   void* d, void* layout_d, const uint64_t* algorithm, void* workspace,
                   size_t workspace_bytes, void* stream) {
  if (!handle || !HasContext() || !alpha || !beta || !algorithm || !a || !b || !c || !d)
    return kInvalidValue;
  const auto as_layout = [](void* layout) { return *static_cast<Layout*>(layout); };
  Product p{.desc = *static_cast<Desc*>(desc),
            .a = as_layout(layout_a),
            .b = as_layout(layout_b),
            .c = as_layout(layout_c),
            .d = as_layout(layout_d),
            .alpha = *static_cast<const float*>(alpha),
            .beta = *static_cast<const float*>(beta),
            .pa = static_cast<const float*>(a),
            .pb = static_cast<const float*>(b),
            .pc = static_cast<const float*>(c),
            .pd = static_cast<float*>(d),
            .way = algorithm[0],
            .workspace = static_cast<std::byte*>(workspace),
            .workspace_bytes = workspace_bytes};
  const bool has_workspace = workspace && workspace_bytes >= kWorkspace &&
                             reinterpret_cast<uintptr_t>(workspace) % 16 == 0;
  if (!Fit(p.desc, p.a, p.b, p.c, p.d) || p.way < kTf32 || p.way >= kFailing ||
      (p.way == kInWorkspace && !has_workspace) || ((p.desc.epilogue & kBias) && !p.desc.bias))
    return kInvalidValue;
  // A graph may do it again as long as the process lives.
  return cuLaunchHostFunc(stream, Run, new Product(p)) == 0 ? int{kOk} : int{kInvalidValue};
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
