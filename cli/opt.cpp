#include <fmt/format.h>

#include <algorithm>

#include "base/blob.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "codegen/cuda/emit.h"
#include "codegen/llvm/emit.h"
#include "driver/build.h"
#include "driver/kernels.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

struct OptFlags {
  std::string from = "graph", to = "plan", group, choices;
};

// What a text is, told by its first word; comments may stand before it.
std::string_view FirstWord(std::string_view text) {
  for (;;) {
    const size_t start = text.find_first_not_of(" \t\r\n");
    if (start == text.npos) return {};
    text.remove_prefix(start);
    if (text[0] != '#') return text.substr(0, text.find_first_of(" \t\r\n"));
    const size_t end = text.find('\n');
    text.remove_prefix(end == text.npos ? text.size() : end);
  }
}

// A model in ONNX, a graph as text, or any text form that opt writes.
Result<driver::Module> ReadModule(const Flags& flags, const OptFlags& opt,
                                  const driver::BuildOptions& options) {
  const auto from = driver::ParseForm(opt.from);
  if (!from)
    return Usage(fmt::format(
        "--from {}: expected graph, tc, groups, choices, sched, loops, call or plan", opt.from));
  WEFT_TRY(std::string text, flags.model == "-" ? Result<std::string>(driver::StandardInput())
                                                : ReadFile(flags.model));
  WEFT_TRY(BlobStore blobs, BlobStore::Load(text, flags.model + ".blobs"));
  if (!text.starts_with("=== ")) {
    if (*from != driver::Form::kGraph)
      return Invalid(fmt::format("not a text at form {}", opt.from)).At(flags.model);
    if (FirstWord(text) != "graph") return driver::Open(flags.model, options);
    WEFT_TRY(graph::Graph graph, graph::ParseGraph(text, flags.model, blobs));
    WEFT_TRY(graph::Verify(graph));
    return driver::OpenGraph(std::move(graph), options);
  }
  WEFT_TRY(driver::Module module, driver::ParseModule(text, flags.model, blobs));
  if (module.form != *from)
    return Invalid(
               fmt::format("found form {}, expected {}", driver::FormName(module.form), opt.from))
        .At(flags.model);
  return module;
}

Status WriteText(const Flags& flags, const std::string& text, const BlobStore& blobs) {
  if (flags.output.empty() || flags.output == "-") {
    if (blobs.size() > 0)
      return Usage(fmt::format("{} constants are too big for the text and would be lost",
                               blobs.size()))
          .Try("-o FILE, which writes them to FILE.blobs");
    if (flags.json)
      PrintJson({{"schema", 1}, {"text", text}});
    else
      fmt::print("{}", text);
    return {};
  }
  const HoldInterrupt whole;
  if (blobs.size() > 0) WEFT_TRY(blobs.Save(flags.output + ".blobs"));
  WEFT_TRY(WriteFileAtomically(flags.output, text));
  if (flags.json) PrintJson({{"schema", 1}, {"output", flags.output}});
  return {};
}

// The code of own groups in the order in which they run, under the symbols that a plan gives them.
Status WriteCode(const Flags& flags, const OptFlags& opt, const driver::Module& module) {
  const bool is_cuda = opt.to == "cu";
  if (is_cuda != (module.target.kind == TargetKind::kCuda))
    return Usage(fmt::format("--to {}: {} has no such code", opt.to, Print(module.target)))
        .Try(is_cuda ? "--target cuda:sm_90, from a model or graph on" : "--to cu");
  std::string text;
  for (const partition::Group& group : module.grouping.groups) {
    const auto nest = module.nests.find(group.name);
    if (nest == module.nests.end() || (!opt.group.empty() && group.name != opt.group)) continue;
    // What is compiled is what a plan's text reads as, whichever way the nest was made here.
    const std::string printed = loops::Print(driver::WithSymbol(nest->second));
    WEFT_TRY(const loops::LoopNest named, loops::Parse(printed, group.name + ".loops"));
    if (is_cuda) {
      WEFT_TRY(auto source, codegen::EmitCudaText(named, module.target));
      text += (text.empty() ? "" : "\n") + source.text;
    } else {
      WEFT_TRY(std::string ir, codegen::EmitLlvmIr(named, module.target, true));
      text += ir;
    }
  }
  return WriteText(flags, text, {});
}

