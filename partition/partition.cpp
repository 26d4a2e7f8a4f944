#include "partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "base/check.h"
#include "fallback/device.h"
#include "partition/candidate.h"
#include "partition/clusters.h"
#include "partition/forms.h"
#include "partition/layouts.h"
#include "partition/merge_order.h"
#include "partition/ranks.h"
#include "partition/singles.h"
#include "partition/windows.h"
#include "tc_lang/copies.h"

namespace weft::partition {
namespace {

using graph::NodeId;
using graph::ValueId;

class Partitioner {
 public:
  // `plain`: nodes whose values are to be plain.
  Partitioner(const graph::Graph& graph, const NodeComprehensions& nodes, const Target& target,
              Pricer& pricer, const PartitionOptions& options, const std::set<NodeId>& plain)
      : graph_(graph),
        nodes_(nodes),
        target_(target),
        pricer_(pricer),
        options_(options),
        plain_(plain),
        uses_(graph),
        facts_(graph),
        ranks_(CanonicalRanks(graph)),
        sets_(facts_) {
    // What a library takes out of a chain leaves pieces that need not be kernels.
    if (options.force == PartitionOptions::Force::kVendor) options_.join = false;
  }

  Result<Grouping> Run() {
    const bool calls = AreCallsForced();
    std::vector<bool> takes_plain;  // natives and nested plans know plain tensors only
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      takes_plain.push_back(plain_.contains(NodeId(i)) ||
                            (calls ? !IsForLibrary(NodeId(i)) : nodes_.of[i].empty()));
    // The libraries of a device want them plain. Where one may be called, all groupings have the
    // same layouts, whoever is forced.
    if (target_.kind != TargetKind::kCuda || !options_.vendor)
      layouts_ = PlanLayouts(graph_, takes_plain,
                             calls || options_.force == PartitionOptions::Force::kVendor);
    WEFT_TRY(Singles singles, ClassifyNodes(facts_, nodes_, layouts_, pricer_, options_, target_));
    kind_ = std::move(singles.kind);
    alternative_ = std::move(singles.alternative);
    left_out_ = std::move(singles.left_out);
    forms_.emplace(facts_, nodes_, layouts_, alternative_);
    if (options_.fuse && !calls) {
      Grow();
      ImproveByWindows();
    }
    TakeViews();
    if (options_.vendor && options_.force != PartitionOptions::Force::kOwn) OfferToLibraries();
    TakeViews();  // whose neighbours a library took
    if (calls) TakeNatives();
    return Collect();
  }

  // Nodes that a call would do if its values were plain.
  const std::set<NodeId>& WantPlain() const { return want_plain_; }

 private:
  std::vector<Member> MembersOf(std::span<const NodeId> nodes) const {
    std::vector<Member> members;
    for (NodeId n : nodes)
      members.push_back({n, kind_[n.index] == Implementation::kOwn
                                ? nodes_.of[n.index][alternative_[n.index]].name
                                : ""});
    return members;
  }

  bool AreCallsForced() const { return options_.force == PartitionOptions::Force::kCalls; }

  // Price of these nodes as one own kernel, or why they can't be one: computed once for each form.
  // A refusal names the nodes by their places.
  const Verdict<Price>& OwnPrice(const std::vector<NodeId>& nodes) {
    Form form = forms_->Of(nodes);
    const auto it = own_prices_.find(form);
    if (it != own_prices_.end()) return it->second;
    return own_prices_.emplace(std::move(form), ComputeOwnPrice(nodes)).first->second;
  }

