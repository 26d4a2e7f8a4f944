// What a native kernel sees of its call: operands that are there, attributes, and where results go.
//
// Kernels are total: whatever the operands hold, a kernel gives the operator's result or an error
// that names the operand and the value. Shapes and indices are checked at 64 bits before memory is
// touched.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/tensor.h"
#include "fallback/call.h"

namespace weft::fallback::native {

using weft::Print;  // of shapes; not the one of calls

// Elements of strings are std::string, of bool one byte.
struct In {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  int64_t elems = 0;
  const void* data = nullptr;
  size_t rank() const { return shape.size(); }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

struct Out {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  int64_t elems = 0;
  void* data = nullptr;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

In ViewOf(const Tensor& tensor);

// Gives the memory for output i once its type and shape are known; zeroed or not.
using Allocator = std::function<Result<void*>(size_t i, Dtype dtype, const Shape& shape)>;

class Args {
 public:
  // A kernel may take max_bytes beside its results.
  Args(const LibraryCall& call, std::vector<std::optional<In>> inputs, const Allocator& allocate,
       int64_t max_bytes)
      : call(call), inputs_(std::move(inputs)), allocate_(allocate), max_bytes_(max_bytes) {}

  const LibraryCall& call;

  size_t size() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i].has_value(); }
  const In& operator[](size_t i) const {
    WEFT_CHECK(Has(i), "{}: operand {}", call.op, i);
    return *inputs_[i];
  }
  // Is somebody interested in output i?
  bool Wants(size_t i) const { return i < call.outputs.size() && !call.outputs[i].value.empty(); }
  Result<Out> Output(size_t i, Dtype dtype, Shape shape) const;

  // That the kernel may take so much memory, a product that may leave int64; kLimit otherwise.
  Status NeedScratch(double bytes) const;

  // `operand in1 (indices of the model)`, for messages.
  std::string Name(size_t i) const;
  template <typename... T>
  Status Error(fmt::format_string<T...> format, T&&... values) const {
    return Invalid(call.op + ": " + fmt::format(format, std::forward<T>(values)...));
  }

  // The operands 0..n-1 are there.
  Status Need(size_t n) const;
  Status NeedOne(size_t i) const;
  Status NeedType(size_t i, Dtype dtype) const;
  // An operand of i32 or i64 and rank 0 or 1 as a list.
  Result<std::vector<int64_t>> Ints(size_t i) const;
  Result<int64_t> Int(size_t i) const;  // of one element
  // `axis` of `rank`, negative ones counted from behind.
  Result<int64_t> Axis(int64_t axis, size_t rank) const;
  // Each once, by the same rule.
  Result<std::vector<int64_t>> Axes(std::span<const int64_t> axes, size_t rank) const;
  int64_t Int(std::string_view name, int64_t otherwise) const {
    return IntAttr(call, name, otherwise);
  }
  std::string Text(std::string_view name, std::string_view otherwise) const {
    return StringAttr(call, name, otherwise);
  }

 private:
  std::vector<std::optional<In>> inputs_;
  const Allocator& allocate_;
  const int64_t max_bytes_;
};

// For loops that may take long: leaves the kernel if its run was cancelled (execute.h,
// Cancellable).
struct Cancelled {};
extern thread_local const int32_t* t_cancel;  // null: nobody cancels
inline void Poll() {
  if (t_cancel != nullptr && __atomic_load_n(t_cancel, __ATOMIC_RELAXED) != 0) throw Cancelled();
}

using Kernel = Status (*)(const Args& args);
Kernel FindKernel(std::string_view op);  // null if there is none
bool IsReshape(Kernel kernel);           // only the shape of its first operand changes
// Of the operands that have the result's type and shape it reads the element that it writes.
bool IsElementwise(Kernel kernel);

// One for each family of native.def.
#define WEFT_NATIVE_FAMILY(name) Status Run##name(const Args& args)
WEFT_NATIVE_FAMILY(ArgReduce);
WEFT_NATIVE_FAMILY(BatchNormalization);
WEFT_NATIVE_FAMILY(Binary);
WEFT_NATIVE_FAMILY(Cast);
WEFT_NATIVE_FAMILY(Clip);
WEFT_NATIVE_FAMILY(Compare);
WEFT_NATIVE_FAMILY(Compress);
WEFT_NATIVE_FAMILY(Concat);
WEFT_NATIVE_FAMILY(ConstantOfShape);
WEFT_NATIVE_FAMILY(Conv);
WEFT_NATIVE_FAMILY(ConvTranspose);
WEFT_NATIVE_FAMILY(Cumulate);
WEFT_NATIVE_FAMILY(DepthSpace);
WEFT_NATIVE_FAMILY(Draw);
WEFT_NATIVE_FAMILY(Expand);
WEFT_NATIVE_FAMILY(EyeLike);
WEFT_NATIVE_FAMILY(Gather);
WEFT_NATIVE_FAMILY(GatherElements);
WEFT_NATIVE_FAMILY(GatherND);
WEFT_NATIVE_FAMILY(Gemm);
WEFT_NATIVE_FAMILY(GlobalPool);
WEFT_NATIVE_FAMILY(GroupNormalization);
WEFT_NATIVE_FAMILY(ImageDecoder);
WEFT_NATIVE_FAMILY(LayerNormalization);
WEFT_NATIVE_FAMILY(Lrn);
WEFT_NATIVE_FAMILY(MatMul);
WEFT_NATIVE_FAMILY(MaxPool);
WEFT_NATIVE_FAMILY(MaxRoiPool);
WEFT_NATIVE_FAMILY(MaxUnpool);
WEFT_NATIVE_FAMILY(NonMaxSuppression);
WEFT_NATIVE_FAMILY(NonZero);
WEFT_NATIVE_FAMILY(OneHot);
WEFT_NATIVE_FAMILY(Pad);
WEFT_NATIVE_FAMILY(Pool);
WEFT_NATIVE_FAMILY(Pow);
WEFT_NATIVE_FAMILY(Range);
WEFT_NATIVE_FAMILY(Recurrent);
WEFT_NATIVE_FAMILY(Reduce);
WEFT_NATIVE_FAMILY(Reshape);
WEFT_NATIVE_FAMILY(Resize);
WEFT_NATIVE_FAMILY(ReverseSequence);
WEFT_NATIVE_FAMILY(RoiAlign);
WEFT_NATIVE_FAMILY(ScatterElements);
WEFT_NATIVE_FAMILY(ScatterND);
WEFT_NATIVE_FAMILY(ShapeOf);
WEFT_NATIVE_FAMILY(Slice);
WEFT_NATIVE_FAMILY(Softmax);
WEFT_NATIVE_FAMILY(Split);
WEFT_NATIVE_FAMILY(Tile);
WEFT_NATIVE_FAMILY(TopK);
WEFT_NATIVE_FAMILY(Transpose);
WEFT_NATIVE_FAMILY(Trilu);
WEFT_NATIVE_FAMILY(Unary);
WEFT_NATIVE_FAMILY(Unique);
WEFT_NATIVE_FAMILY(Variadic);
WEFT_NATIVE_FAMILY(Where);
#undef WEFT_NATIVE_FAMILY

}  // namespace weft::fallback::native
