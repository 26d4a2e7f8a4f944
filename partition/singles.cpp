#include "partition/singles.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "fallback/match.h"
#include "graph/stages.h"
#include "partition/layouts.h"
#include "partition/work.h"

namespace weft::partition {
namespace {

using graph::NodeId;
using graph::Op;
using graph::ValueId;

bool IsReshape(Op op) {
  return op == Op::kReshape || op == Op::kSqueeze || op == Op::kUnsqueeze || op == Op::kFlatten ||
         op == Op::kIdentity;
}

// Whether a transpose leaves each element where it is, since the layouts of both sides say so.
bool TurnsLayouts(const graph::Graph& graph, const std::map<ValueId, Layout>& layouts,
                  const graph::Node& node) {
  const auto shape = graph::StaticShape(graph[node.inputs[0]]);
  const auto perm = graph::IntsAttr(node, "perm");
  Layout turned = LayoutOf(layouts, graph, node.outputs[0]);
  if (!shape || perm.size() != shape->size() || turned.rank() != perm.size()) return false;
  for (Layout::Axis& a : turned.axes)
    a.axis = static_cast<int32_t>(perm[static_cast<size_t>(a.axis)]);
  return SamePlaces(LayoutOf(layouts, graph, node.inputs[0]), turned, *shape);
}

}  // namespace

// Strings are no memory that could be shared.
bool IsView(const GraphFacts& facts, const std::map<ValueId, Layout>& layouts, NodeId id) {
  const graph::Node& node = facts.graph[id];
  const bool turns = node.op == Op::kTranspose;
  if (!IsReshape(node.op) && !turns) return false;
  if (node.inputs.empty() || !node.inputs[0].valid()) return false;
  if (facts.graph[node.inputs[0]].dtype == Dtype::kString) return false;
  if (facts.is_output[node.outputs[0].index] ||
      facts.graph[node.inputs[0]].kind == graph::ValueKind::kConstant)
    return false;
  if (turns) return TurnsLayouts(facts.graph, layouts, node);
  const auto is_plain = [&](ValueId v) {
    const auto shape = graph::StaticShape(facts.graph[v]);
    return shape &&
           SamePlaces(LayoutOf(layouts, facts.graph, v), Layout::Plain(shape->size()), *shape);
  };
  return is_plain(node.inputs[0]) && is_plain(node.outputs[0]);
}

namespace {

// What an element takes that a lane reads by itself, of one core.
constexpr double kGatheredUs = 1.0 / 3000;
// What a register of elements takes that are compared with what a window found so far, or added to
// it: each is loaded again, mostly across two lines, so that there is one in a cycle.
constexpr double kWindowUs = 1.0 / 3000;

// What the last cache brings of what is passed over again, of one core: memory brings less.
constexpr double kAgainBytesPerUs = 40'000;

// An alternative's price where its operands lie as they do in the network.
double PriceOf(const tc::Alternative& a, const std::map<ValueId, Layout>& layouts, Pricer& pricer,
               const Target& target) {
  std::map<std::string, Layout> by_name;
  const auto note = [&](const std::vector<tc::TensorId>& tensors,
                        const std::vector<ValueId>& values) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (const auto it = layouts.find(values[i]); it != layouts.end())
        by_name[a.program[tensors[i]].name] = it->second;
  };
  note(tc::Inputs(a.program), a.inputs);
  note(tc::Outputs(a.program), a.outputs);
  const double us = pricer.Own(a.program, false).us;
  if (target.kind != TargetKind::kCpu) return us;
  const double cores = std::clamp(target.threads, 1, 2), lanes = target.VectorBytes() / 4.0;
  const double again = PassedAgainBytes(a.program, static_cast<double>(target.l2_bytes));
  return us + (again / kAgainBytesPerUs + kGatheredUs * GatheredReads(a.program, by_name) +
               kWindowUs / lanes * WindowReads(a.program, by_name)) /
                  cores;
}

// Of a node's alternatives that are about as cheap as any the one with the most products at once,
// then with the fewest functions, since fewer instructions leave more room for what the model
// doesn't count; of those the first, which is the plainest. The others are noted.
size_t Cheapest(NodeId node, const std::vector<tc::Alternative>& alternatives,
                const std::vector<double>& us, const Target& target,
                std::vector<Refused>& left_out) {
  constexpr double kClearly = 0.975;
  const double least = *std::ranges::min_element(us);
  const auto ease = [&](size_t a) {
    const tc::Program& program = alternatives[a].program;
    double at_once = 1;
    for (const tc::Statement& s : program.statements)
      at_once = std::max(at_once, ProductsAtOnce(target.isa, program, s));
    return std::pair(at_once, -MathCalls(program));
  };
  size_t best = us.size();
  for (size_t a = 0; a < us.size(); ++a)
    if (kClearly * us[a] <= least && (best == us.size() || ease(a) > ease(best))) best = a;
  for (size_t a = 0; a < us.size(); ++a)
    if (a != best)
      left_out.push_back(
          {{node},
           {Reason::kEstimatedSlower, fmt::format("{} {:.2f} {} {} {:.2f} us", alternatives[a].name,
                                                  us[a], us[a] >= us[best] ? ">=" : "is about",
                                                  alternatives[best].name, us[best])}});
  return best;
}

// Of an operator that has one, which does not do this node.
std::string WhyNoNative(const graph::Graph& graph, NodeId node) {
  const auto call = fallback::Match(graph, std::span(&node, 1), fallback::Library::kNative);
  if (call.yes() || call.refusal().reason == Reason::kOpUnknownToLibrary) return "";
  return "; " + call.refusal().detail;
}

}  // namespace

