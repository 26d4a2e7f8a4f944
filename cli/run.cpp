#include <fmt/format.h>

#include <chrono>

#include "cli/npz.h"
#include "cli/subject.h"
#include "cli/verbs.h"

namespace weft::cli {
namespace {

Json OutputsJson(const std::vector<std::pair<std::string, Tensor>>& outputs) {
  Json json = Json::object();
  for (const auto& [name, tensor] : outputs)
    json[name] = {{"dtype", DtypeName(tensor.dtype())}, {"shape", tensor.shape()}};
  return json;
}

Status Run(const Flags& flags) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(auto given, LoadNamedInputs(flags));
  WEFT_TRY(Subject subject, OpenSubject(flags.model, flags, session, given));
  WEFT_TRY(auto inputs, InputsFor(subject, flags, given));

  const auto begin = std::chrono::steady_clock::now();
  WEFT_TRY(auto results, subject.executor->Run(inputs));
  const double run_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < results.size(); ++i)
    outputs.emplace_back(subject.spec().buffers[subject.spec().outputs[i].index].name, std::move(results[i]));
  if (!flags.output.empty()) WEFT_TRY(WriteNpz(flags.output, outputs));
  if (flags.json) {
    PrintJson({{"schema", 1}, {"outputs", OutputsJson(outputs)}, {"build_s", subject.build_s},
               {"load_us", subject.load_us}, {"first_run_us", run_us}, {"steps", StepCounts(subject.spec())},
               {"env", EnvironmentJson(flags, static_cast<int32_t>(subject.executor->threads()))}});
  } else {
    for (const auto& [name, tensor] : outputs)
      fmt::print("{}: {}{}\n", name, DtypeName(tensor.dtype()), weft::Print(tensor.shape()));
  }
  return {};
}

}  // namespace

void AddRun(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL|PLAN");
  app.add_option("-o,--output", flags.output, "F.npz for the outputs");
  AddBuildFlags(app, flags);
  AddDataFlags(app, flags);
  run = [&flags] { return Run(flags); };
}

}  // namespace weft::cli
