// Operators whose work is in the shape: the elements stay, or follow from the shape alone.
#include <algorithm>
#include <cmath>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

// 0 keeps an extent, -1 (once) takes what is left over.
Result<Shape> ReshapeTo(const Args& args) {
  WEFT_TRY(Shape shape, args.Ints(1));
  const In& in = args[0];
  const bool zero_is_zero = args.Int("allowzero", 0) != 0;
  int64_t known = 1;
  size_t open = shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !zero_is_zero) {
      if (d >= in.rank())
        return args.Error("{} keeps axis {} of rank {}", args.Name(1), d, in.rank());
      shape[d] = in.shape[d];
    } else if (shape[d] == -1 && open == shape.size()) {
      open = d;
      continue;
    }
    if (shape[d] < 0)
      return args.Error("{} is {}: extent {}", args.Name(1), Print(shape), shape[d]);
    if (__builtin_mul_overflow(known, shape[d], &known)) known = 0;
  }
  if (open < shape.size()) {
    if (known == 0 || in.elems % known != 0) {
      return args.Error("{} is {}, which has no -1 for {} elements", args.Name(1), Print(shape),
                        in.elems);
    }
    shape[open] = in.elems / known;
  }
  return shape;
}

Result<Shape> Squeezed(const Args& args) {
  const In& in = args[0];
  std::vector<bool> drop(in.rank());
  if (args.Has(1)) {
    WEFT_TRY(auto axes, args.Ints(1));
    WEFT_TRY(axes, args.Axes(axes, in.rank()));
    for (int64_t axis : axes) {
      if (in.shape[axis] != 1) return args.Error("axis {} of {} is not 1", axis, Print(in.shape));
      drop[axis] = true;
    }
  } else {
    for (size_t d = 0; d < in.rank(); ++d) drop[d] = in.shape[d] == 1;
  }
  Shape shape;
  for (size_t d = 0; d < in.rank(); ++d) {
    if (!drop[d]) shape.push_back(in.shape[d]);
  }
  return shape;
}

Result<Shape> Unsqueezed(const Args& args) {
  WEFT_TRY(auto axes, args.Ints(1));
  const In& in = args[0];
  if (in.rank() + axes.size() > Layout::kMaxRank) {
    return args.Error("{} has {} axes for rank {}", args.Name(1), axes.size(), in.rank());
  }
  WEFT_TRY(axes, args.Axes(axes, in.rank() + axes.size()));
  Shape shape = in.shape;
  std::ranges::sort(axes);
  for (int64_t axis : axes) shape.insert(shape.begin() + axis, 1);
  return shape;
}

Result<Shape> Flattened(const Args& args) {
  const In& in = args[0];
  const auto rank = static_cast<int64_t>(in.rank());
  int64_t axis = args.Int("axis", 1);
  if (axis < -rank || axis > rank)
    return args.Error("axis {} is outside [{}, {}]", axis, -rank, rank);
  if (axis < 0) axis += rank;
  WEFT_TRY(const int64_t rows, CountElems(std::span(in.shape).first(axis)));
  WEFT_TRY(const int64_t columns, CountElems(std::span(in.shape).subspan(axis)));
  return Shape{rows, columns};
}

}  // namespace

Status RunReshape(const Args& args) {
  WEFT_TRY(args.Need(1));
  const std::string& op = args.call.op;
  const In& in = args[0];
  Shape shape = in.shape;  // Identity
  if (op == "Reshape") {
    WEFT_TRY(shape, ReshapeTo(args));
  } else if (op == "Squeeze") {
    WEFT_TRY(shape, Squeezed(args));
  } else if (op == "Unsqueeze") {
    WEFT_TRY(shape, Unsqueezed(args));
  } else if (op == "Flatten") {
    WEFT_TRY(shape, Flattened(args));
  }
  WEFT_TRY(const int64_t elems, CountElems(shape));
  if (elems != in.elems) {
    return args.Error("{} of shape {} does not fit {}", args.Name(0), Print(in.shape),
                      Print(shape));
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, std::move(shape)));
  CopyElems(in.dtype, out.data, 0, in.data, 0, elems);
  return {};
}

Status RunShapeOf(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  if (args.call.op == "Size") {
    WEFT_TRY(const Out out, args.Output(0, Dtype::kI64, {}));
    *out.as<int64_t>() = in.elems;
    return {};
  }
  const auto rank = static_cast<int64_t>(in.rank());
  const auto clamped = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamped(args.Int("start", 0)), end = clamped(args.Int("end", rank));
  const int64_t count = std::max<int64_t>(end - start, 0);
  WEFT_TRY(const Out out, args.Output(0, Dtype::kI64, {count}));
  std::copy_n(in.shape.begin() + start, count, out.as<int64_t>());
  return {};
}

