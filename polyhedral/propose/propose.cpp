#include "polyhedral/propose/propose.h"

#include <algorithm>

#include "polyhedral/copies.h"

namespace weft::polyhedral {
namespace {

struct Variant {
  int number = 0;
  bool fuse = true;    // statements that may share a cluster do
  bool block = false;  // clusters that may share blocks do
  bool copy = true;    // operands that a contraction might rather have in another order are copied
};

// The clusters of a program, group by group, and what concerns all of them.
class ChoiceMaker {
 public:
  ChoiceMaker(const ScheduleRequest& request, const Variant& variant)
      : request_(request),
        variant_(variant),
        groups_(GroupStatements(request, variant.fuse, !variant.block)),
        blocked_(groups_.size()),
        choice_{.group = request.program->name} {
    if (!variant.block) return;
    // Blocks want groups that have the axes of the blocks; little work wants no barriers instead.
    blocked_ = BlockClusters(request, groups_);
    if (std::ranges::all_of(blocked_, [](const BlockedCluster& b) { return b.blocks.empty(); })) {
      groups_ = GroupStatements(request, variant.fuse, true);
      blocked_.assign(groups_.size(), {});
    }
  }

  Choice Run() {
    if (AddTurned()) return std::move(choice_);
    for (const auto& [copy, operand] : request_.copies)  // whose layouts do not depend on loops
      if (request_.layouts.contains(copy))
        choice_.packs.push_back({operand, request_.layouts.at(copy)});
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].loop) {
        AddAsWritten(request_, groups_[g].statements, choice_);
      } else if (IsCopyFor(g)) {
        AddWithCopy(g);
        ++g;
      } else {
        Add(ViewOf(g), LoopsOf(ViewOf(g)), blocked_[g].then);
      }
    }
    return std::move(choice_);
  }

 private:
  ClusterView ViewOf(size_t g) const {
    ClusterView view = View(request_, groups_[g].statements);
    view.blocks = blocked_[g].blocks;
    return view;
  }

  // A copy of what the contraction of the next group reads.
  bool IsCopyFor(size_t g) const {
    const tc::Program& program = *request_.program;
    const tc::TensorId made = program.statements[groups_[g].statements[0]].target;
    if (!request_.copies.contains(program[made].name) || g + 1 == groups_.size()) return false;
    const ClusterView next = ViewOf(g + 1);
    if (!AsContraction(program, next.At(next.anchor))) return false;
    const std::vector<tc::ExprId> reads = tc::Reads(program, next.At(next.anchor));
    return !groups_[g + 1].loop && std::ranges::any_of(reads, [&](tc::ExprId read) {
      return program[read].tensor == made;
    });
  }

  Cluster LoopsOf(const ClusterView& view) {
    auto contraction = ContractionCluster(view, variant_.number, choice_);
    if (!contraction) contraction = DotCluster(view);
    return contraction ? *std::move(contraction) : RowCluster(view, variant_.number);
  }

  // Copies of what the last group turns, and nothing else.
  bool AddTurned() {
    std::vector<ClusterView> copies;
    for (size_t g = 0; g < groups_.size(); ++g) copies.push_back(ViewOf(g));
    if (copies.size() < 2 || groups_.back().loop) return false;
    ClusterView view = std::move(copies.back());
    copies.pop_back();
    const auto name = [&](const ClusterView& copy) {
      return copy.program()[copy.At(0).target].name;
    };
    const auto is_copy = [&](const ClusterView& c) { return request_.copies.contains(name(c)); };
    if (!std::ranges::all_of(copies, is_copy)) return false;
    const auto turned = TurnCopies(copies, view);
    if (!turned) return false;
    ScheduleRequest laid_out = request_;
    for (const tc::TensorDecl& tensor : request_.program->tensors)  // they follow the copies
      if (tensor.role == tc::Role::kTemporary) laid_out.layouts.erase(tensor.name);
    for (size_t k = 0; k < copies.size(); ++k) {
      const Layout& layout = turned->copies[k].layout;
      laid_out.layouts[name(copies[k])] = layout;
      choice_.packs.push_back({request_.copies.at(name(copies[k])), layout});
    }
    laid_out = WithTemporaries(laid_out);
    for (size_t k = 0; k < copies.size(); ++k) {
      copies[k].request = &laid_out;
      copies[k].blocks = turned->copies[k].blocks;
      Cluster rows = RowCluster(copies[k], variant_.number);
      if (std::erase(rows.order, turned->copies[k].along) > 0)
        rows.order.push_back(turned->copies[k].along);
      Add(copies[k], std::move(rows), k > 0);
    }
    view.request = &laid_out;
    view.blocks = turned->blocks;
    Add(view, RowCluster(view, variant_.number), true);
    return true;
  }

  // The loops of the contraction say in which order the copy is made, and both in which blocks.
  void AddWithCopy(size_t g) {
    ClusterView copy = ViewOf(g), view = ViewOf(g + 1);
    const std::string& name = request_.program->tensors[copy.At(0).target.index].name;
    const auto pack_of_copy = [&] {
      return std::ranges::find(choice_.packs, request_.copies.at(name), &Pack::tensor);
    };
    const Choice before = choice_;
    Cluster loops = LoopsOf(view);
    if (copy.blocks.empty() && view.blocks.empty() && pack_of_copy() != choice_.packs.end()) {
      auto [blocks_of_copy, blocks] = BlocksOfCopy(copy, view, loops);
      copy.blocks = std::move(blocks_of_copy);
      view.blocks = std::move(blocks);
      if (!view.blocks.empty()) {
        choice_ = before;
        loops = LoopsOf(view);
      }
    }
    ScheduleRequest laid_out = request_;
    if (const auto pack = pack_of_copy(); pack != choice_.packs.end())
      laid_out.layouts[name] = pack->layout;
    copy.request = &laid_out;
    const bool together = !view.blocks.empty() && !copy.blocks.empty();
    Add(copy, RowCluster(copy, variant_.number), blocked_[g].then);
    Add(view, std::move(loops), together || blocked_[g + 1].then);
  }

  void Add(const ClusterView& view, Cluster cluster, bool then) {
    if (!view.blocks.empty()) {
      cluster.blocks = view.blocks;
      cluster.then = then;
      cluster.parallel = 0;
    }
    AddPrefetches(view, cluster, choice_);
    AddStreams(view, cluster, choice_);
    choice_.clusters.push_back(std::move(cluster));
  }

  const ScheduleRequest& request_;
  const Variant variant_;
  std::vector<StatementGroup> groups_;
  std::vector<BlockedCluster> blocked_;
  Choice choice_;
};

