#include "partition/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace weft::partition {
namespace {

using graph::NodeId;
using graph::ValueId;

constexpr int64_t kMostKinds = 16;
constexpr std::string_view kNames[] = {"own", "vendor", "native", "view", "plan"};

std::string NodeKey(const graph::Graph& graph, NodeId node) {
  for (ValueId v : graph[node].outputs)
    if (v.valid()) return graph[v].name;
  return "";
}

std::string PrintGroup(const Group& group, const graph::Graph& graph) {
  std::string text = fmt::format("  {} {}", ImplementationName(group.implementation), group.name);
  if (!group.library_call.empty()) text += " by " + group.library_call;
  text += " {";
  for (size_t i = 0; i < group.members.size(); ++i) {
    const Member& m = group.members[i];
    text += (i ? ", " : "") + PrintName(NodeKey(graph, m.node));
    if (!m.alternative.empty()) text += ": " + PrintName(m.alternative);
  }
  text += "}";
  if (group.kind != 0) text += fmt::format(" kind {}", group.kind);
  text +=
      fmt::format(" us {} {}\n", PrintFloat(group.us), group.measured ? "measured" : "estimated");
  for (const Rival& r : group.rivals) {
    text += fmt::format("    | {} us {} {}", PrintName(r.kind), PrintFloat(r.us),
                        r.measured ? "measured" : "estimated");
    if (r.refusal)
      text += fmt::format(": {} {}", ReasonName(r.refusal->reason), PrintString(r.refusal->detail));
    text += '\n';
  }
  return text;
}

class Parser {
 public:
  Parser(Lexer lexer, const graph::Graph& graph) : lexer_(std::move(lexer)) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) nodes_[NodeKey(graph, NodeId(i))] = NodeId(i);
    for (size_t i = 0; i < graph.values.size(); ++i) values_[graph.values[i].name] = ValueId(i);
  }

  Result<Grouping> Run() {
    WEFT_TRY(lexer_.Expect("groups"));
    WEFT_TRY(g_.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect("for"));
    WEFT_TRY(std::string target, lexer_.ExpectString());
    auto parsed = ParseTarget(target);
    if (!parsed.ok()) return lexer_.Error(parsed.status().what());
    g_.target = *parsed;
    WEFT_TRY(lexer_.Expect("{"));
    while (!lexer_.Accept("}")) WEFT_TRY(Line());
    if (!lexer_.AtEnd()) return lexer_.Error("expected the end of the text");
    return std::move(g_);
  }

 private:
  Status Line() {
    if (lexer_.Accept("layout")) return LayoutLine();
    if (lexer_.Accept("refused")) return RefusedLine();
    if (lexer_.Accept("|")) return RivalLine();
    return GroupLine();
  }

  Status LayoutLine() {
    WEFT_TRY(std::string name, lexer_.ExpectName());
    const auto it = values_.find(name);
    if (it == values_.end())
      return lexer_.Error(fmt::format("the graph has no value \"{}\"", name));
    WEFT_TRY(std::string text, lexer_.ExpectString());
    WEFT_TRY(g_.layouts[it->second], ParseLayout(text));
    return {};
  }

  Result<NodeId> Node() {
    WEFT_TRY(std::string name, lexer_.ExpectName());
    const auto it = nodes_.find(name);
    if (it == nodes_.end())
      return lexer_.Error(fmt::format("the graph has no node that gives \"{}\"", name));
    return it->second;
  }

  Status RefusedLine() {
    Refused r;
    WEFT_TRY(lexer_.Expect("{"));
    while (!lexer_.Accept("}")) {
      if (!r.nodes.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(NodeId node, Node());
      if (std::ranges::count(r.nodes, node) > 0) return lexer_.Error("found a node twice");
      r.nodes.push_back(node);
    }
    if (r.nodes.empty()) return lexer_.Error("found a refusal of no node");
    WEFT_TRY(lexer_.Expect(":"));
    WEFT_TRY(r.refusal, ReadRefusal());
    g_.refused.push_back(std::move(r));
    return {};
  }

  Result<Refusal> ReadRefusal() {
    WEFT_TRY(std::string name, lexer_.ExpectName());
    const auto reason = ParseReason(name);
    if (!reason) return lexer_.Error(fmt::format("unknown reason \"{}\"", name));
    WEFT_TRY(std::string detail, lexer_.ExpectString());
    return Refusal{*reason, detail};
  }

  Status ReadPrice(double& us, bool& measured) {
    WEFT_TRY(lexer_.Expect("us"));
    WEFT_TRY(us, lexer_.ExpectFloat());
    measured = lexer_.Accept("measured");
    return measured ? Status() : lexer_.Expect("estimated");
  }

  Status RivalLine() {
    if (g_.groups.empty()) return lexer_.Error("a rival stands before the first group");
    Rival r;
    WEFT_TRY(r.kind, lexer_.ExpectName());
    WEFT_TRY(ReadPrice(r.us, r.measured));
    if (lexer_.Accept(":")) {
      WEFT_TRY(r.refusal, ReadRefusal());
    }
    g_.groups.back().rivals.push_back(std::move(r));
    return {};
  }

  Status GroupLine() {
    Group group{.where = lexer_.Where(lexer_.Peek())};
    WEFT_TRY(std::string kind, lexer_.ExpectName());
    size_t k = 0;
    while (k < std::size(kNames) && kNames[k] != kind) ++k;
    if (k == std::size(kNames))
      return lexer_.Error(fmt::format(
          "found \"{}\", expected own, vendor, native, view, plan, layout or refused", kind));
    group.implementation = static_cast<Implementation>(k);
    if (lexer_.Peek().kind != TokenKind::kName) return lexer_.Error("expected an identifier");
    WEFT_TRY(group.name, lexer_.ExpectName());
    if (lexer_.Accept("by")) {
      WEFT_TRY(group.library_call, lexer_.ExpectName());
    }
    WEFT_TRY(lexer_.Expect("{"));
    while (!lexer_.Accept("}")) {
      if (!group.members.empty()) WEFT_TRY(lexer_.Expect(","));
      Member m;
      WEFT_TRY(m.node, Node());
      if (lexer_.Accept(":")) {
        WEFT_TRY(m.alternative, lexer_.ExpectName());
      }
      group.members.push_back(std::move(m));
    }
    if (lexer_.Accept("kind")) {
      WEFT_TRY(const int64_t kind, lexer_.ExpectInt());
      if (kind < 1 || kind > kMostKinds)
        return lexer_.Error(fmt::format("found kind {}, expected 1 to {}", kind, kMostKinds));
      group.kind = static_cast<int32_t>(kind);
    }
    WEFT_TRY(ReadPrice(group.us, group.measured));
    g_.groups.push_back(std::move(group));
    return {};
  }

  Lexer lexer_;
  Grouping g_;
  std::map<std::string, NodeId, std::less<>> nodes_;
  std::map<std::string, ValueId, std::less<>> values_;
};

}  // namespace

