#include "polyhedral/lower/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "base/check.h"
#include "polyhedral/scop.h"

namespace weft::polyhedral::lower {
namespace {

using Kind = TreeNode::Kind;

// What the marks above a band say about its members.
struct Marks {
  bool unroll = false, vector = false, flush = false, apart = false, turn = false;
  int32_t parallel = 0;
  std::vector<std::string> labels;
};

// A member on the way to a single statement.
struct Link {
  Affine e;
  loops::LoopKind kind = loops::LoopKind::kSerial;
  bool parallel = false, flush = false, apart = false, turns = false;
  std::vector<std::string> labels;  // stand before this loop
};

class Builder {
 public:
  Builder(const tc::Program& program, Plan& plan) : program_(program), plan_(plan) {
    paths_.resize(program.statements.size());
  }

  Status Run(const TreeNode& root) {
    if (root.kind != Kind::kDomain) return Invalid("a schedule tree begins with its domain");
    const TreeNode* node = root.children.empty() ? nullptr : &root.children[0];
    while (node && node->kind == Kind::kMark) {
      std::istringstream words(node->mark);
      std::string what, tensor, layout;
      words >> what >> tensor >> layout;
      if (what != "pack" && what != "prefetch" && what != "stream") break;
      if (what == "pack") plan_.packs.emplace_back(tensor, layout);
      if (what == "prefetch") plan_.prefetches.push_back(tensor);
      if (what == "stream") plan_.streams.push_back(tensor);
      node = node->children.empty() ? nullptr : &node->children[0];
    }
    std::vector<int32_t> all(program_.statements.size());
    for (size_t s = 0; s < all.size(); ++s) all[s] = static_cast<int32_t>(s);
    if (node && node->kind == Kind::kSequence) {
      for (const TreeNode& child : node->children) {
        WEFT_TRY(plan_.clusters.emplace_back(), Subtree(&child, all));
      }
    } else if (!all.empty()) {
      WEFT_TRY(plan_.clusters.emplace_back(), Subtree(node, all));
    }
    for (Step& step : plan_.clusters) CollectUnits(step);
    return {};
  }

 private:
  // Marks above a band, a filter or the leaf; returns the first node that is none.
  Result<const TreeNode*> TakeMarks(const TreeNode* node, Marks& marks) {
    while (node && node->kind == Kind::kMark) {
      const std::string_view text = node->mark;
      if (text == "unroll") {
        marks.unroll = true;
      } else if (text == "vector") {
        marks.vector = true;
      } else if (text == "turn") {
        marks.turn = true;
      } else if (text == "flush") {
        marks.flush = true;
      } else if (text == "flush apart") {
        marks.flush = marks.apart = true;
      } else if (text.starts_with("parallel ")) {
        std::from_chars(text.data() + 9, text.data() + text.size(), marks.parallel);
      } else if (text.starts_with("leaf")) {
        marks.labels.emplace_back(text);
      } else {
        return Invalid(
            fmt::format("found mark \"{}\", expected parallel, turn, unroll, vector, flush, flush "
                        "apart or leaf",
                        text));
      }
      node = node->children.empty() ? nullptr : &node->children[0];
    }
    return node;
  }

  static std::vector<Link> Links(const TreeNode& band, const Marks& marks, int32_t s) {
    std::vector<Link> links;
    for (size_t m = 0; m < band.members.size(); ++m) {
      Link link{.e = s >= 0 ? band.members[m].at(s) : Affine(0)};
      link.parallel = static_cast<int32_t>(m) < marks.parallel;
      link.flush = marks.flush;
      link.apart = marks.apart;
      link.turns = marks.turn && m == 0;
      if (marks.unroll) link.kind = loops::LoopKind::kUnroll;
      if (marks.vector && m + 1 == band.members.size()) link.kind = loops::LoopKind::kVector;
      if (m == 0) link.labels = marks.labels;
      links.push_back(link);
    }
    return links;
  }

