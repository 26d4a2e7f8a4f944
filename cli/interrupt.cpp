#include "cli/interrupt.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>
#include <thread>

#include "base/check.h"

namespace weft::cli {
namespace {

constexpr int kExitCode = static_cast<int>(Code::kInterrupted);
constexpr std::string_view kText = "weft: interrupted\n";
constexpr std::string_view kJson =
    "{\"schema\": 1, \"error\": {\"code\": 130, \"what\": \"interrupted\", \"where\": \"\", "
    "\"why\": [], \"try\": \"\"}}\n";

// Only what a signal handler may touch: lock-free atomics.
std::atomic<bool> g_interrupted{false};
std::atomic<int> g_holds{0}, g_handlers{0};
std::array<std::atomic<executor::Executor*>, 1024> g_executors;
const bool* g_json = nullptr;

void Say(int file, std::string_view text) {
  if (write(file, text.data(), text.size()) < 0) return;  // nobody left to tell
}

void Handle(int) {
  ++g_handlers;
  if (g_holds == 0 || g_interrupted.exchange(true)) {
    Say(STDERR_FILENO, kText);
    if (g_json && *g_json) Say(STDOUT_FILENO, kJson);
    _exit(kExitCode);
  }
  for (auto& slot : g_executors)
    if (executor::Executor* e = slot) e->Cancel();
  --g_handlers;
}

}  // namespace

void InstallInterrupt(const bool& json) {
  g_json = &json;
  struct sigaction action{};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

const std::atomic<bool>& Interrupted() { return g_interrupted; }

HoldInterrupt::HoldInterrupt() { ++g_holds; }
HoldInterrupt::~HoldInterrupt() { --g_holds; }

CancelOnInterrupt::CancelOnInterrupt(executor::Executor& executor) {
  for (auto& slot : g_executors) {
    executor::Executor* empty = nullptr;
    if (!slot.compare_exchange_strong(empty, &executor)) continue;
    slot_ = &slot;
    return;
  }
  WEFT_CHECK(slot_ != nullptr, "more than {} executors", g_executors.size());
}

CancelOnInterrupt::~CancelOnInterrupt() {
  *slot_ = nullptr;
  while (g_handlers > 0)
    std::this_thread::yield();  // one on another thread may still hold the pointer
}

}  // namespace weft::cli
