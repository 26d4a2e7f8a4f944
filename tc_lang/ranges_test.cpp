// Range inference, case by case as Tensor Comprehensions' own tests have them, with this language's
// answers where theirs are unsafe (negative extents, minima that are not 0, silent truncation).
#include <algorithm>

#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

// "i 0:4, j 0:3" of the only def, in order.
std::string RangesOf(const std::string& params, const std::string& body,
                     const std::map<std::string, int64_t>& sizes,
                     const std::string& outputs = "O") {
  const auto defs = ParseDefs("def f(" + params + ") -> (" + outputs + ") { " + body + " }", "t");
  if (!defs.ok()) return defs.status().ToString();
  const Result<Inference> inference = Infer(defs->at(0), {sizes, {}});
  if (!inference.ok())
    return inference.status().what().substr(0, inference.status().what().find('\n'));
  std::string out;
  for (const auto& [name, range] : inference->ranges) {
    out += (out.empty() ? "" : ", ") + name + " " + std::to_string(range.lo) + ":" +
           std::to_string(range.hi + 1);
  }
  return out;
}

TEST(Ranges, CopiesAndTransposes) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i)", {{"N", 9}}), "i 0:9");
  EXPECT_EQ(RangesOf("float(N, M) I", "O(i, j) = I(j, i)", {{"N", 9}, {"M", 4}}), "i 0:4, j 0:9");
  EXPECT_EQ(RangesOf("float(A, B, C, D, E) I", "O(e, c, a, b, d) = I(a, b, c, d, e)",
                     {{"A", 1}, {"B", 2}, {"C", 3}, {"D", 4}, {"E", 5}}),
            "e 0:5, c 0:3, a 0:1, b 0:2, d 0:4");
}

TEST(Ranges, ScaleRoundsUp) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(123 * i)", {{"N", 1000}}), "i 0:9");
}

TEST(Ranges, ShiftsAreNotZeroBased) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i - 1)", {{"N", 9}}),
            "the index 'i' of 'O' is inferred to start at 1, expected 0 [E0403]");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i + 5)", {{"N", 9}}),
            "the index 'i' of 'O' is inferred to start at -5, expected 0 [E0403]");
}

TEST(Ranges, ConvolutionIsValidOnly) {
  EXPECT_EQ(
      RangesOf("float(H) I, float(KH) W", "O(h) +=! I(h + kh) * W(kh)", {{"H", 10}, {"KH", 3}}),
      "h 0:8, kh 0:3");
  EXPECT_EQ(
      RangesOf("float(H) I, float(KH) W", "O(h) +=! I(2 * h + kh) * W(kh)", {{"H", 10}, {"KH", 3}}),
      "h 0:4, kh 0:3");
  EXPECT_EQ(RangesOf("float(H) I, float(KH) W, size S", "O(h) +=! I(S * h + kh) * W(kh)",
                     {{"H", 10}, {"KH", 3}, {"S", 3}}),
            "h 0:3, kh 0:3");
}

TEST(Ranges, GradientOfConvolutionStartsLater) {
  EXPECT_EQ(
      RangesOf("float(OH) dO, float(KH) W", "O(h) +=! dO(h - kh) * W(kh)", {{"OH", 10}, {"KH", 3}}),
      "the index 'h' of 'O' is inferred to start at 2, expected 0 [E0403]");
}

TEST(Ranges, PaddingByAGuardNeedsWhere) {
  const std::string guarded =
      "O(h) +=! (h + kh - 1 >= 0 && h + kh - 1 < H ? I(h + kh - 1) * W(kh) : 0.0)";
  EXPECT_EQ(
      RangesOf("float(H) I, float(KH) W", guarded + " where h in 0:H", {{"H", 10}, {"KH", 3}}),
      "h 0:10, kh 0:3");
  EXPECT_EQ(RangesOf("float(H) I, float(KH) W", guarded, {{"H", 10}, {"KH", 3}}),
            "the range of 'h' is not determined: its only access, to 'I', is guarded [E0401]");
}

