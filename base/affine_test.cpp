#include "base/affine.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/text.h"

namespace weft {
namespace {

constexpr int kVars = 4;
constexpr int kPoints = 12;

std::string NameOf(Var v) { return std::string(1, static_cast<char>('a' + v)); }
std::string Text(const Affine& e) { return e.Print(NameOf); }

Result<Affine> Parse(const std::string& text) {
  WEFT_TRY(Lexer lexer, Lexer::Open(text, "e"));
  WEFT_TRY(Affine e, lexer.ExpectAffine([](std::string_view name) -> Result<Var> {
    if (name.size() != 1 || name[0] < 'a' || name[0] >= 'a' + kVars) return Invalid("unknown name");
    return name[0] - 'a';
  }));
  if (!lexer.AtEnd()) return lexer.Error("expected the end");
  return e;
}

const Affine a = Affine::OfVar(0), b = Affine::OfVar(1), c = Affine::OfVar(2);

// An expression and what it is at some points, computed without it.
struct Sample {
  Affine e;
  std::array<int64_t, kPoints> values;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {
    for (auto& point : points_) {
      for (int64_t& x : point) x = Between(-50, 50);
    }
  }

  int64_t Between(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(engine_);
  }
  const std::array<int64_t, kVars>& point(int i) const { return points_[i]; }

  Sample Expression(int depth) {
    Sample s;
    const int64_t kind = depth == 0 ? Between(0, 1) : Between(0, 7);
    if (kind == 0) {
      s.e = Between(-20, 20);
      s.values.fill(s.e.constant());
    } else if (kind == 1) {
      const Var v = static_cast<Var>(Between(0, kVars - 1));
      s.e = Affine::OfVar(v);
      for (int i = 0; i < kPoints; ++i) s.values[i] = points_[i][v];
    } else if (kind <= 4) {
      const Sample x = Expression(depth - 1), y = Expression(depth - 1);
      s.e = kind == 3 ? x.e - y.e : x.e + y.e;
      for (int i = 0; i < kPoints; ++i)
        s.values[i] = x.values[i] + (kind == 3 ? -1 : 1) * y.values[i];
    } else {
      const Sample x = Expression(depth - 1);
      const int64_t d = Between(1, 12);
      s.e = kind == 5 ? x.e * d : kind == 6 ? FloorDiv(x.e, d) : Mod(x.e, d);
      for (int i = 0; i < kPoints; ++i) {
        const int64_t v = x.values[i];
        s.values[i] = kind == 5 ? v * d : kind == 6 ? FloorDiv(v, d) : FloorMod(v, d);
      }
    }
    return s;
  }

 private:
  std::mt19937 engine_;
  std::array<std::array<int64_t, kVars>, kPoints> points_;
};

void ExpectNormal(const Affine& e) {
  const Affine::Term* last = nullptr;
  for (const Affine::Term& t : e.terms()) {
    EXPECT_NE(t.coefficient, 0);
    const bool after_floor = last != nullptr && last->dividend;
    EXPECT_FALSE(after_floor && !t.dividend) << "a variable after a floor";
    if (last != nullptr && !after_floor && !t.dividend) {
      EXPECT_LT(last->var, t.var);
    }
    last = &t;
    if (!t.dividend) continue;
    EXPECT_GT(t.divisor, 1);
    EXPECT_FALSE(t.dividend->IsConstant());
    EXPECT_GE(t.dividend->constant(), 0);
    EXPECT_LT(t.dividend->constant(), t.divisor);
    ExpectNormal(*t.dividend);
  }
}

TEST(Affine, AlgebraAgreesWithEvaluation) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const Sample s = random.Expression(5);
    ExpectNormal(s.e);
    for (int i = 0; i < kPoints; ++i) {
      ASSERT_EQ(s.e.Eval(random.point(i)), s.values[i]) << "seed " << seed << ": " << Text(s.e);
    }
  }
}

