#include "fallback/onednn/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace weft::fallback::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

Status Wrong(const LibraryCall& call, std::string what) {
  return Invalid(std::move(what)).At("call onednn." + call.op);
}

// The place of the post-op that reads the operand with this role.
std::optional<size_t> PostOpOf(const LibraryCall& call, std::string_view role) {
  for (size_t k = 0; k < call.post_ops.size(); ++k)
    if (role == fmt::format("post{}", k)) return k;
  return std::nullopt;
}

bool IsPlain(const CallOperand& operand) {
  return operand.layout.IsPlain() && operand.layout.row_pad_elems == 0;
}

size_t AllocBytes(const CallOperand& operand) {
  return static_cast<size_t>(AllocElems(operand.layout, operand.shape) * SizeBytes(operand.dtype));
}

// Whether an operand's rows are one row, or one for each of the result's: rows that repeat within a
// batch, or from one batch to the next, are none of the two once all axes of rows are one.
bool RowsFold(const memory::dims& operand, const memory::dims& result) {
  const auto rows = std::span(operand).first(operand.size() - 1);
  return std::ranges::all_of(rows, [](int64_t extent) { return extent == 1; }) ||
         std::ranges::equal(rows, std::span(result).first(result.size() - 1));
}

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

size_t Builder::Index(std::string_view role) const {
  const auto at = std::ranges::find(call_.inputs, role, &CallOperand::role);
  return static_cast<size_t>(at - call_.inputs.begin());
}

memory::desc Builder::Activation(std::string_view role) {
  if (role == "dst") return call_.outputs[0].any_layout ? output_.Any() : output_.Desc();
  const size_t i = Index(role);
  return call_.inputs[i].any_layout ? inputs_[i].Any() : inputs_[i].Desc();
}

memory::desc Builder::Weights() {
  const CallOperand& operand = call_.inputs[Index("weights")];
  return operand.any_layout && operand.constant ? In("weights").Any() : In("weights").Desc();
}

memory::dims Builder::Pads(bool ends) const {
  const memory::dims pads = Ints("pads");
  const auto half = pads.begin() + static_cast<int64_t>(pads.size() / 2);
  return ends ? memory::dims(half, pads.end()) : memory::dims(pads.begin(), half);
}

memory::dims Builder::Dilations() const {
  memory::dims dilations = Ints("dilations");
  for (int64_t& d : dilations) --d;
  return dilations;
}

bool Builder::WindowIsSane(size_t spatial) const {
  const auto all = [](const memory::dims& v, size_t n, int64_t least) {
    return v.size() == n &&
           std::ranges::all_of(v, [&](int64_t e) { return e >= least && e < kMostInWindow; });
  };
  return spatial >= 1 && spatial <= 3 && all(Ints("strides"), spatial, 1) &&
         all(Ints("dilations"), spatial, 1) && all(Ints("pads"), 2 * spatial, 0);
}

// Ones in front of operands that are broadcast.
void Builder::AlignPostOperands(size_t rank) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (call_.inputs[i].role.starts_with("post") && !inputs_[i].tag) AlignRight(inputs_[i], rank);
  }
}

// Extents come from a file: what follows counts on ranks, on types, and on operands that are not
// empty.
Status Builder::CheckShapes() const {
  for (const auto* list : {&call_.inputs, &call_.outputs}) {
    for (const CallOperand& operand : *list) {
      const auto elems = CountElems(operand.shape);
      const bool fits = !operand.value.empty() && Takes(operand) && elems.ok() && *elems > 0 &&
                        AllocElems(operand.layout, operand.shape) < (int64_t{1} << 40) &&
                        operand.shape.size() <= 6;
      if (!fits)
        return Wrong(call_, fmt::format("operand {} is {}{}", operand.role,
                                        DtypeName(operand.dtype), weft::Print(operand.shape)));
    }
  }
  if (call_.outputs.size() != 1 || !Has("src")) return Wrong(call_, "no src, or not one dst");
  constexpr std::string_view kRoles[] = {"src",   "weights", "bias",    "scale",
                                         "shift", "src1",    "src_zero"};
  for (const CallOperand& operand : call_.inputs)
    if (!PostOpOf(call_, operand.role) && std::ranges::count(kRoles, operand.role) == 0)
      return Wrong(call_, "unknown role " + PrintString(operand.role));
  return {};
}

