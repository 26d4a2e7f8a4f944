#include <fmt/format.h>

#include <chrono>

#include "cli/data.h"
#include "cli/npz.h"
#include "cli/verbs.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/pipeline.h"
#include "graph/infer.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

double MicrosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

struct Loaded {
  plan::Plan plan;
  double build_s = 0;
  std::vector<Tensor> generated;  // empty: nothing is known of the inputs' use
};

// Shapes of given arrays bind the model's inputs, unless the flags already do.
void BindGivenShapes(const std::map<std::string, Tensor>& given, driver::BuildOptions& options) {
  for (const auto& [name, tensor] : given) options.shapes.emplace_back(name, tensor.shape());
}

Result<Loaded> LoadModel(const Flags& flags, Session& session, const std::map<std::string, Tensor>& given) {
  BindGivenShapes(given, session.options);
  WEFT_TRY(driver::Built built, driver::Build(flags.model, session.options, session.profiles));
  Loaded loaded{.plan = std::move(built.plan), .build_s = built.seconds};
  WEFT_TRY(loaded.generated, driver::GenerateInputs(built.modules[0].graph, flags.seed));
  return loaded;
}

Result<Loaded> LoadPlan(const Flags& flags, const std::map<std::string, Tensor>& given) {
  Loaded loaded;
  WEFT_TRY(loaded.plan, plan::ReadPlan(flags.model));
  // The specialization that the given arrays fit, else the first.
  for (size_t i = 0; i < loaded.plan.specializations.size(); ++i) {
    const plan::Specialization& s = loaded.plan.specializations[i];
    bool fits = true;
    for (plan::BufferId id : s.inputs)
      if (auto it = given.find(s.buffers[id.index].name); it != given.end())
        fits = fits && it->second.shape() == s.buffers[id.index].shape;
    if (!fits) continue;
    for (plan::BufferId id : s.inputs)
      loaded.generated.push_back(driver::GenerateTensor(s.buffers[id.index].dtype, s.buffers[id.index].shape,
                                                        flags.seed * 1000003 + loaded.generated.size(), 2));
    return loaded;
  }
  return Usage("no specialization of the plan takes these input shapes").At(flags.model);
}

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
  WEFT_TRY(Loaded loaded, IsPlanFile(flags.model) ? LoadPlan(flags, given) : LoadModel(flags, session, given));

  const auto load_begin = std::chrono::steady_clock::now();
  WEFT_TRY(auto executor, driver::MakeExecutor(std::move(loaded.plan), session.options.cache, flags.threads));
  const double load_us = MicrosecondsSince(load_begin);
  std::vector<Shape> shapes;
  for (const Tensor& t : loaded.generated) shapes.push_back(t.shape());
  WEFT_TRY(size_t index, executor->Select(shapes));
  const plan::Specialization& s = executor->plan().specializations[index];
  std::vector<InputSpec> specs;
  for (plan::BufferId id : s.inputs) specs.push_back({s.buffers[id.index].name, s.buffers[id.index].dtype, s.buffers[id.index].shape});
  WEFT_TRY(auto inputs, GatherInputs(flags, specs, given, loaded.generated));

  const auto run_begin = std::chrono::steady_clock::now();
  WEFT_TRY(auto results, executor->Run(inputs));
  const double run_us = MicrosecondsSince(run_begin);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < results.size(); ++i)
    outputs.emplace_back(s.buffers[s.outputs[i].index].name, std::move(results[i]));
  if (!flags.output.empty()) WEFT_TRY(WriteNpz(flags.output, outputs));
  if (flags.json) {
    Json steps;
    for (const plan::Step& step : s.steps) {
      auto& count = steps[std::string(plan::StepKindName(step.kind))];
      count = count.is_null() ? 1 : count.get<int>() + 1;
    }
    PrintJson({{"schema", 1}, {"outputs", OutputsJson(outputs)}, {"build_s", loaded.build_s},
               {"load_us", load_us}, {"first_run_us", run_us}, {"steps", steps},
               {"env", EnvironmentJson(flags, static_cast<int32_t>(executor->threads()))}});
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
