#include "driver/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/text.h"
#include "graph/infer.h"
#include "partition/singles.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;

constexpr std::string_view kFormNames[] = {"graph", "tc",    "groups", "choices",
                                           "sched", "loops", "call",   "plan"};

// A node is named by its first output that exists: unlike ONNX node names those are unique.
std::string NodeKey(const graph::Graph& graph, NodeId node) {
  for (ValueId v : graph[node].outputs)
    if (v.valid()) return graph[v].name;
  return "";
}

std::string PrintValues(const graph::Graph& graph, const std::vector<ValueId>& values) {
  std::string text = "(";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + PrintName(graph[values[i]].name);
  return text + ")";
}

class Printer {
 public:
  Printer(const Module& module, BlobStore& blobs) : m_(module), blobs_(blobs) {}

  std::string Run() {
    text_ = fmt::format("=== module {} for {}\n", FormName(m_.form), weft::Print(m_.target));
    Section("graph", graph::Print(m_.graph, blobs_));
    if (m_.form >= Form::kTc) Comprehensions();
    if (m_.form >= Form::kGroups) Section("groups", partition::Print(m_.grouping, m_.graph));
    if (m_.form >= Form::kChoices) {
      std::string choices;
      for (const auto& [name, choice] : m_.choices) choices += polyhedral::Print(choice);
      Section("choices", choices);
    }
    if (m_.form >= Form::kSched)
      for (const auto& [name, tree] : m_.schedules) Section("sched " + name, tree.text);
    if (m_.form >= Form::kLoops)
      for (const auto& [name, nest] : m_.nests) Section("loops " + name, loops::Print(nest));
    if (m_.form >= Form::kCall)
      for (const auto& [name, call] : m_.calls)
        Section("call " + name, fallback::Print(call, blobs_));
    if (m_.form >= Form::kPlan) Section("plan", plan::Print(m_.plan));
    return std::move(text_);
  }

 private:
  void Section(const std::string& header, const std::string& body) {
    text_ += "=== " + header + "\n" + body;
    if (!text_.ends_with('\n')) text_ += '\n';
  }

  void Comprehensions() {
    for (size_t i = 0; i < m_.graph.nodes.size(); ++i) {
      const std::string node = PrintName(NodeKey(m_.graph, NodeId(i)));
      if (const auto& refusal = m_.comprehensions.refusals[i])
        Section(fmt::format("tc {} refused {} {}", node, ReasonName(refusal->reason),
                            PrintString(refusal->detail)),
                "");
      if (const auto it = m_.comprehensions.left_out.find(NodeId(i));
          it != m_.comprehensions.left_out.end())
        for (const auto& [alternative, refusal] : it->second)
          Section(fmt::format("tc {} {} refused {} {}", node, PrintName(alternative),
                              ReasonName(refusal.reason), PrintString(refusal.detail)),
                  "");
      for (const tc::Alternative& a : m_.comprehensions.of[i])
        Section(fmt::format("tc {} {} {} -> {}", node, PrintName(a.name),
                            PrintValues(m_.graph, a.inputs), PrintValues(m_.graph, a.outputs)),
                tc::Print(a.program));
    }
  }

  const Module& m_;
  BlobStore& blobs_;
  std::string text_;
};

struct Section {
  std::string_view header, body;
  int line;  // of the header, 1-based
};

Result<std::vector<Section>> Split(std::string_view text, const std::string& file) {
  std::vector<Section> sections;
  int line = 1;
  size_t at = 0, body = 0;  // body: where that of the last section begins
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == text.npos) end = text.size();
    const std::string_view row = text.substr(at, end - at);
    const size_t next = std::min(end + 1, text.size());
    if (row.starts_with("=== ")) {
      body = next;
      sections.push_back({row.substr(4), text.substr(body, 0), line});
    } else if (!sections.empty()) {
      sections.back().body = text.substr(body, next - body);
    } else if (row.find_first_not_of(" \t\r") != row.npos) {
      return Invalid("found text before the first section, expected \"=== module FORM for TARGET\"")
          .At(fmt::format("{}:{}:1", file, line));
    }
    at = end + 1;
    ++line;
  }
  if (sections.empty() || !sections[0].header.starts_with("module "))
    return Invalid("expected \"=== module FORM for TARGET\" on the first line").At(file);
  return sections;
}

class Parser {
 public:
  Parser(const std::string& file, const BlobStore& blobs) : file_(file), blobs_(blobs) {}

