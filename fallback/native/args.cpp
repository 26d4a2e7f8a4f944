#include "fallback/native/args.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "fallback/native/strings.h"

namespace weft::fallback::native {

In ViewOf(const Tensor& tensor) {
  const void* data = tensor.data();
  if (tensor.dtype() == Dtype::kString) data = tensor.strings().data();
  return {.dtype = tensor.dtype(), .shape = tensor.shape(), .elems = tensor.elems(), .data = data};
}

Result<Out> Args::Output(size_t i, Dtype dtype, Shape shape) const {
  if (shape.size() > Layout::kMaxRank)
    return Error("rank {} is more than {}", shape.size(), Layout::kMaxRank);
  WEFT_TRY(const int64_t elems, CountElems(shape));
  WEFT_TRY(void* data, allocate_(i, dtype, shape));
  return Out{.dtype = dtype, .shape = std::move(shape), .elems = elems, .data = data};
}

Status Args::NeedScratch(double bytes) const {
  if (bytes <= static_cast<double>(max_bytes_)) return {};
  return Limit(fmt::format("{}: it needs {:.0f} bytes beside its results, {} are left", call.op,
                           bytes, max_bytes_));
}

std::string Args::Name(size_t i) const {
  const std::string name = fmt::format("operand in{}", i);
  if (i >= call.inputs.size() || call.inputs[i].value.empty()) return name;
  return fmt::format("{} ({})", name, PrintName(call.inputs[i].value));
}

Status Args::NeedOne(size_t i) const { return Has(i) ? Status() : Error("{} is missing", Name(i)); }

Status Args::Need(size_t n) const {
  for (size_t i = 0; i < n; ++i) WEFT_TRY(NeedOne(i));
  return {};
}

Status Args::NeedType(size_t i, Dtype dtype) const {
  WEFT_TRY(NeedOne(i));
  if ((*this)[i].dtype == dtype) return {};
  return Error("{} is {}, expected {}", Name(i), DtypeName((*this)[i].dtype), DtypeName(dtype));
}

Result<std::vector<int64_t>> Args::Ints(size_t i) const {
  WEFT_TRY(NeedOne(i));
  const In& in = (*this)[i];
  if (in.rank() > 1 || (in.dtype != Dtype::kI64 && in.dtype != Dtype::kI32)) {
    return Error("{} is {}{}, expected integers of rank 1", Name(i), DtypeName(in.dtype),
                 Print(in.shape));
  }
  if (in.dtype == Dtype::kI64)
    return std::vector<int64_t>(in.as<int64_t>(), in.as<int64_t>() + in.elems);
  return std::vector<int64_t>(in.as<int32_t>(), in.as<int32_t>() + in.elems);
}

Result<int64_t> Args::Int(size_t i) const {
  WEFT_TRY(const auto ints, Ints(i));
  if (ints.size() != 1) return Error("{} has {} elements, expected 1", Name(i), ints.size());
  return ints[0];
}

Result<int64_t> Args::Axis(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis >= -n && axis < n) return axis < 0 ? axis + n : axis;
  return Error("axis {} is outside [-{}, {}) of rank {}", axis, n, n, n);
}

Result<std::vector<int64_t>> Args::Axes(std::span<const int64_t> axes, size_t rank) const {
  std::vector<int64_t> out;
  std::array<bool, Layout::kMaxRank> seen{};
  for (int64_t a : axes) {
    WEFT_TRY(const int64_t axis, Axis(a, rank));
    if (std::exchange(seen[static_cast<size_t>(axis)], true))
      return Error("axis {} is given twice", a);
    out.push_back(axis);
  }
  return out;
}

namespace {

struct Entry {
  std::string_view op;
  Kernel kernel;
};
constexpr Entry kKernels[] = {
#define WEFT_NATIVE(name, family) {#name, Run##family},
#include "fallback/native/native.def"
#undef WEFT_NATIVE
};
static_assert(std::ranges::is_sorted(kKernels, {}, &Entry::op));

}  // namespace

Kernel FindKernel(std::string_view op) {
  const auto* found = std::ranges::lower_bound(kKernels, op, {}, &Entry::op);
  return found != std::end(kKernels) && found->op == op ? found->kernel : nullptr;
}

bool IsReshape(Kernel kernel) { return kernel == RunReshape; }

bool IsElementwise(Kernel kernel) {
  return kernel == RunUnary || kernel == RunBinary || kernel == RunClip;
}

}  // namespace weft::fallback::native
