#include "polyhedral/tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

namespace weft::polyhedral {
namespace {

constexpr std::array<std::string_view, 16> kIslWords = {
    "exists", "and", "or",   "implies", "not",   "infty",  "NaN", "min",
    "max",    "rat", "true", "false",   "ceild", "floord", "mod", "ceil"};

std::string IslName(std::string_view name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "s" + result;
  if (result == "floor" || std::ranges::count(kIslWords, result)) result += '_';
  return result;
}

// Index names as isl may read them: distinct within the statement.
std::vector<std::string> IndexNames(const tc::Statement& statement) {
  std::vector<std::string> names;
  for (const tc::Index& index : statement.indices) {
    std::string name = IslName(index.name);
    while (std::ranges::count(names, name)) name += '_';
    names.push_back(name);
  }
  return names;
}

class Printer {
 public:
  explicit Printer(const tc::Program& program)
      : program_(program), names_(StatementNames(program)) {
    for (const tc::Statement& s : program.statements) indices_.push_back(IndexNames(s));
    std::vector<std::string> params;
    for (const std::string& p : program.params) params.push_back(IslName(p));
    if (!params.empty()) params_ = fmt::format("[{}] -> ", fmt::join(params, ", "));
  }

  std::string Node(const TreeNode& node, int indent) {
    const std::string pad(indent, ' ');
    std::string text;
    switch (node.kind) {
      case TreeNode::Kind::kDomain:
        text = pad + "domain: " + Domain() + "\n";
        break;
      case TreeNode::Kind::kBand:
        text = Band(node, pad);
        break;
      case TreeNode::Kind::kMark:
        text = fmt::format("{}mark: \"{}\"\n", pad, node.mark);
        break;
      case TreeNode::Kind::kFilter:
        text = pad + "filter: " + Members(node.statements) + "\n";
        break;
      case TreeNode::Kind::kLeaf:
        return "";
      case TreeNode::Kind::kSequence:
        text = pad + "sequence:\n";
        for (const TreeNode& child : node.children) {
          std::string item = Node(child, indent + 2);
          item[indent] = '-';
          text += item;
        }
        return text;
    }
    for (const TreeNode& child : node.children) {
      const std::string below = Node(child, indent + 2);
      if (!below.empty()) text += pad + "child:\n" + below;
    }
    return text;
  }

 private:
  std::string Tuple(int32_t s) const {
    return fmt::format("{}[{}]", names_[s], fmt::join(indices_[s], ", "));
  }

  std::string Print(int32_t s, const Affine& e) const {
    return e.Print([&](Var v) { return indices_[s][v]; });
  }

  std::string Domain() const {
    const auto param = [&](Var v) { return IslName(program_.params[v]); };
    std::vector<std::string> sets;
    for (size_t s = 0; s < program_.statements.size(); ++s) {
      std::vector<std::string> ranges;
      for (size_t i = 0; i < indices_[s].size(); ++i) {
        const tc::Index& index = program_.statements[s].indices[i];
        ranges.push_back(fmt::format("{} <= {} < {}", index.lo.Print(param), indices_[s][i],
                                     index.hi.Print(param)));
      }
      sets.push_back(Tuple(static_cast<int32_t>(s)) +
                     (ranges.empty() ? "" : fmt::format(" : {}", fmt::join(ranges, " and "))));
    }
    return fmt::format("\"{}{{ {} }}\"", params_, fmt::join(sets, "; "));
  }

  std::string Members(const std::vector<int32_t>& statements) const {
    std::vector<std::string> tuples;
    for (const int32_t s : statements) tuples.push_back(Tuple(s));
    return fmt::format("\"{}{{ {} }}\"", params_, fmt::join(tuples, "; "));
  }

  std::string Band(const TreeNode& node, const std::string& pad) const {
    std::vector<std::string> members;
    for (const auto& member : node.members) {
      std::vector<std::string> maps;
      for (const auto& [s, e] : member) {
        maps.push_back(fmt::format("{} -> [({})]", Tuple(s), Print(s, e)));
      }
      members.push_back(fmt::format("{{ {} }}", fmt::join(maps, "; ")));
    }
    std::string text =
        fmt::format("{}schedule: \"{}[{}]\"\n", pad, params_, fmt::join(members, ", "));
    if (node.permutable) text += pad + "permutable: 1\n";
    if (std::ranges::count(node.coincident, true)) {
      std::vector<int> flags(node.coincident.begin(), node.coincident.end());
      text += fmt::format("{}coincident: [ {} ]\n", pad, fmt::join(flags, ", "));
    }
    return text;
  }

  const tc::Program& program_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> indices_;
  std::string params_;
};

}  // namespace

std::vector<std::string> StatementNames(const tc::Program& program) {
  std::vector<std::string> names;
  for (const tc::Statement& statement : program.statements) {
    const std::string base = IslName(program[statement.target].name);
    std::string name = base;
    for (int n = 2; std::ranges::count(names, name); ++n) name = fmt::format("{}_{}", base, n);
    names.push_back(name);
  }
  return names;
}

ScheduleTree PrintTree(const tc::Program& program, const TreeNode& root) {
  return {Printer(program).Node(root, 0)};
}

TreeNode Mark(std::string text, TreeNode child) {
  TreeNode node{.kind = TreeNode::Kind::kMark, .mark = std::move(text)};
  node.children.push_back(std::move(child));
  return node;
}

TreeNode Filter(std::vector<int32_t> statements, TreeNode child) {
  TreeNode node{.kind = TreeNode::Kind::kFilter, .statements = std::move(statements)};
  if (child.kind != TreeNode::Kind::kLeaf) node.children.push_back(std::move(child));
  return node;
}

}  // namespace weft::polyhedral
