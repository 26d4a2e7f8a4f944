// Products by cuBLASLt, "Using the cuBLASLt API".
//
// The library's matrices have their columns in order. What weft has in rows is the transpose of
// such a one, and D' = B' A': weights come first, rows of the result are its columns, and one value
// for each of our columns is what the library calls a bias.
#include "fallback/cublas/matmul.h"

#include <fmt/format.h>

#include <vector>

#include "base/verdict.h"
#include "fallback/contraction.h"
#include "fallback/cublas/library.h"
#include "fallback/cuda_entries.h"

namespace weft::fallback::cublas {
namespace {

constexpr int kMostWays = 8;
constexpr size_t kMostWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr uint32_t kAlignment = 16;

Status Check(const Library& library, int code, const char* what) {
  if (code == kOk) return {};
  return Internal(fmt::format("cuBLASLt: {}: {}", what, library.status_string(code)));
}

Result<CudaObject> HandleFor(const Library& library, const void* context) {
  static CudaHandles handles;
  return handles.Get(context, [&]() -> Result<CudaObject> {
    Handle handle = nullptr;
    WEFT_TRY(Check(library, library.create(&handle), "starting"));
    return CudaObject(handle, library.destroy);
  });
}

class Matmul : public DeviceCall {
 public:
  static Result<std::unique_ptr<DeviceCall>> Prepare(const LibraryCall& call,
                                                     const Product& product, const void* context) {
    WEFT_TRY(const Library* library, Load());
    std::unique_ptr<Matmul> matmul(new Matmul(*library, call, product));
    WEFT_TRY(matmul->handle_, HandleFor(*library, context));
    WEFT_TRY(matmul->Describe());
    WEFT_TRY(matmul->FindWays());
    return std::unique_ptr<DeviceCall>(std::move(matmul));
  }

  size_t Ways() const override { return ways_.size(); }
  int64_t ScratchBytes(size_t way) const override {
    return static_cast<int64_t>(ways_[way].workspace);
  }
  std::string Name(size_t way) const override {
    return fmt::format("cublasLt algorithm {}", ways_[way].algorithm.data[0] & 0xffffffff);
  }

  Status Enqueue(size_t way, std::span<const uint64_t> inputs, std::span<const uint64_t> outputs,
                 uint64_t scratch, void* stream) override {
    // NOLINTBEGIN(performance-no-int-to-ptr): the interface has pointers for device addresses
    const auto at = [&](size_t i) { return reinterpret_cast<const void*>(inputs[i]); };
    auto* const d = reinterpret_cast<void*>(outputs[0]);
    auto* const workspace = reinterpret_cast<void*>(scratch);
    // NOLINTEND(performance-no-int-to-ptr)
    if (product_.bias) {
      const void* bias = at(*product_.bias);
      WEFT_TRY(SetDesc(kDescBias, bias));
    }
    const float beta = product_.addend ? 1 : 0;
    const void* c = product_.addend ? at(*product_.addend) : d;
    const Heuristic& h = ways_[way];
    return Check(
        library_,
        library_.matmul(handle_.get(), desc_.get(), &product_.alpha, at(weights_), b_.get(),
                        at(src_), a_.get(), &beta, c, d_.get(), d, d_.get(), &h.algorithm,
                        h.workspace ? workspace : nullptr, h.workspace, stream),
        "a product");
  }

