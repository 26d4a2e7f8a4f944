// Between real numbers and integers of few bits: x = (q - zero point) * scale.
//
// A product of quantized values is Σ (a - zero of a) (b - zero of b), a sum of integers modulo
// 2^32, and so it may be computed in whatever way adds up to the same. Zero points are taken off
// before, from 16 bits (the alternative "direct"), or what they add is taken off the sum behind
// ("bytes"), which leaves factors of a byte to machines that multiply those. A filter of three taps
// along an axis may do with fewer products of 16 bits ("winograd").
#include <algorithm>
#include <cstddef>
#include <utility>

#include "graph/edit.h"

#include "tc_lang/ops/families.h"
#include "tc_lang/ops/winograd_tiles.h"

namespace weft::tc::ops {
namespace {

// The subscripts of scale and zero point: none, one along `axis`, or one a block of it. A single
// element is for all of x, which then need not have that axis.
Subs ScaleSubs(Writer& w, const Operand& scale, const Operand& x, const Subs& i) {
  const int64_t block = w.Int("block_size", 0);
  if (scale.dims.empty()) return {};
  if (block == 0 && scale.rank() == 1 && scale.dims[0].IsOne()) return {"0"};
  const auto axis = static_cast<size_t>(w.Axis(w.Int("axis", 1), x.rank()));
  if (!w.ok()) return {};
  if (block == 0) return {i[axis]};
  Subs at = i;
  at[axis] = fmt::format("{} / {}", i[axis], block);
  return at;
}

// Input 2, which may be one element of rank 1 where the scale is of rank 0.
std::string ZeroAt(Writer& w, const Operand& x, const Subs& i) {
  return w.At(w.In(2), ScaleSubs(w, w.In(2), x, i));
}

// A scale that divides nothing.
bool IsOne(const Tensor* scale) {
  return scale != nullptr && scale->elems() == 1 && ElemAsDouble(*scale, 0) == 1;
}

// Input k: one number, one for each line of a matrix or each channel, or one for each line of each
// matrix of a batch, at the subscripts `lines`.
std::string Each(Writer& w, size_t k, const std::string& line, const Subs& lines = {}) {
  if (!w.Has(k)) return "";
  const Operand x = w.In(k);
  Subs at = x.dims.size() > 1 ? lines : Subs(x.dims.size(), line);
  if (at.size() != x.dims.size()) {
    w.Refuse(fmt::format("'{}' has rank {}", x.name, x.rank()));
    return "";
  }
  for (size_t axis = 0; axis < at.size(); ++axis)
    if (x.dims[axis].IsOne()) at[axis] = "0";
  return w.At(x, at);
}

// Subscripts of a matrix, or of a batch of them, as those of what it has one a row or a column of.
Subs Lines(Subs at, std::string_view summed) {
  std::ranges::replace(at, summed, "0");
  return at;
}

// round(sum * scale_a * scale_b / scale_y) + zero, saturated.
std::string Requantized(Writer& w, const Operand& y, const std::string& sum, const std::string& a,
                        const std::string& b, const std::string& to, const std::string& zero) {
  const Dtype scale = w.In(1).dtype;
  const std::string factor = fmt::format("({} * {} / {})", Cast(Dtype::kF32, scale, a),
                                         Cast(Dtype::kF32, scale, b), Cast(Dtype::kF32, scale, to));
  return Cast(y.dtype, fmt::format("round({} * {}) + {}", Cast(Dtype::kF32, sum), factor,
                                   Cast(Dtype::kF32, zero)));
}

bool IsZero(const Tensor& bytes) {
  return std::ranges::all_of(bytes.raw(), [](std::byte byte) { return byte == std::byte(0); });
}

// Whether input k, a zero point, is there and not known to be 0.
bool Shifts(const Writer& w, size_t k) {
  if (!w.Has(k)) return false;
  const Tensor* zero = w.Constant(k);
  return zero == nullptr || !IsZero(*zero);
}

// A byte less its zero point, if it has one, as 16 bits.
std::string LessZero16(const std::string& byte, const std::string& zero) {
  const std::string value = Cast(Dtype::kI16, byte);
  return zero.empty() ? value : value + " - " + Cast(Dtype::kI16, zero);
}

// x less its zero point, in 16 bits, which hold it: instructions multiply pairs of those. `subs`
// are indices over x, `stored` the same in the order in which the result has them.
Operand Centred(Writer& w, const Operand& x, const Subs& subs, const Subs& stored,
                const std::string& zero) {
  const Operand centred = w.Temp("centred", Dtype::kI16);
  w.Set("pointwise", centred, stored, LessZero16(w.At(x, subs), zero));
  return centred;
}

std::string Product(const std::string& a, const std::string& b) {
  return fmt::format("{} * {}", Cast(Dtype::kI32, a), Cast(Dtype::kI32, b));
}

// The sum over k of (a - zero of a) (b - zero of b), as an expression at p.at. Zero points are
// scalars or one a row of a, one a column of b; that of b comes out of the sum, times the sum of
// a's row.
std::string CentredProduct(Writer& w, const MatrixProduct& p, size_t zero_a, size_t zero_b) {
  const Subs i = w.Indices("j", p.a.dims);
  const std::string row = p.a.rank() > 1 ? i[i.size() - 2] : "0";
  const Operand a =
      Centred(w, p.a, i, i, Shifts(w, zero_a) ? Each(w, zero_a, row, Lines(i, i.back())) : "");
  const Operand sum = w.Temp("product", Dtype::kI32);
  w.Reduce("contraction", sum, p.at, "+=!", Product(w.At(a, p.at_a), w.At(p.b, p.at_b)));
  if (!Shifts(w, zero_b)) return w.At(sum, p.at);
  const Operand rows = w.Temp("row_sum", Dtype::kI32);
  const Subs at(p.at_a.begin(), p.at_a.end() - 1);
  w.Reduce("reduction", rows, at, "+=!", Cast(Dtype::kI32, w.At(a, p.at_a)));
  const std::string zero = Each(w, zero_b, p.b.rank() > 1 ? "n" : "0", Lines(p.at_b, "k"));
  return fmt::format("({} - {})", w.At(sum, p.at), Product(w.At(rows, at), zero));
}

// Which input is a product's factor that may be constant; -1 if the operator is no such product.
int FactorOf(graph::Op op) {
  if (op == graph::Op::kMatMulInteger || op == graph::Op::kConvInteger) return 1;
  return op == graph::Op::kQLinearMatMul || op == graph::Op::kQLinearConv ? 3 : -1;
}

bool TakesFilter(graph::Op op) {
  return op == graph::Op::kConvInteger || op == graph::Op::kQLinearConv;
}

// ---- few channels ----
//
// Instructions multiply two or four bytes that lie side by side, and channels that are fewer leave
// them idle. In a row of an image with channels last, those of the next place follow, so a row of
// a filter is one sum over both.

constexpr int64_t kFewChannels = 3;
const char* const kFilterRows = "filter_rows";

bool HasRows(const graph::Node& node, const Shape& filter) {
  const std::vector<int64_t> dilations = IntsAttr(node, "dilations");
  return IntAttr(node, "group", 1) == 1 && filter[1] >= 1 && filter[1] <= kFewChannels &&
         filter.back() > 1 && (dilations.empty() || dilations.back() == 1);
}

// The filter [outs, ins, …, taps] as [outs, …, taps * ins], with zeros up to a multiple of `steps`.
Tensor FilterRows(const Tensor& filter, int64_t steps) {
  const Shape& shape = filter.shape();
  const int64_t ins = shape[1], taps = shape.back(),
                length = (taps * ins + steps - 1) / steps * steps;
  Shape of_rows = shape;
  of_rows.erase(of_rows.begin() + 1);
  of_rows.back() = length;
  Tensor rows(filter.dtype(), of_rows);
  const int64_t lines = filter.elems() / std::max<int64_t>(1, shape[0] * ins * taps);
  const std::byte* const from = filter.raw().data();
  auto* const to = rows.mutable_as<std::byte>();
  for (int64_t e = 0; e < filter.elems(); ++e) {
    const int64_t tap = e % taps, line = e / taps % lines, in = e / (taps * lines) % ins,
                  out = e / (taps * lines * ins);
    to[(out * lines + line) * length + tap * ins + in] = from[e];
  }
  return rows;
}

// The sum of products of the image's bytes, `value` of each and `padding` around them, with the
// filter's rows; "" if there are none.
template <typename Value>
std::string RowConvolution(Writer& w, const Convolution& conv, Dtype dtype, const Value& value,
                           const std::string& padding) {
  const graph::ValueId filter = w.node.inputs[FactorOf(w.node.op)];
  const auto form = w.graph.forms.find({filter, kFilterRows});
  if (form == w.graph.forms.end()) return "";
  const Shape& shape = w.graph[filter].constant.shape();
  if (!HasRows(w.node, shape)) return "";
  const int64_t ins = shape[1], length = w.graph[form->second].constant.shape().back();
  const WindowAxis& last = conv.win.axes.back();
  const int64_t elements = (last.out - 1) * last.stride * ins + length;
  const PaddedImage p = PadImage(w, conv, (elements + ins - 1) / ins);
  Subs stored = p.at, taps = p.taps, weights = Concat({conv.c.out}, conv.win.tap);
  stored.erase(stored.begin() + 1);
  taps.erase(taps.begin() + 1);
  stored.back() = Sum({{ins, p.at.back()}, {1, p.at[1]}});
  const std::string in_row = w.Range("e", length);
  taps.back() = Sum({{last.stride * ins, conv.win.out.back()}, {1, in_row}});
  weights.back() = in_row;
  const Operand rows = w.Temp("rows", dtype), sum = w.Temp("conv", Dtype::kI32);
  w.Set("pointwise", rows, stored, Guarded(p.guards, value(p.inside), padding));
  const Subs out = Concat({"n", conv.c.out}, conv.win.out);
  w.Reduce("convolution", sum, out, "+=!",
           Product(w.At(rows, taps), w.At(w.Value(form->second), weights)));
  return w.At(sum, out);
}

// Which input is the zero point of a product's constant factor, behind its scale if there is one.
size_t ZeroOfFactor(const graph::Node& node) { return FactorOf(node.op) == 1 ? 3 : 5; }

// What a factor less its zero point is called.
std::string LessZeroName(const graph::Node& node) {
  const graph::ValueId zero = graph::InputAt(node, ZeroOfFactor(node));
  return zero.valid() ? fmt::format("less {}", zero.index) : "as it is";
}

// As CentredProduct, over the windows and channels of a convolution, whose x has one zero point and
// whose filter has one or one a channel. Where a row of the filter is no sum, pairs of products lie
// along channels, so those are innermost.
std::string CentredConvolution(Writer& w, const Convolution& conv, size_t zero_x,
                               size_t zero_filter) {
  const auto& [x, filter, y, win, c] = conv;
  const std::string zero = Shifts(w, zero_x) ? Each(w, zero_x, "0") : "";
  if (!Shifts(w, zero_filter)) {
    const auto less_zero = [&, &x = x](const Subs& i) { return LessZero16(w.At(x, i), zero); };
    const std::string sum = RowConvolution(w, conv, Dtype::kI16, less_zero, LitInt(Dtype::kI16, 0));
    if (!sum.empty()) return sum;
  }
  Subs i = w.Indices("k", x.dims);
  const Operand centred = Centred(w, x, i, ChannelsLast(i), zero);
  const Subs at = Concat({"n", c.out}, win.out), tap = Concat(c.filter, win.tap);
  std::string weight = w.At(filter, tap);
  const auto prepared =
      w.graph.forms.find({w.node.inputs[FactorOf(w.node.op)], LessZeroName(w.node)});
  if (prepared != w.graph.forms.end()) {
    weight = w.At(w.Value(prepared->second), tap);
  } else if (Shifts(w, zero_filter)) {
    Subs j = w.Indices("k", filter.dims), stored = j;
    std::rotate(stored.begin(), stored.begin() + 1, stored.end());
    const Operand shifted = Centred(w, filter, j, stored, Each(w, zero_filter, j[0]));
    Subs taps = tap;
    std::rotate(taps.begin(), taps.begin() + 1, taps.end());
    weight = w.At(shifted, taps);
  }
  const Operand sum = w.Temp("conv", Dtype::kI32);
  const std::string product =
      Product(w.At(centred, ChannelsLast(Concat({"n", c.in}, win.at))), weight);
  w.Reduce("convolution", sum, at, "+=!", Guarded(win.guards, product, "0"));
  return w.At(sum, at);
}

// ---- by bytes ----

// What sums of a factor are called, over all but the channels of a filter or the columns of a
// matrix: where instructions multiply bytes of any sign, or unsigned by signed ones only.
std::string SumsName(bool is_filter, bool any_sign) {
  return std::string(is_filter ? "filter_sums" : "column_sums") + (any_sign ? "_any_sign" : "");
}

struct Sums {
  graph::ValueId of_factor;  // not valid: none were prepared
  bool any_sign = false;
};

Sums SumsOf(const graph::Graph& graph, const graph::Node& node) {
  for (const bool any_sign : {true, false}) {
    const auto found = graph.forms.find(
        {node.inputs[FactorOf(node.op)], SumsName(TakesFilter(node.op), any_sign)});
    if (found != graph.forms.end()) return {found->second, any_sign};
  }
  return {};
}

Tensor SumUp(const Tensor& factor, bool is_filter) {
  const Shape& shape = factor.shape();
  const size_t summed = is_filter ? 1 : shape.size() < 2 ? 0 : shape.size() - 2;
  Shape kept = is_filter ? Shape{shape[0]} : shape;
  if (!is_filter) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(summed));
  int64_t inner = 1, along = 1;
  for (size_t a = is_filter ? shape.size() : summed + 1; a < shape.size(); ++a) inner *= shape[a];
  for (size_t a = summed; a < (is_filter ? shape.size() : summed + 1); ++a) along *= shape[a];
  Tensor sums(Dtype::kI32, kept);
  auto* const out = sums.mutable_as<int32_t>();
  for (int64_t e = 0; e < factor.elems(); ++e)
    out[e / (along * inner) * inner + e % inner] += factor.as<int8_t>()[e];
  return sums;
}

// Whether x is shifted by 128, and so is its zero point, to have no sign.
bool LosesSign(Writer& w, const Operand& x) {
  return x.dtype == Dtype::kI8 && !SumsOf(w.graph, w.node).any_sign;
}

// What bytes are multiplied.
Dtype ByteType(Writer& w, const Operand& x) { return LosesSign(w, x) ? Dtype::kU8 : x.dtype; }

std::string Shifted(Writer& w, const Operand& x, const std::string& e) {
  const std::string value = Cast(Dtype::kI32, e);
  return LosesSign(w, x) ? value + " + 128" : value;
}

std::string ZeroOf(Writer& w, const Operand& x, size_t k, const std::string& line,
                   const Subs& lines = {}) {
  if (!Shifts(w, k)) return LosesSign(w, x) ? "128" : "";
  return "(" + Shifted(w, x, Each(w, k, line, lines)) + ")";
}

// sum - zero * sums
std::string LessZero(Writer& w, const std::string& sum, const std::string& zero, const Subs& at) {
  if (zero.empty()) return sum;
  const Operand sums = w.Value(SumsOf(w.graph, w.node).of_factor);
  return fmt::format("({} - {} * {})", sum, zero, w.At(sums, at));
}

bool IsByte(Dtype dtype) { return dtype == Dtype::kI8 || dtype == Dtype::kU8; }

bool WantsBytes(Writer& w, const Operand& x, size_t zero_factor) {
  if (!SumsOf(w.graph, w.node).of_factor.valid())
    w.Refuse("no sums of the constant factor that were prepared");
  if (Shifts(w, zero_factor)) w.Refuse("a constant factor with a zero point");
  if (!IsByte(x.dtype)) w.Refuse("a factor that is no bytes");
  return w.ok();
}

// As CentredProduct; the zero point of a comes out of the sum, times the sums of b's columns.
std::string ByteProduct(Writer& w, const MatrixProduct& p, size_t zero_a, size_t zero_b) {
  if (!WantsBytes(w, p.a, zero_b)) return "";
  Operand a = p.a;
  if (LosesSign(w, p.a)) {
    a = w.Temp("bytes", Dtype::kU8);
    const Subs i = w.Indices("j", p.a.dims);
    w.Set("pointwise", a, i, Cast(Dtype::kU8, Shifted(w, p.a, w.At(p.a, i))));
  }
  const Operand sum = w.Temp("product", Dtype::kI32);
  w.Reduce("contraction", sum, p.at, "+=!", Product(w.At(a, p.at_a), w.At(p.b, p.at_b)));
  Subs at = p.at_b;
  at.erase(std::ranges::find(at, "k"));
  const std::string zero = ZeroOf(w, p.a, zero_a, p.a.rank() > 1 ? "m" : "0", Lines(p.at_a, "k"));
  return LessZero(w, w.At(sum, p.at), zero, at);
}

// As CentredConvolution. A padded tap is the zero point, so x is copied with its padding.
std::string ByteConvolution(Writer& w, const Convolution& conv, size_t zero_x, size_t zero_filter) {
  const auto& [x, filter, y, win, c] = conv;
  if (!WantsBytes(w, x, zero_filter)) return "";
  const std::string zero = ZeroOf(w, x, zero_x, "0");
  const Dtype type = ByteType(w, x);
  const auto byte = [&, &x = x](const Subs& i) { return Cast(type, Shifted(w, x, w.At(x, i))); };
  const std::string padding = Cast(type, zero.empty() ? LitInt(Dtype::kI32, 0) : zero);
  const std::string by_rows = RowConvolution(w, conv, type, byte, padding);
  if (!by_rows.empty()) return LessZero(w, by_rows, zero, {c.out});
  const PaddedImage p = PadImage(w, conv);
  const Operand padded = w.Temp("padded", type);
  w.Set("pointwise", padded, ChannelsLast(p.at), Guarded(p.guards, byte(p.inside), padding));
  const Operand sum = w.Temp("conv", Dtype::kI32);
  const Subs out = Concat({"n", c.out}, win.out);
  w.Reduce("convolution", sum, out, "+=!",
           Product(w.At(padded, ChannelsLast(p.taps)), w.At(filter, Concat(c.filter, win.tap))));
  return LessZero(w, w.At(sum, out), zero, {c.out});
}

// ---- by tiles ----

const WinogradForm& IntegerForm() { return WinogradForms().front(); }

// A filter transformed less its zero point.
std::string TilesName(const graph::Node& node) {
  return fmt::format("{} of integers {}", IntegerForm().key, LessZeroName(node));
}

// The node's filter so; not valid where it has none, though another node with that filter may.
graph::ValueId PreparedTiles(const graph::Graph& graph, const graph::Node& node) {
  if (!HasTiles(graph, node, FactorOf(node.op))) return {};
  const auto form = graph.forms.find({node.inputs[FactorOf(node.op)], TilesName(node)});
  return form == graph.forms.end() ? graph::ValueId() : form->second;
}

// As CentredConvolution.
std::string TiledConvolution(Writer& w, const Convolution& conv, size_t zero_x, size_t) {
  const graph::ValueId tiles = PreparedTiles(w.graph, w.node);
  if (!tiles.valid()) w.Refuse("no filter of three taps that was prepared");
  if (!IsByte(conv.x.dtype)) w.Refuse("an image that is no bytes");
  if (!w.ok()) return "";
  const std::string zero = Shifts(w, zero_x) ? Each(w, zero_x, "0") : "";
  const Subs i = w.Indices("k", conv.x.dims);
  const Operand centred = Centred(w, conv.x, i, ChannelsLast(i), zero);
  const TiledNumbers numbers{Dtype::kI16, Dtype::kI32,
                             [&](const Subs& at) { return w.At(centred, ChannelsLast(at)); }};
  const Shape& shape = w.graph[w.node.inputs[FactorOf(w.node.op)]].constant.shape();
  const std::string sum = TiledSum(w, conv, shape, tiles, IntegerForm(), numbers);
  const TileForms forms = FormsAlong(IntegerForm(), TilesLast(shape));
  return fmt::format("shr({}, {})", sum, forms.Halved());
}

// ---- all ways ----
using ProductOf = std::string (*)(Writer&, const MatrixProduct&, size_t zero_a, size_t zero_b);
using ConvolutionOf = std::string (*)(Writer&, const Convolution&, size_t zero_x,
                                      size_t zero_filter);

// Zero points are inputs 2 and 3.
void IntegerProduct(Writer& w, ProductOf product) {
  const MatrixProduct p = MakeProduct(w, w.In(0), w.In(1), w.Out());
  if (!w.ok()) return;
  const std::string value = product(w, p, 2, 3);
  if (w.ok()) w.Set("pointwise", p.y, p.at, value);
}

void IntegerConvolution(Writer& w, ConvolutionOf convolution) {
  const Convolution conv = MakeConvolution(w, 0, 1);
  if (!w.ok()) return;
  const std::string value = convolution(w, conv, 2, 3);
  if (w.ok()) w.Set("pointwise", conv.y, Concat({"n", conv.c.out}, conv.win.out), value);
}

// Inputs: a, scale, zero, b, scale, zero, scale and zero of the result.
void LinearProduct(Writer& w, ProductOf product) {
  const Operand a = w.In(0), b = w.In(3), y = w.Out();
  const MatrixProduct p = MakeProduct(w, a, b, y);
  if (!w.ok()) return;
  const std::string row = a.rank() > 1 ? "m" : "0", column = b.rank() > 1 ? "n" : "0";
  const std::string sum = product(w, p, 2, 5);
  if (!w.ok()) return;
  w.Set("pointwise", y, p.at,
        Requantized(w, y, sum, Each(w, 1, row, Lines(p.at_a, "k")),
                    Each(w, 4, column, Lines(p.at_b, "k")), Each(w, 6, "0"), Each(w, 7, "0")));
}

// The same, with a bias of int32 in the scale of the sums.
void LinearConvolution(Writer& w, ConvolutionOf convolution) {
  const Convolution conv = MakeConvolution(w, 0, 3);
  if (!w.ok()) return;
  std::string total = convolution(w, conv, 2, 5);
  if (!w.ok()) return;
  const std::string& k = conv.c.out;
  if (w.Has(8)) total = fmt::format("({} + {})", total, w.At(w.In(8), {k}));
  w.Set("pointwise", conv.y, Concat({"n", k}, conv.win.out),
        Requantized(w, conv.y, total, Each(w, 1, "0"), Each(w, 4, k), Each(w, 6, "0"),
                    Each(w, 7, "0")));
}

}  // namespace

void QuantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  if (!IsInteger(y.dtype))
    return w.Refuse(fmt::format("quantized values of type {}", DtypeName(y.dtype)));
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  std::string value = Cast(Dtype::kF32, x.dtype, w.At(x, i));
  if (!IsOne(w.Constant(1)))
    value = fmt::format("{} / {}", value, Cast(Dtype::kF32, scale.dtype, w.At(scale, at)));
  value = fmt::format("round({})", value);
  if (w.Has(2)) value += " + " + Cast(Dtype::kF32, ZeroAt(w, x, i));
  w.Set("pointwise", y, i, Cast(y.dtype, value));  // a cast saturates
}

void DequantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  std::string value = Cast(Dtype::kI32, w.At(x, i));
  if (w.Has(2)) value = fmt::format("({} - {})", value, Cast(Dtype::kI32, ZeroAt(w, x, i)));
  value = fmt::format("{} * {}", Cast(Dtype::kF32, value),
                      Cast(Dtype::kF32, scale.dtype, w.At(scale, at)));
  w.Set("pointwise", y, i, Cast(y.dtype, Dtype::kF32, value));
}

// To u8, over the range of x widened to hold 0.
void DynamicQuantizeLinear(Writer& w) {
  const Operand x = w.In(0), y = w.Out(), scale = w.Out(1), zero = w.Out(2);
  if (!w.HasOut(1) || !w.HasOut(2)) return w.Refuse("a scale that nobody takes");
  const Operand low = w.Temp("low", x.dtype), high = w.Temp("high", x.dtype);
  const Subs i = w.Indices("i", x.dims);
  w.Reduce("reduction", low, {}, "min=!", w.At(x, i));
  w.Reduce("reduction", high, {}, "max=!", w.At(x, i));
  // Behind the reductions, so that it is 0 of no elements too.
  const std::string least = fmt::format("min({}, 0.0)", w.At(low, {}));
  w.Set("pointwise", scale, {}, fmt::format("(max({}, 0.0) - {}) / 255.0", w.At(high, {}), least));
  w.Set("pointwise", zero, {},
        Cast(zero.dtype, fmt::format("round(-{} / {})", least, w.At(scale, {}))));
  w.Set("pointwise", y, i,
        Cast(y.dtype, fmt::format("round({} / {}) + {}", w.At(x, i), w.At(scale, {}),
                                  Cast(Dtype::kF32, w.At(zero, {})))));
}

