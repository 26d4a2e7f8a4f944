#include "base/cgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/file.h"

namespace weft {
namespace {

std::string FirstLine(const std::string& path) {
  const Result<std::string> text = ReadFile(path, 4096);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

std::optional<double> Ratio(std::string_view quota, std::string_view period) {
  double q = 0, p = 0;
  const bool numbers =
      std::from_chars(quota.data(), quota.data() + quota.size(), q).ec == std::errc() &&
      std::from_chars(period.data(), period.data() + period.size(), p).ec == std::errc();
  // "max" is no number; version 1 says -1.
  return numbers && q > 0 && p > 0 ? std::optional(q / p) : std::nullopt;
}

// "max 100000" or "150000 100000"
std::optional<double> QuotaV2(const std::string& group) {
  const std::string line = FirstLine(group + "/cpu.max");
  const size_t space = line.find(' ');
  return space == line.npos ? std::nullopt : Ratio(line.substr(0, space), line.substr(space + 1));
}

std::optional<double> QuotaV1(const std::string& group) {
  return Ratio(FirstLine(group + "/cpu.cfs_quota_us"), FirstLine(group + "/cpu.cfs_period_us"));
}

bool HasCpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// The least of the quotas of root/path and of every group around it. Inside a container the path
// may be one that only the host sees; the mounted root is the container's own group then.
template <typename Quota>
void Lower(std::optional<double>& least, const std::string& root, std::string path, Quota quota) {
  while (true) {
    const std::optional<double> here = quota(root + path);
    if (here && (!least || *here < *least)) least = here;
    if (path.empty()) return;
    path.resize(std::min(path.rfind('/'), path.size() - 1));
  }
}

}  // namespace

// Lines read "hierarchy:controllers:path"; the one of version 2 has no controllers.
std::optional<double> CgroupCpuQuota(const std::string& root, std::string_view memberships) {
  std::optional<double> least;
  while (!memberships.empty()) {
    const size_t end = std::min(memberships.find('\n'), memberships.size());
    const std::string_view line = memberships.substr(0, end);
    memberships.remove_prefix(std::min(end + 1, memberships.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    std::string path(line.substr(second + 1));
    if (path == "/" || path.find("..") != path.npos) path.clear();
    if (controllers.empty()) {
      Lower(least, root, path, QuotaV2);
    } else if (HasCpu(controllers)) {
      Lower(least, fmt::format("{}/{}", root, controllers), path, QuotaV1);
      if (controllers != "cpu") Lower(least, root + "/cpu", path, QuotaV1);
    }
  }
  return least;
}

}  // namespace weft