  Result<Step> Subtree(const TreeNode* node, std::vector<int32_t> statements) {
    if (statements.size() == 1) return Single(node, statements[0]);
    Marks marks;
    WEFT_TRY(node, TakeMarks(node, marks));
    if (!node) return Unsupported("several statements share a leaf of the schedule tree");
    switch (node->kind) {
      case Kind::kFilter: {
        statements = node->statements;
        return Subtree(node->children.empty() ? nullptr : &node->children[0], statements);
      }
      case Kind::kSequence: {
        Step step{.kind = Step::Kind::kSequence};
        for (const TreeNode& child : node->children) {
          WEFT_TRY(step.children.emplace_back(), Subtree(&child, statements));
        }
        return Labelled(std::move(step), marks.labels);
      }
      case Kind::kBand:
        return SharedBand(*node, marks, statements);
      default:
        return Invalid("a domain inside the schedule tree");
    }
  }

  Result<Step> SharedBand(const TreeNode& band, const Marks& marks,
                          const std::vector<int32_t>& statements) {
    const std::vector<Link> links = Links(band, marks, -1);
    std::vector<Var> dims;
    for (size_t m = 0; m < links.size(); ++m) {
      for (const int32_t s : statements) {
        if (!band.members[m].contains(s)) return Invalid("a band leaves out a statement below it");
      }
      dims.push_back(NewDim(NameOf(band.members[m], statements), links[m].kind));
      for (const int32_t s : statements) {
        paths_[s].push_back({band.members[m].at(s), dims.back()});
      }
    }
    const auto saved = paths_;
    WEFT_TRY(Step below, Subtree(band.children.empty() ? nullptr : &band.children[0], statements));
    paths_ = saved;
    const size_t parallel = std::min<size_t>(marks.parallel, dims.size());
    for (const CarriedSum& sum : carried_) {  // legal only where it has one iteration
      if (std::find(dims.begin(), dims.begin() + parallel, sum.dim) != dims.begin() + parallel)
        return Unsupported("a reduction axis that the team shares out");
    }
    for (size_t m = dims.size(); m-- > parallel;) {
      below = Wrap({dims[m]}, 0, std::move(below));
      WEFT_TRY(below, AroundSums(dims[m], statements, std::move(below)));
    }
    return Labelled(Wrap({dims.begin(), dims.begin() + parallel}, marks.parallel, std::move(below)),
                    marks.labels);
  }

  // Sums that go on from one iteration of a shared loop to the next begin before it and end after.
  Result<Step> AroundSums(Var dim, const std::vector<int32_t>& statements, Step loop) {
    Step sequence{.kind = Step::Kind::kSequence}, ends{.kind = Step::Kind::kSequence};
    for (CarriedSum& sum : carried_) {
      if (sum.dim != dim) continue;
      const tc::TensorId target = program_.statements[sum.statement].target;
      for (const int32_t s : statements) {
        if (s == sum.statement) continue;
        const auto is_target = [&](tc::ExprId read) { return program_[read].tensor == target; };
        if (program_.statements[s].target == target ||
            std::ranges::any_of(tc::Reads(program_, program_.statements[s]), is_target))
          return Unsupported("a sum that is used in the loop that it goes on over");
      }
      sequence.children.push_back(std::move(sum.init));
      ends.children.push_back(std::move(sum.finish));
    }
    if (sequence.children.empty()) return loop;
    sequence.children.push_back(std::move(loop));
    for (Step& end : ends.children) sequence.children.push_back(std::move(end));
    return sequence;
  }

  // Puts the loops of `dims` around a step; the first `parallel` of them as one.
  Step Wrap(const std::vector<Var>& dims, int32_t parallel, Step below) {
    const auto count = std::min<size_t>(parallel, dims.size());
    for (size_t m = dims.size(); m-- > count;) {
      Step loop{.kind = Step::Kind::kLoop, .dims = {dims[m]}};
      loop.children.push_back(std::move(below));
      below = std::move(loop);
    }
    if (count == 0) return below;
    Step loop{.kind = Step::Kind::kParallel, .dims = {dims.begin(), dims.begin() + count}};
    for (const Var v : loop.dims) plan_[v].kind = loops::LoopKind::kParallel;
    loop.children.push_back(std::move(below));
    return loop;
  }