Status Builder::Views() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    WEFT_TRY(inputs_[i], ViewOf(call_.inputs[i]));
  }
  WEFT_TRY(output_, ViewOf(call_.outputs[0]));
  if (Has("weights") && In("weights").type == memory::data_type::u8)
    In("weights").type = memory::data_type::s8;
  return {};
}

// What the primitive makes of what was left to it. Calls come from files, too: it
// may read and write no more of an operand than the call says there is.
template <typename Desc>
Status Builder::Finish(const Desc& desc) {
  const auto reads = [&](const CallOperand& operand, const memory::desc& told, int arg) -> Status {
    if (SamePlaces(desc.query_md(dnnl::query::exec_arg_md, arg), told) &&
        told.get_size() <= AllocBytes(operand))
      return {};
    return Wrong(call_, fmt::format("operand {} does not fit", operand.role));
  };
  built_.desc = desc;
  built_.scratchpad = desc.scratchpad_desc();
  built_.implementation = desc.impl_info_str();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const CallOperand& operand = call_.inputs[i];
    int arg = DNNL_ARG_SRC;
    if (operand.role == "weights") arg = DNNL_ARG_WEIGHTS;
    if (operand.role == "bias") arg = DNNL_ARG_BIAS;
    if (operand.role == "scale") arg = DNNL_ARG_SCALE;
    if (operand.role == "shift") arg = DNNL_ARG_SHIFT;
    if (operand.role == "src1") arg = DNNL_ARG_SRC_1;
    if (const auto post = PostOpOf(call_, operand.role))
      arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(*post)) | DNNL_ARG_SRC_1;
    const memory::desc told =
        inputs_[i].tag || !inputs_[i].strides.empty() ? inputs_[i].Desc() : inputs_[i].Any();
    if (operand.role == "src_zero") {
      arg = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;
      const memory::desc one({1}, memory::data_type::s32, memory::dims{1});
      built_.inputs.push_back({arg, one, one, one, operand.layout, true});
      continue;
    }
    const bool free = operand.any_layout;
    if (!free) WEFT_TRY(reads(operand, told, arg));
    const memory::desc wanted = free ? desc.query_md(dnnl::query::exec_arg_md, arg) : told;
    const bool shifts = operand.role == "weights" && operand.dtype == Dtype::kU8;
    built_.inputs.push_back({arg, told, wanted, wanted, operand.layout, false, shifts});
    if (free && !operand.constant) built_.inputs.back().given = wanted;
  }
  const memory::desc dst = call_.outputs[0].any_layout
                               ? desc.query_md(dnnl::query::exec_arg_md, DNNL_ARG_DST)
                               : output_.Desc();
  if (!call_.outputs[0].any_layout) WEFT_TRY(reads(call_.outputs[0], dst, DNNL_ARG_DST));
  built_.outputs.push_back({DNNL_ARG_DST, dst, dst, dst, call_.outputs[0].layout});
  return {};
}

// On to the first kernel of the library that does what the call says. For some layouts there is
// none.
template <typename Desc>
void Builder::SkipInexact(Desc& desc) const {
  const bool wide = IntAttr(call_, "wide", 0) != 0;
  while (OfBytes() && !SumsExactly(desc.impl_info_str(), wide)) {
    if (!desc.next_impl())
      throw dnnl::error(dnnl_unimplemented, "no kernel sums products of these bytes exactly");
  }
}

Status Builder::Convolution() {
  const size_t spatial = output_.dims.size() - 2;
  const Shape& w = call_.inputs[Index("weights")].shape;
  const int64_t group = IntAttr(call_, "group", 1);
  const bool fits = output_.dims.size() > 2 && In("src").dims.size() == output_.dims.size() &&
                    w.size() == output_.dims.size() && group >= 1 && w[0] % group == 0 &&
                    !In("weights").tag;
  if (!fits || !WindowIsSane(spatial)) return Wrong(call_, "ranks, groups or windows do not fit");
  if (group > 1) SplitFirst(In("weights"), group);
  AlignPostOperands(output_.dims.size());
  WEFT_TRY(Attributes(attr_));
  const memory::desc bias = Has("bias") ? In("bias").Desc() : memory::desc();
  dnnl::convolution_forward::primitive_desc desc(
      Engine(), prop_kind::forward_inference, algorithm::convolution_direct, Activation("src"),
      Weights(), bias, Activation("dst"), Ints("strides"), Dilations(), Pads(false), Pads(true),
      attr_);
  SkipInexact(desc);
  return Finish(desc);
}

