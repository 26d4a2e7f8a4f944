// What a schedule tree asks for, made ready for writing loops: the inside of Lower.
//
// Every loop that the tree implies becomes a *dimension*, a variable of its own. A statement's
// indices are then known as affine functions of the dimensions around it (i = 6*i0 + i1, from the
// members floor(i/6) and i mod 6), and all that limits its instances, index ranges, places within
// tiles, padding guards, becomes one list of constraints over dimensions. Writing the loops is
// scanning these constraints: a bound, a split at a break point, a condition, or nothing where they
// surely hold.
//
// A reduction falls into *units*: init of its accumulators, update, and finish, which stores them;
// a blocked one also loads and spills a tile of them, and one whose even and odd steps are summed
// up apart starts and joins those two sums. Everything else is one unit. Units stand at the leaves.
//
// Variables: 0 .. params-1 are the program's params, then dimension d is Var(params + d).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/tree.h"
#include "tc_lang/program.h"

namespace weft::polyhedral::lower {

// kDomain: outside there is no instance. kGuard: outside the update adds nothing (a padded tap).
// kHint: the value is a choice between two expressions here; worth a split, never an exclusion.
enum class Limit : uint8_t { kDomain, kGuard, kHint };

struct Constraint {
  Affine e;  // >= 0, over dimensions
  Limit limit = Limit::kDomain;
};

enum class Part : uint8_t { kWhole, kInit, kLoad, kApart, kUpdate, kJoin, kSpill, kFinish };

struct Unit {
  int32_t statement = 0;
  Part part = Part::kWhole;
  std::vector<Affine> index;  // of the statement, over dimensions; of reduction indices only
                              // in kWhole and kUpdate
  std::vector<Constraint> constraints;
  std::vector<Var> dims;  // enclosing dimensions, outermost first
  tc::ExprId value;       // what is stored or added; the inside of a guarded value
  Var along = -1;         // kUpdate: the dimension whose loop ends where `length`, a segment's that
  tc::ExprId length;      // is read, does; -1: none
  bool flushes = false;   // kUpdate: products are added as VDPBF16PS or TDPBF16PS does
};

struct Dim {
  std::string name;
  loops::LoopKind kind = loops::LoopKind::kSerial;
  Interval range;      // over all its units
  bool turns = false;  // backwards in every other iteration of the loop around it
};
// Open ends are those of Affine::Bounds, which stay open whatever is added: B - 1 has no end
// either.
constexpr int64_t kOpenLo = INT64_MIN, kOpen = INT64_MAX;

// A node of the loop structure.
struct Step {
  enum class Kind : uint8_t { kLoop, kParallel, kSequence, kLabel, kUnit };
  Kind kind = Kind::kSequence;
  std::vector<Var> dims;  // kLoop: one; kParallel: those that are one range
  std::string label;
  int32_t unit = -1;
  std::vector<int32_t> units;  // of the whole subtree
  std::vector<Step> children;
};

// Accumulators of a reduction: one axis per dimension of the update that the reduction loops
// enclose and that is not itself reduced, then the lanes when a reduced dimension is a vector.
//
// When the reduction is blocked, loops over outputs stand between its outer and inner loops, or an
// axis has one of each. Then what the inner loops need has a tile of its own, loaded before them
// and spilled after; of a sum of floats it starts at zero and is added:
//   init all; for k0 { for i0 { load tile(i); for k1 { update tile(i) }; spill tile(i) } }; finish
//   all
struct Accumulator {
  std::map<Part, std::vector<Var>> axes;  // the same axes, in each unit that uses the accumulators
  std::map<Part, std::vector<Var>> tile;  // the axes of the tile; empty: not blocked
  bool blocked = false;
  // The innermost dimension, if products are added as TDPBF16PS does: its even and odd steps from
  // zero each, then those two, then the sum of both to what was there; -1: they are not.
  Var apart = -1;
  Var lanes = -1, init_lanes = -1;  // the reduced vector dimension in update and init
};

struct Plan {
  const tc::Program* program = nullptr;
  int32_t params = 0;
  std::vector<Dim> dims;
  std::vector<Unit> units;
  std::vector<Step> clusters;                   // in order; barriers between those that depend
  std::map<int32_t, Accumulator> accumulators;  // by statement
  std::vector<std::pair<std::string, std::string>> packs;  // tensor, layout
  std::vector<std::string> prefetches, streams;            // tensors
  bool checks_reads = false;  // all that are not plainly inside, as gathered ones are

  Dim& operator[](Var v) { return dims[v - params]; }
  const Dim& operator[](Var v) const { return dims[v - params]; }
  bool IsDim(Var v) const { return v >= params; }
};

Result<Plan> MakePlan(const tc::Program& program, const TreeNode& root);

// One member of a statement's path through the tree.
struct Member {
  Affine e;  // over the statement's indices
  Var dim = -1;
};

// Fills index and constraints of a unit from its path; `wanted[i]`: index i must come out.
Status SolveIndices(const tc::Program& program, const std::vector<Member>& path,
                    const std::vector<bool>& wanted, Unit& unit);
// Ranges of the dimensions by propagating the constraints of each unit.
void InferRanges(Plan& plan);

// An integer expression over dimensions, if it is affine. `index` are the statement's indices over
// dimensions.
std::optional<Affine> AffineOf(const tc::Program& program, tc::ExprId expr,
                               const std::vector<Affine>& index);
// A subscript that is read, if it is affine with numbers so small that offsets into memory fit.
std::optional<Affine> SubscriptOf(const tc::Program& program, tc::ExprId expr,
                                  const std::vector<Affine>& index);
// A condition as a conjunction of constraints >= 0, if it is one.
std::optional<std::vector<Affine>> ConjunctionOf(const tc::Program& program, tc::ExprId condition,
                                                 const std::vector<Affine>& index);
// All affine conditions below an expression.
void CollectConditions(const tc::Program& program, tc::ExprId expr,
                       const std::vector<Affine>& index, std::vector<Affine>& out);

}  // namespace weft::polyhedral::lower
