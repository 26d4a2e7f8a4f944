// Which primitive a call gets. The library compiles kernels for activations that all lie alike; for
// others it has loops that are a thousand times slower. Where a call asks for those, the primitive
// takes its activations in one layout, and reorders around it do the rest.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/threads/parallel.h"
#include "fallback/onednn/build.h"

namespace weft::fallback::onednn {
namespace {

bool Chooses(const LibraryCall& call) {
  return call.op == "convolution" || call.op == "deconvolution";
}

bool OfResult(const LibraryCall& call, const CallOperand& operand) {
  return operand.role.starts_with("post") && operand.shape == call.outputs[0].shape;
}

// Only convolutions choose, and addends of their result's shape follow it. Everywhere else a free
// operand is plain, and a free result lies as the operand of its shape does.
LibraryCall Settled(LibraryCall call) {
  const bool chooses = Chooses(call);
  for (CallOperand& operand : call.inputs) {
    const bool packs = operand.constant && operand.role == "weights";
    const bool follows = OfResult(call, operand);
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

// With every free activation in a layout that weft can write down: plain if the library's own can't
// be.
Result<Built> BuildKnown(LibraryCall call) {
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

// 0: made for this machine; 1: a detour, such as a product of matrices; 2: loops for any layout.
int Slowness(const std::string& implementation) {
  if (implementation.find("ref:") != std::string::npos) return 2;
  const bool detour = implementation.starts_with("gemm:") ||
                      implementation.starts_with("x64:gemm:") ||
                      implementation.find("simple") != std::string::npos;
  return detour ? 1 : 0;
}

// The operands that have to lie alike.
bool IsActivation(const LibraryCall& call, const CallOperand& operand) {
  return operand.role == "src" || OfResult(call, operand) ||
         (operand.role == "src1" && operand.shape == call.outputs[0].shape) ||
         (operand.role == "weights" && call.op == "matmul" && !operand.constant);
}

// `layout` for all activations, or the library's choice; or for the result's side alone.
LibraryCall Relaid(LibraryCall call, const std::optional<Layout>& layout, bool result_only) {
  const auto relay = [&](CallOperand& operand) {
    operand.any_layout = !layout;
    if (layout)
      operand.layout =
          layout->rank() == operand.shape.size() ? *layout : Layout::Plain(operand.shape.size());
  };
  for (CallOperand& operand : call.inputs) {
    if (operand.role == "weights" && Chooses(call)) operand.any_layout = operand.constant = true;
    const bool changes = result_only ? OfResult(call, operand) : IsActivation(call, operand);
    if (changes) relay(operand);
  }
  relay(call.outputs[0]);
  return call;
}

std::vector<LibraryCall> Alternatives(const LibraryCall& call) {
  std::vector<LibraryCall> calls;
  if (call.op == "reorder" || call.op == "layer_normalization") return calls;
  const size_t rank = call.outputs[0].shape.size();
  if (call.op == "matmul") {
    calls.push_back(Relaid(call, Layout::Plain(rank), true));
    calls.push_back(Relaid(call, Layout::Plain(rank), false));
    return calls;
  }
  std::vector<Layout> layouts = {call.outputs[0].layout, FindOperand(call, "src")->layout,
                                 Layout::Plain(rank)};
  for (Layout& layout : layouts) layout.row_pad_elems = 0;
  const auto last = [&](size_t axis) {  // channels, or what a softmax sums over
    Layout layout = Layout::Plain(rank);
    std::rotate(layout.axes.begin() + static_cast<int64_t>(axis),
                layout.axes.begin() + static_cast<int64_t>(axis) + 1, layout.axes.end());
    layouts.push_back(layout);
  };
  if (rank > 1) last(1);
  if (call.op == "softmax") last(static_cast<size_t>(IntAttr(call, "axis", 0)));
  for (int64_t block : {8, 16}) {
    if (rank < 3) break;
    layouts.push_back(Layout::Plain(rank));
    layouts.back().axes.push_back({.axis = 1, .block = block});
  }
  for (const Layout& layout : layouts) calls.push_back(Relaid(call, layout, false));
  if (Chooses(call)) calls.push_back(Relaid(call, std::nullopt, false));
  return calls;
}

// `slot` is of the primitive of `inside`; the caller has the operand as `outside` says.
Status Stage(const CallOperand& outside, const CallOperand& inside, Slot& slot) {
  if (outside.role == "weights" && inside.any_layout) {
    slot.layout = outside.layout;  // packed from what the primitive was told
    return {};
  }
  WEFT_TRY(const View told, ViewOf(inside));
  slot.packed = inside.any_layout ? slot.wanted : told.Desc();
  slot.layout = outside.layout;
  std::optional<Layout> chosen;
  if (outside.any_layout && !outside.constant)
    chosen = inside.any_layout ? LayoutOf(slot.packed) : inside.layout;
  WEFT_TRY(const View given, ViewOf(outside));
  slot.given = chosen ? slot.packed : given.Desc();
  if (chosen) slot.layout = *chosen;
  if (SamePlaces(slot.given, slot.packed)) slot.given = slot.packed;
  return {};
}

Result<Built> BuildStaged(const LibraryCall& call, const LibraryCall& inside) {
  WEFT_TRY(Built built, Build(inside));
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    WEFT_TRY(Stage(call.inputs[i], inside.inputs[i], built.inputs[i]));
  }
  WEFT_TRY(Stage(call.outputs[0], inside.outputs[0], built.outputs[0]));
  return built;
}

// Elements that are reordered in each run.
int64_t Staged(const LibraryCall& call, const Built& built) {
  int64_t elems = 0;
  const auto add = [&](const CallOperand& operand, const Slot& slot) {
    if (!operand.constant && slot.given != slot.packed) elems += *CountElems(operand.shape);
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) add(call.inputs[i], built.inputs[i]);
  add(call.outputs[0], built.outputs[0]);
  return elems;
}

Result<Built> Attempt(const LibraryCall& call, const LibraryCall& inside) {
  try {
    return BuildStaged(call, inside);
  } catch (const dnnl::error& error) {
    return Unsupported(error.what());
  }
}

Result<Built> ChooseAnew(const LibraryCall& given) {
  const LibraryCall call = Settled(given);
  std::optional<Built> best;
  std::exception_ptr refusal;
  try {
    WEFT_TRY(best, BuildKnown(call));
    if (Slowness(best->implementation) < 2) return *std::move(best);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    refusal = std::current_exception();
  }
  std::pair<int, int64_t> least{2, 0};
  for (const LibraryCall& inside : Alternatives(call)) {
    auto built = Attempt(call, inside);
    if (!built.ok()) continue;
    const std::pair cost{Slowness(built->implementation), Staged(call, *built)};
    if (best && cost >= least) continue;
    least = cost;
    best = *std::move(built);
  }
  if (!best) std::rethrow_exception(refusal);
  return *std::move(best);
}

// What was chosen for a call and for the threads that it is to run on: the layers of a network
// repeat, and so do those of its plans for other shapes. A primitive holds no state of its runs.
class Chosen {
 public:
  std::optional<Built> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = of_.find(key);
    return found == of_.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(const std::string& key, const Built& built) {
    constexpr size_t kMost = 1024;  // as many as the library itself keeps
    const std::lock_guard lock(mutex_);
    if (of_.size() >= kMost) of_.clear();
    of_.emplace(key, built);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Built> of_;
};

}  // namespace

Result<Built> Choose(const LibraryCall& call) {
  static Chosen& chosen = *new Chosen;  // never destroyed: the library may end before this module
  const std::string key = fmt::format("{} {}", ThreadsOfArena(), CanonicalText(call));
  if (auto known = chosen.Find(key)) return *std::move(known);
  WEFT_TRY(Built built, ChooseAnew(call));
  built.primitive = dnnl::primitive(built.desc.get());
  chosen.Keep(key, built);
  return built;
}

}  // namespace weft::fallback::onednn