  Verdict<Price> ComputeOwnPrice(const std::vector<NodeId>& nodes) {
    if (nodes.size() > 1) {
      size_t statements = 0, contractions = 0;
      for (const NodeId n : nodes) {
        const tc::Program& part = nodes_.of[n.index][alternative_[n.index]].program;
        if (!tc::MayForward(part)) statements += CountTargets(part);
        contractions += static_cast<size_t>(std::ranges::count_if(part.statements, tc::Contracts));
      }
      if (auto no = CheckSize(statements, contractions, options_)) return *std::move(no);
    }
    auto extracted = ExtractMembers(facts_, nodes_, MembersOf(nodes), "candidate");
    if (!extracted.ok()) return Refusal{Reason::kNoComprehension, extracted.status().what()};
    bool in_blocks = false;
    if (nodes.size() > 1) {
      const auto legal = CheckGroup(*extracted, graph_, layouts_, target_, options_);
      if (!legal.yes()) return legal.refusal();
      in_blocks = legal->in_blocks;
    }
    return pricer_.Own(extracted->program, in_blocks);
  }

  struct Merge {
    double gain;
    int32_t a, b;  // b reads from a
    int32_t rank_a, rank_b;
    std::vector<NodeId> nodes;
    // The best gain first; ties by rank, so that the order of merges is the same everywhere.
    bool operator<(const Merge& o) const {
      return std::tuple(gain, -rank_a, -rank_b) < std::tuple(o.gain, -o.rank_a, -o.rank_b);
    }
  };

  std::vector<NodeId> MembersOfBoth(int32_t a, int32_t b) const {
    std::vector<NodeId> nodes;
    std::ranges::merge(sets_.Members(a), sets_.Members(b), std::back_inserter(nodes));
    return nodes;
  }

  void Consider(int32_t a, int32_t b) {
    if (!IsOwn(a) || !IsOwn(b)) return;
    std::vector<NodeId> nodes = MembersOfBoth(a, b);
    const Verdict<Price>& fused = OwnPrice(nodes);
    if (!fused.yes()) return Refuse(nodes, fused.refusal());
    const auto &pa = OwnPrice(sets_.Members(a)), &pb = OwnPrice(sets_.Members(b));
    if (!pa.yes() || !pb.yes()) return;
    const double gain = pa->us + pb->us - fused->us;
    if (gain <= 0)
      return Refuse(nodes, {Reason::kEstimatedSlower,
                            fmt::format("{:.2f} > {:.2f} us", fused->us, pa->us + pb->us)});
    queue_.push({gain, a, b, RankOf(a), RankOf(b), std::move(nodes)});
  }

  int32_t RankOf(int32_t set) const {
    int32_t least = INT32_MAX;
    for (NodeId n : sets_.Members(set)) least = std::min(least, ranks_[n.index]);
    return least;
  }

  std::vector<NodeId> ByRank() const {
    std::vector<NodeId> nodes(graph_.nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) nodes[ranks_[i]] = NodeId(i);
    return nodes;
  }

  bool IsOwn(int32_t set) const { return kind_[set] == Implementation::kOwn; }

  void Refuse(const std::vector<NodeId>& nodes, const Refusal& refusal) {
    if (refused_keys_.insert(nodes).second)
      refused_.push_back({nodes, {refusal.reason, WithNames(refusal.detail, nodes)}});
  }

  // "{1} by {2}" with the names of those nodes.
  std::string WithNames(std::string_view detail, const std::vector<NodeId>& nodes) const {
    std::string text;
    while (!detail.empty()) {
      size_t place = 0;
      const char* const end = detail.data() + detail.size();
      const auto number = std::from_chars(detail.data() + 1, end, place);
      const bool names = detail.size() > 2 && detail[0] == '{' && number.ec == std::errc() &&
                         number.ptr < end && *number.ptr == '}' && place < nodes.size();
      text += names ? graph::ShortName(graph_, nodes[place]) : std::string(1, detail[0]);
      detail.remove_prefix(names ? number.ptr + 1 - detail.data() : 1);
    }
    return text;
  }

  bool Contracts(NodeId n) const {
    if (kind_[n.index] != Implementation::kOwn) return false;
    const tc::Program& program = nodes_.of[n.index][alternative_[n.index]].program;
    return std::ranges::any_of(program.statements, tc::Contracts);
  }

