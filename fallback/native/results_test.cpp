// Where results of natives go: into memory of their own, or an operand's that nobody needs.
#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

std::vector<Tensor> RunOn(const std::string& op, std::vector<Tensor>& own) {
  LibraryCall call{.op = op};
  std::vector<const Tensor*> inputs;
  for (const Tensor& t : own) {
    call.inputs.push_back({.role = "in", .value = "x"});
    inputs.push_back(&t);
  }
  call.outputs.push_back({.role = "out0", .value = "y"});
  auto results = RunNative(call, inputs, 1 << 20, own);
  EXPECT_TRUE(results.ok()) << results.status().ToString();
  return *std::move(results);
}

Tensor Three() { return Make(Dtype::kF32, {3}, {1, -2, 3}); }

TEST(Results, TakeTheMemoryOfAnOperand) {
  std::vector<Tensor> own{Three()};
  const void* const at = own[0].data();
  const auto y = RunOn("Neg", own);
  EXPECT_EQ(y[0].data(), at);
  EXPECT_EQ(Values(y[0]), (std::vector<double>{-1, 2, -3}));
}

TEST(Results, LeaveWhatOthersHave) {
  const Tensor kept = Three();
  std::vector<Tensor> own{kept};
  EXPECT_NE(RunOn("Neg", own)[0].data(), kept.data());
  EXPECT_EQ(Values(kept), (std::vector<double>{1, -2, 3}));
  float numbers[] = {1, 2, 3};
  std::vector<Tensor> borrowed{Tensor::Borrow(Dtype::kF32, {3}, nullptr, numbers)};
  EXPECT_NE(RunOn("Neg", borrowed)[0].data(), static_cast<const void*>(numbers));
  EXPECT_EQ(numbers[0], 1);
}

// An operand that is stretched is read again for other elements.
TEST(Results, TakeNoOperandOfAnotherShape) {
  std::vector<Tensor> own{Make(Dtype::kF32, {1}, {10}), Three()};
  const void* const at = own[1].data();
  const auto y = RunOn("Add", own);
  EXPECT_EQ(y[0].data(), at);
  EXPECT_EQ(Values(y[0]), (std::vector<double>{11, 8, 13}));
  std::vector<Tensor> both{Make(Dtype::kF32, {2, 1}, {10, 20}), Make(Dtype::kF32, {1, 2}, {1, 2})};
  EXPECT_EQ(Values(RunOn("Add", both)[0]), (std::vector<double>{11, 12, 21, 22}));
  std::vector<Tensor> of_bool{Three(), Three()};
  EXPECT_EQ(RunOn("Less", of_bool)[0].dtype(), Dtype::kBool);
}

TEST(Results, ShareWhatOnlyChangesItsShape) {
  const Tensor kept = Three();
  std::vector<Tensor> own{kept};
  const auto y = RunOn("Identity", own);
  EXPECT_EQ(y[0].data(), kept.data());
  EXPECT_FALSE(y[0].IsSole());
  float numbers[] = {1, 2, 3};  // which may be gone sooner than the result
  std::vector<Tensor> borrowed{Tensor::Borrow(Dtype::kF32, {3}, nullptr, numbers)};
  EXPECT_NE(RunOn("Identity", borrowed)[0].data(), static_cast<const void*>(numbers));
}

}  // namespace
}  // namespace weft::fallback::native
