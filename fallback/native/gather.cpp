// Reading at indices that are data: each is checked before memory is touched.
#include <algorithm>
#include <cmath>

#include "base/threads/parallel.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

// All of operand i, brought from [-extent, extent) to [0, extent).
Result<std::vector<int64_t>> Indices(const Args& args, size_t i, int64_t extent) {
  WEFT_TRY(args.Need(i + 1));
  const In& in = args[i];
  if (in.dtype != Dtype::kI64 && in.dtype != Dtype::kI32) {
    return args.Error("{} is {}, expected i32 or i64", args.Name(i), DtypeName(in.dtype));
  }
  std::vector<int64_t> out(in.elems);
  for (int64_t k = 0; k < in.elems; ++k) {
    const int64_t index = in.dtype == Dtype::kI64 ? in.as<int64_t>()[k] : in.as<int32_t>()[k];
    if (index < -extent || index >= extent) {
      return args.Error("{} holds {} at {}, outside [{}, {})", args.Name(i), index, k, -extent,
                        extent);
    }
    out[k] = index < 0 ? index + extent : index;
  }
  return out;
}

Shape Tail(const Shape& shape, size_t from) {
  return {shape.begin() + static_cast<int64_t>(from), shape.end()};
}

// The offset in `data` of each tuple of operand 1, whose last axis indexes the axes of `data` from
// `batch` on; tuples of one batch share the outer offset.
struct Tuples {
  std::vector<int64_t> offsets;
  int64_t run = 1;  // elements at each offset
  Shape run_shape;
};
Result<Tuples> TuplesOf(const Args& args, size_t batch) {
  WEFT_TRY(args.NeedType(1, Dtype::kI64));
  const In &data = args[0], &indices = args[1];
  const int64_t depth = indices.rank() == 0 ? -1 : indices.shape.back();
  if (depth < 1 || batch >= indices.rank() ||
      depth > static_cast<int64_t>(data.rank() - std::min(batch, data.rank()))) {
    return args.Error("{} of shape {} indexes {} of shape {} with batch_dims {}", args.Name(1),
                      Print(indices.shape), args.Name(0), Print(data.shape), batch);
  }
  if (!std::ranges::equal(std::span(data.shape).first(batch),
                          std::span(indices.shape).first(batch))) {
    return args.Error("batch axes of {} and {} differ", Print(data.shape), Print(indices.shape));
  }
  Tuples tuples;
  tuples.run_shape = Tail(data.shape, batch + static_cast<size_t>(depth));
  WEFT_TRY(tuples.run, CountElems(tuples.run_shape));
  const int64_t count = indices.elems / depth;
  int64_t batches = 1;
  for (size_t d = 0; d < batch && count > 0; ++d) batches *= data.shape[d];
  const std::vector<int64_t> strides = Strides(data.shape);
  const int64_t per_batch = count == 0 ? 1 : count / batches;
  const int64_t batch_stride = batch == 0 ? 0 : strides[batch - 1];
  for (int64_t t = 0; t < count; ++t) {
    int64_t offset = t / per_batch * batch_stride;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t index = indices.as<int64_t>()[t * depth + k], extent = data.shape[batch + k];
      if (index < -extent || index >= extent) {
        return args.Error("{} holds {} at {}, outside [{}, {})", args.Name(1), index, t * depth + k,
                          -extent, extent);
      }
      offset += (index < 0 ? index + extent : index) * strides[batch + k];
    }
    tuples.offsets.push_back(offset);
  }
  return tuples;
}

enum class Reduction { kNone, kAdd, kMul, kMin, kMax };

Result<Reduction> ReductionOf(const Args& args) {
  constexpr std::string_view kNames[] = {"none", "add", "mul", "min", "max"};
  const std::string name = args.Text("reduction", "none");
  const auto* at = std::ranges::find(kNames, std::string_view(name));
  if (at == std::end(kNames))
    return args.Error("reduction is \"{}\", expected none, add, mul, min or max", name);
  return static_cast<Reduction>(at - kNames);
}

