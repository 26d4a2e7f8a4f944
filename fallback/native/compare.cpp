// Comparisons, and choosing by them.
#include <algorithm>
#include <array>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

struct CompareOp {
  std::string_view name;
  bool (*on_floats)(double a, double b);
  bool (*on_ints)(int64_t a, int64_t b);
};

constexpr CompareOp kOps[] = {
    {"Equal", [](double a, double b) { return a == b; },
     [](int64_t a, int64_t b) { return a == b; }},
    {"Less", [](double a, double b) { return a < b; }, [](int64_t a, int64_t b) { return a < b; }},
    {"LessOrEqual", [](double a, double b) { return a <= b; },
     [](int64_t a, int64_t b) { return a <= b; }},
    {"Greater", [](double a, double b) { return a > b; },
     [](int64_t a, int64_t b) { return a > b; }},
    {"GreaterOrEqual", [](double a, double b) { return a >= b; },
     [](int64_t a, int64_t b) { return a >= b; }},
};

// Flipping the top bit of 64 unsigned ones keeps their order among signed ones.
template <typename T>
int64_t Ordered(T value) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<int64_t>(value ^ (uint64_t{1} << 63));
  return static_cast<int64_t>(value);
}

}  // namespace

Status RunCompare(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In &a = args[0], &b = args[1];
  if (a.dtype != b.dtype) {
    return args.Error("{} is {}, {} is {}, expected one type", args.Name(0), DtypeName(a.dtype),
                      args.Name(1), DtypeName(b.dtype));
  }
  WEFT_TRY(Shape shape, BroadcastShape(args, std::array<size_t, 2>{0, 1}));
  WEFT_TRY(const Out out, args.Output(0, Dtype::kBool, std::move(shape)));
  const auto& op = *std::ranges::find(kOps, std::string_view(args.call.op), &CompareOp::name);
  const auto loops = BroadcastLoops<2>(out.shape, {&a.shape, &b.shape});
  const auto run = [&]<typename T>(auto f) {
    loops.Rows([&](auto at, int64_t count, auto step) {
      for (int64_t i = 0; i < count; ++i) {
        const bool y = f(a.as<T>()[at[1] + i * step[1]], b.as<T>()[at[2] + i * step[2]]);
        out.as<uint8_t>()[at[0] + i * step[0]] = y ? 1 : 0;
      }
    });
  };
  if (a.dtype == Dtype::kString && op.name == "Equal") {
    run.template operator()<std::string>(std::equal_to<std::string>());
    return {};
  }
  const bool known = ByType<true>(a.dtype, [&]<typename T>() {
    using C = Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      run.template operator()<T>([&](C x, C y) { return op.on_floats(x, y); });
    } else {
      run.template operator()<T>([&](C x, C y) { return op.on_ints(Ordered(x), Ordered(y)); });
    }
  });
  return known ? Status() : NoSuchType(args, a.dtype);
}

Status RunWhere(const Args& args) {
  WEFT_TRY(args.Need(3));
  WEFT_TRY(args.NeedType(0, Dtype::kBool));
  WEFT_TRY(args.NeedType(2, args[1].dtype));
  WEFT_TRY(Shape shape, BroadcastShape(args, std::array<size_t, 3>{0, 1, 2}));
  WEFT_TRY(const Out out, args.Output(0, args[1].dtype, std::move(shape)));
  const auto loops = BroadcastLoops<3>(out.shape, {&args[0].shape, &args[1].shape, &args[2].shape});
  ByWidth(out.dtype, [&]<typename T>() {
    const uint8_t* condition = args[0].as<uint8_t>();
    const T *yes = args[1].as<T>(), *no = args[2].as<T>();
    loops.Rows([&](auto at, int64_t count, auto step) {
      for (int64_t i = 0; i < count; ++i) {
        const bool c = condition[at[1] + i * step[1]] != 0;
        out.as<T>()[at[0] + i * step[0]] = c ? yes[at[2] + i * step[2]] : no[at[3] + i * step[3]];
      }
    });
  });
  return {};
}

}  // namespace weft::fallback::native
