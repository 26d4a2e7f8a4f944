// Running one native kernel, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fallback/execute.h"

namespace weft::fallback::native {

using Attributes = std::vector<CallAttribute>;

// A tensor without data is an absent operand.
inline Result<std::vector<Tensor>> TryKernel(const std::string& op,
                                             const std::vector<Tensor>& inputs,
                                             Attributes attributes = {}, size_t outputs = 1,
                                             int64_t max_bytes = 1 << 24) {
  std::ranges::sort(attributes, {}, &CallAttribute::name);
  LibraryCall call{.op = op, .attributes = std::move(attributes)};
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) {
    const std::string number = std::to_string(call.inputs.size());
    const bool absent = t.data() == nullptr && t.shape().empty();
    call.inputs.push_back({.role = "in" + number, .value = absent ? "" : "x" + number});
    pointers.push_back(&t);
  }
  for (size_t i = 0; i < outputs; ++i)
    call.outputs.push_back({.role = "out" + std::to_string(i), .value = "y"});
  return RunNative(call, pointers, max_bytes);
}

inline std::vector<Tensor> RunKernel(const std::string& op, const std::vector<Tensor>& inputs,
                                     Attributes attributes = {}, size_t outputs = 1) {
  auto result = TryKernel(op, inputs, std::move(attributes), outputs);
  EXPECT_TRUE(result.ok()) << op << ": " << result.status().ToString();
  return result.ok() ? *std::move(result) : std::vector<Tensor>(outputs);
}

inline std::string ErrorOf(const std::string& op, const std::vector<Tensor>& inputs,
                           Attributes attributes = {}) {
  auto result = TryKernel(op, inputs, std::move(attributes));
  return result.ok() ? "accepted" : result.status().ToString();
}
#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

inline Tensor Make(Dtype dtype, Shape shape, const std::vector<double>& values) {
  Tensor t(dtype, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(t.elems()), values.size());
  for (size_t i = 0; i < values.size(); ++i) SetElem(t, static_cast<int64_t>(i), values[i]);
  return t;
}

inline std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.elems(); ++i) out.push_back(ElemAsDouble(t, i));
  return out;
}

// Few different values, so that there are equal ones; integers for integers.
inline Tensor RandomTensor(std::mt19937& random, Dtype dtype, Shape shape) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.elems(); ++i) {
    const auto value = static_cast<double>(random() % 64) - (dtype == Dtype::kU8 ? 0 : 32);
    SetElem(t, i, IsFloat(dtype) ? value / 16 : value);
  }
  return t;
}

inline int64_t Below(std::mt19937& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// How far a correct result of the type may be from the exact one: half a unit of its last place,
// and what doubles add up to.
inline double Tolerance(Dtype dtype, double exact) {
  const double unit = dtype == Dtype::kF16    ? 0x1p-11
                      : dtype == Dtype::kBF16 ? 0x1p-8
                      : dtype == Dtype::kF32  ? 0x1p-24
                                              : 0x1p-46;
  return unit * (std::fabs(exact) * 1.001 + (dtype == Dtype::kF16 ? 0x1p-14 : 1e-30));
}

}  // namespace weft::fallback::native