  static Step Labelled(Step step, const std::vector<std::string>& labels) {
    for (size_t i = labels.size(); i-- > 0;) {
      Step label{.kind = Step::Kind::kLabel, .label = labels[i]};
      label.children.push_back(std::move(step));
      step = std::move(label);
    }
    return step;
  }

  // The chain of bands down to one statement.
  Result<Step> Single(const TreeNode* node, int32_t s) {
    std::vector<Link> links;
    while (node) {
      Marks marks;
      WEFT_TRY(node, TakeMarks(node, marks));
      if (!node) break;
      if (node->kind == Kind::kSequence) {
        const auto holds = [s](const TreeNode& f) {
          return std::ranges::count(f.statements, s) > 0;
        };
        const auto found = std::ranges::find_if(node->children, holds);
        if (found == node->children.end()) return Invalid("a sequence leaves out a statement");
        node = &*found;
      } else if (node->kind == Kind::kBand) {
        for (const auto& member : node->members) {
          if (!member.contains(s)) return Invalid("a band leaves out a statement below it");
        }
        const std::vector<Link> more = Links(*node, marks, s);
        links.insert(links.end(), more.begin(), more.end());
      }
      node = node->children.empty() ? nullptr : &node->children[0];
    }
    const bool reduces = program_.statements[s].assign != tc::Assign::kSet;
    return reduces ? Reduction(s, links) : Whole(s, links);
  }

  Result<Step> Whole(int32_t s, const std::vector<Link>& links) {
    std::vector<Member> path = paths_[s];
    std::vector<Var> dims;
    for (const Link& link : links) dims.push_back(Extend(s, link, path));
    WEFT_TRY(Step leaf, MakeUnit(s, Part::kWhole, path));
    return Chain(links, dims, std::move(leaf));
  }

