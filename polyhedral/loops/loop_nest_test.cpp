#include "polyhedral/loops/loop_nest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::loops {
namespace {

constexpr char kConv[] =
    R"(loops conv1_relu1 (image: in f32[1, 28, 28, 16], w1: in f32[9, 16, 16] align 64, b1: in f32[16], relu1: out f32[1, 28, 28, 16])
    for "/conv1/Conv" "/relu1/Relu" {
  reg acc: f32[6, 16]
  parallel h = 0:28 {
    for w0 = 0:24:6 {
      mark "leaf 6x16" {
        unroll m = 0:6 {
          vector k = 0:16 {
            acc[m, k] = b1[k]
          }
        }
        for r = max(0, -h + 1):min(3, -h + 29) {
          for s = 0:3 {
            for c = 0:16 {
              unroll m = 0:6 {
                vector k = 0:16 {
                  acc[m, k] = fma(image[0, h + r - 1, w0 + m + s - 1, c]{w0 + m + s - 1 >= 0}, w1[3*r + s, c, k], acc[m, k])
                }
              }
            }
          }
        }
        unroll m = 0:6 {
          vector k = 0:16 {
            relu1[0, h, w0 + m, k] = max(acc[m, k], 0.0)
          }
        }
      }
    }
  }
}
)";

constexpr char kEverything[] =
    R"(loops "odd name"<n, "m 2"> ("x y": in f16[n, 4] layout "aB2b+2", idx: in i64[n], vector: out f64[n, 4], flag: inout bool[3]) {
  cache tile: u8[4, 8] align 32 fold [2, 0]
  shared part: i32[8]
  reg t: f32[8]
  parallel i = 0:n:2 {
    let l = idx[i] in 0:i + 1 by idx
    let j = idx[i] in 0:i + 1 of "x y"
    vector v = 0:4 {
      $0 = cast("x y"[j, v]{j - 1 >= 0, i >= 0}):f32
      $1 = ($0 * $0) + 1.5
      vector[j, v] = cast(select($1 < $0, $1, -0.0)):f64
    }
  }
  barrier
  single {
    if n - 1 >= 0 && n - 3 >= 0 {
      flag[0] = !((flag[1] && true) || isnan(nan:f64))
    } else {
      flag[2] = index(n + 3) > 7
    }
    for q = 0:3 {
      prefetch "x y" at 4*q + 1000
      prefetch near "x y" at 4*q
      flag[q] = (index(floor(q/2)):i32 % 3:i32) != bitcast(1.5:f32):i32
    }
  }
}
)";

LoopNest MustParse(std::string_view text) {
  Result<LoopNest> nest = Parse(text, "test");
  EXPECT_TRUE(nest.ok()) << nest.status().ToString();
  return nest.ok() ? *std::move(nest) : LoopNest{};
}

std::string ErrorOf(std::string_view text) {
  const Result<LoopNest> nest = Parse(text, "test");
  return nest.ok() ? Verify(*nest).ToString() : nest.status().ToString();
}

TEST(LoopNest, PrintsWhatItParsed) {
  EXPECT_EQ(Print(MustParse(kConv)), kConv);
  const LoopNest nest = MustParse(kEverything);
  const std::string printed = Print(nest);
  EXPECT_EQ(Print(MustParse(printed)), printed);
  EXPECT_TRUE(Equal(nest, MustParse(printed)));
  EXPECT_FALSE(Equal(nest, MustParse(kConv)));
}

TEST(LoopNest, VerifiesByMoreThanIntervals) {
  const Status status = Verify(MustParse(kConv));
  EXPECT_TRUE(status.ok()) << status.ToString();
  const Status other = Verify(MustParse(kEverything));
  EXPECT_TRUE(other.ok()) << other.ToString();
}

