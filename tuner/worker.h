// A process of its own for work that may crash, hang or run out of memory.
//
// It is asked and answers by frames over its standard input and output: four bytes, the length with
// the least byte first, and so many bytes of text. It is in no group of ours, so what the terminal
// sends us does not end it; it ends when its input does.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft::tuner {

inline constexpr size_t kMostFrameBytes = size_t{1} << 28;

class Worker {
 public:
  // Of a program that is looked up as a shell does. kMissing if it can't be started.
  static Result<std::unique_ptr<Worker>> Start(const std::vector<std::string>& command);
  ~Worker();  // ends the process, whatever it does
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The answer. An error of code kLimit if it does not come within `seconds`, kInterrupted if
  // `stop` turns true, kInternal if the process ends, with how it ended. Each of them ends the
  // process, so that there is no further asking. `stop` may be null.
  Result<std::string> Ask(std::string_view request, double seconds,
                          const std::atomic<bool>* stop = nullptr);

 private:
  Worker() = default;
  Result<std::string> Exchange(std::string_view request, double deadline,
                               const std::atomic<bool>* stop);
  Status Move(bool out, char* data, size_t bytes, double deadline, const std::atomic<bool>* stop);
  int End();
  Status Ended();

  int pid_ = -1, socket_ = -1;
};

// The worker's side: each request is answered until there is none. False if what is read is no
// frame, or nobody reads the answer.
bool Serve(int in, int out, const std::function<std::string(std::string_view)>& answer);

}  // namespace weft::tuner