  // What leads from a contraction to the set of `node` through the given input and nothing else
  // reads: sets of our own, back to the first that contracts.
  std::set<NodeId> ChainTo(NodeId node, ValueId input) const {
    const auto& last = sets_.Members(sets_.Of(node));
    std::set<NodeId> chain(last.begin(), last.end());
    std::vector<ValueId> todo{input};
    bool found = false;
    while (!todo.empty()) {
      const ValueId v = todo.back();
      todo.pop_back();
      if (!v.valid() || !graph_[v].producer.valid() || facts_.is_output[v.index]) continue;
      const NodeId p = graph_[v].producer;
      if (!IsOwn(sets_.Of(p)) || chain.contains(p)) continue;
      const auto& readers = facts_.consumers[v.index];
      if (!std::ranges::all_of(readers, [&](NodeId r) { return chain.contains(r); })) continue;
      const auto& members = sets_.Members(sets_.Of(p));
      chain.insert(members.begin(), members.end());
      if (std::ranges::any_of(members, [&](NodeId m) { return Contracts(m); })) {
        found = true;
        continue;
      }
      for (NodeId m : members)
        todo.insert(todo.end(), graph_[m].inputs.begin(), graph_[m].inputs.end());
    }
    return found ? chain : std::set<NodeId>{};
  }

  // Contractions that feed one another, each with what lies between: no pair of neighbours in such
  // a chain can be one kernel, so greedy merging would never get there.
  void JoinContractions(MergeOrder& order) {
    for (const NodeId node : ByRank()) {
      if (!Contracts(node)) continue;
      for (const ValueId input : graph_[node].inputs) {
        const std::set<NodeId> chain = ChainTo(node, input);
        if (chain.empty()) continue;
        const std::vector<NodeId> members(chain.begin(), chain.end());
        std::set<int32_t> joined;
        for (NodeId n : members) joined.insert(sets_.Of(n));
        const std::vector<int32_t> sets(joined.begin(), joined.end());
        if (order.PathAround(sets)) continue;
        const Verdict<Price>& fused = OwnPrice(members);
        if (!fused.yes()) {
          Refuse(members, fused.refusal());
          continue;
        }
        double apart = 0;
        for (int32_t set : sets) apart += OwnUs(sets_.Members(set));
        if (fused->us >= apart) {
          Refuse(members,
                 {Reason::kEstimatedSlower, fmt::format("{:.2f} >= {:.2f} us", fused->us, apart)});
          continue;
        }
        order.Merge(sets);
      }
    }
  }

  void Grow() {
    MergeOrder order(sets_);
    GrowGreedily(order);
    if (!options_.join) return;
    JoinContractions(order);
    GrowGreedily(order);
  }

  void ImproveByWindows() {
    std::vector<bool> is_own;
    for (const Implementation k : kind_) is_own.push_back(k == Implementation::kOwn);
    const auto price = [&](const std::vector<NodeId>& nodes) -> std::optional<double> {
      const Verdict<Price>& own = OwnPrice(nodes);
      return own.yes() ? std::optional(own->us) : std::nullopt;
    };
    const auto note = [&](const std::vector<NodeId>& nodes, double before, double after) {
      Refuse(nodes, {Reason::kEstimatedSlower,
                     fmt::format("with its neighbours {:.2f} > {:.2f} us", before, after)});
    };
    Windows(facts_, *forms_, ranks_, is_own, price, note).Improve(sets_);
  }

  void GrowGreedily(MergeOrder& order) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      for (int32_t r : sets_.Readers(static_cast<int32_t>(i))) Consider(static_cast<int32_t>(i), r);
    while (!queue_.empty()) {
      const Merge best = queue_.top();
      queue_.pop();
      const std::vector<NodeId> now = MembersOfBoth(best.a, best.b);
      if (now != best.nodes || sets_.Members(best.a).empty())
        continue;  // one of them has grown since
      const std::array both = {best.a, best.b};
      if (order.PathAround(both)) {
        Refuse(now, {Reason::kNotConvex, ""});
        continue;
      }
      Reconsider(order.Merge(both));
    }
  }

