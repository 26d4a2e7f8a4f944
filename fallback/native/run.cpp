#include "fallback/native/run.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "fallback/native/args.h"

namespace weft::fallback {
namespace native {

thread_local const int32_t* t_cancel = nullptr;

namespace {

Status WithOrigin(const LibraryCall& call, Status status) {
  if (status.ok() || call.origins.empty()) return status;
  return std::move(status).At(fmt::format("node \"{}\"", call.origins[0]));
}

// The kernels move and compute elements that have an address.
Status NoHalfBytes(const LibraryCall& call) {
  return Unsupported(fmt::format("{}: no native kernel for elements of four bits", call.op));
}

Status Call(const LibraryCall& call, Kernel kernel, std::vector<std::optional<In>> inputs,
            const Allocator& allocate, int64_t max_bytes) {
  if (kernel == nullptr) return Unsupported(fmt::format("no native kernel for {}", call.op));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && inputs[i]->rank() > Layout::kMaxRank) {
      return WithOrigin(
          call, Invalid(fmt::format("{}: operand in{} has rank {}, more than {}", call.op, i,
                                    inputs[i]->rank(), Layout::kMaxRank)));
    }
    if (inputs[i] && SharesBytes(inputs[i]->dtype)) return WithOrigin(call, NoHalfBytes(call));
  }
  try {
    std::vector<bool> made(call.outputs.size());
    const Allocator whole = [&](size_t i, Dtype dtype, const Shape& shape) -> Result<void*> {
      if (SharesBytes(dtype)) return NoHalfBytes(call);
      if (i < made.size()) made[i] = true;
      return allocate(i, dtype, shape);
    };
    WEFT_TRY(WithOrigin(call, kernel(Args(call, std::move(inputs), whole, max_bytes))));
    for (size_t i = 0; i < made.size(); ++i)
      if (!made[i] && !call.outputs[i].value.empty())
        return WithOrigin(call, Invalid(fmt::format("{} makes no output {}", call.op, i)));
    return {};
  } catch (const Cancelled&) {
    return Status(Code::kInterrupted, "the run was cancelled");
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return WithOrigin(call, Limit(fmt::format("{}: out of memory", call.op)));
}

// Types and shapes are static; each run reads and writes the caller's memory.
class Prepared : public PreparedCall {
 public:
  Prepared(LibraryCall call, std::span<const Tensor> constants)
      : call_(std::move(call)), constants_(constants.begin(), constants.end()) {}

  std::vector<Layout> InputLayouts() const override { return Layouts(call_.inputs); }
  std::vector<Layout> OutputLayouts() const override { return Layouts(call_.outputs); }
  int64_t ScratchBytes() const override { return 0; }

  Status Run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    WEFT_CHECK(inputs.size() == call_.inputs.size() && outputs.size() == call_.outputs.size(), "{}",
               call_.op);
    std::vector<std::optional<In>> views(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const CallOperand& operand = call_.inputs[i];
      if (operand.value.empty()) continue;
      if (inputs[i] == nullptr && i < constants_.size()) {
        views[i] = ViewOf(constants_[i]);
        continue;
      }
      WEFT_TRY(const int64_t elems, CountElems(operand.shape));
      views[i] = In{operand.dtype, operand.shape, elems, inputs[i]};
    }
    const Allocator given = [&](size_t i, Dtype dtype, const Shape& shape) -> Result<void*> {
      if (i >= outputs.size()) return Invalid(fmt::format("{}: no output {}", call_.op, i));
      const CallOperand& expected = call_.outputs[i];
      // Nobody asked for it, but the kernel computes it in one go.
      if (expected.value.empty()) {
        WEFT_TRY(spare_, Tensor::Allocate(dtype, shape));
        return spare_.mutable_data();
      }
      if (expected.dtype == dtype && expected.shape == shape) return outputs[i];
      return Invalid(fmt::format("{}: output {} is {}{}, expected {}{}", call_.op, i,
                                 DtypeName(dtype), Print(shape), DtypeName(expected.dtype),
                                 Print(expected.shape)));
    };
    return Call(call_, FindKernel(call_.op), std::move(views), given, kNativeLimitBytes);
  }

 private:
  static std::vector<Layout> Layouts(const std::vector<CallOperand>& operands) {
    std::vector<Layout> layouts;
    for (const CallOperand& operand : operands) layouts.push_back(operand.layout);
    return layouts;
  }

  LibraryCall call_;
  std::vector<Tensor> constants_;
  Tensor spare_;
};

}  // namespace

Result<std::unique_ptr<PreparedCall>> PrepareNative(const LibraryCall& call,
                                                    std::span<const Tensor> constants) {
  if (FindKernel(call.op) == nullptr)
    return Unsupported(fmt::format("no native kernel for {}", call.op));
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const CallOperand& operand : *list) {
      const bool unknown = std::ranges::any_of(operand.shape, [](int64_t e) { return e < 0; });
      if (!unknown && operand.dtype != Dtype::kString) continue;
      return Unsupported(fmt::format("{}: operand {} is {}, only its tensor says how large",
                                     call.op, operand.role,
                                     unknown ? Print(operand.shape) : "text"))
          .Try("run it with RunNative");
    }
  }
  for (size_t i = 0; i < call.inputs.size() && i < constants.size(); ++i) {
    const CallOperand& operand = call.inputs[i];
    if (!operand.constant || operand.value.empty()) continue;
    if (constants[i].dtype() == operand.dtype && constants[i].shape() == operand.shape) continue;
    return Invalid(fmt::format("{}: constant {} is {}{}, expected {}{}", call.op, operand.role,
                               DtypeName(constants[i].dtype()), Print(constants[i].shape()),
                               DtypeName(operand.dtype), Print(operand.shape)));
  }
  return std::unique_ptr<PreparedCall>(std::make_unique<Prepared>(call, constants));
}

}  // namespace native

