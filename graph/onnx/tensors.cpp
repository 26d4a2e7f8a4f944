#include "graph/onnx/tensors.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "base/text.h"
#include "graph/onnx/proto/onnx-ml.pb.h"

namespace weft::graph {
namespace {

using onnx::TensorProto;

struct Stored {
  const char* field;
  int64_t count;
};

// The typed fields that hold something.
std::vector<Stored> TypedFields(const TensorProto& proto) {
  std::vector<Stored> fields;
  auto add = [&](const char* name, int count) {
    if (count > 0) fields.push_back({name, count});
  };
  add("float_data", proto.float_data_size());
  add("int32_data", proto.int32_data_size());
  add("string_data", proto.string_data_size());
  add("int64_data", proto.int64_data_size());
  add("double_data", proto.double_data_size());
  add("uint64_data", proto.uint64_data_size());
  return fields;
}

const char* FieldFor(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "float_data";
    case Dtype::kF64:
      return "double_data";
    case Dtype::kI64:
      return "int64_data";
    case Dtype::kU32:
    case Dtype::kU64:
      return "uint64_data";
    case Dtype::kString:
      return "string_data";
    default:
      return "int32_data";
  }
}

// How many elements of a type share a byte in a file (ONNX IR, "TensorProto", int32_data and
// raw_data).
int64_t SharersInFile(Dtype dtype) {
  return dtype == Dtype::kString ? 1 : std::max<int64_t>(1, 8 / CodeBits(dtype));
}

// Codes that share bytes in a file, each in a byte of its own.
Tensor Unpacked(Tensor tensor, const uint8_t* packed) {
  const int64_t sharers = SharersInFile(tensor.dtype()), bits = 8 / sharers;
  uint8_t* out = tensor.mutable_as<uint8_t>();
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    const int code = packed[i / sharers] >> (i % sharers * bits) & ((1 << bits) - 1);
    out[i] = static_cast<uint8_t>(tensor.dtype() == Dtype::kI2 ? (code ^ 2) - 2 : code);
  }
  return tensor;
}

// What is left of the last byte of elements that share bytes is 0, whatever the file has there.
void ClearRest(Tensor& tensor) {
  if (SharesBytes(tensor.dtype()) && tensor.elems() % 2 != 0)
    SetNibble(tensor.mutable_data(), tensor.elems(), 0);
}

// Elements of `bytes` in the tensor's own memory: aligned, and free of the file's.
Result<Tensor> CopyOf(Dtype dtype, const Shape& shape, const void* data) {
  WEFT_TRY(Tensor tensor, Tensor::Allocate(dtype, shape));
  if (tensor.bytes() == 0) return tensor;
  if (IsCode(dtype) && SharersInFile(dtype) > 1)
    return Unpacked(std::move(tensor), static_cast<const uint8_t*>(data));
  std::memcpy(tensor.mutable_data(), data, static_cast<size_t>(tensor.bytes()));
  ClearRest(tensor);
  if (dtype == Dtype::kBool) {  // any byte but 0 is true
    for (int64_t i = 0; i < tensor.elems(); ++i)
      tensor.mutable_as<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
  }
  return tensor;
}

template <typename T, typename Source>
Status Narrow(const Source& source, Tensor& tensor) {
  T* out = tensor.mutable_as<T>();
  for (int i = 0; i < source.size(); ++i) {
    const auto value = source.Get(i);
    if (!std::in_range<T>(value)) {
      return Invalid(fmt::format("element {} is {}, which {} can't hold", i, value,
                                 DtypeName(tensor.dtype())));
    }
    out[i] = static_cast<T>(value);
  }
  return {};
}

Status FillTyped(const TensorProto& proto, Tensor& tensor) {
  if (IsCode(tensor.dtype()) && SharersInFile(tensor.dtype()) > 1) {
    Tensor packed(Dtype::kU8, {proto.int32_data_size()});
    WEFT_TRY(Narrow<uint8_t>(proto.int32_data(), packed));
    tensor = Unpacked(std::move(tensor), packed.as<uint8_t>());
    return {};
  }
  switch (tensor.dtype()) {
    case Dtype::kF32:
      std::copy_n(proto.float_data().data(), proto.float_data_size(), tensor.mutable_as<float>());
      return {};
    case Dtype::kF64:
      std::copy_n(proto.double_data().data(), proto.double_data_size(),
                  tensor.mutable_as<double>());
      return {};
    case Dtype::kI64:
      std::copy_n(proto.int64_data().data(), proto.int64_data_size(), tensor.mutable_as<int64_t>());
      return {};
    case Dtype::kU64:
      return Narrow<uint64_t>(proto.uint64_data(), tensor);
    case Dtype::kU32:
      return Narrow<uint32_t>(proto.uint64_data(), tensor);
    case Dtype::kI32:
      return Narrow<int32_t>(proto.int32_data(), tensor);
    case Dtype::kI16:
      return Narrow<int16_t>(proto.int32_data(), tensor);
    case Dtype::kI8:
      return Narrow<int8_t>(proto.int32_data(), tensor);
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF8E8M0:
    case Dtype::kF4E2M1:
    case Dtype::kU2:
    case Dtype::kI2:
    case Dtype::kU8:
      return Narrow<uint8_t>(proto.int32_data(), tensor);
    case Dtype::kU4:  // two elements
    case Dtype::kI4:
      WEFT_TRY(Narrow<uint8_t>(proto.int32_data(), tensor));
      ClearRest(tensor);
      return {};
    case Dtype::kBool:
      for (int i = 0; i < proto.int32_data_size(); ++i)
        tensor.mutable_as<uint8_t>()[i] = proto.int32_data(i) != 0;
      return {};
    case Dtype::kU16:
    case Dtype::kF16:
    case Dtype::kBF16:
      return Narrow<uint16_t>(proto.int32_data(), tensor);
    case Dtype::kString:
      tensor.strings().assign(proto.string_data().begin(), proto.string_data().end());
      return {};
  }
  return {};
}