// What would compute past 64 bits, outside of what was allocated, on more stack than there is, or
// for ever: none is more than a text, which anybody may write into a plan.
TEST(LoopNest, RefusesWhatNoKernelNeeds) {
  const auto read = [](std::string_view y, std::string_view locals, std::string_view body) {
    const auto nest = Read(fmt::format("loops k (x: in i64[8], y: inout f32{}) {{\n  {}\n"
                                       "  parallel i = 0:4 {{ {} }}\n}}\n",
                                       y, locals, body),
                           "f");
    EXPECT_TRUE(nest.ok() || nest.status().code() == Code::kInvalid) << nest.status().ToString();
    return nest.ok() ? "ok" : nest.status().what();
  };
  const auto body = [&](std::string_view text) { return read("[64]", "", text); };
  const auto local = [&](std::string_view text) { return read("[64]", text, "y[i] = 1.0"); };
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  EXPECT_EQ(body("y[i] = 1.0"), "ok");
  expect(read("[4, 16] fold [4, 100]", "", "y[i, 0] = 1.0"), "operands are stored whole");
  expect(local("cache t: f64[2305843009213693952]"), "too large");
  expect(local("cache t: f64[100000000000]\n cache u: f64[100000000000]"), "bytes of scratch");
  expect(local("reg t: f32[4294967296, 4294967296]"), "too large");
  expect(local("reg t: f32[40000]\n reg u: f32[40000]"), "of registers");
  EXPECT_EQ(local("reg t: f32[20000]\n reg u: f32[20000]"), "ok");
  expect(local("cache t: f32[8] fold [-3]"), "negative");

  const std::string ones = ", 1.0, 1.0, 1.0, 1.0, 1.0", most = ones + ones + ones;
  EXPECT_EQ(body("y[0] = pick(cast(x[0]):i32, 1.0" + most + ")"), "ok");
  expect(body("y[0] = pick(cast(x[0]):i32, y[1]" + most + ")"), "types");
  expect(body("y[0] = pick(x[0], 1.0" + most + ")"), "types");
  expect(body("y[0] = pick(cast(x[0]):i32" + most + ")"), "arguments");

  expect(body("let q = x[0] in 5:5 of y\n y[q + 1000] = 1.0"), "nothing may lie in the range");
  expect(body("let q = x[0] in 0:i of y\n y[q] = 1.0"), "nothing may lie in the range");
  EXPECT_EQ(body("let q = x[0] in 0:i + 1 of y\n y[q] = 1.0"), "ok");

  expect(body("for j = max(4, 5):16:9223372036854775807 { y[j] = 1.0 }"), "a positive step");
  expect(body("for j = 0:9000000000000000000 { y[0] = 1.0 }"), "too large numbers");
  expect(body("let q = x[0] in 0:4000000000000000000 of y\n for j = 0:q { y[0] = 1.0 }"), "may be");
  expect(body("for j = 0:1 { y[9000000000000000000*j] = 1.0 }"), "too large numbers");
  expect(read("[4, 1099511627776]", "", "for j = 0:1 { y[1099511627776*j, 0] = 1.0 }"),
         "too large numbers");
  expect(body("unroll j = 0:1000 { unroll k = 0:1000 { y[0] = 1.0 } }"), "runs too often");
  const auto loops = Read(
      "loops k (y: out f32[1]) {\n parallel i = 0:4294967296 { parallel k = 0:4294967296 {"
      " y[0] = 1.0 } }\n}\n",
      "f");
  expect(loops.status().what(), "runs too often");
  const auto rounds =
      Read("loops k (y: out f32[1]) {\n for i = 0:4294967296 { barrier }\n}\n", "f");
  expect(rounds.status().what(), "runs too often");

  expect(body("let q = x[0] in -4611686018427387904:4611686018427387905 of y\n y[0] = 1.0"),
         "too large numbers");
  const auto operand = [&](std::string_view z, std::string_view text) {
    const auto nest = Read(
        fmt::format("loops k<n> (z: in f32{}, y: out f32[4]) {{\n single {{ {} }}\n}}\n", z, text),
        "f");
    return nest.ok() ? "ok" : nest.status().what();
  };
  expect(operand("[n - 9223372036854775807]", "y[0] = z[1]"), "too large numbers");
  expect(operand("[9223372036854775807, 0]", "for i = 0:0 { y[0] = z[i - 5, 0] }"), "too large");
  expect(operand("[0, 4611686018427387904, 4]", "for i = max(0, 5):3 { y[0] = z[2*i, 0, 0] }"),
         "too large");
  EXPECT_EQ(operand("[n, 4]", "for i = 0:n { y[0] = z[i, 0] }"), "ok");
  expect(
      body("unroll i2 = 0:1099511627777:1099511627776 { y[0] = cast(x[1099511627776*i2]{0 - i2 - 1 "
           ">= 0}):f32 }"),
      "too large numbers");

  std::string sum = "y[0] = 1.0";
  for (int i = 0; i < 5000; ++i) sum += " + 1.0";
  expect(body(sum), "deeper than");
}

