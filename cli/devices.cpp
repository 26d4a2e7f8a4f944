#include <fmt/format.h>

#include "base/target.h"
#include "cli/verbs.h"
#include "fallback/execute.h"

namespace weft::cli {
namespace {

Status Run(const Flags& flags) {
  WEFT_TRY(Target host, HostTarget());
  const std::string onednn = fallback::LibraryVersion(fallback::Library::kOnednn);
  if (flags.json) {
    PrintJson({{"schema", 1},
               {"devices", {{{"target", weft::Print(host)}, {"name", DeviceName()}, {"threads", host.threads},
                             {"l1_bytes", host.l1_bytes}, {"l2_bytes", host.l2_bytes}, {"l3_bytes", host.l3_bytes}}}},
               {"libraries", {{"onednn", onednn}}}});
    return {};
  }
  fmt::print("{}  {}\n", weft::Print(host), DeviceName());
  fmt::print("  L1 {} KiB, L2 {} KiB a core, L3 {} KiB\n", host.l1_bytes >> 10, host.l2_bytes >> 10, host.l3_bytes >> 10);
  fmt::print("  {}\n", onednn.empty() ? "oneDNN: not found" : onednn);
  return {};
}

}  // namespace

void AddDevices(CLI::App&, Flags& flags, std::function<Status()>& run) {
  run = [&flags] { return Run(flags); };
}

}  // namespace weft::cli
