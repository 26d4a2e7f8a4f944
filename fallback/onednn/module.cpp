// Prepare and run, behind the door of the module. Exceptions of the library end here.
#include "fallback/onednn/module.h"

#include <fmt/format.h>

#include <new>

#include "base/check.h"
#include "fallback/onednn/build.h"

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

// Only convolutions choose, and addends of their result's shape follow it. Everywhere else a free
// operand is plain, and a free result lies as the operand of its shape does.
LibraryCall Settled(LibraryCall call) {
  const bool chooses = call.op == "convolution" || call.op == "deconvolution";
  for (CallOperand& operand : call.inputs) {
    const bool packs = operand.constant && operand.role == "weights";
    const bool follows = operand.role.starts_with("post") && operand.shape == call.outputs[0].shape;
    if (!packs && !(chooses && (operand.role == "src" || follows))) operand.any_layout = false;
  }
  if (chooses) return call;
  for (CallOperand& operand : call.outputs) {
    const CallOperand* src = FindOperand(call, "src");
    const bool follows = operand.any_layout && src != nullptr && call.op != "matmul" &&
                         call.op != "reorder" && src->shape.size() == operand.shape.size() &&
                         src->layout.row_pad_elems == 0;
    if (follows) operand.layout = src->layout;
    operand.any_layout = false;
  }
  return call;
}

// The primitive, with every free activation in a layout that weft can write down: plain if the
// library's own can't be.
Result<Built> BuildKnown(LibraryCall call) {
  call = Settled(std::move(call));
  WEFT_TRY(Built built, Build(call));
  bool again = false;
  const auto resolve = [&](std::vector<CallOperand>& operands, std::vector<Slot>& slots) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].any_layout || operands[i].constant) continue;
      if (const auto layout = LayoutOf(slots[i].wanted)) {
        slots[i].layout = *layout;
      } else {
        operands[i].any_layout = false;
        again = true;
      }
    }
  };
  resolve(call.inputs, built.inputs);
  resolve(call.outputs, built.outputs);
  return again ? BuildKnown(std::move(call)) : Result<Built>(std::move(built));
}

class Prepared : public PreparedCall {
 public:
  Prepared(Built built, const LibraryCall& call)
      : built_(std::move(built)),
        op_(call.op),
        stream_(Engine()),
        constants_(built_.inputs.size()) {
    for (const auto* slots : {&built_.inputs, &built_.outputs}) {
      for (const Slot& slot : *slots)
        Bind(slot.arg, memory(slot.wanted, Engine(), DNNL_MEMORY_NONE));
    }
    Bind(DNNL_ARG_SCRATCHPAD, memory(built_.scratchpad, Engine(), DNNL_MEMORY_NONE));
  }

  // Packs what the primitive wants in another layout, once.
  Status Keep(size_t i, const Tensor& tensor) {
    const Slot& slot = built_.inputs[i];
    constants_[i] = tensor;
    const void* data = tensor.data();
    if (slot.given != slot.wanted) {
      WEFT_TRY(constants_[i],
               Tensor::Allocate(Dtype::kU8, {static_cast<int64_t>(slot.wanted.get_size())}));
      memory from(slot.given, Engine(), const_cast<void*>(data));
      memory to(slot.wanted, Engine(), constants_[i].mutable_data());
      dnnl::reorder(from, to).execute(stream_, from, to);
      stream_.wait();
      data = constants_[i].data();
    }
    memories_[i].set_data_handle(const_cast<void*>(data));
    return {};
  }

  std::vector<Layout> InputLayouts() const override { return Layouts(built_.inputs); }
  std::vector<Layout> OutputLayouts() const override { return Layouts(built_.outputs); }
  int64_t ScratchBytes() const override {
    return static_cast<int64_t>(built_.scratchpad.get_size());
  }

  Status Run(std::span<const void* const> inputs, std::span<void* const> outputs,
             void* scratch) override {
    WEFT_CHECK(inputs.size() == built_.inputs.size() && outputs.size() == built_.outputs.size(),
               "{}", op_);
    const size_t n = inputs.size();
    dnnl_status_t status = dnnl_success;
    const auto set = [&](size_t i, const void* data) {
      if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(memories_[i].get(), const_cast<void*>(data));
    };
    for (size_t i = 0; i < n; ++i) {
      if (constants_[i].data() == nullptr) set(i, inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) set(n + i, outputs[i]);
    set(n + outputs.size(), scratch);
    if (status == dnnl_success) {
      status = dnnl_primitive_execute(built_.primitive.get(), stream_.get(),
                                      static_cast<int>(args_.size()), args_.data());
    }
    if (status == dnnl_success) status = dnnl_stream_wait(stream_.get());
    if (status == dnnl_success) return {};
    const std::string what =
        fmt::format("onednn.{} failed with status {}", op_, static_cast<int>(status));
    return status == dnnl_out_of_memory ? Limit(what) : Internal(what);
  }

 private:
  void Bind(int arg, memory memory) {
    memories_.push_back(std::move(memory));
    args_.push_back({arg, memories_.back().get()});
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
  std::vector<memory> memories_;  // inputs, outputs, scratchpad
  std::vector<dnnl_exec_arg_t> args_;
};

Result<std::unique_ptr<PreparedCall>> PrepareCall(const LibraryCall& call,
                                                  std::span<const Tensor> constants) {
  return Guarded<std::unique_ptr<PreparedCall>>(
      call, [&]() -> Result<std::unique_ptr<PreparedCall>> {
        WEFT_TRY(Built built, BuildKnown(call));
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
    WEFT_TRY(const Built built, BuildKnown(call));
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
