#include "tc_lang/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "tc_lang/interpret_plan.h"

namespace weft::tc {
namespace {

Tensor Widen(const Tensor& tensor) {
  Tensor wide(Dtype::kF64, tensor.shape());
  auto* out = wide.mutable_as<double>();
  for (int64_t k = 0; k < tensor.elems(); ++k)
    out[k] = AsDouble(tensor.dtype(), LoadScalar(tensor.dtype(), tensor.data(), k));
  return wide;
}

Result<Shape> ShapeOf(const TensorDecl& tensor, const std::vector<int64_t>& params) {
  Shape shape;
  for (const Affine& extent : tensor.extents) shape.push_back(extent.Eval(params));
  for (int64_t extent : shape) {
    if (extent < 0) return Invalid(fmt::format("an extent of '{}' is {}", tensor.name, extent));
  }
  return shape;
}

class Interpreter {
 public:
  Interpreter(const Program& program, std::span<const Tensor> inputs,
              std::span<const int64_t> params, const InterpretOptions& options)
      : program_(program), inputs_(inputs), options_(options) {
    m_.program = &program;
    m_.params.assign(params.begin(), params.end());
    m_.widen = options.widen;
  }

  Result<std::vector<Tensor>> Run() {
    if (m_.params.size() != program_.params.size()) {
      return Usage(fmt::format("found {} params for '{}', expected {}", m_.params.size(),
                               program_.name, program_.params.size()));
    }
    WEFT_TRY(CheckWork());
    WEFT_TRY(MakeTensors());
    WEFT_TRY(const std::vector<Step> steps, Steps(program_));
    WEFT_TRY(TrackWritten(steps));
    for (const Step& step : steps) WEFT_TRY(RunStep(step));
    std::vector<Tensor> outputs;
    for (TensorId id : Outputs(program_))
      outputs.push_back(m_.tensors[static_cast<size_t>(id.index)]);
    return outputs;
  }

 private:
  Status CheckWork() const {
    int64_t total = 0;
    for (const Statement& s : program_.statements) {
      int64_t instances = 1;
      for (const Index& index : s.indices) {
        const int64_t extent =
            std::max<int64_t>(1, index.hi.Eval(m_.params) - index.lo.Eval(m_.params));
        if (__builtin_mul_overflow(instances, extent, &instances))
          instances = options_.max_instances + 1;
        instances = std::min(instances, options_.max_instances + 1);
      }
      total += instances;
      if (total > options_.max_instances) {
        return Limit(
            fmt::format("'{}' has more than {} instances", program_.name, options_.max_instances));
      }
    }
    return {};
  }

  Status MakeTensors() {
    int64_t bytes = 0;
    size_t next_input = 0;
    for (const TensorDecl& decl : program_.tensors) {
      WEFT_TRY(Shape shape, ShapeOf(decl, m_.params));
      Tensor tensor;
      if (decl.role == Role::kInput) {
        if (next_input == inputs_.size())
          return Usage(fmt::format("the input '{}' is missing", decl.name));
        tensor = inputs_[next_input++];
        // A widened run takes floats as they were widened before, too.
        if ((tensor.dtype() != decl.dtype && tensor.dtype() != m_.TypeOf(decl.dtype)) ||
            tensor.shape() != shape) {
          return Usage(fmt::format("found {}{} for the input '{}', expected {}{}",
                                   DtypeName(tensor.dtype()), weft::Print(tensor.shape()),
                                   decl.name, DtypeName(decl.dtype), weft::Print(shape)));
        }
      } else if (decl.role == Role::kLiteral) {
        tensor = decl.literal;
      } else {
        WEFT_TRY(const int64_t count, CountElems(shape));
        if (count > options_.max_bytes / 8 || (bytes += count * 8) > options_.max_bytes) {
          return Limit(fmt::format("the tensors of '{}' take more than {} bytes", program_.name,
                                   options_.max_bytes));
        }
        tensor = Tensor(m_.TypeOf(decl.dtype), std::move(shape));
      }
      if (m_.widen && IsFloat(tensor.dtype()) && tensor.dtype() != Dtype::kF64)
        tensor = Widen(tensor);
      m_.tensors.push_back(std::move(tensor));
    }
    if (next_input != inputs_.size()) {
      return Usage(fmt::format("found {} inputs for '{}', expected {}", inputs_.size(),
                               program_.name, next_input));
    }
    for (size_t t = 0; t < m_.tensors.size(); ++t) {
      const Role role = program_.tensors[t].role;
      m_.data.push_back(
          role == Role::kInput || role == Role::kLiteral ? nullptr : m_.tensors[t].mutable_data());
    }
    return {};
  }

  // Where the text order alone does not show that a cell is written before it is read, bits do.
  Status TrackWritten(const std::vector<Step>& steps) {
    m_.written.resize(m_.tensors.size());
    std::vector<bool> track(m_.tensors.size(), false), begun(m_.tensors.size(), false);
    for (const Step& step : steps) {
      for (size_t k = step.first; k <= step.last; ++k) {
        const Statement& s = program_.statements[k];
        WEFT_TRY(const std::vector<int32_t> recurrence, RecurrenceIndices(program_, s));
        for (TensorId id : {s.target, s.companion}) {
          if (!id.valid()) continue;
          const auto t = static_cast<size_t>(id.index);
          if (step.last > step.first || !recurrence.empty()) track[t] = true;
          if (begun[t]) continue;
          begun[t] = true;
          Region region(HullOf(program_, id));
          if (!region.Write(program_, s, work_) || !region.Full()) track[t] = true;
        }
      }
    }
    for (size_t t = 0; t < track.size(); ++t) {
      if (track[t]) m_.written[t].assign(static_cast<size_t>(m_.tensors[t].elems()), 0);
    }
    return {};
  }

  Status RunStep(const Step& step) {
    m_.slots.clear();
    std::vector<CompiledStatement> compiled;
    for (size_t k = step.first; k <= step.last; ++k)
      compiled.push_back(CompileStatement(m_, k, step.last > step.first));
    if (step.first == step.last) return RunStatement(m_, compiled[0], false) ? Status() : m_.error;
    const Interval range = compiled[0].ranges[0];
    for (int64_t t = range.lo; t <= range.hi; ++t) {
      for (const CompiledStatement& s : compiled) {
        m_.at.assign(1, t);
        if (!RunStatement(m_, s, true)) return m_.error;
      }
    }
    return {};
  }

  const Program& program_;
  std::span<const Tensor> inputs_;
  const InterpretOptions& options_;
  Machine m_;
  Work work_;
};

}  // namespace

Result<std::vector<Tensor>> Interpret(const Program& program, std::span<const Tensor> inputs,
                                      std::span<const int64_t> params,
                                      const InterpretOptions& options) {
  return Interpreter(program, inputs, params, options).Run();
}

}  // namespace weft::tc
