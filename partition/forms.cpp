#include "partition/forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft::partition {
namespace {

using graph::NodeId;
using graph::ValueId;

// Numbers texts in the order in which they come.
class Numbers {
 public:
  int32_t Of(std::string text) {
    return numbers_.try_emplace(std::move(text), static_cast<int32_t>(numbers_.size()))
        .first->second;
  }

 private:
  std::map<std::string, int32_t> numbers_;
};

// Run-time sizes go by their names: parts of a group share those of one name.
std::string TextOf(const tc::Program& program) {
  std::string text = tc::CanonicalText(program);
  for (const tc::Statement& s : program.statements)
    text += fmt::format("{} ", static_cast<int>(s.tag));
  return text + fmt::format("{}", fmt::join(program.params, " "));
}

}  // namespace

Forms::Forms(const GraphFacts& facts, const NodeComprehensions& nodes,
             const std::map<ValueId, Layout>& layouts, const std::vector<size_t>& alternatives)
    : facts_(facts),
      nodes_(nodes),
      alternatives_(alternatives),
      programs_(facts.graph.nodes.size()),
      operands_(facts.graph.values.size()) {
  Numbers programs, kinds;
  for (size_t i = 0; i < programs_.size(); ++i)
    if (!nodes.of[i].empty()) programs_[i] = programs.Of(TextOf(AlternativeOf(NodeId(i)).program));
  for (size_t v = 0; v < operands_.size(); ++v) {
    const auto layout = layouts.find(ValueId(v));
    const bool is_constant = facts.graph.values[v].kind == graph::ValueKind::kConstant;
    operands_[v] = kinds.Of((layout == layouts.end() ? "" : Print(layout->second)) +
                            (is_constant ? " constant" : ""));
  }
}

const tc::Alternative& Forms::AlternativeOf(NodeId node) const {
  return nodes_.of[node.index][alternatives_[node.index]];
}

Form Forms::Of(std::span<const NodeId> group) const {
  Form form;
  std::vector<ValueId> seen;
  // A value by its first place in the group, there with what is to be known of it.
  const auto add = [&](ValueId v) {
    const auto place = std::ranges::find(seen, v) - seen.begin();
    form.push_back(static_cast<int32_t>(place));
    if (place < std::ssize(seen)) return;
    seen.push_back(v);
    form.push_back(v.valid() ? operands_[v.index] : -1);
  };
  std::vector<NodeId> inside(group.begin(), group.end());
  std::ranges::sort(inside);
  const auto is_kept = [&](ValueId v) {
    return facts_.is_output[v.index] ||
           std::ranges::any_of(facts_.consumers[v.index],
                               [&](NodeId r) { return !std::ranges::binary_search(inside, r); });
  };
  for (const NodeId node : group) {
    const bool has_program = !nodes_.of[node.index].empty();
    form.push_back(has_program ? programs_[node.index] : -1);
    std::ranges::for_each(has_program ? AlternativeOf(node).inputs : facts_.graph[node].inputs,
                          add);
    for (const ValueId v : has_program ? AlternativeOf(node).outputs : facts_.graph[node].outputs) {
      add(v);
      form.push_back(v.valid() && is_kept(v));
    }
  }
  return form;
}

}  // namespace weft::partition
