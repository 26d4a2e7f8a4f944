#include "driver/comprehension.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/cuda/nvrtc.h"
#include "driver/build.h"
#include "driver/pipeline.h"
#include "driver/program.h"
#include "executor/cuda/device.h"
#include "plan/signature.h"
#include "tc_lang/interpret.h"

namespace weft::driver {
namespace {

constexpr size_t kMostKept = 256;  // sizes of one def: each holds a team's arena and its kernels

std::string Where(const tc::Def& def, tc::Location at) {
  return fmt::format("{}:{}:{}", def.file, at.line, at.column);
}

std::vector<Operand> OperandsOf(const tc::Program& program,
                                const std::vector<tc::TensorId>& tensors) {
  std::vector<Operand> operands;
  for (const tc::TensorId t : tensors)
    operands.push_back(
        {program[t].name, program[t].dtype, tc::StaticExtents(program[t]).value_or(Shape())});
  return operands;
}

Result<std::unique_ptr<executor::Executor>> Load(const tc::Program& program,
                                                 const BuildOptions& build) {
  WEFT_TRY(plan::Plan plan, CompileProgram(program, build));
  return MakeExecutor(std::move(plan), build, build.target.threads);
}

// Whether a kernel stores past the caches, which its nest says by what it asks of an operand.
Result<bool> Streams(const plan::Plan& plan) {
  for (const plan::Kernel& kernel : plan.kernels) {
    WEFT_TRY(const plan::Signature signature, plan::ReadSignature(kernel.loops, kernel.name));
    for (const plan::Operand& o : signature.operands)
      if (o.align_bytes > SizeBytes(o.dtype)) return true;
  }
  return false;
}

Result<size_t> FindDef(const std::vector<tc::Def>& defs, const std::string& file,
                       const std::string& entry) {
  if (defs.empty()) return Invalid("found no def, expected one").At(file);
  std::string names;
  for (size_t i = 0; i < defs.size(); ++i) {
    if (entry == defs[i].name || (entry.empty() && defs.size() == 1)) return i;
    names += (names.empty() ? "" : ", ") + defs[i].name;
  }
  if (entry.empty())
    return Usage(fmt::format("found the defs {}, expected one, or to be told which", names))
        .At(file)
        .Try(fmt::format("--entry {}", defs[0].name));
  return Usage(fmt::format("no def is called '{}', found {}", entry, names)).At(file);
}

}  // namespace

BuildOptions BuildOptionsOf(const ComprehensionOptions& options) {
  BuildOptions build;
  build.target = options.target;
  build.partition.force = partition::PartitionOptions::Force::kOwn;
  build.partition.vendor = false;
  build.cache = options.cache ? &*options.cache : nullptr;
  build.forced_choices = options.choices;
  build.dump_dir = options.dump_dir;
  return build;
}

Status SetTarget(std::string_view text, ComprehensionOptions& options) {
  constexpr std::string_view kEmulated = "cuda-emulated";
  std::string target(text);
  options.engine = Engine::kKernels;
  if (text == "interpreter") {
    options.engine = Engine::kInterpreter;
    target = "cpu";
  } else if (text == kEmulated || text.starts_with(std::string(kEmulated) + ":")) {
    options.engine = Engine::kEmulator;
    target = "cuda" + target.substr(kEmulated.size());
  }
  if (target == "cuda") {  // without a device it is said when something is to run on it
    const auto isa = executor::cuda::IsaHere();
    const bool is_here = options.engine == Engine::kKernels && isa.ok();
    target = fmt::format("cuda:{}", codegen::CudaArchitecture(is_here ? *isa : Isa::kSm90));
  }
  auto parsed = ParseTarget(target);
  if (!parsed.ok())
    return Usage(
        fmt::format("found \"{}\", expected cpu, interpreter, cuda or cuda-emulated", text));
  options.target = *parsed;
  return {};
}

Result<std::shared_ptr<Specialized>> Specialized::Make(tc::Program program, std::string where,
                                                       const ComprehensionOptions& options) {
  std::shared_ptr<Specialized> made(new Specialized);
  made->where_ = std::move(where);
  made->inputs_ = OperandsOf(program, tc::Inputs(program));
  made->outputs_ = OperandsOf(program, tc::Outputs(program));
  const BuildOptions build = BuildOptionsOf(options);
  if (options.engine == Engine::kKernels) {
    if (options.target.kind == TargetKind::kCuda) WEFT_TRY(executor::CudaDevices());
    WEFT_TRY(made->executor_, Load(program, build));
    made->options_ = options;
    if (options.target.kind == TargetKind::kCpu) {  // what runs on a device lies there
      WEFT_TRY(made->streams_, Streams(made->executor_->plan()));
    }
  } else if (options.engine == Engine::kEmulator) {
    WEFT_TRY(Module module, OpenProgram(program, options.target));
    WEFT_TRY(Advance(module, Form::kLoops, build));
    WEFT_TRY(made->emulation_, Emulation::Make(std::move(module)));
  }
  made->program_ = std::move(program);
  return made;
}

Status Specialized::Run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (!executor_) return Interpret(inputs, outputs);
  const auto begins_line = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; };
  if (!streams_ || std::ranges::all_of(outputs, begins_line))
    return executor_->Run(0, inputs, outputs);
  WEFT_TRY(executor::Executor * unaligned, Unaligned());
  return unaligned->Run(0, inputs, outputs);
}

