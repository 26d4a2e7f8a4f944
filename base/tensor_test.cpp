#include "base/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "base/nibbles.h"

namespace weft {
namespace {

TEST(Widened, OthersAreNotCopied) {
  Tensor t(Dtype::kF32, {1000});
  const void* const data = t.data();
  Tensor wide = Widened(std::move(t));
  EXPECT_EQ(wide.mutable_data(), data);
}

constexpr Dtype kNumbers[] = {Dtype::kBool, Dtype::kU8,  Dtype::kI8,  Dtype::kU16, Dtype::kI16,
                              Dtype::kU32,  Dtype::kI32, Dtype::kU64, Dtype::kI64, Dtype::kF16,
                              Dtype::kBF16, Dtype::kF32, Dtype::kF64};

TEST(Dtype, TablesAgree) {
  for (Dtype dtype : kNumbers) {
    EXPECT_EQ(ParseDtype(DtypeName(dtype)), dtype);
    EXPECT_EQ(DtypeFromOnnx(DtypeToOnnx(dtype)), dtype);
  }
  EXPECT_EQ(SizeBytes(Dtype::kBF16), 2);
  EXPECT_EQ(SizeBytes(Dtype::kString), 0);
  EXPECT_EQ(ParseDtype("f33"), std::nullopt);
  EXPECT_EQ(DtypeFromOnnx(0), std::nullopt);
  EXPECT_TRUE(IsFloat(Dtype::kF16));
  EXPECT_TRUE(IsInteger(Dtype::kU8));
  EXPECT_FALSE(IsInteger(Dtype::kBool));
}

TEST(Tensor, NoMemoryIsNoDefect) {
  EXPECT_THROW(Tensor(Dtype::kF32, {int64_t{1} << 60}), std::bad_alloc);
}

TEST(Tensor, CountElems) {
  EXPECT_EQ(*CountElems(Shape{}), 1);
  EXPECT_EQ(*CountElems(Shape{2, 3}), 6);
  EXPECT_EQ(*CountElems(Shape{INT64_MAX, INT64_MAX, 0}), 0);
  EXPECT_EQ(CountElems(Shape{INT64_MAX, 2}).status().code(), Code::kLimit);
  EXPECT_EQ(CountElems(Shape{2, -1}).status().ToString(), "shape [2, -1]: extent -1 is negative");
  EXPECT_EQ(CountElems(Shape{0, -1}).status().code(), Code::kInvalid);
}

TEST(Tensor, IsZeroedAndAligned) {
  for (Dtype dtype : kNumbers) {
    const Tensor t(dtype, {3, 5});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    EXPECT_EQ(t.bytes(), 15 * SizeBytes(dtype));
    for (std::byte byte : t.raw()) EXPECT_EQ(byte, std::byte{0});
  }
  EXPECT_NE(Tensor(Dtype::kF32, {0}).data(), nullptr);
  EXPECT_EQ(Tensor(Dtype::kString, {2}).strings().size(), 2u);
}

TEST(Tensor, RefusesWhatMemoryCannotHold) {
  EXPECT_EQ(Tensor::Allocate(Dtype::kF32, {INT64_MAX / 2}).status().code(), Code::kLimit);
  EXPECT_EQ(Tensor::Allocate(Dtype::kF64, {int64_t{1} << 46}).status().code(), Code::kLimit);
  EXPECT_EQ(Tensor::Allocate(Dtype::kString, {INT64_MAX / 2}).status().code(), Code::kLimit);
  EXPECT_EQ(Tensor::Allocate(Dtype::kU8, {-1}).status().code(), Code::kInvalid);
}

TEST(Tensor, CopiesOnWrite) {
  Tensor a(Dtype::kI32, {2});
  a.mutable_as<int32_t>()[0] = 1;
  Tensor b = a;
  EXPECT_EQ(a.data(), b.data());
  b.mutable_as<int32_t>()[0] = 2;
  EXPECT_EQ(a.as<int32_t>()[0], 1);
  EXPECT_EQ(b.as<int32_t>()[0], 2);
  const void* before = b.data();
  b.mutable_as<int32_t>()[1] = 3;
  EXPECT_EQ(b.data(), before);

  int32_t outside[2] = {7, 8};
  Tensor c = Tensor::Borrow(Dtype::kI32, {2}, nullptr, outside);
  EXPECT_EQ(c.data(), outside);
  c.mutable_as<int32_t>()[0] = 9;
  EXPECT_EQ(outside[0], 7);
  EXPECT_EQ(c.as<int32_t>()[1], 8);
}

TEST(Tensor, ReshapeAndEquality) {
  Tensor a(Dtype::kU8, {2, 3});
  for (int i = 0; i < 6; ++i) SetElemInt(a, i, i);
  const Tensor b = a.Reshaped({3, 2});
  EXPECT_EQ(b.data(), a.data());
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a == b.Reshaped({2, 3}));
  EXPECT_FALSE(a == Tensor(Dtype::kI8, {2, 3}));
  EXPECT_TRUE(Tensor() == Tensor());
  EXPECT_EXIT(a.Reshaped({7}), testing::ExitedWithCode(70), "");
}

TEST(Tensor, TheHashFollowsTheBytes) {
  Tensor t(Dtype::kF32, {2, 3});
  const Hash zeros = t.ContentHash();
  EXPECT_EQ(zeros, Sha256(std::string(24, '\0')));
  const Tensor shares = t;
  t.mutable_as<float>()[5] = 1;  // a copy, since the memory is shared
  const Hash written = t.ContentHash();
  EXPECT_NE(written, zeros);
  EXPECT_EQ(shares.ContentHash(), zeros);
  t.mutable_as<float>()[5] = 0;  // in place
  EXPECT_EQ(t.ContentHash(), zeros);
  EXPECT_EQ(Tensor(Dtype::kI64, {0}).ContentHash(), Sha256(std::string_view()));
}

TEST(Tensor, ReadAsSharesBytes) {
  Tensor t(Dtype::kF32, {2, 3});
  t.mutable_as<float>()[0] = 1;
  Tensor bytes = t.ReadAs(Dtype::kU8, {24});
  EXPECT_EQ(bytes.data(), t.data());
  EXPECT_EQ(bytes.elems(), 24);
  EXPECT_EQ(bytes.as<uint8_t>()[3], 0x3f);
  EXPECT_EQ(bytes.ContentHash(), t.ContentHash());
  bytes.mutable_as<uint8_t>()[3] = 0;
  EXPECT_EQ(t.as<float>()[0], 1);
}

TEST(Tensor, ElementsSaturateAndWrap) {
  for (Dtype dtype : kNumbers) {
    Tensor t(dtype, {1});
    SetElem(t, 0, 1.0);
    EXPECT_EQ(ElemAsDouble(t, 0), 1.0);
    EXPECT_EQ(ElemAsInt(t, 0), 1);
  }
  Tensor i8(Dtype::kI8, {1}), u64(Dtype::kU64, {1}), i64(Dtype::kI64, {1}), f64(Dtype::kF64, {1});
  SetElem(i8, 0, -1e9);
  EXPECT_EQ(ElemAsInt(i8, 0), -128);
  SetElem(i8, 0, -1.9);
  EXPECT_EQ(ElemAsInt(i8, 0), -1);
  SetElem(i8, 0, std::nan(""));
  EXPECT_EQ(ElemAsInt(i8, 0), 0);
  SetElemInt(i8, 0, 200);
  EXPECT_EQ(ElemAsInt(i8, 0), -56);
  SetElem(u64, 0, 1e30);
  EXPECT_EQ(u64.as<uint64_t>()[0], UINT64_MAX);
  SetElemInt(u64, 0, -1);
  EXPECT_EQ(u64.as<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(ElemAsInt(u64, 0), -1);
  SetElem(i64, 0, 0x1p63);
  EXPECT_EQ(ElemAsInt(i64, 0), INT64_MAX);
  SetElem(f64, 0, -INFINITY);
  EXPECT_EQ(ElemAsInt(f64, 0), INT64_MIN);
  EXPECT_EXIT(ElemAsInt(i8, 1), testing::ExitedWithCode(70), "element 1 of 1");
}

// The nearest of all 65536 values, ties to the even pattern, by search.
template <typename Widen>
uint16_t NearestBySearch(double x, uint16_t infinity, Widen widen) {
  const bool negative = std::signbit(x);
  const double size = std::fabs(x);
  uint16_t best = 0;
  double best_distance = INFINITY;
  // Patterns of non-negative numbers are in order. Infinity stands for the power of two after the
  // last.
  uint32_t lo = 0, hi = infinity;
  while (lo < hi) {
    const uint32_t mid = (lo + hi) / 2;
    if (widen(static_cast<uint16_t>(mid)) < size) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  for (uint32_t bits = lo == 0 ? 0 : lo - 1; bits <= lo && bits <= infinity; ++bits) {
    const double last = widen(static_cast<uint16_t>(infinity - 1));
    const double step = last - widen(static_cast<uint16_t>(infinity - 2));
    const double value = bits == infinity ? last + step : widen(static_cast<uint16_t>(bits));
    const double distance = std::fabs(value - size);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = static_cast<uint16_t>(bits);
      best_distance = distance;
    }
  }
  return best | (negative ? 0x8000 : 0);
}

TEST(SmallFloats, EveryPatternReadsBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = HalfToFloat(bits), bfloat = BfloatToFloat(bits);
    const uint16_t quiet_half = std::isnan(half) ? 0x200 : 0;
    const uint16_t quiet_bfloat = std::isnan(bfloat) ? 0x40 : 0;
    EXPECT_EQ(FloatToHalf(half), bits | quiet_half);
    EXPECT_EQ(FloatToBfloat(bfloat), bits | quiet_bfloat);
  }
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0xfc00), -INFINITY);
  EXPECT_EQ(BfloatToFloat(0x3fc0), 1.5f);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
}

