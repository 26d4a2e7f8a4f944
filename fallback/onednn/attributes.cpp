// Post-ops, and modes that every primitive is created with.
#include <fmt/format.h>

#include <algorithm>

#include "fallback/onednn/build.h"

namespace weft::fallback::onednn {

using dnnl::algorithm;

Result<Eltwise> EltwiseOf(const std::string& kind, float alpha, float beta) {
  const struct {
    const char* kind;
    Eltwise op;
  } kinds[] = {
      {"relu", {algorithm::eltwise_relu, 0, 0}},
      {"leaky", {algorithm::eltwise_relu, alpha, 0}},
      {"clip", {algorithm::eltwise_clip, alpha, beta}},
      {"sigmoid", {algorithm::eltwise_logistic, 0, 0}},
      {"tanh", {algorithm::eltwise_tanh, 0, 0}},
      {"gelu_erf", {algorithm::eltwise_gelu_erf, 0, 0}},
      {"gelu_tanh", {algorithm::eltwise_gelu_tanh, 0, 0}},
      {"swish", {algorithm::eltwise_swish, alpha, 0}},
      {"hardswish", {algorithm::eltwise_hardswish, 1.0f / 6, 0.5f}},
      {"hardsigmoid", {algorithm::eltwise_hardsigmoid, alpha, beta}},
      {"linear", {algorithm::eltwise_linear, alpha, beta}},
      {"mish", {algorithm::eltwise_mish, 0, 0}},
      {"round", {algorithm::eltwise_round, 0, 0}},
      {"abs", {algorithm::eltwise_abs, 0, 0}},
      {"sqrt", {algorithm::eltwise_sqrt, 0, 0}},
      {"exp", {algorithm::eltwise_exp, 0, 0}},
  };
  for (const auto& entry : kinds) {
    if (kind == entry.kind) return entry.op;
  }
  return Unsupported(fmt::format("onednn has no post-op {}", kind));
}

Result<algorithm> BinaryOf(const std::string& kind) {
  if (kind == "binary_add") return algorithm::binary_add;
  if (kind == "binary_sub") return algorithm::binary_sub;
  if (kind == "binary_mul") return algorithm::binary_mul;
  if (kind == "binary_div") return algorithm::binary_div;
  return Unsupported(fmt::format("onednn has no post-op {}", kind));
}

namespace {

bool Broadcasts(const dnnl::memory::dims& operand, const dnnl::memory::dims& result) {
  return std::ranges::equal(operand, result, [](int64_t extent, int64_t whole) {
    return extent == 1 || extent == whole;
  });
}

}  // namespace

Status Builder::Attributes(dnnl::primitive_attr& attr) {
  // Whatever the environment says: f32 stays f32.
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post_ops;
  for (size_t k = 0; k < call_.post_ops.size(); ++k) {
    const PostOp& post = call_.post_ops[k];
    const std::string role = fmt::format("post{}", k);
    if (post.kind == "factors") {
      WEFT_TRY(AppendFactors(post_ops));
      continue;
    }
    if (!Has(role)) {
      WEFT_TRY(const onednn::Eltwise op, EltwiseOf(post.kind, post.alpha, post.beta));
      post_ops.append_eltwise(op.algorithm, op.alpha, op.beta);
      continue;
    }
    WEFT_TRY(const algorithm op, BinaryOf(post.kind));
    const CallOperand& operand = call_.inputs[Index(role)];
    const View& view = In(role);
    // The library does not ask, and reads past the end of what is smaller.
    if (!Broadcasts(view.dims, output_.dims))
      return Invalid("a post-op's operand does not broadcast to the result")
          .At("call onednn." + call_.op);
    // Of the result's shape and free: it takes the result's layout.
    const bool follows = operand.any_layout && view.dims == output_.dims;
    post_ops.append_binary(op, follows ? view.Any() : view.Desc());
  }
  attr.set_post_ops(post_ops);
  WEFT_TRY(ZeroPoints(attr));
  return {};
}

}  // namespace weft::fallback::onednn