// ONNX has the weights as [in, out / groups, …]; the library as [groups, out / groups, in / groups,
// …].
Status Builder::Deconvolution() {
  const size_t spatial = output_.dims.size() - 2;
  const Shape& w = call_.inputs[Index("weights")].shape;
  const int64_t group = IntAttr(call_, "group", 1);
  const bool fits = output_.dims.size() > 2 && In("src").dims.size() == output_.dims.size() &&
                    w.size() == output_.dims.size() && group >= 1 && w[0] % group == 0 &&
                    !In("weights").tag;
  if (!fits || !WindowIsSane(spatial)) return Wrong(call_, "ranks, groups or windows do not fit");
  if (group > 1) SplitFirst(In("weights"), group);
  Swap(In("weights"), group > 1 ? 1 : 0, group > 1 ? 2 : 1);
  AlignPostOperands(output_.dims.size());
  WEFT_TRY(Attributes(attr_));
  const memory::desc bias = Has("bias") ? In("bias").Desc() : memory::desc();
  const dnnl::deconvolution_forward::primitive_desc desc(
      Engine(), prop_kind::forward_inference, algorithm::deconvolution_direct, Activation("src"),
      Weights(), bias, Activation("dst"), Ints("strides"), Dilations(), Pads(false), Pads(true),
      attr_);
  return Finish(desc);
}

// With one matrix of weights, all rows of all batches are rows of one product, which the library
// does better than a broadcast batch: if they lie in memory like that.
Status Builder::Matmul() {
  const bool trans_a = IntAttr(call_, "trans_a", 0) != 0;
  const size_t rank = output_.dims.size();
  for (View* view : {&In("src"), &In("weights")}) {
    if (view->tag || view->dims.size() < 2 || rank < 2)
      return Wrong(call_, "operands have no rows or blocked layouts");
  }
  if (output_.tag) return Wrong(call_, "the result has a blocked layout");
  if (Has("bias") && !IsPlain(call_.inputs[Index("bias")]))
    return Wrong(call_, "the bias is not in the plain layout");
  const size_t a_rank = In("src").dims.size(), b_rank = In("weights").dims.size();
  if (std::max(a_rank, b_rank) != rank) return Wrong(call_, "ranks do not fit");
  bool flat = b_rank == 2 && a_rank > 2 && !trans_a && call_.outputs[0].layout.IsPlain() &&
              call_.outputs[0].layout.row_pad_elems == 0;
  for (const CallOperand& operand : call_.inputs) flat &= operand.layout.IsPlain();
  if (trans_a) Swap(In("src"), a_rank - 2, a_rank - 1);
  if (IntAttr(call_, "trans_b", 0) != 0) Swap(In("weights"), b_rank - 2, b_rank - 1);
  AlignPostOperands(rank);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (call_.inputs[i].role.starts_with("post")) flat &= RowsFold(inputs_[i].dims, output_.dims);
  }
  if (flat) {
    MergeFirst(In("src"), rank - 1);
    MergeFirst(output_, rank - 1);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (call_.inputs[i].role.starts_with("post")) MergeFirst(inputs_[i], rank - 1);
    }
  }
  const size_t common = output_.dims.size();
  AlignRight(In("src"), common);
  AlignRight(In("weights"), common);
  if (Has("bias")) {
    View& bias = In("bias");
    MergeFirst(bias, bias.dims.size());
    AlignRight(bias, common);
  }
  WEFT_TRY(Attributes(attr_));
  const memory::desc bias = Has("bias") ? In("bias").Desc() : memory::desc();
  const memory::desc src = In("src").Desc(), dst = output_.Desc();
  if (!OfBytes()) {
    WEFT_TRY(const bool is_there, InnerProduct(src, dst));
    if (is_there) return {};
  }
  dnnl::matmul::primitive_desc desc =
      Has("bias") ? dnnl::matmul::primitive_desc(Engine(), src, Weights(), bias, dst, attr_)
                  : dnnl::matmul::primitive_desc(Engine(), src, Weights(), dst, attr_);
  SkipInexact(desc);
  return Finish(desc);
}