// Code is of own groups, a plan of all, and before the groups there is nothing to take one of.
Status CheckGroup(const OptFlags& opt, const driver::Module& module) {
  if (opt.group.empty()) return {};
  const bool is_code = opt.to == "ll" || opt.to == "cu";
  if (module.form < driver::Form::kGroups || module.form == driver::Form::kPlan)
    return Usage(fmt::format("--group {}: {} has no text of one group", opt.group, opt.to));
  std::vector<std::string> names;
  for (const partition::Group& group : module.grouping.groups)
    if (!is_code || group.implementation == partition::Implementation::kOwn)
      names.push_back(group.name);
  if (std::ranges::count(names, opt.group) > 0) return {};
  return Usage(fmt::format("--group {}: found the {}groups {}", opt.group, is_code ? "own " : "",
                           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

// Choices are made on the way to their form. Those of a text give way to what is forced.
Status Force(const OptFlags& opt, driver::Form to, const driver::BuildOptions& options,
             driver::Module& module) {
  if (opt.choices.empty()) return {};
  if (module.form > driver::Form::kChoices || to < driver::Form::kChoices)
    return Usage(fmt::format("--choices {}: no choice is made from {} to {}", opt.choices, opt.from,
                             opt.to));
  if (module.form < driver::Form::kChoices) return {};
  WEFT_TRY(driver::CheckForced(module, options));
  for (const auto& [group, choice] : options.forced_choices) module.choices[group] = choice;
  return {};
}

Status RunOpt(const Flags& flags, const OptFlags& opt) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  if (!opt.choices.empty()) {
    WEFT_TRY(session.options.forced_choices, ReadChoices(opt.choices));
  }
  const bool is_code = opt.to == "ll" || opt.to == "cu";
  const auto to =
      is_code ? driver::Form::kLoops : driver::ParseForm(opt.to).value_or(driver::Form::kGraph);
  if (!is_code && !driver::ParseForm(opt.to))
    return Usage(fmt::format("--to {}: expected a text form, ll or cu", opt.to));
  WEFT_TRY(driver::Module module, ReadModule(flags, opt, session.options));
  if (!is_code && module.form > to)
    return Usage(fmt::format("{} comes before {}", opt.to, opt.from));
  WEFT_TRY(Force(opt, to, session.options, module));
  WEFT_TRY(driver::Advance(module, to, session.options));
  WEFT_TRY(CheckGroup(opt, module));
  if (is_code) return WriteCode(flags, opt, module);
  // A plan goes out as the file that `build` writes, so that the two can be compared byte by byte.
  if (to == driver::Form::kPlan && !flags.output.empty()) {
    WEFT_TRY(driver::CompileKernels(module.plan, session.options));
    const HoldInterrupt whole;
    WEFT_TRY(plan::WritePlan(module.plan, flags.output));
    if (flags.json) PrintJson({{"schema", 1}, {"output", flags.output}});
    return {};
  }
  if (!opt.group.empty()) {
    const auto keep = [&](auto& by_name) {
      std::erase_if(by_name, [&](const auto& entry) { return entry.first != opt.group; });
    };
    keep(module.choices), keep(module.schedules), keep(module.nests), keep(module.calls);
    if (to == driver::Form::kGroups)
      std::erase_if(module.grouping.groups,
                    [&](const partition::Group& group) { return group.name != opt.group; });
  }
  BlobStore blobs;
  const std::string text = driver::Print(module, blobs);
  return WriteText(flags, text, blobs);
}

}  // namespace

void AddOpt(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto opt = std::make_shared<OptFlags>();
  AddModel(app, flags, "FILE");
  app.add_option("--from", opt->from, "the form of FILE; graph also reads .onnx")->required();
  app.add_option("--to", opt->to,
                 "graph tc groups choices sched loops call plan; ll and cu go out only")
      ->required();
  app.add_option("--group", opt->group, "only this group");
  app.add_option("--choices", opt->choices, "decisions to force");
  app.add_option("-o,--output", flags.output,
                 "the text, its big constants in FILE.blobs; default: stdout, if there are none");
  AddBuildFlags(app, flags);
  run = [&flags, opt] { return RunOpt(flags, *opt); };
}

}  // namespace weft::cli
