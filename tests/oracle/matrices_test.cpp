// Sums of products of bytes and bfloat16 as matrices, and statements that take their rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/llvm/emit.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// By AMX: rows, lanes and steps that fill tiles or not, results along lanes and across, windows
// with a stride. Compiled everywhere, run where it can be.
TEST(Contractions, MatricesOfBytes) {
  const auto check = [](const std::string& text, const std::map<std::string, int64_t>& sizes,
                        const char* layout) {
    const auto program = Compile(text, sizes);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program,
                                  .layouts = {{"y", *ParseLayout(layout)}},
                                  .constants = {"b"},
                                  .target = {.isa = Isa::kX86V4Amx, .threads = 2}};
    const auto choices = Propose(request, 3);
    ASSERT_TRUE(choices.yes());
    for (size_t c = 0; c < choices->size(); ++c) {
      const Choice& choice = (*choices)[c];
      const auto scheduled = Schedule(request, &choice);
      ASSERT_TRUE(scheduled.ok()) << Print(choice) << scheduled.status().ToString();
      const Status status = Compare({.program = &*program, .inputs = tc::RandomInputs(*program, 1)},
                                    request, scheduled->nest);
      EXPECT_TRUE(status.ok()) << text << Print(choice) << status.ToString();
      const auto ir = codegen::EmitLlvmIr(scheduled->nest, request.target, false);
      ASSERT_TRUE(ir.ok());
      EXPECT_TRUE(c > 0 || ir->find("@llvm.x86.tdpb") != ir->npos) << Print(choice);
    }
  };
  constexpr const char* kProduct = R"(def gemm({0}(M, K) a, int8(K, N) b, float(N) c) -> (y) {{
    @contraction s(i, j) +=! int32(a(i, k)) * int32(b(k, j))
    @pointwise   t(i, j) = float(s(i, j)) * c(j)
    @pointwise   y(i, j) = uint8(round(t(i, j)) + 3.0)
  }})";
  const std::string bytes = fmt::format(fmt::runtime(kProduct), "uint8"),
                    with_sign = fmt::format(fmt::runtime(kProduct), "int8");
  for (const int64_t m : {16, 37, 70}) {
    for (const int64_t n : {30, 90}) {
      for (const int64_t k : {75, 96, 330})
        check(k == 96 ? with_sign : bytes, {{"M", m}, {"N", n}, {"K", k}}, m == 37 ? "ba" : "ab");
    }
  }
  constexpr const char* kWindows = R"(def conv(uint8(19, 41, C) x, int8(N, 3, 3, C) b) -> (y) {
    @convolution s(h, w, o) +=! int32(x(h + r, 2 * w + q, c)) * int32(b(o, r, q, c))
        where h in 0:17, w in 0:20
    @pointwise y(h, w, o) = float(s(h, w, o)) * 0.5
  })";
  for (const int64_t c : {20, 64}) check(kWindows, {{"C", c}, {"N", 40}}, "abc");
}