TEST(LoopNest, PrefetchesOfOperandsOnly) {
  const auto nest = [](std::string_view prefetch) {
    return fmt::format(
        "loops k (x: in f32[8], y: out f32[8]) {{\n  cache t: f32[8]\n"
        "  parallel i = 0:8 {{\n    {}\n    y[i] = x[i]\n  }}\n}}\n",
        prefetch);
  };
  EXPECT_EQ(ErrorOf(nest("prefetch x at 8*i + 64")), "ok");
  EXPECT_EQ(ErrorOf(nest("prefetch near x at 8*i + 64")), "ok");
  EXPECT_FALSE(Equal(MustParse(nest("prefetch near x at i")), MustParse(nest("prefetch x at i"))));
  EXPECT_NE(ErrorOf(nest("prefetch t at 0")).find("a prefetch names an operand"),
            std::string::npos);
  EXPECT_NE(ErrorOf(nest("vector v = 0:4 { prefetch x at v }")).find("a vector loop holds"),
            std::string::npos);
  LoopNest outside = MustParse(nest("prefetch x at i"));
  std::swap(outside.stmts[outside.body[0].index].body[0], outside.body[0]);
  EXPECT_FALSE(Verify(outside).ok());
}

TEST(LoopNest, AlignmentsAreOnesThatAreKept) {
  const auto nest = [](int64_t align) {
    return fmt::format(
        "loops k (x: in f32[8] align {}, y: out f32[8]) {{\n  parallel i = 0:8 {{\n"
        "    y[i] = x[i]\n  }}\n}}\n",
        align);
  };
  EXPECT_EQ(ErrorOf(nest(64)), "ok");
  EXPECT_NE(ErrorOf(nest(48)).find("alignment is no power of two"), std::string::npos);
  EXPECT_NE(ErrorOf(nest(128)).find("alignment of 128, at most 64 is kept"), std::string::npos);
}

// A floor's dividend must be shown to be further than just not negative.
TEST(LoopNest, FloorsAreBoundedByWhatTheirDividendReaches) {
  const auto nest = [](std::string_view last) {
    return fmt::format(
        "loops k (x: in f32[1], y: out f32[2]) {{\n  parallel h = 0:2 {{\n"
        "    for r = max(1, h + 1):min(4, h + {}) {{\n"
        "      y[h] = x[floor((h - r)/2) + 1]\n    }}\n  }}\n}}\n",
        last);
  };
  EXPECT_EQ(ErrorOf(nest("3")), "ok");
  EXPECT_NE(ErrorOf(nest("4")).find("is not shown to lie in 0:1"), std::string::npos);
}

// No positive 64-bit integer is as large as this one's magnitude.
TEST(LoopNest, TheLeastIntegerReadsBack) {
  const LoopNest nest = MustParse(
      "loops k (x: in i64[1], y: out i64[1]) {\n"
      "  single {\n    y[0] = bit_and(x[0], -9223372036854775808)\n  }\n}\n");
  EXPECT_EQ(Verify(nest).ToString(), Status().ToString());
  EXPECT_TRUE(Equal(nest, MustParse(Print(nest))));
}

