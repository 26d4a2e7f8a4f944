#include "base/log.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Log, LevelsAndTopics) {
  EXPECT_FALSE(LogEnabled("a", LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled("a", LogLevel::kWarning));
  ASSERT_TRUE(ConfigureLog("a=debug").ok());
  EXPECT_TRUE(LogEnabled("a", LogLevel::kDebug));
  EXPECT_FALSE(LogEnabled("b", LogLevel::kInfo));
  ASSERT_TRUE(ConfigureLog("off").ok());
  EXPECT_TRUE(LogEnabled("a", LogLevel::kDebug));
  EXPECT_FALSE(LogEnabled("b", LogLevel::kError));
  ASSERT_TRUE(ConfigureLog("a=off").ok());
  EXPECT_FALSE(LogEnabled("a", LogLevel::kError));
  ASSERT_TRUE(ConfigureLog("warning").ok());
  ASSERT_TRUE(ConfigureLog("a=warning").ok());
  for (const char* bad : {"", "loud", "=debug", "a=", "a=loud", "a=b=debug"}) {
    EXPECT_EQ(ConfigureLog(bad).code(), Code::kUsage) << bad;
  }
}

TEST(Log, FormatsOnlyWhatIsWanted) {
  int formatted = 0;
  const auto count = [&] { return ++formatted; };
  WEFT_LOG(kDebug, "topic", "{}", count());
  EXPECT_EQ(formatted, 0);
  testing::internal::CaptureStderr();
  WEFT_LOG(kError, "topic", "{} kernels", count());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft: error: topic: 1 kernels\n");
  testing::internal::CaptureStderr();
  WEFT_LOG(kError, "topic", "{}", "a\n\x1b[2J\"\\\xff");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft: error: topic: a\\n\\x1b[2J\"\\\\xff\n");
}

}  // namespace
}  // namespace weft
