#include "base/target.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/cgroup.h"
#include "base/check.h"
#include "base/file.h"

namespace weft {
namespace {

struct IsaRow {
  Isa isa;
  TargetKind kind;
  std::string_view name;
};

constexpr auto kIsas = std::to_array<IsaRow>({
    {Isa::kX86V3, TargetKind::kCpu, "x86-64-v3"},
    {Isa::kX86V4, TargetKind::kCpu, "x86-64-v4"},
    {Isa::kX86V4Vnni, TargetKind::kCpu, "x86-64-v4-vnni"},
    {Isa::kX86V4Bf16, TargetKind::kCpu, "x86-64-v4-bf16"},
    {Isa::kX86V4Amx, TargetKind::kCpu, "x86-64-v4-amx"},
    {Isa::kSm80, TargetKind::kCuda, "sm_80"},
    {Isa::kSm90, TargetKind::kCuda, "sm_90"},
    {Isa::kSm100, TargetKind::kCuda, "sm_100"},
});

const IsaRow& RowOf(Isa isa) {
  const auto row = std::ranges::find(kIsas, isa, &IsaRow::isa);
  WEFT_CHECK(row != kIsas.end(), "isa {}", static_cast<int>(isa));
  return *row;
}

std::string_view KindName(TargetKind kind) { return kind == TargetKind::kCpu ? "cpu" : "cuda"; }

// "48K", "1024K", "32M"
std::optional<int64_t> ParseSize(std::string_view text) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || size <= 0 || size > (1 << 30)) return std::nullopt;
  const char unit = end == text.data() + text.size() ? '\0' : *end;
  return size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

// What Linux says about the caches of the first processor; sysconf, which asks the processor
// itself, where sysfs is not mounted. A cache that neither names keeps its default.
void ReadCaches(Target& target) {
  std::array<int64_t, 4> bytes = {};
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const Result<std::string> level = ReadFile(folder + "level", 4096);
    const Result<std::string> type = ReadFile(folder + "type", 4096);
    const Result<std::string> size = ReadFile(folder + "size", 4096);
    if (!level.ok() || !type.ok() || !size.ok() || type->starts_with("Instruction")) continue;
    const int number = level->empty() ? 0 : (*level)[0] - '0';
    if (number >= 1 && number <= 3) bytes[number] = ParseSize(*size).value_or(0);
  }
  constexpr int kNames[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                            _SC_LEVEL3_CACHE_SIZE};
  int64_t* const fields[] = {nullptr, &target.l1_bytes, &target.l2_bytes, &target.l3_bytes};
  for (int level = 1; level <= 3; ++level) {
    if (bytes[level] == 0) bytes[level] = ::sysconf(kNames[level]);
    if (bytes[level] > 0) *fields[level] = bytes[level];
  }
}

Result<Isa> ParseIsa(TargetKind kind, std::string_view name) {
  if (kind == TargetKind::kCpu && (name.empty() || name == "native")) {
    for (const Isa isa :
         {Isa::kX86V4Amx, Isa::kX86V4Bf16, Isa::kX86V4Vnni, Isa::kX86V4, Isa::kX86V3})
      if (HostRuns(isa)) return isa;
    return Unsupported("this processor lacks AVX2 and FMA (x86-64-v3)").Try("cpu:x86-64-v3");
  }
  std::string known;
  for (const IsaRow& row : kIsas) {
    if (row.kind == kind && row.name == name) return row.isa;
    if (row.kind == kind)
      known += fmt::format("{}{}:{}", known.empty() ? "" : ", ", KindName(kind), row.name);
  }
  return Usage(
      fmt::format("found target {}:\"{}\", expected one of {}", KindName(kind), name, known));
}

// One "key=value" behind the name.
Status ParseSetting(std::string_view setting, Target& target) {
  const size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view key = setting.substr(0, equals);
  const std::string_view text = setting.substr(std::min(equals + 1, setting.size()));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const int64_t most = key == "threads" ? 4096 : int64_t{1} << 40;
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most) {
    return Usage(
        fmt::format("found \"{}\" in a target, expected KEY=NUMBER from 1 to {}", setting, most));
  }
  if (key == "threads") {
    target.threads = static_cast<int32_t>(value);
  } else if (key == "l1") {
    target.l1_bytes = value;
  } else if (key == "l2") {
    target.l2_bytes = value;
  } else if (key == "l3") {
    target.l3_bytes = value;
  } else {
    return Usage(fmt::format("found \"{}\" in a target, expected threads, l1, l2 or l3", key));
  }
  return {};
}

}  // namespace