TEST(LoopNest, SharedPartsStayShared) {
  LoopNest nest{.name = "k"};
  const BufferId x = AddBuffer(
      nest, {.name = "x", .shape = {8}, .layout = Layout::Plain(1), .access = Access::kIn});
  const BufferId y = AddBuffer(
      nest, {.name = "y", .shape = {8}, .layout = Layout::Plain(1), .access = Access::kOut});
  const Var i = AddVar(nest, "i");
  ExprId e = AddLoad(nest, x, {Affine::OfVar(i)});
  for (int k = 0; k < 6; ++k) e = AddOp(nest, ScalarOp::kTanh, Dtype::kF32, {e});
  const StmtId store = AddStmt(
      nest, {.kind = StmtKind::kStore, .buffer = y, .index = {Affine::OfVar(i)}, .value = e});
  nest.body = {AddStmt(nest, {.kind = StmtKind::kFor,
                              .var = i,
                              .lo = {0},
                              .hi = {8},
                              .loop = LoopKind::kParallel,
                              .body = {store}})};
  ASSERT_TRUE(Verify(nest).ok());
  const std::string printed = Print(nest);
  EXPECT_LT(printed.size(), 20000u);
  EXPECT_TRUE(Equal(nest, MustParse(printed)));
}

TEST(LoopNest, ScratchIsLaidOutInOrder) {
  const LoopNest nest = MustParse(
      "loops k () { cache a: f32[3] cache b: u8[70] shared c: f64[2, 4] fold [1, 0] cache d: i8[1] "
      "}");
  EXPECT_EQ(RankScratchBytes(nest), 64 + 128 + 64);
  EXPECT_EQ(TeamScratchBytes(nest), 64);
  EXPECT_EQ(ScratchOffset(nest, BufferId(3)), 192);
}

TEST(LoopNest, RefusesWhatBreaksARule) {
  const auto body = [](std::string_view text) {
    return ErrorOf(
        "loops k<n> (x: in f32[8], y: out f32[8], z: out f32[n]) { reg r: f32[4] shared s: "
        "f32[4]\n" +
        std::string(text) + "}");
  };
  EXPECT_EQ(body("parallel i = 0:8 { y[i] = x[i] }"), "ok");
  EXPECT_EQ(body("parallel i = 0:n { z[i] = x[0] }"), "ok");
  EXPECT_NE(body("parallel i = 0:n { y[i] = x[0] }").find("not shown to lie"), std::string::npos);
  EXPECT_NE(body("parallel i = 0:8 { y[i] = x[i + 1] }").find("not shown to lie"),
            std::string::npos);
  EXPECT_EQ(body("parallel i = 0:8 { y[i] = x[i + 1]{6 - i >= 0} }"), "ok");
  EXPECT_EQ(body("parallel i = 0:8 { for r = 0:min(2, i + 1) { y[i] = x[floor((i - r)/2)] } }"),
            "ok");
  EXPECT_NE(body("parallel i = 0:8 { for r = 0:min(2, i + 2) { y[i] = x[floor((i - r)/2)] } }")
                .find("not shown to lie"),
            std::string::npos);
  EXPECT_NE(body("parallel i = 0:8 { x[i] = y[i] }").find("input"), std::string::npos);
  EXPECT_NE(body("for i = 0:8 { y[i] = x[i] }").find("every rank"), std::string::npos);
  EXPECT_EQ(body("single { y[0] = x[0] } barrier"), "ok");
  EXPECT_NE(body("single { barrier }").find("barrier"), std::string::npos);
  EXPECT_NE(body("parallel i = 0:8 { barrier }").find("barrier"), std::string::npos);
  EXPECT_NE(body("for i = 0:4 { r[i] = 0.0 }").find("registers"), std::string::npos);
  EXPECT_EQ(body("unroll i = 0:4 { r[i] = 0.0 }"), "ok");
  EXPECT_NE(body("vector i = 0:n { r[0] = 0.0 }").find("trip count"), std::string::npos);
  EXPECT_NE(body("vector i = 0:4 { for j = 0:4 { r[i] = 0.0 } }").find("vector loop"),
            std::string::npos);
  EXPECT_NE(body("unroll i = 0:4 { r[i] = 0.0:f64 }").find("f64"), std::string::npos);
  EXPECT_NE(body("unroll i = 0:4 { r[i] = tanh(x[i]) }").find("primitive"), std::string::npos);
  EXPECT_NE(body("unroll i = 0:4 { unroll i = 0:2 { r[i] = 0.0 } }").find("bound twice"),
            std::string::npos);
  EXPECT_NE(body("unroll i = 0:4 { r[i] = x[i] < 1.0 }").find("bool"), std::string::npos);
  EXPECT_NE(body("y[q] = 1.0").find("unknown variable"), std::string::npos);
}

