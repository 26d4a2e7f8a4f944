// A choice as a schedule tree.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <span>

#include "polyhedral/axes.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

using Members = std::vector<Affine>;  // of one statement

Refusal Unfit(std::string what) { return {Reason::kChoiceDoesNotFit, std::move(what)}; }

// One after another: filters, of which a lone one is not needed.
TreeNode InOrder(std::vector<TreeNode> filters) {
  if (filters.size() == 1) {
    std::vector<TreeNode>& below = filters[0].children;
    return below.empty() ? TreeNode{} : std::move(below[0]);
  }
  TreeNode sequence;
  if (!filters.empty()) sequence.kind = TreeNode::Kind::kSequence;
  sequence.children = std::move(filters);
  return sequence;
}

class ClusterBuilder {
 public:
  ClusterBuilder(const tc::Program& program, const Cluster& cluster,
                 std::vector<int32_t> statements)
      : program_(program),
        cluster_(cluster),
        statements_(std::move(statements)),
        axes_(ClusterAxes(program, statements_)) {}

  // Adds this cluster's statements to the band of its blocks.
  std::optional<Refusal> AddBlocks(TreeNode& band) const {
    if (cluster_.blocks.size() != band.members.size())
      return Unfit("clusters that share blocks have blocks along as many axes");
    for (size_t b = 0; b < cluster_.blocks.size(); ++b) {
      const auto& [axis, sizes] = cluster_.blocks[b];
      bool known = false;
      for (size_t k = 0; k < statements_.size(); ++k) {
        const int32_t i = IndexOn(k, axis);
        known |= i >= 0;
        band.members[b][statements_[k]] = i < 0 ? Affine(0) : FloorDiv(Affine::OfVar(i), sizes[0]);
      }
      if (!known) return Unfit(fmt::format("the cluster has no axis {}", axis));
      if (IsOpen(axis) && sizes[0] > 1)
        return Unfit(
            fmt::format("axis {} is blocked and its extent is known only at run time", axis));
    }
    return std::nullopt;
  }

  Verdict<TreeNode> Run() {
    if (auto refusal = CheckNames()) return *refusal;
    TreeNode below;
    if (statements_.size() == 1) {
      below = Inner(0);
    } else {
      const size_t end = cluster_.together.empty() ? statements_.size() : BehindSums();
      std::vector<TreeNode> steps = Steps(0, end);
      if (end < statements_.size()) steps.push_back(Together(end));
      below = {.kind = TreeNode::Kind::kSequence, .children = std::move(steps)};
    }
    if (cluster_.order.empty()) return below;
    TreeNode band{.kind = TreeNode::Kind::kBand, .permutable = true};
    for (size_t a = 0; a < cluster_.order.size(); ++a) {
      auto& member = band.members.emplace_back();
      for (size_t k = 0; k < statements_.size(); ++k) {
        member[statements_[k]] = Outer(k, cluster_.order[a]);
      }
      band.coincident.push_back(static_cast<int32_t>(a) < cluster_.parallel);
    }
    if (below.kind != TreeNode::Kind::kLeaf) band.children.push_back(std::move(below));
    if (cluster_.parallel == 0) return band;
    return Mark(fmt::format("parallel {}", cluster_.parallel), std::move(band));
  }