TEST(Ranges, AmbiguousUntilWhereSaysIt) {
  EXPECT_EQ(
      RangesOf("float(N) I", "O(i) +=! I(i + j)", {{"N", 9}}),
      "the range of 'i', 'j' is not determined: 0 <= i + j < 9 on 'I' has 2 open ones [E0401]");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) +=! I(i + j) where j in 0:3", {{"N", 9}}), "i 0:7, j 0:3");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) +=! I(i + j + k)", {{"N", 9}}),
            "the range of 'i', 'j', 'k' is not determined: 0 <= i + j + k < 9 on 'I' has 3 open "
            "ones [E0401]");
}

TEST(Ranges, SumOfTwoSolvedOnes) {
  EXPECT_EQ(RangesOf("float(A, B) I, float(A) J, float(C) K", "O(i) +=! I(i, i + j) * J(i) * K(j)",
                     {{"A", 3}, {"B", 9}, {"C", 7}}),
            "i 0:3, j 0:7");
  EXPECT_EQ(RangesOf("float(A, B) I", "O(j) +=! I(i, i + j)", {{"A", 3}, {"B", 9}}),
            "j 0:7, i 0:3");
}

TEST(Ranges, TwoTensorsIntersect) {
  EXPECT_EQ(RangesOf("float(N) A, float(M) B", "O(i) = A(i) + B(i)", {{"N", 9}, {"M", 4}}),
            "i 0:4");
}

TEST(Ranges, PartialCopiesMoveToZero) {
  const auto defs = ParseDefs("def f(float(N) I) -> (O) { O(i) = I(i) where i in 3:N - 1 }", "t");
  const Result<Program> program = Bind(defs->at(0), {{{"N", 9}}, {}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(Print(*program),
            "def f(float(9) I) -> (float(5) O) {\n  @copy O(i) = I(i + 3) where i in 0:5\n}\n");
}

TEST(Ranges, BackwardIsAnErrorAndEmptyIsNot) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i) where i in 8:4", {{"N", 9}}),
            "the range of 'i' ends before it begins [E0402]");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i) where i in 4:4", {{"N", 9}}), "i 4:4");
  EXPECT_EQ(RangesOf("float(N) I, float(K) W", "O(i) +=! I(i + k) * W(k)", {{"N", 2}, {"K", 5}}),
            "the range of 'i' is inferred as 0:-2, which ends before it begins, from 0 <= i + k < "
            "2 on 'I' with k in 0:5 [E0402]");
}

TEST(Ranges, LaterStatementsSeeTheHullOfEarlierOnes) {
  EXPECT_EQ(
      RangesOf("float(N) I", "t(i) = I(i) where i in 0:4 t(i) = I(i) where i in 4:6 O(i) = t(i)",
               {{"N", 9}}),
      "i@1 0:4, i@2 4:6, i@3 0:6");
}

TEST(Ranges, NoInputIsNeeded) {
  EXPECT_EQ(RangesOf("float(B) x", "O(b) = 1.0 where b in 0:B", {{"B", 5}}), "b 0:5");
}

TEST(Ranges, GathersBoundOnlyWhatIsInside) {
  EXPECT_EQ(RangesOf("float(E, D) LUT, int32(B, L) I", "O(b, d) +=! LUT(I(b, l), d)",
                     {{"E", 10}, {"D", 4}, {"B", 2}, {"L", 3}}),
            "b 0:2, d 0:4, l 0:3");
  EXPECT_EQ(RangesOf("float(E) T, int32(L) I", "O(l) = T(I(l))", {{"E", 10}, {"L", 3}}), "l 0:3");
}

TEST(Ranges, UnderDivisionOrProductNeedsWhere) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i % 3)", {{"N", 9}}),
            "the range of 'i' is not determined: it stands under a division on 'I' [E0401]");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i % 3) where i in 0:9", {{"N", 9}}), "i 0:9");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i * i)", {{"N", 9}}),
            "the range of 'i' is not determined: nothing bounds it [E0401]");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(min(i, N - 1)) where i in 0:20", {{"N", 9}}),
            "i 0:20");
}

TEST(Ranges, ExistsAndLets) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = 1.0 where exists I(i)", {{"N", 9}}), "i 0:9");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(a) where a = 2 * i", {{"N", 9}}), "i 0:5");
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i) where a = 2, i in 0:a * 2", {{"N", 9}}), "i 0:4");
}