TEST(Affine, PrintReadsBack) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const Affine e = random.Expression(5).e;
    const Result<Affine> read = Parse(Text(e));
    ASSERT_TRUE(read.ok()) << read.status().ToString() << ": " << Text(e);
    ASSERT_EQ(*read, e) << "seed " << seed << ": " << Text(e) << " read as " << Text(*read);
  }
}

TEST(Affine, BoundsHoldEveryValue) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const Affine e = random.Expression(5).e;
    std::array<Interval, kVars> box;
    for (Interval& range : box) {
      range.lo = random.Between(-30, 30);
      range.hi = range.lo + random.Between(0, 20);
    }
    const Interval bounds = e.Bounds([&](Var v) { return box[v]; });
    for (int i = 0; i < 50; ++i) {
      std::array<int64_t, kVars> x;
      for (int v = 0; v < kVars; ++v) x[v] = random.Between(box[v].lo, box[v].hi);
      const int64_t value = e.Eval(x);
      ASSERT_TRUE(bounds.lo <= value && value <= bounds.hi)
          << "seed " << seed << ": " << Text(e) << " = " << value << " not in [" << bounds.lo
          << ", " << bounds.hi << "]";
    }
  }
}

TEST(Affine, SubstituteAgreesWithEvaluation) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const Affine e = random.Expression(4).e;
    std::array<Affine, kVars> by;
    for (Affine& x : by) x = random.Expression(2).e;
    const Affine replaced = e.Substitute([&](Var v) { return by[v]; });
    for (int i = 0; i < kPoints; ++i) {
      std::array<int64_t, kVars> x;
      for (int v = 0; v < kVars; ++v) x[v] = by[v].Eval(random.point(i));
      ASSERT_EQ(replaced.Eval(random.point(i)), e.Eval(x)) << "seed " << seed;
    }
  }
}

TEST(Affine, NormalForm) {
  EXPECT_EQ(FloorDiv(8 * a + b, 8), a + FloorDiv(b, 8));
  EXPECT_EQ(FloorDiv(4 * a + 2, 8), FloorDiv(a, 2));
  EXPECT_EQ(FloorDiv(8 * a + 7, 8), a);
  EXPECT_EQ(FloorDiv(FloorDiv(a, 3), 5), FloorDiv(a, 15));
  EXPECT_EQ(FloorDiv(FloorDiv(a, 3) + b, 5), FloorDiv(a + 3 * b, 15));
  EXPECT_EQ(FloorDiv(FloorDiv(a, 3) + 2, 5), FloorDiv(a + 6, 15));
  EXPECT_EQ(CeilDiv(a, 8), FloorDiv(a - 1, 8) + 1);
  EXPECT_EQ(FloorDiv(Affine(-7), 2), Affine(-4));
  EXPECT_EQ(FloorDiv(a, 1), a);
  EXPECT_EQ(Mod(8 * a, 8), Affine(0));
  EXPECT_EQ(Mod(a + 8 * b, 8), Mod(a, 8));
  EXPECT_EQ(8 * FloorDiv(a, 8) + Mod(a, 8), a);
  EXPECT_EQ(a - a, Affine(0));
  EXPECT_EQ(a * 0, Affine(0));
}

