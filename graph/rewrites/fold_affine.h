// A scale and a shift of each output channel, carried by the weights and the bias of the
// convolution, Gemm or MatMul before it. Computed in f64 and rounded once.
#pragma once

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

struct PerChannel {
  std::vector<double> scale, shift;
};

// Numbers as a tensor, if its type holds every one of them.
std::optional<Tensor> Rounded(const std::vector<double>& values, Dtype dtype, const Shape& shape);
// A constant that is one number, or one for each of the channels along an axis of a value of this
// rank, as so many finite numbers; none of another one.
std::optional<std::vector<double>> ByChannel(const Graph& graph, ValueId id, size_t rank,
                                             size_t channel_axis, int64_t channels);
// What a batch normalization with constant statistics is; none of another one.
std::optional<PerChannel> AffineOfNormalization(const Graph& graph, const Node& bn);
// The Conv, ConvTranspose or Gemm that makes a value for one reader, if its weights are constant
// f32 or f64.
const Node* LinearBefore(const Rewriter& r, ValueId id);
int64_t ChannelsOf(const Graph& graph, const Node& linear);  // of the output; 0 if unknown
// The node, which computes scale * input + shift, becomes the linear node itself.
bool FoldAffine(Rewriter& r, NodeId id, ValueId input, const PerChannel& affine);
// The same of a MatMul with a constant matrix and perhaps a bias, whose columns are the channels of
// `input`, with or without a reshape that keeps them between. The sum behind the product has the
// shift.
bool FoldIntoColumns(Rewriter& r, NodeId id, ValueId input, const PerChannel& affine);

}  // namespace weft::graph
