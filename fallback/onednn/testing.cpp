#include "fallback/onednn/testing.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/threads/team.h"

namespace weft::fallback {

bool Absent() { return LibraryVersion(Library::kOnednn).empty(); }

LibraryCall Parsed(const std::string& text) {
  auto call = ParseCall(text, "test", BlobStore());
  EXPECT_TRUE(call.ok()) << call.status().ToString();
  return call.ok() ? *std::move(call) : LibraryCall();
}

Tensor Filled(const Shape& shape, uint32_t seed, Dtype dtype) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elems(); ++i) {
    seed = seed * 1664525 + 1013904223;
    if (IsFloat(dtype)) {
      SetElem(t, i, (static_cast<int32_t>(seed >> 27) - 16) / 8.0);
    } else {
      SetElemInt(t, i, static_cast<int32_t>(seed) >> 16);
    }
  }
  return t;
}

Tensors FillAll(const LibraryCall& call) {
  Tensors tensors;
  uint32_t seed = 1;
  for (const CallOperand& operand : call.inputs)
    tensors[operand.role] = Filled(operand.shape, seed++, operand.dtype);
  return tensors;
}

namespace {

using Bytes = std::vector<std::byte>;

Bytes Laid(const Tensor& t, const Layout& layout) {
  const int64_t size = SizeBytes(t.dtype());
  Bytes out(AllocElems(layout, t.shape()) * size);
  int64_t i = 0;
  ForEach(t.shape(), [&](const Shape& index) {
    const int64_t to = OffsetOf(layout, t.shape(), std::span<const int64_t>(index));
    std::memcpy(out.data() + to * size, t.raw().data() + i++ * size, size);
  });
  return out;
}

Tensor Unlaid(const Bytes& data, const Layout& layout, const CallOperand& operand) {
  Tensor out(operand.dtype, operand.shape);
  const int64_t size = SizeBytes(operand.dtype);
  auto* const to = out.mutable_as<std::byte>();
  int64_t i = 0;
  ForEach(operand.shape, [&](const Shape& index) {
    const int64_t from = OffsetOf(layout, operand.shape, std::span<const int64_t>(index));
    std::memcpy(to + i++ * size, data.data() + from * size, size);
  });
  return out;
}

}  // namespace

Result<Tensor> RunIn(const LibraryCall& call, const Tensors& tensors, int threads) {
  Result<Tensor> result = Internal("not run");
  WEFT_TRY(const auto team, Team::Create(static_cast<uint32_t>(threads)));
  team->RunInArena([&] {
    result = [&]() -> Result<Tensor> {
      std::vector<Tensor> constants(call.inputs.size());
      for (size_t i = 0; i < constants.size(); ++i) {
        if (call.inputs[i].constant) constants[i] = tensors.at(call.inputs[i].role);
      }
      WEFT_TRY(const auto prepared, Prepare(call, constants));
      const std::vector<Layout> in = prepared->InputLayouts(), out = prepared->OutputLayouts();
      std::vector<Bytes> buffers;
      std::vector<const void*> inputs;
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        buffers.push_back(Laid(tensors.at(call.inputs[i].role), in[i]));
        inputs.push_back(call.inputs[i].constant ? nullptr : buffers.back().data());
      }
      const CallOperand& dst = call.outputs[0];
      Bytes result(AllocElems(out[0], dst.shape) * SizeBytes(dst.dtype), std::byte(0xff));
      const Tensor scratch(Dtype::kU8, {prepared->ScratchBytes()});
      void* const outputs[] = {result.data()};
      WEFT_TRY(prepared->Run(inputs, outputs, const_cast<void*>(scratch.data())));
      WEFT_TRY(prepared->Run(inputs, outputs,
                             const_cast<void*>(scratch.data())));  // nothing was used up
      return Unlaid(result, out[0], dst);
    }();
  });
  return result;
}

double At(const Tensor& t, const Shape& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset = offset * t.shape()[d] + index[d];
  return ElemAsDouble(t, offset);
}

// Element `index` of a tensor that broadcasts.
double BroadcastAt(const Tensor& t, const Shape& index) {
  Shape own(index.end() - static_cast<int64_t>(t.shape().size()), index.end());
  for (size_t d = 0; d < own.size(); ++d) own[d] = t.shape()[d] == 1 ? 0 : own[d];
  return At(t, own);
}

double Eltwise(const std::string& kind, double x, double a, double b) {
  const auto hard = [](double y) { return std::min(std::max(y, 0.0), 1.0); };
  if (kind == "relu") return std::max(x, 0.0);
  if (kind == "leaky") return x < 0 ? a * x : x;
  if (kind == "clip") return std::min(std::max(x, a), b);
  if (kind == "sigmoid") return 1 / (1 + std::exp(-x));
  if (kind == "tanh") return std::tanh(x);
  if (kind == "gelu_erf") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  if (kind == "gelu_tanh")
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (kind == "swish") return x / (1 + std::exp(-a * x));
  if (kind == "hardswish") return x * hard(x / 6 + 0.5);
  if (kind == "hardsigmoid") return hard(a * x + b);
  if (kind == "mish") return x * std::tanh(std::log1p(std::exp(x)));
  if (kind == "abs") return std::fabs(x);
  if (kind == "linear") return a * x + b;
  ADD_FAILURE() << kind;
  return 0;
}

