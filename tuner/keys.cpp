#include "tuner/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/llvm/emit.h"
#include "executor/cuda/device.h"
#include "fallback/execute.h"
#include "polyhedral/alike.h"

namespace weft::tuner {
namespace {

std::string Canonical(const polyhedral::ScheduleRequest& request,
                      const polyhedral::Choice& choice) {
  const auto nameless =
      polyhedral::InNamesOf(polyhedral::Nameless(request).request, request, choice);
  return polyhedral::Print(nameless.yes() ? *nameless : choice);
}

// The sources too: they decide how a library is called, and what a choice becomes.
std::string EngineOf(const std::string& engine) {
  return fmt::format("{}, weft {} {}", engine, Version(), SourcesHash());
}

// What is computed, and on which operands.
std::string WhatOf(const polyhedral::ScheduleRequest& request) {
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
  return what;
}

// NVRTC's version where that makes the machine code.
std::string CompilerOf(const Target& target) {
  if (target.kind == TargetKind::kCpu) return codegen::CodegenIdentity();
  const auto version = codegen::NvrtcVersion();
  return version.ok() ? *version : "no nvrtc";
}

TuningKey Key(std::string what, std::string choice, const Target& target) {
  return {.what = std::move(what),
          .choice = std::move(choice),
          .target = Print(target),
          .device = DeviceOf(target),
          .engine = EngineOf(CompilerOf(target))};
}

}  // namespace

std::string DeviceOf(const Target& target) {
  if (target.kind == TargetKind::kCpu) return DeviceName();
  const auto device = executor::cuda::FindDevice(target.isa);
  if (!device.ok()) return {};
  return fmt::format("{} {}.{} driver {}", device->name, device->major, device->minor,
                     device->driver);
}

TuningKey KeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice) {
  return Key(WhatOf(request), Canonical(request, choice), request.target);
}

TuningKey AloneKeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice) {
  return Key("alone\n" + WhatOf(request), Canonical(request, choice), request.target);
}

TuningKey BestKeyOf(const polyhedral::ScheduleRequest& request) {
  return Key(
      fmt::format("{}flushes {} streams {}\n", WhatOf(request), request.flushes, request.streams),
      std::string(kBestChoice), request.target);
}

TuningKey KeyOf(const fallback::LibraryCall& call, fallback::Library library,
                const Target& target) {
  return {.what = fallback::CanonicalText(call),
          .choice = "",
          .target = Print(target),
          .device = fallback::IsOnDevice(library) ? DeviceOf(target) : DeviceName(),
          .engine = EngineOf(fallback::LibraryVersion(library))};
}

}  // namespace weft::tuner