namespace {

// In bytes; 0 of what holds none.
int64_t LongestString(const Tensor& tensor) {
  size_t longest = 0;
  for (const std::string& s : tensor.strings()) longest = std::max(longest, s.size());
  return static_cast<int64_t>(longest);
}

}  // namespace

Cancellable::Cancellable(const int32_t& flag) : outer_(std::exchange(native::t_cancel, &flag)) {}
Cancellable::~Cancellable() { native::t_cancel = outer_; }

bool HasNative(std::string_view op) { return native::FindKernel(op) != nullptr; }

namespace {

// Where the results of a call go.
class Results {
 public:
  // `own`: operands whose memory is the call's to take if nobody else has it; may be empty.
  Results(const LibraryCall& call, native::Kernel kernel, std::span<const Tensor* const> inputs,
          std::span<Tensor> own, int64_t max_bytes)
      : call_(call),
        kernel_(kernel),
        inputs_(inputs),
        own_(own),
        outputs_(call.outputs.size()),
        max_bytes_(max_bytes),
        left_(max_bytes) {
    // Results whose elements may be one of an operand, many times, are as long as that allows.
    // Others hold each once, and no case mapping trebles it.
    constexpr std::string_view kRepeat[] = {
        "Concat", "Expand", "Gather",          "GatherElements", "GatherND",     "OneHot",
        "Pad",    "Tile",   "ScatterElements", "ScatterND",      "StringConcat", "Where"};
    for (const Tensor* input : inputs) longest_ += input ? LongestString(*input) : 0;
    if (longest_ > 0 && std::ranges::find(kRepeat, call.op) == std::end(kRepeat)) longest_ = 0;
  }

  Result<void*> Allocate(size_t i, Dtype dtype, const Shape& shape) {
    if (i >= outputs_.size()) outputs_.resize(i + 1);
    if (i == 0 && TakesOperand(dtype, shape)) return const_cast<void*>(outputs_[0].data());
    WEFT_TRY(const int64_t elems, CountElems(shape));
    const int64_t each = dtype == Dtype::kString
                             ? static_cast<int64_t>(sizeof(std::string)) + longest_
                             : std::max<int64_t>(SizeBytes(dtype), 1);
    if (elems > left_ / each) {
      return Limit(fmt::format("{}: output {} of {}{} leaves the limit of {} bytes", call_.op, i,
                               DtypeName(dtype), weft::Print(shape), max_bytes_));
    }
    left_ -= elems * each;
    WEFT_TRY(outputs_[i], Tensor::AllocateUnset(dtype, shape));
    return dtype == Dtype::kString ? static_cast<void*>(outputs_[i].strings().data())
                                   : outputs_[i].mutable_data();
  }

  std::vector<Tensor> Take() {
    outputs_.resize(call_.outputs.size());
    return std::move(outputs_);
  }

 private:
  // Whether output 0 is an operand under another shape, or may be written over one, since each of
  // its elements depends on the one in the same place.
  bool TakesOperand(Dtype dtype, const Shape& shape) {
    if (own_.empty() || dtype == Dtype::kString) return false;
    if (native::IsReshape(kernel_)) {
      if (!inputs_[0] || !inputs_[0]->HasOwner()) return false;
      outputs_[0] = inputs_[0]->Reshaped(shape);
      return true;
    }
    if (!native::IsElementwise(kernel_)) return false;
    for (Tensor& operand : own_) {
      if (!operand.IsSole() || operand.dtype() != dtype || operand.shape() != shape) continue;
      outputs_[0] = std::move(operand);
      outputs_[0].mutable_data();  // what is known of its elements is so no more
      return true;
    }
    return false;
  }

  const LibraryCall& call_;
  const native::Kernel kernel_;
  std::span<const Tensor* const> inputs_;
  std::span<Tensor> own_;
  std::vector<Tensor> outputs_;
  int64_t longest_ = 0;  // a string, in bytes
  const int64_t max_bytes_;
  int64_t left_;
};

}  // namespace

Result<std::vector<Tensor>> RunNative(const LibraryCall& call,
                                      std::span<const Tensor* const> inputs, int64_t max_bytes,
                                      std::span<Tensor> own) {
  std::vector<std::optional<native::In>> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* tensor = inputs[i];
    const bool absent = i < call.inputs.size() && call.inputs[i].value.empty();
    const bool has_data =
        tensor != nullptr && (tensor->data() != nullptr || tensor->dtype() == Dtype::kString);
    if (has_data && !absent) views[i] = native::ViewOf(*tensor);
  }
  const native::Kernel kernel = native::FindKernel(call.op);
  Results results(call, kernel, inputs, own, max_bytes);
  const native::Allocator allocate = [&](size_t i, Dtype dtype, const Shape& shape) {
    return results.Allocate(i, dtype, shape);
  };
  WEFT_TRY(native::Call(call, kernel, std::move(views), allocate, max_bytes));
  return results.Take();
}

}  // namespace weft::fallback
