// Logging to stderr by topic; stdout belongs to results.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// "warning" or "partition=debug"; may be given several times. The default is warning.
Status ConfigureLog(std::string_view setting);
bool LogEnabled(std::string_view topic, LogLevel level);
void LogMessage(std::string_view topic, LogLevel level, std::string_view message);

// WEFT_LOG(kInfo, "driver", "built {} kernels", n): formats only if the topic is enabled.
#define WEFT_LOG(level, topic, ...)                                                 \
  do {                                                                              \
    if (::weft::LogEnabled(topic, ::weft::LogLevel::level))                         \
      ::weft::LogMessage(topic, ::weft::LogLevel::level, fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace weft