// The same of bfloat16, in blocks of 32 steps, with a rest or without, of wild numbers too.
TEST(Contractions, MatricesOfBfloat) {
  const auto check = [](const std::string& text, const std::map<std::string, int64_t>& sizes,
                        const char* layout, bool matrices) {
    const auto program = Compile(text, sizes);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program,
                                  .layouts = {{"y", *ParseLayout(layout)}},
                                  .constants = {"b"},
                                  .target = {.isa = Isa::kX86V4Amx, .threads = 2},
                                  .flushes = true};
    std::vector<Tensor> inputs = tc::RandomInputs(*program, 1), wild = inputs;
    constexpr double kOdd[] = {1.2e-19, -0.9e-19, -0.0, 1e-40, -3e-39};
    for (Tensor& t : wild)
      for (int64_t i = 0; i < t.elems(); i += 5) SetElem(t, i, kOdd[i / 5 % 3]);
    SetElem(wild[0], 3, INFINITY);
    SetElem(wild[0], wild[0].elems() - 1, NAN);
    const auto choices = Propose(request, 3);
    ASSERT_TRUE(choices.yes());
    for (size_t c = 0; c < choices->size(); ++c) {
      const Choice& choice = (*choices)[c];
      const auto scheduled = Schedule(request, &choice);
      ASSERT_TRUE(scheduled.ok()) << Print(choice) << scheduled.status().ToString();
      for (const auto* data : {&inputs, &wild}) {
        const Status status =
            Compare({.program = &*program, .inputs = *data}, request, scheduled->nest);
        EXPECT_TRUE(status.ok()) << text << Print(choice) << status.ToString();
      }
      const auto ir = codegen::EmitLlvmIr(scheduled->nest, request.target, false);
      ASSERT_TRUE(ir.ok());
      if (c > 0) continue;
      EXPECT_EQ(ir->find("call void @llvm.x86.tdpbf16ps") != ir->npos, matrices) << Print(choice);
    }
  };
  constexpr const char* kProduct =
      R"(def gemm(bfloat16(M, K) a, bfloat16(K, N) b, float(N) c) -> (y) {
    @contraction s(i, j) +=! float(a(i, k)) * float(b(k, j))
    @pointwise   y(i, j) = bfloat16(max(s(i, j) + c(j), 0.0))
  })";
  for (const int64_t m : {16, 37, 70}) {
    for (const int64_t n : {30, 90}) {
      for (const int64_t k : {75, 96, 130})
        check(kProduct, {{"M", m}, {"N", n}, {"K", k}}, m == 37 ? "ba" : "ab", k % 2 == 0);
    }
  }
  constexpr const char* kWindows =
      R"(def conv(bfloat16(19, 41, C) x, bfloat16(N, 3, 3, C) b) -> (y) {
    @convolution s(h, w, o) +=! float(x(h + r, 2 * w + q, c)) * float(b(o, r, q, c))
        where h in 0:17, w in 0:20
    @pointwise y(h, w, o) = s(h, w, o) * 0.5
  })";
  for (const int64_t c : {20, 64}) check(kWindows, {{"C", c}, {"N", 40}}, "abc", true);
}

// Statements behind a sum that share the loop over its rows: some lack the axis, or lanes; what
// passes between them is a row.
TEST(Choices, StatementsRunTogether) {
  const auto program = Compile(R"(def f(float(12, 9) x, float(9, 10) w, float(12, 10) r) -> (y, z) {
    s(i, j) +=! x(i, k) * w(k, j)
    a(i, j) = s(i, j) + r(i, j)
    b(j) = 2.0 * w(0, j)
    c(i, j) = a(i, j) * b(j)
    y(i, j) = max(c(i, j), 0.0)
    z(i, j) = c(i, j) - a(i, j)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const std::vector<Tensor> inputs = tc::RandomInputs(*program, 1);
  for (const char* choice :
       {"f: cluster b | cluster s a c y z | order i j | tile i 4, j 8 | inner k | together i | "
        "unroll i | vector j 8",
        "f: cluster s a b c y z | order j i | tile i 5, j 4 | parallel j | together i | vector j 4",
        "f: cluster b | cluster s a c y z | block i 6 | order j i | tile i 3 | together i",
        "f: cluster b | cluster s | then a c y z | order i j"}) {
    const auto choices = ParseChoices(choice, "test");
    ASSERT_TRUE(choices.ok()) << choices.status().ToString();
    const Status status = RunChoice(*program, inputs, choices->at(0));
    const bool fits = std::string_view(choice).find("then") == std::string_view::npos;
    EXPECT_EQ(status.ok(), fits) << choice << status.ToString();
  }
  const auto loops = [&](std::string_view choice) {
    const auto choices = ParseChoices(choice, "test");
    const ScheduleRequest request{.program = &*program, .target = Widest()};
    const auto nest = Schedule(request, &choices->at(0));
    return nest.ok() ? loops::Print(nest->nest) : nest.status().ToString();
  };
  EXPECT_NE(loops("f: cluster b | cluster s a c y z | order i j | tile i 4, j 8 | together i | "
                  "vector j 8")
                .find("reg a: f32[1, 8]"),
            std::string::npos);
  for (const char* choice :
       {"f: cluster s a b c y z | order j | tile i 4 | together i",      // no shared loop
        "f: cluster s a b c y z | order i j | together i",               // no points
        "f: cluster s a b c y z | order i j | tile i 8 4 | together i",  // two loops
        "f: cluster s a b c y z | order i j | tile i 4 | together i | vector i 4"})
    EXPECT_NE(loops(choice).find("the points of i are no loop around"), std::string::npos)
        << choice;
  EXPECT_NE(loops("f: cluster s | cluster a b c y z | order i j | tile i 4 | together i")
                .find("no statement sums before"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::oracle