// Operands whose copies lie as it suits them, whatever the loops.
std::map<std::string, Layout> FixedCopies(const ScheduleRequest& request) {
  std::map<std::string, Layout> layouts = SampledLayouts(request);
  layouts.merge(WindowedLayouts(request));
  return layouts;
}

// First with copies of all operands that a contraction might rather have in another order; then
// with those that one asked for.
Choice MakeChoice(const ScheduleRequest& request, const Variant& variant) {
  std::vector<std::string> operands;
  std::map<std::string, Layout> fixed;
  if (variant.copy) {
    operands = CopyCandidates(request);
    fixed = FixedCopies(request);
    for (const auto& [operand, layout] : fixed)
      if (std::ranges::count(operands, operand) == 0) operands.push_back(operand);
  }
  while (!operands.empty()) {
    CopiedRequest copied = WithCopies(request, operands);
    for (const auto& [copy, operand] : copied.request.copies)
      if (const auto found = fixed.find(operand); found != fixed.end())
        copied.request.layouts[copy] = found->second;
    Choice choice = ChoiceMaker(copied.request, variant).Run();
    const size_t before = operands.size();
    std::erase_if(operands, [&](const std::string& operand) {
      return std::ranges::count(choice.packs, operand, &Pack::tensor) == 0;
    });
    if (operands.size() == before) return choice;
  }
  return ChoiceMaker(request, variant).Run();
}

Kinds KindsOf(const ScheduleRequest& request) {
  Kinds all;
  for (const StatementGroup& group : GroupStatements(request, true)) {
    if (group.loop) continue;
    const Kinds own = NearKinds(View(request, group.statements));
    all = {.count = std::max(all.count, own.count), .copies = all.copies || own.copies};
  }
  return all;
}

// The kinds where copies may be made, if one of them makes one. They come before the others, for
// which nothing is copied.
int KindsWithCopies(const ScheduleRequest& request) {
  const std::vector<std::string> operands = CopyCandidates(request);
  if (operands.empty()) return 0;
  const CopiedRequest copied = WithCopies(request, operands);
  const Kinds kinds = KindsOf(copied.request);
  return kinds.copies ? kinds.count : 0;
}

