// SparseTensorProto -> Tensor, with all its zeros: weft's constants are dense.
#include <fmt/format.h>

#include <cstring>

#include "graph/onnx/proto/onnx-ml.pb.h"
#include "graph/onnx/tensors.h"

namespace weft::graph {
namespace {

// By element: where it lies in a dense tensor of this shape. Places ascend.
Result<std::vector<int64_t>> PlacesOf(const Tensor& indices, int64_t count, const Shape& shape) {
  const bool linear = indices.shape() == Shape{count};
  const auto rank = static_cast<int64_t>(shape.size());
  if (indices.dtype() != Dtype::kI64 || (!linear && indices.shape() != Shape{count, rank}))
    return Invalid(fmt::format("the indices are {}{}, expected i64[{}] or i64[{}, {}]",
                               DtypeName(indices.dtype()), Print(indices.shape()), count, count,
                               rank));
  WEFT_TRY(const int64_t elems, CountElems(shape));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = linear ? ElemAsInt(indices, i) : 0;
    for (int64_t axis = 0; !linear && axis < rank; ++axis) {
      const int64_t at = ElemAsInt(indices, i * rank + axis),
                    extent = shape[static_cast<size_t>(axis)];
      if (at < 0 || at >= extent)
        return Invalid(fmt::format("index {} of element {} is outside of {}", at, i, Print(shape)));
      place = place * extent + at;
    }
    if (place < 0 || place >= elems)
      return Invalid(
          fmt::format("index {} of element {} is outside of {}", place, i, Print(shape)));
    if (!places.empty() && place <= places.back())
      return Invalid(fmt::format("the indices of elements {} and {} do not ascend", i - 1, i));
    places.push_back(place);
  }
  return places;
}

}  // namespace

Result<Tensor> TensorOf(const onnx::SparseTensorProto& proto, ExternalFiles& files,
                        int64_t max_bytes) {
  if (!proto.has_values() || !proto.has_indices())
    return Invalid("a sparse tensor has no values or no indices");
  if (proto.dims_size() > kMaxRank)
    return Limit(fmt::format("rank {} is above {}", proto.dims_size(), kMaxRank));
  WEFT_TRY(const Tensor values, TensorOf(proto.values(), files));
  WEFT_TRY(const Tensor indices, TensorOf(proto.indices(), files));
  if (values.shape().size() != 1)
    return Invalid(
        fmt::format("the values have the shape {}, expected one axis", Print(values.shape())));
  const Dtype dtype = values.dtype();
  const Shape shape(proto.dims().begin(), proto.dims().end());
  WEFT_TRY(const std::vector<int64_t> places, PlacesOf(indices, values.elems(), shape));
  WEFT_TRY(const int64_t elems, CountElems(shape));
  const int64_t each = dtype == Dtype::kString ? int64_t{sizeof(std::string)} : SizeBytes(dtype);
  if (elems > max_bytes / std::max<int64_t>(each, 1))
    return Limit(fmt::format("with its zeros, a sparse tensor of {}{} leaves the limit of {} bytes",
                             DtypeName(dtype), Print(shape), max_bytes));
  WEFT_TRY(Tensor dense, Tensor::Allocate(dtype, shape));
  for (int64_t i = 0; i < values.elems(); ++i) {
    const int64_t to = places[static_cast<size_t>(i)];
    if (dtype == Dtype::kString)
      dense.strings()[static_cast<size_t>(to)] = values.strings()[static_cast<size_t>(i)];
    else if (SharesBytes(dtype))
      SetElemInt(dense, to, ElemAsInt(values, i));
    else
      std::memcpy(static_cast<std::byte*>(dense.mutable_data()) + to * each,
                  values.raw().data() + i * each, static_cast<size_t>(each));
  }
  return dense;
}

}  // namespace weft::graph
