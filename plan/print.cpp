#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "plan/plan.h"

namespace weft::plan {
namespace {

constexpr std::string_view kBufferKinds[] = {"input",   "output",  "weight", "arena",
                                             "bounded", "dynamic", "alias"};
constexpr std::string_view kControls[] = {"stage", "branch", "repeat"};

std::string PrintShape(const Specialization& s, const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += shape[i] >= 0 ? std::to_string(shape[i])
                          : PrintName(s.extents[static_cast<size_t>(-1 - shape[i])]);
  }
  return text + "]";
}

std::string PrintBuffer(const Specialization& s, const Buffer& b) {
  std::string text = fmt::format("    buffer {}: {}{}", PrintName(b.name), DtypeName(b.dtype),
                                 b.kind == BufferKind::kDynamic ? "" : PrintShape(s, b.shape));
  if (!b.layout.IsPlain()) text += fmt::format(" layout {}", PrintString(weft::Print(b.layout)));
  text += fmt::format(" {}", kBufferKinds[static_cast<size_t>(b.kind)]);
  switch (b.kind) {
    case BufferKind::kArena:
    case BufferKind::kBounded:
      text += fmt::format(" at {}", b.offset);
      break;
    case BufferKind::kWeight:
      if (!b.blob.empty()) text += fmt::format(" blob({}, {} bytes)", PrintString(b.blob), b.bytes);
      break;
    case BufferKind::kAlias:
      text += " of " + PrintName(s.buffers[b.alias.index].name);
      break;
    case BufferKind::kInput:
    case BufferKind::kOutput:
    case BufferKind::kDynamic:
      break;
  }
  return text + fmt::format(" live {}:{}\n", b.first_step, b.last_step);
}

// An absent operand is `_`, so a buffer of that name is quoted.
std::string OperandName(const std::string& name) {
  return name == "_" ? PrintString(name) : PrintName(name);
}

std::string PrintOperands(const Specialization& s, const std::vector<BufferId>& ids) {
  std::string text = "(";
  for (size_t i = 0; i < ids.size(); ++i)
    text += (i ? ", " : "") +
            (ids[i].valid() ? OperandName(s.buffers[ids[i].index].name) : std::string("_"));
  return text + ")";
}

std::string PrintNested(const Nested& nested) {
  std::string text = fmt::format("      {}", kControls[static_cast<size_t>(nested.control)]);
  if (nested.control == Control::kRepeat) text += fmt::format(" states {}", nested.states);
  for (const auto& graph : nested.graphs)
    text += fmt::format(" blob({}, {} bytes)", PrintString(Sha256(*graph).Hex()), graph->size());
  return text;
}

std::string PrintStep(const Plan& plan, const Specialization& s, const Step& step,
                      BlobStore& blobs) {
  std::string text = fmt::format("    step {} {}", StepKindName(step.kind), PrintName(step.name));
  if (step.kind == StepKind::kOwn)
    text += fmt::format(" kernel {}", PrintName(plan.kernels[step.kernel.index].name));
  text += fmt::format(" {} -> {}", PrintOperands(s, step.inputs), PrintOperands(s, step.outputs));
  if (!step.params.empty()) {
    text += " params (";
    for (size_t i = 0; i < step.params.size(); ++i)
      text += (i ? ", " : "") + PrintName(step.params[i]);
    text += ")";
  }
  text += fmt::format(" us {} {}", PrintFloat(step.us), step.measured ? "measured" : "estimated");
  if (step.flops || step.bytes) text += fmt::format(" flops {} bytes {}", step.flops, step.bytes);
  text += " nodes (";
  for (size_t i = 0; i < step.nodes.size(); ++i)
    text += (i ? ", " : "") + PrintString(step.nodes[i]);
  text += ")\n";
  if (step.kind == StepKind::kVendor || step.kind == StepKind::kNative)
    text += "      call " + fallback::Print(step.call, blobs);
  if (step.kind == StepKind::kPlan) text += PrintNested(step.nested);
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string PrintSpecialization(const Plan& plan, const Specialization& s, BlobStore& blobs) {
  std::string text =
      fmt::format("  specialization {} -> {} arena {} {{\n", PrintOperands(s, s.inputs),
                  PrintOperands(s, s.outputs), s.arena_bytes);
  for (const std::string& e : s.extents) text += fmt::format("    extent {}\n", PrintName(e));
  for (const Buffer& b : s.buffers) text += PrintBuffer(s, b);
  for (const Step& step : s.steps) text += PrintStep(plan, s, step, blobs);
  return text + "  }\n";
}

// What a kernel is started with.
std::string PrintNeeds(const Kernel& k) {
  if (!k.launch)
    return fmt::format("rank_scratch {} team_scratch {}", k.rank_scratch_bytes,
                       k.team_scratch_bytes);
  std::string text;
  for (const CudaLaunch* launch : k.launch->All())
    text += fmt::format("{}grid [{}] block [{}] shared {} scratch {}", text.empty() ? "" : " then ",
                        fmt::join(launch->grid, ", "), fmt::join(launch->block, ", "),
                        launch->shared_bytes, launch->scratch_bytes);
  if (k.launch->grid_bytes > 0) text += fmt::format(" of_grid {}", k.launch->grid_bytes);
  return text;
}

}  // namespace

std::string_view StepKindName(StepKind kind) {
  constexpr std::string_view kNames[] = {"own", "vendor", "native", "view", "plan"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Print(const Plan& plan) {
  BlobStore blobs;  // what calls put there is in plan.blobs already
  std::string text = fmt::format("plan {} for {} {{\n", PrintName(plan.name),
                                 PrintString(weft::Print(plan.target)));
  text +=
      fmt::format("  model {}\n  versions {} {} {}\n  prices {}\n", PrintString(plan.model_hash),
                  PrintString(plan.weft), PrintString(plan.codegen), PrintString(plan.libraries),
                  plan.measured ? "measured" : "estimated");
  for (const Kernel& k : plan.kernels)
    text += fmt::format("  kernel {} key {} {} loops blob({}, {} bytes)\n", PrintName(k.name),
                        PrintString(k.key), PrintNeeds(k), PrintString(Sha256(k.loops).Hex()),
                        k.loops.size());
  for (const Specialization& s : plan.specializations) text += PrintSpecialization(plan, s, blobs);
  return text + "}\n";
}

}  // namespace weft::plan