template <Reduction reduction, typename T>
T Combine(T old, T update) {
  using C = Compute<T>;
  const C a = old, b = update;
  if constexpr (std::is_same_v<C, bool>) {
    const bool conjunction = reduction == Reduction::kMul || reduction == Reduction::kMin;
    return To<T>(conjunction ? a && b : a || b);
  } else if (reduction == Reduction::kMin || reduction == Reduction::kMax) {
    if constexpr (std::is_floating_point_v<C>) {
      if (std::isnan(a)) return old;
      if (std::isnan(b)) return update;
    }
    return (reduction == Reduction::kMin ? b < a : b > a) ? update : old;
  } else if constexpr (std::is_integral_v<C>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(reduction == Reduction::kAdd ? x + y : x * y);
  } else {
    return To<T>(reduction == Reduction::kAdd ? a + b : a * b);
  }
}

// Updates are runs of so many elements, one for each offset in `out`, that are combined with what
// is there, in their order. What they are combined by is no question for each element. Threads
// have columns of all runs, so that none waits for another's update.
template <Reduction reduction>
Status ScatterBy(const Args& args, const Out& out, const std::vector<int64_t>& offsets,
                 int64_t run) {
  constexpr int64_t kLeast = 32;  // columns worth a pass over all offsets
  const int64_t threads = ThreadsOfArena();
  const bool known = ByType<true>(out.dtype, [&]<typename T>() {
    InPieces(run, std::max(kLeast, (run + threads - 1) / threads), [&](int64_t begin, int64_t end) {
      const T* __restrict from = args[2].as<T>();
      for (const int64_t offset : offsets) {
        T* __restrict at = out.as<T>() + offset;
        for (int64_t i = begin; i < end; ++i) at[i] = Combine<reduction>(at[i], from[i]);
        from += run;
      }
    });
  });
  return known ? Status() : NoSuchType(args, out.dtype);
}

Status Scatter(const Args& args, const Out& out, Reduction reduction,
               const std::vector<int64_t>& offsets, int64_t run) {
  switch (reduction) {
    case Reduction::kAdd:
      return ScatterBy<Reduction::kAdd>(args, out, offsets, run);
    case Reduction::kMul:
      return ScatterBy<Reduction::kMul>(args, out, offsets, run);
    case Reduction::kMin:
      return ScatterBy<Reduction::kMin>(args, out, offsets, run);
    case Reduction::kMax:
      return ScatterBy<Reduction::kMax>(args, out, offsets, run);
    case Reduction::kNone:
      break;
  }
  ByWidth(out.dtype, [&]<typename T>() {
    const T* from = args[2].as<T>();
    for (const int64_t offset : offsets) {
      std::copy_n(from, run, out.as<T>() + offset);
      from += run;
    }
  });
  return {};
}

}  // namespace

Status RunGather(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &data = args[0], &indices = args[1];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", 0), data.rank()));
  WEFT_TRY(const auto at, Indices(args, 1, data.shape[axis]));
  Shape shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  const Shape inner = Tail(data.shape, axis + 1);
  shape.insert(shape.end(), inner.begin(), inner.end());
  WEFT_TRY(const Out out, args.Output(0, data.dtype, shape));
  if (out.elems == 0) return {};
  WEFT_TRY(const int64_t run, CountElems(inner));
  const int64_t outer = out.elems / run / indices.elems;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < indices.elems; ++k) {
      CopyElems(data.dtype, out.data, (o * indices.elems + k) * run, data.data,
                (o * data.shape[axis] + at[k]) * run, run);
    }
  }
  return {};
}

// Shapes of the elementwise forms: indices within data on every axis but one.
static Result<int64_t> ElementsAxis(const Args& args) {
  const In &data = args[0], &indices = args[1];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", 0), data.rank()));
  bool fits = indices.rank() == data.rank();
  for (size_t d = 0; fits && d < data.rank(); ++d) {
    fits = static_cast<int64_t>(d) == axis || indices.shape[d] <= data.shape[d];
  }
  if (fits) return axis;
  return args.Error("{} of shape {} for {} of shape {}", args.Name(1), Print(indices.shape),
                    args.Name(0), Print(data.shape));
}

