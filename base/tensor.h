// A dense tensor in host memory, plain (row-major) layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"

namespace weft {

using Shape = std::vector<int64_t>;

// The number of elements, or an error if the product leaves int64 or an extent is negative.
Result<int64_t> CountElems(std::span<const int64_t> shape);
std::string Print(std::span<const int64_t> shape);  // "[1, 3, 224, 224]"

// Elements that may be shared (constants, mapped files) but are only written by a sole owner.
// Strings are held apart, since they have no fixed size.
class Tensor {
 public:
  Tensor() = default;
  // Zeroed, 64-byte aligned. The caller has checked the count; std::bad_alloc if there is no
  // memory.
  Tensor(Dtype dtype, Shape shape);
  // The same for sizes that a file or a user decides: an error of code kLimit if there is no
  // memory.
  static Result<Tensor> Allocate(Dtype dtype, Shape shape);
  // The same for what is written as a whole before anyone reads it: elements may have any value.
  static Result<Tensor> AllocateUnset(Dtype dtype, Shape shape);
  // Views `bytes` of memory that `owner` keeps alive; nothing is copied.
  static Tensor Borrow(Dtype dtype, Shape shape, std::shared_ptr<const void> owner,
                       const void* data);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elems() const { return elems_; }
  int64_t bytes() const { return StorageBytes(dtype_, elems_); }
  const void* data() const { return data_; }
  void* mutable_data();  // copies first when the memory is shared or borrowed
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  template <typename T>
  T* mutable_as() {
    return static_cast<T*>(mutable_data());
  }
  // Whether its memory outlives others that have it, and whether there are none.
  bool HasOwner() const { return owner_ != nullptr; }
  bool IsSole() const { return !borrowed_ && owner_.use_count() == 1; }
  std::span<const std::byte> raw() const;
  // SHA-256 of raw(), computed once for all tensors that share the memory; so nobody may write
  // through a pointer that mutable_data() gave before.
  const Hash& ContentHash() const;

  std::vector<std::string>& strings() { return strings_; }
  const std::vector<std::string>& strings() const { return strings_; }

  // Same elements under another shape of equal count.
  Tensor Reshaped(Shape shape) const;
  // Same bytes under another element type and shape of equal size. Not for strings.
  Tensor ReadAs(Dtype dtype, Shape shape) const;
  bool operator==(const Tensor& other) const;  // dtype, shape and bytes

 private:
  struct Digest;
  static Result<Tensor> AllocateFrom(std::shared_ptr<void> (*source)(int64_t), Dtype dtype,
                                     Shape shape);

  Dtype dtype_ = Dtype::kF32;
  Shape shape_;
  int64_t elems_ = 0;
  std::shared_ptr<const void> owner_;
  const void* data_ = nullptr;
  std::shared_ptr<Digest> digest_;  // of the memory, and shared as it is
  bool borrowed_ = false;
  std::vector<std::string> strings_;
};

// Element i as a double or an int64, whatever the element type; for tools and shape arithmetic, not
// for loops over data. Float to integer truncates and saturates, NaN gives 0; between integers the
// low bits are kept, so that a u64 passes through an int64 unharmed.
double ElemAsDouble(const Tensor& t, int64_t i);
int64_t ElemAsInt(const Tensor& t, int64_t i);
void SetElem(Tensor& t, int64_t i, double value);
void SetElemInt(Tensor& t, int64_t i, int64_t value);

// Element i of four-bit ones, as its bits; and its store, which leaves its neighbour alone but is
// no single access of memory.
inline uint8_t NibbleAt(const void* data, int64_t i) {
  return static_cast<uint8_t>(static_cast<const uint8_t*>(data)[i / 2] >> (i % 2 * 4) & 15);
}
inline void SetNibble(void* data, int64_t i, uint8_t bits) {
  uint8_t& byte = static_cast<uint8_t*>(data)[i / 2];
  const int shift = static_cast<int>(i % 2) * 4;
  byte = static_cast<uint8_t>((byte & (0xf0 >> shift)) | (bits & 15) << shift);
}

// To 16 bits rounds to nearest even; a NaN becomes a quiet one with the leading bits of its
// payload, as the instructions of processors do.
float HalfToFloat(uint16_t bits);  // IEEE binary16
uint16_t FloatToHalf(float value);
float BfloatToFloat(uint16_t bits);
uint16_t FloatToBfloat(float value);

}  // namespace weft
