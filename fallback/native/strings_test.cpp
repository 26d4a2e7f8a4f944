// Kernels on strings, against the operators' definitions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fallback/execute.h"

namespace weft::fallback {
namespace {

using Words = std::vector<std::string>;

Tensor Text(Shape shape, Words words) {
  Tensor t(Dtype::kString, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(t.elems()), words.size());
  t.strings() = std::move(words);
  return t;
}

Result<std::vector<Tensor>> Try(std::string op, const std::vector<Tensor>& inputs,
                                std::vector<CallAttribute> attributes = {}, size_t outputs = 1,
                                int64_t max_bytes = kNativeLimitBytes) {
  LibraryCall call{.op = std::move(op), .attributes = std::move(attributes)};
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    call.inputs.push_back({.role = fmt::format("in{}", i), .value = fmt::format("x{}", i)});
    pointers.push_back(&inputs[i]);
  }
  for (size_t i = 0; i < outputs; ++i)
    call.outputs.push_back({.role = fmt::format("out{}", i), .value = fmt::format("y{}", i)});
  return RunNative(call, pointers, max_bytes);
}

std::vector<Tensor> All(std::string op, const std::vector<Tensor>& inputs,
                        std::vector<CallAttribute> attributes = {}, size_t outputs = 1) {
  auto result = Try(std::move(op), inputs, std::move(attributes), outputs);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *std::move(result) : std::vector<Tensor>(outputs);
}

std::string ErrorOf(std::string op, const std::vector<Tensor>& inputs,
                    std::vector<CallAttribute> attributes = {},
                    int64_t max_bytes = kNativeLimitBytes) {
  const auto result = Try(std::move(op), inputs, std::move(attributes), 1, max_bytes);
  return result.ok() ? "accepted" : result.status().ToString();
}

void ExpectText(const Tensor& t, const Shape& shape, const Words& words) {
  EXPECT_EQ(t.shape(), shape);
  EXPECT_EQ(t.strings(), words);
}

const std::string kNul("a\0b", 3), kNoUtf8("\xff\xc3");

TEST(NativeStrings, Concat) {
  const Tensor a = Text({2, 1}, {"a", kNoUtf8}), b = Text({3}, {"x", "", kNul});
  ExpectText(All("StringConcat", {a, b})[0], {2, 3},
             {"ax", "a", "a" + kNul, kNoUtf8 + "x", kNoUtf8, kNoUtf8 + kNul});
  ExpectText(All("StringConcat", {Text({0, 1}, {}), b})[0], {0, 3}, {});
  EXPECT_NE(ErrorOf("StringConcat", {a, Tensor(Dtype::kF32, {1})}).find("expected string"),
            std::string::npos);
}

TEST(NativeStrings, SplitAtADelimiter) {
  const auto y = All("StringSplit", {Text({2}, {"a--b----c", "d"})}, {{"delimiter", "--"}}, 2);
  ExpectText(y[0], {2, 4}, {"a", "b", "", "c", "d", "", "", ""});
  EXPECT_EQ(ElemAsInt(y[1], 0), 4);
  EXPECT_EQ(ElemAsInt(y[1], 1), 1);
  const auto once =
      All("StringSplit", {Text({1}, {"a,b,c"})}, {{"delimiter", ","}, {"maxsplit", int64_t{1}}}, 2);
  ExpectText(once[0], {1, 2}, {"a", "b,c"});
  ExpectText(All("StringSplit", {Text({}, {""})}, {{"delimiter", ","}}, 2)[0], {1}, {""});
  ExpectText(All("StringSplit", {Text({0}, {})}, {}, 2)[0], {0, 0}, {});
}

TEST(NativeStrings, SplitAtSpaces) {
  const Tensor x = Text({3}, {"  a \t b\u2003c ", "", kNoUtf8 + " z"});
  ExpectText(All("StringSplit", {x}, {}, 2)[0], {3, 3},
             {"a", "b", "c", "", "", "", kNoUtf8, "z", ""});
  const auto y = All("StringSplit", {Text({1}, {" a b  c "})}, {{"maxsplit", int64_t{1}}}, 2);
  ExpectText(y[0], {1, 2}, {"a", "b  c "});
}

TEST(NativeStrings, Normalize) {
  const Tensor x = Text({4}, {"Monday", "monday", "\u00c4\u03a3 x", kNoUtf8});
  const CallAttribute stops{"stopwords", Words{"monday"}};
  const auto run = [&](const char* action, int64_t sensitive) {
    return All("StringNormalizer", {x},
               {{"case_change_action", action}, {"is_case_sensitive", sensitive}, stops})[0];
  };
  ExpectText(run("NONE", 1), {3}, {"Monday", "\u00c4\u03a3 x", kNoUtf8});
  ExpectText(run("LOWER", 1), {3}, {"monday", "\u00e4\u03c3 x", kNoUtf8});
  ExpectText(run("UPPER", 0), {2}, {"\u00c4\u03a3 X", kNoUtf8});
  ExpectText(All("StringNormalizer", {Text({1, 1}, {"monday"})}, {stops})[0], {1, 1}, {""});
  ExpectText(All("StringNormalizer", {Text({0}, {})})[0], {1}, {""});
  EXPECT_NE(ErrorOf("StringNormalizer", {Text({2, 1}, {"a", "b"})}).find("expected [C] or [1, C]"),
            std::string::npos);
}

TEST(NativeStrings, Match) {
  const Tensor x = Text({4}, {"ab", "xab", kNoUtf8, ""});
  const auto y = All("RegexFullMatch", {x}, {{"pattern", "a.|"}})[0];
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(ElemAsInt(y, i), i == 0 || i == 3) << i;
  EXPECT_NE(ErrorOf("RegexFullMatch", {x}, {{"pattern", "("}}).find("no regular expression"),
            std::string::npos);
}

// What takes other matchers for ever takes this one a moment.
TEST(NativeStrings, MatchIsLinear) {
  const Tensor x = Text({1}, {std::string(100000, 'a') + "b"});
  EXPECT_EQ(ElemAsInt(All("RegexFullMatch", {x}, {{"pattern", "(a*)*c"}})[0], 0), 0);
}

// A long string that many elements are would leave the memory of a machine.
TEST(NativeStrings, RepeatingIsLimited) {
  const Tensor x = Text({1}, {std::string(1000, 'a')});
  Tensor count(Dtype::kI64, {1});
  SetElemInt(count, 0, 10);
  EXPECT_EQ(ErrorOf("Expand", {x, count}, {}, 20000), "accepted");
  SetElemInt(count, 0, 100);
  EXPECT_NE(ErrorOf("Expand", {x, count}, {}, 20000).find("leaves the limit"), std::string::npos);
}

}  // namespace
}  // namespace weft::fallback
