// The expansions of math functions, as compiled, against libm in higher precision.
#include "polyhedral/loops/math.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "codegen/llvm/load_for_test.h"

namespace weft::codegen {
namespace {

constexpr int64_t kBlock = 4096;

// y[i] = op(x[i], z[i]); `below_zero`: exp of what is at most 0.
loops::LoopNest ElementwiseNest(ScalarOp op, Dtype dtype, bool has_ldexp = false,
                                bool below_zero = false, bool has_pick = false) {
  using loops::Access;
  loops::LoopNest nest{.name = "f", .has_ldexp = has_ldexp, .has_pick = has_pick};
  const auto buffer = [&](std::string name, Access access) {
    return AddBuffer(nest, {.name = std::move(name),
                            .dtype = dtype,
                            .shape = {kBlock},
                            .layout = Layout::Plain(1),
                            .access = access});
  };
  const loops::BufferId x = buffer("x", Access::kIn), z = buffer("z", Access::kIn),
                        y = buffer("y", Access::kOut);
  const Var i = AddVar(nest, "i"), v = AddVar(nest, "v");
  const Affine at = Affine::OfVar(i) + Affine::OfVar(v);
  std::vector<loops::ExprId> args = {AddLoad(nest, x, {at})};
  if (ScalarArity(op) == 2) args.push_back(AddLoad(nest, z, {at}));
  const loops::ExprId value =
      below_zero ? ExpandExpBelowZero(nest, args[0]) : AddOp(nest, op, dtype, args);
  const loops::StmtId store =
      AddStmt(nest, {.kind = loops::StmtKind::kStore, .buffer = y, .index = {at}, .value = value});
  const loops::StmtId lanes = AddStmt(nest, {.kind = loops::StmtKind::kFor,
                                             .var = v,
                                             .lo = {0},
                                             .hi = {8},
                                             .loop = loops::LoopKind::kVector,
                                             .body = {store}});
  nest.body = {AddStmt(nest, {.kind = loops::StmtKind::kFor,
                              .var = i,
                              .lo = {0},
                              .hi = {kBlock},
                              .step = 8,
                              .loop = loops::LoopKind::kParallel,
                              .body = {lanes}})};
  return nest;
}

template <typename T, typename Wide>
Wide Reference(ScalarOp op, Wide x, Wide y) {
  switch (op) {
    case ScalarOp::kExp:
      return std::exp(x);
    case ScalarOp::kLog:
      return std::log(x);
    case ScalarOp::kTanh:
      return std::tanh(x);
    case ScalarOp::kErf:
      return std::erf(x);
    case ScalarOp::kSigmoid:
      return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
    case ScalarOp::kSin:
      return std::sin(x);
    case ScalarOp::kCos:
      return std::cos(x);
    case ScalarOp::kTan:
      return std::tan(x);
    case ScalarOp::kAsin:
      return std::asin(x);
    case ScalarOp::kAcos:
      return std::acos(x);
    case ScalarOp::kAtan:
      return std::atan(x);
    case ScalarOp::kSinh:
      return std::sinh(x);
    case ScalarOp::kCosh:
      return std::cosh(x);
    case ScalarOp::kAsinh:
      return std::asinh(x);
    case ScalarOp::kAcosh:
      return std::acosh(x);
    case ScalarOp::kAtanh:
      return std::atanh(x);
    case ScalarOp::kLog1p:
      return std::log1p(x);
    case ScalarOp::kExpm1:
      return std::expm1(x);
    default:
      return std::pow(x, y);
  }
}

// The error in units of the last place of the exact result; infinite where the kinds differ.
template <typename T, typename Wide>
double Ulps(T found, Wide exact) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(nearest) || std::isnan(found))
    return std::isnan(nearest) == std::isnan(found) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(found)) {
    // The last finite value is half a place from infinity.
    return found == nearest ||
                   std::abs(std::nextafter(std::isinf(found) ? found : nearest, T(0))) ==
                       std::abs(std::isinf(found) ? nearest : found)
               ? 0
               : INFINITY;
  }
  if (found == 0 && nearest == 0 && std::signbit(found) != std::signbit(nearest)) return INFINITY;
  const int exponent = nearest == 0 ? -100000 : std::ilogb(nearest);
  constexpr int kDigits = std::numeric_limits<T>::digits,
                kLeast = std::numeric_limits<T>::min_exponent - 1;
  const Wide unit = std::ldexp(Wide(1), std::max(exponent, kLeast) - kDigits + 1);
  return static_cast<double>(std::abs(static_cast<Wide>(found) - exact) / unit);
}