  Result<Step> Reduction(int32_t s, const std::vector<Link>& links) {
    size_t first = 0;
    while (first < links.size() && !Reduces(s, links[first].e)) ++first;
    const auto reduces = [&](const Member& member) { return Reduces(s, member.e); };
    const auto shared = std::ranges::find_if(paths_[s], reduces);
    if (shared != paths_[s].end()) {
      if (!std::all_of(shared, paths_[s].end(), reduces))
        return Unsupported("a reduction axis around another in a band that other statements share");
      return Carried(s, links, shared - paths_[s].begin());
    }
    const std::vector<Link> outer(links.begin(), links.begin() + first);
    std::vector<Link> rest(links.begin() + first, links.end());
    for (Link& link : rest) link.parallel = false;  // legal only where it has one iteration
    std::vector<Member> path = paths_[s];
    std::vector<Var> outer_dims;
    for (const Link& link : outer) outer_dims.push_back(Extend(s, link, path));

    Accumulator& acc = plan_.accumulators[s];
    // Matrices add to all sums where they are.
    const bool apart = std::ranges::any_of(links, &Link::apart);
    const size_t cut = apart ? 0 : BlockedAt(s, rest);
    acc.blocked = cut > 0;
    const std::vector<Link> blocks(rest.begin(), rest.begin() + cut),
        tile(rest.begin() + cut, rest.end());

    std::vector<Member> block_path = path;
    std::vector<Var> block_dims;
    for (const Link& link : blocks) block_dims.push_back(Extend(s, link, block_path));
    std::vector<Member> update_path = block_path;
    std::vector<Var> update_dims;
    for (const Link& link : tile) {
      update_dims.push_back(Extend(s, link, update_path));
      if (Reduces(s, link.e) && link.kind == loops::LoopKind::kVector)
        acc.lanes = update_dims.back();
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (!Reduces(s, blocks[i].e)) acc.axes[Part::kUpdate].push_back(block_dims[i]);
    }
    const std::vector<Var> kept = acc.axes[Part::kUpdate];
    acc.axes[Part::kLoad] = acc.axes[Part::kSpill] = kept;
    acc.tile[Part::kUpdate] = {};
    for (size_t i = 0; i < tile.size(); ++i) {
      if (Reduces(s, tile[i].e)) continue;
      acc.axes[Part::kUpdate].push_back(update_dims[i]);
      acc.tile[Part::kUpdate].push_back(update_dims[i]);
    }

    Step sequence{.kind = Step::Kind::kSequence};
    WEFT_TRY(Step init, Edge(s, Part::kInit, path, rest));
    WEFT_TRY(Step update, MakeUnit(s, Part::kUpdate, update_path));
    if (std::ranges::any_of(links, &Link::flush)) WEFT_TRY(MakeFlush(plan_.units[update.unit]));
    if (acc.lanes >= 0) {
      // A lane axis of one iteration orders nothing, so legality lets it pass whatever the
      // companion.
      if (program_.statements[s].companion.valid() &&
          !FirstIsLeast(program_, program_.statements[s]))
        return Unsupported("a tuple reduction whose companion is no growing index along lanes");
      LimitLanes(acc);
    }
    if (apart) {
      WEFT_TRY(update, SumsApart(s, tile, update_dims, update_path, std::move(update)));
    } else {
      update = Chain(tile, update_dims, std::move(update));
    }
    if (acc.blocked) {
      Step around{.kind = Step::Kind::kSequence};
      WEFT_TRY(Step load, Edge(s, Part::kLoad, block_path, tile));
      WEFT_TRY(Step spill, Edge(s, Part::kSpill, block_path, tile));
      around.children.push_back(std::move(load));
      around.children.push_back(std::move(update));
      around.children.push_back(std::move(spill));
      update = Chain(blocks, block_dims, std::move(around));
    }
    WEFT_TRY(Step finish, Edge(s, Part::kFinish, path, rest));
    sequence.children.push_back(std::move(init));
    sequence.children.push_back(std::move(update));
    sequence.children.push_back(std::move(finish));
    return Chain(outer, outer_dims, std::move(sequence));
  }

  // A reduction along a loop that other statements share, from that member of its path on.
  Result<Step> Carried(int32_t s, std::vector<Link> links, std::ptrdiff_t from) {
    const auto in_lanes = [&](const Link& link) {
      return Reduces(s, link.e) && link.kind == loops::LoopKind::kVector;
    };
    if (std::ranges::any_of(links, in_lanes) || std::ranges::any_of(links, &Link::flush) ||
        program_.statements[s].companion.valid())
      return Unsupported("a reduction in a band that other statements share, and along lanes");
    for (Link& link : links) link.parallel = false;
    const std::vector<Member> before(paths_[s].begin(), paths_[s].begin() + from);
    std::vector<Member> path = paths_[s];
    std::vector<Var> dims;
    Accumulator& acc = plan_.accumulators[s];
    for (const Link& link : links) {
      dims.push_back(Extend(s, link, path));
      if (!Reduces(s, link.e)) acc.axes[Part::kUpdate].push_back(dims.back());
    }
    acc.tile[Part::kUpdate] = acc.axes[Part::kUpdate];
    CarriedSum sum{.statement = s, .dim = paths_[s][from].dim};
    WEFT_TRY(sum.init, Edge(s, Part::kInit, before, links));
    WEFT_TRY(Step update, MakeUnit(s, Part::kUpdate, path));
    WEFT_TRY(sum.finish, Edge(s, Part::kFinish, before, links));
    carried_.push_back(std::move(sum));
    return Chain(links, dims, std::move(update));
  }

