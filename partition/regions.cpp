#include "partition/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>

#include "base/check.h"

namespace weft::partition {
namespace {

using graph::ValueId;

struct Region {
  std::vector<std::vector<size_t>> groups;  // by grouping
  std::vector<double> us;                   // by grouping
};

size_t Root(std::vector<size_t>& parent, size_t n) {
  while (parent[n] != n) n = parent[n] = parent[parent[n]];
  return n;
}

std::vector<Region> FindRegions(const graph::Graph& graph,
                                std::span<const PricedGrouping> groupings) {
  std::vector<size_t> parent(graph.nodes.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  for (const PricedGrouping& p : groupings)
    for (const Group& group : p.grouping.groups)
      for (const Member& m : group.members) {
        const size_t a = Root(parent, static_cast<size_t>(m.node.index));
        const size_t b = Root(parent, static_cast<size_t>(group.members[0].node.index));
        parent[std::max(a, b)] = std::min(a, b);  // the root is the smallest node
      }
  std::map<size_t, Region> regions;
  for (size_t k = 0; k < groupings.size(); ++k) {
    WEFT_CHECK(groupings[k].us.size() == groupings[k].grouping.groups.size(),
               "a price for each group");
    for (size_t g = 0; g < groupings[k].grouping.groups.size(); ++g) {
      const Group& group = groupings[k].grouping.groups[g];
      Region& region = regions[Root(parent, static_cast<size_t>(group.members[0].node.index))];
      region.groups.resize(groupings.size());
      region.us.resize(groupings.size());
      region.groups[k].push_back(g);
      region.us[k] += groupings[k].us[g];
    }
  }
  std::vector<Region> list;
  for (auto& [root, region] : regions) list.push_back(std::move(region));
  return list;
}

size_t Cheapest(std::span<const double> us) {
  return static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
}

class Selection {
 public:
  Selection(const graph::Graph& graph, std::span<const PricedGrouping> groupings)
      : graph_(graph), groupings_(groupings), regions_(FindRegions(graph, groupings)) {}

  Grouping Run() {
    std::vector<size_t> best;
    std::vector<double> totals(groupings_.size());
    for (const Region& region : regions_) {
      best.push_back(Cheapest(region.us));
      for (size_t k = 0; k < totals.size(); ++k) totals[k] += region.us[k];
    }
    auto order = Order(best);
    if (!order) {
      // Some choices close a circle: they are made one after the other, the greatest gain first.
      const size_t home = Cheapest(totals);
      const std::vector<size_t> wanted = std::move(best);
      best.assign(regions_.size(), home);
      std::vector<size_t> by_gain(regions_.size());
      std::iota(by_gain.begin(), by_gain.end(), size_t{0});
      const auto gain = [&](size_t r) { return regions_[r].us[home] - regions_[r].us[wanted[r]]; };
      std::stable_sort(by_gain.begin(), by_gain.end(),
                       [&](size_t a, size_t b) { return gain(a) > gain(b); });
      for (size_t r : by_gain) {
        best[r] = wanted[r];
        if (wanted[r] != home && !Order(best)) best[r] = home;
      }
      order = Order(best);
      WEFT_CHECK(order.has_value(), "a grouping is acyclic");
    }
    return Compose(best, *order);
  }

  Grouping TakeWhole(size_t taken, const std::string& why) {
    why_ = why;
    const std::vector<size_t> choice(regions_.size(), taken);
    return Compose(choice, *Order(choice));
  }

 private:
  struct Chosen {
    size_t region, grouping, group;
  };

  const Group& At(const Chosen& c) const { return groupings_[c.grouping].grouping.groups[c.group]; }

  // The chosen groups in an order that respects data flow, ties by first node; none if there is a
  // circle.
  std::optional<std::vector<Chosen>> Order(const std::vector<size_t>& choice) const {
    std::vector<Chosen> chosen;
    std::vector<size_t> of(graph_.nodes.size());
    for (size_t r = 0; r < regions_.size(); ++r)
      for (size_t g : regions_[r].groups[choice[r]]) {
        for (const Member& m : groupings_[choice[r]].grouping.groups[g].members)
          of[static_cast<size_t>(m.node.index)] = chosen.size();
        chosen.push_back({r, choice[r], g});
      }
    std::vector<std::set<size_t>> readers(chosen.size());
    std::vector<size_t> waits(chosen.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (ValueId v : graph_.nodes[n].inputs) {
        if (!v.valid() || !graph_[v].producer.valid()) continue;
        const size_t from = of[static_cast<size_t>(graph_[v].producer.index)];
        if (from != of[n] && readers[from].insert(of[n]).second) ++waits[of[n]];
      }
    using Ready = std::pair<int32_t, size_t>;  // first node, position in `chosen`
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto push = [&](size_t i) { ready.emplace(At(chosen[i]).members[0].node.index, i); };
    for (size_t i = 0; i < chosen.size(); ++i)
      if (waits[i] == 0) push(i);
    std::vector<Chosen> order;
    while (!ready.empty()) {
      const size_t i = ready.top().second;
      ready.pop();
      order.push_back(chosen[i]);
      for (size_t r : readers[i])
        if (--waits[r] == 0) push(r);
    }
    if (order.size() != chosen.size()) return std::nullopt;
    return order;
  }

  Grouping Compose(const std::vector<size_t>& choice, const std::vector<Chosen>& order) const {
    Grouping result = groupings_.back().grouping;  // its name, layouts and refusals
    result.groups.clear();
    std::set<std::string> names;
    std::vector<size_t> of(graph_.nodes.size());
    for (const Chosen& c : order) {
      Group group = At(c);
      const std::string name = group.name;
      for (int k = 2; !names.insert(group.name).second; ++k)
        group.name = fmt::format("{}_{}", name, k);
      group.us = groupings_[c.grouping].us[c.group];
      group.measured = true;
      group.rivals = Rivals(regions_[c.region], choice[c.region]);
      for (const Member& m : group.members)
        of[static_cast<size_t>(m.node.index)] = result.groups.size();
      result.groups.push_back(std::move(group));
    }
    std::erase_if(result.refused, [&](const Refused& refused) {
      return std::all_of(refused.nodes.begin(), refused.nodes.end(), [&](graph::NodeId n) {
        return of[static_cast<size_t>(n.index)] == of[static_cast<size_t>(refused.nodes[0].index)];
      });
    });
    return result;
  }

  // What else was measured for these nodes, each way once.
  std::vector<Rival> Rivals(const Region& region, size_t taken) const {
    std::vector<Rival> rivals;
    std::set<std::string> seen = {Describe(region, taken)};
    for (size_t k = 0; k < groupings_.size(); ++k) {
      const std::string kind = Describe(region, k);
      if (!seen.insert(kind).second) continue;
      rivals.push_back(
          {kind, region.us[k], true,
           Refusal{Reason::kMeasuredSlower,
                   why_.empty() ? fmt::format("{:.1f} > {:.1f} us", region.us[k], region.us[taken])
                                : why_}});
    }
    return rivals;
  }

  // "own", or "onednn.matmul + 2 own" where several groups do it.
  std::string Describe(const Region& region, size_t k) const {
    std::map<std::string, int> kinds;
    for (size_t g : region.groups[k]) {
      const Group& group = groupings_[k].grouping.groups[g];
      ++kinds[group.implementation == Implementation::kVendor
                  ? group.library_call
                  : std::string(ImplementationName(group.implementation))];
    }
    std::string text;
    for (const auto& [kind, count] : kinds)
      text += (text.empty() ? "" : " + ") + (count > 1 ? fmt::format("{} {}", count, kind) : kind);
    return text;
  }

  const graph::Graph& graph_;
  std::span<const PricedGrouping> groupings_;
  std::vector<Region> regions_;
  std::string why_;  // of all choices; empty: the region's own times
};

}  // namespace

// One after the other, each against the best of those before: two groupings have smaller regions
// than all at once, where one that makes a single group of the network leaves a single region.
Grouping SelectByRegion(const graph::Graph& graph, std::span<const PricedGrouping> groupings) {
  std::vector<PricedGrouping> all(groupings.begin(), groupings.end());
  PricedGrouping best = all[0];
  for (const PricedGrouping& next : groupings.subspan(1)) {
    const PricedGrouping both[] = {std::move(best), next};
    best = {Selection(graph, both).Run(), {}};
    for (const Group& group : best.grouping.groups) best.us.push_back(group.us);
  }
  all.push_back(std::move(best));  // among them all, for its rivals
  return Selection(graph, all).TakeWhole(all.size() - 1, "");
}

Grouping TakeWhole(const graph::Graph& graph, std::span<const PricedGrouping> groupings,
                   size_t taken, const std::string& why) {
  return Selection(graph, groupings).TakeWhole(taken, why);
}

}  // namespace weft::partition
