// A schedule tree as plain data: what order instances run in, read from outside inwards.
//
// A statement of the program with n indices has an instance for each point of its index box. The
// tree (Verdoolaege et al., Schedule Trees, IMPACT 2014) says when each runs:
//
//   domain    all instances of all statements; always the root
//   band      loops. Each member gives every instance below a number (an affine function of its
//             indices, floors allowed); instances run by ascending numbers, first member first.
//             `permutable`: members may be interchanged, hence tiled. `coincident`: no dependence
//             runs along this member, hence it may be parallel
//   sequence  its filters run one after another
//   filter    only the statements named go on below
//   mark      a note on the band below; the ones that Lower understands are
//               parallel N   the first N members are one range, split over the team
//               turn         the first member runs backwards in every other iteration of the loop
//                            around it
//               unroll       every member is expanded
//               vector       the last member runs along lanes
//               leaf TEXT    a label on the generated code
//               pack T L     directly below the domain: operand T is laid out as L
//               prefetch T   likewise: the next panel, or a later row, of operand T is fetched
//               ahead stream T     likewise: whole vectors of output T are stored past the caches
//
// The text is isl's own block form, so isl reads, checks and draws it:
//
//   domain: "{ y[i, k] : 0 <= i < 56 and 0 <= k < 64 }"
//   child:
//     mark: "parallel 1"
//     child:
//       schedule: "[{ y[i, k] -> [(floor(i/8))] }]"
//       permutable: 1
//       coincident: [ 1 ]
//       child: …
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "base/verdict.h"
#include "polyhedral/copies.h"
#include "polyhedral/schedule.h"
#include "tc_lang/program.h"

namespace weft::polyhedral {

struct TreeNode {
  enum class Kind : uint8_t { kDomain, kBand, kSequence, kFilter, kMark, kLeaf };
  Kind kind = Kind::kLeaf;
  // kBand: members[m][s] over the indices of statement s (Var i = indices[i]); those below only.
  std::vector<std::map<int32_t, Affine>> members;
  bool permutable = false;
  std::vector<bool> coincident;     // one per member
  std::vector<int32_t> statements;  // kFilter, sorted
  std::string mark;
  std::vector<TreeNode> children;  // one, but for sequences (filters) and leaves (none)
};

// Statements by name: that of the target, with _2, _3, … where a tensor is written several times,
// and changed where isl would take it for a word of its own.
std::vector<std::string> StatementNames(const tc::Program& program);

ScheduleTree PrintTree(const tc::Program& program, const TreeNode& root);
// The tree that a text describes, and the program that it orders: the request's, with copies of the
// operands that it packs. Refuses (kIslError, kChoiceDoesNotFit) what is no tree over exactly this
// program's instances, and nodes that Lower has no meaning for.
struct OrderedProgram {
  CopiedRequest copied;
  TreeNode root;
};
Verdict<OrderedProgram> ReadTree(const ScheduleRequest& request, const ScheduleTree& tree,
                                 const ScheduleLimits& limits = {});

// Small makers.
TreeNode Mark(std::string text, TreeNode child);
TreeNode Filter(std::vector<int32_t> statements, TreeNode child);

}  // namespace weft::polyhedral
