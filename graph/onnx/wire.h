// A walk over protobuf's wire format before protobuf itself: every length, tag and depth is
// checked, strings are UTF-8, and an error knows its byte. Protobuf alone says "parse failed", and
// takes fields of the wrong type for unknown ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace google::protobuf {
class Descriptor;
}

namespace weft::graph {

struct WireLimits {
  int32_t max_depth = 120;            // of messages within messages
  int64_t max_messages = 16'000'000;  // an empty message costs 2 bytes here and some 200 in memory
};

Status CheckWire(std::span<const std::byte> bytes, const google::protobuf::Descriptor& message,
                 const WireLimits& limits);

}  // namespace weft::graph