  // The loops around an update whose innermost steps are summed up apart, even and odd ones.
  Result<Step> SumsApart(int32_t s, std::vector<Link> links, std::vector<Var> dims,
                         std::vector<Member> path, Step update) {
    if (links.empty() || !links.back().apart || !Reduces(s, links.back().e))
      return Unsupported("sums apart of steps that are not the innermost");
    Accumulator& acc = plan_.accumulators[s];
    if (acc.lanes >= 0) return Unsupported("sums apart in each of the lanes of a sum");
    acc.apart = dims.back();
    for (const Part part : {Part::kApart, Part::kJoin}) acc.axes[part] = acc.axes[Part::kUpdate];
    Step sums{.kind = Step::Kind::kSequence};
    path.pop_back();
    WEFT_TRY(Step start, MakeUnit(s, Part::kApart, path));
    WEFT_TRY(Step join, MakeUnit(s, Part::kJoin, path));
    LimitToSteps(acc.apart, plan_.units[update.unit], {start.unit, join.unit});
    sums.children.push_back(std::move(start));
    sums.children.push_back(Chain({links.back()}, {dims.back()}, std::move(update)));
    sums.children.push_back(std::move(join));
    links.pop_back();
    dims.pop_back();
    return Chain(links, dims, std::move(sums));
  }

  // Where an update has no step at all, nothing starts or is joined.
  void LimitToSteps(Var dim, const Unit& update, std::initializer_list<int32_t> units) {
    Plan probe = plan_;
    InferRanges(probe);
    const Interval steps = probe[dim].range;
    std::vector<Constraint> some;  // step is there
    for (const Constraint& c : update.constraints) {
      const int64_t by = c.e.CoefficientOf(dim);
      const Affine rest = c.e - Affine::OfVar(dim, by);
      if (c.limit == Limit::kDomain && !rest.Uses(dim))
        some.push_back({rest + by * (by > 0 ? steps.hi : steps.lo)});
    }
    for (const int32_t u : units) {
      std::vector<Constraint>& all = plan_.units[u].constraints;
      all.insert(all.end(), some.begin(), some.end());
    }
  }

  Status MakeFlush(Unit& unit) {
    const tc::Statement& statement = program_.statements[unit.statement];
    if (statement.assign != tc::Assign::kSum || !tc::IsBfloatProduct(program_, unit.value)) {
      return Unsupported(fmt::format("{} is no sum of products of bfloat16, which alone is flushed",
                                     program_[statement.target].name));
    }
    unit.flushes = true;
    return {};
  }

  // Where the last serial loop over outputs ends that a reduction loop follows: the reduction is
  // blocked there; without one, where the loop over tiles of a reduced axis ends whose points are
  // looped over further in. 0: it is not, or lanes run along it.
  size_t BlockedAt(int32_t s, const std::vector<Link>& links) const {
    size_t cut = 0, tiled = 0;
    bool reduced_after = false;
    std::set<std::vector<Var>> inside;  // what the reduction loops further in are over
    for (size_t i = links.size(); i-- > 0;) {
      const bool reduces = Reduces(s, links[i].e);
      if (reduces && links[i].kind == loops::LoopKind::kVector) return 0;
      const bool serial = links[i].kind == loops::LoopKind::kSerial;
      if (!reduces && serial && reduced_after && cut == 0) cut = i + 1;
      std::vector<Var> over;
      links[i].e.CollectVars(over);
      if (reduces && serial && !inside.insert(over).second) tiled = i + 1;
      reduced_after |= reduces;
    }
    if (program_.statements[s].companion.valid()) return 0;
    return cut > 0 ? cut : tiled;
  }