Result<int64_t> ParseCount(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Invalid(
        fmt::format("external data has {} {}, expected a number of bytes", key, PrintString(text)));
  }
  return value;
}

Result<Tensor> FromFile(const TensorProto& proto, Dtype dtype, const Shape& shape, int64_t want,
                        ExternalFiles& files) {
  std::optional<std::string> location;
  std::optional<int64_t> offset, length;
  for (const auto& entry : proto.external_data()) {
    const std::string& key = entry.key();
    const bool twice = (key == "location" && location) || (key == "offset" && offset) ||
                       (key == "length" && length);
    if (twice) return Invalid(fmt::format("external data has {} twice", key));
    if (key == "location") location = entry.value();
    if (key == "offset") {
      WEFT_TRY(offset, ParseCount(key, entry.value()));
    }
    if (key == "length") {
      WEFT_TRY(length, ParseCount(key, entry.value()));
    }
  }
  if (!location) return Invalid("external data has no location");
  if (dtype == Dtype::kString) return Invalid("strings can't be external data");
  if (length && *length != want)
    return Invalid(fmt::format("external data has {} bytes, expected {}", *length, want));
  WEFT_TRY(const Tensor file, files.Open(*location));
  const int64_t size = file.elems();
  const int64_t from = offset.value_or(0);
  if (from > size || want > size - from) {
    return Invalid(fmt::format("external data wants bytes {} to {} + {} of {}, which has {}", from,
                               from, want, PrintString(*location), size));
  }
  const std::byte* data = file.raw().data() + from;
  const bool aligned = reinterpret_cast<uintptr_t>(data) %
                           static_cast<uintptr_t>(std::max<int64_t>(SizeBytes(dtype), 1)) ==
                       0;
  if (want == 0 || !aligned || dtype == Dtype::kBool || SharersInFile(dtype) > 1)
    return CopyOf(dtype, shape, data);
  return Tensor::Borrow(dtype, shape, std::make_shared<const Tensor>(file), data);
}

}  // namespace

Result<Dtype> DtypeOf(int32_t data_type) {
  if (const auto dtype = DtypeFromOnnx(data_type)) return *dtype;
  if (data_type == 0) return Invalid("the element type is missing");
  if (!TensorProto::DataType_IsValid(data_type))
    return Invalid(fmt::format("unknown element type {}", data_type));
  return Unsupported(
      fmt::format("element type {} is not supported", TensorProto::DataType_Name(data_type)));
}

Result<Tensor> TensorOf(const TensorProto& proto, ExternalFiles& files) {
  WEFT_TRY(const Dtype dtype, DtypeOf(proto.data_type()));
  if (proto.dims_size() > kMaxRank)
    return Limit(fmt::format("rank {} is above {}", proto.dims_size(), kMaxRank));
  if (proto.has_segment()) return Unsupported("tensors in segments are not supported");
  const Shape shape(proto.dims().begin(), proto.dims().end());
  WEFT_TRY(const int64_t elems, CountElems(shape));
  const bool text = dtype == Dtype::kString;
  int64_t want = 0;
  if (__builtin_mul_overflow(elems, SizeBytes(dtype), &want))
    return Invalid(fmt::format("shape {} is too large", Print(shape)));
  const int64_t sharers = SharersInFile(dtype);
  const int64_t entries = elems / sharers + (elems % sharers != 0);  // of a typed field
  want = sharers > 1 ? entries : StorageBytes(dtype, elems);

  const auto typed = TypedFields(proto);
  const bool external = proto.data_location() == TensorProto::EXTERNAL;
  const size_t storages =
      typed.size() + (proto.has_raw_data() && !proto.raw_data().empty()) + external;
  if (storages > 1) return Invalid("the elements are stored in more than one field");
  if (external) return FromFile(proto, dtype, shape, want, files);
  if (proto.has_raw_data() && typed.empty()) {
    if (text) return Invalid("strings can't be raw data");
    const auto found = static_cast<int64_t>(proto.raw_data().size());
    if (found != want)
      return Invalid(fmt::format("raw data has {} bytes, expected {} for {}{}", found, want,
                                 DtypeName(dtype), Print(shape)));
    return CopyOf(dtype, shape, proto.raw_data().data());
  }
  const int64_t found = typed.empty() ? 0 : typed[0].count;
  if (!typed.empty() && std::string_view(typed[0].field) != FieldFor(dtype)) {
    return Invalid(fmt::format("found elements in {}, expected {} for {}", typed[0].field,
                               FieldFor(dtype), DtypeName(dtype)));
  }
  if (found != entries)
    return Invalid(fmt::format("found {} elements, expected {} for {}{}", found, entries,
                               DtypeName(dtype), Print(shape)));
  WEFT_TRY(Tensor tensor, Tensor::Allocate(dtype, shape));
  WEFT_TRY(FillTyped(proto, tensor));
  return tensor;
}

}  // namespace weft::graph