 private:
  Matmul(const Library& library, const LibraryCall& call, const Product& product)
      : library_(library), product_(product), tf32_(IntAttr(call, "tf32", 0) != 0) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].role == "src") src_ = i;
      if (call.inputs[i].role == "weights") weights_ = i;
    }
  }

  template <typename T>
  Status SetDesc(DescAttribute attribute, const T& value) {
    const void* const at = static_cast<const void*>(&value);
    return Check(library_, library_.set_desc(desc_.get(), attribute, at, sizeof value),
                 "describing a product");
  }

  // A matrix that lies as [rows, columns] in our sense, one or a batch.
  Result<CudaObject> LayoutOf(int64_t rows, int64_t columns, bool has_batches) {
    Handle handle = nullptr;
    WEFT_TRY(Check(library_,
                   library_.new_layout(&handle, kReal32, static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
                   "describing a matrix"));
    CudaObject layout(handle, library_.end_layout);
    const auto batches = static_cast<int32_t>(product_.batches);
    const int64_t stride = has_batches ? rows * columns : 0;
    WEFT_TRY(Check(library_, library_.set_layout(handle, kLayoutBatches, &batches, sizeof batches),
                   "describing a matrix"));
    WEFT_TRY(Check(library_,
                   library_.set_layout(handle, kLayoutBatchStride, &stride, sizeof stride),
                   "describing a matrix"));
    return layout;
  }

  Status Describe() {
    Handle handle = nullptr;
    WEFT_TRY(Check(library_, library_.new_desc(&handle, tf32_ ? kComputeTf32 : kCompute32, kReal32),
                   "describing a product"));
    desc_ = CudaObject(handle, library_.end_desc);
    const Product& p = product_;
    if (p.trans_b) WEFT_TRY(SetDesc(kDescTransA, int32_t{kTransposed}));
    if (p.trans_a) WEFT_TRY(SetDesc(kDescTransB, int32_t{kTransposed}));
    uint32_t epilogue = 0;
    if (p.bias) epilogue |= kBias;
    if (p.relu) epilogue |= kRelu;
    WEFT_TRY(SetDesc(kDescEpilogue, epilogue ? epilogue : uint32_t{kDefault}));
    const auto matrix = [&](bool transposed, int64_t rows, int64_t columns, bool batches) {
      return transposed ? LayoutOf(columns, rows, batches) : LayoutOf(rows, columns, batches);
    };
    WEFT_TRY(a_, matrix(p.trans_a, p.m, p.k, p.has_batches_a));
    WEFT_TRY(b_, matrix(p.trans_b, p.k, p.n, p.has_batches_b));
    WEFT_TRY(d_, matrix(false, p.m, p.n, p.batches > 1));
    return {};
  }

  Status FindWays() {
    Handle handle = nullptr;
    WEFT_TRY(Check(library_, library_.new_preference(&handle), "asking for algorithms"));
    const CudaObject preference(handle, library_.end_preference);
    const auto set = [&](PreferenceAttribute attribute, const auto& value) {
      return Check(library_, library_.set_preference(handle, attribute, &value, sizeof value),
                   "asking for algorithms");
    };
    WEFT_TRY(set(kMaxWorkspace, kMostWorkspace));
    WEFT_TRY(set(kImplementations, tf32_ ? kWithTf32 : kPlainF32));
    for (const auto operand : {kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD})
      WEFT_TRY(set(operand, kAlignment));
    ways_.resize(kMostWays);
    int found = 0;
    const int code = library_.heuristics(handle_.get(), desc_.get(), b_.get(), a_.get(), d_.get(),
                                         d_.get(), handle, kMostWays, ways_.data(), &found);
    ways_.resize(code == kOk ? static_cast<size_t>(found) : 0);
    std::erase_if(ways_, [](const Heuristic& h) { return h.state != kOk; });
    if (!ways_.empty()) return {};
    return Unsupported(fmt::format("cuBLASLt has no algorithm for {} x {} x {} in {}: {}",
                                   product_.m, product_.n, product_.k, tf32_ ? "TF32" : "plain f32",
                                   library_.status_string(code)));
  }

  const Library& library_;
  Product product_;
  bool tf32_;
  size_t src_ = 0, weights_ = 0;
  CudaObject handle_, desc_, a_, b_, d_;
  std::vector<Heuristic> ways_;
};

}  // namespace

Result<std::unique_ptr<DeviceCall>> PrepareMatmul(const LibraryCall& call, const void* context) {
  const auto product = ProductOf(call);
  if (product.yes()) return Matmul::Prepare(call, *product, context);
  return Unsupported(fmt::format("no product of cuBLASLt's: {}", product.refusal().detail))
      .At("call cublas." + call.op);
}

Status CheckPresent() { return Load().status(); }

std::string Version() {
  const auto library = Load();
  if (!library.ok()) return {};
  const size_t version = (*library)->version();  // 130100: 13.1.0
  return fmt::format("cublasLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace weft::fallback::cublas
