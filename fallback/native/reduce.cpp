// Reductions. Floats accumulate in double and are rounded once at the end.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

enum class Kind { kSum, kProd, kMin, kMax, kAbs, kSquare, kExp };

struct ReduceOp {
  std::string_view name;
  Kind kind;
};
constexpr ReduceOp kOps[] = {
    {"ReduceL1", Kind::kAbs},           {"ReduceL2", Kind::kSquare}, {"ReduceLogSum", Kind::kSum},
    {"ReduceLogSumExp", Kind::kExp},    {"ReduceMax", Kind::kMax},   {"ReduceMean", Kind::kSum},
    {"ReduceMin", Kind::kMin},          {"ReduceProd", Kind::kProd}, {"ReduceSum", Kind::kSum},
    {"ReduceSumSquare", Kind::kSquare},
};

// Sums of integers wrap, so they are kept unsigned; order needs the sign.
template <typename T>
using Wide =
    std::conditional_t<std::is_floating_point_v<Compute<T>>, double,
                       std::conditional_t<std::is_signed_v<Compute<T>>, int64_t, uint64_t>>;

template <typename W>
W Wrapping(Kind kind, W acc, W x) {
  using U = std::conditional_t<std::is_floating_point_v<W>, W, uint64_t>;
  const U a = static_cast<U>(acc), b = static_cast<U>(x);
  if (kind == Kind::kProd) return static_cast<W>(a * b);
  if (kind == Kind::kSquare) return static_cast<W>(a + b * b);
  if (kind == Kind::kAbs) return static_cast<W>(x < 0 ? a - b : a + b);
  return static_cast<W>(a + b);
}

template <typename W>
W Step(Kind kind, W acc, W x) {
  if (kind != Kind::kMin && kind != Kind::kMax) return Wrapping(kind, acc, x);
  if constexpr (std::is_floating_point_v<W>) {
    if (std::isnan(acc) || std::isnan(x)) return std::numeric_limits<W>::quiet_NaN();
  }
  return kind == Kind::kMin ? std::min(acc, x) : std::max(acc, x);
}

// What the reduction of nothing gives: for Min and Max the extremes of the type, infinities for
// floats.
template <typename T>
Wide<T> Start(Kind kind) {
  using C = Compute<T>;
  if (kind == Kind::kProd) return 1;
  if (kind != Kind::kMin && kind != Kind::kMax) return 0;
  if constexpr (std::is_floating_point_v<C>) {
    const double infinity = std::numeric_limits<double>::infinity();
    return kind == Kind::kMin ? infinity : -infinity;
  } else {
    return kind == Kind::kMin ? std::numeric_limits<C>::max() : std::numeric_limits<C>::lowest();
  }
}

struct Plan {
  Loops<2> loops;     // operand 0: the accumulators
  Shape kept;         // with ones
  Shape shape;        // of the output
  int64_t count = 1;  // elements reduced into each
};

Result<Plan> Prepared(const Args& args, const std::vector<int64_t>& axes, bool keepdims) {
  const Shape& in = args[0].shape;
  Plan plan{.kept = in};
  std::vector<bool> reduced(in.size());
  for (int64_t axis : axes) {
    reduced[axis] = true;
    plan.kept[axis] = 1;
    if (__builtin_mul_overflow(plan.count, in[axis], &plan.count))
      plan.count = 0;  // beside a zero only
  }
  const std::vector<int64_t> from = Strides(in), to = Strides(plan.kept);
  for (size_t d = 0; d < in.size(); ++d) {
    if (keepdims || !reduced[d]) plan.shape.push_back(plan.kept[d]);
    plan.loops.Add(in[d], {reduced[d] ? 0 : to[d], from[d]});
  }
  return plan;
}

// One sum would wait for itself at each element; of several the compiler makes vectors.
template <typename T, typename Map>
double SumOfRow(const T* x, int64_t count, int64_t step, Map map) {
  constexpr int64_t kParts = 16;
  double parts[kParts] = {};
  int64_t i = 0;
  if (step == 1) {
    for (; i + kParts <= count; i += kParts)
      for (int64_t k = 0; k < kParts; ++k) parts[k] += map(static_cast<double>(x[i + k]));
  }
  for (; i < count; ++i) parts[i % kParts] += map(static_cast<double>(x[i * step]));
  for (int64_t half = kParts / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) parts[k] += parts[k + half];
  return parts[0];
}

template <typename T, typename W, typename Map>
void Accumulate(const Plan& plan, const In& in, Kind kind, std::vector<W>& acc, Map map) {
  plan.loops.Rows([&](auto at, int64_t count, auto step) {
    const T* x = in.as<T>() + at[1];
    if constexpr (std::is_same_v<W, double>) {
      if (step[0] == 0 && kind == Kind::kSum) {
        acc[at[0]] += SumOfRow(x, count, step[1], [&](double e) { return map(e, at[0]); });
        return;
      }
    }
    if (step[0] == 0) {
      W sum = acc[at[0]];
      for (int64_t i = 0; i < count; ++i)
        sum = Step<W>(kind, sum, map(static_cast<W>(x[i * step[1]]), at[0]));
      acc[at[0]] = sum;
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      W& sum = acc[at[0] + i * step[0]];
      sum = Step<W>(kind, sum, map(static_cast<W>(x[i * step[1]]), at[0] + i * step[0]));
    }
  });
}

// What remains to be done to an accumulator, and its result as an element.
template <typename T, typename W>
T Finish(std::string_view op, W sum, int64_t count) {
  if (op == "ReduceL2") return To<T>(std::sqrt(static_cast<double>(sum)));
  if (op == "ReduceLogSum") return To<T>(std::log(static_cast<double>(sum)));
  if (op != "ReduceMean") return To<T>(sum);
  if constexpr (std::is_floating_point_v<W>) return To<T>(sum / static_cast<W>(count));
  return To<T>(count == 0 ? 0 : static_cast<W>(sum / static_cast<W>(count)));  // towards zero
}

