// What becomes of choices whose worker does not answer as it should.
#include "driver/trials.h"

#include <fmt/format.h>

#include "driver/one_group.h"
#include "driver/testing.h"

namespace weft::driver {
namespace {

using tuner::Outcome;

class TrialsTest : public ::testing::Test {
 protected:
  TrialsTest() {
    BuildOptions options = testing::Options();
    options.partition.force = partition::PartitionOptions::Force::kOwn;
    module_ =
        testing::Advanced("graph g (x: f32[40, 48], w: f32[48, 56]) -> (y) {\ny = MatMul(x, w)\n}",
                          Form::kCall, options);
    group_ = *OneGroup(module_, module_.grouping.groups.at(0));
    choices_.assign(2, module_.choices.begin()->second);
  }

  // By a shell that has read what it was asked, but for "open", to which all is well.
  Result<std::vector<tuner::Timing>> Measured(const std::string& then) {
    const std::string open =
        fmt::format("head -c {} > /dev/null; printf '\\0\\0\\0\\0'; ", kOpenBytes);
    auto measurer = TrialMeasurer::Open(group_, {"sh", "-c", open + then}, nullptr);
    EXPECT_TRUE(measurer.ok()) << measurer.status().ToString();
    return (*measurer)->Measure(choices_, 1);
  }
  // One frame of text; what is asked is taken.
  static std::string Says(const std::string& text) {
    return fmt::format("printf '\\{:03o}\\0\\0\\0%s' '{}'; cat > /dev/null", text.size(), text);
  }

  static const size_t kOpenBytes;
  Module module_, group_;
  std::vector<polyhedral::Choice> choices_;
};

const size_t TrialsTest::kOpenBytes =
    4 + ("open " + std::filesystem::temp_directory_path().string() + "/weft-trials-XXXXXX/group")
            .size();

TEST_F(TrialsTest, TimesAndReasonsComeBack) {
  const auto timed = Measured(Says("timed 2.5 3\nwrong it is off\n"));
  ASSERT_TRUE(timed.ok()) << timed.status().ToString();
  EXPECT_EQ((*timed)[0].us, (std::vector<double>{2.5, 3}));
  EXPECT_EQ((*timed)[1].outcome, Outcome::kWrong);
  EXPECT_EQ((*timed)[1].why, "it is off");
}

TEST_F(TrialsTest, ACrashIsOfTheNewChoice) {
  const auto timed = Measured("kill -SEGV $$");
  ASSERT_TRUE(timed.ok()) << timed.status().ToString();
  EXPECT_TRUE((*timed)[0].us.empty());
  EXPECT_EQ((*timed)[1].outcome, Outcome::kFailed);
  EXPECT_NE((*timed)[1].why.find("Segmentation fault"), std::string::npos) << (*timed)[1].why;
}

TEST_F(TrialsTest, NonsenseIsAnError) {
  for (const char* said : {"", "timed\n", "timed 1\n", "timed -1\ntimed 1\n", "soon\nsoon\n",
                           "timed nan\ntimed 1\n", "timed 1 x\ntimed 1\n"})
    EXPECT_FALSE(Measured(Says(said)).ok()) << said;
}

TEST_F(TrialsTest, NothingIsLeftBehind) {
  const auto count = [] {
    size_t n = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
      n += entry.path().filename().string().starts_with("weft-trials-");
    return n;
  };
  const size_t before = count();
  (void)Measured("exit 3");
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace weft::driver
