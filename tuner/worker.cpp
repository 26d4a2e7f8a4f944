#include "tuner/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

namespace weft::tuner {
namespace {

constexpr int kPollMs = 50;  // how often `stop` is looked at

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using Head = std::array<char, 4>;

Head HeadOf(size_t bytes) {
  Head head{};
  for (size_t i = 0; i < head.size(); ++i) head[i] = static_cast<char>(bytes >> (8 * i) & 255);
  return head;
}

size_t BytesOf(const Head& head) {
  size_t bytes = 0;
  for (size_t i = 0; i < head.size(); ++i)
    bytes |= size_t{static_cast<uint8_t>(head[i])} << (8 * i);
  return bytes;
}

pid_t Spawn(const std::vector<std::string>& command, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ) != 0) pid = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// All of it, unless the file ends.
template <typename Move>
bool MoveAll(char* data, size_t bytes, const Move& move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = move(data + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(const std::vector<std::string>& command) {
  std::unique_ptr<Worker> worker(new Worker);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return Limit("no socket for a worker can be made");
  worker->socket_ = sockets[0];
  worker->pid_ = Spawn(command, sockets[1]);
  close(sockets[1]);
  if (worker->pid_ < 0) return Missing("a worker can't be started").At(command.at(0));
  return worker;
}

Worker::~Worker() {
  if (socket_ >= 0) close(socket_);
  End();
}

Result<std::string> Worker::Ask(std::string_view request, double seconds,
                                const std::atomic<bool>* stop) {
  if (request.size() > kMostFrameBytes) return Limit("a request that no frame holds");
  auto answer = Exchange(request, Now() + seconds, stop);
  if (!answer.ok()) End();  // its answer may come yet, and would be taken for that to another
  return answer;
}

Result<std::string> Worker::Exchange(std::string_view request, double deadline,
                                     const std::atomic<bool>* stop) {
  Head head = HeadOf(request.size());
  WEFT_TRY(Move(true, head.data(), head.size(), deadline, stop));
  WEFT_TRY(Move(true, const_cast<char*>(request.data()), request.size(), deadline, stop));
  WEFT_TRY(Move(false, head.data(), head.size(), deadline, stop));
  const size_t bytes = BytesOf(head);
  if (bytes > kMostFrameBytes)
    return Internal(fmt::format("a worker answers with a frame of {} bytes", bytes));
  std::string answer(bytes, '\0');
  WEFT_TRY(Move(false, answer.data(), answer.size(), deadline, stop));
  return answer;
}

Status Worker::Move(bool out, char* data, size_t bytes, double deadline,
                    const std::atomic<bool>* stop) {
  for (size_t done = 0; done < bytes;) {
    if (pid_ <= 0) return Internal("the worker has ended");
    if (stop && *stop) return {Code::kInterrupted, "interrupted"};
    if (Now() > deadline) return Limit("it took too long");
    pollfd ready{.fd = socket_, .events = static_cast<int16_t>(out ? POLLOUT : POLLIN)};
    if (poll(&ready, 1, kPollMs) <= 0) continue;
    const ssize_t n = out ? send(socket_, data + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : recv(socket_, data + done, bytes - done, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return Ended();
    done += static_cast<size_t>(n);
  }
  return {};
}

// Ends the process with what it started; returns how it ended, by itself if it had.
int Worker::End() {
  int how = 0;
  if (pid_ <= 0) return how;
  kill(-pid_, SIGKILL);  // its group
  while (waitpid(pid_, &how, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return how;
}

// The process closed its end: it is gone, or about to be; if it is neither, it can't be talked to.
Status Worker::Ended() {
  const int how = End();
  return Internal(WIFSIGNALED(how)
                      ? fmt::format("the worker ended by signal {}", strsignal(WTERMSIG(how)))
                      : fmt::format("the worker ended with exit code {}", WEXITSTATUS(how)));
}

bool Serve(int in, int out, const std::function<std::string(std::string_view)>& answer) {
  const auto from = [in](char* data, size_t bytes) { return read(in, data, bytes); };
  const auto to = [out](char* data, size_t bytes) { return write(out, data, bytes); };
  for (Head head{}; MoveAll(head.data(), 1, from);) {
    if (!MoveAll(head.data() + 1, head.size() - 1, from)) return false;
    const size_t bytes = BytesOf(head);
    if (bytes > kMostFrameBytes) return false;
    std::string request(bytes, '\0');
    if (!MoveAll(request.data(), bytes, from)) return false;
    std::string reply = answer(request);
    head = HeadOf(reply.size());
    if (!MoveAll(head.data(), head.size(), to) || !MoveAll(reply.data(), reply.size(), to))
      return false;
  }
  return true;
}

}  // namespace weft::tuner
