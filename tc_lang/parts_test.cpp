#include "tc_lang/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

std::vector<Part> PartsOf(const Program& program) {
  auto parts = Parts(program);
  EXPECT_TRUE(parts.ok()) << parts.status().ToString();
  return parts.ok() ? *std::move(parts) : std::vector<Part>();
}

// Names of what each part takes and gives: "x w > y".
std::vector<std::string> Shape(const std::string& text) {
  const auto program = BindText(text);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  std::vector<std::string> out;
  if (!program.ok()) return out;
  const Program versions = WithVersions(*program);
  for (const Part& part : PartsOf(versions)) {
    std::string line;
    for (const TensorId t : part.inputs) line += versions[t].name + " ";
    line += ">";
    for (const TensorId t : part.outputs) line += " " + versions[t].name;
    out.push_back(line);
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(Parts, AreCutWhereATensorIsWhole) {
  EXPECT_EQ(Shape(R"(def net(float(4, 3) x, float(3, 5) w) -> (y) {
    h(i, j) +=! x(i, k) * w(k, j)
    h(i, j) = max(h(i, j), 0.0)
    m(i) max=! h(i, j)
    y(i, j) = h(i, j) - m(i)
  })"),
            (Lines{"x w > h_1", "h_1 > h", "h > m", "h m > y"}));
}

TEST(Parts, HoldEverythingBetweenTheWritesOfATensor) {
  EXPECT_EQ(Shape(R"(def net(float(4) x) -> (y, z) {
    y(i) = x(i)
    z(i) = y(i) * 2.0
    y(i) = y(i) + 1.0 where i in 1:3
    w(i) = y(i)
  })"),
            (Lines{"x > y z"}));
}

TEST(Parts, BeginAnewWhereATensorIsWrittenAnew) {
  EXPECT_EQ(Shape(R"(def net(float(4) x) -> (y, z) {
    y(i) = x(i)
    z(i) = y(i) * 2.0
    y(i) = y(i) + 1.0
    w(i) = y(i)
  })"),
            (Lines{"x > y_1", "y_1 > z", "y_1 > y"}));
  EXPECT_EQ(Shape(R"(def net(float(4, 3) x, float(9) y_1) -> (y) {
    y(i) = x(i, 0) where i in 0:2
    y(i) = x(i, 1) where i in 2:4
    y(i) +=! y(i) > 0.0 ? x(i, j) : 0.0
    y(i) += y_1(i)
    y(i) = max(y(i), 0.0)
  })"),
            (Lines{"x > y_2", "x y_1 y_2 > y_3", "y_3 > y"}));
}

TEST(Parts, HoldWholeRecurrences) {
  EXPECT_EQ(Shape(R"(def net(float(6, 4) x) -> (h) {
    a(t, k) = x(t, k) * 2.0
    g(t, k) = a(t, k) + (t > 0 ? h(t - 1, k) : 0.0) where t in 0:6, k in 0:4
    h(t, k) = tanh(g(t, k)) where t in 0:6, k in 0:4
  })"),
            (Lines{"x > a", "a > h"}));
}

// With one step there is nothing to recur, but what is read is still written later.
TEST(Parts, HoldRecurrencesOfOneStep) {
  EXPECT_EQ(Shape(R"(def rnn(float(1) x) -> (h) {
    h(t) = x(t) + (t > 0 ? 2.0 * c(t - 1) : 0.0) where t in 0:1
    c(t) = h(t) where t in 0:1
  })"),
            Lines{"x > h"});
}

TEST(Parts, LeaveOutWhatNothingNeeds) {
  EXPECT_EQ(Shape(R"(def net(float(4) x, float(4) unused) -> (y) {
    dead(i) = exp(unused(i))
    deader(i) = dead(i)
    y(i) = x(i)
  })"),
            (Lines{"x > y"}));
}

TEST(Parts, KeepTuplesAndConstants) {
  EXPECT_EQ(Shape(R"(def net(float(4, 3) x) -> (k) {
    const d(3) = {1.0, 2.0, 3.0};
    y(i, j) = x(i, j) * d(j);
    (v(i), k(i)) max=! (y(i, j), j)
  })"),
            (Lines{"x > y", "y > k"}));
}

