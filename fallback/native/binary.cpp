// Elementwise operators of two and more operands.
//
// Floats compute in double and are rounded once to their type: for + - * / and fmod on f32 and the
// 16-bit floats that gives the same bits as computing in the type (Figueroa, "When is double
// rounding innocuous?", 1995). Integers compute in 64 bits and keep the low ones; see
// base/scalar.def for what division by zero, shifts and their like give.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/affine.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

struct IntType {
  bool is_signed;
  int32_t bits;
};

using FloatFn = double (*)(double a, double b);
using IntFn = uint64_t (*)(int64_t a, int64_t b, IntType type);

uint64_t U(int64_t v) { return static_cast<uint64_t>(v); }

bool Less(int64_t a, int64_t b, IntType t) { return t.is_signed ? a < b : U(a) < U(b); }

// Towards zero; x / 0 is 0, and the smallest / -1 wraps to itself.
uint64_t IntDiv(int64_t a, int64_t b, IntType t) {
  if (b == 0) return 0;
  if (!t.is_signed) return U(a) / U(b);
  return b == -1 ? 0 - U(a) : U(a / b);
}

// The sign of the dividend, or of the divisor; x % 0 is 0.
uint64_t IntRem(int64_t a, int64_t b, IntType t) {
  if (b == 0 || (t.is_signed && b == -1)) return 0;
  return t.is_signed ? U(a % b) : U(a) % U(b);
}
uint64_t IntMod(int64_t a, int64_t b, IntType t) {
  if (b == 0 || (t.is_signed && b == -1)) return 0;
  return t.is_signed ? U(FloorMod(a, b)) : U(a) % U(b);
}

double FloatMod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

uint64_t ShiftLeft(int64_t a, int64_t b, IntType t) { return U(b) >= U(t.bits) ? 0 : U(a) << b; }
uint64_t ShiftRight(int64_t a, int64_t b, IntType t) {
  const bool all = U(b) >= U(t.bits);  // negative counts too
  if (t.is_signed) return U(a >> (all ? 63 : b));
  return all ? 0 : U(a) >> b;
}

uint64_t IntPow(int64_t base, int64_t exponent, IntType t) {
  if (t.is_signed && exponent < 0) {  // 1 / base^n towards zero; 0^-n is 0, as x / 0
    if (base == 1) return 1;
    return base != -1 ? 0 : exponent % 2 == 0 ? 1 : ~uint64_t{0};
  }
  uint64_t result = 1, power = U(base);
  for (uint64_t e = U(exponent); e != 0; e >>= 1, power *= power) {
    if (e & 1) result *= power;
  }
  return result;
}

struct BinaryOp {
  std::string_view name;
  FloatFn on_floats;
  IntFn on_ints;
  bool on_bools = false;
};

// NaN wins in Min and Max.
constexpr BinaryOp kOps[] = {
    {"Add", [](double a, double b) { return a + b; },
     [](int64_t a, int64_t b, IntType) { return U(a) + U(b); }},
    {"Sub", [](double a, double b) { return a - b; },
     [](int64_t a, int64_t b, IntType) { return U(a) - U(b); }},
    {"Mul", [](double a, double b) { return a * b; },
     [](int64_t a, int64_t b, IntType) { return U(a) * U(b); }},
    {"Div", [](double a, double b) { return a / b; }, IntDiv},
    {"Mod", FloatMod, IntMod},
    {"fmod", [](double a, double b) { return std::fmod(a, b); }, IntRem},
    {"Min", [](double a, double b) { return std::isnan(b) || b < a ? b : a; },
     [](int64_t a, int64_t b, IntType t) { return U(Less(a, b, t) ? a : b); }},
    {"Max", [](double a, double b) { return std::isnan(b) || b > a ? b : a; },
     [](int64_t a, int64_t b, IntType t) { return U(Less(b, a, t) ? a : b); }},
    {"Sum", [](double a, double b) { return a + b; }, nullptr},
    {"Mean", [](double a, double b) { return a + b; }, nullptr},
    {"PRelu", [](double x, double slope) { return x < 0 ? x * slope : x; },
     [](int64_t x, int64_t slope, IntType t) {
       return t.is_signed && x < 0 ? U(x) * U(slope) : U(x);
     }},
    {"And", nullptr, [](int64_t a, int64_t b, IntType) { return U(a & b); }, true},
    {"Or", nullptr, [](int64_t a, int64_t b, IntType) { return U(a | b); }, true},
    {"Xor", nullptr, [](int64_t a, int64_t b, IntType) { return U(a ^ b); }, true},
    {"BitwiseAnd", nullptr, [](int64_t a, int64_t b, IntType) { return U(a & b); }},
    {"BitwiseOr", nullptr, [](int64_t a, int64_t b, IntType) { return U(a | b); }},
    {"BitwiseXor", nullptr, [](int64_t a, int64_t b, IntType) { return U(a ^ b); }},
    {"LEFT", nullptr, ShiftLeft},
    {"RIGHT", nullptr, ShiftRight},
};

