// Every native kernel with operands and attributes that make no sense: each gives a result or an
// error, within the limit of memory, and touches nothing outside its operands (the sanitizers
// look).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "fallback/execute.h"

namespace weft::fallback {
namespace {

constexpr std::string_view kOps[] = {
#define WEFT_NATIVE(name, family) #name,
#include "fallback/native/native.def"
#undef WEFT_NATIVE
};

using Random = std::mt19937;

template <typename T, size_t N>
T Pick(Random& random, const T (&items)[N]) {
  return items[random() % N];
}

int64_t AnyInt(Random& random) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(),
                    kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kInts[] = {
      0,  1,    2,        3,        4,    5,       -1,        -2,           -3,
      -4, kMin, kMin + 1, kMax - 1, kMax, 1 << 20, 1LL << 40, -(1LL << 40), 16};
  return random() % 3 == 0 ? Pick(random, kInts) : static_cast<int64_t>(random() % 5) - 1;
}

Tensor AnyTensor(Random& random) {
  constexpr Dtype kTypes[] = {Dtype::kF32,  Dtype::kF32, Dtype::kI64, Dtype::kI64, Dtype::kI32,
                              Dtype::kBool, Dtype::kF16, Dtype::kU8,  Dtype::kU64, Dtype::kString};
  Shape shape(random() % 5);
  for (int64_t& extent : shape) extent = static_cast<int64_t>(random() % 4);
  Tensor t(Pick(random, kTypes), shape);
  for (int64_t i = 0; i < t.elems(); ++i) {
    constexpr double kReals[] = {0, 1, -1.5, 1e30, -1e30, NAN, INFINITY, -INFINITY, 3};
    if (t.dtype() == Dtype::kString) {
      t.strings()[i] = random() % 2 == 0 ? "7" : "";
    } else if (IsFloat(t.dtype())) {
      SetElem(t, i, Pick(random, kReals));
    } else {
      SetElemInt(t, i, AnyInt(random));
    }
  }
  return t;
}

void AddAttributes(Random& random, LibraryCall& call) {
  constexpr const char* kInts[] = {"allowzero",
                                   "axis",
                                   "ceil_mode",
                                   "count_include_pad",
                                   "num_groups",
                                   "p",
                                   "size",
                                   "storage_order",
                                   "training_mode",
                                   "batch_axis",
                                   "batch_dims",
                                   "blocksize",
                                   "dtype",
                                   "end",
                                   "exclusive",
                                   "fmod",
                                   "k",
                                   "keepdims",
                                   "largest",
                                   "num_outputs",
                                   "output_height",
                                   "output_width",
                                   "reverse",
                                   "sampling_ratio",
                                   "sorted",
                                   "start",
                                   "time_axis",
                                   "to",
                                   "upper"};
  constexpr const char* kTexts[] = {"DCR", "CRD", "LEFT",    "RIGHT", "add",  "edge",
                                    "max", "mul", "reflect", "tanh",  "wrap", "x"};
  for (const char* name : kInts) {
    if (random() % 3 == 0) call.attributes.push_back({name, AnyInt(random)});
  }
  for (const char* name : {"approximate", "direction", "mode", "reduction"}) {
    if (random() % 2 == 0) call.attributes.push_back({name, std::string(Pick(random, kTexts))});
  }
  for (const char* name : {"dilations", "kernel_shape", "pads", "strides"}) {
    std::vector<int64_t> ints(random() % 3 * (name[0] == 'p' ? 2 : 1));
    for (int64_t& i : ints) i = random() % 4 == 0 ? AnyInt(random) : random() % 3;
    if (random() % 2 == 0) call.attributes.push_back({name, ints});
  }
  std::vector<int64_t> perm(random() % 5);
  for (int64_t& p : perm) p = AnyInt(random);
  if (random() % 2 == 0) call.attributes.push_back({"perm", perm});
  if (random() % 2 == 0) call.attributes.push_back({"value", AnyTensor(random)});
  if (random() % 4 == 0) call.attributes.push_back({"alpha", NAN});
  std::ranges::sort(call.attributes, {}, &CallAttribute::name);
}

TEST(Hostile, EveryKernelIsTotal) {
  Random random(7);
  int64_t ran = 0;
  for (std::string_view op : kOps) {
    for (int round = 0; round < 200; ++round) {
      LibraryCall call{.op = std::string(op)};
      std::vector<Tensor> inputs(random() % 5);
      const Tensor shared = AnyTensor(random);
      for (Tensor& t : inputs) t = random() % 3 == 0 ? shared : AnyTensor(random);
      std::vector<const Tensor*> pointers;
      for (size_t i = 0; i < inputs.size(); ++i) {
        call.inputs.push_back({.role = fmt::format("in{}", i), .value = "x"});
        pointers.push_back(random() % 10 == 0 ? nullptr : &inputs[i]);
      }
      for (size_t i = 0; i < 1 + random() % 4; ++i) {  // few kernels have a second
        const bool is_named = i == 0 ? random() % 8 != 0 : random() % 8 == 0;
        call.outputs.push_back(
            {.role = fmt::format("out{}", i), .value = is_named ? fmt::format("y{}", i) : ""});
      }
      AddAttributes(random, call);
      auto result = RunNative(call, pointers, 1 << 16);
      if (!result.ok()) {
        EXPECT_FALSE(result.status().what().empty());
        EXPECT_NE(result.status().code(), Code::kInternal) << result.status().ToString();
        continue;
      }
      ++ran;
      EXPECT_EQ(result->size(), call.outputs.size()) << op;
      for (size_t i = 0; i < result->size(); ++i)  // what is asked for is made
        EXPECT_TRUE((*result)[i].data() || (*result)[i].elems() == 0 ||
                    (*result)[i].dtype() == Dtype::kString || call.outputs[i].value.empty())
            << op;
    }
  }
  EXPECT_GT(ran, 3000);  // it is not all nonsense
}

}  // namespace
}  // namespace weft::fallback