struct Worst {
  double ulps = 0, x = 0, y = 0, found = 0;
};

template <typename T, typename Wide, typename Next>
Worst Sweep(ScalarOp op, Dtype dtype, int64_t blocks, Next next, bool has_pick = false) {
  const loops::LoopNest nest = ElementwiseNest(op, dtype, false, false, has_pick);
  EXPECT_TRUE(loops::Verify(nest).ok()) << loops::Verify(nest).ToString();
  const Result<MachineCode> code = EmitMachineCode(nest, Target{});
  EXPECT_TRUE(code.ok());
  const Result<LoadedKernel> kernel = LoadKernel(*code, nest.name);
  std::vector<T> x(kBlock), z(kBlock), y(kBlock);
  void* buffers[] = {x.data(), z.data(), y.data()};
  const KernelArgs args = {.buffers = buffers};
  Worst worst;
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t i = 0; i < kBlock; ++i) next(block * kBlock + i, x[i], z[i]);
    kernel->function(&args, 0, 1);
    for (int64_t i = 0; i < kBlock; ++i) {
      const Wide exact = Reference<T, Wide>(op, x[i], z[i]);
      // What would be subnormal is 0, see FormsOfExpAgree.
      if (op == ScalarOp::kExp && exact < std::numeric_limits<T>::min() && y[i] == 0) continue;
      const double ulps = Ulps<T, Wide>(y[i], exact);
      if (ulps > worst.ulps)
        worst = {ulps, static_cast<double>(x[i]), static_cast<double>(z[i]),
                 static_cast<double>(y[i])};
    }
  }
  return worst;
}

struct Limit {
  ScalarOp op;
  double single, wide;  // most ulps in f32 and f64
};

constexpr Limit kLimits[] = {
    {ScalarOp::kExp, 1.1, 1.5}, {ScalarOp::kLog, 1.5, 1.5},   {ScalarOp::kTanh, 2.6, 3},
    {ScalarOp::kErf, 3.6, 2.5}, {ScalarOp::kSigmoid, 2.5, 3}, {ScalarOp::kExpm1, 2, 2.5},
    {ScalarOp::kSin, 0.6, 2},   {ScalarOp::kCos, 0.6, 2},     {ScalarOp::kTan, 0.6, 4},
    {ScalarOp::kAsin, 3, 4},    {ScalarOp::kAcos, 3, 4},      {ScalarOp::kAtan, 3, 3},
    {ScalarOp::kSinh, 0.6, 4},  {ScalarOp::kCosh, 0.6, 3},    {ScalarOp::kAsinh, 0.6, 4},
    {ScalarOp::kAcosh, 0.6, 4}, {ScalarOp::kAtanh, 0.6, 4},   {ScalarOp::kLog1p, 2, 3},
    {ScalarOp::kPow, 0.6, 4}};

constexpr float kEnds[] = {-0.0F, 1, -1, 0.5F, -0.5F, INFINITY, -INFINITY, NAN};

bool IsPeriodic(ScalarOp op) {
  return op == ScalarOp::kSin || op == ScalarOp::kCos || op == ScalarOp::kTan;
}

// Bit patterns from one end to the other, in steps of a prime.
void SweepSingle(const Limit& limit, bool has_pick) {
  const int64_t step = has_pick ? 89 : 1361;
  const auto next = [&](int64_t i, float& x, float& z) {
    x = std::bit_cast<float>(static_cast<uint32_t>(i * step));
    if (i < std::ssize(kEnds)) x = kEnds[i];
    z = std::bit_cast<float>(static_cast<uint32_t>((i * 7919) % 0x42000000 | (i << 31)));
    if (IsPeriodic(limit.op) && std::abs(x) >= 0x1p52F) x = 1;
  };
  const Worst worst =
      Sweep<float, double>(limit.op, Dtype::kF32, 768 * 1361 / step, next, has_pick);
  EXPECT_LE(worst.ulps, limit.single)
      << ScalarName(limit.op) << "(" << worst.x << ", " << worst.y << ") = " << worst.found;
  if (std::getenv("WEFT_TEST_VERBOSE"))
    fmt::print("f32 {} {:.2f}\n", ScalarName(limit.op), worst.ulps);
}

TEST(Math, SingleSweep) {
  for (const Limit& limit : kLimits) SweepSingle(limit, false);
}

// What has a form by pieces, on this machine's vectors.
TEST(Math, SweepByPick) {
  SweepSingle({ScalarOp::kErf, 2.2, 0}, true);
  SweepSingle({ScalarOp::kTanh, 1.6, 0}, true);
  SweepSingle({ScalarOp::kExp, 1.1, 0}, true);
  SweepSingle({ScalarOp::kSigmoid, 3.5, 0}, true);
}