  // A unit around the reduction loops: the loops of `links` that are not reduced, made anew.
  Result<Step> Edge(int32_t s, Part part, std::vector<Member> path,
                    const std::vector<Link>& links) {
    Accumulator& acc = plan_.accumulators[s];
    const bool whole = part == Part::kInit || part == Part::kFinish;
    std::vector<Var> dims;
    for (const Link& link : links) {
      if (!Reduces(s, link.e)) dims.push_back(Extend(s, link, path));
    }
    std::vector<Var>& axes = acc.axes[part];
    axes.insert(axes.end(), dims.begin(), dims.end());
    if (!whole) acc.tile[part] = dims;
    WEFT_TRY(Step step, MakeUnit(s, part, path));
    if (part == Part::kInit && acc.lanes >= 0) {
      acc.init_lanes = NewDim("lane", loops::LoopKind::kVector);
      plan_.units[step.unit].dims.push_back(acc.init_lanes);
      init_unit_ = step.unit;
      step = Wrap({acc.init_lanes}, 0, std::move(step));
    }
    return Wrap(dims, 0, std::move(step));
  }

  // The lanes of init are those of the update: found from the update's own constraints.
  void LimitLanes(const Accumulator& acc) {
    Plan probe = plan_;
    InferRanges(probe);
    const Interval lanes = probe[acc.lanes].range;
    Unit& unit = plan_.units[init_unit_];
    unit.constraints.push_back({Affine::OfVar(acc.init_lanes) - lanes.lo});
    unit.constraints.push_back({Affine(lanes.hi) - Affine::OfVar(acc.init_lanes)});
  }

  bool Reduces(int32_t s, const Affine& e) const {
    std::vector<Var> used;
    e.CollectVars(used);
    return std::ranges::any_of(used,
                               [&](Var v) { return program_.statements[s].indices[v].reduction; });
  }

  Var Extend(int32_t s, const Link& link, std::vector<Member>& path) {
    std::map<int32_t, Affine> member{{s, link.e}};
    path.push_back({link.e, NewDim(NameOf(member, {s}), link.kind)});
    plan_[path.back().dim].turns = link.turns;
    return path.back().dim;
  }

  Step Chain(const std::vector<Link>& links, const std::vector<Var>& dims, Step below) {
    int32_t parallel = 0;
    while (parallel < static_cast<int32_t>(links.size()) && links[parallel].parallel) ++parallel;
    for (size_t m = links.size(); m-- > static_cast<size_t>(parallel);) {
      below = Labelled(Wrap({dims[m]}, 0, std::move(below)), links[m].labels);
    }
    if (parallel == 0) return below;
    return Labelled(Wrap({dims.begin(), dims.begin() + parallel}, parallel, std::move(below)),
                    links[0].labels);
  }

  Result<Step> MakeUnit(int32_t s, Part part, const std::vector<Member>& path) {
    const tc::Statement& statement = program_.statements[s];
    Unit unit{.statement = s, .part = part, .value = statement.value};
    std::vector<bool> wanted;
    for (const tc::Index& index : statement.indices) {
      wanted.push_back(!index.reduction || part == Part::kUpdate || part == Part::kWhole);
    }
    for (const Member& member : path) unit.dims.push_back(member.dim);
    WEFT_TRY(SolveIndices(program_, path, wanted, unit));
    if (part == Part::kWhole || part == Part::kUpdate) AddConditions(statement, unit);
    plan_.units.push_back(std::move(unit));
    return Step{.kind = Step::Kind::kUnit, .unit = static_cast<int32_t>(plan_.units.size() - 1)};
  }

  // A tap whose guard fails is no tap.
  void AddConditions(const tc::Statement& statement, Unit& unit) {
    const auto at = [&](Var v) { return unit.index[v]; };
    const auto guarded =
        unit.part == Part::kUpdate ? tc::AsGuardedUpdate(program_, statement) : std::nullopt;
    if (guarded) {
      for (const Affine& e : guarded->constraints)
        unit.constraints.push_back({e.Substitute(at), Limit::kGuard});
      unit.value = guarded->inside;
    }
    std::vector<Affine> hints;
    CollectConditions(program_, unit.value, unit.index, hints);
    for (Affine& e : hints) unit.constraints.push_back({std::move(e), Limit::kHint});
  }

