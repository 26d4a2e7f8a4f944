// Prepare and run, behind the door of the module. Exceptions of the library end here.
#include "fallback/onednn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "fallback/onednn/build.h"
#include "fallback/onednn/packed.h"

namespace weft::fallback::onednn {
namespace {

using dnnl::memory;

template <typename T, typename Body>
Result<T> Guarded(const LibraryCall& call, Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const bool memory_gone = error.status == dnnl_out_of_memory;
    const std::string what = fmt::format("onednn.{}: {}", call.op, error.what());
    return memory_gone ? Limit(what) : Unsupported(what);
  } catch (const std::bad_alloc&) {
    return Limit(fmt::format("onednn.{}: out of memory", call.op));
  } catch (const std::exception& error) {
    return Internal(fmt::format("onednn.{}: {}", call.op, error.what()));
  }
}

class Prepared : public PreparedCall {
 public:
  Prepared(Built built, const LibraryCall& call)
      : built_(std::move(built)),
        op_(call.op),
        stream_(Engine()),
        constants_(built_.inputs.size()) {
    for (const auto* slots : {&built_.inputs, &built_.outputs}) {
      for (const Slot& slot : *slots) Bind(slot.arg, slot.wanted);
    }
    for (const CallOperand& operand : call.inputs) dtypes_.push_back(operand.dtype);
    scratch_bytes_ = Bytes(built_.scratchpad);
    for (size_t i = 0; i < built_.inputs.size(); ++i) {
      if (!call.inputs[i].constant) AddStage(i, built_.inputs[i], false);
    }
    AddStage(built_.inputs.size(), built_.outputs[0], true);
    for (Stage& stage : stages_) stage.offset += scratch_bytes_;
    Bind(DNNL_ARG_SCRATCHPAD, built_.scratchpad);
    for (const Extra& extra : built_.extras) {
      Bind(extra.arg, extra.desc);
      memories_.back().set_data_handle(const_cast<void*>(extra.value.data()));
    }
  }

  Status Keep(size_t i, const Tensor& tensor) {
    const Slot& slot = built_.inputs[i];
    if (slot.widens) {
      constants_[i] = tensor;
      Widen(tensor.data(), tensor.dtype());
      memories_[i].set_data_handle(&zero_);
      return {};
    }
    WEFT_TRY(constants_[i], Packed(tensor, slot));
    memories_[i].set_data_handle(const_cast<void*>(constants_[i].data()));
    return {};
  }

  std::vector<Layout> InputLayouts() const override { return Layouts(built_.inputs); }
  std::vector<Layout> OutputLayouts() const override { return Layouts(built_.outputs); }
  int64_t ScratchBytes() const override { return scratch_bytes_ + staged_bytes_; }
  std::string Implementation() const override { return built_.implementation; }

  Status Run(std::span<const void* const> inputs, std::span<void* const> outputs,
             void* scratch) override {
    WEFT_CHECK(inputs.size() == built_.inputs.size() && outputs.size() == built_.outputs.size(),
               "{}", op_);
    const size_t n = inputs.size();
    dnnl_status_t status = dnnl_success;
    const auto set = [&](const memory& memory, const void* data) {
      if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data));
    };
    const auto execute = [&](const dnnl::primitive& primitive,
                             const std::vector<dnnl_exec_arg_t>& args) {
      if (status == dnnl_success)
        status = dnnl_primitive_execute(primitive.get(), stream_.get(),
                                        static_cast<int>(args.size()), args.data());
    };
    for (size_t i = 0; i < n; ++i) {
      if (constants_[i].data() != nullptr) continue;
      if (built_.inputs[i].widens) Widen(inputs[i], dtypes_[i]);
      set(memories_[i], built_.inputs[i].widens ? &zero_ : inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) set(memories_[n + i], outputs[i]);
    set(memories_[n + outputs.size()], scratch);
    for (const Stage& stage : stages_) {
      set(stage.outside, stage.operand < n ? inputs[stage.operand] : outputs[stage.operand - n]);
      char* const inside = static_cast<char*>(scratch) + stage.offset;
      set(stage.inside, inside);
      set(memories_[stage.operand], inside);
      set(stage.scratchpad, scratch);
      if (stage.operand < n) execute(stage.reorder, stage.args);
    }
    execute(built_.primitive, args_);
    for (const Stage& stage : stages_) {
      if (stage.operand >= n) execute(stage.reorder, stage.args);
    }
    if (status == dnnl_success) status = dnnl_stream_wait(stream_.get());
    if (status == dnnl_success) return {};
    const std::string what =
        fmt::format("onednn.{} failed with status {}", op_, static_cast<int>(status));
    return status == dnnl_out_of_memory ? Limit(what) : Internal(what);
  }

 private:
  void Widen(const void* byte, Dtype dtype) {
    zero_ = dtype == Dtype::kU8 ? *static_cast<const uint8_t*>(byte)
                                : *static_cast<const int8_t*>(byte);
  }

