// The verbs, one file each.
#pragma once

#include "cli/common.h"

namespace weft::cli {

void AddCheck(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddBuild(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddRun(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddBench(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddCompare(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddInspect(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddVerify(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddExplain(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddTune(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddCache(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddDevices(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddTc(CLI::App& app, Flags& flags, std::function<Status()>& run);
void AddOpt(CLI::App& app, Flags& flags, std::function<Status()>& run);

// What AddTune starts this program with, for work that may crash; no verb for people.
inline constexpr const char* kTrialsVerb = "trials";
void AddTrials(CLI::App& app, Flags& flags, std::function<Status()>& run);

}  // namespace weft::cli
