#include "polyhedral/choice/choice.h"

#include <gtest/gtest.h>

namespace weft::polyhedral {
namespace {

constexpr std::string_view kText =
    "conv1_relu1: cluster conv1 relu1 | order n h w k | tile w 6, k 64 16 | parallel n h | "
    "inner c r s w k | together w | unroll w | vector k 16 | dot c | cluster pool1 | order n c | "
    "pack w1 "
    "Acdb64a, b "
    "acdb+16 | prefetch w1 | stream y | "
    "map tiles 64 128 16 8 4\n"
    "\"odd name\": cluster y | order t | inner k j | share k j | turn k | unroll k | cluster y | "
    "dot k "
    "flush\n"
    "flush: cluster y | dot k | map rows 256\n";

TEST(Choice, RoundTrips) {
  const auto choices = ParseChoices(kText, "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  ASSERT_EQ(choices->size(), 3u);
  EXPECT_EQ(Print((*choices)[0]) + Print((*choices)[1]) + Print((*choices)[2]), kText);
  EXPECT_EQ((*choices)[0].clusters[0].parallel, 2);
  EXPECT_EQ((*choices)[0].clusters[0].tiles[1].sizes, (std::vector<int64_t>{64, 16}));
  EXPECT_EQ((*choices)[0].clusters[0].dot_axis, "c");
  EXPECT_FALSE((*choices)[0].clusters[0].dot_flushes);
  EXPECT_EQ((*choices)[0].clusters[0].together, "w");
  EXPECT_EQ((*choices)[1].clusters[0].shares, (std::vector<std::string>{"k", "j"}));
  EXPECT_EQ((*choices)[1].clusters[0].turns, std::vector<std::string>{"k"});
  EXPECT_TRUE((*choices)[1].clusters[1].dot_flushes);
  EXPECT_EQ((*choices)[0].packs.size(), 2u);
  EXPECT_EQ((*choices)[0].prefetches, std::vector<std::string>{"w1"});
  EXPECT_EQ((*choices)[0].streams, std::vector<std::string>{"y"});
  EXPECT_EQ((*choices)[0].map, (GridMap{"tiles", {64, 128, 16, 8, 4}}));
  EXPECT_EQ((*choices)[1].map, GridMap{});
}

TEST(Choice, SaysWhatIsWrong) {
  const auto message = [](std::string_view text) {
    return ParseChoices(text, "f").status().ToString();
  };
  EXPECT_NE(message("g: order n").find("expected cluster"), std::string::npos);
  EXPECT_NE(message("g: cluster a | order n h | parallel h").find("first axes"), std::string::npos);
  EXPECT_NE(message("g: cluster a | tile n 0").find("positive"), std::string::npos);
  EXPECT_NE(message("g: cluster a | vector n 65").find("1 to 64"), std::string::npos);
  EXPECT_NE(message("g: cluster a | fly").find("f:1:"), std::string::npos);
}

}  // namespace
}  // namespace weft::polyhedral