// y[i] = f(p[i], q[i]), with loops that become vectors where the operands are dense or constant.
template <typename T, typename F>
void Row(T* y, const T* p, const T* q, int64_t count, std::array<int64_t, 3> step, F f) {
  if (step == std::array<int64_t, 3>{1, 1, 1}) {
    for (int64_t i = 0; i < count; ++i) y[i] = f(p[i], q[i]);
  } else if (step == std::array<int64_t, 3>{1, 1, 0}) {
    const T b = *q;
    for (int64_t i = 0; i < count; ++i) y[i] = f(p[i], b);
  } else if (step == std::array<int64_t, 3>{1, 0, 1}) {
    const T a = *p;
    for (int64_t i = 0; i < count; ++i) y[i] = f(a, q[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i * step[0]] = f(p[i * step[1]], q[i * step[2]]);
  }
}

// The arithmetic that networks are full of, in the type itself. False: not that.
template <typename T>
bool InType(const Loops<3>& loops, std::string_view op, T* y, const T* p, const T* q) {
  const auto each = [&](auto f) {
    loops.Rows([&](auto at, int64_t count, auto step) {
      Row(y + at[0], p + at[1], q + at[2], count, step, f);
    });
    return true;
  };
  if (op == "Add") return each(std::plus<T>());
  if (op == "Sub") return each(std::minus<T>());
  if (op == "Mul") return each(std::multiplies<T>());
  if (op == "Div") return each(std::divides<T>());
  return false;
}

// out[i] = op(a[i], b[i]), broadcast. `out` may be `a` when they have one shape. False: no such
// type.
bool Apply(const BinaryOp& op, const Out& out, const In& a, const In& b) {
  const auto loops = BroadcastLoops<2>(out.shape, {&a.shape, &b.shape});
  bool done = false;
  const auto run = [&]<typename T>() {
    T* y = out.as<T>();
    const T *p = a.as<T>(), *q = b.as<T>();
    if constexpr (std::is_floating_point_v<T>)
      if (InType(loops, op.name, y, p, q)) return void(done = true);
    const auto each = [&](auto f) {
      done = true;
      loops.Rows([&](auto at, int64_t count, auto step) {
        for (int64_t i = 0; i < count; ++i) {
          y[at[0] + i * step[0]] = f(p[at[1] + i * step[1]], q[at[2] + i * step[2]]);
        }
      });
    };
    using C = Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      if (op.on_floats) each([f = op.on_floats](C x, C z) { return To<T>(f(x, z)); });
    } else if (op.on_ints && op.on_bools == std::is_same_v<C, bool>) {
      const IntType type{std::is_signed_v<T>, sizeof(T) * 8};
      each([f = op.on_ints, type](C x, C z) {
        return To<T>(f(static_cast<int64_t>(x), static_cast<int64_t>(z), type));
      });
    }
  };
  ByType<true>(a.dtype, run);
  return done;
}

const BinaryOp& Find(std::string_view name) {
  const auto* op = std::ranges::find(kOps, name, &BinaryOp::name);
  WEFT_CHECK(op != std::end(kOps), "{}", name);
  return *op;
}

Status SameType(const Args& args, size_t i) {
  if (args[i].dtype == args[0].dtype) return {};
  return args.Error("{} is {}, {} is {}, expected one type", args.Name(0), DtypeName(args[0].dtype),
                    args.Name(i), DtypeName(args[i].dtype));
}

// Which line of the table, for those whose meaning an attribute decides.
Result<std::string> TableName(const Args& args) {
  const std::string& op = args.call.op;
  if (op == "Mod" && args.Int("fmod", 0) != 0) return std::string("fmod");
  if (op != "BitShift") return op;
  const std::string direction = args.Text("direction", "");
  if (direction == "LEFT" || direction == "RIGHT") return direction;
  return args.Error("direction is \"{}\", expected LEFT or RIGHT", direction);
}