Result<Target> ParseTarget(std::string_view text) {
  const size_t name_end = std::min(text.find(' '), text.size());
  const std::string_view name = text.substr(0, name_end);
  std::string_view settings = text.substr(name_end);
  const size_t colon = std::min(name.find(':'), name.size());
  const std::string_view kind = name.substr(0, colon);
  if (kind != "cpu" && kind != "cuda") {
    return Usage(fmt::format("found target \"{}\", expected cpu or cuda:ISA", name));
  }
  Target target;
  target.kind = kind == "cpu" ? TargetKind::kCpu : TargetKind::kCuda;
  WEFT_TRY(target.isa, ParseIsa(target.kind, name.substr(std::min(colon + 1, name.size()))));
  if (settings.empty() && target.kind == TargetKind::kCpu) {
    target.threads = UsableThreads();
    ReadCaches(target);
  }
  while (!settings.empty()) {
    settings.remove_prefix(1);  // the space
    const size_t end = std::min(settings.find(' '), settings.size());
    WEFT_TRY(ParseSetting(settings.substr(0, end), target));
    settings.remove_prefix(end);
  }
  return target;
}

std::string Print(const Target& target) {
  const Target defaults;
  std::string text = fmt::format("{}:{} threads={}", KindName(target.kind), RowOf(target.isa).name,
                                 target.threads);
  if (target.l1_bytes != defaults.l1_bytes) text += fmt::format(" l1={}", target.l1_bytes);
  if (target.l2_bytes != defaults.l2_bytes) text += fmt::format(" l2={}", target.l2_bytes);
  if (target.l3_bytes != defaults.l3_bytes) text += fmt::format(" l3={}", target.l3_bytes);
  return text;
}

Result<Target> HostTarget() { return ParseTarget("cpu:native"); }

int32_t UsableThreads() {
  int32_t threads = 1;
  // The kernel refuses a mask that is too small for its processors.
  for (size_t processors = 1024; processors <= (1 << 20); processors *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    std::vector<unsigned long> mask((bytes + sizeof(unsigned long) - 1) / sizeof(unsigned long));
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (::sched_getaffinity(0, bytes, set) != 0) continue;
    threads = std::max(1, CPU_COUNT_S(bytes, set));
    break;
  }
  const Result<std::string> memberships = ReadFile("/proc/self/cgroup", 1 << 20);
  if (!memberships.ok()) return threads;
  const std::optional<double> quota = CgroupCpuQuota("/sys/fs/cgroup", *memberships);
  if (!quota || *quota >= threads) return threads;
  return std::max(1, static_cast<int32_t>(std::ceil(*quota)));
}

namespace {

#if defined(__x86_64__)
// AMX-BF16, AMX-TILE and AMX-INT8, if Linux lets this process use them: its tiles are 8 KB that are
// saved at each switch of threads, so each process must ask (arch/x86/xstate in Linux's
// documentation). Machines without the request refuse it.
bool HasMatrixRegisters() {
  constexpr unsigned kInstructions = 1u << 22 | 1u << 24 | 1u << 25;  // of EDX, leaf 7
  constexpr long kAskForState = 0x1023, kTileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kInstructions) == kInstructions &&
         ::syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}
#endif

}  // namespace

bool HostRuns(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kX86V3) return __builtin_cpu_supports("x86-64-v3");
  if (isa == Isa::kX86V4) return __builtin_cpu_supports("x86-64-v4");
  if (isa == Isa::kX86V4Vnni)
    return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
  if (isa == Isa::kX86V4Bf16)
    return HostRuns(Isa::kX86V4Vnni) && __builtin_cpu_supports("avx512bf16");
  if (isa == Isa::kX86V4Amx) {
    static const bool runs = HostRuns(Isa::kX86V4Bf16) && HasMatrixRegisters();
    return runs;
  }
#endif
  return false;
}

namespace {

// The value of "KEY\t: VALUE" where it first stands; empty if it doesn't.
std::string CpuInfo(const std::string& info, std::string_view key) {
  for (size_t at = info.find(key); at != info.npos; at = info.find(key, at + 1)) {
    const size_t colon = info.find_first_not_of(" \t", at + key.size());
    if ((at > 0 && info[at - 1] != '\n') || colon == info.npos || info[colon] != ':') continue;
    const size_t begin = info.find_first_not_of(' ', colon + 1);
    return begin == info.npos ? "" : info.substr(begin, info.find('\n', begin) - begin);
  }
  return "";
}

}  // namespace

// Virtual machines shorten the name of a processor, so its family and model go with it.
std::string DeviceName() {
  const Result<std::string> info = ReadFile("/proc/cpuinfo", 16 << 20);
  const std::string name = info.ok() ? CpuInfo(*info, "model name") : "";
  if (name.empty()) return "unknown";
  const std::string family = CpuInfo(*info, "cpu family"), model = CpuInfo(*info, "model");
  return family.empty() ? name : fmt::format("{} family {} model {}", name, family, model);
}

}  // namespace weft