// The product by constant weights as an inner product, whose weights are packed once: the library's
// matmul reads them as they lie, each of their rows on a page of its own when they are wide, at
// half the speed (128x768x3072 on AVX2, oneDNN 3.2: 39 against 76 GF/s; 128x768x768: 74 against
// 66). False, with nothing changed, where that does not apply.
Result<bool> Builder::InnerProduct(const memory::desc& src, const memory::desc& dst) {
  constexpr memory::dim kWide = 1024, kLeastRows = 16;
  const CallOperand& operand = call_.inputs[Index("weights")];
  const memory::dims& dims = output_.dims;
  if (!operand.constant || !operand.any_layout || dims.size() != 2 || dims[0] < kLeastRows ||
      dims[1] < kWide)
    return false;
  const View weights = In("weights");
  Swap(In("weights"), 0, 1);
  using Desc = dnnl::inner_product_forward::primitive_desc;
  const auto infer = prop_kind::forward_inference;
  constexpr bool kMayFail = true;
  const memory::desc w = Weights();
  View bias;
  if (Has("bias")) {
    bias = In("bias");
    MergeFirst(In("bias"), 2);
  }
  const Desc desc = Has("bias")
                        ? Desc(Engine(), infer, src, w, In("bias").Desc(), dst, attr_, kMayFail)
                        : Desc(Engine(), infer, src, w, dst, attr_, kMayFail);
  if (desc && std::string_view(desc.impl_info_str()).starts_with("brgemm")) {
    WEFT_TRY(Finish(desc));
    return true;
  }
  In("weights") = weights;
  if (Has("bias")) In("bias") = bias;
  return false;
}

Status Builder::Pooling() {
  const size_t spatial = output_.dims.size() - 2;
  const memory::dims kernel = Ints("kernel");
  if (In("src").dims.size() != output_.dims.size() || output_.dims.size() < 3 ||
      kernel.size() != spatial || !WindowIsSane(spatial)) {
    return Wrong(call_, "ranks or windows do not fit");
  }
  const std::string kind = StringAttr(call_, "algorithm", "max");
  const algorithm how = kind == "max"                   ? algorithm::pooling_max
                        : kind == "avg_include_padding" ? algorithm::pooling_avg_include_padding
                                                        : algorithm::pooling_avg_exclude_padding;
  AlignPostOperands(output_.dims.size());
  for (size_t i = 0; i < inputs_.size(); ++i)
    for (size_t d = 0; d < inputs_[i].dims.size(); ++d)
      if (call_.inputs[i].role.starts_with("post") && d != 1 && inputs_[i].dims[d] > 1)
        return Wrong(call_, "a post-op reads more than one value for each channel");
  WEFT_TRY(Attributes(attr_));
  const dnnl::pooling_forward::primitive_desc desc(
      Engine(), prop_kind::forward_inference, how, In("src").Desc(), output_.Desc(),
      Ints("strides"), kernel, Dilations(), Pads(false), Pads(true), attr_);
  return Finish(desc);
}

Status Builder::Softmax() {
  const int64_t axis = IntAttr(call_, "axis", 0);
  if (axis < 0 || axis >= static_cast<int64_t>(output_.dims.size()))
    return Wrong(call_, fmt::format("axis {}", axis));
  if (call_.inputs[Index("src")].layout != call_.outputs[0].layout)
    return Wrong(call_, "operands in different layouts");
  WEFT_TRY(Attributes(attr_));
  const dnnl::softmax_forward::primitive_desc desc(Engine(), prop_kind::forward_inference,
                                                   algorithm::softmax_accurate, In("src").Desc(),
                                                   output_.Desc(), static_cast<int>(axis), attr_);
  return Finish(desc);
}