// The offset in data of element k of the indices, whose own index replaces that of `axis`.
static std::vector<int64_t> ElementOffsets(const Args& args, int64_t axis,
                                           std::vector<int64_t> at) {
  const In &data = args[0], &indices = args[1];
  const std::vector<int64_t> strides = Strides(data.shape);
  std::vector<int64_t> index(indices.rank());
  for (int64_t& offset : at) {
    offset *= strides[axis];
    for (size_t d = 0; d < index.size(); ++d) {
      if (static_cast<int64_t>(d) != axis) offset += index[d] * strides[d];
    }
    for (size_t d = index.size(); d-- > 0 && ++index[d] == indices.shape[d];) index[d] = 0;
  }
  return at;
}

Status RunGatherElements(const Args& args) {
  WEFT_TRY(args.Need(2));
  WEFT_TRY(const int64_t axis, ElementsAxis(args));
  WEFT_TRY(auto at, Indices(args, 1, args[0].shape[axis]));
  const std::vector<int64_t> offsets = ElementOffsets(args, axis, std::move(at));
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, args[1].shape));
  ByWidth(out.dtype, [&]<typename T>() {
    for (int64_t k = 0; k < out.elems; ++k) out.as<T>()[k] = args[0].as<T>()[offsets[k]];
  });
  return {};
}

Status RunScatterElements(const Args& args) {
  WEFT_TRY(args.Need(3));
  WEFT_TRY(args.NeedType(2, args[0].dtype));
  WEFT_TRY(const int64_t axis, ElementsAxis(args));
  if (args[2].shape != args[1].shape) {
    return args.Error("{} of shape {} for indices of shape {}", args.Name(2), Print(args[2].shape),
                      Print(args[1].shape));
  }
  WEFT_TRY(const Reduction reduction, ReductionOf(args));
  WEFT_TRY(auto at, Indices(args, 1, args[0].shape[axis]));
  const std::vector<int64_t> offsets = ElementOffsets(args, axis, std::move(at));
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, args[0].shape));
  CopyElems(out.dtype, out.data, 0, args[0].data, 0, out.elems);
  return Scatter(args, out, reduction, offsets, 1);
}

Status RunGatherND(const Args& args) {
  WEFT_TRY(args.Need(2));
  const int64_t batch = args.Int("batch_dims", 0);
  if (batch < 0 || batch > Layout::kMaxRank) return args.Error("batch_dims {}", batch);
  WEFT_TRY(const Tuples tuples, TuplesOf(args, static_cast<size_t>(batch)));
  Shape shape(args[1].shape.begin(), args[1].shape.end() - 1);
  shape.insert(shape.end(), tuples.run_shape.begin(), tuples.run_shape.end());
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, shape));
  if (out.elems == 0) return {};
  for (size_t t = 0; t < tuples.offsets.size(); ++t) {
    CopyElems(out.dtype, out.data, static_cast<int64_t>(t) * tuples.run, args[0].data,
              tuples.offsets[t], tuples.run);
  }
  return {};
}

Status RunScatterND(const Args& args) {
  WEFT_TRY(args.Need(3));
  WEFT_TRY(args.NeedType(2, args[0].dtype));
  WEFT_TRY(const Tuples tuples, TuplesOf(args, 0));
  WEFT_TRY(const Reduction reduction, ReductionOf(args));
  Shape expected(args[1].shape.begin(), args[1].shape.end() - 1);
  expected.insert(expected.end(), tuples.run_shape.begin(), tuples.run_shape.end());
  if (args[2].shape != expected) {
    return args.Error("{} of shape {}, expected {}", args.Name(2), Print(args[2].shape),
                      Print(expected));
  }
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, args[0].shape));
  CopyElems(out.dtype, out.data, 0, args[0].data, 0, out.elems);
  return Scatter(args, out, reduction, tuples.offsets, tuples.run);
}

}  // namespace weft::fallback::native