TEST(Math, DoubleSweep) {
  std::mt19937_64 random(7);
  for (const Limit& limit : kLimits) {
    const Worst worst =
        Sweep<double, long double>(limit.op, Dtype::kF64, 32, [&](int64_t i, double& x, double& z) {
          // All bit patterns, and more of those where functions are neither trivial nor infinite.
          x = i % 4 == 0 ? std::bit_cast<double>(random())
                         : std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                      -63 + static_cast<int>(random() % 14) - 3);
          z = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                         -63 + static_cast<int>(random() % 9));
          if (i < std::ssize(kEnds)) x = kEnds[i];
          if (IsPeriodic(limit.op) && std::abs(x) >= 0x1p52) x = 1;
        });
    EXPECT_LE(worst.ulps, limit.wide)
        << ScalarName(limit.op) << "(" << worst.x << ", " << worst.y << ") = " << worst.found;
    if (std::getenv("WEFT_TEST_VERBOSE"))
      fmt::print("f64 {} {:.2f}\n", ScalarName(limit.op), worst.ulps);
  }
}

// On all arguments that they are for, the four forms of exp by polynomials give the same bits, and
// so do the two by pieces, none subnormal.
TEST(Math, FormsOfExpAgree) {
  const auto kernel_of = [](Dtype dtype, bool has_ldexp, bool below_zero, bool has_pick) {
    const loops::LoopNest nest =
        ElementwiseNest(ScalarOp::kExp, dtype, has_ldexp, below_zero, has_pick);
    const Result<MachineCode> code = EmitMachineCode(nest, Target{});
    EXPECT_TRUE(code.ok());
    return *LoadKernel(*code, nest.name);
  };
  const auto agree = [&]<typename T>(Dtype dtype, bool has_pick, int64_t blocks, T, auto next) {
    const LoadedKernel forms[] = {
        kernel_of(dtype, false, false, has_pick), kernel_of(dtype, true, false, has_pick),
        kernel_of(dtype, false, true, has_pick), kernel_of(dtype, true, true, has_pick)};
    std::vector<T> x(kBlock), unused(kBlock), y[4];
    for (int64_t block = 0; block < blocks; ++block) {
      for (T& value : x) value = next();
      for (int f = 0; f < 4; ++f) {
        y[f].resize(kBlock);
        void* buffers[] = {x.data(), unused.data(), y[f].data()};
        const KernelArgs args = {.buffers = buffers};
        forms[f].function(&args, 0, 1);
      }
      for (int64_t i = 0; i < kBlock; ++i) {
        for (int f = 1; f < (x[i] > 0 ? 2 : 4); ++f) {
          ASSERT_TRUE(y[f][i] == 0 || !(y[f][i] < std::numeric_limits<T>::min())) << x[i];
          const bool same = y[0][i] == y[f][i] || (std::isnan(y[0][i]) && std::isnan(y[f][i]));
          ASSERT_TRUE(same) << "exp(" << x[i] << ") = " << y[0][i] << " or " << y[f][i];
        }
      }
    }
  };
  for (const bool has_pick : {false, true}) {
    uint32_t pattern = 0;
    agree(Dtype::kF32, has_pick, 768, 0.0F, [&] {
      pattern += 1361;
      return pattern <= 8 * 1361 ? kEnds[pattern / 1361 - 1] : std::bit_cast<float>(pattern);
    });
  }
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> near(-800, 800);
  agree(Dtype::kF64, false, 64, 0.0,
        [&] { return random() % 4 == 0 ? std::bit_cast<double>(random()) : near(random); });
}

TEST(Math, SpecialValuesOfPow) {
  const double inf = INFINITY, nan = NAN;
  const double kBases[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, inf, -inf, nan, -3},
               kPowers[] = {0.0, -0.0, 1, -1, 2, 3, -3, 0.5, -0.5, inf, -inf, nan, 1e300};
  std::vector<std::pair<double, double>> pairs;
  for (double x : kBases) {
    for (double y : kPowers) pairs.emplace_back(x, y);
  }
  const Worst worst = Sweep<double, long double>(
      ScalarOp::kPow, Dtype::kF64, 1,
      [&](int64_t i, double& x, double& z) { std::tie(x, z) = pairs[i % pairs.size()]; });
  EXPECT_LE(worst.ulps, 2) << "pow(" << worst.x << ", " << worst.y << ") = " << worst.found;
}

}  // namespace
}  // namespace weft::codegen
