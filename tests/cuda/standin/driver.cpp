// libcuda.so.1, for tests without a device: what executor/cuda/driver.h asks of the CUDA driver, on
// the CPU, as strict as the interface allows a driver to be.
//
//   - Streams are as lazy as can be: what is enqueued happens when somebody waits for it, and then
//     whatever may happen at the same time does, in turns. A wait that was forgotten shows in the
//     results.
//   - Memory of the device can be touched by kernels and copies only, begins as a pattern, and ends
//     in a page that nothing may touch.
//   - Copies from memory that is not pinned read it at once, those to it happen at once.
//   - Calls want a current context, and nothing may wait while a graph is captured.
//
// Kernels are texts that were compiled for the host (compiler.cpp), a block after the other. One
// device, of compute capability 9.0, or WEFT_STANDIN_MAJOR for another than 9; WEFT_STANDIN_BYTES
// says how much memory it has, and WEFT_STANDIN_SLOW which work takes milliseconds: kernels, or
// that of libraries.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "codegen/cuda/emulate/compiler.h"
#include "codegen/cuda/emulate/words.h"
#include "tests/cuda/standin/image.h"

namespace {

using weft::codegen::cuda::EmulatedKernel;
using weft::codegen::cuda::HostLibrary;
using weft::codegen::cuda::ThreadState;
using Address = uint64_t;
using Work = std::function<int()>;

enum Code : int {  // CUresult
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
};

constexpr size_t kPage = 4096, kAlign = 256;
constexpr int64_t kStackBytes = 1 << 20;  // of a thread of a kernel, mapped when touched

struct Graph {
  std::vector<Work> work;
};

struct Stream {
  std::deque<Work> work;
  bool is_busy = false;  // with what was first in it
  std::unique_ptr<Graph> capture;
};

struct Event {
  uint64_t recorded = 0, reached = 0;  // records that were enqueued, and that have happened
  Stream* stream = nullptr;            // of the last record
  std::chrono::steady_clock::time_point at;
};

struct Module {
  std::shared_ptr<HostLibrary> library;
  std::vector<EmulatedKernel> kernels;
  ThreadState* state = nullptr;
};

struct Function {
  const Module* module;
  EmulatedKernel kernel;
};

struct Allocation {
  std::byte* mapped = nullptr;
  size_t mapped_bytes = 0, bytes = 0;
};

// All there is, under one lock.
struct Machine {
  std::recursive_mutex mutex;
  int context = 0;  // its address is the primary context
  int64_t retained = 0;
  size_t bytes = size_t{16} << 30, used = 0;
  std::map<Address, Allocation> memory;
  std::map<const std::byte*, size_t> pinned;
  std::set<Stream*> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  std::set<Module*> modules;
  std::map<void*, Function> functions;
  int sticky = kOk;  // an error of a kernel is everybody's from then on
  int working = 0;
};

Machine& M() {
  static Machine* machine = [] {
    auto* m = new Machine;
    if (const char* bytes = std::getenv("WEFT_STANDIN_BYTES"))
      m->bytes = std::strtoull(bytes, nullptr, 10);
    return m;
  }();
  return *machine;
}

thread_local std::vector<void*> t_contexts;

// While it lives, memory of the device can be touched.
class Working {
 public:
  Working() {
    if (M().working++ == 0) Protect(PROT_READ | PROT_WRITE);
  }
  ~Working() {
    if (--M().working == 0) Protect(PROT_NONE);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  static void Protect(int how) {
    for (const auto& [at, a] : M().memory) mprotect(a.mapped, a.mapped_bytes - kPage, how);
  }
};

int Do(const Work& work) {
  const Working working;
  if (M().sticky == kOk) M().sticky = work();
  return M().sticky;
}

int RunFirst(Stream& stream) {
  const Work work = std::move(stream.work.front());
  stream.work.pop_front();
  stream.is_busy = true;
  const int code = Do(work);
  stream.is_busy = false;
  return code;
}

// The others' work goes on beside it.
int RunUntil(Stream& stream, const std::function<bool()>& done) {
  while (!done() && !stream.work.empty()) {
    if (const int code = RunFirst(stream)) return code;
    for (Stream* other : std::vector<Stream*>(M().streams.begin(), M().streams.end()))
      if (other != &stream && !other->is_busy && !other->work.empty())
        if (const int code = RunFirst(*other)) return code;
  }
  return M().sticky;
}

int Drain(Stream& stream) {
  return RunUntil(stream, [] { return false; });
}

int DrainAll() {
  for (Stream* stream : M().streams)
    if (const int code = Drain(*stream)) return code;
  return M().sticky;
}

bool IsCapturing() {
  for (const Stream* stream : M().streams)
    if (stream->capture) return true;
  return false;
}

int Enqueue(void* handle, Work work) {
  auto* stream = static_cast<Stream*>(handle);
  if (!M().streams.contains(stream)) return kInvalidHandle;
  if (stream->capture)
    stream->capture->work.push_back(std::move(work));
  else
    stream->work.push_back(std::move(work));
  return M().sticky;
}

bool IsOnDevice(Address at, size_t bytes) {
  auto found = M().memory.upper_bound(at);
  if (found == M().memory.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second.bytes;
}

bool IsPinned(const void* at, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(at);
  auto found = M().pinned.upper_bound(first);
  if (found == M().pinned.begin()) return false;
  --found;
  return first + bytes <= found->first + found->second;
}

// NOLINTNEXTLINE(performance-no-int-to-ptr): an address is what a driver gives for memory
std::byte* At(Address address) { return reinterpret_cast<std::byte*>(address); }

template <typename F>
int InContext(const F& body) {
  const std::lock_guard lock(M().mutex);
  if (t_contexts.empty()) return kInvalidContext;
  if (M().sticky != kOk) return M().sticky;
  return body();
}

void BeSlowIf(std::string_view kind) {
  static const char* const slow = std::getenv("WEFT_STANDIN_SLOW");
  if (slow && kind == slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int RunKernel(const Function& function, ThreadState::Dim grid, ThreadState::Dim block,
              std::vector<uint64_t> values) {
  std::vector<void*> arguments;
  for (uint64_t& value : values) arguments.push_back(&value);
  const weft::Status status = weft::codegen::cuda::RunGrid(
      function.kernel, *function.module->state, grid, block, kStackBytes, arguments.data());
  BeSlowIf("kernels");
  if (status.ok()) return kOk;
  std::fprintf(stderr, "stand-in for a device: %s\n", status.ToString().c_str());
  return kLaunchFailed;
}

// Through an anonymous file, by a path that no library was opened by before: the loader knows
// libraries by their paths.
std::shared_ptr<HostLibrary> LoadCode(std::string_view code) {
  std::string name = "/tmp/weft-standin-XXXXXX";
  const int fd = mkstemp(name.data());
  if (fd < 0) return nullptr;
  const bool written = write(fd, code.data(), code.size()) == static_cast<ssize_t>(code.size());
  close(fd);
  auto library = HostLibrary::Load(name);
  unlink(name.c_str());
  return written && library.ok() ? *library : nullptr;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of the library that this stands in for
extern "C" {

int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory          ? "out of memory"
          : code == kInvalidImage       ? "device kernel image is invalid"
          : code == kInvalidContext     ? "invalid device context"
          : code == kInvalidHandle      ? "invalid resource handle"
          : code == kNotFound           ? "named symbol not found"
          : code == kIllegalAddress     ? "an illegal memory access was encountered"
          : code == kLaunchFailed       ? "unspecified launch failure"
          : code == kCaptureUnsupported ? "operation not permitted when stream is capturing"
                                        : "invalid argument";
  return kOk;
}

int cuInit(unsigned) { return kOk; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kOk;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return kOk;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kOk : kInvalidValue;
}

int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "stand-in for a device");
  return kOk;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
  const char* const major = std::getenv("WEFT_STANDIN_MAJOR");
  *value = attribute == kMajor             ? (major ? std::atoi(major) : 9)
           : attribute == kMultiprocessors ? 2
                                           : 0;
  return *value > 0 || attribute == kMinor ? kOk : kInvalidValue;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = M().bytes;
  return kOk;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  const std::lock_guard lock(M().mutex);
  ++M().retained;
  *context = &M().context;
  return kOk;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  const std::lock_guard lock(M().mutex);
  return --M().retained >= 0 ? kOk : kInvalidContext;
}

int cuCtxPushCurrent_v2(void* context) {
  if (context != &M().context) return kInvalidContext;
  t_contexts.push_back(context);
  return kOk;
}

int cuCtxPopCurrent_v2(void** context) {
  if (t_contexts.empty()) return kInvalidContext;
  *context = t_contexts.back();
  t_contexts.pop_back();
  return kOk;
}

int cuCtxGetCurrent(void** context) {
  *context = t_contexts.empty() ? nullptr : t_contexts.back();
  return kOk;
}

// What libraries do on a device, when its turn comes; `argument` must outlive all graphs.
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return InContext([&]() -> int {
    return Enqueue(stream, [=] {
      function(argument);
      BeSlowIf("libraries");
      return int{kOk};
    });
  });
}

int cuModuleLoadData(void** handle, const void* image) {
  return InContext([&]() -> int {
    const std::string_view code = weft::standin::Unwrap(image);
    if (code.empty()) return kInvalidImage;
    auto module = std::make_unique<Module>();
    module->library = LoadCode(code);
    if (!module->library) return kInvalidImage;
    const void* kernels = module->library->Find(weft::codegen::cuda::kKernelsSymbol);
    void* state = module->library->Find(weft::codegen::cuda::kThreadSymbol);
    if (!kernels || !state) return kInvalidImage;
    for (auto kernel = static_cast<const EmulatedKernel*>(kernels); kernel->symbol; ++kernel)
      module->kernels.push_back(*kernel);
    module->state = static_cast<ThreadState*>(state);
    M().modules.insert(module.get());
    *handle = module.release();
    return kOk;
  });
}

int cuModuleUnload(void* handle) {
  return InContext([&]() -> int {
    auto* module = static_cast<Module*>(handle);
    if (const int code = DrainAll()) return code;
    if (M().modules.erase(module) == 0) return kInvalidHandle;
    std::erase_if(M().functions, [&](const auto& f) { return f.second.module == module; });
    delete module;
    return kOk;
  });
}

int cuModuleGetFunction(void** function, void* handle, const char* name) {
  return InContext([&]() -> int {
    auto* module = static_cast<Module*>(handle);
    if (!M().modules.contains(module)) return kInvalidHandle;
    for (EmulatedKernel& kernel : module->kernels) {
      if (std::string_view(kernel.symbol) != name) continue;
      M().functions[&kernel] = {module, kernel};
      *function = &kernel;
      return kOk;
    }
    return kNotFound;
  });
}

int cuFuncGetAttribute(int* value, int attribute, void*) {
  constexpr int kMostThreads = 0;
  *value = 1024;
  return attribute == kMostThreads ? kOk : kInvalidValue;
}

int cuMemAlloc_v2(Address* address, size_t bytes) {
  return InContext([&]() -> int {
    if (bytes == 0) return kInvalidValue;
    if (bytes > M().bytes - M().used) return kOutOfMemory;
    const size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    const size_t mapped = (rounded + kPage - 1) / kPage * kPage + kPage;
    void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return kOutOfMemory;
    Allocation a{.mapped = static_cast<std::byte*>(at), .mapped_bytes = mapped, .bytes = bytes};
    std::memset(a.mapped, 0xff, mapped);  // NaN, and an index that is out of range
    mprotect(a.mapped, mapped, PROT_NONE);
    if (M().working > 0) mprotect(a.mapped, mapped - kPage, PROT_READ | PROT_WRITE);
    *address = reinterpret_cast<Address>(a.mapped + mapped - kPage - rounded);
    M().memory[*address] = a;
    M().used += bytes;
    return kOk;
  });
}

int cuMemFree_v2(Address address) {
  return InContext([&]() -> int {
    const auto found = M().memory.find(address);
    if (found == M().memory.end() || IsCapturing()) return kInvalidValue;
    const int code = DrainAll();
    munmap(found->second.mapped, found->second.mapped_bytes);
    M().used -= found->second.bytes;
    M().memory.erase(found);
    return code;
  });
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return InContext([&]() -> int {
    *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    if (!*memory) return kOutOfMemory;
    std::memset(*memory, 0xff, bytes);
    M().pinned[static_cast<std::byte*>(*memory)] = bytes;
    return kOk;
  });
}

int cuMemFreeHost(void* memory) {
  return InContext([&]() -> int {
    if (IsCapturing() || M().pinned.erase(static_cast<std::byte*>(memory)) == 0)
      return kInvalidValue;
    const int code = DrainAll();
    std::free(memory);
    return code;
  });
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return InContext([&]() -> int {
    if (!IsOnDevice(to, bytes)) return kInvalidValue;
    if (IsPinned(from, bytes))
      return Enqueue(stream, [=] {
        std::memcpy(At(to), from, bytes);
        return int{kOk};
      });
    if (IsCapturing()) return kCaptureUnsupported;
    const auto* first = static_cast<const std::byte*>(from);
    return Enqueue(stream, [to, now = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(At(to), now.data(), now.size());
      return int{kOk};
    });
  });
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  return InContext([&]() -> int {
    if (!IsOnDevice(from, bytes)) return kInvalidValue;
    const int code = Enqueue(stream, [=] {
      std::memcpy(to, At(from), bytes);
      return int{kOk};
    });
    if (code != kOk || IsPinned(to, bytes)) return code;
    return IsCapturing() ? int{kCaptureUnsupported} : Drain(*static_cast<Stream*>(stream));
  });
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return InContext([&]() -> int {
    if (!IsOnDevice(from, bytes) || !IsOnDevice(to, bytes)) return kInvalidValue;
    return Enqueue(stream, [=] {
      std::memmove(At(to), At(from), bytes);
      return int{kOk};
    });
  });
}

int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return InContext([&]() -> int {
    if (!IsOnDevice(to, bytes)) return kInvalidValue;
    return Enqueue(stream, [=] {
      std::memset(At(to), value, bytes);
      return int{kOk};
    });
  });
}

int cuStreamCreate(void** handle, unsigned) {
  return InContext([&]() -> int {
    auto* stream = new Stream;
    M().streams.insert(stream);
    *handle = stream;
    return kOk;
  });
}

int cuStreamDestroy_v2(void* handle) {
  return InContext([&]() -> int {
    auto* stream = static_cast<Stream*>(handle);
    if (!M().streams.contains(stream)) return kInvalidHandle;
    const int code = Drain(*stream);
    M().streams.erase(stream);
    delete stream;
    return code;
  });
}

int cuStreamSynchronize(void* handle) {
  return InContext([&]() -> int {
    auto* stream = static_cast<Stream*>(handle);
    if (!M().streams.contains(stream)) return kInvalidHandle;
    return stream->capture ? int{kCaptureUnsupported} : Drain(*stream);
  });
}

int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  return InContext([&]() -> int {
    const auto found = M().events.find(handle);
    if (found == M().events.end()) return kInvalidHandle;
    const std::shared_ptr<Event> event = found->second;
    const uint64_t record = event->recorded;
    Stream* const of = event->stream;
    return Enqueue(stream, [=]() -> int {
      if (!M().streams.contains(of)) return kOk;  // it was drained when it ended
      return RunUntil(*of, [=] { return event->reached >= record; });
    });
  });
}

int cuStreamBeginCapture_v2(void* handle, int) {
  return InContext([&]() -> int {
    auto* stream = static_cast<Stream*>(handle);
    if (!M().streams.contains(stream) || stream->capture) return kInvalidHandle;
    stream->capture = std::make_unique<Graph>();
    return kOk;
  });
}

int cuStreamEndCapture(void* handle, void** graph) {
  return InContext([&]() -> int {
    auto* stream = static_cast<Stream*>(handle);
    if (!M().streams.contains(stream) || !stream->capture) return kInvalidHandle;
    *graph = stream->capture.release();
    return kOk;
  });
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<const Graph*>(graph));
  return kOk;
}

