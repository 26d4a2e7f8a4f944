#include <fmt/format.h>

#include <algorithm>

#include "cli/verbs.h"
#include "driver/pipeline.h"
#include "partition/grouping.h"

namespace weft::cli {
namespace {

struct Row {
  const partition::Group* group;
  std::vector<std::string> nodes;
};

std::string ChoiceOf(const partition::Group& group) {
  return group.library_call.empty() ? std::string(partition::ImplementationName(group.implementation))
                                    : group.library_call;
}

std::string WhyOf(const partition::Group& group) {
  if (group.rivals.empty()) return group.implementation == partition::Implementation::kView ? "moves no data" : "no rival";
  return fmt::format("{} {:.2f} us against {:.2f}", group.measured ? "measured" : "estimated", group.us, group.rivals[0].us);
}

Json GroupJson(const Row& row) {
  Json alternatives = Json::array();
  for (const partition::Rival& r : row.group->rivals)
    alternatives.push_back({{"kind", r.kind}, {"us", r.us}, {"measured", r.measured},
                            {"reason", r.refusal ? std::string(ReasonName(r.refusal->reason)) : "slower"}});
  return {{"name", row.group->name}, {"nodes", row.nodes}, {"choice", ChoiceOf(*row.group)},
          {"reason", WhyOf(*row.group)}, {"alternatives", alternatives}};
}

Status Run(const Flags& flags, const std::string& wanted) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(driver::Module module, driver::Open(flags.model, session.options));
  WEFT_TRY(driver::Advance(module, driver::Form::kGroups, session.options));
  const auto name = [&](graph::NodeId n) {
    return module.graph[n].name.empty() ? graph::ShortName(module.graph, n) : module.graph[n].name;
  };
  Json json{{"schema", 1}, {"groups", Json::array()}, {"refused", Json::array()}};
  bool found = wanted.empty();
  for (const partition::Group& group : module.grouping.groups) {
    Row row{&group, {}};
    for (const partition::Member& m : group.members) row.nodes.push_back(name(m.node));
    const bool here = wanted.empty() || group.name == wanted ||
                      std::find(row.nodes.begin(), row.nodes.end(), wanted) != row.nodes.end();
    if (!here) continue;
    found = true;
    json["groups"].push_back(GroupJson(row));
    if (!flags.json) fmt::print("{} {} {{{}}}: {}\n", ChoiceOf(group), group.name, fmt::join(row.nodes, ", "), WhyOf(group));
  }
  for (const partition::Refused& r : module.grouping.refused) {
    std::vector<std::string> nodes;
    for (graph::NodeId n : r.nodes) nodes.push_back(name(n));
    if (!wanted.empty() && std::find(nodes.begin(), nodes.end(), wanted) == nodes.end()) continue;
    json["refused"].push_back({{"nodes", nodes}, {"reason", fmt::format("{} {}", ReasonName(r.refusal.reason), r.refusal.detail)}});
    if (!flags.json) fmt::print("refused {{{}}}: {} {}\n", fmt::join(nodes, ", "), ReasonText(r.refusal.reason), r.refusal.detail);
  }
  if (!found) return Usage(fmt::format("the model has no node or group \"{}\"", wanted)).At(flags.model);
  if (flags.json) PrintJson(json);
  return {};
}

}  // namespace

void AddExplain(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto node = std::make_shared<std::string>();
  AddModel(app, flags, "MODEL");
  app.add_option("NODE", *node, "one node or group only");
  AddBuildFlags(app, flags);
  run = [&flags, node] { return Run(flags, *node); };
}

}  // namespace weft::cli
