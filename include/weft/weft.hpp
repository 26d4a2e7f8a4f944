// The same for C++17: owners instead of pointers, an exception instead of a code.
//
//   weft::rt::Plan plan("digits.plan");
//   plan.Run({image}, {digit});
//
// Header only, over weft.h: it works with any compiler that the library was not built by.
#ifndef WEFT_WEFT_HPP_
#define WEFT_WEFT_HPP_

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/weft.h"

namespace weft::rt {

class Error : public std::runtime_error {
 public:
  explicit Error(weft_code code)
      : std::runtime_error(weft_error_message()), code_(code), what_(weft_error_what()), where_(weft_error_where()),
        hint_(weft_error_hint()) {}
  weft_code code() const { return code_; }
  const std::string& reason() const { return what_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

 private:
  weft_code code_;
  std::string what_, where_, hint_;
};

inline void Check(weft_code code) {
  if (code != WEFT_OK) throw Error(code);
}

struct TensorInfo {
  std::string name;
  weft_dtype dtype;
  std::vector<int64_t> extents;
  size_t bytes;
};

struct Options {
  uint32_t threads = 0;   // 0: what the machine allows
  std::string cache_dir;  // empty: the user's
};

class Plan {
 public:
  explicit Plan(const std::string& path, const Options& options = {}) {
    weft_plan* plan = nullptr;
    const weft_options o = ToC(options);
    Check(weft_plan_load(path.c_str(), &o, &plan));
    plan_.reset(plan);
  }
  Plan(const void* bytes, size_t count, const Options& options = {}) {
    weft_plan* plan = nullptr;
    const weft_options o = ToC(options);
    Check(weft_plan_load_bytes(bytes, count, &o, &plan));
    plan_.reset(plan);
  }

  size_t specializations() const { return weft_plan_specializations(plan_.get()); }
  size_t arena_bytes(size_t specialization = 0) const { return weft_plan_arena_bytes(plan_.get(), specialization); }
  std::vector<TensorInfo> inputs(size_t specialization = 0) const {
    return Describe(specialization, weft_plan_inputs(plan_.get(), specialization), weft_plan_input);
  }
  std::vector<TensorInfo> outputs(size_t specialization = 0) const {
    return Describe(specialization, weft_plan_outputs(plan_.get(), specialization), weft_plan_output);
  }

  void Run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, size_t specialization = 0,
           void* arena = nullptr) {
    CheckCounts(inputs, outputs, specialization);
    Check(weft_plan_run(plan_.get(), specialization, inputs.data(), outputs.data(), arena));
  }
  // On a GPU, with operands in its memory; `stream`: a cudaStream_t. Wait says what was wrong.
  void Enqueue(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, void* stream = nullptr,
               size_t specialization = 0, void* arena = nullptr) {
    CheckCounts(inputs, outputs, specialization);
    Check(weft_plan_enqueue(plan_.get(), specialization, inputs.data(), outputs.data(), arena, stream));
  }
  void Wait(void* stream = nullptr, size_t specialization = 0) {
    Check(weft_plan_wait(plan_.get(), specialization, stream));
  }
  void Cancel() { weft_plan_cancel(plan_.get()); }
  weft_plan* get() const { return plan_.get(); }

 private:
  struct Free {
    void operator()(weft_plan* plan) const { weft_plan_free(plan); }
  };

  void CheckCounts(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                   size_t specialization) const {
    if (inputs.size() != weft_plan_inputs(plan_.get(), specialization) ||
        outputs.size() != weft_plan_outputs(plan_.get(), specialization))
      throw std::invalid_argument("the plan has another number of inputs or outputs");
  }

  static weft_options ToC(const Options& options) {
    weft_options o{};
    o.struct_bytes = sizeof o;
    o.threads = options.threads;
    o.cache_dir = options.cache_dir.empty() ? nullptr : options.cache_dir.c_str();
    return o;
  }

  template <typename F>
  std::vector<TensorInfo> Describe(size_t specialization, size_t count, F describe) const {
    std::vector<TensorInfo> all;
    for (size_t i = 0; i < count; ++i) {
      weft_tensor t{};
      t.struct_bytes = sizeof t;
      Check(describe(plan_.get(), specialization, i, &t));
      all.push_back({t.name, t.dtype, {t.extents, t.extents + t.rank}, t.bytes});
    }
    return all;
  }

  std::unique_ptr<weft_plan, Free> plan_;
};

}  // namespace weft::rt

#endif  // WEFT_WEFT_HPP_
