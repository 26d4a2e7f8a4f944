// The runtime half of include/weft: nothing but translation, and a wall that no exception passes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "plan/file.h"
#include "weft/weft.h"

namespace {

using weft::Code;
using weft::Result;
using weft::Status;
using weft::executor::Executor;

static_assert(WEFT_BF16 == static_cast<int>(weft::Dtype::kBF16) &&
              WEFT_STRING == static_cast<int>(weft::Dtype::kString) &&
              WEFT_F64 == static_cast<int>(weft::Dtype::kF64) &&
              WEFT_U4 == static_cast<int>(weft::Dtype::kU4) &&
              WEFT_I4 == static_cast<int>(weft::Dtype::kI4));
static_assert(WEFT_MAX_RANK == weft::Layout::kMaxRank);
static_assert(WEFT_LIMIT == static_cast<int>(Code::kLimit) &&
              WEFT_INTERRUPTED == static_cast<int>(Code::kInterrupted));

struct Error {
  weft_code code = WEFT_OK;
  std::string message, what, where, hint;
};
thread_local Error t_error;

weft_code Fail(const Status& status) {
  try {
    t_error = {static_cast<weft_code>(status.code()), status.ToString(), status.what(),
               status.where(), status.hint()};
  } catch (const std::bad_alloc&) {
    t_error.code = WEFT_LIMIT;
  }
  return t_error.code;
}

// Runs body; whatever goes wrong becomes this thread's error.
template <typename F>
weft_code Guard(const F& body) {
  try {
    const Status status = body();
    return status.ok() ? WEFT_OK : Fail(status);
  } catch (const std::bad_alloc&) {
    return Fail(weft::Limit("no memory"));
  } catch (const std::exception& e) {
    return Fail(weft::Internal(e.what()));
  }
}

// A caller built with an older header knows a shorter struct.
Result<weft_options> OptionsOf(const weft_options* given) {
  weft_options options{.struct_bytes = sizeof(weft_options), .threads = 0, .cache_dir = nullptr};
  if (!given) return options;
  if (given->struct_bytes < sizeof(size_t))
    return weft::Usage("struct_bytes of the options is not set");
  std::memcpy(&options, given, std::min(given->struct_bytes, sizeof options));
  return options;
}

}  // namespace

struct weft_plan {
  std::unique_ptr<Executor> executor;

  const weft::plan::Specialization* At(size_t i) const {
    const auto& all = executor->plan().specializations;
    return i < all.size() ? &all[i] : nullptr;
  }
};

namespace {

// Without a directory to open, plans of library calls still run; a kernel that is missed says so
// itself.
std::optional<weft::FileCache> OpenCache(const weft_options& options, Status& status) {
  Result<std::string> folder = options.cache_dir
                                   ? Result<std::string>(std::string(options.cache_dir))
                                   : weft::FileCache::DefaultDirectory();
  if (!folder.ok()) return std::nullopt;
  auto cache = weft::FileCache::Open(*folder);
  if (cache.ok()) return *std::move(cache);
  if (options.cache_dir) status = std::move(cache.status());
  return std::nullopt;
}

template <typename Read>
weft_code Load(const Read& read, const weft_options* given, weft_plan** plan) {
  return Guard([&]() -> Status {
    if (!plan) return weft::Usage("no place for the plan");
    *plan = nullptr;
    WEFT_TRY(const weft_options options, OptionsOf(given));
    WEFT_TRY(weft::plan::Plan read_plan, read());
    Status status;
    const auto cache = OpenCache(options, status);
    WEFT_TRY(std::move(status));
    auto loaded = std::make_unique<weft_plan>();
    WEFT_TRY(loaded->executor,
             Executor::Load(std::move(read_plan),
                            {.threads = options.threads, .cache = cache ? &*cache : nullptr}));
    *plan = loaded.release();
    return {};
  });
}

weft_code Describe(const weft_plan* plan, size_t specialization, size_t index, bool is_input,
                   weft_tensor* tensor) {
  return Guard([&]() -> Status {
    if (!plan || !tensor) return weft::Usage("a null pointer");
    const auto* s = plan->At(specialization);
    if (!s || index >= (is_input ? s->inputs : s->outputs).size())
      return weft::Usage("there is no such tensor");
    if (tensor->struct_bytes < sizeof(weft_tensor))
      return weft::Usage("struct_bytes of the tensor is not set");
    const weft::plan::Buffer& b = s->buffers[(is_input ? s->inputs : s->outputs)[index].index];
    weft_tensor t{.struct_bytes = tensor->struct_bytes,
                  .name = b.name.c_str(),
                  .dtype = static_cast<weft_dtype>(b.dtype),
                  .rank = static_cast<int32_t>(b.shape.size()),
                  .extents = {},
                  .bytes = static_cast<size_t>(b.bytes)};
    std::ranges::copy(b.shape, t.extents);
    std::memcpy(tensor, &t, sizeof t);
    return {};
  });
}

}  // namespace

