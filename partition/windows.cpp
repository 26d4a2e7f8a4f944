#include "partition/windows.h"

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

#include "partition/merge_order.h"

namespace weft::partition {
namespace {

using graph::NodeId;
using graph::ValueId;

constexpr size_t kMostNodes = 16;       // of a window
constexpr size_t kFewNodes = 64;        // of a graph: there is time for windows of more
constexpr size_t kMostOfFewNodes = 28;  // of a window of these
constexpr size_t kMostAround = 256;     // of a set that a window grows through
constexpr size_t kMostColumns = 1'000;  // of a window; where there are more, some
constexpr size_t kMostIdeals = 20'000;  // of a window; where there are more, it stays as it is
constexpr size_t kMostEffort = 12'000;  // columns of all windows that are not alike
constexpr int kMostSweeps = 4;
constexpr double kLeastGain = 1e-6;  // of what a window costs

}  // namespace

Windows::Windows(const GraphFacts& facts, const Forms& forms, std::span<const int32_t> ranks,
                 const std::vector<bool>& is_own, Price price, Note note)
    : facts_(facts),
      forms_(forms),
      ranks_(ranks),
      is_own_(is_own),
      price_(std::move(price)),
      note_(std::move(note)) {}

void Windows::Improve(Clusters& clusters) {
  const auto rank = [&](int32_t set) {
    int32_t least = INT32_MAX;
    for (const NodeId n : clusters.Members(set)) least = std::min(least, ranks_[n.index]);
    return least;
  };
  std::vector<NodeId> by_rank(ranks_.size());
  for (size_t n = 0; n < by_rank.size(); ++n) by_rank[ranks_[n]] = NodeId(n);
  bool gained = true;
  for (int sweep = 0; gained && sweep < kMostSweeps; ++sweep) {
    gained = false;
    std::optional<MergeOrder> order(clusters);
    for (const NodeId seed : by_rank) {
      const int32_t set = clusters.Of(seed);
      if (!is_own_[seed.index] || rank(set) != ranks_[seed.index]) continue;
      const Window window = Around(set, clusters, *order);
      if (window.sets.size() < 2) continue;
      const Cover& cover = Solve(window);
      if (cover.empty()) continue;
      Apply(window, cover, clusters);
      order.emplace(clusters);
      gained = true;
    }
  }
}

// Neighbours join by rank, as long as there is room and the window stays convex. What thousands
// read is where they all would meet the same few of the others: its own window has those.
Windows::Window Windows::Around(int32_t seed, const Clusters& clusters, MergeOrder& order) const {
  Window window{.sets = {seed}};
  const size_t most = ranks_.size() <= kFewNodes ? kMostOfFewNodes : kMostNodes;
  size_t count = clusters.Members(seed).size();
  const auto first_of = [&](int32_t set) {
    const auto rank = [&](NodeId n) { return ranks_[n.index]; };
    return std::ranges::min(clusters.Members(set), {}, rank);
  };
  for (size_t next = 0; next < window.sets.size(); ++next) {
    const auto &readers = clusters.Readers(window.sets[next]),
               &producers = clusters.Producers(window.sets[next]);
    if (next > 0 && readers.size() + producers.size() > kMostAround) continue;
    std::vector<int32_t> around;
    for (const auto* sets : {&readers, &producers})
      for (const int32_t s : *sets)
        if (count + clusters.Members(s).size() <= most) around.push_back(s);
    std::ranges::sort(around, {}, [&](int32_t s) { return ranks_[first_of(s).index]; });
    for (const int32_t s : around) {
      if (count + clusters.Members(s).size() > most || std::ranges::count(window.sets, s) > 0)
        continue;
      window.sets.push_back(s);
      if (order.PathAround(window.sets))
        window.sets.pop_back();
      else
        count += clusters.Members(s).size();
    }
  }
  for (const int32_t set : window.sets)
    for (const NodeId n : clusters.Members(set)) window.nodes.push_back(n);
  std::ranges::sort(window.nodes, {}, [&](NodeId n) { return ranks_[n.index]; });
  std::map<NodeId, size_t> place;
  for (const NodeId n : window.nodes) place.emplace(n, place.size());
  for (size_t k = 0; k < window.nodes.size(); ++k)
    if (is_own_[window.nodes[k].index]) window.own |= Mask{1} << k;
  window.producers.resize(window.nodes.size());
  window.above.resize(window.nodes.size());
  for (size_t k = 0; k < window.nodes.size(); ++k)
    for (const ValueId v : facts_.graph[window.nodes[k]].inputs) {
      if (!v.valid() || !facts_.graph[v].producer.valid()) continue;
      const auto p = place.find(facts_.graph[v].producer);
      if (p == place.end()) continue;
      window.producers[k] |= Mask{1} << p->second;
      window.above[k] |= Mask{1} << p->second | window.above[p->second];
    }
  for (const int32_t set : window.sets) {
    Mask group = 0;
    for (const NodeId n : clusters.Members(set)) group |= Mask{1} << place.at(n);
    window.groups.push_back(group);
  }
  std::ranges::sort(window.groups);
  return window;
}

std::vector<NodeId> Windows::NodesOf(const Window& window, Mask nodes) const {
  std::vector<NodeId> list;
  for (Mask left = nodes; left != 0; left &= left - 1)
    list.push_back(window.nodes[static_cast<size_t>(std::countr_zero(left))]);
  std::ranges::sort(list);
  return list;
}

bool Windows::IsConvex(const Window& window, Mask nodes) const {
  Mask above = 0;  // of what is inside
  for (Mask left = nodes; left != 0; left &= left - 1)
    above |= window.above[static_cast<size_t>(std::countr_zero(left))];
  for (Mask between = above & ~nodes; between != 0; between &= between - 1)
    if (window.above[static_cast<size_t>(std::countr_zero(between))] & nodes) return false;
  return true;
}

// The groups as they are, each node alone, and what grows from these node by node.
std::vector<Windows::Column> Windows::Columns(const Window& window) {
  std::vector<Column> columns;
  std::set<Mask> seen;
  std::vector<Mask> around(window.nodes.size());  // of each node: its neighbours that are own
  const Mask own = window.own;
  for (size_t k = 0; k < window.nodes.size(); ++k)
    for (Mask left = window.producers[k]; left != 0; left &= left - 1) {
      const auto p = static_cast<size_t>(std::countr_zero(left));
      around[k] |= Mask{1} << p & own;
      around[p] |= Mask{1} << k & own;
    }
  const auto offer = [&](Mask nodes) {
    if (!seen.insert(nodes).second || !IsConvex(window, nodes)) return;
    const bool is_own = (nodes & own) == nodes;
    const auto us = is_own ? price_(NodesOf(window, nodes)) : 0;
    if (!us) return;
    Column column{.nodes = nodes, .us = *us};
    for (Mask left = nodes; left != 0; left &= left - 1)
      column.producers |= window.producers[static_cast<size_t>(std::countr_zero(left))];
    column.producers &= ~nodes;
    columns.push_back(column);
  };
  std::ranges::for_each(window.groups, offer);
  for (size_t k = 0; k < window.nodes.size(); ++k) offer(Mask{1} << k);
  for (size_t next = 0; next < columns.size() && columns.size() < kMostColumns; ++next) {
    Mask beside = 0;
    for (Mask left = columns[next].nodes & own; left != 0; left &= left - 1)
      beside |= around[static_cast<size_t>(std::countr_zero(left))];
    for (Mask left = beside & ~columns[next].nodes; left != 0; left &= left - 1)
      offer(columns[next].nodes | (left & -left));
  }
  return columns;
}

Windows::Cover Windows::Cheapest(const Window& window) {
  const std::vector<Column> columns = Columns(window);
  columns_ += columns.size();
  const size_t count = window.nodes.size();
  // By their first nodes, whose producers are all outside of them.
  std::vector<std::vector<Column>> from(count);
  double now = 0;
  for (const Column& c : columns) {
    from[static_cast<size_t>(std::countr_zero(c.nodes))].push_back(c);
    if (std::ranges::count(window.groups, c.nodes)) now += c.us;
  }
  struct Ideal {
    double us = 0;
    Mask last = 0;  // the group that completed it
  };
  std::unordered_map<Mask, Ideal> ideals{{0, {}}};
  std::vector<std::vector<Mask>> by_size(count + 1);
  by_size[0] = {0};
  for (size_t size = 0; size < count; ++size) {
    std::ranges::sort(by_size[size]);  // ties come out alike
    for (const Mask covered : by_size[size]) {
      const double before = ideals.at(covered).us;
      for (size_t first = 0; first < count; ++first) {
        if ((covered >> first & 1) != 0 || (window.producers[first] & ~covered) != 0) continue;
        for (const Column& c : from[first]) {
          if ((c.nodes & covered) != 0 || (c.producers & ~covered) != 0) continue;
          const Mask grown = covered | c.nodes;
          const Ideal ideal{before + c.us, c.nodes};
          const auto [it, is_new] = ideals.try_emplace(grown, ideal);
          if (is_new)
            by_size[static_cast<size_t>(std::popcount(grown))].push_back(grown);
          else if (ideal.us < it->second.us)
            it->second = ideal;
        }
      }
      if (ideals.size() > kMostIdeals) return {};
    }
  }
  Mask all = 0;
  for (const Mask group : window.groups) all |= group;
  const auto best = ideals.find(all);
  if (best == ideals.end() || best->second.us >= now * (1 - kLeastGain)) return {};
  Cover cover;
  for (Mask left = all; left != 0; left &= ~cover.back()) cover.push_back(ideals.at(left).last);
  return cover;
}

const Windows::Cover& Windows::Solve(const Window& window) {
  std::tuple key(forms_.Of(window.nodes), window.own, window.groups);
  const auto [it, is_new] = solved_.try_emplace(std::move(key));
  if (is_new && columns_ < kMostEffort) it->second = Cheapest(window);
  return it->second;
}

void Windows::Apply(const Window& window, const Cover& cover, Clusters& clusters) {
  double before = 0, after = 0;
  const auto add = [&](Mask group, double& us) {
    const std::vector<NodeId> nodes = NodesOf(window, group);
    if (is_own_[nodes[0].index]) us += price_(nodes).value_or(0);
  };
  for (const Mask group : window.groups)
    if (std::ranges::count(cover, group) == 0) add(group, before);
  for (const Mask group : cover)
    if (std::ranges::count(window.groups, group) == 0) add(group, after);
  for (const Mask group : window.groups)
    if (std::ranges::count(cover, group) == 0 && std::popcount(group) > 1)
      note_(NodesOf(window, group), before, after);
  int32_t all = window.sets[0];
  for (const int32_t set : window.sets)
    if (set != all) all = clusters.Merge(all, set);
  for (size_t g = 0; g + 1 < cover.size(); ++g) clusters.Split(NodesOf(window, cover[g]));
}

}  // namespace weft::partition