  void Reconsider(int32_t set) {
    for (const int32_t r : sets_.Readers(set)) Consider(set, r);
    for (const int32_t p : sets_.Producers(set)) Consider(p, set);
  }

  // Transposes that nothing was fused with, and that move nothing.
  void TakeViews() {
    for (size_t i = 0; i < kind_.size(); ++i) {
      const NodeId node(i);
      if (kind_[i] == Implementation::kOwn && graph_[node].op == graph::Op::kTranspose &&
          sets_.Members(sets_.Of(node)).size() == 1 && IsView(facts_, layouts_, node))
        kind_[i] = Implementation::kView;
    }
  }

  // Each set of nodes that a library could do: kept by the library where that is cheaper.
  void OfferToLibraries() {
    const fallback::Abilities can = AbilitiesFor(target_, options_);
    for (const NodeId anchor : ByRank())
      for (const fallback::Library library : fallback::LibrariesFor(target_.kind))
        OfferTo(library, anchor, can);
  }

  void OfferTo(fallback::Library library, NodeId anchor, const fallback::Abilities& can) {
    const auto is_taken = [&](NodeId n) {
      return kind_[n.index] == Implementation::kVendor || kind_[n.index] == Implementation::kView;
    };
    if (is_taken(anchor)) return;
    auto nodes = options_.fuse ? fallback::LongestMatch(graph_, uses_, anchor, library, can)
                               : std::vector<NodeId>{anchor};
    if (nodes.empty()) NoteForbidden(library, anchor, can);
    nodes.erase(std::ranges::find_if(nodes, is_taken),
                nodes.end());  // as the sum that ends another branch
    for (; !nodes.empty(); nodes.pop_back()) {
      const auto call = fallback::Match(
          graph_, uses_, nodes, library, [&](ValueId v) { return LayoutOf(layouts_, graph_, v); },
          can);
      if (!call.yes()) return;
      if (auto no = WhyNotHere(*call))
        left_out_.push_back({nodes, *std::move(no)});
      else
        return Decide(nodes, *call);
    }
  }

  // A device's library is asked itself, whether it is here and has a way: its answer depends on
  // more than the call says of itself, so that an epilogue may be one step too long for it.
  std::optional<Refusal> WhyNotHere(const fallback::LibraryCall& call) const {
    if (!fallback::IsOnDevice(call.library)) return std::nullopt;
    const Status status = fallback::CheckWithoutDevice(call, target_.isa);
    if (status.ok()) return std::nullopt;
    return Refusal{Reason::kNotInLibrary,
                   fmt::format("{}: {}", LibraryName(call.library), status.what())};
  }

  bool IsForLibrary(NodeId node) const {
    if (!options_.vendor) return false;
    return std::ranges::any_of(fallback::LibrariesFor(target_.kind), [&](fallback::Library l) {
      return !fallback::LongestMatch(graph_, uses_, node, l, AbilitiesFor(target_, options_))
                  .empty();
    });
  }

  void TakeNatives() {
    for (size_t i = 0; i < kind_.size(); ++i) {
      const NodeId node(i);
      const auto is_plain = [&](ValueId v) { return !v.valid() || !layouts_.contains(v); };
      const bool is_own = kind_[i] == Implementation::kOwn;
      if (!is_own && kind_[i] != Implementation::kNative) continue;
      if (std::ranges::all_of(graph_[node].inputs, is_plain) &&
          std::ranges::all_of(graph_[node].outputs, is_plain)) {
        if (fallback::HasNativeCall(graph_, node)) kind_[i] = Implementation::kNative;
      } else if (!is_own || HasCall(graph_, uses_, node, target_, options_)) {
        want_plain_.insert(node);
      }
    }
  }

