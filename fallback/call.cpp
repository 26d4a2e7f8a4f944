#include "fallback/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "base/check.h"

namespace weft::fallback {
namespace {

constexpr std::array<std::string_view, 4> kLibraries = {"native", "onednn", "cudnn", "cublas"};

template <typename T>
T AttrOr(const LibraryCall& call, std::string_view name, T otherwise) {
  const CallAttribute* attribute = FindAttribute(call, name);
  const T* value = attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
  return value == nullptr ? std::move(otherwise) : *value;
}

// The same text, that is: NaNs are alike, zeros of different signs are not.
bool SameFloat(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool SameValue(const CallAttributeValue& a, const CallAttributeValue& b) {
  if (a.index() != b.index()) return false;
  if (const float* f = std::get_if<float>(&a)) return SameFloat(*f, std::get<float>(b));
  if (const auto* list = std::get_if<std::vector<float>>(&a)) {
    return std::ranges::equal(*list, std::get<std::vector<float>>(b), SameFloat);
  }
  return a == b;
}

Status Wrong(const LibraryCall& call, std::string what) {
  return Invalid(std::move(what)).At(fmt::format("call {}.{}", LibraryName(call.library), call.op));
}

Status VerifyOperand(const LibraryCall& call, const CallOperand& operand, bool is_input) {
  const auto wrong = [&](std::string_view what) {
    return Wrong(call, fmt::format("operand {}: {}", operand.role, what));
  };
  if (operand.role.empty()) return Wrong(call, "an operand has no role");
  if (operand.value.empty()) {  // absent
    const CallOperand absent{.role = operand.role};
    return operand == absent ? Status() : wrong("it has a type but no value");
  }
  const bool native = call.library == Library::kNative;
  if (operand.constant && !is_input) return wrong("an output can't be constant");
  if (IsCode(operand.dtype)) return wrong("codes are only moved and converted, as bytes");
  if (operand.dtype == Dtype::kString && !native) return wrong("a library takes no strings");
  const bool unknown = std::ranges::any_of(operand.shape, [](int64_t e) { return e < 0; });
  if (std::ranges::any_of(operand.shape, [](int64_t e) { return e < -1; }) ||
      (unknown && !native)) {
    return wrong(fmt::format("shape {} has a negative extent", weft::Print(operand.shape)));
  }
  if (operand.shape.size() > Layout::kMaxRank) {
    return wrong(fmt::format("rank {} is more than {}", operand.shape.size(), Layout::kMaxRank));
  }
  for (const Layout::Axis& a : operand.layout.axes) {
    if (a.axis < 0 || a.axis >= Layout::kMaxRank)
      return wrong(fmt::format("layout axis {}", a.axis));
  }
  if (operand.layout.rank() != operand.shape.size()) {
    return wrong(fmt::format("layout {} for rank {}", Print(operand.layout), operand.shape.size()));
  }
  WEFT_TRY(const Layout read, ParseLayout(Print(operand.layout)));
  if (read != operand.layout)
    return wrong(fmt::format("layout {} is malformed", Print(operand.layout)));
  const bool plain = operand.layout.IsPlain();
  if (operand.any_layout && !plain) return wrong("`any` and a layout at once");
  if (native && (!plain || operand.any_layout)) return wrong("native kernels take plain layouts");
  if (!unknown) WEFT_TRY(CountElems(operand.shape));
  return {};
}

Status VerifyPostOps(const LibraryCall& call) {
  if (call.library == Library::kNative && !call.post_ops.empty()) {
    return Wrong(call, "native kernels fuse nothing");
  }
  for (size_t k = 0; k < call.post_ops.size(); ++k) {
    const std::string role = fmt::format("post{}", k), &kind = call.post_ops[k].kind;
    if (kind.empty()) return Wrong(call, fmt::format("{} has no kind", role));
    const bool reads = kind.starts_with("binary_") || kind == "prelu";
    if (reads != (FindOperand(call, role) != nullptr)) {
      return Wrong(call,
                   fmt::format("{} is {}, {} an operand {}", role, kind,
                               reads ? "expected" : "which reads no operand but found", role));
    }
  }
  return {};
}

}  // namespace

std::string_view LibraryName(Library library) { return kLibraries[static_cast<size_t>(library)]; }

std::optional<Library> ParseLibrary(std::string_view name) {
  const auto at = std::ranges::find(kLibraries, name);
  if (at == kLibraries.end()) return std::nullopt;
  return static_cast<Library>(at - kLibraries.begin());
}

std::span<const Library> LibrariesFor(TargetKind kind) {
  static constexpr Library kCpu[] = {Library::kOnednn};
  static constexpr Library kCuda[] = {Library::kCudnn, Library::kCublas};
  return kind == TargetKind::kCuda ? std::span<const Library>(kCuda) : kCpu;
}

const CallAttribute* FindAttribute(const LibraryCall& call, std::string_view name) {
  const auto at = std::ranges::lower_bound(call.attributes, name, {}, &CallAttribute::name);
  return at != call.attributes.end() && at->name == name ? &*at : nullptr;
}

int64_t IntAttr(const LibraryCall& call, std::string_view name, int64_t otherwise) {
  return AttrOr<int64_t>(call, name, otherwise);
}
float FloatAttr(const LibraryCall& call, std::string_view name, float otherwise) {
  return AttrOr<float>(call, name, otherwise);
}
std::string StringAttr(const LibraryCall& call, std::string_view name, std::string_view otherwise) {
  return AttrOr<std::string>(call, name, std::string(otherwise));
}
std::vector<int64_t> IntsAttr(const LibraryCall& call, std::string_view name) {
  return AttrOr<std::vector<int64_t>>(call, name, {});
}

const CallOperand* FindOperand(const LibraryCall& call, std::string_view role) {
  for (const auto* list : {&call.inputs, &call.outputs}) {
    const auto at = std::ranges::find(*list, role, &CallOperand::role);
    if (at != list->end()) return &*at;
  }
  return nullptr;
}

Status Verify(const LibraryCall& call) {
  if (call.op.empty()) return Wrong(call, "the operation has no name");
  if (call.outputs.empty()) return Wrong(call, "no outputs");
  std::set<std::string_view> roles, results;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const CallOperand& operand : *list) {
      WEFT_TRY(VerifyOperand(call, operand, list == &call.inputs));
      if (!roles.insert(operand.role).second) {
        return Wrong(call, fmt::format("two operands have the role {}", operand.role));
      }
    }
  }
  for (const CallOperand& operand : call.outputs) {
    if (!operand.value.empty() && !results.insert(operand.value).second) {
      return Wrong(call, fmt::format("value {} is an output twice", operand.value));
    }
  }
  for (size_t i = 0; i < call.attributes.size(); ++i) {
    if (call.attributes[i].name.empty()) return Wrong(call, "an attribute has no name");
    if (i > 0 && call.attributes[i - 1].name >= call.attributes[i].name) {
      return Wrong(call, fmt::format("attribute {} is given twice or out of order",
                                     call.attributes[i].name));
    }
  }
  return VerifyPostOps(call);
}

bool Equal(const LibraryCall& a, const LibraryCall& b) {
  const auto same_attribute = [](const CallAttribute& x, const CallAttribute& y) {
    return x.name == y.name && SameValue(x.value, y.value);
  };
  const auto same_post = [](const PostOp& x, const PostOp& y) {
    return x.kind == y.kind && SameFloat(x.alpha, y.alpha) && SameFloat(x.beta, y.beta);
  };
  return a.library == b.library && a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs &&
         std::ranges::equal(a.attributes, b.attributes, same_attribute) &&
         std::ranges::equal(a.post_ops, b.post_ops, same_post) && a.origins == b.origins;
}

}  // namespace weft::fallback
