// Products as tiles of blocks and threads: to the bit what the nest computes that they are made of.
#include "polyhedral/cuda/tiles.h"

#include <fmt/format.h>

#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

using polyhedral::cuda::MapTiles;
using polyhedral::cuda::Tiles;
using polyhedral::cuda::TileShape;
using polyhedral::cuda::TileShapes;

struct Extents {
  int64_t batch = 1, rows = 0, columns = 0, sum = 0;
};

// y = max(a b + c, 0), for each of a batch; `a` and `b` are the indices of the factors.
std::string Product(const Extents& e, std::string_view a, std::string_view b) {
  const auto shape = [&](std::string_view index) {
    std::string text;
    for (const char axis : index) {
      const int64_t extent = axis == 'n'   ? e.batch
                             : axis == 'i' ? e.rows
                             : axis == 'j' ? e.columns
                                           : e.sum;
      text += fmt::format("{}{}", text.empty() ? "" : ", ", extent);
    }
    return text;
  };
  const auto spaced = [](std::string_view index) {
    return fmt::format("{}", fmt::join(index, ", "));
  };
  return fmt::format(
      R"(loops product (a: in f32[{}], b: in f32[{}], c: in f32[{}], y: out f32[{}]) for "/MatMul" {{
    reg t: f32[1]
    parallel n = 0:{} {{ parallel i = 0:{} {{ parallel j = 0:{} {{
      t[0] = 0.0
      for k = 0:{} {{ t[0] = fma(a[{}], b[{}], t[0]) }}
      y[n, i, j] = max(t[0] + c[j], 0.0)
    }} }} }} }})",
      shape(a), shape(b), e.columns, shape("nij"), e.batch, e.rows, e.columns, e.sum, spaced(a),
      spaced(b));
}

std::vector<float> Numbers(int64_t count, int64_t modulus) {
  std::vector<float> x(static_cast<size_t>(count));
  const int64_t half = modulus / 2;
  for (int64_t i = 0; i < count; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i * 7 % modulus - half) / 3.0F;
  return x;
}

void ExpectSame(const loops::LoopNest& nest, const loops::LoopNest& mapped, const Extents& e) {
  std::vector<float> a = Numbers(e.batch * e.rows * e.sum, 101),
                     b = Numbers(e.batch * e.columns * e.sum, 97), c = Numbers(e.columns, 13),
                     y(static_cast<size_t>(e.batch * e.rows * e.columns)), expected(y.size());
  ASSERT_EQ(Execute(nest, a, b, c, expected), "");
  ASSERT_EQ(Execute(mapped, a, b, c, y), "") << loops::Print(mapped);
  EXPECT_EQ(y, expected) << loops::Print(mapped);
}

Tiles Map(const loops::LoopNest& nest, const TileShape& shape) {
  std::optional<Tiles> tiles = MapTiles(nest, nest.body[0], &shape);
  EXPECT_TRUE(tiles.has_value());
  if (!tiles) return {};
  const Status status = loops::Verify(tiles->nest);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << loops::Print(tiles->nest);
  return *std::move(tiles);
}

// With tails along all axes, and whole.
TEST(CudaTiles, EveryShapeIsRight) {
  for (const TileShape& shape : TileShapes()) {
    const Extents cases[] = {{.rows = shape.Height() + 5, .columns = shape.Width() + 3, .sum = 21},
                             {.rows = shape.Height(), .columns = shape.Width(), .sum = 32}};
    for (const Extents& e : cases) {
      const loops::LoopNest nest = VerifiedNest(Product(e, "nik", "nkj"));
      const Tiles tiles = Map(nest, shape);
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(tiles.blocks, e.sum == 21 ? 4 : 1);
      ExpectSame(nest, tiles.nest, e);
    }
  }
}

TEST(CudaTiles, TransposedAndSharedFactors) {
  const Extents e{.batch = 2, .rows = 35, .columns = 70, .sum = 19};
  for (const auto& [a, b] :
       {std::pair{"nki", "njk"}, {"kni", "kj"}, {"ik", "njk"}, {"ink", "knj"}}) {
    const loops::LoopNest nest = VerifiedNest(Product(e, a, b));
    ExpectSame(nest, Map(nest, TileShapes().back()).nest, e);
  }
}

TEST(CudaTiles, RegistersSufficeOnEveryArchitecture) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  for (const TileShape& shape : TileShapes()) {
    const Extents e{.rows = 1000, .columns = 1000, .sum = 1000};
    const Tiles tiles = Map(VerifiedNest(Product(e, "nik", "nkj")), shape);
    for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100}) {
      const auto kernel = codegen::EmitCuda(tiles.nest, {.kind = TargetKind::kCuda, .isa = isa});
      ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
      EXPECT_EQ(kernel->cubin.resources.spill_bytes, 0)
          << shape.Height() << "x" << shape.Width() << ", " << kernel->cubin.resources.registers;
    }
  }
}

TEST(CudaTiles, OtherFormsAreRefused) {
  const auto maps = [](std::string_view text) {
    const loops::LoopNest nest = VerifiedNest(text);
    return MapTiles(nest, nest.body[0]).has_value();
  };
  const std::string good = Product({.rows = 64, .columns = 64, .sum = 16}, "nik", "nkj");
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_TRUE(maps(good));
  EXPECT_FALSE(maps(with("b[n, k, j]", "b[n, k, i]")));         // j moves neither factor
  EXPECT_FALSE(maps(with("a[n, i, k]", "a[n, i, k] * t[0]")));  // a cell in a factor
  EXPECT_FALSE(maps(with("for k = 0:16", "for k = 0:min(16, i + 1)")));
  EXPECT_FALSE(maps(with("fma(a[n, i, k], b[n, k, j], t[0])", "max(a[n, i, k], t[0])")));
  EXPECT_FALSE(maps(Product({.rows = 3, .columns = 64, .sum = 16}, "nik", "nkj")));
  EXPECT_FALSE(maps(Product({.rows = 64, .columns = 64, .sum = 3}, "nik", "nkj")));
}

}  // namespace
}  // namespace weft::cuda_test