// log(sum(exp(x - m))) + m overflows nowhere, m being the maximum.
template <typename T>
void LogSumExp(const Plan& plan, const In& in, const Out& out) {
  std::vector<double> most(out.elems, -std::numeric_limits<double>::infinity()), acc(out.elems);
  Accumulate<T>(plan, in, Kind::kMax, most, [](double x, int64_t) { return x; });
  for (double& m : most) m = std::isinf(m) ? 0 : m;
  Accumulate<T>(plan, in, Kind::kSum, acc,
                [&](double x, int64_t i) { return std::exp(x - most[i]); });
  for (int64_t i = 0; i < out.elems; ++i) out.as<T>()[i] = To<T>(std::log(acc[i]) + most[i]);
}

template <typename T, typename W>
void RunIn(const Args& args, const Plan& plan, Kind kind, const Out& out) {
  std::vector<W> acc(out.elems, static_cast<W>(Start<T>(kind)));
  Accumulate<T>(plan, args[0], kind, acc, [](W x, int64_t) { return x; });
  for (int64_t i = 0; i < out.elems; ++i)
    out.as<T>()[i] = Finish<T>(args.call.op, acc[i], plan.count);
}

template <typename T>
void RunAs(const Args& args, const Plan& plan, Kind kind, const Out& out) {
  if (kind == Kind::kExp) return LogSumExp<T>(plan, args[0], out);
  // A root fits where the sum of the squares would have wrapped.
  if (args.call.op == "ReduceL2") return RunIn<T, double>(args, plan, kind, out);
  RunIn<T, Wide<T>>(args, plan, kind, out);
}

}  // namespace

Status RunReduce(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  std::vector<int64_t> axes;
  if (args.Has(1)) {
    WEFT_TRY(axes, args.Ints(1));
    WEFT_TRY(axes, args.Axes(axes, in.rank()));
  }
  if (axes.empty() && args.Int("noop_with_empty_axes", 0) == 0) {
    for (size_t d = 0; d < in.rank(); ++d) axes.push_back(static_cast<int64_t>(d));
  }
  WEFT_TRY(const Plan plan, Prepared(args, axes, args.Int("keepdims", 1) != 0));
  WEFT_TRY(const Out out, args.Output(0, in.dtype, plan.shape));
  const Kind kind = std::ranges::find(kOps, std::string_view(args.call.op), &ReduceOp::name)->kind;
  const bool order = kind == Kind::kMin || kind == Kind::kMax;
  if (in.dtype == Dtype::kBool && !order) return NoSuchType(args, in.dtype);
  const bool known = ByType<true>(in.dtype, [&]<typename T>() { RunAs<T>(args, plan, kind, out); });
  return known ? Status() : NoSuchType(args, in.dtype);
}

// The first place (or the last) of the extreme; a NaN counts as beyond every number.
Status RunArgReduce(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", 0), in.rank()));
  const int64_t extent = in.shape[axis], stride = Strides(in.shape)[axis];
  Shape shape = in.shape;
  shape[axis] = 1;
  if (args.Int("keepdims", 1) == 0) shape.erase(shape.begin() + axis);
  WEFT_TRY(const Out out, args.Output(0, Dtype::kI64, shape));
  if (extent == 0 && out.elems > 0)
    return args.Error("axis {} of {} is empty", axis, Print(in.shape));
  const bool is_max = args.call.op == "ArgMax", last = args.Int("select_last_index", 0) != 0;
  const bool known = ByType(in.dtype, [&]<typename T>() {
    using C = Compute<T>;
    const auto beats = [&](C x, C best) {
      if constexpr (std::is_floating_point_v<C>) {
        if (std::isnan(best)) return last && std::isnan(x);
        if (std::isnan(x)) return true;
      }
      return (is_max ? x > best : x < best) || (last && x == best);
    };
    for (int64_t i = 0; i < out.elems; ++i) {
      const T* row = in.as<T>() + i / stride * stride * extent + i % stride;
      int64_t best = 0;
      for (int64_t k = 1; k < extent; ++k) {
        if (beats(row[k * stride], row[best * stride])) best = k;
      }
      out.as<int64_t>()[i] = best;
    }
  });
  return known ? Status() : NoSuchType(args, in.dtype);
}

Status RunCumulate(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(int64_t axis, args.Int(1));
  WEFT_TRY(axis, args.Axis(axis, in.rank()));
  WEFT_TRY(const Out out, args.Output(0, in.dtype, in.shape));
  const bool exclusive = args.Int("exclusive", 0) != 0, reverse = args.Int("reverse", 0) != 0;
  const Kind kind = args.call.op == "CumProd" ? Kind::kProd : Kind::kSum;
  const int64_t extent = in.shape[axis], stride = Strides(in.shape)[axis];
  const int64_t rows = extent == 0 ? 0 : in.elems / extent;
  const bool known = ByType(in.dtype, [&]<typename T>() {
    using W = Wide<T>;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t base = r / stride * stride * extent + r % stride;
      W result = Start<T>(kind);
      for (int64_t k = 0; k < extent; ++k) {
        const int64_t at = base + (reverse ? extent - 1 - k : k) * stride;
        const W before = result;
        result = Wrapping<W>(kind, result, static_cast<W>(in.as<T>()[at]));
        out.as<T>()[at] = To<T>(exclusive ? before : result);
      }
    }
  });
  return known ? Status() : NoSuchType(args, in.dtype);
}

}  // namespace weft::fallback::native
