#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/verbs.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "partition/grouping.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

struct Row {
  const partition::Group* group;
  std::vector<std::string> nodes;
  std::string why;
};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string ChoiceOf(const partition::Group& group) {
  return group.library_call.empty()
             ? std::string(partition::ImplementationName(group.implementation))
             : group.library_call;
}

std::string WhyOf(const driver::Module& module, const partition::Group& group) {
  if (group.implementation == partition::Implementation::kNative)
    return fmt::format("on the host: {}", driver::WhyNative(module, group));
  if (group.implementation == partition::Implementation::kPlan)
    return "built when it runs: data decides what it is, or how large";
  if (group.rivals.empty())
    return group.implementation == partition::Implementation::kView ? "moves no data" : "no rival";
  return fmt::format("{} {:.2f} us against {:.2f}", group.measured ? "measured" : "estimated",
                     group.us, group.rivals[0].us);
}

// Names come from the model: whatever they hold, a row is one harmless line.
void PrintLine(const std::string& choice, const std::string& name,
               const std::vector<std::string>& nodes, const std::string& why) {
  fmt::print("{}\n", Printable(fmt::format("{}{}{} {{{}}}: {}", choice, name.empty() ? "" : " ",
                                           name, fmt::join(nodes, ", "), why)));
}

Json GroupJson(const Row& row) {
  Json alternatives = Json::array();
  for (const partition::Rival& r : row.group->rivals)
    alternatives.push_back(
        {{"kind", r.kind},
         {"us", r.us},
         {"measured", r.measured},
         {"reason", r.refusal ? std::string(ReasonName(r.refusal->reason)) : "slower"}});
  return {{"name", row.group->name},
          {"nodes", row.nodes},
          {"choice", ChoiceOf(*row.group)},
          {"reason", row.why},
          {"alternatives", alternatives}};
}

// A plan keeps what was chosen and at which price, not what else there was.
Status ExplainPlan(const Flags& flags, const std::string& wanted) {
  WEFT_TRY(const plan::Plan plan, plan::ReadPlan(flags.model));
  Json json{{"schema", 1}, {"groups", Json::array()}, {"refused", Json::array()}};
  for (const plan::Specialization& s : plan.specializations)
    for (const plan::Step& step : s.steps) {
      if (!wanted.empty() && step.name != wanted && !Contains(step.nodes, wanted)) continue;
      const std::string kind(plan::StepKindName(step.kind));
      std::string choice = step.call.op.empty() ? kind : fmt::format("{} {}", kind, step.call.op);
      if (step.kernel.valid()) choice += " " + plan.kernels[step.kernel.index].name;
      const std::string why =
          fmt::format("{} {:.2f} us on {}", step.measured ? "measured" : "estimated", step.us,
                      weft::Print(plan.target));
      json["groups"].push_back({{"name", step.name},
                                {"nodes", step.nodes},
                                {"choice", choice},
                                {"reason", why},
                                {"alternatives", Json::array()}});
      if (!flags.json) PrintLine(choice, step.name, step.nodes, why);
    }
  if (!wanted.empty() && json["groups"].empty())
    return Usage(fmt::format("the plan has no node or step \"{}\"", wanted)).At(flags.model);
  if (flags.json) PrintJson(json);
  return {};
}

Status RunExplain(const Flags& flags, const std::string& wanted) {
  if (IsPlanFile(flags.model)) return ExplainPlan(flags, wanted);
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(driver::Module module, driver::Open(flags.model, session.options));
  WEFT_TRY(driver::Advance(module, driver::Form::kGroups, session.options));
  const auto name = [&](graph::NodeId n) { return graph::NodeName(module.graph, n); };
  Json json{{"schema", 1}, {"groups", Json::array()}, {"refused", Json::array()}};
  bool found = wanted.empty();
  for (const partition::Group& group : module.grouping.groups) {
    Row row{&group, {}, WhyOf(module, group)};
    for (const partition::Member& m : group.members) row.nodes.push_back(name(m.node));
    const bool here = wanted.empty() || group.name == wanted || Contains(row.nodes, wanted);
    if (!here) continue;
    found = true;
    json["groups"].push_back(GroupJson(row));
    if (!flags.json) PrintLine(ChoiceOf(group), group.name, row.nodes, row.why);
  }
  for (const partition::Refused& r : module.grouping.refused) {
    std::vector<std::string> nodes;
    for (graph::NodeId n : r.nodes) nodes.push_back(name(n));
    if (!wanted.empty() && !Contains(nodes, wanted)) continue;
    json["refused"].push_back(
        {{"nodes", nodes},
         {"reason", fmt::format("{} {}", ReasonName(r.refusal.reason), r.refusal.detail)}});
    if (!flags.json)
      PrintLine("refused", "", nodes,
                fmt::format("{} {}", ReasonText(r.refusal.reason), r.refusal.detail));
  }
  if (!found)
    return Usage(fmt::format("the model has no node or group \"{}\"", wanted)).At(flags.model);
  if (flags.json) PrintJson(json);
  return {};
}

}  // namespace

void AddExplain(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto node = std::make_shared<std::string>();
  AddModel(app, flags, "MODEL|PLAN");
  app.add_option("NODE", *node, "one node or group only");
  AddBuildFlags(app, flags);
  run = [&flags, node] { return RunExplain(flags, *node); };
}

}  // namespace weft::cli
