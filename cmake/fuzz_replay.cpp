// Stands in for libFuzzer's main where the compiler has none: runs the target on every file named
// on the command line, so that a kept crasher is a test under any compiler, and on a fixed number
// of mutations of each.
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
// A target may bring a mutator of its own, as with libFuzzer.
extern "C" [[gnu::weak]] size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                        unsigned seed);

namespace {

constexpr unsigned kTimeoutS = 20;
std::mt19937 engine;         // of LLVMFuzzerMutate; begins anew with each mutation
std::vector<uint8_t> input;  // what the target is given

// Whatever ends the process: the input is kept, and said which it is.
void Report(int signal) {
  if (FILE* file = std::fopen("fuzz-failed-input", "wb")) {
    std::fwrite(input.data(), 1, input.size(), file);
    std::fclose(file);
  }
  std::fputs(signal == SIGALRM ? "took too long; " : "failed; ", stderr);
  std::fputs("the input is in fuzz-failed-input\n", stderr);
  ::_exit(1);
}

void Run() {
  ::alarm(kTimeoutS);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

// A few bytes dropped, doubled, set or exchanged.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  for (unsigned n = 1 + engine() % 3; n > 0; --n) {
    if (size == 0) return 0;
    const size_t at = engine() % size, length = std::min<size_t>(1 + engine() % 8, size - at);
    switch (engine() % 4) {
      case 0:
        data[at] = static_cast<uint8_t>(engine());
        break;
      case 1:
        std::memmove(data + at, data + at + length, size - at - length);
        size -= length;
        break;
      case 2:
        if (size + length > max_size) break;
        std::memmove(data + at + length, data + at, size - at);
        size += length;
        break;
      default:
        std::swap(data[at], data[engine() % size]);
    }
  }
  return size;
}

int main(int argc, char** argv) {
  for (int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP})
    std::signal(signal, Report);
  LLVMFuzzerInitialize(&argc, &argv);
  unsigned mutations = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("-mutations=")) {
      mutations = static_cast<unsigned>(std::atoi(argv[i] + 11));
      continue;
    }
    std::ifstream file(argv[i], std::ios::binary);
    const std::vector<uint8_t> kept{std::istreambuf_iterator<char>(file), {}};
    input = kept;
    Run();
    for (unsigned seed = 0; seed < mutations; ++seed) {
      engine.seed(seed);
      input = kept;
      input.resize(2 * kept.size() + 4096);
      const auto mutate = LLVMFuzzerCustomMutator
                              ? LLVMFuzzerCustomMutator
                              : [](uint8_t* data, size_t size, size_t most, unsigned) {
                                  return LLVMFuzzerMutate(data, size, most);
                                };
      input.resize(mutate(input.data(), kept.size(), input.size(), seed));
      Run();
    }
  }
}
