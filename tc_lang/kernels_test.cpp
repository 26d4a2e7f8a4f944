// The published kernels: each binds, keeps its text, and runs to finite numbers.
#include <cmath>
#include <fstream>
#include <iterator>

#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

constexpr char kFile[] = "tests/file/tc/Inputs/kernels.tc";

std::vector<Def> Kernels() {
  std::ifstream file(kFile);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Result<std::vector<Def>> defs = ParseDefs(text, kFile);
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  return defs.ok() ? *std::move(defs) : std::vector<Def>();
}

Result<Program> BindSmall(const Def& def) {
  Sizes sizes;
  sizes.values = {{"G", 4}, {"T", 5}, {"Dilation", 2}};
  int64_t next = 2;
  for (const SyntaxParam& param : def.params) {
    for (const SyntaxExprPtr& dim : param.dims) {
      if (dim->kind == SyntaxKind::kName && sizes.values.emplace(dim->text, next % 5 + 2).second)
        ++next;
    }
  }
  return Bind(def, sizes);
}

TEST(Kernels, BindPrintAndRun) {
  const std::vector<Def> defs = Kernels();
  ASSERT_GE(defs.size(), 15);
  for (const Def& def : defs) {
    SCOPED_TRACE(def.name);
    const Result<Program> program = BindSmall(def);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    ASSERT_TRUE(Verify(*program).ok()) << Verify(*program).ToString();
    const Result<Program> again = Parse(Print(*program), "again");
    ASSERT_TRUE(again.ok()) << again.status().ToString() << Print(*program);
    EXPECT_TRUE(Equal(*program, *again)) << Print(*program) << Print(*again);
    const auto out = Interpret(*program, RandomInputs(*program, 7));
    ASSERT_TRUE(out.ok()) << out.status().ToString();
    for (const Tensor& t : *out) {
      for (double value : Values(t)) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Kernels, OnlineSoftmaxAgreesWithTheDirectOne) {
  for (const Def& def : Kernels()) {
    if (def.name != "online_softmax_sum") continue;
    const Result<Program> program = BindSmall(def);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const std::vector<Tensor> in = RandomInputs(*program, 3);
    double greatest = -INFINITY, sum = 0;
    for (double x : Values(in[0])) greatest = std::max(greatest, x);
    for (double x : Values(in[0])) sum += std::exp(x - greatest);
    const auto out = Interpret(*program, in, {}, {.widen = true});
    ASSERT_TRUE(out.ok());
    EXPECT_NEAR(Values(out->at(0))[0], sum + greatest, 1e-12);
  }
}

}  // namespace
}  // namespace weft::tc
