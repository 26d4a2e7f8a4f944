#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/nibbles.h"
#include "cli/data.h"
#include "cli/npz.h"
#include "cli/verbs.h"
#include "driver/comprehension.h"

namespace weft::cli {
namespace {

struct TcFlags {
  std::string entry, choices;
  std::vector<std::string> sizes, extents;
  bool infer = false;
};

constexpr double kMeasureSeconds = 0.2;  // for "us", unless --duration or --runs say otherwise
constexpr int64_t kMostRuns = 1000;

// What the command line and the files say of a def's parameters.
struct Given {
  std::map<std::string, Tensor> arrays;
  std::map<std::string, Shape> shapes;  // of the arrays, and those of --extent
  std::map<std::string, int64_t> sizes;
};

// Element types as the language and NumPy spell them: "float32", not "float".
std::string_view TypeName(Dtype dtype) {
  if (dtype == Dtype::kF32) return "float32";
  return dtype == Dtype::kF64 ? "float64" : tc::TypeWord(dtype);
}

const driver::Parameter* FindParameter(const driver::Comprehension& def, const std::string& name) {
  const auto it = std::ranges::find(def.parameters(), name, &driver::Parameter::name);
  return it == def.parameters().end() ? nullptr : &*it;
}

Status NoParameter(const driver::Comprehension& def, const std::string& what,
                   const std::string& name, bool is_size) {
  std::string names;
  for (const driver::Parameter& p : def.parameters())
    if (p.is_size == is_size) names += (names.empty() ? "" : ", ") + p.name;
  return Usage(fmt::format("'{}' is no {} of '{}', which has {}", name, what, def.def().name,
                           names.empty() ? "none" : names));
}

Status CheckName(const driver::Comprehension& def, const std::string& name) {
  const driver::Parameter* p = FindParameter(def, name);
  return p && !p->is_size ? Status() : NoParameter(def, "tensor parameter", name, false);
}

Status CheckArray(const driver::Comprehension& def, const std::string& name, const Tensor& array) {
  WEFT_TRY(CheckName(def, name));
  const driver::Parameter* p = FindParameter(def, name);
  if (array.dtype() != p->dtype)
    return Usage(fmt::format("found {} for '{}', expected {}", TypeName(array.dtype()), name,
                             TypeName(p->dtype)))
        .At(p->where);
  return {};
}

Result<Given> ReadGiven(const Flags& flags, const TcFlags& tc, const driver::Comprehension& def) {
  Given given;
  WEFT_TRY(given.arrays,
           LoadNamedInputs(flags, [&](const std::string& name) { return CheckName(def, name); }));
  for (auto& [name, array] : given.arrays) {
    const driver::Parameter* found = FindParameter(def, name);
    if (found && SharesBytes(found->dtype) && array.dtype() == WidenedType(found->dtype)) {
      auto small = Narrowed(array, found->dtype);
      if (!small.ok()) return std::move(small.status()).At(found->where);
      array = *std::move(small);
    }
    WEFT_TRY(CheckArray(def, name, array));
    given.shapes[name] = array.shape();
  }
  for (const std::string& text : tc.extents) {
    WEFT_TRY(auto extent, ParseShapeFlag(text));
    const driver::Parameter* p = FindParameter(def, extent.first);
    if (!p || p->is_size) return NoParameter(def, "tensor parameter", extent.first, false);
    const auto [known, is_new] = given.shapes.insert(std::move(extent));
    if (!is_new)
      return Usage(
          fmt::format("--extent {}: the extents of '{}' are given already", text, known->first));
  }
  for (const std::string& text : tc.sizes) {
    WEFT_TRY(const auto size, ParseShapeFlag(text));
    if (size.second.size() != 1) return Usage(fmt::format("--size {}: expected NAME=V", text));
    const driver::Parameter* p = FindParameter(def, size.first);
    if (!p || !p->is_size) return NoParameter(def, "size parameter", size.first, true);
    if (!given.sizes.emplace(size.first, size.second[0]).second)
      return Usage(fmt::format("--size {}: the size is given twice", text));
  }
  return given;
}

Json InferenceJson(const driver::Comprehension& def, const driver::DefInference& found) {
  Json ranges = Json::object(), outputs = Json::object();
  for (const auto& [name, range] : found.inference.ranges) ranges[name] = {range.lo, range.hi + 1};
  for (const driver::Operand& o : found.outputs)
    outputs[o.name] = {{"dtype", TypeName(o.dtype)}, {"shape", o.shape}};
  return {{"schema", 1},
          {"def", def.def().name},
          {"ranges", ranges},
          {"outputs", outputs},
          {"preconditions", found.inference.preconditions}};
}

// All parameters, in the order of the def: arrays, and sizes as the key of a specialization.
Result<std::vector<int64_t>> SizesOfCall(const driver::Comprehension& def, const Given& given) {
  std::vector<int64_t> sizes;
  for (const driver::Parameter& p : def.parameters()) {
    if (p.is_size) {
      const auto it = given.sizes.find(p.name);
      if (it == given.sizes.end())
        return Usage(fmt::format("the size parameter '{}' is not given", p.name))
            .At(p.where)
            .Try(fmt::format("--size {}=V", p.name));
      sizes.push_back(it->second);
      continue;
    }
    const auto it = given.arrays.find(p.name);
    if (it == given.arrays.end())
      return Usage(fmt::format("the input '{}' is not given", p.name))
          .At(p.where)
          .Try(fmt::format("--inputs F.npz with an array named {}", p.name));
    const Shape& shape = it->second.shape();
    if (shape.size() != p.rank)
      return Usage(fmt::format("found rank {} for '{}', expected {}", shape.size(), p.name, p.rank))
          .At(p.where);
    sizes.insert(sizes.end(), shape.begin(), shape.end());
  }
  return sizes;
}

// The best of several runs in microseconds; the outputs stay those of the last one.
Result<double> BestOf(const Flags& flags, const std::function<Status()>& run) {
  using Clock = std::chrono::steady_clock;
  double limit_s = kMeasureSeconds;
  if (!flags.duration.empty()) {
    WEFT_TRY(limit_s, ParseDuration(flags.duration));
  }
  const int64_t most = flags.runs > 0 ? flags.runs : kMostRuns;
  const auto begin = Clock::now();
  double best = 0;
  for (int64_t k = 0; k < most; ++k) {
    const auto start = Clock::now();
    WEFT_TRY(run());
    const auto end = Clock::now();
    const double us = std::chrono::duration<double, std::micro>(end - start).count();
    best = k == 0 ? us : std::min(best, us);
    if (flags.runs == 0 && std::chrono::duration<double>(end - begin).count() > limit_s) break;
  }
  return best;
}

Status Run(const Flags& flags, driver::Comprehension& def, const Given& given) {
  WEFT_TRY(const std::vector<int64_t> sizes, SizesOfCall(def, given));
  WEFT_TRY(const auto specialized, def.At(sizes));
  std::vector<const void*> in;
  for (const driver::Operand& o : specialized->inputs())
    in.push_back(given.arrays.at(o.name).data());
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (const driver::Operand& o : specialized->outputs()) {
    WEFT_TRY(Tensor output, Tensor::AllocateUnset(o.dtype, o.shape));
    outputs.emplace_back(o.name, std::move(output));
  }
  std::vector<void*> out;
  for (auto& [name, output] : outputs) out.push_back(output.mutable_data());
  const auto run = [&] { return specialized->Run(in, out); };
  double us = 0;
  if (flags.json) {
    WEFT_TRY(us, BestOf(flags, run));
  } else {
    WEFT_TRY(run());
  }
  if (!flags.output.empty()) WEFT_TRY(WriteNpz(flags.output, outputs));
  if (!flags.json) {
    for (const auto& [name, output] : outputs)
      fmt::print("{}: {}{}\n", name, DtypeName(output.dtype()), weft::Print(output.shape()));
    return {};
  }
  Json described = Json::object();
  for (const auto& [name, output] : outputs)
    described[name] = {{"dtype", TypeName(output.dtype())}, {"shape", output.shape()}};
  Json kernels = Json::array();
  if (const executor::Executor* executor = specialized->executor())
    for (const plan::Step& step : executor->plan().specializations[0].steps)
      kernels.push_back(step.nodes);
  PrintJson({{"schema", 1},
             {"def", def.def().name},
             {"us", us},
             {"outputs", described},
             {"kernels", kernels},
             {"env", EnvironmentJson(flags, def.options().target.threads)}});
  return {};
}

Status RunTc(const Flags& flags, const TcFlags& tc) {
  driver::ComprehensionOptions options;
  WEFT_TRY(driver::SetTarget(flags.target, options));
  Flags general = flags;  // what is asked for here beside the target means the same everywhere
  general.target = "cpu";
  Session session;
  WEFT_TRY(OpenSession(general, session));
  if (flags.threads > 0) options.target.threads = flags.threads;
  options.cache = session.cache;
  options.dump_dir = flags.dump;
  if (!tc.choices.empty()) {
    WEFT_TRY(options.choices, ReadChoices(tc.choices));
  }
  WEFT_TRY(const std::string text, ReadFile(flags.model));
  WEFT_TRY(const auto def,
           driver::Comprehension::Open(text, flags.model, tc.entry, std::move(options)));
  WEFT_TRY(const Given given, ReadGiven(flags, tc, *def));
  if (!tc.infer) return Run(flags, *def, given);
  WEFT_TRY(const driver::DefInference found, def->Infer(given.shapes, given.sizes));
  PrintJson(InferenceJson(*def, found));
  return {};
}

}  // namespace

void AddTc(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto tc = std::make_shared<TcFlags>();
  AddModel(app, flags, "FILE.tc");
  app.add_option("--entry", tc->entry, "the def; needed where FILE has several");
  app.add_option("--inputs", flags.inputs, "F.npz with arrays named as the def's parameters");
  app.add_option("--input", flags.input, "NAME=F.npy, repeatable");
  app.add_option("--size", tc->sizes, "NAME=V for a `size` parameter, repeatable");
  app.add_option("-o,--output", flags.output, "F.npz for the outputs");
  app.add_option("--target", flags.target,
                 "cpu[:x86-64-v4], interpreter, cuda[:sm_90] or cuda-emulated; default cpu");
  app.add_option("--threads", flags.threads, "default: what cgroup and affinity allow");
  app.add_option("--choices", tc->choices, "decisions to force, as --dump writes them");
  app.add_option("--dump", flags.dump, "a folder for every text form, numbered");
  app.add_flag("--infer", tc->infer, "print ranges and extents as JSON; runs nothing");
  app.add_option("--extent", tc->extents,
                 "TENSOR=2x3 instead of an array, with --infer; repeatable");
  AddCacheFlag(app, flags);
  app.add_option("--seed", flags.seed, "goes into the JSON's env; nothing is random here");
  app.add_option("--duration", flags.duration,
                 "with --json: how long to run for \"us\"; default 200ms");
  app.add_option("--runs", flags.runs, "with --json: exactly so many runs")
      ->check(CLI::NonNegativeNumber);
  run = [&flags, tc] { return RunTc(flags, *tc); };
}

}  // namespace weft::cli
