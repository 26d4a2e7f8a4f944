#include "graph/onnx/wire.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <vector>

namespace weft::graph {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

uint32_t WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return kBytes;
    default:
      return kVarint;
  }
}

std::string_view WireTypeText(uint32_t type) {
  switch (type) {
    case kVarint:
      return "a varint";
    case kFixed64:
      return "64 bits";
    case kBytes:
      return "a length and bytes";
    case kFixed32:
      return "32 bits";
    default:
      return "a group";
  }
}

// The first byte that is not UTF-8 (RFC 3629: shortest form, no surrogates), or -1.
int64_t FirstBadUtf8(std::span<const std::byte> text) {
  auto at = [&](size_t i) { return i < text.size() ? std::to_integer<uint32_t>(text[i]) : 0; };
  for (size_t i = 0; i < text.size();) {
    const uint32_t lead = at(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t code = lead & (0x3Fu >> extra);
    if (lead < 0xC2 || lead > 0xF4) return static_cast<int64_t>(i);
    for (size_t k = 1; k <= extra; ++k) {
      if ((at(i + k) & 0xC0) != 0x80) return static_cast<int64_t>(i);
      code = code << 6 | (at(i + k) & 0x3F);
    }
    const bool overlong = (extra == 2 && code < 0x800) || (extra == 3 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return static_cast<int64_t>(i);
    i += extra + 1;
  }
  return -1;
}

class Walk {
 public:
  Walk(std::span<const std::byte> bytes, const WireLimits& limits)
      : bytes_(bytes), limits_(limits) {}

  Status Run(const Descriptor& message) {
    stack_.push_back({&message, bytes_.size()});
    while (!stack_.empty()) {
      if (at_ == stack_.back().end) {
        stack_.pop_back();
      } else {
        WEFT_TRY(Field());
      }
    }
    return {};
  }

 private:
  struct Frame {
    const Descriptor* message;
    size_t end;
  };

  Status ErrorAt(size_t byte, std::string what) const {
    return Invalid(std::move(what)).At(fmt::format("byte {}", byte));
  }

  Result<uint64_t> Varint() {
    const size_t start = at_, end = stack_.back().end;
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
      if (at_ >= end) return ErrorAt(start, "a varint ends outside its message");
      const auto byte = std::to_integer<uint64_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) return ErrorAt(start, "a varint has more than 64 bits");
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return ErrorAt(start, "a varint is longer than 10 bytes");
  }

  Status Field() {
    const size_t start = at_;
    const Descriptor& message = *stack_.back().message;
    WEFT_TRY(const uint64_t tag, Varint());
    const uint64_t number = tag >> 3;
    const auto type = static_cast<uint32_t>(tag & 7);
    if (number == 0 || number > static_cast<uint64_t>(FieldDescriptor::kMaxNumber)) {
      return ErrorAt(start, fmt::format("found field number {} in {}, expected 1 to {}", number,
                                        message.name(), FieldDescriptor::kMaxNumber));
    }
    if (type != kVarint && type != kFixed64 && type != kBytes && type != kFixed32) {
      return ErrorAt(start, fmt::format("found wire type {} in {}, which the format does not use",
                                        type, message.name()));
    }
    const FieldDescriptor* field = message.FindFieldByNumber(static_cast<int>(number));
    const bool packed = field && field->is_packable() && type == kBytes;
    if (field && !packed && type != WireTypeOf(*field)) {
      return ErrorAt(
          start, fmt::format("found {} in {}.{}, expected {}", WireTypeText(type), message.name(),
                             field->name(), WireTypeText(WireTypeOf(*field))));
    }
    if (type == kVarint) {
      WEFT_TRY(Varint());
      return {};
    }
    if (type != kBytes) return Skip(start, type == kFixed64 ? 8 : 4);
    WEFT_TRY(const uint64_t length, Varint());
    if (length > stack_.back().end - at_) {
      return ErrorAt(start, fmt::format("{} in {} is said to have {} bytes, but {} are left",
                                        field ? field->name() : "a field", message.name(), length,
                                        stack_.back().end - at_));
    }
    return Content(start, field, packed, static_cast<size_t>(length));
  }

  Status Skip(size_t start, size_t count) {
    if (count > stack_.back().end - at_) return ErrorAt(start, "a number ends outside its message");
    at_ += count;
    return {};
  }

  Status Content(size_t start, const FieldDescriptor* field, bool packed, size_t length) {
    if (packed) return Packed(start, *field, length);
    if (field && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      if (stack_.size() > static_cast<size_t>(limits_.max_depth)) {
        return Limit(fmt::format("messages nest deeper than {}", limits_.max_depth))
            .At(fmt::format("byte {}", start));
      }
      if (++messages_ > limits_.max_messages) {
        return Limit(fmt::format("more than {} messages", limits_.max_messages))
            .At(fmt::format("byte {}", start));
      }
      stack_.push_back({field->message_type(), at_ + length});
      return {};
    }
    if (field && field->type() == FieldDescriptor::TYPE_STRING) {
      const int64_t bad = FirstBadUtf8(bytes_.subspan(at_, length));
      if (bad >= 0) {
        return ErrorAt(
            at_ + static_cast<size_t>(bad),
            fmt::format("{}.{} is not UTF-8", field->containing_type()->name(), field->name()));
      }
    }
    at_ += length;
    return {};
  }

  Status Packed(size_t start, const FieldDescriptor& field, size_t length) {
    const uint32_t type = WireTypeOf(field);
    if (type != kVarint) {
      const size_t size = type == kFixed64 ? 8 : 4;
      if (length % size != 0) {
        return ErrorAt(start, fmt::format("{} has {} bytes, expected a multiple of {}",
                                          field.name(), length, size));
      }
      at_ += length;
      return {};
    }
    stack_.push_back({nullptr, at_ + length});  // so that no varint leaves the field
    while (at_ < stack_.back().end) WEFT_TRY(Varint());
    stack_.pop_back();
    return {};
  }

  std::span<const std::byte> bytes_;
  WireLimits limits_;
  std::vector<Frame> stack_;
  size_t at_ = 0;
  int64_t messages_ = 0;
};

}  // namespace

Status CheckWire(std::span<const std::byte> bytes, const Descriptor& message,
                 const WireLimits& limits) {
  return Walk(bytes, limits).Run(message);
}

}  // namespace weft::graph