// Each with what is read before it is overwritten, and after.
TEST(Parts, VersionsMeanTheSame) {
  for (const std::string body :
       {"y(i, j) = x(i, j); z(i) +=! y(i, j); y(i, j) = y(i, j) - z(i); z(i) max=! y(i, j)",
        "z(i) +=! x(i, j); z(i) +=! z(i) * x(i, j); y(i, j) = z(i) - x(i, j);"
        "y(i, j) += x(i, k) + y(i, j)",
        "(z(i), a(i)) max=! (x(i, j), j); z(i) = z(i) * 2.0; y(i, j) = z(i) + x(i, j);"
        "(z(i), a(i)) min=! (x(i, j), j); y(i, j) = y(i, j) * z(i)",
        "y(i, j) = x(i, j) where i in 0:2; y(i, j) = x(i, j) + 1.0 where i in 2:4;"
        "y(i, j) = y(i, j) * y(i, j); z(i) = x(i, 2); z(i) = y(i, 1)",
        "z(i) = x(i, 0); z(i) = x(i, 1) + (i > 0 ? z(i - 1) : 0.0) where i in 0:4;"
        "z(i) = z(i) * z(i); y(i, j) = z(i) * x(i, j)"}) {
    const auto program = BindText("def f(float(4, 3) x) -> (y, z) {" + body + "}");
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const Program versions = WithVersions(*program);
    const Status verified = Verify(versions);
    ASSERT_TRUE(verified.ok()) << verified.ToString() << Print(versions);
    const std::vector<Tensor> inputs = RandomInputs(*program, 1);
    const auto expected = Interpret(*program, inputs), found = Interpret(versions, inputs);
    ASSERT_TRUE(expected.ok() && found.ok()) << body;
    EXPECT_EQ(*found, *expected) << body << "\n" << Print(versions);
  }
}

// Every piece of nothing would be all of it, and the others would have no reader.
TEST(Parts, NothingHasOneVersion) {
  const auto program = BindText(
      "def f(float(33) x) -> (float(33, 0) t) { t(i, j) = x(i) where i in 0:16, j in 0:0\n"
      "t(i, j) = x(i) + 1.0 where i in 16:33, j in 0:0 }");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(WithVersions(*program).tensors.size(), program->tensors.size());
}

// One part after another, each by its meaning.
std::vector<Tensor> RunParts(const Program& program, const std::vector<Tensor>& inputs) {
  std::map<TensorId, Tensor> tensors;
  const std::vector<TensorId> ids = Inputs(program);
  for (size_t i = 0; i < ids.size(); ++i) tensors[ids[i]] = inputs[i];
  for (const Part& part : PartsOf(program)) {
    const Status verified = Verify(part.program);
    EXPECT_TRUE(verified.ok()) << verified.ToString() << Print(part.program);
    std::vector<Tensor> operands;
    for (const TensorId t : part.inputs) operands.push_back(tensors.at(t));
    auto results = Interpret(part.program, operands);
    EXPECT_TRUE(results.ok()) << results.status().ToString();
    if (!results.ok()) return {};
    for (size_t i = 0; i < results->size(); ++i)
      tensors[part.outputs[i]] = std::move((*results)[i]);
  }
  std::vector<Tensor> outputs;
  for (const TensorId t : Outputs(program)) outputs.push_back(tensors.at(t));
  return outputs;
}

TEST(Parts, ComputeTheWhole) {
  size_t cut = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program = RandomProgram(seed);
    const std::vector<Tensor> inputs = RandomInputs(program, seed);
    const auto whole = Interpret(program, inputs);
    ASSERT_TRUE(whole.ok()) << whole.status().ToString();
    EXPECT_EQ(RunParts(program, inputs), *whole) << "seed " << seed << "\n" << Print(program);
    cut += PartsOf(program).size() > 1;
  }
  EXPECT_GT(cut, 50u);
}

}  // namespace
}  // namespace weft::tc
