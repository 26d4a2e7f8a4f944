#include "base/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>

#include "base/check.h"
#include "base/memory.h"

namespace weft {
Result<int64_t> CountElems(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflow = false, zero = false;
  for (int64_t extent : shape) {
    if (extent < 0) {
      return Invalid(fmt::format("shape {}: extent {} is negative", Print(shape), extent));
    }
    zero |= extent == 0;
    overflow |= __builtin_mul_overflow(count, extent, &count);
  }
  if (zero) return int64_t{0};
  if (overflow) return Limit(fmt::format("shape {} has 2^63 elements or more", Print(shape)));
  return count;
}

std::string Print(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

struct Tensor::Digest {
  std::once_flag once;
  std::atomic<bool> is_made = false;
  Hash hash;
};

Result<Tensor> Tensor::Allocate(Dtype dtype, Shape shape) {
  return AllocateFrom(AllocateZeroed, dtype, std::move(shape));
}

Result<Tensor> Tensor::AllocateUnset(Dtype dtype, Shape shape) {
  // Where elements share bytes the last of these may have a part that belongs to none.
  return AllocateFrom(SharesBytes(dtype) ? AllocateZeroed : weft::AllocateUnset, dtype,
                      std::move(shape));
}

Result<Tensor> Tensor::AllocateFrom(std::shared_ptr<void> (*source)(int64_t), Dtype dtype,
                                    Shape shape) {
  WEFT_TRY(const int64_t elems, CountElems(shape));
  const auto out_of_memory = [&] {
    return Limit(fmt::format("no memory for a tensor {}{}", DtypeName(dtype), Print(shape)));
  };
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.elems_ = elems;
  try {
    if (dtype == Dtype::kString) {
      tensor.strings_.resize(elems);
    } else {
      constexpr int64_t kMostBytes = int64_t{1} << 47;  // what x86-64 can address
      if (elems > kMostBytes / SizeBytes(dtype)) return out_of_memory();
      std::shared_ptr<void> memory = source(StorageBytes(dtype, elems));
      if (memory == nullptr) return out_of_memory();
      tensor.data_ = memory.get();
      tensor.owner_ = std::move(memory);
      tensor.digest_ = std::make_shared<Digest>();
    }
  } catch (const std::exception&) {  // bad_alloc, or length_error of a vector
    return out_of_memory();
  }
  tensor.shape_ = std::move(shape);
  return tensor;
}

Tensor::Tensor(Dtype dtype, Shape shape) {
  WEFT_CHECK(CountElems(shape).ok(), "{}", Print(shape));
  Result<Tensor> tensor = Allocate(dtype, std::move(shape));
  if (!tensor.ok()) throw std::bad_alloc();
  *this = *std::move(tensor);
}

Tensor Tensor::Borrow(Dtype dtype, Shape shape, std::shared_ptr<const void> owner,
                      const void* data) {
  const Result<int64_t> elems = CountElems(shape);
  WEFT_CHECK(elems.ok() && dtype != Dtype::kString, "{}{}", DtypeName(dtype), Print(shape));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.elems_ = *elems;
  tensor.owner_ = std::move(owner);
  tensor.digest_ = std::make_shared<Digest>();
  tensor.data_ = data;
  tensor.borrowed_ = true;
  return tensor;
}

void* Tensor::mutable_data() {
  if (dtype_ == Dtype::kString || data_ == nullptr) return nullptr;
  if (borrowed_ || owner_.use_count() > 1) {
    Tensor copy(dtype_, shape_);
    if (bytes() > 0) std::memcpy(const_cast<void*>(copy.data_), data_, bytes());
    *this = std::move(copy);
  } else if (digest_->is_made) {
    digest_ = std::make_shared<Digest>();
  }
  return const_cast<void*>(data_);  // allocated by AllocateZeroed, and ours alone
}

std::span<const std::byte> Tensor::raw() const {
  return {static_cast<const std::byte*>(data_), static_cast<size_t>(bytes())};
}

const Hash& Tensor::ContentHash() const {
  static const Hash of_nothing = Sha256(std::string_view());
  if (elems_ == 0) return of_nothing;
  WEFT_CHECK(dtype_ != Dtype::kString, "strings have no bytes of their own");
  std::call_once(digest_->once, [&] {
    digest_->hash = Sha256(raw());
    digest_->is_made = true;
  });
  return digest_->hash;
}

Tensor Tensor::ReadAs(Dtype dtype, Shape shape) const {
  const Result<int64_t> elems = CountElems(shape);
  WEFT_CHECK(elems.ok() && dtype != Dtype::kString && dtype_ != Dtype::kString &&
                 StorageBytes(dtype, *elems) == bytes(),
             "{}{} as {}{}", DtypeName(dtype_), Print(shape_), DtypeName(dtype), Print(shape));
  Tensor tensor = *this;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.elems_ = *elems;
  return tensor;
}

Tensor Tensor::Reshaped(Shape shape) const {
  const Result<int64_t> elems = CountElems(shape);
  WEFT_CHECK(elems.ok() && *elems == elems_, "from {} to {}", Print(shape_), Print(shape));
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

bool Tensor::operator==(const Tensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ && strings_ == other.strings_ &&
         std::ranges::equal(raw(), other.raw());
}

}  // namespace weft
