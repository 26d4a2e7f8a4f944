#include "tc_lang/to_tc.h"

#include <fmt/format.h>

#include "tc_lang/ops/families.h"

namespace weft::tc {

// The first translator decides whether the node can be said; another that refuses is left out.
Verdict<std::vector<Alternative>> ToTc(const graph::Graph& graph, graph::NodeId node) {
  const std::vector<ops::Translator> translators = ops::TranslatorsOf(graph[node].op);
  if (translators.empty()) {
    const std::string_view why = ops::WhyNoTranslator(graph[node].op);
    return Refusal{Reason::kNoComprehension,
                   fmt::format("{}: {}", graph[node].op_name, why.empty() ? "no translator" : why)};
  }
  std::vector<Alternative> out;
  for (const ops::Translator& translator : translators) {
    ops::Writer writer(graph, node);
    if (writer.ok()) translator.write(writer);
    Verdict<Alternative> alternative = writer.Finish(std::string(translator.name));
    if (alternative.yes())
      out.push_back(*std::move(alternative));
    else if (out.empty())
      return alternative.refusal();
  }
  return out;
}

}  // namespace weft::tc