TEST(Ranges, LeftOnlyIsNotDetermined) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i, j) = I(i)", {{"N", 9}}),
            "the range of 'j' is not determined: nothing bounds it [E0401]");
}

TEST(Ranges, AccessesOutsideAreErrorsThatNameTheTensor) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i + 1) where i in 0:N", {{"N", 9}}),
            "subscript 0 of 'I', i + 1, runs from 1 to 9, outside of 0:9 [E0404]");
  // Two subscripts bound by another tensor: the second is checked, not inferred.
  EXPECT_EQ(RangesOf("float(N) I, float(M) J", "O(i) = I(i) + J(i + 2) where i in 0:N",
                     {{"N", 4}, {"M", 5}}),
            "subscript 0 of 'J', i + 2, runs from 2 to 5, outside of 0:5 [E0404]");
}

TEST(Ranges, AccumulationIsBoundedByItsTarget) {
  EXPECT_EQ(RangesOf("float(N) I", "O(i) = I(i) O(i) += 1.0", {{"N", 9}}), "i@1 0:9, i@2 0:9");
}

TEST(Ranges, OpenSizesStaySymbols) {
  const Result<Program> program = BindText(
      "def f(float(N, 4) x, float(4, 3) w) -> (y) { y(n, k) +=! x(n, c) * w(c, k) }", {}, {"N"});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(program->params, std::vector<std::string>{"N"});
  EXPECT_EQ(Print(*program),
            "def f(float(N, 4) x, float(4, 3) w) -> (float(N, 3) y) {\n"
            "  @contraction y(n, k) +=! x(n, c) * w(c, k) where n in 0:N, k in 0:3, c in 0:4\n}\n");
  const auto out = Interpret(*program,
                             std::vector<Tensor>{Floats({2, 4}, {1, 1, 1, 1, 2, 2, 2, 2}),
                                                 Floats({4, 3}, std::vector<double>(12, 1.0))},
                             std::vector<int64_t>{2});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(Values(out->at(0)), (std::vector<double>{4, 4, 4, 8, 8, 8}));
  EXPECT_FALSE(BindText("def f(float(4, N) x) -> (y) { y(n, k) = x(n, k) }", {}, {"N"}).ok());
}

TEST(Ranges, Preconditions) {
  const auto defs =
      ParseDefs("def f(float(E, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }", "t");
  const Result<Inference> inference = Infer(defs->at(0), {{{"E", 10}, {"D", 4}, {"B", 2}}, {}});
  ASSERT_TRUE(inference.ok());
  EXPECT_EQ(inference->preconditions, std::vector<std::string>{"0 <= subscript 0 of T < 10"});
}

TEST(Ranges, SizesFromShapes) {
  const auto defs =
      ParseDefs("def f(float(N, 3) A, float(N) B, size S) -> (O) { O(i) = A(i, 0) + B(i) }", "t");
  const Def& def = defs->at(0);
  const auto sizes = SizesFromShapes(def, {{"A", {4, 3}}, {"B", {4}}}, {{"S", 2}});
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->values, (std::map<std::string, int64_t>{{"N", 4}, {"S", 2}}));
  const auto why = [&](const std::map<std::string, Shape>& shapes,
                       const std::map<std::string, int64_t>& given) {
    return SizesFromShapes(def, shapes, given).status().what();
  };
  EXPECT_EQ(why({{"A", {4, 3}}, {"B", {5}}}, {{"S", 2}}),
            "the size 'N' is 4 by extent 0 of 'A' and 5 by extent 0 of 'B'");
  EXPECT_EQ(why({{"A", {4, 2}}}, {{"S", 2}}), "found 2 for extent 1 of 'A', expected 3");
  EXPECT_EQ(why({{"A", {4}}}, {{"S", 2}}), "found rank 1 for 'A', expected 2");
  EXPECT_EQ(why({{"C", {4}}}, {{"S", 2}}), "'C' is no input of 'f'");
  EXPECT_EQ(why({{"A", {4, 3}}}, {}), "the size parameter 'S' is not given");
}

}  // namespace
}  // namespace weft::tc
