#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "base/text.h"

namespace weft {
namespace {

constexpr auto kLevels =
    std::to_array<std::string_view>({"debug", "info", "warning", "error", "off"});

struct Settings {
  std::mutex mutex;
  LogLevel level = LogLevel::kWarning;
  std::map<std::string, LogLevel, std::less<>> topics;
};

Settings& TheSettings() {
  static Settings settings;
  return settings;
}

// The lowest level of any topic: most calls are answered by one load.
std::atomic<LogLevel> lowest_level = LogLevel::kWarning;

}  // namespace

Status ConfigureLog(std::string_view setting) {
  const size_t equals = setting.find('=');
  const std::string_view topic = equals == setting.npos ? "" : setting.substr(0, equals);
  const std::string_view name = equals == setting.npos ? setting : setting.substr(equals + 1);
  const auto found = std::ranges::find(kLevels, name);
  if (found == kLevels.end() || (equals != setting.npos && topic.empty())) {
    return Usage(fmt::format("found log setting \"{}\", expected LEVEL or TOPIC=LEVEL", setting))
        .Try("one of debug, info, warning, error, off");
  }
  const auto level = static_cast<LogLevel>(found - kLevels.begin());
  Settings& settings = TheSettings();
  const std::lock_guard lock(settings.mutex);
  if (topic.empty()) {
    settings.level = level;
  } else {
    settings.topics[std::string(topic)] = level;
  }
  LogLevel lowest = settings.level;
  for (const auto& [unused, topic_level] : settings.topics) lowest = std::min(lowest, topic_level);
  lowest_level = lowest;
  return {};
}

bool LogEnabled(std::string_view topic, LogLevel level) {
  if (level < lowest_level.load(std::memory_order_relaxed) || level == LogLevel::kOff) return false;
  Settings& settings = TheSettings();
  const std::lock_guard lock(settings.mutex);
  const auto found = settings.topics.find(topic);
  return level >= (found == settings.topics.end() ? settings.level : found->second);
}

void LogMessage(std::string_view topic, LogLevel level, std::string_view message) {
  const std::string line = fmt::format("weft: {}: {}: {}\n", kLevels[static_cast<size_t>(level)],
                                       topic, Printable(message));
  // One call, so that lines of several threads and processes stay whole. There is nowhere to report
  // that stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace weft