 private:
  std::optional<Refusal> CheckNames() const {
    const auto known = [&](const std::string& axis) {
      return std::ranges::any_of(axes_,
                                 [&](const auto& n) { return std::ranges::count(n, axis) > 0; });
    };
    const auto check = [&](const std::vector<std::string>& names,
                           bool again) -> std::optional<Refusal> {
      for (size_t i = 0; i < names.size(); ++i) {
        if (!known(names[i])) return Unfit(fmt::format("the cluster has no axis {}", names[i]));
        if (!again && std::count(names.begin(), names.begin() + i, names[i])) {
          return Unfit(fmt::format("axis {} stands twice", names[i]));
        }
      }
      return std::nullopt;
    };
    const auto names_of = [](const std::vector<Tile>& tiles) {
      std::vector<std::string> names;
      for (const Tile& tile : tiles) names.push_back(tile.axis);
      return names;
    };
    const auto tiled = names_of(cluster_.tiles), blocked = names_of(cluster_.blocks),
               lanes = names_of(cluster_.lanes);
    const std::vector<const std::vector<std::string>*> lists = {
        &cluster_.order,  &cluster_.inner, &cluster_.shares, &cluster_.turns,
        &cluster_.unroll, &tiled,          &blocked,         &lanes};
    for (const auto* names : lists) {
      if (auto refusal = check(*names, names == &cluster_.inner)) return refusal;
    }
    if (const std::string& dot = cluster_.dot_axis; !dot.empty()) {
      if (!known(dot)) return Unfit(fmt::format("the cluster has no axis {}", dot));
      if (Sizes(dot).empty() || cluster_.LanesOf(dot) > 0)
        return Unfit(fmt::format("the points of {} are no dot product: it is not tiled", dot));
      const int64_t points = Sizes(dot).back();
      if (cluster_.dot_flushes && (points % 2 != 0 || points > kMostFlushed))
        return Unfit(
            fmt::format("{} points of {} are flushed, expected 2, or an even number up to {}",
                        points, dot, kMostFlushed));
    }
    if (const std::string& together = cluster_.together; !together.empty()) {
      if (!IsShared(together) || Sizes(together).size() != 1 || cluster_.LanesOf(together) > 0 ||
          together == cluster_.dot_axis || !cluster_.shares.empty())
        return Unfit(fmt::format("the points of {} are no loop around statements", together));
      if (BehindSums() == 0) return Unfit("no statement sums before those that run together");
    }
    if (!cluster_.blocks.empty() && cluster_.parallel > 0)
      return Unfit("a cluster with blocks is parallel along them only");
    if (!cluster_.shares.empty() && (cluster_.parallel > 0 || !cluster_.blocks.empty()))
      return Unfit("what is shared out inside is not parallel already");
    if (cluster_.parallel > static_cast<int32_t>(cluster_.order.size())) {
      return Unfit("more parallel axes than the order has");
    }
    for (const Tile& vector : cluster_.lanes) {
      const int64_t block = BlockSize(vector.axis), count = vector.sizes[0];
      if (Sizes(vector.axis).empty() && block > count && block % count != 0)
        return Unfit(fmt::format("the lanes do not divide the block of {}", vector.axis));
    }
    for (const Tile& tile : cluster_.tiles) {
      const int64_t count = cluster_.LanesOf(tile.axis);
      if (count > 0 && tile.sizes.back() > count && tile.sizes.back() % count != 0)
        return Unfit(fmt::format("the lanes do not divide the tile of {}", tile.axis));
      // isl simplifies floors of a block's places in ways that hide where the tiles end.
      if (const int64_t size = BlockSize(tile.axis); size > 0 && size % tile.sizes[0] != 0)
        return Unfit(fmt::format("the tile of {} does not divide its block", tile.axis));
      if (IsOpen(tile.axis)) {
        return Unfit(
            fmt::format("axis {} is tiled and its extent is known only at run time", tile.axis));
      }
      for (size_t i = 0; i + 1 < tile.sizes.size(); ++i) {
        if (tile.sizes[i] % tile.sizes[i + 1] != 0)
          return Unfit("an inner tile does not divide its outer");
      }
    }
    return std::nullopt;
  }

  bool IsOpen(const std::string& axis) const {
    for (size_t k = 0; k < statements_.size(); ++k) {
      const int32_t i = IndexOn(k, axis);
      if (i < 0) continue;
      const tc::Index& index = program_.statements[statements_[k]].indices[i];
      if (!(index.hi - index.lo).IsConstant()) return true;
    }
    return false;
  }

  const std::vector<int64_t>& Sizes(const std::string& axis) const {
    static const std::vector<int64_t> none;
    for (const Tile& tile : cluster_.tiles) {
      if (tile.axis == axis) return tile.sizes;
    }
    return none;
  }

  // The index of statement k on this axis; -1 if it has none.
  int32_t IndexOn(size_t k, const std::string& axis) const {
    const auto found = std::ranges::find(axes_[k], axis);
    return found == axes_[k].end() ? -1 : static_cast<int32_t>(found - axes_[k].begin());
  }

  // How far a block goes along an axis; 0 if it takes all of it.
  int64_t BlockSize(const std::string& axis) const {
    for (const Tile& block : cluster_.blocks)
      if (block.axis == axis) return block.sizes[0];
    return 0;
  }

  // floor(x / size), where x is the index's place in its block.
  Affine Floor(int32_t i, const std::string& axis, int64_t size) const {
    const Affine index = Affine::OfVar(i);
    const int64_t block = BlockSize(axis);
    if (block == 0) return FloorDiv(index, size);
    return FloorDiv(index, size) - FloorDiv(index, block) * (block / size);
  }

