// What the tests of this folder share: text in, tensors out.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "tc_lang/bind.h"
#include "tc_lang/interpret.h"
#include "tc_lang/program.h"

namespace weft::tc {

inline Tensor Make(Dtype dtype, Shape shape, const std::vector<double>& values) {
  Tensor t(dtype, std::move(shape));
  for (size_t k = 0; k < values.size(); ++k) SetElem(t, static_cast<int64_t>(k), values[k]);
  return t;
}
inline Tensor Floats(Shape shape, const std::vector<double>& values) {
  return Make(Dtype::kF32, std::move(shape), values);
}
inline Tensor Ints(Shape shape, const std::vector<double>& values) {
  return Make(Dtype::kI32, std::move(shape), values);
}

inline std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t k = 0; k < t.elems(); ++k) out.push_back(ElemAsDouble(t, k));
  return out;
}

inline Result<Program> BindText(const std::string& text,
                                const std::map<std::string, int64_t>& sizes = {},
                                const std::vector<std::string>& params = {}) {
  WEFT_TRY(const std::vector<Def> defs, ParseDefs(text, "test.tc"));
  return Bind(defs.at(0), Sizes{sizes, params});
}

inline Program Bound(const std::string& text) {
  Result<Program> program = BindText(text);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? *std::move(program) : Program();
}

// The statements' left sides, one after the other: "a(h, w) b(n)".
inline std::string LeftOf(const Program& program) {
  std::string left;
  for (const Statement& s : program.statements) {
    left += (left.empty() ? "" : " ") + program[s.target].name + "(";
    for (size_t a = 0; a < s.subscripts.size(); ++a)
      left += (a ? ", " : "") + s.indices[program[s.subscripts[a]].position].name;
    left += ")";
  }
  return left;
}

// Binds, checks the noun's promises (it verifies, prints and reads back equal) and runs.
inline Result<std::vector<Tensor>> RunText(const std::string& text,
                                           const std::map<std::string, int64_t>& sizes,
                                           const std::vector<Tensor>& inputs) {
  WEFT_TRY(const Program program, BindText(text, sizes));
  WEFT_TRY(Verify(program));
  const std::string printed = Print(program);
  WEFT_TRY(const Program again, Parse(printed, "printed.tc"));
  if (!Equal(program, again))
    return Internal("reads back different:\n" + printed + "---\n" + Print(again));
  return Interpret(program, inputs);
}

#define EXPECT_RUNS(expected, text, ...)                                        \
  do {                                                                          \
    const auto ran_ = ::weft::tc::RunText(text, __VA_ARGS__);                   \
    ASSERT_TRUE(ran_.ok()) << ran_.status().ToString();                         \
    EXPECT_EQ(::weft::tc::Values(ran_->at(0)), (std::vector<double> expected)); \
  } while (false)

inline std::string ErrorOf(const std::string& text,
                           const std::map<std::string, int64_t>& sizes = {}) {
  const Result<Program> program = BindText(text, sizes);
  return program.ok() ? "no error" : program.status().ToString();
}

}  // namespace weft::tc