void MatMulInteger(Writer& w) { IntegerProduct(w, CentredProduct); }
void MatMulIntegerBytes(Writer& w) { IntegerProduct(w, ByteProduct); }
void ConvInteger(Writer& w) { IntegerConvolution(w, CentredConvolution); }
void ConvIntegerBytes(Writer& w) { IntegerConvolution(w, ByteConvolution); }
void ConvIntegerWinograd(Writer& w) { IntegerConvolution(w, TiledConvolution); }
void QLinearMatMul(Writer& w) { LinearProduct(w, CentredProduct); }
void QLinearMatMulBytes(Writer& w) { LinearProduct(w, ByteProduct); }
void QLinearConv(Writer& w) { LinearConvolution(w, CentredConvolution); }
void QLinearConvBytes(Writer& w) { LinearConvolution(w, ByteConvolution); }
void QLinearConvWinograd(Writer& w) { LinearConvolution(w, TiledConvolution); }

}  // namespace weft::tc::ops

namespace weft::tc {

void PrepareSums(graph::Graph& graph, bool any_sign) {
  graph::Names names(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const int at = ops::FactorOf(graph.nodes[n].op);
    const graph::ValueId factor = at < 0 ? graph::ValueId() : graph::InputAt(graph.nodes[n], at);
    if (!factor.valid() || graph[factor].kind != graph::ValueKind::kConstant) continue;
    const bool is_filter = ops::TakesFilter(graph.nodes[n].op);
    const Tensor constant = graph[factor].constant;
    if (constant.dtype() != Dtype::kI8 || constant.shape().size() < (is_filter ? 3 : 1)) continue;
    graph::ValueId& sums = graph.forms[{factor, ops::SumsName(is_filter, any_sign)}];
    if (sums.valid()) continue;
    sums = graph::AddConstant(graph, names.Fresh(graph[factor].name + "_sums"),
                              ops::SumUp(constant, is_filter));
  }
}

void PrepareFilterRows(graph::Graph& graph, int64_t steps) {
  graph::Names names(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!ops::TakesFilter(node.op)) continue;
    const graph::ValueId filter = node.inputs[ops::FactorOf(node.op)];
    if (graph[filter].kind != graph::ValueKind::kConstant) continue;
    const Tensor constant = graph[filter].constant;
    if (constant.shape().size() < 3 || !ops::HasRows(node, constant.shape())) continue;
    graph::ValueId& rows = graph.forms[{filter, ops::kFilterRows}];
    if (rows.valid()) continue;
    rows = graph::AddConstant(graph, names.Fresh(graph[filter].name + "_rows"),
                              ops::FilterRows(constant, steps));
  }
}

