// Checks of our own invariants, on in every build: a wrong answer costs more than a compare.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace weft {

// Called once when a check fails, before the process ends with exit code 70: the driver installs
// one that writes a reproducer. Null by default.
using CheckHandler = void (*)(std::string_view message);
void SetCheckHandler(CheckHandler handler);

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace weft

// WEFT_CHECK(i < n, "axis {} of {}", i, n): a defect of ours if the condition does not hold. The
// message is a literal and may be left out.
#define WEFT_CHECK(condition, ...)                                                      \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::weft::CheckFailed(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
  } while (false)

// The end of a switch that handles every enumerator.
#define WEFT_UNREACHABLE() ::weft::CheckFailed(__FILE__, __LINE__, "reachable", "")
