// The translators, by family. Each writes one alternative of its operator into a Writer, or
// refuses.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tc_lang/ops/writer.h"

namespace weft::tc::ops {

struct Translator {
  std::string_view name;  // of the alternative
  void (*write)(Writer& w);
};

// Empty: no mathematics known. The first is the plainest; the others compute the same.
std::vector<Translator> TranslatorsOf(graph::Op op);

// Of an operator that has none and is computed by a native kernel: why. Empty for others.
std::string_view WhyNoTranslator(graph::Op op);

// pointwise.cpp, activations.cpp
void Unary(Writer& w);
void Binary(Writer& w);
void Variadic(Writer& w);
void Div(Writer& w);
void Mod(Writer& w);
void Pow(Writer& w);
void BitShift(Writer& w);
void IsInf(Writer& w);
void Where(Writer& w);
void Clip(Writer& w);
void CastTo(Writer& w);
void BitCast(Writer& w);
void Activation(Writer& w);
void PRelu(Writer& w);

// convolution.cpp
void Conv(Writer& w);
void ConvChannelsLast(Writer& w);
void ConvTranspose(Writer& w);
void Col2Im(Writer& w);

// winograd.cpp
void ConvWinograd(Writer& w);
void ConvWinograd4(Writer& w);

// contraction.cpp, einsum.cpp
void MatMul(Writer& w);
void Gemm(Writer& w);
void Einsum(Writer& w);

// pooling.cpp
void MaxPool(Writer& w);
void MaxPoolByAxis(Writer& w);
void AveragePoolByAxis(Writer& w);
void AveragePool(Writer& w);
void LpPool(Writer& w);
void GlobalAveragePool(Writer& w);
void GlobalMaxPool(Writer& w);
void GlobalLpPool(Writer& w);

// reduction.cpp, scan.cpp
void ReducePlain(Writer& w);
void ReduceMean(Writer& w);
void ReduceLogSumExp(Writer& w);
void ArgReduce(Writer& w);
void CumSum(Writer& w);
void CumSumTriangular(Writer& w);
void CumProd(Writer& w);
void CumProdTriangular(Writer& w);

// normalization.cpp
void BatchNormalization(Writer& w);
void LayerNormalization(Writer& w);
void LayerNormalizationBlocked(Writer& w);
void NormalizePlanes(Writer& w);  // instance and group normalization
void NormalizePlanesByBlocks(Writer& w);
void RmsNormalization(Writer& w);
void MeanVarianceNormalization(Writer& w);
void Lrn(Writer& w);
void LpNormalization(Writer& w);

// softmax.cpp
void Softmax(Writer& w);
void SoftmaxStored(Writer& w);
void SoftmaxOnline(Writer& w);
void LogSoftmax(Writer& w);
void Hardmax(Writer& w);

// layout.cpp, slicing.cpp
void Copy(Writer& w);
void Transpose(Writer& w);
void Reshape(Writer& w);
void Expand(Writer& w);
void Tile(Writer& w);
void DepthToSpace(Writer& w);
void SpaceToDepth(Writer& w);
void ConcatAlong(Writer& w);
void Split(Writer& w);
void Slice(Writer& w);
void Pad(Writer& w);
void CenterCropPad(Writer& w);

// gather.cpp, generated.cpp
void Gather(Writer& w);
void GatherElements(Writer& w);
void GatherND(Writer& w);
void ReverseSequence(Writer& w);
void OneHot(Writer& w);
void Trilu(Writer& w);
void RangeOf(Writer& w);
void ConstantOfShape(Writer& w);
void EyeLike(Writer& w);
void ShapeOf(Writer& w);
void SizeOf(Writer& w);

// recurrent.cpp
void Rnn(Writer& w);
void Lstm(Writer& w);
void Gru(Writer& w);

// attention.cpp, sequence.cpp
void Attention(Writer& w);
void RotaryEmbedding(Writer& w);
void TensorScatter(Writer& w);
void CausalConvWithState(Writer& w);
void LinearAttention(Writer& w);

// sampling.cpp, scatter.cpp
void GridSample(Writer& w);
void RoiAlign(Writer& w);
void DeformConv(Writer& w);
void ScatterElements(Writer& w);
void ScatterND(Writer& w);

// spectral.cpp, determinant.cpp, loss.cpp
void Dft(Writer& w);
void Stft(Writer& w);
void MelWeightMatrix(Writer& w);
void Det(Writer& w);
void NegativeLogLikelihoodLoss(Writer& w);
void SoftmaxCrossEntropyLoss(Writer& w);

// resize.cpp
void Resize(Writer& w);
void ResizeByAxis(Writer& w);

// quantize.cpp
void QuantizeLinear(Writer& w);
void DequantizeLinear(Writer& w);
void DecodeFloat(Writer& w);
void EncodeFloat(Writer& w);
void MatMulCompressed(Writer& w);  // compressed.cpp; Gemm too
void DequantizeMatMul(Writer& w);
void DequantizeMatMulFolded(Writer& w);
void DynamicQuantizeLinear(Writer& w);
void MatMulInteger(Writer& w);
void ConvInteger(Writer& w);
void QLinearMatMul(Writer& w);
void QLinearConv(Writer& w);
void MatMulIntegerBytes(Writer& w);
void ConvIntegerBytes(Writer& w);
void ConvIntegerWinograd(Writer& w);
void QLinearMatMulBytes(Writer& w);
void QLinearConvBytes(Writer& w);
void QLinearConvWinograd(Writer& w);

}  // namespace weft::tc::ops
