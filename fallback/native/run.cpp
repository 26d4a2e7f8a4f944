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

Status Call(const LibraryCall& call, std::vector<std::optional<In>> inputs,
            const Allocator& allocate) {
  const Kernel kernel = FindKernel(call.op);
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
    WEFT_TRY(WithOrigin(call, kernel(Args(call, std::move(inputs), whole))));
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
    return Call(call_, std::move(views), given);
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
int64_t LongestString(const native::In& in) {
  size_t longest = 0;
  for (int64_t i = 0; in.dtype == Dtype::kString && i < in.elems; ++i)
    longest = std::max(longest, in.as<std::string>()[i].size());
  return static_cast<int64_t>(longest);
}

}  // namespace

Cancellable::Cancellable(const int32_t& flag) : outer_(std::exchange(native::t_cancel, &flag)) {}
Cancellable::~Cancellable() { native::t_cancel = outer_; }

bool HasNative(std::string_view op) { return native::FindKernel(op) != nullptr; }

Result<std::vector<Tensor>> RunNative(const LibraryCall& call,
                                      std::span<const Tensor* const> inputs, int64_t max_bytes) {
  std::vector<std::optional<native::In>> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* tensor = inputs[i];
    const bool absent = i < call.inputs.size() && call.inputs[i].value.empty();
    const bool has_data =
        tensor != nullptr && (tensor->data() != nullptr || tensor->dtype() == Dtype::kString);
    if (has_data && !absent) views[i] = native::ViewOf(*tensor);
  }
  std::vector<Tensor> outputs(call.outputs.size());
  // Results whose elements may be one of an operand, many times, are as long as that allows. Others
  // hold each once, and no case mapping trebles it.
  constexpr std::string_view kRepeat[] = {
      "Concat", "Expand", "Gather",          "GatherElements", "GatherND",     "OneHot",
      "Pad",    "Tile",   "ScatterElements", "ScatterND",      "StringConcat", "Where"};
  int64_t longest = 0;
  if (std::ranges::find(kRepeat, call.op) != std::end(kRepeat))
    for (const auto& view : views) longest += view ? LongestString(*view) : 0;
  int64_t left = max_bytes;
  const native::Allocator allocate = [&](size_t i, Dtype dtype,
                                         const Shape& shape) -> Result<void*> {
    WEFT_TRY(const int64_t elems, CountElems(shape));
    const int64_t each = dtype == Dtype::kString
                             ? static_cast<int64_t>(sizeof(std::string)) + longest
                             : std::max<int64_t>(SizeBytes(dtype), 1);
    if (elems > left / each) {
      return Limit(fmt::format("{}: output {} of {}{} leaves the limit of {} bytes", call.op, i,
                               DtypeName(dtype), weft::Print(shape), max_bytes));
    }
    left -= elems * each;
    if (i >= outputs.size()) outputs.resize(i + 1);
    WEFT_TRY(outputs[i], Tensor::Allocate(dtype, shape));
    return dtype == Dtype::kString ? static_cast<void*>(outputs[i].strings().data())
                                   : outputs[i].mutable_data();
  };
  WEFT_TRY(native::Call(call, std::move(views), allocate));
  outputs.resize(call.outputs.size());
  return outputs;
}

}  // namespace weft::fallback
