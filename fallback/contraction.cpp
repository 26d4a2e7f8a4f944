#include "fallback/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "fallback/device_operands.h"

namespace weft::fallback {
namespace {

constexpr std::string_view kRoles[] = {"src", "weights"}, kBias[] = {"bias"};

std::optional<size_t> InputAt(const LibraryCall& call, std::string_view role) {
  const auto at = std::ranges::find(call.inputs, role, &CallOperand::role);
  if (at == call.inputs.end()) return std::nullopt;
  return static_cast<size_t>(at - call.inputs.begin());
}

int64_t Elems(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// In this order, each at most once: a factor, a whole addend, ReLU.
struct Epilogue {
  float alpha = 1;
  std::optional<size_t> addend;
  bool relu = false;
};

Verdict<Epilogue> EpilogueOf(const LibraryCall& call) {
  Epilogue e;
  for (size_t k = 0; k < call.post_ops.size(); ++k) {
    const PostOp& post = call.post_ops[k];
    const auto role = InputAt(call, fmt::format("post{}", k));
    if (post.kind == "linear" && k == 0 && post.beta == 0 && !FindOperand(call, "bias")) {
      e.alpha = post.alpha;
    } else if (post.kind == "binary_add" && !e.relu && !e.addend && role &&
               call.inputs[*role].shape == call.outputs[0].shape) {
      e.addend = role;
    } else if (post.kind == "relu" && !e.relu) {
      e.relu = true;
    } else {
      return Refusal{Reason::kPatternUnknownToLibrary,
                     fmt::format("{} as post-op {}", post.kind, k)};
    }
  }
  return e;
}

// How a product reads the matrices of an operand, of which the result has these batches.
struct Matrices {
  int64_t rows = 1, columns = 1;
  bool has_batches = false;
};

std::optional<Matrices> MatricesOf(const Shape& shape, std::span<const int64_t> batches) {
  const auto own = std::span(shape).first(shape.size() - 2);
  Matrices m{.rows = shape[shape.size() - 2], .columns = shape.back()};
  if (std::ranges::all_of(own, [](int64_t e) { return e == 1; })) return m;
  const auto leading = batches.first(batches.size() - std::min(own.size(), batches.size()));
  const bool whole = own.size() <= batches.size() && Elems(leading) == 1 &&
                     std::ranges::equal(own, batches.subspan(leading.size()));
  if (!whole) return std::nullopt;
  m.has_batches = true;
  return m;
}

}  // namespace

Verdict<Product> ProductOf(const LibraryCall& call) {
  if (call.op != "matmul") return Refusal{Reason::kOpUnknownToLibrary, call.op};
  if (auto no = CheckDeviceOperands(call, kRoles, kBias)) return *std::move(no);
  const Shape &src = FindOperand(call, "src")->shape,
              &weights = FindOperand(call, "weights")->shape, &dst = call.outputs[0].shape;
  if (src.size() < 2 || weights.size() < 2 || dst.size() != std::max(src.size(), weights.size()))
    return UnknownShapes(call);
  const auto batches = std::span(dst).first(dst.size() - 2);
  const auto a = MatricesOf(src, batches), b = MatricesOf(weights, batches);
  if (!a || !b) return UnknownShapes(call);
  Product p{.batches = Elems(batches), .m = dst[dst.size() - 2], .n = dst.back()};
  p.trans_a = IntAttr(call, "trans_a", 0) != 0;
  p.trans_b = IntAttr(call, "trans_b", 0) != 0;
  p.has_batches_a = a->has_batches;
  p.has_batches_b = b->has_batches;
  p.k = p.trans_a ? a->rows : a->columns;
  if ((p.trans_a ? a->columns : a->rows) != p.m || (p.trans_b ? b->rows : b->columns) != p.n ||
      (p.trans_b ? b->columns : b->rows) != p.k)
    return UnknownShapes(call);
  // Rows of all batches are rows of one product where all of them meet the same matrix.
  if (!p.has_batches_b && (p.has_batches_a || p.batches == 1) && !p.trans_a) {
    p.m *= std::exchange(p.batches, 1);
    p.has_batches_a = false;
  }
  const auto epilogue = EpilogueOf(call);
  if (!epilogue.yes()) return epilogue.refusal();
  p.alpha = epilogue->alpha;
  p.addend = epilogue->addend;
  p.relu = epilogue->relu;
  p.bias = InputAt(call, "bias");
  if (p.bias) {
    const Shape& bias = call.inputs[*p.bias].shape;
    if (bias.empty() || bias.back() != p.n || Elems(bias) != p.n) return UnknownShapes(call);
  }
  return p;
}

Verdict<Convolution> ConvolutionOf(const LibraryCall& call) {
  if (call.op != "convolution") return Refusal{Reason::kOpUnknownToLibrary, call.op};
  if (auto no = CheckDeviceOperands(call, kRoles, kBias)) return *std::move(no);
  Convolution c{.x = FindOperand(call, "src")->shape,
                .w = FindOperand(call, "weights")->shape,
                .y = call.outputs[0].shape,
                .strides = IntsAttr(call, "strides"),
                .dilations = IntsAttr(call, "dilations")};
  const size_t spatial = std::max<size_t>(c.x.size(), 2) - 2;
  const std::vector<int64_t> pads = IntsAttr(call, "pads");
  if (spatial < 1 || spatial > 3 || c.w.size() != c.x.size() || c.y.size() != c.x.size() ||
      c.strides.size() != spatial || c.dilations.size() != spatial || pads.size() != 2 * spatial)
    return UnknownShapes(call);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  c.before.assign(pads.begin(), middle);
  c.after.assign(middle, pads.end());
  const int64_t group = IntAttr(call, "group", 1);
  bool fits = group > 0 && c.w[0] % group == 0 && c.x[1] % c.w[1] == 0 &&
              c.x[1] / c.w[1] == group && c.y[0] == c.x[0] && c.y[1] == c.w[0];
  constexpr int64_t kMost = 1 << 20;  // so that nothing below overflows
  for (size_t d = 0; d < spatial && fits; ++d) {
    const int64_t in = c.x[d + 2], taps = c.w[d + 2], out = c.y[d + 2];
    fits = in < kMost && taps < kMost && c.strides[d] > 0 && c.strides[d] < kMost &&
           c.dilations[d] > 0 && c.dilations[d] < kMost && c.before[d] >= 0 &&
           c.before[d] < kMost && c.after[d] >= 0 && c.after[d] < kMost;
    const int64_t reach = fits ? (taps - 1) * c.dilations[d] + 1 : 0;
    const int64_t room = in + c.before[d] + c.after[d] - reach;
    fits = fits && room >= 0 && room / c.strides[d] + 1 == out;
  }
  if (!fits) return UnknownShapes(call);
  if (spatial == 1) {
    for (Shape* shape : {&c.x, &c.w, &c.y}) shape->insert(shape->begin() + 2, 1);
    for (auto* list : {&c.strides, &c.dilations}) list->insert(list->begin(), 1);
    for (auto* list : {&c.before, &c.after}) list->insert(list->begin(), 0);
  }
  const auto epilogue = EpilogueOf(call);
  if (!epilogue.yes()) return epilogue.refusal();
  if (epilogue->alpha != 1) return Refusal{Reason::kPatternUnknownToLibrary, "a factor"};
  c.addend = epilogue->addend;
  c.relu = epilogue->relu;
  c.bias = InputAt(call, "bias");
  if (c.bias && call.inputs[*c.bias].shape != Shape{c.w[0]}) return UnknownShapes(call);
  if (!c.bias && !call.post_ops.empty())
    return Refusal{Reason::kPatternUnknownToLibrary, "an epilogue without a bias"};
  return c;
}

}  // namespace weft::fallback