int cuGraphLaunch(void* executable, void* stream) {
  return InContext([&]() -> int {
    for (const Work& work : static_cast<const Graph*>(executable)->work)
      if (const int code = Enqueue(stream, work)) return code;
    return kOk;
  });
}

int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kOk;
}

int cuGraphExecDestroy(void* executable) {
  delete static_cast<Graph*>(executable);
  return kOk;
}

int cuEventCreate(void** handle, unsigned) {
  return InContext([&]() -> int {
    auto event = std::make_shared<Event>();
    *handle = event.get();
    M().events[*handle] = event;
    return kOk;
  });
}

int cuEventDestroy_v2(void* handle) {
  return InContext([&] { return M().events.erase(handle) ? int{kOk} : int{kInvalidHandle}; });
}

int cuEventRecord(void* handle, void* stream) {
  return InContext([&]() -> int {
    const auto found = M().events.find(handle);
    if (found == M().events.end()) return kInvalidHandle;
    const std::shared_ptr<Event> event = found->second;
    event->stream = static_cast<Stream*>(stream);
    const uint64_t record = ++event->recorded;
    return Enqueue(stream, [=] {
      event->reached = record;
      event->at = std::chrono::steady_clock::now();
      return int{kOk};
    });
  });
}

int cuEventSynchronize(void* handle) {
  return InContext([&]() -> int {
    const auto found = M().events.find(handle);
    if (found == M().events.end()) return kInvalidHandle;
    const std::shared_ptr<Event> event = found->second;
    if (!M().streams.contains(event->stream)) return kOk;
    return RunUntil(*event->stream, [&] { return event->reached >= event->recorded; });
  });
}

int cuEventElapsedTime(float* ms, void* from, void* to) {
  return InContext([&]() -> int {
    constexpr int kNotReady = 600;
    const auto &a = M().events.at(from), &b = M().events.at(to);
    if (a->recorded == 0 || a->reached < a->recorded || b->reached < b->recorded) return kNotReady;
    *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count();
    return kOk;
  });
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned, void* stream,
                   void** arguments, void**) {
  return InContext([&]() -> int {
    const auto known = M().functions.find(function);
    if (known == M().functions.end()) return kInvalidHandle;
    const Function kernel = known->second;
    const ThreadState::Dim grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 ||
        block_x == 0 || block_y == 0 || block_z == 0 || block_z > 64 ||
        uint64_t{block_x} * block_y * block_z > 1024)
      return kInvalidValue;
    std::vector<uint64_t> values;
    for (unsigned i = 0; i < kernel.kernel.arguments; ++i)
      values.push_back(*static_cast<const uint64_t*>(arguments[i]));
    return Enqueue(stream, [=] { return RunKernel(kernel, grid, block, values); });
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
