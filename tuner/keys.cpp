#include "tuner/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/version.h"
#include "codegen/llvm/emit.h"
#include "fallback/execute.h"

namespace weft::tuner {
namespace {

// Statements are named by their targets in a choice, so one map of tensor names serves both.
std::string Canonical(polyhedral::Choice choice, const tc::Program& program) {
  std::map<std::string, std::string> places;
  for (const tc::TensorDecl& tensor : program.tensors)
    places.emplace(tensor.name, fmt::format("t{}", places.size()));
  const auto rename = [&](std::string& name) {
    if (const auto it = places.find(name); it != places.end()) name = it->second;
  };
  choice.group = "f";
  for (polyhedral::Cluster& cluster : choice.clusters)
    std::ranges::for_each(cluster.statements, rename);
  for (polyhedral::Pack& pack : choice.packs) rename(pack.tensor);
  for (std::string& tensor : choice.prefetches) rename(tensor);
  for (std::string& tensor : choice.streams) rename(tensor);
  return polyhedral::Print(choice);
}

// The sources too: they decide how a library is called, and what a choice becomes.
std::string EngineOf(const std::string& engine) {
  return fmt::format("{}, weft {} {}", engine, Version(), SourcesHash());
}

}  // namespace

TuningKey KeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice) {
  const tc::Program& program = *request.program;
  std::string what = tc::CanonicalText(program);
  int place = 0;
  for (const auto& operands : {tc::Inputs(program), tc::Outputs(program)})
    for (tc::TensorId id : operands) {
      const std::string& name = program[id].name;
      if (const auto it = request.layouts.find(name); it != request.layouts.end())
        what += fmt::format("operand {} {}\n", place, Print(it->second));
      if (std::ranges::count(request.constants, name))
        what += fmt::format("operand {} constant\n", place);
      ++place;
    }
  return {.what = std::move(what),
          .choice = Canonical(choice, program),
          .target = Print(request.target),
          .device = DeviceName(),
          .engine = EngineOf(codegen::CodegenIdentity())};
}

TuningKey KeyOf(const fallback::LibraryCall& call, fallback::Library library,
                const Target& target) {
  return {.what = fallback::CanonicalText(call),
          .choice = "",
          .target = Print(target),
          .device = DeviceName(),
          .engine = EngineOf(fallback::LibraryVersion(library))};
}

}  // namespace weft::tuner