Result<Singles> ClassifyNodes(const GraphFacts& facts, const NodeComprehensions& nodes,
                              const std::map<ValueId, Layout>& layouts, Pricer& pricer,
                              const PartitionOptions& options, const Target& target) {
  const size_t count = facts.graph.nodes.size();
  Singles singles{.kind = std::vector<Implementation>(count, Implementation::kOwn),
                  .alternative = std::vector<size_t>(count)};
  std::vector<std::string> impossible;
  for (size_t i = 0; i < count; ++i) {
    const NodeId node(i);
    if (graph::HoldsPlans(facts.graph[node].op)) {
      singles.kind[i] = Implementation::kPlan;
    } else if (IsReshape(facts.graph[node].op) && IsView(facts, layouts, node)) {
      singles.kind[i] = Implementation::kView;
    } else if (nodes.of[i].empty()) {
      singles.kind[i] = Implementation::kNative;
      const auto& refusal = nodes.refusals[i];
      const bool has_call = refusal && refusal->reason == Reason::kForced;
      if (!has_call && !fallback::HasNativeCall(facts.graph, node))
        impossible.push_back(fmt::format("{}: {}{}", graph::Describe(facts.graph, node),
                                         WhyNoComprehension(nodes, node),
                                         WhyNoNative(facts.graph, node)));
    } else if (options.variants && nodes.of[i].size() > 1) {
      std::vector<double> us;
      for (const tc::Alternative& a : nodes.of[i])
        us.push_back(PriceOf(a, layouts, pricer, target));
      singles.alternative[i] = Cheapest(node, nodes.of[i], us, target, singles.left_out);
    }
  }
  if (!impossible.empty())
    return Unsupported(fmt::format("{} node(s) cannot be built: {}", impossible.size(),
                                   fmt::join(impossible, "; ")));
  for (const auto& [node, refusals] : nodes.left_out)
    for (const auto& [name, refusal] : refusals)
      singles.left_out.push_back({{node}, {refusal.reason, name + " " + refusal.detail}});
  return singles;
}

namespace {

Status VerifyMember(const Group& group, const Member& m, const Grouping& grouping,
                    const GraphFacts& facts, const NodeComprehensions& nodes) {
  const graph::Op op = facts.graph[m.node].op;
  switch (group.implementation) {
    case Implementation::kOwn:
      if (std::ranges::count(nodes.of[m.node.index], m.alternative, &tc::Alternative::name) > 0)
        return {};
      return Invalid(fmt::format(
          "no alternative \"{}\", found {}", Printable(m.alternative),
          nodes.of[m.node.index].empty()
              ? "none"
              : fmt::format("{}", fmt::join(std::views::transform(nodes.of[m.node.index],
                                                                  &tc::Alternative::name),
                                            ", "))));
    case Implementation::kView:
      if (IsView(facts, grouping.layouts, m.node)) return {};
      return Invalid(
          "found a view, expected a node that moves nothing: a reshape in plain memory, or a "
          "transpose of layouts, of what is neither constant nor an output");
    case Implementation::kPlan:
      if (graph::HoldsPlans(op)) return {};
      return Invalid("found a nested plan, expected a node that holds one");
    case Implementation::kVendor:
    case Implementation::kNative:
      return {};
  }
  return {};
}

}  // namespace

Status VerifyImplementations(const Grouping& grouping, const GraphFacts& facts,
                             const NodeComprehensions& nodes) {
  for (const Group& group : grouping.groups) {
    const bool is_single = group.implementation == Implementation::kView ||
                           group.implementation == Implementation::kPlan;
    if (is_single && group.members.size() > 1)
      return Invalid(fmt::format("found {} nodes in one {}, expected one", group.members.size(),
                                 ImplementationName(group.implementation)))
          .At(PlaceOf(group, facts.graph, group.members[1].node));
    for (const Member& m : group.members) {
      Status status = VerifyMember(group, m, grouping, facts, nodes);
      if (!status.ok()) return std::move(status).At(PlaceOf(group, facts.graph, m.node));
    }
  }
  return {};
}

std::string WhyNoComprehension(const NodeComprehensions& nodes, NodeId node) {
  const auto& refusal = nodes.refusals[node.index];
  return refusal ? fmt::format("{} ({})", ReasonText(refusal->reason), refusal->detail)
                 : std::string(ReasonText(Reason::kNoComprehension));
}

}  // namespace weft::partition