Status Builder::LayerNorm() {
  const int64_t axis = IntAttr(call_, "axis", 0), rank = static_cast<int64_t>(output_.dims.size());
  if (axis < 0 || axis >= rank || In("src").dims != output_.dims || !Has("scale"))
    return Wrong(call_, fmt::format("axis {} of {}", axis, weft::Print(output_.dims)));
  if (!std::ranges::all_of(call_.inputs, IsPlain) || !IsPlain(call_.outputs[0]))
    return Wrong(call_, "an operand is not in the plain layout");
  for (View& view : inputs_) {  // all that is normalized becomes one axis, all before it another
    AlignRight(view, rank + 1);
    View tail{{view.dims.begin() + axis + 1, view.dims.end()},
              {view.strides.begin() + axis + 1, view.strides.end()},
              {}};
    MergeFirst(tail, tail.dims.size());
    view.dims.resize(axis + 1);
    view.strides.resize(axis + 1);
    MergeFirst(view, view.dims.size());
    view = {{view.dims[0], tail.dims[0]}, {tail.dims[0], 1}, {}};
  }
  output_ = In("src");
  dnnl::normalization_flags flags = dnnl::normalization_flags::use_scale;
  for (std::string_view role : {"scale", "shift"}) {
    if (!Has(role)) continue;
    In(role) = {{In(role).dims[1]}, {1}, {}};
    if (role == "shift") flags |= dnnl::normalization_flags::use_shift;
  }
  WEFT_TRY(Attributes(attr_));
  const dnnl::layer_normalization_forward::primitive_desc desc(
      Engine(), prop_kind::forward_inference, In("src").Desc(), output_.Desc(),
      FloatAttr(call_, "epsilon", 1e-5f), flags, attr_);
  return Finish(desc);
}

// A change of layout, of axes ("perm"), or both.
Status Builder::Reorder() {
  const memory::dims perm = Ints("perm");
  if (!perm.empty()) {
    View& src = In("src");
    View permuted;
    for (int64_t axis : perm) {
      if (src.tag || axis < 0 || axis >= static_cast<int64_t>(src.dims.size()))
        return Wrong(call_, "perm does not fit");
      permuted.dims.push_back(src.dims[axis]);
      permuted.strides.push_back(src.strides[axis]);
    }
    src = permuted;
  }
  if (In("src").dims != output_.dims) return Wrong(call_, "the shapes differ");
  WEFT_TRY(Attributes(attr_));
  const dnnl::reorder::primitive_desc desc(Engine(), In("src").Desc(), Engine(), output_.Desc(),
                                           attr_);
  return Finish(desc);
}

// The library's reference, which alone takes post-ops, confuses axes beyond the fifth.
Status Builder::Eltwise() {
  if (!call_.post_ops.empty()) return Wrong(call_, "eltwise with post-ops");
  WEFT_TRY(Attributes(attr_));
  WEFT_TRY(const onednn::Eltwise op,
           EltwiseOf(StringAttr(call_, "algorithm", ""), FloatAttr(call_, "alpha", 0),
                     FloatAttr(call_, "beta", 0)));
  const dnnl::eltwise_forward::primitive_desc desc(Engine(), prop_kind::forward_inference,
                                                   op.algorithm, In("src").Desc(), output_.Desc(),
                                                   op.alpha, op.beta, attr_);
  return Finish(desc);
}

Status Builder::Binary() {
  if (!Has("src1")) return Wrong(call_, "no src1");
  AlignPostOperands(output_.dims.size());
  if (!In("src1").tag) AlignRight(In("src1"), output_.dims.size());
  WEFT_TRY(const algorithm how, BinaryOf(StringAttr(call_, "algorithm", "")));
  WEFT_TRY(Attributes(attr_));
  const dnnl::binary::primitive_desc desc(Engine(), how, In("src").Desc(), In("src1").Desc(),
                                          output_.Desc(), attr_);
  return Finish(desc);
}

Result<Built> Builder::Run() {
  WEFT_TRY(CheckShapes());
  WEFT_TRY(Views());
  const bool weighs =
      call_.op == "convolution" || call_.op == "deconvolution" || call_.op == "matmul";
  if (weighs && !Has("weights")) return Wrong(call_, "no weights");
  if (call_.op == "convolution") {
    WEFT_TRY(Convolution());
  } else if (call_.op == "deconvolution") {
    WEFT_TRY(Deconvolution());
  } else if (call_.op == "matmul") {
    WEFT_TRY(Matmul());
  } else if (call_.op == "pooling") {
    WEFT_TRY(Pooling());
  } else if (call_.op == "softmax") {
    WEFT_TRY(Softmax());
  } else if (call_.op == "layer_normalization") {
    WEFT_TRY(LayerNorm());
  } else if (call_.op == "reorder") {
    WEFT_TRY(Reorder());
  } else if (call_.op == "eltwise") {
    WEFT_TRY(Eltwise());
  } else if (call_.op == "binary") {
    WEFT_TRY(Binary());
  } else {
    return Unsupported(fmt::format("onednn has no operation {}", call_.op));
  }
  return std::move(built_);
}

Result<Built> Build(const LibraryCall& call) { return Builder(call).Run(); }

}  // namespace weft::fallback::onednn