Result<executor::Executor*> Specialized::Unaligned() {
  const std::lock_guard lock(mutex_);
  if (!unaligned_) {
    BuildOptions build = BuildOptionsOf(options_);
    build.streams = false;
    build.dump_dir.clear();
    WEFT_TRY(unaligned_, Load(program_, build));
  }
  return unaligned_.get();
}

Status Specialized::Interpret(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size())
    return Usage(fmt::format("found {} inputs and {} outputs, the def has {} and {}", inputs.size(),
                             outputs.size(), inputs_.size(), outputs_.size()));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(Tensor::Borrow(inputs_[i].dtype, inputs_[i].shape, nullptr, inputs[i]));
  auto run = emulation_ ? emulation_->Run(tensors) : tc::Interpret(program_, tensors);
  if (!run.ok() && run.status().where().empty()) return std::move(run.status()).At(where_);
  WEFT_TRY(const std::vector<Tensor> results, std::move(run));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (results[i].bytes() > 0)
      std::memcpy(outputs[i], results[i].data(), static_cast<size_t>(results[i].bytes()));
  return {};
}

Result<std::unique_ptr<Comprehension>> Comprehension::Open(std::string_view text,
                                                           const std::string& file,
                                                           const std::string& entry,
                                                           ComprehensionOptions options) {
  WEFT_TRY(std::vector<tc::Def> defs, tc::ParseDefs(text, file));
  WEFT_TRY(const size_t at, FindDef(defs, file, entry));
  std::unique_ptr<Comprehension> made(new Comprehension(std::move(defs), at, std::move(options)));
  for (const tc::SyntaxParam& param : made->def().params)
    made->parameters_.push_back({.name = param.name,
                                 .is_size = param.is_size,
                                 .dtype = param.dtype.value_or(Dtype::kI64),
                                 .rank = param.strides.empty() ? param.dims.size() : 1,
                                 .where = Where(made->def(), param.at)});
  return made;
}

std::string Comprehension::where() const { return Where(def(), def().at); }