TEST(LoopNest, FlushedProductsAreOfBfloat16) {
  const auto store = [](std::string_view value) {
    return fmt::format(
        "loops k (x: in bf16[8], w: in f32[8], y: out f32[8]) {{ parallel i = 0:8 {{ y[i] = {} }} "
        "}}",
        value);
  };
  const LoopNest nest = MustParse(store("fma_flush(x[i], x[i], w[i])"));
  EXPECT_EQ(Verify(nest).ToString(), Status().ToString());
  EXPECT_NE(Print(nest).find("y[i] = fma_flush(x[i], x[i], w[i])\n"), std::string::npos);
  EXPECT_TRUE(Flushes(nest));
  EXPECT_FALSE(Flushes(MustParse(store("fma(w[i], w[i], w[i])"))));
  for (const char* value : {"fma_flush(w[i], x[i], w[i])", "fma_flush(x[i], w[i], w[i])",
                            "cast(fma_flush(x[i], x[i], x[i])):f32"})
    EXPECT_NE(ErrorOf(store(value)).find("types of fma_flush"), std::string::npos) << value;
  const LoopNest sum = MustParse(store("add_flush(w[i], w[i])"));
  EXPECT_EQ(Verify(sum).ToString(), Status().ToString());
  EXPECT_TRUE(Flushes(sum));
  for (const char* value : {"cast(add_flush(x[i], x[i])):f32", "add_flush(w[i], x[i])"})
    EXPECT_NE(ErrorOf(store(value)).find("types of add_flush"), std::string::npos) << value;
}

// Loads alone stay as they are: a nest reads better with them, and they cost nothing.
TEST(LoopNest, SharesEqualOperations) {
  LoopNest nest = MustParse(R"(loops k (x: in f32[8], y: out f32[8]) {
    parallel i = 0:8 {
      y[i] = sqrt(x[i] + 1.0) * (x[i] * sqrt(x[i] + 1.0)) - sqrt(x[i] + 2.0) } })");
  ShareOperations(nest);
  EXPECT_EQ(Verify(nest).ToString(), Status().ToString());
  const std::string text = Print(nest);
  EXPECT_NE(text.find("$0 = sqrt(x[i] + 1.0)"), std::string::npos) << text;
  EXPECT_NE(text.find("y[i] = ($0 * (x[i] * $0)) - sqrt(x[i] + 2.0)"), std::string::npos) << text;
}

TEST(LoopNest, ErrorsSayWhere) {
  EXPECT_EQ(ErrorOf("loops k () {\n  y[0] = 1.0 }"), "test:2:3: unknown buffer y");
  EXPECT_EQ(ErrorOf("loops k (x: in f32[2], x: in f32[2]) {}"),
            "test:1:24: buffer x is declared twice");
}

TEST(LoopNest, OneRankWritesElementsThatShareBytes) {
  const auto nest = [](std::string_view loop, std::string_view value) {
    return fmt::format(
        "loops k (x: in i4[8], y: out i4[8]) {{ {} {{ for j = 0:1 {{ y[i] = {} }} }} }}", loop,
        value);
  };
  EXPECT_NE(ErrorOf(nest("parallel i = 0:8", "x[i]")).find("outside of single"), std::string::npos);
  EXPECT_EQ(
      ErrorOf("loops k (x: in i4[8], y: out i4[8]) { single { for i = 0:8 { y[i] = x[i] } } }"),
      "ok");
  const std::string sum =
      "loops k (x: in i4[8], y: out i4[8]) { single { for i = 0:8 { y[i] = x[i] + x[i] } } }";
  EXPECT_NE(ErrorOf(sum).find("types of +"), std::string::npos) << ErrorOf(sum);
}

}  // namespace
}  // namespace weft::loops