  // Of a node that the library could do, but not as it should be done.
  void NoteForbidden(fallback::Library library, NodeId anchor, const fallback::Abilities& can) {
    const auto call = fallback::Match(graph_, std::span(&anchor, 1), library, {}, can);
    if (call.yes()) return;
    const auto& [reason, detail] = call.refusal();
    if (reason == Reason::kInaccurate || reason == Reason::kSaturatesInLibrary ||
        reason == Reason::kRoundsInLibrary)
      left_out_.push_back(
          {{anchor}, {reason, fmt::format("{}: {}", LibraryName(library), detail)}});
  }

  // What a call leaves of a set that it cuts into: the members that its nodes depend on, and the
  // others. Taken together they would not be convex: data would leave them for the call and come
  // back.
  std::pair<std::vector<NodeId>, std::vector<NodeId>> LeftBy(const std::set<NodeId>& taken,
                                                             int32_t set) const {
    std::vector<NodeId> before, after;
    std::set<NodeId> needed;  // members from which a path inside the set leads to a taken node
    const auto& members = sets_.Members(set);
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      bool leads = false;
      for (ValueId v : graph_[*it].outputs)
        if (v.valid())
          for (NodeId r : facts_.consumers[v.index])
            leads |= taken.contains(r) || needed.contains(r);
      if (leads) needed.insert(*it);
    }
    for (NodeId m : members)
      if (!taken.contains(m)) (needed.contains(m) ? before : after).push_back(m);
    return {before, after};
  }

  double OwnUs(const std::vector<NodeId>& nodes) {
    if (nodes.empty()) return 0;
    const Verdict<Price>& price = OwnPrice(nodes);
    return price.yes() ? price->us : 1e9;
  }

  void Decide(const std::vector<NodeId>& nodes, const fallback::LibraryCall& call) {
    // Compared over the sets that the call cuts into: what it takes, and what it leaves of them.
    const std::set<NodeId> taken(nodes.begin(), nodes.end());
    std::set<int32_t> touched;
    for (NodeId n : nodes) touched.insert(sets_.Of(n));
    double own = 0, rest = 0;
    bool all_own = true;
    for (int32_t set : touched) {
      if (!IsOwn(set)) {
        if (!AreCallsForced() || kind_[set] != Implementation::kNative) return;
        all_own = false;  // a node without comprehension, which has no other price
        continue;
      }
      const auto [before, after] = LeftBy(taken, set);
      own += OwnUs(sets_.Members(set));
      rest += OwnUs(before) + OwnUs(after);
    }
    const Price vendor = pricer_.Call(call);
    const std::string name = fmt::format("{}.{}", LibraryName(call.library), call.op);
    const bool forced = options_.force == PartitionOptions::Force::kVendor || AreCallsForced();
    if (!forced && vendor.us + rest >= own) {
      rivals_[*touched.begin()].push_back({name, vendor.us, false, std::nullopt});
      return;
    }
    for (int32_t set : touched) {
      const auto [before, after] = LeftBy(taken, set);
      if (!before.empty()) sets_.Split(before);
      if (!after.empty()) sets_.Split(after);
    }
    int32_t set = sets_.Of(nodes[0]);
    for (NodeId n : nodes)
      if (sets_.Of(n) != set) {
        sets_.Merge(set, sets_.Of(n));
        set = sets_.Of(n);
      }
    for (NodeId n : nodes) kind_[n.index] = Implementation::kVendor;
    library_[set] = {name, vendor};
    if (all_own)
      rivals_[set] = {
          {"own", own, false, Refusal{forced ? Reason::kForced : Reason::kEstimatedSlower, ""}}};
  }

  Result<Grouping> Collect() {
    Grouping g{.name = graph_.name, .target = target_, .layouts = layouts_};
    std::set<std::string> names;
    for (int32_t set : sets_.TopologicalOrder()) {
      const auto& nodes = sets_.Members(set);
      Group group{.implementation = kind_[nodes[0].index], .members = MembersOf(nodes)};
      group.name = UniqueName(nodes, names);
      if (group.implementation == Implementation::kVendor) {
        group.library_call = library_[set].first;
        group.us = library_[set].second.us;
      } else if (group.implementation == Implementation::kOwn) {
        const auto& price = OwnPrice(nodes);
        if (!price.yes())
          return Internal(fmt::format("{}", price.refusal().detail))
              .At(graph::Describe(graph_, nodes[0]));
        group.us = price->us;
      }
      group.rivals = rivals_[set];
      g.groups.push_back(std::move(group));
    }
    g.refused = FinalRefusals();
    return g;
  }

