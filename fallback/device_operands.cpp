#include "fallback/device_operands.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::fallback {

Refusal UnknownShapes(const LibraryCall& call) {
  std::string text;
  for (const auto* list : {&call.inputs, &call.outputs})
    for (const CallOperand& o : *list)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", o.role, weft::Print(o.shape));
  return {Reason::kShapeUnknownToLibrary, text};
}

std::optional<Refusal> CheckDeviceOperands(const LibraryCall& call,
                                           std::span<const std::string_view> needed,
                                           std::span<const std::string_view> optional) {
  constexpr int64_t kMostElems = int64_t{1} << 31;  // the libraries count in 32 bits here and there
  const auto is_in = [](std::span<const std::string_view> roles, std::string_view role) {
    return std::ranges::find(roles, role) != roles.end();
  };
  if (call.outputs.size() != 1 || call.outputs[0].role != "dst")
    return Refusal{Reason::kPatternUnknownToLibrary, "results other than dst"};
  for (const auto* list : {&call.inputs, &call.outputs})
    for (const CallOperand& o : *list) {
      const bool known = o.role == "dst" || o.role.starts_with("post") || is_in(needed, o.role) ||
                         is_in(optional, o.role);
      if (!known || o.value.empty())
        return Refusal{Reason::kPatternUnknownToLibrary, fmt::format("an operand {}", o.role)};
      if (o.dtype != Dtype::kF32)
        return Refusal{Reason::kDtypeUnknownToLibrary,
                       fmt::format("{} is {}", o.value, DtypeName(o.dtype))};
      if (!o.layout.IsPlain() || o.layout.row_pad_elems != 0 || o.any_layout)
        return Refusal{Reason::kLayoutUnknownToLibrary,
                       fmt::format("{} in {}", o.value, weft::Print(o.layout))};
      const auto elems = CountElems(o.shape);
      if (!elems.ok() || *elems < 1 || *elems >= kMostElems) return UnknownShapes(call);
    }
  for (const std::string_view role : needed)
    if (!FindOperand(call, role))
      return Refusal{Reason::kPatternUnknownToLibrary, fmt::format("no operand {}", role)};
  return std::nullopt;
}

}  // namespace weft::fallback
