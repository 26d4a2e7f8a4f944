#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "base/text.h"
#include "plan/nested.h"
#include "plan/plan.h"
#include "plan/signature.h"

namespace weft::plan {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), nested_(plan) {}

  Status Run() {
    std::set<std::string> names;
    for (const Kernel& k : plan_.kernels) {
      if (k.name.empty() || !names.insert(k.name).second)
        return Invalid(fmt::format("two kernels are called \"{}\"", Printable(k.name)));
      if (Status status = OneKernel(k); !status.ok())
        return std::move(status).At("kernel " + PrintString(k.name));
    }
    for (size_t i = 0; i < plan_.specializations.size(); ++i) {
      s_ = &plan_.specializations[i];
      if (Status status = Specialized(); !status.ok())
        return std::move(status).Because(fmt::format("specialization {}", i));
    }
    return {};
  }

 private:
  const Buffer& operator[](BufferId id) const { return s_->buffers[id.index]; }
  bool InRange(BufferId id) const { return id.valid() && id.index < std::ssize(s_->buffers); }

  Status OneKernel(const Kernel& k) {
    if (k.rank_scratch_bytes < 0 || k.team_scratch_bytes < 0 || k.rank_scratch_bytes > kMaxBytes ||
        k.team_scratch_bytes > kMaxBytes)
      return Invalid(fmt::format("it asks for {} and {} bytes of scratch", k.rank_scratch_bytes,
                                 k.team_scratch_bytes));
    WEFT_TRY(Cuda(k));
    if (k.key.empty() || k.key.size() > 128 ||
        k.key.find_first_not_of("0123456789abcdef") != k.key.npos)
      return Invalid(
          fmt::format("its key is \"{}\", expected hexadecimal digits", Printable(k.key)));
    WEFT_TRY(Signature signature, ReadSignature(k.loops, "loops of " + Printable(k.name)));
    if (signature.name != k.name)
      return Invalid(fmt::format("its nest is called {}", PrintString(signature.name)));
    signatures_.push_back(std::move(signature));
    return {};
  }

  // The symbol becomes part of a text that is compiled, so it is a name and nothing else.
  Status Cuda(const Kernel& k) {
    const bool is_cuda = plan_.target.kind == TargetKind::kCuda;
    if (is_cuda != k.launch.has_value())
      return Invalid(fmt::format("found {} launch, the plan is for {}", is_cuda ? "no" : "a",
                                 weft::Print(plan_.target)));
    if (!is_cuda) return {};
    if (k.rank_scratch_bytes != 0 || k.team_scratch_bytes != 0)
      return Invalid("found scratch of ranks, expected none on CUDA");
    if (!IsSymbol(k.name))
      return Invalid("its name can be no symbol: expected letters, digits and underscores");
    if (Status status = CheckLaunch(*k.launch); !status.ok()) return Invalid(status.what());
    return {};
  }

  Status Specialized() {
    roots_.clear();
    if (std::set<std::string>(s_->extents.begin(), s_->extents.end()).size() != s_->extents.size())
      return Invalid("two extents share a name");
    if (s_->arena_bytes < 0 || s_->arena_bytes > kMaxBytes)
      return Invalid(fmt::format("an arena of {} bytes", s_->arena_bytes));
    std::set<std::string> names;
    for (size_t i = 0; i < s_->buffers.size(); ++i) {
      if (s_->buffers[i].name.empty() || !names.insert(s_->buffers[i].name).second)
        return Invalid(fmt::format("two buffers are called {}", PrintString(s_->buffers[i].name)));
      WEFT_TRY(OneBuffer(i));
      const Buffer& b = s_->buffers[i];
      roots_.push_back(b.kind == BufferKind::kAlias ? roots_[b.alias.index] : BufferId(i));
    }
    WEFT_TRY(Flow());
    WEFT_TRY(Interface());
    return Overlaps();
  }

  Status OneBuffer(size_t i) {
    const Buffer& b = s_->buffers[i];
    const auto bad = [&](std::string what) {
      return Invalid(std::move(what)).At("buffer " + PrintString(b.name));
    };
    if (b.shape.size() > Layout::kMaxRank)
      return bad(
          fmt::format("a rank of {}, at most {} are known", b.shape.size(), Layout::kMaxRank));
    if (b.layout.rank() != b.shape.size())
      return bad(fmt::format("layout {} for {} axes", weft::Print(b.layout), b.shape.size()));
    for (int64_t e : b.shape)
      if (e < -std::ssize(s_->extents)) return bad("an extent that is not in the table");
    WEFT_TRY(int64_t bytes, BufferBytes(b));
    if (bytes != b.bytes)
      return bad(fmt::format("found {} bytes, its layout and shape need {}", b.bytes, bytes));
    if (b.first_step < 0 || b.last_step < b.first_step)
      return bad("a lifetime that ends before it begins");
    if (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded)
      if (b.offset < 0 || b.offset % kAlign || b.offset > s_->arena_bytes ||
          bytes > s_->arena_bytes - b.offset)
        return bad(fmt::format("at {} with {} bytes, outside the arena of {} or not aligned",
                               b.offset, bytes, s_->arena_bytes));
    if (b.kind == BufferKind::kAlias) {
      if (!InRange(b.alias) || b.alias.index >= static_cast<int32_t>(i))
        return bad("an alias of no earlier buffer");
      if ((*this)[b.alias].bytes < bytes)
        return bad(fmt::format("{} bytes, an alias of {} with {}", bytes,
                               PrintString((*this)[b.alias].name), (*this)[b.alias].bytes));
    }
    if (b.kind == BufferKind::kWeight && (bytes > 0 || b.dtype == Dtype::kString))
      WEFT_TRY(Weight(b));
    if (b.dtype == Dtype::kString && !b.layout.IsPlain()) return bad("strings that are not plain");
    if (b.dtype == Dtype::kString &&
        (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded ||
         b.kind == BufferKind::kAlias))
      return bad("strings, which have no place in an arena");
    if (b.kind == BufferKind::kDynamic && !b.shape.empty()) return bad("a shape, but is dynamic");
    if ((b.kind == BufferKind::kInput || b.kind == BufferKind::kOutput) && !b.layout.IsPlain())
      return bad("an input or output that is not plain");
    return {};
  }

  Status Weight(const Buffer& b) {
    auto blob = b.dtype == Dtype::kString ? plan_.blobs.Get(b.blob, b.dtype, b.shape)
                                          : plan_.blobs.Get(b.blob, Dtype::kU8, {b.bytes});
    return blob.ok() ? Status() : std::move(blob.status()).At("buffer " + PrintString(b.name));
  }

  // Who holds the memory of a buffer; found once, since a chain of aliases may be long.
  BufferId Root(BufferId id) const { return roots_[id.index]; }

  // Every buffer is written before it is read, and nothing that is not the plan's own is written.
  Status Flow() {
    std::vector<bool> written(s_->buffers.size(), false);
    for (size_t i = 0; i < s_->buffers.size(); ++i) {
      const BufferKind kind = s_->buffers[i].kind;
      written[i] = kind == BufferKind::kInput || kind == BufferKind::kWeight;
    }
    for (BufferId id : s_->inputs)  // Interface() says which these may be
      if (InRange(id) && (*this)[id].kind == BufferKind::kDynamic) written[id.index] = true;
    for (size_t i = 0; i < s_->steps.size(); ++i) {
      const Step& step = s_->steps[i];
      if (Status status = OneStep(step, static_cast<int32_t>(i), written); !status.ok())
        return std::move(status).At(fmt::format("step {} {}", i, PrintString(step.name)));
    }
    for (BufferId id : s_->outputs)
      if (!InRange(id) || !written[id.index]) return Invalid("an output that no step writes");
    return {};
  }

  // Each input buffer gets an address exactly once, each output buffer at least once, and what the
  // caller is given from the arena still stands there at the end.
  Status Interface() {
    std::vector<int> times(s_->buffers.size(), 0);
    for (BufferId id : s_->inputs) {
      if (!InRange(id) ||
          ((*this)[id].kind != BufferKind::kInput && (*this)[id].kind != BufferKind::kDynamic))
        return Invalid("an input that is no input buffer");
      if (++times[id.index] > 1)
        return Invalid(fmt::format("{} is an input twice", PrintString((*this)[id].name)));
    }
    for (BufferId id : s_->outputs) {
      times[id.index] = 1;
      const Buffer& root = (*this)[Root(id)];
      const bool planned = root.kind == BufferKind::kArena || root.kind == BufferKind::kBounded;
      if (planned && root.last_step + 1 < std::ssize(s_->steps))
        return Invalid(
            fmt::format("output {} does not live until the end", PrintString((*this)[id].name)));
    }
    for (size_t i = 0; i < times.size(); ++i) {
      const Buffer& b = s_->buffers[i];
      if (times[i] == 0 && (b.kind == BufferKind::kInput || b.kind == BufferKind::kOutput))
        return Invalid("an input or output buffer that the caller never gives")
            .At("buffer " + PrintString(b.name));
    }
    return {};
  }

  Status OneStep(const Step& step, int32_t at, std::vector<bool>& written) {
    const bool is_call = step.kind == StepKind::kVendor || step.kind == StepKind::kNative;
    const bool may_lack = is_call || step.kind == StepKind::kPlan;
    if (step.kind == StepKind::kOwn &&
        (!step.kernel.valid() || step.kernel.index >= std::ssize(plan_.kernels)))
      return Invalid("a kernel that is not in the plan");
    if (step.flops < 0 || step.bytes < 0)
      return Invalid(fmt::format("found {} flops and {} bytes, expected none below 0", step.flops,
                                 step.bytes));
    if (step.kind == StepKind::kPlan) WEFT_TRY(nested_.Verify(*s_, step));
    WEFT_TRY(HeldOperands(step));
    if (is_call) {
      WEFT_TRY(fallback::Verify(step.call));
      if (fallback::IsOnDevice(step.call.library) && plan_.target.kind != TargetKind::kCuda)
        return Invalid(fmt::format("a call of {}, which runs on a device, in a plan for {}",
                                   fallback::LibraryName(step.call.library),
                                   weft::Print(plan_.target)));
      WEFT_TRY(CallOperands(step.call.inputs, step.inputs));
      WEFT_TRY(CallOperands(step.call.outputs, step.outputs));
    }
    for (BufferId id : step.inputs) {
      if (!id.valid() && may_lack) continue;
      if (!InRange(id)) return Invalid("an operand that is no buffer");
      if (!written[Root(id).index])
        return Invalid(
            fmt::format("{} is read before it is written", PrintString((*this)[id].name)));
      WEFT_TRY(Alive(Root(id), at));
    }
    for (BufferId id : step.outputs) {
      if (!id.valid() && may_lack) continue;
      if (!InRange(id)) return Invalid("an operand that is no buffer");
      const BufferKind kind = (*this)[Root(id)].kind;
      const bool view = step.kind == StepKind::kView;
      if (!view && (kind == BufferKind::kInput || kind == BufferKind::kWeight))
        return Invalid(fmt::format("{} is written, but is an input or a weight",
                                   PrintString((*this)[id].name)));
      written[id.index] = true;
      if (!view) written[Root(id).index] = true;
      WEFT_TRY(Alive(Root(id), at));
    }
    if (step.kind == StepKind::kView && (step.inputs.size() != 1 || step.outputs.size() != 1 ||
                                         Root(step.outputs[0]) != Root(step.inputs[0])))
      return Invalid("a view of other memory than its source");
    return step.kind == StepKind::kOwn ? KernelOperands(step) : Status();
  }

  // Who may touch what has no place before it is made.
  Status HeldOperands(const Step& step) {
    const auto check = [&](const std::vector<BufferId>& ids, bool allowed,
                           std::string_view verb) -> Status {
      for (BufferId id : ids)
        if (InRange(id) && IsHeld((*this)[id]) && !allowed)
          return Invalid(
              fmt::format("{} is {} by a step of kind {}, but is {}", PrintString((*this)[id].name),
                          verb, StepKindName(step.kind),
                          (*this)[id].kind == BufferKind::kDynamic ? "dynamic" : "text"));
      return {};
    };
    const bool allowed = step.kind == StepKind::kPlan || step.kind == StepKind::kNative;
    WEFT_TRY(check(step.inputs, allowed, "read"));
    return check(step.outputs, allowed, "written");
  }

  // Machine code reads and writes as many bytes as its nest says, and assumes that what it writes
  // is nothing else that it was given.
  Status KernelOperands(const Step& step) {
    const Signature& signature = signatures_[step.kernel.index];
    if (signature.params != step.params.size())
      return Invalid(
          fmt::format("found {} params, its kernel has {}", step.params.size(), signature.params));
    const size_t inputs = step.inputs.size(), count = inputs + step.outputs.size();
    if (signature.operands.size() != count)
      return Invalid(
          fmt::format("found {} operands, its kernel has {}", count, signature.operands.size()));
    std::set<int32_t> seen_inputs, seen_outputs;
    for (size_t i = 0; i < count; ++i) {
      const BufferId id = i < inputs ? step.inputs[i] : step.outputs[i - inputs];
      const Operand& operand = signature.operands[i];
      const Buffer& b = (*this)[id];
      if (operand.is_written != (i >= inputs))
        return Invalid(fmt::format("{} is {}, the kernel {} it", PrintString(b.name),
                                   i < inputs ? "read" : "written",
                                   operand.is_written ? "writes" : "reads"));
      Buffer expected{.name = operand.name,
                      .dtype = operand.dtype,
                      .shape = operand.shape,
                      .layout = operand.layout};
      WEFT_TRY(int64_t bytes, BufferBytes(expected));
      const bool is_known = std::ranges::find(operand.shape, -1) == operand.shape.end();
      if (!is_known && signature.params == 0)
        return Invalid(fmt::format("{} has extents that are no numbers", PrintString(b.name)));
      if (b.dtype != operand.dtype || (is_known && b.bytes != bytes))
        return Invalid(fmt::format("{} is {}{} in {} bytes, the kernel expects {}{} in {}",
                                   PrintString(b.name), DtypeName(b.dtype), weft::Print(b.shape),
                                   b.bytes, DtypeName(operand.dtype), weft::Print(operand.shape),
                                   bytes));
      const int32_t root = Root(id).index;
      if (i < inputs)
        seen_inputs.insert(root);
      else if (b.bytes > 0 && (seen_inputs.contains(root) || !seen_outputs.insert(root).second))
        return Invalid(fmt::format("{} shares memory with another operand", PrintString(b.name)));
    }
    return {};
  }

  Status Alive(BufferId id, int32_t step) {
    const Buffer& b = (*this)[id];
    if (step < b.first_step || step > b.last_step)
      return Invalid(fmt::format("{} is used outside its lifetime {}:{}", PrintString(b.name),
                                 b.first_step, b.last_step));
    return {};
  }

  Status CallOperands(const std::vector<fallback::CallOperand>& operands,
                      const std::vector<BufferId>& ids) {
    if (operands.size() != ids.size())
      return Invalid(
          fmt::format("found {} operands, the call has {}", ids.size(), operands.size()));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i].valid() == operands[i].value.empty())
        return Invalid("an operand that the call does not have");
      if (!ids[i].valid()) continue;
      if (!InRange(ids[i])) return Invalid("an operand that is no buffer");
      const Buffer& b = (*this)[ids[i]];
      const bool same = b.kind == BufferKind::kDynamic || b.shape == operands[i].shape;
      if (b.dtype != operands[i].dtype || !same)
        return Invalid(fmt::format("operand {} is {}{}, the call expects {}{}", PrintString(b.name),
                                   DtypeName(b.dtype), weft::Print(b.shape),
                                   DtypeName(operands[i].dtype), weft::Print(operands[i].shape)));
      if (b.kind == BufferKind::kDynamic) continue;
      if (!operands[i].any_layout && b.layout != operands[i].layout)
        return Invalid(fmt::format("operand {} has layout {}, the call expects {}",
                                   PrintString(b.name), weft::Print(b.layout),
                                   weft::Print(operands[i].layout)));
    }
    return {};
  }

  // Sweep over steps: what begins is compared with what is live. Aliases share on purpose, and
  // their roots' lifetimes cover them.
  Status Overlaps() {
    std::vector<const Buffer*> planned;
    for (const Buffer& b : s_->buffers)
      if ((b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded) && b.bytes > 0)
        planned.push_back(&b);
    std::sort(planned.begin(), planned.end(),
              [](const Buffer* a, const Buffer* b) { return a->first_step < b->first_step; });
    std::map<int64_t, const Buffer*> live;  // by offset; disjoint
    const auto ends_later = [](const Buffer* a, const Buffer* b) {
      return a->last_step > b->last_step;
    };
    std::priority_queue<const Buffer*, std::vector<const Buffer*>, decltype(ends_later)> ending(
        ends_later);
    for (const Buffer* b : planned) {
      for (; !ending.empty() && ending.top()->last_step < b->first_step; ending.pop())
        live.erase(ending.top()->offset);
      auto next = live.lower_bound(b->offset);
      const Buffer* clash = nullptr;
      if (next != live.end() && next->first < b->offset + b->bytes) clash = next->second;
      if (next != live.begin() &&
          std::prev(next)->first + std::prev(next)->second->bytes > b->offset)
        clash = std::prev(next)->second;
      if (clash)
        return Invalid(fmt::format("{} and {} are live at once and overlap",
                                   PrintString(clash->name), PrintString(b->name)));
      live[b->offset] = b;
      ending.push(b);
    }
    return {};
  }

  const Plan& plan_;
  NestedVerifier nested_;
  const Specialization* s_ = nullptr;
  std::vector<Signature> signatures_;  // by kernel
  std::vector<BufferId> roots_;        // by buffer
};

}  // namespace

