// How many processors a container may use.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The least CPU quota, in processors, of the control groups that `memberships` (the text of
// /proc/self/cgroup) names and of those around them; nullopt if there is none. `root` is where the
// groups are mounted. Linux documentation: admin-guide/cgroup-v2.rst (cpu.max) and scheduler/
// sched-bwc.rst (cpu.cfs_quota_us).
std::optional<double> CgroupCpuQuota(const std::string& root, std::string_view memberships);

}  // namespace weft
