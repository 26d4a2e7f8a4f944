// Of com.microsoft, crops of images and transposed convolutions (ContribOperators.md).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {

// ConvTranspose with pads that are an input. Where they are not constant, they are cut off behind.
Status ExpandConvTransposeWithDynamicPads(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T W:T Pads?:=i64 B?:T", "Y:T", "T=f16|f32|f64",
                   "auto_pad:s dilations:I group:i kernel_shape:I output_padding:I strides:I"));
  std::vector<Attribute> attributes = e.node().attributes;
  const std::vector<ValueId> operands = {e.In(0), e.In(1), e.In(3)};
  if (!e.Has(2)) return e.Finish(Op::kConvTranspose, operands, std::move(attributes));
  if (const std::string pad = StringAttr(e.node(), "auto_pad", "NOTSET"); pad != "NOTSET")
    return Unsupported(fmt::format("pads beside auto_pad {} are not supported", PrintString(pad)));
  const auto rank = e.RankOf(e.In(0));
  if (!rank || *rank < 3)
    return Unsupported("images of a rank below 3 or not known are not supported");
  const auto axes = static_cast<int64_t>(*rank) - 2;
  if (auto pads = e.ConstantInts(2)) {
    if (std::ssize(*pads) != 2 * axes)
      return Invalid(fmt::format("found {} pads, expected {}", pads->size(), 2 * axes));
    attributes.push_back({"pads", std::move(*pads)});
    return e.Finish(Op::kConvTranspose, operands, std::move(attributes));
  }
  Formula f(e);
  const ValueId y = f.Do(Op::kConvTranspose, operands, std::move(attributes));
  WEFT_TRY(f.status());
  WEFT_TRY(const auto pads, Columns(e, e.In(2), {axes, axes}, "pads"));
  const ValueId size = f.Do(Op::kShape, {y}, {{"start", int64_t{2}}});
  std::vector<int64_t> along;
  for (int64_t i = 0; i < axes; ++i) along.push_back(i + 2);
  return f.Finish(
      f.Do(Op::kSlice, {y, pads[0], f.Sub(size, pads[1]), e.Ints("along", std::move(along))}));
}

namespace {

// CropAndResize, in which axis 0 is y and axis 1 is x; a place is [boxes, size] along one of them.
class Crops {
 public:
  explicit Crops(Expansion& e) : e_(e), f_(e), node_(e.node()) {}

