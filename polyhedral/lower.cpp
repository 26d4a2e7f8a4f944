#include <fmt/format.h>

#include "polyhedral/lower/emit.h"
#include "polyhedral/lower/plan.h"
#include "polyhedral/schedule.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {

Result<loops::LoopNest> Lower(const ScheduleRequest& request, const Choice& choice,
                              const ScheduleTree& tree) {
  (void)choice;  // all of it stands in the tree
  auto root = ReadTree(*request.program, tree);
  if (!root.yes()) {
    return Invalid(fmt::format("{}: {}", ReasonName(root.refusal().reason), root.refusal().detail));
  }
  WEFT_TRY(const lower::Plan plan, lower::MakePlan(*request.program, *root));
  WEFT_TRY(loops::LoopNest nest, lower::Emit(request, plan));
  WEFT_TRY(loops::Verify(nest));
  return nest;
}

}  // namespace weft::polyhedral