namespace {

// A filter's zero point, if both are constant, it has one, and it is of the filter or its channels.
const Tensor* ConstantZero(const graph::Graph& graph, const graph::Node& node) {
  const graph::ValueId zero = graph::InputAt(node, ops::ZeroOfFactor(node));
  const graph::Value& filter = graph[node.inputs[ops::FactorOf(node.op)]];
  if (!zero.valid() || graph[zero].kind != graph::ValueKind::kConstant ||
      filter.kind != graph::ValueKind::kConstant || filter.constant.shape().size() < 3)
    return nullptr;
  const Tensor& all = graph[zero].constant;
  const bool fits = all.elems() == 1 || all.shape() == Shape{filter.constant.shape()[0]};
  return fits ? &all : nullptr;
}

}  // namespace

void PrepareCentredFilters(graph::Graph& graph) {
  graph::Names names(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!ops::TakesFilter(node.op)) continue;
    const Tensor* zero = ConstantZero(graph, node);
    const graph::ValueId filter = node.inputs[ops::FactorOf(node.op)];
    if (!zero || ops::IsZero(*zero) || !ops::IsByte(graph[filter].constant.dtype())) continue;
    const std::pair key(filter, ops::LessZeroName(node));
    if (graph.forms.contains(key)) continue;
    const Tensor& bytes = graph[filter].constant;
    const int64_t each = bytes.elems() / std::max<int64_t>(1, bytes.shape()[0]);
    Tensor less(Dtype::kI16, bytes.shape());
    for (int64_t e = 0; e < bytes.elems(); ++e)
      SetElemInt(less, e,
                 ElemAsInt(bytes, e) - ElemAsInt(*zero, zero->elems() == 1 ? 0 : e / each));
    graph.forms[key] =
        graph::AddConstant(graph, names.Fresh(graph[filter].name + "_centred"), std::move(less));
  }
}

void PrepareIntegerTiles(graph::Graph& graph) {
  graph::Names names(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (!ops::TakesFilter(node.op) || !ops::HasTiles(graph, node, ops::FactorOf(node.op))) continue;
    const graph::ValueId filter = node.inputs[ops::FactorOf(node.op)];
    const Tensor constant = graph[filter].constant;
    const Tensor filters = constant.Reshaped(ops::TilesLast(constant.shape()));
    // With taps along the other axis alone, results would be picked by the row that lanes lie in.
    if (!ops::IsByte(constant.dtype()) || filters.shape().back() == 1) continue;
    const Tensor* zero = ConstantZero(graph, node);
    if (graph::InputAt(node, ops::ZeroOfFactor(node)).valid() && !zero) continue;
    const std::pair key(filter, ops::TilesName(node));
    if (graph.forms.contains(key)) continue;
    auto tiles = TransformIntegers(ops::IntegerForm(), filters, zero);
    if (!tiles) continue;
    graph.forms[key] =
        graph::AddConstant(graph, names.Fresh(graph[filter].name + "_tiles"), std::move(*tiles));
  }
}

}  // namespace weft::tc
