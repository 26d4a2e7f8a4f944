// A group alone is the group that it was in the network.
#include "driver/one_group.h"

#include "driver/accuracy.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/reference.h"
#include "driver/stages.h"
#include "driver/testing.h"
#include "executor/bound_run.h"
#include "polyhedral/alike.h"

namespace weft::driver {
namespace {

using partition::Implementation;
using testing::Advanced;

// Images with channels last between the groups, one that two groups read, a reshape.
constexpr const char* kNetwork = R"(graph g (x: f32[1, 8, 12, 12], w: f32[2304, 10],
    a: f32[16, 8, 3, 3], b: f32[16, 16, 3, 3]) -> (y, q) {
  c = Conv(x, a) {pads = [1, 1, 1, 1]}
  d = Relu(c)
  e = Conv(d, b) {pads = [1, 1, 1, 1]}
  f = Add(e, d)
  p = MaxPool(f) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
  q = Softmax(p) {axis = 1}
  s: i64[2] = const(1, -1)
  r = Reshape(f, s)
  y = MatMul(r, w)
})";

std::string KeyIn(const Module& module, const std::string& group) {
  const partition::GraphFacts facts(module.graph);
  for (const partition::Group& g : module.grouping.groups) {
    if (g.name != group) continue;
    GroupProgram program;
    const Status status = FillGroupProgram(module, facts, g, program);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return polyhedral::KeyOf(program.request);
  }
  return "";
}

TEST(OneGroup, IsTheSameAloneAndComputesWhatItsNodesSay) {
  BuildOptions options = testing::Options();
  options.partition.vendor = false;
  const Module module = Advanced(kNetwork, Form::kCall, options);
  EXPECT_FALSE(module.grouping.layouts.empty());
  size_t groups = 0, copies = 0;
  for (const partition::Group& group : module.grouping.groups) {
    if (group.implementation != Implementation::kOwn) continue;
    ++groups;
    auto one = OneGroup(module, group);
    ASSERT_TRUE(one.ok()) << one.status().ToString();
    copies += one->grouping.groups.size() - 1;
    EXPECT_EQ(KeyIn(*one, group.name), KeyIn(module, group.name));
    // It travels as text.
    BlobStore blobs;
    const std::string text = Print(*one, blobs);
    auto parsed = ParseModule(text, "one", blobs);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    options.forced_choices = {{group.name, module.choices.at(group.name)}};
    ASSERT_TRUE(Advance(*parsed, Form::kPlan, options).ok());
    const auto inputs = GenerateInputs(parsed->graph, 0);
    const auto reference = RunReference(parsed->graph, *inputs);
    ASSERT_TRUE(reference.ok()) << reference.status().ToString();
    auto executor = MakeExecutor(parsed->plan, options, 1);
    ASSERT_TRUE(executor.ok()) << executor.status().ToString();
    auto run = executor::BoundRun::Open(**executor, 0, *inputs);
    ASSERT_TRUE(run.ok() && (**run)().ok());
    EXPECT_TRUE(CompareOutputs(*(*run)->Outputs(), *reference, 1e-5).within) << group.name;
  }
  EXPECT_GE(groups, 3u);
  EXPECT_GE(copies, 2u);
}

}  // namespace
}  // namespace weft::driver