Result<int64_t> BufferBytes(const Buffer& buffer) {
  if (buffer.kind == BufferKind::kDynamic) return 0;
  Shape shape = buffer.shape;
  for (int64_t& e : shape) e = std::max<int64_t>(e, 0);
  // Blocks and row padding multiply the count by little; the bound leaves room for them.
  WEFT_TRY(int64_t elems, CountElems(shape));
  if (elems > kMaxBytes / 16)
    return Limit(fmt::format("{} elements", elems)).At("buffer " + PrintString(buffer.name));
  for (const Layout::Axis& a : buffer.layout.axes)
    if (a.block > 4096)
      return Invalid("a block of more than 4096").At("buffer " + PrintString(buffer.name));
  if (buffer.layout.rank() != shape.size())
    return Invalid(fmt::format("layout {} for {} axes", weft::Print(buffer.layout), shape.size()))
        .At("buffer " + PrintString(buffer.name));
  const int64_t alloc =
      AllocElems(buffer.layout, shape);  // padding may be huge, or leave int64: then INT64_MAX
  if (alloc > kMaxBytes / 16)
    return Limit(fmt::format("{} elements with its padding", alloc))
        .At("buffer " + PrintString(buffer.name));
  return StorageBytes(buffer.dtype, alloc);
}

bool IsSymbol(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= 512 && is_letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::vector<const CudaLaunch*> CudaLaunch::All() const {
  std::vector<const CudaLaunch*> all = {this};
  for (const CudaLaunch& next : then) all.push_back(&next);
  return all;
}

std::string LaunchSymbol(std::string_view kernel, size_t launch) {
  return launch == 0 ? std::string(kernel) : fmt::format("{}_{}", kernel, launch);
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Status CheckLaunch(const CudaLaunch& launch) {
  constexpr std::array<int64_t, 3> kMostBlocks = {INT32_MAX, 65535, 65535},
                                   kMostThreads = {1024, 1024, 64};
  constexpr int64_t kMostThreadsOfABlock = 1024, kMostSharedBytes = 48 << 10;
  const auto check = [](std::string_view what, int64_t found, int64_t least, int64_t most) {
    return found >= least && found <= most
               ? Status()
               : Limit(fmt::format("found {} of {}, expected {} to {}", what, found, least, most));
  };
  double blocks = 1;  // all three at their most leave int64
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    WEFT_TRY(check(fmt::format("a grid along {}", "xyz"[i]), launch.grid[i], 1, kMostBlocks[i]));
    WEFT_TRY(check(fmt::format("a block along {}", "xyz"[i]), launch.block[i], 1, kMostThreads[i]));
    blocks *= static_cast<double>(launch.grid[i]);
    threads *= launch.block[i];
  }
  WEFT_TRY(check("threads of a block", threads, 1, kMostThreadsOfABlock));
  WEFT_TRY(check("shared bytes", launch.shared_bytes, 0, kMostSharedBytes));
  const auto most = static_cast<int64_t>(static_cast<double>(kMaxBytes) / blocks);
  WEFT_TRY(check("scratch bytes of a block", launch.scratch_bytes, 0, most));
  WEFT_TRY(check("scratch bytes of a grid", launch.grid_bytes, 0, kMaxBytes));
  for (const CudaLaunch& next : launch.then) {
    WEFT_TRY(
        check("launches within one that follows", static_cast<int64_t>(next.then.size()), 0, 0));
    WEFT_TRY(check("scratch bytes of a grid", next.grid_bytes, 0, 0));
    WEFT_TRY(CheckLaunch(next));
  }
  return {};
}

Status Verify(const Plan& plan) { return Verifier(plan).Run(); }

bool Equal(const Plan& a, const Plan& b) { return Print(a) == Print(b); }

}  // namespace weft::plan