  // A statement without the axis runs in its first iteration.
  Affine Outer(size_t k, const std::string& axis) const {
    const int32_t i = IndexOn(k, axis);
    if (i < 0) return 0;
    const auto& sizes = Sizes(axis);
    return Floor(i, axis, sizes.empty() ? 1 : sizes[0]);
  }

  struct Loops {
    Members serial, points, lanes, dots;  // outer to inner; lanes and dots: at most one
  };

  // How much of the axis is left for the points: the last tile, or all.
  int64_t PointExtent(size_t k, int32_t i, const std::vector<int64_t>& sizes) const {
    if (!sizes.empty()) return sizes.back();
    const std::string& axis = axes_[k][i];
    if (BlockSize(axis) > 0) return BlockSize(axis);
    const tc::Index& index = program_.statements[statements_[k]].indices[i];
    const Affine extent = index.hi - index.lo;
    return extent.IsConstant() ? extent.constant() : int64_t{1} << 40;
  }

  // How many lanes statement k has along the axis; 0 if they are along another one.
  int64_t OwnLanes(size_t k, const std::string& axis) const {
    for (const Tile& lanes : cluster_.lanes)
      if (IndexOn(k, lanes.axis) >= 0) return lanes.axis == axis ? lanes.sizes[0] : 0;
    return 0;
  }

  // The axis' tile loops below the shared one, outermost first.
  Members TileLoops(int32_t i, const std::string& axis) const {
    const auto& sizes = Sizes(axis);
    Members loops;
    for (size_t t = 0; t < sizes.size(); ++t) {
      const Affine floor = Floor(i, axis, sizes[t]);
      if (t == 0 && !IsShared(axis)) loops.push_back(floor);
      if (t > 0) loops.push_back(floor - Floor(i, axis, sizes[t - 1]) * (sizes[t - 1] / sizes[t]));
    }
    return loops;
  }

  bool IsShared(const std::string& axis) const {
    return std::ranges::count(cluster_.order, axis) > 0;
  }

  // What is left of the axis below its tile loops.
  void AddPoints(size_t k, int32_t i, const std::string& axis, Loops& loops) const {
    const auto& sizes = Sizes(axis);
    if ((IsShared(axis) || BlockSize(axis) == 1) && sizes.empty()) return;
    if (RunsTogether(k, axis)) return;
    const Affine index = Floor(i, axis, 1), point = Point(i, axis);
    const bool unroll = std::ranges::count(cluster_.unroll, axis) > 0;
    Members& into = unroll ? loops.points : loops.serial;
    if (axis == cluster_.dot_axis) {
      // VDPBF16PS adds the second of two first.
      const bool backwards = cluster_.dot_flushes && sizes.back() == 2;
      loops.dots.push_back(backwards ? Affine(1) - point : point);
      return;
    }
    const int64_t lanes = OwnLanes(k, axis);
    if (lanes == 0) {
      into.push_back(point);
      return;
    }
    if (PointExtent(k, i, sizes) <= lanes) {
      loops.lanes.push_back(point);
      return;
    }
    // floor(points / lanes): the lanes divide the tile.
    const Affine above =
        sizes.empty() ? Affine(0) : Floor(i, axis, sizes.back()) * (sizes.back() / lanes);
    const Affine block = Floor(i, axis, lanes) - above;
    into.push_back(block);
    loops.lanes.push_back(point - block * lanes);
  }

  std::vector<TreeNode> Steps(size_t first, size_t end) const {
    std::vector<TreeNode> steps;
    for (size_t k = first; k < end; ++k) steps.push_back(Filter({statements_[k]}, Inner(k)));
    return steps;
  }

  // The first statement behind the last one that sums.
  size_t BehindSums() const {
    size_t first = statements_.size();
    while (first > 0 && !tc::Reduces(program_.statements[statements_[first - 1]])) --first;
    return first;
  }

  bool RunsTogether(size_t k, const std::string& axis) const {
    return !axis.empty() && axis == cluster_.together && k >= BehindSums();
  }

  // The statements from `first` on, by the points of an axis.
  TreeNode Together(size_t first) const {
    TreeNode band{.kind = TreeNode::Kind::kBand, .coincident = {false}};
    auto& member = band.members.emplace_back();
    std::vector<int32_t> members;
    for (size_t k = first; k < statements_.size(); ++k) {
      const int32_t i = IndexOn(k, cluster_.together);
      members.push_back(statements_[k]);
      member[statements_[k]] = i < 0 ? Affine(0) : Point(i, cluster_.together);
    }
    std::vector<TreeNode> steps = Steps(first, statements_.size());
    TreeNode below = InOrder(std::move(steps));
    if (below.kind != TreeNode::Kind::kLeaf) band.children.push_back(std::move(below));
    std::ranges::sort(members);
    return Filter(std::move(members), std::move(band));
  }

