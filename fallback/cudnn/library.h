// cuDNN's backend interface, loaded when it is first asked for. Its entries and constants that are
// used, as cudnn_graph.h of version 9 has them, declared here so that building needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace weft::fallback::cudnn {

using Handle = void*;  // cudnnHandle_t, cudnnBackendDescriptor_t

inline constexpr int kOk = 0;

enum Kind : int {  // cudnnBackendDescriptorType_t
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kOperationConvolution = 10,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kResample = 24,
  kOperationResample = 25,
  kDeviceProperties = 38,
};

enum Type : int {  // cudnnBackendAttributeType_t
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypeDouble = 5,
  kTypePointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicMode = 8,
  kTypeNanPropagation = 10,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeResampleMode = 21,
  kTypePaddingMode = 22,
  kTypeChar = 24,
};

enum Name : int {  // cudnnBackendAttributeName_t
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPadsAfter = 104,
  kConvolutionPadsBefore = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kEngineConfigEngine = 300,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kApplyPointwise = 750,
  kApplyX = 751,
  kApplyB = 752,
  kApplyY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNotes = 1303,
  kResampleMode = 1700,
  kResamplePrecision = 1701,
  kResampleSpatialDims = 1702,
  kResamplePadsAfter = 1703,
  kResamplePadsBefore = 1704,
  kResampleStrides = 1705,
  kResampleWindow = 1706,
  kResampleNan = 1707,
  kResamplePadding = 1708,
  kPoolX = 1710,
  kPoolY = 1711,
  kPoolAlpha = 1713,
  kPoolBeta = 1714,
  kPoolResample = 1716,
  kDeviceJson = 2702,
};

inline constexpr int kFloat = 0;                                 // CUDNN_DATA_FLOAT
inline constexpr int kCrossCorrelation = 1;                      // CUDNN_CROSS_CORRELATION
inline constexpr int kHeuristicsA = 3, kHeuristicsFallback = 2;  // CUDNN_HEUR_MODE_…
inline constexpr int kAdd = 0, kReluForward = 100;               // CUDNN_POINTWISE_…
// CUDNN_RESAMPLE_…, CUDNN_…_PAD, CUDNN_PROPAGATE_NAN
inline constexpr int kAverageWithPadding = 2, kMaxPool = 3, kAverageWithoutPadding = 4;
inline constexpr int kZeroPad = 0, kLowestPad = 1;
inline constexpr int kPropagatesNan = 1;
// CUDNN_NUMERICAL_NOTE_…: of f32, tensor cores round factors to TF32; the other says nothing less.
inline constexpr int kTensorCores = 0, kStrictNan = 9;

struct Library {
  size_t (*version)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  void (*last_error)(char*, size_t) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, void*) = nullptr;
  int (*new_descriptor)(int, Handle*) = nullptr;
  int (*end_descriptor)(Handle) = nullptr;
  int (*set)(Handle, int, int, int64_t, const void*) = nullptr;
  int (*get)(Handle, int, int, int64_t, int64_t*, void*) = nullptr;
  int (*finalize)(Handle) = nullptr;
  int (*execute)(Handle, Handle, Handle) = nullptr;
};

// kMissing, with what to try. WEFT_CUDNN=none hides it.
Result<const Library*> Load();

}  // namespace weft::fallback::cudnn
