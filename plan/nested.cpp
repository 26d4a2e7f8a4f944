#include "plan/nested.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace weft::plan {
namespace {

using graph::ValueId;

class OneStep {
 public:
  OneStep(const Specialization& s, const Step& step) : s_(s), step_(step) {}

  Status Operands() const {
    const bool is_branch = step_.nested.control == Control::kBranch;
    if (step_.nested.graphs.size() != (is_branch ? 2 : 1))
      return Invalid(fmt::format("found {} graphs, expected {}", step_.nested.graphs.size(),
                                 is_branch ? 2 : 1));
    for (const std::vector<BufferId>* ids : {&step_.inputs, &step_.outputs})
      for (BufferId id : *ids)
        if (id.valid() && (id.index >= std::ssize(s_.buffers) || !Buffer(id).layout.IsPlain()))
          return Invalid("an operand that is no buffer, or not plain");
    return Fixed();
  }

  Status Fits(const graph::Graph& graph) const {
    WEFT_TRY(Inputs(graph));
    return Outputs(graph);
  }

 private:
  const plan::Buffer& Buffer(BufferId id) const { return s_.buffers[id.index]; }
  bool IsRepeat() const { return step_.nested.control == Control::kRepeat; }

  // The operands that say what to do; all others are there.
  Status Fixed() const {
    const size_t decides = IsRepeat() ? 2 : step_.nested.control == Control::kBranch ? 1 : 0;
    const auto& in = step_.inputs;
    if (in.size() < decides)
      return Invalid(fmt::format("found {} inputs, expected {} or more", in.size(), decides));
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].valid() && !(IsRepeat() && i < decides))
        return Invalid(fmt::format("input {} is absent", i));
      const Dtype dtype = IsRepeat() && i == 0 ? Dtype::kI64 : Dtype::kBool;
      if (in[i].valid() && i < decides && Buffer(in[i]).dtype != dtype)
        return Invalid(fmt::format("{} is {}, expected {}", PrintString(Buffer(in[i]).name),
                                   DtypeName(Buffer(in[i]).dtype), DtypeName(dtype)));
    }
    const int64_t states = step_.nested.states;
    if (IsRepeat() ? states < 0 || states > std::ssize(in) - 2 || states > std::ssize(step_.outputs)
                   : states != 0)
      return Invalid(fmt::format("found {} states of {} inputs and {} outputs", states, in.size(),
                                 step_.outputs.size()));
    return {};
  }

  static Status Expect(const graph::Graph& graph, ValueId id, Dtype dtype) {
    const graph::Value& value = graph[id];
    if (value.dtype == dtype) return {};
    return Invalid(fmt::format("{} of a nested graph is {}, expected {}", PrintString(value.name),
                               value.dtype ? DtypeName(*value.dtype) : "of no known type",
                               DtypeName(dtype)));
  }

  Status Inputs(const graph::Graph& graph) const {
    const auto& in = step_.inputs;
    const size_t first = step_.nested.control == Control::kBranch ? 1 : 0;
    if (graph.inputs.size() != in.size() - first)
      return Invalid(fmt::format("a nested graph has {} inputs, expected {}", graph.inputs.size(),
                                 in.size() - first));
    for (size_t i = first; i < in.size(); ++i) {
      const Dtype dtype = in[i].valid() ? Buffer(in[i]).dtype : i == 0 ? Dtype::kI64 : Dtype::kBool;
      WEFT_TRY(Expect(graph, graph.inputs[i - first], dtype));
    }
    return {};
  }

  Status Outputs(const graph::Graph& graph) const {
    const auto& out = step_.outputs;
    const size_t first = IsRepeat() ? 1 : 0;  // the condition
    if (graph.outputs.size() != out.size() + first)
      return Invalid(fmt::format("a nested graph has {} outputs, expected {}", graph.outputs.size(),
                                 out.size() + first));
    if (IsRepeat()) WEFT_TRY(Expect(graph, graph.outputs[0], Dtype::kBool));
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].valid()) WEFT_TRY(Expect(graph, graph.outputs[i + first], Buffer(out[i]).dtype));
    // A state that nobody reads in the end is of one type all the same.
    for (size_t i = 0; i < static_cast<size_t>(step_.nested.states); ++i)
      WEFT_TRY(Expect(graph, graph.outputs[i + 1], Buffer(step_.inputs[i + 2]).dtype));
    return {};
  }

  const Specialization& s_;
  const Step& step_;
};

}  // namespace

Result<graph::Graph> ReadNested(const std::string& text, const BlobStore& blobs) {
  WEFT_TRY(graph::Graph graph, graph::ParseGraph(text, "nested graph", blobs));
  WEFT_TRY(graph::Verify(graph));
  return graph;
}

Status NestedVerifier::Verify(const Specialization& s, const Step& step) {
  const OneStep one(s, step);
  WEFT_TRY(one.Operands());
  for (const auto& text : step.nested.graphs) {
    auto known = read_.find(text.get());
    if (known == read_.end()) {
      WEFT_TRY(graph::Graph graph, ReadNested(*text, plan_.blobs));
      known = read_.emplace(text.get(), std::move(graph)).first;
    }
    WEFT_TRY(one.Fits(known->second));
  }
  return {};
}

}  // namespace weft::plan