Status RunExpand(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(Shape shape, args.Ints(1));
  if (shape.size() < in.rank()) shape.insert(shape.begin(), in.rank() - shape.size(), 1);
  const size_t missing = shape.size() - in.rank();
  for (size_t d = 0; d < in.rank(); ++d) {
    int64_t& extent = shape[missing + d];
    if (extent == 1) extent = in.shape[d];
    if (in.shape[d] != 1 && in.shape[d] != extent) {
      return args.Error("{} of shape {} does not expand to {}", args.Name(0), Print(in.shape),
                        Print(shape));
    }
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  CopyBox(in.dtype, shape, out.data, {0, Strides(shape)}, in.data,
          {0, BroadcastStrides(in.shape, shape)});
  return {};
}

Status RunConstantOfShape(const Args& args) {
  WEFT_TRY(Shape shape, args.Ints(0));
  const CallAttribute* attribute = FindAttribute(args.call, "value");
  const Tensor* value = attribute ? std::get_if<Tensor>(&attribute->value) : nullptr;
  if (value == nullptr) {
    WEFT_TRY(const Out out, args.Output(0, Dtype::kF32, std::move(shape)));
    std::fill_n(out.as<float>(), out.elems, 0.0f);
    return {};
  }
  if (value->elems() != 1) return args.Error("value has {} elements, expected 1", value->elems());
  WEFT_TRY(const Out out, args.Output(0, value->dtype(), std::move(shape)));
  FillElems(out.dtype, out.data, 0, out.elems, ViewOf(*value).data);
  return {};
}

// max(ceil((limit - start) / delta), 0) elements, each start + i * delta.
Status RunRange(const Args& args) {
  WEFT_TRY(args.Need(3));
  const Dtype dtype = args[0].dtype;
  for (size_t i = 0; i < 3; ++i) {
    WEFT_TRY(args.NeedType(i, dtype));
    if (args[i].elems != 1)
      return args.Error("{} has {} elements, expected 1", args.Name(i), args[i].elems);
  }
  Status status;
  const bool known = ByType(dtype, [&]<typename T>() {
    const auto start = *args[0].as<T>(), limit = *args[1].as<T>(), delta = *args[2].as<T>();
    using C = Compute<T>;
    const long double steps =
        std::ceil((static_cast<long double>(static_cast<C>(limit)) - static_cast<C>(start)) /
                  static_cast<C>(delta));
    if (static_cast<C>(delta) == 0 || std::isnan(steps) || steps >= 0x1p62L) {
      status = args.Error("from {} to {} by {} has no end", static_cast<C>(start),
                          static_cast<C>(limit), static_cast<C>(delta));
      return;
    }
    auto out = args.Output(0, dtype, {static_cast<int64_t>(std::max(steps, 0.0L))});
    if (!out.ok()) {
      status = std::move(out.status());
      return;
    }
    for (int64_t i = 0; i < out->elems; ++i) {
      if constexpr (std::is_integral_v<T>) {  // wraps nowhere: start + i * delta is before limit
        const uint64_t at =
            static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta);
        out->template as<T>()[i] = static_cast<T>(at);
      } else {
        const auto at =
            static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(delta);
        out->template as<T>()[i] = To<T>(at);
      }
    }
  });
  return known ? status : NoSuchType(args, dtype);
}

Status RunEyeLike(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  if (in.rank() != 2) return args.Error("{} has rank {}, expected 2", args.Name(0), in.rank());
  std::optional<Dtype> dtype = in.dtype;
  if (FindAttribute(args.call, "dtype"))
    dtype = DtypeFromOnnx(static_cast<int32_t>(args.Int("dtype", 0)));
  if (!dtype || *dtype == Dtype::kString)
    return args.Error("dtype {} is no number", args.Int("dtype", 0));
  WEFT_TRY(const Out out, args.Output(0, *dtype, in.shape));
  const int64_t k = args.Int("k", 0), rows = in.shape[0], columns = in.shape[1];
  ByType<true>(*dtype, [&]<typename T>() {
    std::fill_n(out.as<T>(), out.elems, To<T>(0.0f));
    if (k <= -rows || k >= columns) return;
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r) {
      out.as<T>()[r * columns + r + k] = To<T>(1.0f);
    }
  });
  return {};
}

// The triangle on and above (below) diagonal k, zeros elsewhere, of the last two axes.
Status RunTrilu(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  if (in.rank() < 2)
    return args.Error("{} has rank {}, expected 2 or more", args.Name(0), in.rank());
  int64_t k = 0;
  if (args.Has(1)) {
    WEFT_TRY(k, args.Int(1));
  }
  WEFT_TRY(const Out out, args.Output(0, in.dtype, in.shape));
  const int64_t columns = in.shape[in.rank() - 1], rows = in.shape[in.rank() - 2];
  k = std::clamp<int64_t>(k, -rows, columns);  // beyond the corners nothing changes
  const bool upper = args.Int("upper", 1) != 0;
  if (in.dtype == Dtype::kString) return NoSuchType(args, in.dtype);
  ByWidth(in.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < in.elems; ++i) {
      const int64_t column = i % columns, diagonal = i / columns % rows + k;
      out.as<T>()[i] = (upper ? column >= diagonal : column <= diagonal) ? in.as<T>()[i] : T{};
    }
  });
  return {};
}

}  // namespace weft::fallback::native
