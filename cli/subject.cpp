#include "cli/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "driver/build.h"
#include "driver/inputs.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

bool IsOpen(const plan::Specialization& s, plan::BufferId id) {
  return s.buffers[id.index].kind == plan::BufferKind::kDynamic;
}

using Shapes = std::map<std::string, Shape>;  // by input

bool Fits(const plan::Specialization& s, const Shapes& wanted) {
  return std::ranges::all_of(s.inputs, [&](plan::BufferId id) {
    const auto it = wanted.find(s.buffers[id.index].name);
    return it == wanted.end() || IsOpen(s, id) || it->second == s.buffers[id.index].shape;
  });
}

// Those of what is given; of the other inputs, those that --shape says.
Result<Shapes> Wanted(const Flags& flags, const std::map<std::string, Tensor>& given) {
  Shapes wanted;
  for (const auto& [name, tensor] : given) wanted.emplace(name, tensor.shape());
  for (const std::string& text : flags.shapes) {
    WEFT_TRY(RangedShape flag, ParseRangedShape(text));
    if (std::ranges::count(flag.tuned, -1) == 0 && !given.contains(flag.input))
      wanted[flag.input] = std::move(flag.tuned);
  }
  return wanted;
}

std::vector<TensorSpec> SpecsOf(const plan::Specialization& s,
                                const std::vector<plan::BufferId>& ids) {
  std::vector<TensorSpec> specs;
  for (plan::BufferId id : ids)
    specs.push_back(
        {s.buffers[id.index].name, s.buffers[id.index].dtype, s.buffers[id.index].shape});
  return specs;
}

// Inputs of open extents have the wanted ones.
Status FillOpenShapes(const Subject& subject, const Shapes& wanted,
                      std::vector<TensorSpec>& specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!IsOpen(subject.spec(), subject.spec().inputs[i])) continue;
    const auto shape = wanted.find(specs[i].name);
    if (shape == wanted.end())
      return Usage("its extents are not known")
          .At(fmt::format("input \"{}\"", specs[i].name))
          .Try(fmt::format("--inputs F.npz or --shape {}=…", specs[i].name));
    specs[i].shape = shape->second;
  }
  return {};
}

}  // namespace

Result<Subject> OpenSubject(const std::string& path, const Flags& flags, Session& session,
                            const std::map<std::string, Tensor>& given) {
  Subject subject{.name = path};
  plan::Plan plan;
  if (IsPlanFile(path)) {
    WEFT_TRY(plan, plan::ReadPlan(path));
  } else {
    driver::BuildOptions options = session.options;
    std::erase_if(options.shapes, [&](const auto& shape) {  // a size to tune at gives way
      return given.contains(shape.first) && std::ranges::count(session.tuned, shape) > 0;
    });
    for (const auto& [name, tensor] : given) options.shapes.emplace_back(name, tensor.shape());
    // There will be one shape only: kernels that come later would come too late.
    using Force = partition::PartitionOptions::Force;
    if (options.specialize != driver::Specialize::kNow && options.partition.force == Force::kNone)
      options.partition.force = Force::kCalls;
    WEFT_TRY(driver::Built built, BuildOrStop(path, options, session.profiles));
    plan = std::move(built.plan);
    subject.graph = std::move(built.modules[0].graph);
    subject.build_s = built.seconds;
  }
  driver::BuildOptions running = session.options;
  const int32_t threads = flags.threads > 0 ? flags.threads : static_cast<int32_t>(UsableThreads());
  WEFT_TRY(running.max_bytes, CheckMemory(flags, plan, threads));
  WEFT_TRY(const Shapes wanted, Wanted(flags, given));
  while (subject.specialization < plan.specializations.size() &&
         !Fits(plan.specializations[subject.specialization], wanted))
    ++subject.specialization;
  if (subject.specialization == plan.specializations.size())
    return Usage("no specialization takes these input shapes")
        .At(path)
        .Try("build with --profile for them");
  const auto begin = std::chrono::steady_clock::now();
  WEFT_TRY(subject.executor, driver::MakeExecutor(std::move(plan), running, flags.threads));
  subject.cancel = std::make_unique<CancelOnInterrupt>(*subject.executor);
  subject.load_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return subject;
}

std::vector<TensorSpec> InputsOf(const Subject& subject) {
  return SpecsOf(subject.spec(), subject.spec().inputs);
}
std::vector<TensorSpec> OutputsOf(const Subject& subject) {
  return SpecsOf(subject.spec(), subject.spec().outputs);
}

Result<std::vector<Tensor>> InputsFor(const Subject& subject, const Flags& flags,
                                      const std::map<std::string, Tensor>& given) {
  std::vector<TensorSpec> specs = InputsOf(subject);
  WEFT_TRY(const Shapes wanted, Wanted(flags, given));
  WEFT_TRY(FillOpenShapes(subject, wanted, specs));
  std::vector<Tensor> generated;
  if (!subject.graph.inputs.empty()) {
    WEFT_TRY(generated, driver::GenerateInputs(subject.graph, flags.seed));
  } else {
    // A plan does not say what its integers index, so they are 0 or 1.
    for (size_t i = 0; i < specs.size(); ++i) {
      WEFT_TRY(Tensor input,
               driver::GenerateTensor(specs[i].dtype, specs[i].shape, flags.seed * 1000003 + i, 2));
      generated.push_back(std::move(input));
    }
  }
  return GatherInputs(flags, specs, given, generated);
}

}  // namespace weft::cli