TEST(SmallFloats, RoundToNearestEven) {
  std::mt19937_64 random(5);
  Tensor half(Dtype::kF16, {1}), bfloat(Dtype::kBF16, {1});
  for (int round = 0; round < 50000; ++round) {
    // Values near the midpoint between two neighbours are the hard ones, with a little noise.
    const uint16_t bits = random() % 0x7bff;
    const double low = HalfToFloat(bits), high = HalfToFloat(bits + 1);
    double x = (low + high) / 2;
    if (round % 3 == 1) x = std::nextafter(x, INFINITY);
    if (round % 3 == 2) x = std::nextafter(x, 0);
    if (round % 2) x = -x;
    EXPECT_EQ(FloatToHalf(static_cast<float>(x)),
              NearestBySearch(static_cast<float>(x), 0x7c00, HalfToFloat));
    SetElem(half, 0, x);
    EXPECT_EQ(half.as<uint16_t>()[0], NearestBySearch(x, 0x7c00, HalfToFloat)) << x;

    const uint16_t wide = random() % 0x7f7e;
    x = (double{BfloatToFloat(wide)} + BfloatToFloat(wide + 1)) / 2;
    if (round % 3 == 1) x = std::nextafter(x, INFINITY);
    if (round % 3 == 2) x = std::nextafter(x, 0);
    EXPECT_EQ(FloatToBfloat(static_cast<float>(x)),
              NearestBySearch(static_cast<float>(x), 0x7f80, BfloatToFloat));
    SetElem(bfloat, 0, x);
    EXPECT_EQ(bfloat.as<uint16_t>()[0], NearestBySearch(x, 0x7f80, BfloatToFloat)) << x;
  }
  SetElem(half, 0, 1e300);
  EXPECT_EQ(half.as<uint16_t>()[0], 0x7c00);
  SetElem(bfloat, 0, -1e-300);
  EXPECT_EQ(bfloat.as<uint16_t>()[0], 0x8000);
}

TEST(Tensor, FourBitsAreTwoABytePacked) {
  Tensor t(Dtype::kI4, {3, 3});
  EXPECT_EQ(t.bytes(), 5);
  EXPECT_EQ(StorageBytes(Dtype::kU4, 0), 0);
  for (int64_t i = 0; i < 9; ++i) SetElemInt(t, i, i - 4);
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(ElemAsInt(t, i), i - 4);
    EXPECT_EQ(ElemAsDouble(t, i), static_cast<double>(i - 4));
  }
  EXPECT_EQ(t.as<uint8_t>()[0], 0xdc);
  EXPECT_EQ(t.as<uint8_t>()[4], 0x04);
  SetElem(t, 8, 100.0);
  EXPECT_EQ(ElemAsInt(t, 8), 7);
  EXPECT_EQ(ElemAsInt(t, 7), 3);
}

}  // namespace
}  // namespace weft
