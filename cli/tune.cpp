#include "driver/tune.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "driver/build.h"
#include "driver/trials.h"

namespace weft::cli {
namespace {

std::string_view StoppedName(tuner::Stopped stopped) {
  switch (stopped) {
    case tuner::Stopped::kDone:
      return "done";
    case tuner::Stopped::kBudget:
      return "budget";
    case tuner::Stopped::kInterrupted:
      return "interrupted";
  }
  return "";
}

void PrintGroups(const driver::Tuned& tuned) {
  for (const driver::Tuned::Group& g : tuned.groups)
    fmt::print("{}\n", Printable(fmt::format(
                           "{:>10.1f} us -> {:>10.1f} us  {:>4} trials  {}{}", g.start_us,
                           g.best_us, g.trials, g.name,
                           g.vendor_us ? fmt::format(", library {:.1f} us", *g.vendor_us) : "")));
  fmt::print("{} trials, {:.1f} s, stopped: {}\n", tuned.trials, tuned.seconds,
             StoppedName(tuned.stopped));
}

Json TunedJson(const driver::Tuned& tuned) {
  Json groups = Json::array();
  for (const driver::Tuned::Group& g : tuned.groups)
    groups.push_back({{"name", g.name},
                      {"trials", g.trials},
                      {"best_us", g.best_us},
                      {"start_us", g.start_us},
                      {"vendor_us", g.vendor_us ? Json(*g.vendor_us) : Json(nullptr)},
                      {"choice", g.choice}});
  Json nested = Json::array();
  for (const std::string& node : tuned.nested) nested.push_back(node);
  return {{"schema", 1},
          {"groups", groups},
          {"nested", nested},
          {"trials", tuned.trials},
          {"seconds", tuned.seconds},
          {"stopped", StoppedName(tuned.stopped)}};
}

// Of several specializations one after another: what is left of the budget goes to the next.
Status RunTune(const Flags& flags) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  if (!session.options.tuning)
    return Limit("there is no tuning database to fill").Try("--cache-dir, or WEFT_CACHE_DIR");
  WEFT_TRY(session.options.tuning->CheckWritable());
  WEFT_TRY(const auto modules, driver::OpenAll(flags.model, session.options, session.profiles));
  const HoldInterrupt whole;
  session.options.stop = &Interrupted();
  driver::Tuned all;
  for (size_t i = 0; i < modules.size(); ++i) {
    const double left_s = session.options.budget_s - all.seconds;
    const driver::TuneOptions how = {
        .budget_s = std::max(left_s, 0.0) / static_cast<double>(modules.size() - i),
        .seed = flags.seed,
        .worker = {"/proc/self/exe", kTrialsVerb}};
    WEFT_TRY(driver::Tuned tuned, driver::Tune(modules[i], session.options, how));
    for (driver::Tuned::Group& group : tuned.groups) all.groups.push_back(std::move(group));
    all.nested.insert(all.nested.end(), tuned.nested.begin(), tuned.nested.end());
    all.trials += tuned.trials;
    all.seconds += tuned.seconds;
    all.stopped = std::max(all.stopped, tuned.stopped);
  }
  if (!all.nested.empty())
    Progress(flags, fmt::format("weft: not tuned: {} node(s) whose bodies are built when they run, "
                                "{} first",
                                all.nested.size(), Printable(all.nested.front())));
  if (flags.json) {
    Json json = TunedJson(all);
    json["env"] = EnvironmentJson(flags, session.options.target.threads);
    PrintJson(json);
  } else {
    PrintGroups(all);
  }
  return {};
}

}  // namespace

void AddTune(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL");
  AddBuildFlags(app, flags);
  app.add_option("--seed", flags.seed, "of the search; default 0");
  run = [&flags] {
    MeasureByDefault(flags);
    return RunTune(flags);
  };
}

void AddTrials(CLI::App&, Flags&, std::function<Status()>& run) { run = driver::ServeTrials; }

}  // namespace weft::cli
