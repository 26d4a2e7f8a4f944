// The C interface, through the shared library and by its C++ face.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "plan/file.h"
#include "plan/memory.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

using plan::BufferId;
using plan::BufferKind;

// y = x + x by a native call: a plan without machine code.
std::string DoublingPlan() {
  plan::Plan plan{.name = "double"};
  plan.target = *HostTarget();
  plan::Specialization s;
  for (const auto& [name, kind] :
       {std::pair{"x", BufferKind::kInput}, std::pair{"y", BufferKind::kOutput}}) {
    plan::Buffer b{
        .name = name, .shape = {2, 3}, .layout = Layout::Plain(2), .kind = kind, .bytes = 24};
    s.buffers.push_back(b);
  }
  const auto operand = [](std::string role, std::string value) {
    return fallback::CallOperand{.role = std::move(role),
                                 .value = std::move(value),
                                 .shape = {2, 3},
                                 .layout = Layout::Plain(2)};
  };
  plan::Step step{.kind = plan::StepKind::kNative,
                  .name = "add",
                  .inputs = {BufferId(0), BufferId(0)},
                  .outputs = {BufferId(1)}};
  step.call.op = "Add";
  step.call.inputs = {operand("in0", "x"), operand("in1", "x")};
  step.call.outputs = {operand("out0", "y")};
  s.steps = {step};
  s.inputs = {BufferId(0)};
  s.outputs = {BufferId(1)};
  EXPECT_TRUE(plan::PlanMemory(s).ok());
  plan.specializations = {s};
  return *plan::SerializePlan(plan);
}

TEST(CApi, LoadsDescribesAndRuns) {
  EXPECT_EQ(weft_abi_version(), WEFT_ABI_VERSION);
  const std::string bytes = DoublingPlan();
  rt::Plan plan(bytes.data(), bytes.size(), {.threads = 1});
  ASSERT_EQ(plan.specializations(), 1u);
  const auto inputs = plan.inputs();
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].dtype, WEFT_F32);
  EXPECT_EQ(inputs[0].extents, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(plan.outputs()[0].bytes, 24u);
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[6] = {};
  plan.Run({x}, {y});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i], 2 * x[i]);
  EXPECT_THROW(plan.Run({}, {y}), std::invalid_argument);
  EXPECT_THROW(plan.Run({nullptr}, {y}), rt::Error);
  plan.Cancel();
  EXPECT_THROW(plan.Run({x}, {y}), rt::Error);
  plan.Run({x}, {y});
}

TEST(CApi, LoadsFromAFile) {
  const std::string path = testing::TempDir() + "/weft-c-api-test.plan";
  ASSERT_TRUE(WriteFileAtomically(path, DoublingPlan()).ok());
  EXPECT_EQ(rt::Plan(path).outputs()[0].name, "y");
  std::filesystem::remove(path);
  weft_plan* plan = nullptr;
  EXPECT_NE(weft_plan_load(path.c_str(), nullptr, &plan), WEFT_OK);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(std::string(weft_error_where()), path);
}

TEST(CApi, SaysWhatIsWrongInEachThreadApart) {
  weft_plan* plan = nullptr;
  EXPECT_EQ(weft_plan_load_bytes("WEFTPLAX", 8, nullptr, &plan), WEFT_INVALID);
  EXPECT_EQ(std::string(weft_error_what()), "not a plan file");
  EXPECT_EQ(std::string(weft_error_where()), "plan in memory: byte 0");
  EXPECT_EQ(weft_error_code(), WEFT_INVALID);
  EXPECT_STRNE(weft_error_hint(), "");
  std::thread([] { EXPECT_STREQ(weft_error_message(), ""); }).join();
  EXPECT_EQ(weft_plan_load_bytes(nullptr, 8, nullptr, &plan), WEFT_USAGE);
  EXPECT_EQ(weft_plan_load(nullptr, nullptr, &plan), WEFT_USAGE);
  EXPECT_EQ(weft_plan_load("x", nullptr, nullptr), WEFT_USAGE);
}

TEST(CApi, BearsWrongArguments) {
  const std::string bytes = DoublingPlan();
  weft_plan* plan = nullptr;
  weft_options old{};  // of no size: a caller that forgot to set it
  EXPECT_EQ(weft_plan_load_bytes(bytes.data(), bytes.size(), &old, &plan), WEFT_USAGE);
  old = {.struct_bytes = sizeof old, .threads = 1, .cache_dir = "/dev/null"};
  EXPECT_EQ(weft_plan_load_bytes(bytes.data(), bytes.size(), &old, &plan), WEFT_INVALID);
  old = {.struct_bytes = offsetof(weft_options, cache_dir), .threads = 1, .cache_dir = "/dev/null"};
  ASSERT_EQ(weft_plan_load_bytes(bytes.data(), bytes.size(), &old, &plan), WEFT_OK)
      << weft_error_message();
  weft_tensor t{};
  EXPECT_EQ(weft_plan_input(plan, 0, 0, &t), WEFT_USAGE);
  t.struct_bytes = sizeof t;
  EXPECT_EQ(weft_plan_input(plan, 0, 1, &t), WEFT_USAGE);
  EXPECT_EQ(weft_plan_input(plan, 1, 0, &t), WEFT_USAGE);
  EXPECT_EQ(weft_plan_input(plan, 0, 0, nullptr), WEFT_USAGE);
  EXPECT_EQ(weft_plan_input(plan, 0, 0, &t), WEFT_OK);
  EXPECT_EQ(weft_plan_run(plan, 0, nullptr, nullptr, nullptr), WEFT_USAGE);
  EXPECT_EQ(weft_plan_run(plan, 3, nullptr, nullptr, nullptr), WEFT_USAGE);
  EXPECT_EQ(weft_plan_run(nullptr, 0, nullptr, nullptr, nullptr), WEFT_USAGE);
  EXPECT_EQ(weft_plan_inputs(plan, 9), 0u);
  EXPECT_EQ(weft_plan_arena_bytes(nullptr, 0), 0u);
  weft_plan_cancel(nullptr);
  weft_plan_free(nullptr);
  weft_plan_free(plan);
}

}  // namespace
}  // namespace weft