  // An operand that the caller has in another layout than the primitive.
  struct Stage {
    size_t operand = 0;  // of inputs, then outputs
    int64_t offset = 0;  // of the copy in the scratch
    memory outside, inside, scratchpad;
    dnnl::primitive reorder;
    std::vector<dnnl_exec_arg_t> args;
  };

  static int64_t Bytes(const memory::desc& desc) {
    return (static_cast<int64_t>(desc.get_size()) + 63) / 64 * 64;
  }

  void Bind(int arg, const memory::desc& desc) {
    memories_.push_back(memory(desc, Engine(), DNNL_MEMORY_NONE));
    args_.push_back({arg, memories_.back().get()});
  }

  // The copies lie behind a scratchpad that the primitive and the reorders use in turn.
  void AddStage(size_t operand, const Slot& slot, bool is_output) {
    if (slot.given == slot.packed) return;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const memory::desc& from = is_output ? slot.packed : slot.given;
    const memory::desc& to = is_output ? slot.given : slot.packed;
    const dnnl::reorder::primitive_desc desc(Engine(), from, Engine(), to, attr);
    Stage stage{.operand = operand,
                .offset = staged_bytes_,
                .outside = memory(slot.given, Engine(), DNNL_MEMORY_NONE),
                .inside = memory(slot.packed, Engine(), DNNL_MEMORY_NONE),
                .scratchpad = memory(desc.scratchpad_desc(), Engine(), DNNL_MEMORY_NONE),
                .reorder = dnnl::reorder(desc)};
    stage.args = {{DNNL_ARG_FROM, (is_output ? stage.inside : stage.outside).get()},
                  {DNNL_ARG_TO, (is_output ? stage.outside : stage.inside).get()},
                  {DNNL_ARG_SCRATCHPAD, stage.scratchpad.get()}};
    staged_bytes_ += Bytes(slot.packed);
    scratch_bytes_ = std::max(scratch_bytes_, Bytes(desc.scratchpad_desc()));
    stages_.push_back(std::move(stage));
  }

  static std::vector<Layout> Layouts(const std::vector<Slot>& slots) {
    std::vector<Layout> layouts;
    for (const Slot& slot : slots) layouts.push_back(slot.layout);
    return layouts;
  }

  Built built_;
  std::string op_;
  dnnl::stream stream_;
  std::vector<Tensor> constants_;
  std::vector<memory> memories_;  // inputs, outputs, scratchpad, what the call itself holds
  std::vector<Dtype> dtypes_;     // of inputs
  int32_t zero_ = 0;              // the zero point of the source that an operand gives
  std::vector<Stage> stages_;
  int64_t scratch_bytes_ = 0, staged_bytes_ = 0;
  std::vector<dnnl_exec_arg_t> args_;
};

Result<std::unique_ptr<PreparedCall>> PrepareCall(const LibraryCall& call,
                                                  std::span<const Tensor> constants) {
  return Guarded<std::unique_ptr<PreparedCall>>(
      call, [&]() -> Result<std::unique_ptr<PreparedCall>> {
        WEFT_TRY(Built built, Choose(call));
        auto prepared = std::make_unique<Prepared>(std::move(built), call);
        for (size_t i = 0; i < call.inputs.size(); ++i) {
          const CallOperand& operand = call.inputs[i];
          if (!operand.constant) continue;
          const bool there = i < constants.size() && constants[i].dtype() == operand.dtype &&
                             constants[i].shape() == operand.shape;
          if (!there || !operand.layout.IsPlain()) {
            return Usage(fmt::format(
                "onednn.{}: constant {} is not the tensor {}{} in the plain layout", call.op,
                operand.role, DtypeName(operand.dtype), weft::Print(operand.shape)));
          }
          WEFT_TRY(prepared->Keep(i, constants[i]));
        }
        return std::unique_ptr<PreparedCall>(std::move(prepared));
      });
}

Result<std::vector<Layout>> PreferredLayoutsOf(const LibraryCall& call) {
  return Guarded<std::vector<Layout>>(call, [&]() -> Result<std::vector<Layout>> {
    WEFT_TRY(const Built built, Choose(call));
    std::vector<Layout> layouts;
    for (const auto* slots : {&built.inputs, &built.outputs}) {
      for (const Slot& slot : *slots) layouts.push_back(slot.layout);
    }
    return layouts;
  });
}

std::string VersionText() {
  const dnnl_version_t* v = dnnl_version();
  const char* threads = v->cpu_runtime == DNNL_RUNTIME_TBB   ? "tbb"
                        : v->cpu_runtime == DNNL_RUNTIME_OMP ? "omp"
                                                             : "other";
  return fmt::format("onednn {}.{}.{} ({})", v->major, v->minor, v->patch, threads);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* weft_onednn_module() {
  static const Module module{.library_version = VersionText,
                             .prepare = PrepareCall,
                             .preferred_layouts = PreferredLayoutsOf};
  return &module;
}

}  // namespace weft::fallback::onednn