  Var NewDim(std::string name, loops::LoopKind kind) {
    plan_.dims.push_back({.name = std::move(name), .kind = kind});
    return plan_.params + static_cast<Var>(plan_.dims.size()) - 1;
  }

  // The index a member is made of, with a 0 for tile loops.
  std::string NameOf(const std::map<int32_t, Affine>& member,
                     const std::vector<int32_t>& statements) {
    for (const int32_t s : statements) {
      const auto found = member.find(s);
      std::vector<Var> used;
      if (found != member.end()) found->second.CollectVars(used);
      if (used.empty()) continue;
      const std::string& name = program_.statements[s].indices[used[0]].name;
      return found->second.CoefficientOf(used[0]) != 0 ? name : name + "0";
    }
    return "t";
  }

  static void CollectUnits(Step& step) {
    if (step.unit >= 0) step.units.push_back(step.unit);
    for (Step& child : step.children) {
      CollectUnits(child);
      step.units.insert(step.units.end(), child.units.begin(), child.units.end());
    }
  }

  const tc::Program& program_;
  Plan& plan_;
  struct CarriedSum {
    int32_t statement = -1;
    Var dim = -1;
    Step init, finish;
  };

  std::vector<std::vector<Member>> paths_;
  std::vector<CarriedSum> carried_;
  int32_t init_unit_ = -1;
};

// Where a reduction adds something only to the end of a segment that is read, its loop may end
// there instead of asking each time: if that loop runs in order, for this unit alone, and inside of
// those that say which segment it is.
void EndLoops(const Step& step, Plan& plan) {
  for (const Step& child : step.children) EndLoops(child, plan);
  if (step.kind != Step::Kind::kLoop || step.units.size() != 1) return;
  Unit& unit = plan.units[step.units[0]];
  const tc::Program& program = *plan.program;
  const tc::Statement& s = program.statements[unit.statement];
  const tc::Expr& select = program[unit.value];
  const Var v = step.dims[0];
  if (unit.part != Part::kUpdate || unit.along >= 0 || s.companion.valid() ||
      plan[v].kind != loops::LoopKind::kSerial || select.op != ScalarOp::kSelect ||
      select.kind != tc::ExprKind::kOp)
    return;
  const tc::Expr &condition = program[select.args[0]], &otherwise = program[select.args[2]];
  const bool less = condition.kind == tc::ExprKind::kOp && condition.op == ScalarOp::kLt;
  if (!less || program[condition.args[1]].kind != tc::ExprKind::kCheck ||
      otherwise.kind != tc::ExprKind::kLiteral)
    return;
  if (!tc::IsIdentity(s.assign, select.dtype, otherwise.literal)) return;
  const auto place = AffineOf(program, condition.args[0], unit.index);
  if (!place || place->AsVar() != v) return;
  const auto outside = std::ranges::find(unit.dims, v);
  const auto is_inside = [&](const auto& self, tc::ExprId id) -> bool {
    const tc::Expr& e = program[id];
    if (e.kind == tc::ExprKind::kIndex) {
      std::vector<Var> used;
      unit.index[e.position].CollectVars(used);
      return std::ranges::any_of(used, [&](Var u) {
        return plan.IsDim(u) && std::find(unit.dims.begin(), outside, u) == outside;
      });
    }
    return std::ranges::any_of(e.args, [&](tc::ExprId arg) { return self(self, arg); });
  };
  if (is_inside(is_inside, condition.args[1])) return;
  unit.along = v;
  unit.length = condition.args[1];
  unit.value = select.args[1];
}

}  // namespace

Result<Plan> MakePlan(const tc::Program& program, const TreeNode& root) {
  Plan plan{.program = &program, .params = static_cast<int32_t>(program.params.size())};
  WEFT_TRY(Builder(program, plan).Run(root));
  InferRanges(plan);
  for (const Step& step : plan.clusters) EndLoops(step, plan);
  return plan;
}

}  // namespace weft::polyhedral::lower
