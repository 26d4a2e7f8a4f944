#include "polyhedral/lower/emit.h"
#include "polyhedral/lower/plan.h"
#include "polyhedral/schedule.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// Break points of padding split an axis in several loops, and then what was one parallel band has
// parallel loops below several parts of the outer one. Ranks share one range only, so those inside
// run in order.
void RunBuriedParallelInOrder(loops::LoopNest& nest, const std::vector<loops::StmtId>& body,
                              bool inside, bool direct) {
  for (loops::StmtId id : body) {
    loops::Stmt& s = nest.stmts[id.index];
    if (s.loop == loops::LoopKind::kParallel && s.kind == loops::StmtKind::kFor && inside &&
        !(direct && body.size() == 1))
      s.loop = loops::LoopKind::kSerial;
    const bool is_parallel =
        s.kind == loops::StmtKind::kFor && s.loop == loops::LoopKind::kParallel;
    const std::vector<loops::StmtId> then = s.body, otherwise = s.otherwise;
    RunBuriedParallelInOrder(nest, then, inside || is_parallel, is_parallel);
    RunBuriedParallelInOrder(nest, otherwise, inside || is_parallel, false);
  }
}

Result<loops::LoopNest> Nest(const ScheduleRequest& request, const lower::Plan& plan) {
  WEFT_TRY(loops::LoopNest nest, lower::Emit(request, plan));
  RunBuriedParallelInOrder(nest, nest.body, false, false);
  WEFT_TRY(loops::Verify(nest));
  return nest;
}

}  // namespace

Result<loops::LoopNest> Lower(const ScheduleRequest& request, const Choice& choice,
                              const ScheduleTree& tree, Unproved unproved) {
  (void)choice;  // all of it stands in the tree
  const auto ordered = ReadTree(request, tree);
  if (!ordered.yes()) return ToStatus(ordered.refusal(), Code::kInvalid);
  const ScheduleRequest& copied = ordered->copied.request;
  WEFT_TRY(lower::Plan plan, lower::MakePlan(*copied.program, ordered->root));
  auto nest = Nest(copied, plan);
  if (nest.ok() || nest.status().code() != Code::kInternal || unproved == Unproved::kRefused)
    return nest;
  plan.checks_reads = true;
  return Nest(copied, plan);
}

}  // namespace weft::polyhedral
