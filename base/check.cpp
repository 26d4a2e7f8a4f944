#include "base/check.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/status.h"

namespace weft {
namespace {

std::atomic<CheckHandler> check_handler = nullptr;

}  // namespace

void SetCheckHandler(CheckHandler handler) { check_handler = handler; }

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  const std::string text = fmt::format("weft: internal error: {}:{}: {} does not hold{}{}\n", file,
                                       line, condition, message.empty() ? "" : ": ", message);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  // Taken out before the call, so that a check that fails inside the handler ends the process.
  if (CheckHandler handler = check_handler.exchange(nullptr)) handler(text);
  // No destructors and no atexit functions: the state of the process is no longer trusted.
  ::_exit(static_cast<int>(Code::kInternal));
}

}  // namespace weft
