#include <fmt/format.h>

#include <chrono>

#include "base/text.h"
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

// Compares what is expected with what came out; kNo names the first output that is too far off.
Status CheckExpected(const Flags& flags, const Expected& expected,
                     const std::vector<std::pair<std::string, Tensor>>& outputs, Json& accuracy) {
  Status answer;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i]) continue;
    const auto& [name, found] = outputs[i];
    const driver::Accuracy a =
        driver::CompareOutputs({&found, 1}, {&*expected[i], 1}, ToleranceOf(flags));
    accuracy[name] = AccuracyJson(a);
    if (a.within || !answer.ok()) continue;
    answer =
        Status(Code::kNo,
               found.shape() == expected[i]->shape()
                   ? fmt::format("an error of {:.2e}, or {:.2e} of the scale, leaves the tolerance",
                                 a.max_abs, a.max_rel)
                   : fmt::format("found {}, expected {}", weft::Print(found.shape()),
                                 weft::Print(expected[i]->shape())))
            .At(fmt::format("output \"{}\"", name));
  }
  return answer;
}

Status RunOnce(const Flags& flags) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(auto given, LoadNamedInputs(flags));
  WEFT_TRY(Subject subject, OpenSubject(flags.model, flags, session, given));
  WEFT_TRY(auto inputs, InputsFor(subject, flags, given));
  WEFT_TRY(const Expected expected, LoadExpected(flags, OutputsOf(subject)));

  const auto begin = std::chrono::steady_clock::now();
  WEFT_TRY(auto results, subject.executor->Run(inputs));
  const double run_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < results.size(); ++i)
    outputs.emplace_back(subject.spec().buffers[subject.spec().outputs[i].index].name,
                         std::move(results[i]));
  if (!flags.output.empty()) WEFT_TRY(WriteNpz(flags.output, outputs));
  Json accuracy = Json::object();
  Status answer = CheckExpected(flags, expected, outputs, accuracy);
  if (flags.json) {
    Json json{{"schema", 1},
              {"outputs", OutputsJson(outputs)},
              {"build_s", subject.build_s},
              {"load_us", subject.load_us},
              {"first_run_us", run_us},
              {"steps", StepCounts(subject.spec())},
              {"env", EnvironmentJson(flags, static_cast<int32_t>(subject.executor->threads()))}};
    if (!expected.empty()) json["accuracy"] = accuracy;
    PrintJson(json);
  } else {
    for (const auto& [name, tensor] : outputs)
      fmt::print("{}: {}{}\n", Printable(name), DtypeName(tensor.dtype()),
                 weft::Print(tensor.shape()));
  }
  return answer;
}

}  // namespace

void AddRun(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL|PLAN");
  app.add_option("-o,--output", flags.output, "F.npz for the outputs");
  AddBuildFlags(app, flags);
  AddSpecializeFlag(app, flags);
  AddMemoryFlag(app, flags);
  AddDataFlags(app, flags);
  AddAccuracyFlags(app, flags);
  run = [&flags] { return RunOnce(flags); };
}

}  // namespace weft::cli