Result<tc::Program> Comprehension::Bind(std::span<const int64_t> sizes) const {
  std::map<std::string, Shape> shapes;
  std::map<std::string, int64_t> size_params;
  size_t at = 0;
  for (const Parameter& p : parameters_) {
    const size_t count = p.is_size ? 1 : p.rank;
    if (at + count > sizes.size()) break;
    if (p.is_size)
      size_params[p.name] = sizes[at];
    else
      shapes[p.name].assign(sizes.begin() + at, sizes.begin() + at + count);
    at += count;
  }
  auto known = tc::SizesFromShapes(def(), shapes, size_params);
  if (!known.ok()) return std::move(known.status()).At(where());
  WEFT_TRY(tc::Program program, tc::Bind(def(), *known, defs_));
  WEFT_TRY(CheckMemory(program, shapes));
  return program;
}

// What a parameter with strides is given is memory, whose size nothing else looks at.
Status Comprehension::CheckMemory(const tc::Program& program,
                                  const std::map<std::string, Shape>& shapes) const {
  for (const Operand& operand : OperandsOf(program, tc::Inputs(program))) {
    const auto param = std::ranges::find(def().params, operand.name, &tc::SyntaxParam::name);
    const auto given = shapes.find(operand.name);
    if (param == def().params.end() || param->strides.empty() || given == shapes.end()) continue;
    WEFT_TRY(const int64_t wanted, CountElems(operand.shape));
    if (given->second[0] < wanted)
      return Usage(fmt::format("found {} elements for '{}', expected {} or more", given->second[0],
                               operand.name, wanted))
          .At(Where(def(), param->at));
  }
  return {};
}

class Comprehension::Claim {
 public:
  Claim(Comprehension& of, Key key) : of_(of), key_(std::move(key)) { of_.claimed_.insert(key_); }
  ~Claim() {
    {
      const std::lock_guard lock(of_.mutex_);
      of_.claimed_.erase(key_);
    }
    of_.released_.notify_all();
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  Comprehension& of_;
  Key key_;
};

Result<std::shared_ptr<Specialized>> Comprehension::At(std::span<const int64_t> sizes) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (const auto it = kept_.find(sizes); it != kept_.end()) {
      it->second.used = ++clock_;
      return it->second.specialized;
    }
    if (!claimed_.contains(sizes)) break;
    released_.wait(lock);
  }
  const Claim claim(*this, Key(sizes.begin(), sizes.end()));
  lock.unlock();
  WEFT_TRY(tc::Program program, Bind(sizes));
  WEFT_TRY(std::shared_ptr<Specialized> made,
           Specialized::Make(std::move(program), where(), options_));
  lock.lock();
  Keep(sizes, made);
  lock.unlock();
  return made;
}

void Comprehension::Keep(std::span<const int64_t> sizes, std::shared_ptr<Specialized> specialized) {
  if (kept_.size() >= kMostKept && !kept_.contains(sizes))
    kept_.erase(
        std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.used; }));
  kept_[Key(sizes.begin(), sizes.end())] = {std::move(specialized), ++clock_};
}

Result<DefInference> Comprehension::Infer(const std::map<std::string, Shape>& shapes,
                                          const std::map<std::string, int64_t>& size_params) const {
  auto sizes = tc::SizesFromShapes(def(), shapes, size_params);
  if (!sizes.ok()) return std::move(sizes.status()).At(where());
  DefInference out;
  WEFT_TRY(const tc::Program program, tc::Bind(def(), *sizes, defs_));
  WEFT_TRY(out.inference, tc::Infer(def(), *sizes, defs_));
  out.outputs = OperandsOf(program, tc::Outputs(program));
  return out;
}

Status Comprehension::Force(std::span<const int64_t> sizes,
                            std::map<std::string, polyhedral::Choice> choices) {
  ComprehensionOptions options = options_;
  options.choices = std::move(choices);
  WEFT_TRY(tc::Program program, Bind(sizes));
  WEFT_TRY(std::shared_ptr<Specialized> made,
           Specialized::Make(std::move(program), where(), options));
  const std::lock_guard lock(mutex_);
  Keep(sizes, std::move(made));
  return {};
}

}  // namespace weft::driver