  Result<Module> Run(std::string_view text) {
    WEFT_TRY(auto sections, Split(text, file_));
    WEFT_TRY(Header(sections[0]));
    for (size_t i = 1; i < sections.size(); ++i) {
      Status status = One(sections[i]);
      if (!status.ok()) return InFile(std::move(status), sections[i]);
    }
    if (!seen_graph_) return Invalid("no \"=== graph\" section").At(file_);
    if (m_.form >= Form::kGroups && !seen_groups_)
      return Invalid("no \"=== groups\" section").At(file_);
    WEFT_TRY(partition::VerifyImplementations(m_.grouping, partition::GraphFacts(m_.graph),
                                              m_.comprehensions));
    return std::move(m_);
  }

 private:
  std::string At(const Section& s) const { return fmt::format("{}:{}", file_, s.line); }

  // Nouns count lines from where their text begins, and their checks know of no file.
  Status InFile(Status status, const Section& s) const {
    std::string where = FromTop(status.where());
    if (!where.starts_with(file_)) where = At(s) + (where.empty() ? "" : ": " + where);
    Status placed(status.code(), status.what());
    for (const std::string& context : status.why()) placed = std::move(placed).Because(context);
    return std::move(placed).At(std::move(where)).Try(status.hint());
  }

  // "FILE:20:5:23", line 5 of what follows line 20, is "FILE:25:23".
  std::string FromTop(const std::string& where) const {
    size_t section = 0, line = 0;
    if (!where.starts_with(file_ + ":")) return where;
    const char *at = where.data() + file_.size() + 1, *const end = where.data() + where.size();
    for (size_t* number : {&section, &line}) {
      const auto [next, error] = std::from_chars(at, end, *number);
      if (error != std::errc() || next == end || *next != ':') return where;
      at = next + 1;
    }
    return fmt::format("{}:{}:{}", file_, section + line, std::string_view(at, end));
  }

  Status Header(const Section& s) {
    std::string_view rest = s.header.substr(7);
    const size_t space = rest.find(" for ");
    const auto form = ParseForm(rest.substr(0, space));
    if (!form || space == rest.npos)
      return Invalid(fmt::format("found \"{}\", expected \"module FORM for TARGET\"", s.header))
          .At(At(s));
    m_.form = *form;
    const auto target = ParseTarget(rest.substr(space + 5));
    if (!target.ok()) return Invalid(target.status().what()).At(At(s));
    m_.target = *target;
    return {};
  }

  Status One(const Section& s) {
    const std::string_view kind = s.header.substr(0, s.header.find(' '));
    if (kind == "graph") {
      WEFT_TRY(m_.graph, graph::ParseGraph(s.body, At(s), blobs_));
      WEFT_TRY(graph::Verify(m_.graph));
      WEFT_TRY(graph::VerifyShapes(m_.graph));
      Index();
      return {};
    }
    if (!seen_graph_)
      return Invalid(fmt::format("section \"{}\" stands before \"graph\"", kind)).At(At(s));
    const std::string name(s.header.substr(std::min(kind.size() + 1, s.header.size())));
    if (kind == "tc") return Comprehension(s);
    if (kind == "groups") {
      WEFT_TRY(m_.grouping, partition::ParseGrouping(s.body, At(s), m_.graph));
      WEFT_TRY(partition::Verify(m_.grouping, m_.graph));
      for (partition::Group& group : m_.grouping.groups) group.where = FromTop(group.where);
      seen_groups_ = true;
      return {};
    }
    if (kind == "choices") {
      WEFT_TRY(auto choices, polyhedral::ParseChoices(s.body, At(s)));
      for (auto& choice : choices) m_.choices[choice.group] = std::move(choice);
      return {};
    }
    if (kind == "sched") {
      m_.schedules[name] = {std::string(s.body)};
      return {};
    }
    if (kind == "loops") {
      WEFT_TRY(m_.nests[name], loops::Read(s.body, At(s)));
      return {};
    }
    if (kind == "call") {
      WEFT_TRY(m_.calls[name], fallback::ParseCall(s.body, At(s), blobs_));
      return fallback::Verify(m_.calls[name]);
    }
    if (kind == "plan") {
      WEFT_TRY(m_.plan, plan::ParsePlan(s.body, At(s), blobs_));
      return plan::Verify(m_.plan);
    }
    return Invalid(fmt::format("unknown section \"{}\"", kind)).At(At(s));
  }

  void Index() {
    seen_graph_ = true;
    for (size_t i = 0; i < m_.graph.values.size(); ++i)
      values_[m_.graph.values[i].name] = ValueId(i);
    for (size_t i = 0; i < m_.graph.nodes.size(); ++i)
      nodes_[NodeKey(m_.graph, NodeId(i))] = NodeId(i);
    m_.comprehensions.of.resize(m_.graph.nodes.size());
    m_.comprehensions.refusals.resize(m_.graph.nodes.size());
  }