double Posts(const LibraryCall& call, const Tensors& tensors, const Shape& index, double x) {
  for (size_t k = 0; k < call.post_ops.size(); ++k) {
    const PostOp& post = call.post_ops[k];
    const auto operand = tensors.find(fmt::format("post{}", k));
    if (operand == tensors.end()) {
      x = Eltwise(post.kind, x, post.alpha, post.beta);
      continue;
    }
    const double y = BroadcastAt(operand->second, index);
    x = post.kind == "binary_add" ? x + y : post.kind == "binary_sub" ? x - y : x * y;
  }
  return x;
}

static double SourceZero(const LibraryCall& call, const Tensors& t) {
  if (t.contains("src_zero")) return At(t.at("src_zero"), {});
  return static_cast<double>(IntAttr(call, "src_zero", 0));
}

double ConvAt(const LibraryCall& call, const Tensors& t, const Shape& out) {
  const Tensor &src = t.at("src"), &w = t.at("weights");
  const double zero = SourceZero(call, t);
  const auto strides = IntsAttr(call, "strides"), dilations = IntsAttr(call, "dilations"),
             pads = IntsAttr(call, "pads");
  const auto zero_w = static_cast<double>(IntAttr(call, "weights_zero", 0));
  const bool backwards = call.op == "deconvolution";
  const int64_t group = IntAttr(call, "group", 1), outs = call.outputs[0].shape[1] / group,
                ins = src.shape()[1] / group;
  const int64_t g = out[1] / outs;
  double sum = t.contains("bias") ? At(t.at("bias"), {out[1]}) : 0;
  Shape box(w.shape().begin() + 2, w.shape().end());
  for (int64_t c = 0; c < ins; ++c) {
    ForEach(box, [&](const Shape& k) {
      Shape from = {out[0], g * ins + c},
            tap = backwards ? Shape{g * ins + c, out[1] % outs} : Shape{out[1], c};
      for (size_t d = 0; d < k.size(); ++d) {
        int64_t at = backwards ? out[d + 2] + pads[d] - k[d] * dilations[d]
                               : out[d + 2] * strides[d] - pads[d] + k[d] * dilations[d];
        if (backwards && at % strides[d] != 0) return;
        if (backwards) at /= strides[d];
        if (at < 0 || at >= src.shape()[d + 2]) return;
        from.push_back(at);
        tap.push_back(k[d]);
      }
      sum += (At(src, from) - zero) * (At(w, tap) - zero_w);
    });
  }
  return sum;
}

double MatmulAt(const LibraryCall& call, const Tensors& t, const Shape& out) {
  const Tensor &a = t.at("src"), &b = t.at("weights");
  const double zero = SourceZero(call, t);
  const auto zero_b = static_cast<double>(IntAttr(call, "weights_zero", 0));
  const bool trans_a = IntAttr(call, "trans_a", 0) != 0, trans_b = IntAttr(call, "trans_b", 0) != 0;
  const size_t n = out.size();
  const int64_t depth = a.shape()[a.shape().size() - (trans_a ? 2 : 1)];
  double sum = t.contains("bias") ? BroadcastAt(t.at("bias"), out) : 0;
  for (int64_t k = 0; k < depth; ++k) {
    Shape p = out, q = out;
    p[n - 1] = k;
    q[n - 2] = k;
    if (trans_a) std::swap(p[n - 1], p[n - 2]);
    if (trans_b) std::swap(q[n - 1], q[n - 2]);
    sum += (BroadcastAt(a, p) - zero) * (BroadcastAt(b, q) - zero_b);
  }
  return sum;
}

double PoolAt(const LibraryCall& call, const Tensors& t, const Shape& out) {
  const Tensor& src = t.at("src");
  const auto strides = IntsAttr(call, "strides"), pads = IntsAttr(call, "pads"),
             kernel = IntsAttr(call, "kernel");
  const std::string how = StringAttr(call, "algorithm", "");
  double sum = 0, most = -INFINITY, count = 0, all = 0;
  ForEach(kernel, [&](const Shape& k) {
    all += 1;
    Shape from = {out[0], out[1]};
    for (size_t d = 0; d < k.size(); ++d) {
      from.push_back(out[d + 2] * strides[d] - pads[d] + k[d]);
      if (from.back() < 0 || from.back() >= src.shape()[d + 2]) return;
    }
    sum += At(src, from);
    most = std::max(most, At(src, from));
    count += 1;
  });
  return how == "max" ? most : sum / (how == "avg_include_padding" ? all : count);
}

}  // namespace weft::fallback
