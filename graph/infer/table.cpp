// Which rule each operator has.

#include <array>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

constexpr size_t kOps = 0
#define WEFT_OP(name, domain) +1
#include "graph/ops.def"
#undef WEFT_OP
    ;

constexpr std::array<Rule, kOps> MakeTable() {
  std::array<Rule, kOps> table{};
  auto set = [&](Rule rule, std::initializer_list<Op> ops) {
    for (Op op : ops) table[static_cast<size_t>(op)] = rule;
  };
  set(Unary, {Op::kAbs,
              Op::kAcos,
              Op::kAcosh,
              Op::kAsin,
              Op::kAsinh,
              Op::kAtan,
              Op::kAtanh,
              Op::kBitwiseNot,
              Op::kCastLike,
              Op::kCeil,
              Op::kCelu,
              Op::kCos,
              Op::kCosh,
              Op::kElu,
              Op::kErf,
              Op::kExp,
              Op::kFloor,
              Op::kHardSigmoid,
              Op::kHardSwish,
              Op::kIsInf,
              Op::kIsNaN,
              Op::kLeakyRelu,
              Op::kLog,
              Op::kMish,
              Op::kNeg,
              Op::kNot,
              Op::kReciprocal,
              Op::kRelu,
              Op::kReverseSequence,
              Op::kRound,
              Op::kSelu,
              Op::kShrink,
              Op::kSigmoid,
              Op::kSign,
              Op::kSin,
              Op::kSinh,
              Op::kSoftplus,
              Op::kSoftsign,
              Op::kSqrt,
              Op::kSwish,
              Op::kTan,
              Op::kTanh,
              Op::kThresholdedRelu});
  set(Elementwise, {Op::kAdd,       Op::kAnd,         Op::kBitwiseAnd,
                    Op::kBitwiseOr, Op::kBitwiseXor,  Op::kDiv,
                    Op::kEqual,     Op::kGreater,     Op::kGreaterOrEqual,
                    Op::kLess,      Op::kLessOrEqual, Op::kMax,
                    Op::kMean,      Op::kMin,         Op::kMod,
                    Op::kMul,       Op::kOr,          Op::kPRelu,
                    Op::kPow,       Op::kSub,         Op::kSum,
                    Op::kXor});
  set(WhereRule, {Op::kWhere});
  set(IdentityRule, {Op::kIdentity});
  set(GeluRule, {Op::kGelu});
  set(BitShiftRule, {Op::kBitShift});
  set(CastRule, {Op::kCast});
  set(BitCastRule, {Op::kBitCast});
  set(FloatCodeRule, {Op::kDecodeFloat, Op::kEncodeFloat});
  set(ClipRule, {Op::kClip});
  set(DropoutRule, {Op::kDropout});
  set(QuantizeRule, {Op::kQuantizeLinear, Op::kDequantizeLinear});
  set(DynamicQuantizeRule, {Op::kDynamicQuantizeLinear});
  set(ConvRule, {Op::kConv, Op::kConvInteger, Op::kQLinearConv});
  set(ConvTransposeRule, {Op::kConvTranspose});
  set(PoolRule, {Op::kAveragePool, Op::kMaxPool, Op::kLpPool});
  set(GlobalPoolRule, {Op::kGlobalAveragePool, Op::kGlobalMaxPool, Op::kGlobalLpPool});
  set(RoiAlignRule, {Op::kRoiAlign, Op::kMaxRoiPool});
  set(GridSampleRule, {Op::kGridSample});
  set(DeformConvRule, {Op::kDeformConv});
  set(Col2ImRule, {Op::kCol2Im});
  set(MaxUnpoolRule, {Op::kMaxUnpool});
  set(CenterCropPadRule, {Op::kCenterCropPad});
  set(DftRule, {Op::kDFT});
  set(StftRule, {Op::kSTFT});
  set(MelWeightRule, {Op::kMelWeightMatrix});
  set(LossRule, {Op::kNegativeLogLikelihoodLoss, Op::kSoftmaxCrossEntropyLoss});
  set(MatMulRule, {Op::kMatMul, Op::kMatMulInteger, Op::kQLinearMatMul});
  set(DequantizeMatMulRule, {Op::kDequantizeMatMul});
  set(GemmRule, {Op::kGemm});
  set(EinsumRule, {Op::kEinsum});
  set(AttentionRule, {Op::kAttention});
  set(RotaryRule, {Op::kRotaryEmbedding});
  set(TensorScatterRule, {Op::kTensorScatter});
  set(CausalConvRule, {Op::kCausalConvWithState});
  set(LinearAttentionRule, {Op::kLinearAttention});
  set(DetRule, {Op::kDet});
  set(BatchNormRule, {Op::kBatchNormalization});
  set(NormRule, {Op::kInstanceNormalization, Op::kGroupNormalization, Op::kLRN,
                 Op::kLpNormalization, Op::kMeanVarianceNormalization});
  set(LayerNormRule, {Op::kLayerNormalization, Op::kRMSNormalization});
  set(SoftmaxRule, {Op::kSoftmax, Op::kLogSoftmax, Op::kHardmax});
  set(ReduceRule,
      {Op::kReduceL1, Op::kReduceL2, Op::kReduceLogSum, Op::kReduceLogSumExp, Op::kReduceMax,
       Op::kReduceMean, Op::kReduceMin, Op::kReduceProd, Op::kReduceSum, Op::kReduceSumSquare});
  set(ArgReduceRule, {Op::kArgMax, Op::kArgMin});
  set(TopKRule, {Op::kTopK});
  set(CumSumRule, {Op::kCumSum, Op::kCumProd});
  set(ReshapeRule, {Op::kReshape});
  set(FlattenRule, {Op::kFlatten});
  set(SqueezeRule, {Op::kSqueeze});
  set(UnsqueezeRule, {Op::kUnsqueeze});
  set(TransposeRule, {Op::kTranspose});
  set(ExpandRule, {Op::kExpand});
  set(ShapeRule, {Op::kShape});
  set(SizeRule, {Op::kSize});
  set(ConcatRule, {Op::kConcat});
  set(SplitRule, {Op::kSplit});
  set(SliceRule, {Op::kSlice});
  set(PadRule, {Op::kPad});
  set(TileRule, {Op::kTile});
  set(ResizeRule, {Op::kResize});
  set(DepthToSpaceRule, {Op::kDepthToSpace});
  set(SpaceToDepthRule, {Op::kSpaceToDepth});
  set(TriluRule, {Op::kTrilu});
  set(RangeRule, {Op::kRange});
  set(ConstantOfShapeRule, {Op::kConstantOfShape});
  set(EyeLikeRule, {Op::kEyeLike});
  set(DrawRule, {Op::kDraw});
  set(ImageDecoderRule, {Op::kImageDecoder});
  set(OneHotRule, {Op::kOneHot});
  set(GatherRule, {Op::kGather});
  set(GatherElementsRule, {Op::kGatherElements});
  set(GatherNDRule, {Op::kGatherND});
  set(ScatterElementsRule, {Op::kScatterElements});
  set(ScatterNDRule, {Op::kScatterND});
  set(NonZeroRule, {Op::kNonZero});
  set(CompressRule, {Op::kCompress});
  set(NmsRule, {Op::kNonMaxSuppression});
  set(UniqueRule, {Op::kUnique});
  set(Elementwise, {Op::kStringConcat});
  set(Unary, {Op::kRegexFullMatch});
  set(StringNormalizerRule, {Op::kStringNormalizer});
  set(StringSplitRule, {Op::kStringSplit});
  set(RecurrentRule, {Op::kLSTM, Op::kGRU, Op::kRNN});
  set(IfRule, {Op::kIf});
  set(LoopRule, {Op::kLoop});
  set(ScanRule, {Op::kScan});
  set(SequenceLengthRule, {Op::kSequenceLength});
  set(SequenceMapRule, {Op::kSequenceMap});
  set(SequenceAtRule, {Op::kSequenceAt});
  set(SequenceConstructRule, {Op::kSequenceConstruct});
  set(SequenceEmptyRule, {Op::kSequenceEmpty});
  set(SequenceEraseRule, {Op::kSequenceErase});
  set(SequenceInsertRule, {Op::kSequenceInsert});
  set(SplitToSequenceRule, {Op::kSplitToSequence});
  set(ConcatFromSequenceRule, {Op::kConcatFromSequence});
  return table;
}

constexpr auto kTable = MakeTable();

}  // namespace

Rule RuleOf(Op op) { return kTable[static_cast<size_t>(op)]; }

}  // namespace weft::graph::infer