  Result<std::vector<ValueId>> Values(Lexer& lexer) {
    std::vector<ValueId> values;
    WEFT_TRY(lexer.Expect("("));
    while (!lexer.Accept(")")) {
      if (!values.empty()) WEFT_TRY(lexer.Expect(","));
      WEFT_TRY(std::string name, lexer.ExpectName());
      const auto it = values_.find(name);
      if (it == values_.end())
        return lexer.Error(fmt::format("the graph has no value \"{}\"", name));
      values.push_back(it->second);
    }
    return values;
  }

  static Result<Refusal> RefusalAt(Lexer& lexer) {
    WEFT_TRY(const std::string name, lexer.ExpectName());
    const auto reason = ParseReason(name);
    if (!reason) return lexer.Error(fmt::format("unknown reason \"{}\"", name));
    WEFT_TRY(const std::string detail, lexer.ExpectString());
    return Refusal{*reason, detail};
  }

  // A refusal is its header.
  Status RefusedEnds(Lexer& lexer, const Section& s) const {
    if (!lexer.AtEnd()) return lexer.Error("found more, expected the end of the line");
    if (s.body.find_first_not_of(" \t\r\n") == s.body.npos) return {};
    return Invalid("found text below a refusal, which has none").At(At(s));
  }

  Status Comprehension(const Section& s) {
    const std::string header =
        "       " + std::string(s.header.substr(3));  // in columns of the line
    WEFT_TRY(Lexer lexer, Lexer::Open(header, fmt::format("{}:{}", file_, s.line - 1)));
    WEFT_TRY(std::string node, lexer.ExpectName());
    const auto it = nodes_.find(node);
    if (it == nodes_.end()) return lexer.Error(fmt::format("the graph has no node \"{}\"", node));
    const size_t n = it->second.index;
    WEFT_TRY(std::string alternative, lexer.ExpectName());
    if (alternative == "refused" && lexer.Peek().kind == TokenKind::kName) {
      if (m_.comprehensions.refusals[n]) return lexer.Error("the node is refused twice");
      WEFT_TRY(m_.comprehensions.refusals[n], RefusalAt(lexer));
      return RefusedEnds(lexer, s);
    }
    auto& left_out = m_.comprehensions.left_out;
    const auto same = [&](const tc::Alternative& a) { return a.name == alternative; };
    const auto others = left_out.find(it->second);
    if (std::ranges::any_of(m_.comprehensions.of[n], same) ||
        (others != left_out.end() && others->second.contains(alternative)))
      return lexer.Error(fmt::format("the alternative \"{}\" stands twice", alternative));
    if (lexer.Accept("refused")) {
      WEFT_TRY(left_out[it->second][alternative], RefusalAt(lexer));
      return RefusedEnds(lexer, s);
    }
    tc::Alternative a{.name = alternative};
    WEFT_TRY(a.inputs, Values(lexer));
    WEFT_TRY(lexer.Expect("->"));
    WEFT_TRY(a.outputs, Values(lexer));
    if (!lexer.AtEnd()) return lexer.Error("found more, expected the end of the line");
    WEFT_TRY(a.program, tc::Parse(s.body, At(s)));
    WEFT_TRY(tc::Verify(a.program));
    if (tc::Inputs(a.program).size() != a.inputs.size() ||
        tc::Outputs(a.program).size() != a.outputs.size())
      return lexer.Error(
          fmt::format("the def takes {} and gives {} tensors, the section names {} and {}",
                      tc::Inputs(a.program).size(), tc::Outputs(a.program).size(), a.inputs.size(),
                      a.outputs.size()));
    m_.comprehensions.of[n].push_back(std::move(a));
    return {};
  }

  const std::string& file_;
  const BlobStore& blobs_;
  Module m_;
  bool seen_graph_ = false, seen_groups_ = false;
  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, NodeId, std::less<>> nodes_;
};

}  // namespace

std::string_view FormName(Form form) { return kFormNames[static_cast<size_t>(form)]; }

std::optional<Form> ParseForm(std::string_view name) {
  for (size_t i = 0; i < std::size(kFormNames); ++i)
    if (kFormNames[i] == name) return static_cast<Form>(i);
  return std::nullopt;
}

std::string Print(const Module& module, BlobStore& blobs) { return Printer(module, blobs).Run(); }

Result<Module> ParseModule(std::string_view text, const std::string& file, const BlobStore& blobs) {
  return Parser(file, blobs).Run(text);
}

}  // namespace weft::driver