std::string_view ImplementationName(Implementation i) { return kNames[static_cast<size_t>(i)]; }

std::string PlaceOf(const Group& group, const graph::Graph& graph, NodeId node) {
  return (group.where.empty() ? "" : group.where + ": ") + graph::Describe(graph, node);
}

std::string Print(const Grouping& grouping, const graph::Graph& graph) {
  std::string text = fmt::format("groups {} for {} {{\n", PrintName(grouping.name),
                                 PrintString(weft::Print(grouping.target)));
  for (const auto& [value, layout] : grouping.layouts)
    text += fmt::format("  layout {} {}\n", PrintName(graph[value].name),
                        PrintString(weft::Print(layout)));
  for (const Group& group : grouping.groups) text += PrintGroup(group, graph);
  for (const Refused& r : grouping.refused) {
    text += "  refused {";
    for (size_t i = 0; i < r.nodes.size(); ++i)
      text += (i ? ", " : "") + PrintName(NodeKey(graph, r.nodes[i]));
    text += fmt::format("}}: {} {}\n", ReasonName(r.refusal.reason), PrintString(r.refusal.detail));
  }
  return text + "}\n";
}

Result<Grouping> ParseGrouping(std::string_view text, const std::string& file,
                               const graph::Graph& graph) {
  WEFT_TRY(Lexer lexer, Lexer::Open(text, file));
  return Parser(std::move(lexer), graph).Run();
}

Status Verify(const Grouping& grouping, const graph::Graph& graph) {
  std::vector<int> group_of(graph.nodes.size(), -1), place(graph.nodes.size());
  int placed = 0;
  std::set<std::string> names;
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    if (!names.insert(group.name).second)
      return Invalid(fmt::format("two groups are called \"{}\"", group.name)).At(group.where);
    if (group.members.empty())
      return Invalid(fmt::format("group \"{}\" is empty", group.name)).At(group.where);
    for (const Member& m : group.members) {
      int& of = group_of[m.node.index];
      if (of >= 0)
        return Invalid(fmt::format("in \"{}\" and in \"{}\"", grouping.groups[of].name, group.name))
            .At(PlaceOf(group, graph, m.node));
      of = static_cast<int>(g);
      place[m.node.index] = placed++;
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (group_of[n] < 0) return Invalid("in no group").At(graph::Describe(graph, NodeId(n)));
    // Data flows from earlier groups to later ones, which also makes every group convex.
    for (ValueId v : graph.nodes[n].inputs) {
      if (!v.valid() || !graph[v].producer.valid()) continue;
      const auto producer = static_cast<size_t>(graph[v].producer.index);
      const Group& group = grouping.groups[group_of[n]];
      if (group_of[producer] > group_of[n])
        return Invalid(fmt::format("group \"{}\" runs before \"{}\", whose \"{}\" it reads",
                                   group.name, grouping.groups[group_of[producer]].name,
                                   graph[v].name))
            .At(group.where);
      if (place[producer] > place[n])
        return Invalid(fmt::format("it stands before what makes its \"{}\"", graph[v].name))
            .At(PlaceOf(group, graph, NodeId(n)));
    }
  }
  for (const auto& [value, layout] : grouping.layouts)
    if (graph[value].shape && graph[value].shape->size() != layout.rank())
      return Invalid(fmt::format("layout {} of \"{}\", which has rank {}", weft::Print(layout),
                                 graph[value].name, graph[value].shape->size()));
  return {};
}

}  // namespace weft::partition