// Whether a contraction and what only moves its operands or results do better together in blocks of
// a batch than one after the other along it: with whole registers along rows, columns and what is
// summed up. Functions are computed in fewer lanes there (a sigmoid beside sums of 13 took 1.4
// times as long, products of 4x2 by 2x4 3 times).
bool MovesWhatOneContracts(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  return std::ranges::all_of(program.statements, [&](const tc::Statement& s) {
    if (!tc::Contracts(s)) return program[s.value].kind == tc::ExprKind::kRead;
    const auto contraction = AsContraction(program, s);
    if (!contraction) return false;
    int64_t rows = 1, columns = 1, summed = 1;
    for (size_t i = 0; i < s.indices.size(); ++i) {
      const Affine extent = s.indices[i].hi - s.indices[i].lo;
      const auto index = static_cast<int32_t>(i);
      const bool by_x = Uses(program, contraction->x, index),
                 by_w = Uses(program, contraction->w, index);
      if (!extent.IsConstant()) return false;
      if (s.indices[i].reduction)
        summed *= extent.constant();
      else if (by_x != by_w)
        (by_x ? rows : columns) *= extent.constant();
    }
    const int64_t vector = request.target.VectorBytes() / SizeBytes(s.accumulate);
    return std::min({rows, columns, summed}) >= vector;
  });
}

}  // namespace

bool RunsInBlocks(const ScheduleRequest& given) {
  const ScheduleRequest request = WithTemporaries(given);
  const auto groups = GroupStatements(request, true);
  const auto contracts = [&](const StatementGroup& group) {
    return std::ranges::any_of(
        group.statements, [&](int32_t s) { return tc::Contracts(request.program->statements[s]); });
  };
  const auto first = std::ranges::find_if(groups, contracts) - groups.begin();
  const auto behind =
      std::find_if(groups.rbegin(), groups.rend(), contracts).base() - groups.begin();
  const std::vector<BlockedCluster> blocked = BlockClusters(request, groups);
  const auto follows = [](const BlockedCluster& cluster) { return cluster.then; };
  if (first + 1 == behind) {
    return MovesWhatOneContracts(request) && !blocked[0].blocks.empty() &&
           std::all_of(blocked.begin() + 1, blocked.end(), follows);
  }
  return first < behind && !blocked[first].blocks.empty() &&
         std::all_of(blocked.begin() + first + 1, blocked.begin() + behind, follows);
}

Verdict<std::vector<Choice>> Propose(const ScheduleRequest& given, int count) {
  if (given.program->statements.size() > kMostStatements) {
    return Refusal{Reason::kTooManyStatements, std::to_string(given.program->statements.size())};
  }
  const ScheduleRequest request = WithTemporaries(given);
  std::vector<Choice> choices;
  const auto add = [&](Choice choice) {
    if (std::ranges::count(choices, choice) == 0) choices.push_back(std::move(choice));
  };
  const auto full = [&] { return static_cast<int>(choices.size()) >= count; };
  if (!request.program->params.empty() && IdentityChoice(request).clusters.size() == 1)
    add(IdentityChoice(request));
  std::vector<Variant> variants = {{.block = true}, {}, {.fuse = false}};
  for (int number = 1; number < 2 * count; ++number) variants.push_back({.number = number});
  for (const Variant& variant : variants)
    if (!full()) add(MakeChoice(request, variant));
  return choices;
}

std::vector<Choice> ProposeKind(const ScheduleRequest& given, int kind) {
  const ScheduleRequest request = WithTemporaries(given);
  const int copied = KindsWithCopies(request);
  const bool copy = copied == 0 || kind < copied;
  const int number = 2 * (kind < copied ? kind : kind - copied);
  std::vector<Choice> choices = {
      MakeChoice(request, {.number = number, .block = true, .copy = copy}),
      MakeChoice(request, {.number = number, .copy = copy})};
  if (copied == 0 && !FixedCopies(request).empty()) {  // as they lie, too
    choices.push_back(MakeChoice(request, {.number = number, .block = true, .copy = false}));
    choices.push_back(MakeChoice(request, {.number = number, .copy = false}));
  }
  return choices;
}

bool HasKind(const ScheduleRequest& given, int kind) {
  const ScheduleRequest request = WithTemporaries(given);
  const int copied = KindsWithCopies(request), others = KindsOf(request).count;
  return kind < (copied > 0 ? copied + std::max(1, others) : others);  // rows, where there is none
}

}  // namespace weft::polyhedral
