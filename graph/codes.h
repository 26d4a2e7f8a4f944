// Numbers of few bits: float8, float4, e8m0 and integers of two bits. ONNX moves and converts them
// and does nothing else, so that behind the importer their bytes will do.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// Makes every value of a code type (base/dtype.def), in subgraphs too, one of u8, or i8 for i2:
// inputs and outputs as well, whose bytes mean what the model says. Needs inferred types and leaves
// them inferred. Conversions become the operators below, or integer arithmetic; an operator that
// computes with codes is refused.
//
// DecodeFloat(x: u8) {format} -> f32: the number that the code is, exactly. `format` is its
// TensorProto.DataType.
// EncodeFloat(x: f32) {format, saturate, round_mode} -> u8: to nearest even; e8m0 rounds its powers
// of two up, unless round_mode is "nearest" (ties up) or "down". Beyond the largest number comes
// that number, or with saturate = 0 infinity, or NaN where there is none (ONNX, operator Cast, the
// tables of float 8 types); float4 always saturates, and has -0 for NaN.
Status LowerCodes(Graph& graph);

}  // namespace weft::graph
