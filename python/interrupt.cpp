#include "python/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace weft::python {
namespace {

// Only what a signal handler may touch: lock-free atomics, and what is set while none can run.
std::atomic<executor::Executor*> g_running{nullptr};
std::atomic<int> g_handlers{0};
struct sigaction g_interpreters{};

void Handle(int signal, siginfo_t* info, void* context) {
  ++g_handlers;
  if (executor::Executor* executor = g_running) executor->Cancel();
  --g_handlers;
  if ((g_interpreters.sa_flags & SA_SIGINFO) != 0)
    g_interpreters.sa_sigaction(signal, info, context);
  else
    g_interpreters.sa_handler(signal);
}

}  // namespace

CancelOnInterrupt::CancelOnInterrupt(executor::Executor& executor) {
  if (gettid() != getpid()) return;  // the interpreter raises KeyboardInterrupt on its main thread
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool asks =
      (now.sa_flags & SA_SIGINFO) != 0 || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
  if (!asks) return;
  g_interpreters = now;
  g_running = &executor;
  struct sigaction ours = now;
  ours.sa_sigaction = Handle;
  ours.sa_flags |= SA_SIGINFO;
  is_installed_ = sigaction(SIGINT, &ours, nullptr) == 0;
}

CancelOnInterrupt::~CancelOnInterrupt() {
  if (!is_installed_) return;
  sigaction(SIGINT, &g_interpreters, nullptr);
  g_running = nullptr;
  while (g_handlers > 0)
    std::this_thread::yield();  // one on another thread may still hold the pointer
}

}  // namespace weft::python
