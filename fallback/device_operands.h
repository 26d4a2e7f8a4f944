// What the libraries of a device ask of every operand.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/verdict.h"
#include "fallback/call.h"

namespace weft::fallback {

// One result, "dst"; all `needed` inputs, none but these, `optional` ones and those of post-ops;
// all of them f32, plain, not empty, and of fewer elements than 32 bits count.
std::optional<Refusal> CheckDeviceOperands(const LibraryCall& call,
                                           std::span<const std::string_view> needed,
                                           std::span<const std::string_view> optional = {});

Refusal UnknownShapes(const LibraryCall& call);  // with all of them

}  // namespace weft::fallback