  // An index's place in the innermost tile of its axis.
  Affine Point(int32_t i, const std::string& axis) const {
    const auto& sizes = Sizes(axis);
    const Affine index = Floor(i, axis, 1);
    return sizes.empty() ? index : index - Floor(i, axis, sizes.back()) * sizes.back();
  }

  // Mentions of an axis in `inner` are its loops in order; the last is all that remain.
  TreeNode Inner(size_t k) const {
    std::vector<std::string> order = cluster_.inner;
    for (const std::string& axis : axes_[k]) {
      if (std::ranges::count(order, axis) == 0) order.push_back(axis);
    }
    Loops loops;
    std::vector<std::string> of;  // the axes of the serial loops
    std::map<std::string, size_t> placed;
    for (size_t m = 0; m < order.size(); ++m) {
      const std::string& axis = order[m];
      const int32_t i = IndexOn(k, axis);
      if (i < 0) continue;
      const Members tiles = TileLoops(i, axis);
      const bool last = std::count(order.begin() + m + 1, order.end(), axis) == 0;
      size_t& next = placed[axis];
      const size_t end = last ? tiles.size() : std::min(tiles.size(), next + 1);
      for (; next < end; ++next) loops.serial.push_back(tiles[next]);
      if (last) AddPoints(k, i, axis, loops);
      of.resize(loops.serial.size(), axis);
    }
    const int32_t s = statements_[k];
    TreeNode node;
    if (!loops.dots.empty()) {
      node = Mark("unroll", Band(s, loops.dots, std::move(node)));
      const bool apart = Sizes(cluster_.dot_axis).back() > 2;
      if (cluster_.dot_flushes) node = Mark(apart ? "flush apart" : "flush", std::move(node));
    }
    if (!loops.lanes.empty()) node = Mark("vector", Band(s, loops.lanes, std::move(node)));
    if (!loops.points.empty()) node = Mark("unroll", Band(s, loops.points, std::move(node)));
    if (!loops.serial.empty()) node = Band(s, loops.serial, std::move(node));
    if (of.empty() || program_.statements[s].indices[IndexOn(k, of[0])].reduction) return node;
    const size_t shared = std::ranges::count(cluster_.shares, of[0]) > 0 ? 1 : 0;
    const bool turns = std::ranges::count(cluster_.turns, of[0]) > 0;
    if (turns && of.size() > shared && of[shared] == of[0]) node = Turning(std::move(node), shared);
    if (shared == 0) return node;
    node.coincident[0] = true;
    return Mark("parallel 1", std::move(node));
  }

  // A band one of whose loops turns: from there on it is a band of its own.
  static TreeNode Turning(TreeNode node, size_t at) {
    TreeNode turning = node;
    turning.members.erase(turning.members.begin(), turning.members.begin() + at);
    turning.coincident.erase(turning.coincident.begin(), turning.coincident.begin() + at);
    turning.coincident[0] = true;
    turning = Mark("turn", std::move(turning));
    if (at == 0) return turning;
    node.members.resize(at);
    node.coincident.resize(at);
    node.children = {std::move(turning)};
    return node;
  }

  static TreeNode Band(int32_t s, const Members& members, TreeNode below) {
    TreeNode band{.kind = TreeNode::Kind::kBand};
    for (const Affine& e : members) band.members.push_back({{s, e}});
    band.coincident.assign(members.size(), false);
    if (below.kind != TreeNode::Kind::kLeaf) band.children.push_back(std::move(below));
    return band;
  }

  const tc::Program& program_;
  const Cluster& cluster_;
  std::vector<int32_t> statements_;
  std::vector<std::vector<std::string>> axes_;
};