  // Those that still tell something: of alternatives, and of nodes that ended up in different
  // groups.
  std::vector<Refused> FinalRefusals() const {
    std::vector<Refused> out = left_out_;
    for (const Refused& r : refused_) {
      const int32_t set = sets_.Of(r.nodes[0]);
      if (std::any_of(r.nodes.begin(), r.nodes.end(), [&](NodeId n) { return sets_.Of(n) != set; }))
        out.push_back(r);
    }
    return out;
  }

  std::string UniqueName(const std::vector<NodeId>& nodes, std::set<std::string>& names) const {
    std::string name = graph::ShortName(graph_, nodes[0]);
    if (nodes.size() > 1) name += "_to_" + graph::ShortName(graph_, nodes.back());
    std::string unique = name;
    for (int k = 2; !names.insert(unique).second; ++k) unique = fmt::format("{}_{}", name, k);
    return unique;
  }

  const graph::Graph& graph_;
  const NodeComprehensions& nodes_;
  const Target& target_;
  Pricer& pricer_;
  PartitionOptions options_;
  const std::set<NodeId>& plain_;
  std::set<NodeId> want_plain_;
  fallback::Uses uses_;
  GraphFacts facts_;
  const std::vector<int32_t> ranks_;
  Clusters sets_;
  std::map<ValueId, Layout> layouts_;
  std::vector<Implementation> kind_;
  std::vector<size_t> alternative_;  // of each node that is our own
  std::optional<Forms> forms_;
  std::map<Form, Verdict<Price>> own_prices_;
  std::priority_queue<Merge> queue_;
  std::vector<Refused> refused_;
  std::vector<Refused> left_out_;  // alternatives of single nodes
  std::set<std::vector<NodeId>> refused_keys_;
  std::map<int32_t, std::pair<std::string, Price>> library_;
  std::map<int32_t, std::vector<Rival>> rivals_;
};

}  // namespace

fallback::Abilities AbilitiesFor(const Target& target, const PartitionOptions& options) {
  return {.bfloat16 = target.HasAvx512(),
          .dot_products = HasDotProducts(target.isa),
          .flushes = options.flushes,
          .tf32 = options.tf32,
          .loses_nan = options.loses_nan};
}

bool HasCall(const graph::Graph& graph, const fallback::Uses& uses, NodeId node,
             const Target& target, const PartitionOptions& options) {
  const auto does = [&](fallback::Library library) {
    const auto call = fallback::Match(graph, uses, std::span(&node, 1), library, {},
                                      AbilitiesFor(target, options));
    return call.yes() &&
           (!fallback::IsOnDevice(library) || fallback::CheckWithoutDevice(*call, target.isa).ok());
  };
  return fallback::HasNativeCall(graph, node) ||
         (options.vendor && std::ranges::any_of(fallback::LibrariesFor(target.kind), does));
}

Result<Grouping> Partition(const graph::Graph& graph, const NodeComprehensions& nodes,
                           const Target& target, Pricer& pricer, const PartitionOptions& options) {
  std::set<NodeId> plain;
  while (true) {
    Partitioner partitioner(graph, nodes, target, pricer, options, plain);
    auto grouping = partitioner.Run();
    // What a library could do, but not in the layouts that others have, would be compiled.
    const size_t known = plain.size();
    plain.insert(partitioner.WantPlain().begin(), partitioner.WantPlain().end());
    if (!grouping.ok() || plain.size() == known) return grouping;
  }
}

}  // namespace weft::partition
