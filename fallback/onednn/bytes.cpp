// Products of bytes: which operands, zero points, and factors one for each channel.
//
// A call is right if its sums are, modulo 2^32, what the operator says. The library's kernels for
// VNNI multiply unsigned bytes by signed ones without a loss (VPDPBUSD); a signed source they shift
// by 128 and take that off again.
#include <fmt/format.h>

#include <algorithm>

#include "fallback/onednn/build.h"

namespace weft::fallback::onednn {
namespace {

using dnnl::memory;

// Of the processor, less what the environment hides: the bits of an ISA are those of all below it.
bool HasVnni() {
  const auto have = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto vnni = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_vnni);
  return (have & vnni) == vnni;
}

bool IsByte(Dtype dtype) { return dtype == Dtype::kU8 || dtype == Dtype::kI8; }

Tensor Scalar(int64_t value) {
  Tensor tensor(Dtype::kI32, {1});
  SetElemInt(tensor, 0, value);
  return tensor;
}

}  // namespace

bool SumsExactly(std::string_view implementation, bool wide) {
  const auto names = [&](std::string_view part) {
    return implementation.find(part) != std::string_view::npos;
  };
  const bool dots = names("vnni") || names("amx");
  if (wide) return dots && implementation.starts_with("brg");
  return dots || names("gemm") || names("ref:");
}

bool Builder::OfBytes() const {
  return (call_.op == "convolution" || call_.op == "matmul") && Has("src") &&
         IsByte(call_.inputs[Index("src")].dtype);
}

// f32 everywhere; in products and convolutions also bfloat16, if both factors are; or bytes, with
// sums and a bias of 32 bits.
bool Builder::Takes(const CallOperand& operand) const {
  const bool multiplies = call_.op == "convolution" || call_.op == "matmul";
  if (OfBytes()) {
    if (operand.role == "src") return true;
    if (operand.role == "weights")
      return operand.dtype == Dtype::kI8 || (operand.dtype == Dtype::kU8 && operand.constant);
    if (operand.role == "dst") return IsByte(operand.dtype) || operand.dtype == Dtype::kI32;
    if (operand.role == "bias") return operand.dtype == Dtype::kI32;
    const auto elems = CountElems(operand.shape);
    return operand.role == "src_zero" && IsByte(operand.dtype) && elems.ok() && *elems == 1;
  }
  const bool halves = multiplies && Has("src") && call_.inputs[Index("src")].dtype == Dtype::kBF16;
  const bool factor = operand.role == "src" || operand.role == "weights";
  if (operand.dtype == Dtype::kF32) return !halves || !factor;
  return operand.dtype == Dtype::kBF16 && halves;
}

// "src_zero" is an attribute where it is known, else an operand.
Status Builder::ZeroPoints(dnnl::primitive_attr& attr) {
  if (!OfBytes()) return {};
  if (!HasVnni())
    return Unsupported("onednn saturates sums of products of bytes on a machine without VNNI")
        .At("call onednn." + call_.op);
  const bool shifts = call_.inputs[Index("weights")].dtype == Dtype::kU8;
  const struct {
    int arg;
    int64_t zero;
  } zeros[] = {{DNNL_ARG_SRC, IntAttr(call_, "src_zero", 0)},
               {DNNL_ARG_WEIGHTS, IntAttr(call_, "weights_zero", 0) - (shifts ? 128 : 0)}};
  const memory::desc one({1}, memory::data_type::s32, memory::dims{1});
  for (const auto& [arg, zero] : zeros) {
    if (zero == 0) continue;
    attr.set_zero_points_mask(arg, 0);
    built_.extras.push_back({DNNL_ARG_ATTR_ZERO_POINTS | arg, one, Scalar(zero)});
  }
  if (Has("src_zero")) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  return {};
}

// The list "factors" times the channels, or the columns of a product.
Status Builder::AppendFactors(dnnl::post_ops& post_ops) {
  const CallAttribute* attribute = FindAttribute(call_, "factors");
  const auto* factors =
      attribute == nullptr ? nullptr : std::get_if<std::vector<float>>(&attribute->value);
  memory::dims dims(output_.dims.size(), 1);
  const size_t axis = call_.op == "matmul" ? dims.size() - 1 : 1;
  const int64_t channels = axis < dims.size() ? output_.dims[axis] : 0;
  if (factors == nullptr || channels == 0 || std::ssize(*factors) != channels)
    return Invalid(fmt::format("expected factors for {} channels", channels))
        .At("call onednn." + call_.op);
  dims[axis] = output_.dims[axis];
  memory::dims strides(dims.size(), 1);
  for (size_t d = 0; d < axis; ++d) strides[d] = dims[axis];
  const memory::desc desc(dims, memory::data_type::f32, strides);
  Tensor value(Dtype::kF32, {dims[axis]});
  std::ranges::copy(*factors, value.mutable_as<float>());
  built_.extras.push_back(
      {DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_ops.len()) | DNNL_ARG_SRC_1, desc, std::move(value)});
  post_ops.append_binary(dnnl::algorithm::binary_mul, desc);
  return {};
}

}  // namespace weft::fallback::onednn