TEST(Affine, Text) {
  EXPECT_EQ(Text(0), "0");
  EXPECT_EQ(Text(6 * a + b - 1), "6*a + b - 1");
  EXPECT_EQ(Text(-a), "-a");
  EXPECT_EQ(Text(FloorDiv(4 * a + b, 8)), "floor((4*a + b)/8)");
  EXPECT_EQ(Text(FloorDiv(-a, 8) * -3), "-3*floor(-a/8)");
  EXPECT_EQ(Text(Mod(a, 8)), "a mod 8");
  EXPECT_EQ(Text(Mod(a + b, 8)), "(a + b) mod 8");
  EXPECT_EQ(Text(16 * b + Mod(a, 8)), "16*b + (a mod 8)");
  EXPECT_EQ(Text(2 * Mod(a, 8)), "2*(a mod 8)");
  EXPECT_EQ(Text(Mod(FloorDiv(a, 4), 8)), "floor(a/4) mod 8");
  EXPECT_EQ(Text(Mod(FloorDiv(a, 4) + b, 8)), "(b + floor(a/4)) mod 8");
  EXPECT_EQ(Text(Mod(FloorDiv(a, 4), 8) + 8 * Mod(a, 4)), "8*(a mod 4) + (floor(a/4) mod 8)");
  EXPECT_EQ(Text(64 * FloorDiv(a, 16) + Mod(a, 16)), "(a mod 16) + 64*floor(a/16)");
  EXPECT_EQ(Text(FloorDiv(3 * a, 2)), "a + floor(a/2)");
  EXPECT_EQ(Text(a - FloorDiv(a, 2)), "a - floor(a/2)");
  EXPECT_EQ(Text(INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(Parse("-9223372036854775808").ok() ? *Parse("-9223372036854775808") : 0,
            Affine(INT64_MIN));
}

TEST(Affine, Questions) {
  const Affine e = 3 * a + FloorDiv(c + a, 4) + 1;
  EXPECT_EQ(e.CoefficientOf(0), 3);
  EXPECT_EQ(e.CoefficientOf(2), 0);
  EXPECT_TRUE(e.Uses(2));
  EXPECT_FALSE(e.Uses(1));
  std::vector<Var> vars;
  e.CollectVars(vars);
  EXPECT_EQ(vars, (std::vector<Var>{0, 2}));
  EXPECT_EQ(a.AsVar(), Var{0});
  EXPECT_EQ((a + 1).AsVar(), std::nullopt);
  EXPECT_EQ((2 * a).AsVar(), std::nullopt);
  EXPECT_EQ(FloorDiv(a, 2).AsVar(), std::nullopt);
}

TEST(Affine, BoundsSeeRemainders) {
  const auto in = [](int64_t lo, int64_t hi) { return [=](Var) { return Interval{lo, hi}; }; };
  EXPECT_EQ(Mod(a, 8).Bounds(in(0, 99)), (Interval{0, 7}));
  EXPECT_EQ(Mod(a, 8).Bounds(in(9, 13)), (Interval{1, 5}));
  EXPECT_EQ((3 * Mod(a, 8) + 1).Bounds(in(-5, 99)), (Interval{1, 22}));
  EXPECT_EQ((64 * FloorDiv(a, 8) + Mod(a, 8)).Bounds(in(0, 15)), (Interval{0, 71}));
  EXPECT_EQ(Mod(FloorDiv(a, 4), 8).Bounds(in(0, 999)), (Interval{0, 7}));
  EXPECT_EQ(Mod(FloorDiv(a, 4) + b, 8).Bounds(in(0, 999)), (Interval{0, 7}));
  EXPECT_EQ(Mod(FloorDiv(3 * a, 2), 4).Bounds(in(0, 7)), (Interval{0, 3}));
  EXPECT_TRUE((a + 1).Bounds(in(1, 0)).empty());
}

TEST(Affine, BoundsSaturateSoundly) {
  const auto all = [](Var) { return Interval{INT64_MIN, INT64_MAX}; };
  EXPECT_EQ((a + b + 5).Bounds(all), (Interval{INT64_MIN, INT64_MAX}));
  EXPECT_EQ((-a).Bounds(all), (Interval{INT64_MIN, INT64_MAX}));
  EXPECT_EQ(Mod(a, 8).Bounds(all), (Interval{0, 7}));
  const auto large = [](Var) { return Interval{0, INT64_MAX - 1}; };
  EXPECT_EQ((a + b - 3).Bounds(large), (Interval{-3, INT64_MAX}));
  EXPECT_EQ((a * 4).Eval(std::array<int64_t, 1>{INT64_MAX / 2}), INT64_MAX);
  EXPECT_EQ((a * -4).Eval(std::array<int64_t, 1>{INT64_MAX / 2}), INT64_MIN);
}

TEST(Affine, OverflowIsSeen) {
  EXPECT_EQ(AddScaled(a * INT64_MAX, a, 1), std::nullopt);
  EXPECT_EQ(AddScaled(INT64_MAX, 1, 1), std::nullopt);
  EXPECT_EQ(AddScaled(0, INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(AddScaled(a, b, 2), a + 2 * b);
  EXPECT_EXIT((void)(a * INT64_MAX * 2), testing::ExitedWithCode(70), "leaves 64 bits");
  EXPECT_EQ(FloorDiv(int64_t{INT64_MIN}, int64_t{-1}), INT64_MIN);
  EXPECT_EQ(FloorMod(int64_t{INT64_MIN}, int64_t{-1}), 0);
}

TEST(AffineParser, Forms) {
  EXPECT_EQ(*Parse("a*6 + 2*b - 1"), 6 * a + 2 * b - 1);
  EXPECT_EQ(*Parse("a/8*8 + a%8"), a);
  EXPECT_EQ(*Parse("a mod 8"), Mod(a, 8));
  EXPECT_EQ(*Parse("-a/8"), FloorDiv(-a, 8));
  EXPECT_EQ(*Parse("b - a/8"), b - FloorDiv(a, 8));
  EXPECT_EQ(*Parse("floor(3*a/4)"), FloorDiv(3 * a, 4));
  EXPECT_EQ(*Parse("2*(a - (3 - b))"), 2 * a + 2 * b - 6);
  EXPECT_EQ(*Parse("2*3*a"), 6 * a);
  EXPECT_EQ(*Parse("\"a\" + 7/2"), a + 3);
}

std::string ErrorOf(const std::string& text) {
  const Result<Affine> e = Parse(text);
  return e.ok() ? "ok" : e.status().ToString();
}

TEST(AffineParser, Errors) {
  EXPECT_EQ(ErrorOf("a*b"), "e:1:2: a product of two variables is not affine");
  EXPECT_EQ(ErrorOf("a / b"), "e:1:3: expected a positive integer after `/`");
  EXPECT_EQ(ErrorOf("a % 0"), "e:1:3: expected a positive integer after `%`");
  EXPECT_EQ(ErrorOf("a mod -2"), "e:1:3: expected a positive integer after `mod`");
  EXPECT_EQ(ErrorOf("floor(a + b/2)"), "e:1:9: found `+`, expected `/`");
  EXPECT_EQ(ErrorOf("floor(a/2*3)"), "e:1:10: found `*`, expected `)`");
  EXPECT_EQ(ErrorOf("a + z"), "e:1:5: unknown name");
  EXPECT_EQ(ErrorOf("a +"), "e:1:4: found the end of the text, expected a name");
  EXPECT_EQ(ErrorOf("9223372036854775807 + 1"), "e:1:21: the expression leaves 64 bits");
  EXPECT_EQ(ErrorOf("9223372036854775808"), "e:1:1: `9223372036854775808` does not fit 64 bits");
  EXPECT_EQ(ErrorOf("1.5*a"), "e:1:1: found `1.5`, expected an integer");
}

TEST(AffineParser, HostileSizes) {
  const auto repeat = [](std::string_view part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  EXPECT_NE(ErrorOf(repeat("(", 100000) + "a").find("nested more than 64 deep"), std::string::npos);
  EXPECT_NE(ErrorOf(repeat("-", 100000) + "a").find("nested more than 64 deep"), std::string::npos);
  EXPECT_NE(ErrorOf(repeat("floor(", 100000)).find("nested more than 64 deep"), std::string::npos);
  EXPECT_NE(ErrorOf("a" + repeat(" + a", 100000)).find("more than 1024 operands"),
            std::string::npos);
  // Each remainder repeats what it divides: the text grows by a few bytes, its meaning doubles.
  std::string mods = "a";
  for (int d = 3; d < 103; d += 2) mods += " mod " + std::to_string(d);
  EXPECT_NE(ErrorOf(mods).find("more than 512 terms"), std::string::npos);
}

}  // namespace
}  // namespace weft