Verdict<std::vector<std::vector<int32_t>>> Assign(const tc::Program& program,
                                                  const Choice& choice) {
  const std::vector<std::string> names = StatementNames(program);
  std::vector<std::vector<int32_t>> clusters;
  std::vector<bool> seen(names.size(), false);
  for (const Cluster& cluster : choice.clusters) {
    auto& members = clusters.emplace_back();
    for (const std::string& name : cluster.statements) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end()) return Unfit(fmt::format("no statement is called {}", name));
      const auto s = static_cast<int32_t>(found - names.begin());
      if (seen[s]) return Unfit(fmt::format("statement {} stands twice", name));
      seen[s] = true;
      members.push_back(s);
    }
    if (members.empty()) return Unfit("a cluster without statements");
  }
  for (size_t s = 0; s < seen.size(); ++s) {
    if (!seen[s]) return Unfit(fmt::format("statement {} is in no cluster", names[s]));
  }
  return clusters;
}

// Clusters that share blocks, or one that has none, below a filter.
Verdict<TreeNode> Blocks(const tc::Program& program, std::span<const Cluster> clusters,
                         std::span<const std::vector<int32_t>> statements) {
  TreeNode band{.kind = TreeNode::Kind::kBand, .permutable = true};
  band.members.resize(clusters[0].blocks.size());
  band.coincident.assign(band.members.size(), true);
  if (clusters.size() > 1 && band.members.empty())
    return Unfit("a cluster that follows in the blocks of another has none");
  std::vector<TreeNode> steps;
  std::vector<int32_t> all;
  for (size_t c = 0; c < clusters.size(); ++c) {
    ClusterBuilder builder(program, clusters[c], statements[c]);
    if (auto refusal = builder.AddBlocks(band)) return *refusal;
    auto node = builder.Run();
    if (!node.yes()) return node.refusal();
    std::vector<int32_t> members = statements[c];
    std::ranges::sort(members);
    all.insert(all.end(), members.begin(), members.end());
    steps.push_back(Filter(std::move(members), *std::move(node)));
  }
  std::ranges::sort(all);
  TreeNode below = InOrder(std::move(steps));
  if (band.members.empty()) return Filter(std::move(all), std::move(below));
  if (below.kind != TreeNode::Kind::kLeaf) band.children.push_back(std::move(below));
  const std::string mark = fmt::format("parallel {}", band.members.size());
  return Filter(std::move(all), Mark(mark, std::move(band)));
}

}  // namespace

Verdict<ScheduleTree> BuildSchedule(const ScheduleRequest& request, const Choice& choice,
                                    const ScheduleLimits& limits) {
  (void)limits;
  const auto copied = WithCopies(request, choice.packs);
  if (!copied.yes()) return copied.refusal();
  const tc::Program& program = *copied->request.program;
  auto clusters = Assign(program, choice);
  if (!clusters.yes()) return clusters.refusal();
  const bool flushes = std::ranges::any_of(choice.clusters, &Cluster::dot_flushes);
  if (flushes && !HasBfloatProducts(request.target.isa))
    return Unfit(fmt::format("{} has no multiply-adds that flush", Print(request.target)));
  TreeNode root{.kind = TreeNode::Kind::kDomain};
  std::vector<TreeNode> steps;  // with their filters
  for (size_t first = 0; first < clusters->size();) {
    size_t end = first + 1;
    while (end < clusters->size() && choice.clusters[end].then) ++end;
    auto step = Blocks(program, std::span(choice.clusters).subspan(first, end - first),
                       std::span(*clusters).subspan(first, end - first));
    if (!step.yes()) return step.refusal();
    steps.push_back(*std::move(step));
    first = end;
  }
  TreeNode below = InOrder(std::move(steps));
  for (const std::string& tensor : choice.streams | std::views::reverse) {
    const auto output = [&](tc::TensorId t) { return program[t].name == tensor; };
    if (std::ranges::none_of(tc::Outputs(program), output))
      return Unfit(fmt::format("{} is streamed and is no output of the group", tensor));
    below = Mark("stream " + tensor, std::move(below));
  }
  for (size_t p = choice.prefetches.size(); p-- > 0;) {
    const std::string& tensor = choice.prefetches[p];
    const auto input = [&](tc::TensorId t) { return program[t].name == tensor; };
    if (std::ranges::none_of(tc::Inputs(program), input))
      return Unfit(fmt::format("{} is prefetched and is no operand of the group", tensor));
    below = Mark("prefetch " + tensor, std::move(below));
  }
  for (size_t p = choice.packs.size(); p-- > 0;) {
    const Pack& pack = choice.packs[p];
    below = Mark(fmt::format("pack {} {}", pack.tensor, Print(pack.layout)), std::move(below));
  }
  if (below.kind != TreeNode::Kind::kLeaf) root.children.push_back(std::move(below));
  return PrintTree(program, root);
}

}  // namespace weft::polyhedral