extern "C" {

int32_t weft_abi_version(void) { return WEFT_ABI_VERSION; }
const char* weft_version(void) { return WEFT_VERSION; }

const char* weft_error_message(void) { return t_error.message.c_str(); }
const char* weft_error_what(void) { return t_error.what.c_str(); }
const char* weft_error_where(void) { return t_error.where.c_str(); }
const char* weft_error_hint(void) { return t_error.hint.c_str(); }
weft_code weft_error_code(void) { return t_error.code; }

weft_code weft_plan_load(const char* path, const weft_options* options, weft_plan** plan) {
  return Load(
      [&]() -> Result<weft::plan::Plan> {
        if (!path) return weft::Usage("no path");
        return weft::plan::ReadPlan(path);
      },
      options, plan);
}

weft_code weft_plan_load_bytes(const void* bytes, size_t count, const weft_options* options,
                               weft_plan** plan) {
  return Load(
      [&]() -> Result<weft::plan::Plan> {
        if (!bytes) return weft::Usage("no bytes");
        return weft::plan::ReadPlan({static_cast<const std::byte*>(bytes), count},
                                    "plan in memory");
      },
      options, plan);
}

void weft_plan_free(weft_plan* plan) { delete plan; }

size_t weft_plan_specializations(const weft_plan* plan) {
  return plan ? plan->executor->plan().specializations.size() : 0;
}
size_t weft_plan_inputs(const weft_plan* plan, size_t specialization) {
  const auto* s = plan ? plan->At(specialization) : nullptr;
  return s ? s->inputs.size() : 0;
}
size_t weft_plan_outputs(const weft_plan* plan, size_t specialization) {
  const auto* s = plan ? plan->At(specialization) : nullptr;
  return s ? s->outputs.size() : 0;
}
weft_code weft_plan_input(const weft_plan* plan, size_t specialization, size_t index,
                          weft_tensor* tensor) {
  return Describe(plan, specialization, index, true, tensor);
}
weft_code weft_plan_output(const weft_plan* plan, size_t specialization, size_t index,
                           weft_tensor* tensor) {
  return Describe(plan, specialization, index, false, tensor);
}
size_t weft_plan_arena_bytes(const weft_plan* plan, size_t specialization) {
  const auto* s = plan ? plan->At(specialization) : nullptr;
  return s ? static_cast<size_t>(s->arena_bytes) : 0;
}

weft_code weft_plan_run(weft_plan* plan, size_t specialization, const void* const* inputs,
                        void* const* outputs, void* arena) {
  return Guard([&]() -> Status {
    const auto* s = plan ? plan->At(specialization) : nullptr;
    if (!s) return weft::Usage("there is no such specialization");
    if ((!inputs && !s->inputs.empty()) || (!outputs && !s->outputs.empty()))
      return weft::Usage("a null pointer");
    return plan->executor->Run(specialization, {inputs, s->inputs.size()},
                               {outputs, s->outputs.size()}, arena);
  });
}

weft_code weft_plan_enqueue(weft_plan* plan, size_t specialization, const void* const* inputs,
                            void* const* outputs, void* arena, void* stream) {
  return Guard([&]() -> Status {
    const auto* s = plan ? plan->At(specialization) : nullptr;
    if (!s) return weft::Usage("there is no such specialization");
    if ((!inputs && !s->inputs.empty()) || (!outputs && !s->outputs.empty()))
      return weft::Usage("a null pointer");
    const auto addresses = [](const auto* pointers, size_t count) {
      std::vector<uint64_t> all;
      for (size_t i = 0; i < count; ++i) all.push_back(reinterpret_cast<uint64_t>(pointers[i]));
      return all;
    };
    return plan->executor->Enqueue(specialization, addresses(inputs, s->inputs.size()),
                                   addresses(outputs, s->outputs.size()),
                                   reinterpret_cast<uint64_t>(arena), stream);
  });
}

weft_code weft_plan_wait(weft_plan* plan, size_t specialization, void* stream) {
  return Guard([&]() -> Status {
    if (!plan) return weft::Usage("a null pointer");
    return plan->executor->Wait(specialization, stream);
  });
}

void weft_plan_cancel(weft_plan* plan) {
  if (plan) plan->executor->Cancel();
}

}  // extern "C"
