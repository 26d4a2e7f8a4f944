#include "base/status.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/verdict.h"

namespace weft {
namespace {

TEST(Status, OneLine) {
  const Status status = Invalid("found 3 inputs, expected 2")
                            .At("node \"/conv1/Conv\"")
                            .Because("while importing")
                            .Because("model.onnx")
                            .At("elsewhere")
                            .Try("weft check");
  EXPECT_EQ(status.ToString(),
            "node \"/conv1/Conv\": found 3 inputs, expected 2 (model.onnx; while importing); try: "
            "weft check");
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().code(), Code::kOk);
  const Status copy = status;
  EXPECT_EQ(copy.ToString(), status.ToString());
  EXPECT_EQ(Status().At("here").Because("x").ToString(), "ok");
}

Result<int> Half(int x) {
  if (x % 2 != 0) return Invalid("odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  WEFT_TRY(const int half, Half(x));
  WEFT_TRY(Half(half));
  return Half(half);
}

TEST(Status, Try) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().what(), "odd");
  EXPECT_EQ(Quarter(5).status().code(), Code::kInvalid);
}

TEST(Verdict, ReasonsHaveNames) {
  EXPECT_EQ(ReasonName(Reason::kHaloRedundancy), "halo_redundancy");
  EXPECT_EQ(ReasonName(Reason::kIslQuota), "isl_quota");
  EXPECT_EQ(ParseReason("halo_redundancy"), Reason::kHaloRedundancy);
  EXPECT_EQ(ParseReason("HaloRedundancy"), std::nullopt);
  EXPECT_FALSE(ReasonText(Reason::kNotConvex).empty());
  const Verdict<int> no = Refusal{Reason::kNotConvex, "a -> b"};
  EXPECT_FALSE(no.yes());
  EXPECT_EQ(no.refusal().detail, "a -> b");
}

TEST(Check, EndsWithItsExitCode) {
  const int i = 3;
  WEFT_CHECK(i == 3);
  EXPECT_EXIT(WEFT_CHECK(i < 3, "axis {}", i), testing::ExitedWithCode(70),
              "status_test.cpp:[0-9]+: i < 3 does not hold: axis 3");
  EXPECT_EXIT(WEFT_UNREACHABLE(), testing::ExitedWithCode(70), "reachable");
  const auto handler = [](std::string_view message) {
    std::fprintf(stderr, "handled %zu\n", message.size());
    WEFT_CHECK(false, "a check that fails in the handler");
  };
  const auto fail = [&] {
    SetCheckHandler(handler);
    WEFT_CHECK(i < 3);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(70), "handled");
}

TEST(Hash, KnownValues) {  // FIPS 180-2, appendix B
  EXPECT_EQ(Sha256("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Hash, PartsDoNotRunTogether) {
  EXPECT_NE(Hasher().Add("ab").Add("c").Finish(), Hasher().Add("a").Add("bc").Finish());
  EXPECT_NE(Hasher().Add("").Finish(), Hasher().Finish());
  EXPECT_EQ(Hasher().Add("ab").Finish(), Hasher().Add("ab").Finish());
}

}  // namespace
}  // namespace weft
