// Builds begin with the choice on record, where it is one.
#include "driver/stages.h"
#include "driver/testing.h"
#include "tuner/best.h"

namespace weft::driver {
namespace {

class TunedChoicesTest : public ::testing::Test {
 protected:
  TunedChoicesTest() {
    options_.partition.vendor = false;
    options_.tuning = db_.get();
  }

  Module Made() const {
    return testing::Advanced(
        "graph g (x: f32[40, 48], w: f32[48, 56]) -> (y) {\ny = MatMul(x, w)\n}", Form::kChoices,
        options_);
  }

  void Record(const Module& module, const polyhedral::Choice& choice) {
    const partition::GraphFacts facts(module.graph);
    GroupProgram program;
    ASSERT_TRUE(FillGroupProgram(module, facts, module.grouping.groups[0], options_, program).ok());
    tuner::StoreBest(program.request, choice, {.samples = 9}, *db_);
  }

  const std::unique_ptr<TuningDb> db_ = *TuningDb::Open(":memory:");
  BuildOptions options_ = testing::Options();
};

TEST_F(TunedChoicesTest, AreTaken) {
  const Module before = Made();
  polyhedral::Choice choice = before.choices.begin()->second;
  choice.clusters[0].parallel = 0;
  choice.clusters[0].unroll.clear();
  ASSERT_NE(choice, before.choices.begin()->second);
  Record(before, choice);
  EXPECT_EQ(Made().choices.begin()->second, choice);
}

TEST_F(TunedChoicesTest, AreNotTakenWhereTheyAreIllegal) {
  const Module before = Made();
  polyhedral::Choice choice = before.choices.begin()->second;
  choice.clusters[0].order.emplace_back("nowhere");
  Record(before, choice);
  EXPECT_EQ(Made().choices, before.choices);
}

}  // namespace
}  // namespace weft::driver