// Sum and Mean of floats of 16 bits, which add up in float32 and are rounded once.
template <typename T>
void AddUp(const Args& args, double divisor, const Out& out) {
  std::vector<float> sums(out.elems);
  for (size_t i = 0; i < args.size(); ++i) {
    const T* x = args[i].as<T>();
    BroadcastLoops<1>(out.shape, {&args[i].shape}).Rows([&](auto at, int64_t count, auto step) {
      for (int64_t k = 0; k < count; ++k)
        sums[at[0] + k * step[0]] += static_cast<float>(x[at[1] + k * step[1]]);
    });
  }
  for (int64_t i = 0; i < out.elems; ++i) out.as<T>()[i] = To<T>(sums[i] / divisor);
}

}  // namespace

Status RunBinary(const Args& args) {
  WEFT_TRY(args.Need(2));
  WEFT_TRY(SameType(args, 1));
  WEFT_TRY(const std::string name, TableName(args));
  WEFT_TRY(Shape shape, BroadcastShape(args, std::array<size_t, 2>{0, 1}));
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, std::move(shape)));
  return Apply(Find(name), out, args[0], args[1]) ? Status() : NoSuchType(args, args[0].dtype);
}

Status RunVariadic(const Args& args) {
  WEFT_TRY(args.Need(std::max<size_t>(args.size(), 1)));
  std::vector<size_t> all(args.size());
  std::iota(all.begin(), all.end(), 0);
  for (size_t i : all) WEFT_TRY(SameType(args, i));
  WEFT_TRY(Shape shape, BroadcastShape(args, all));
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, std::move(shape)));
  const bool is_mean = args.call.op == "Mean";
  const auto divisor = is_mean ? static_cast<double>(args.size()) : 1.0;
  const bool adds = is_mean || args.call.op == "Sum";
  if (adds && out.dtype == Dtype::kF16) return AddUp<Half>(args, divisor, out), Status();
  if (adds && out.dtype == Dtype::kBF16) return AddUp<Bfloat>(args, divisor, out), Status();
  const BinaryOp& op = Find(args.call.op);
  CopyBox(out.dtype, out.shape, out.data, {0, Strides(out.shape)}, args[0].data,
          {0, BroadcastStrides(args[0].shape, out.shape)});
  const In so_far{out.dtype, out.shape, out.elems, out.data};
  for (size_t i : all) {
    if (i > 0 && !Apply(op, out, so_far, args[i])) return NoSuchType(args, out.dtype);
  }
  if (is_mean) {
    ByFloat(out.dtype, [&]<typename T>() {
      for (T& y : std::span(out.as<T>(), out.elems)) y = To<T>(static_cast<double>(y) / divisor);
    });
  }
  return {};
}

// The exponent's type is its own; the result has the base's.
Status RunPow(const Args& args) {
  WEFT_TRY(args.Need(2));
  WEFT_TRY(Shape shape, BroadcastShape(args, std::array<size_t, 2>{0, 1}));
  WEFT_TRY(const Out out, args.Output(0, args[0].dtype, std::move(shape)));
  const auto loops = BroadcastLoops<2>(out.shape, {&args[0].shape, &args[1].shape});
  bool known = false;
  const bool base_known = ByType(out.dtype, [&]<typename T>() {
    known = ByType(args[1].dtype, [&]<typename E>() {
      constexpr bool kInts = std::is_integral_v<T> && std::is_integral_v<E>;
      const T* p = args[0].as<T>();
      const E* q = args[1].as<E>();
      loops.Rows([&](auto at, int64_t count, auto step) {
        for (int64_t i = 0; i < count; ++i) {
          const auto base = p[at[1] + i * step[1]];
          const auto exponent = q[at[2] + i * step[2]];
          T& y = out.as<T>()[at[0] + i * step[0]];
          if constexpr (kInts) {
            y = To<T>(IntPow(static_cast<int64_t>(base), static_cast<int64_t>(exponent),
                             {std::is_signed_v<E>, sizeof(T) * 8}));
          } else {
            y = To<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
          }
        }
      });
    });
  });
  return base_known && known ? Status() : NoSuchType(args, base_known ? args[1].dtype : out.dtype);
}

}  // namespace weft::fallback::native