  Status Build() {
    WEFT_TRY(e_.Obeys("X:T1 rois:T1 batch_indices:T2 crop_size:T2", "Y:T1", "T1=f16|f32|f64 T2=i32",
                      "extrapolation_value:f mode:s"));
    constexpr size_t kRanks[] = {4, 2, 1};
    for (size_t i = 0; i < 3; ++i) {
      if (const auto rank = e_.RankOf(e_.In(i)); rank && rank != kRanks[i])
        return Invalid(fmt::format("input {} is of rank {}, expected {}", i, *rank, kRanks[i]));
    }
    const std::string mode = StringAttr(node_, "mode", "bilinear");
    if (mode != "bilinear" && mode != "nearest")
      return Invalid(fmt::format("mode is {}, expected bilinear or nearest", PrintString(mode)));
    const auto size = e_.ConstantInts(3);
    if (!size) return Unsupported("a size of crops that is not constant is not supported");
    if (size->size() != 2 || std::ranges::min(*size) < 1)
      return Invalid("the size of crops is to be two numbers from 1 on");

    // Places of 16 bits would miss pixels of large images.
    const Dtype exact = e_.Known(e_.In(1)).dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    image_ = f_.Cast(e_.In(0), exact);
    like_ = f_.Cast(e_.In(1), exact);
    const ValueId y = Place(0, (*size)[0]), x = Place(1, (*size)[1]);
    const ValueId inside = f_.Do(Op::kAnd, {Wide(Inside(0, y), 0), Wide(Inside(1, x), 1)});
    const ValueId safe_y = Or(Inside(0, y), y), safe_x = Or(Inside(1, x), x);
    const ValueId top = f_.Do(Op::kFloor, {safe_y}), left = f_.Do(Op::kFloor, {safe_x});
    const ValueId below = f_.Sub(safe_y, top), beside = f_.Sub(safe_x, left);
    ValueId value;
    if (mode == "nearest") {
      value = Pixels(Nearest(top, below), Nearest(left, beside));
    } else {
      const ValueId bottom = f_.Do(Op::kCeil, {safe_y}), right = f_.Do(Op::kCeil, {safe_x});
      const ValueId part = Wide(beside, 1);
      value = Between(Between(Pixels(top, left), Pixels(top, right), part),
                      Between(Pixels(bottom, left), Pixels(bottom, right), part), Wide(below, 0));
    }
    const ValueId outside = f_.Number(FloatAttr(node_, "extrapolation_value", 0), like_);
    const ValueId last = f_.Do(Op::kWhere, {inside, value, outside});
    const ValueId crops =
        f_.Do(Op::kTranspose, {last}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
    return f_.Finish(f_.Do(Op::kCastLike, {crops, e_.In(0)}));
  }

 private:
  ValueId Extent(int64_t axis) {
    return f_.Do(Op::kShape, {e_.In(0)}, {{"end", axis + 3}, {"start", axis + 2}});
  }
  ValueId LastPixel(int64_t axis) {
    return f_.Do(Op::kCastLike, {f_.Sub(Extent(axis), e_.Ints("one", {1})), like_});
  }
  // Where the pixels of a crop lie: from one side of the box to the other, or in its middle.
  ValueId Place(int64_t axis, int64_t size) {
    const auto side = [&](int64_t column) {
      return f_.Do(Op::kGather, {like_, e_.Ints("side", {column})}, {{"axis", int64_t{1}}});
    };
    const ValueId from = side(axis), to = side(axis + 2), last = LastPixel(axis);
    if (size == 1) return f_.Mul(f_.Mul(f_.Number(0.5, like_), f_.Add(from, to)), last);
    const ValueId step =
        f_.Div(f_.Mul(f_.Sub(to, from), last), f_.Number(static_cast<double>(size - 1), like_));
    const ValueId i =
        f_.Do(Op::kRange, {e_.Int("first", 0), e_.Int("size", size), e_.Int("by", 1)});
    const ValueId place =
        f_.Add(f_.Mul(from, last), f_.Mul(f_.Do(Op::kCastLike, {i, like_}), step));
    const ValueId at_end = f_.Do(Op::kEqual, {i, e_.Int("end", size - 1)});
    return f_.Do(Op::kWhere, {at_end, f_.Mul(to, last), place});
  }
  ValueId Inside(int64_t axis, ValueId place) {
    return f_.Do(Op::kAnd, {f_.Do(Op::kGreaterOrEqual, {place, f_.Number(0, like_)}),
                            f_.Do(Op::kLessOrEqual, {place, LastPixel(axis)})});
  }
  ValueId Or(ValueId inside, ValueId place) {
    return f_.Do(Op::kWhere, {inside, place, f_.Number(0, like_)});
  }
  ValueId Nearest(ValueId floor, ValueId part) {  // halves go up
    const ValueId up = f_.Do(Op::kGreaterOrEqual, {part, f_.Number(0.5, like_)});
    return f_.Add(floor, f_.Do(Op::kCastLike, {up, like_}));
  }
  ValueId Between(ValueId a, ValueId b, ValueId part) {
    return f_.Add(a, f_.Mul(f_.Sub(b, a), part));
  }
  // [boxes, size] as [boxes, y, x, channels], each of 1 but for the axis.
  ValueId Wide(ValueId place, int64_t axis) {
    return f_.Do(Op::kUnsqueeze, {place, e_.Ints("around", {axis == 0 ? 2 : 1, 3})});
  }
  // [boxes, y, x, channels]
  ValueId Pixels(ValueId y, ValueId x) {
    const ValueId rows =
        f_.Do(Op::kReshape,
              {f_.Do(Op::kTranspose, {image_}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}),
               f_.Do(Op::kConcat, {e_.Ints("all", {-1}), Extent(-1)}, {{"axis", int64_t{0}}})});
    const auto whole = [&](ValueId v, std::vector<int64_t> axes) {
      return f_.Do(Op::kUnsqueeze, {f_.Cast(v, Dtype::kI64), e_.Ints("around", std::move(axes))});
    };
    const ValueId row = f_.Add(f_.Mul(whole(e_.In(2), {1, 2}), Extent(0)), whole(y, {2}));
    const ValueId place = f_.Add(f_.Mul(row, Extent(1)), whole(x, {1}));
    return f_.Do(Op::kGather, {rows, place});
  }

  Expansion& e_;
  Formula f_;
  const Node& node_;
  ValueId image_, like_;  // the boxes have the type of all places
};

}  // namespace

Status ExpandCropAndResize(Expansion& e) { return Crops(e).Build(); }

}  // namespace weft::graph
