// Products as tiles of blocks and threads: to the bit what the nest computes that they are made of.
#include "polyhedral/cuda/tiles.h"

#include <fmt/format.h>

#include <limits>

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
  ASSERT_EQ(ExecuteBoth(mapped, a, b, c, y), "") << loops::Print(mapped);
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
    const Extents cases[] = {{.rows = shape.height + 5, .columns = shape.width + 3, .sum = 21},
                             {.rows = shape.height, .columns = shape.width, .sum = 32}};
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

// A convolution of images f32[n, c, h, w] in some layout, with its window's loops as `taps` says.
struct Window {
  int64_t images = 1, channels = 1, height = 1, width = 1, filters = 1, taps = 3;
  int64_t stride = 1, dilation = 1, pad = 1;
  std::string_view layout = "acdb";
  bool taps_outside = true;  // of the sum over channels
  int64_t OutOf(int64_t extent) const {
    return (extent + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
  }
};

std::string Convolution(const Window& w) {
  // The taps that lie inside: 0 <= stride*out + dilation*tap - pad < extent.
  const auto loop = [&](std::string_view tap, std::string_view out, int64_t extent) {
    const std::string first = fmt::format("{} - {}*{}", w.pad, w.stride, out);
    return fmt::format(
        "for {0} = max(0, floor(({1} + {2} - 1)/{2})):min({3}, floor(({1} + {4} + {2} - 1)/{2})) "
        "{{",
        tap, first, w.dilation, w.taps, extent);
  };
  const std::string taps = loop("r", "h", w.height) + loop("s", "w", w.width),
                    sum = fmt::format("for c = 0:{} {{", w.channels);
  return fmt::format(
      R"(loops conv (x: in f32[{0}, {1}, {2}, {3}] layout "{4}", f: in f32[{5}, {1}, {6}, {6}],
          b: in f32[{5}], y: out f32[{0}, {5}, {7}, {8}] layout "{4}") for "/Conv" {{
    reg t: f32[1]
    parallel n = 0:{0} {{ parallel k = 0:{5} {{ parallel h = 0:{7} {{ parallel w = 0:{8} {{
      t[0] = 0.0
      {9} {10}
        t[0] = fma(x[n, c, {11}*h + {12}*r - {13}, {11}*w + {12}*s - {13}], f[k, c, r, s], t[0])
      }} }} }}
      y[n, k, h, w] = max(t[0] + b[k], 0.0)
    }} }} }} }} }})",
      w.images, w.channels, w.height, w.width, w.layout, w.filters, w.taps, w.OutOf(w.height),
      w.OutOf(w.width), w.taps_outside ? taps : sum, w.taps_outside ? sum : taps, w.stride,
      w.dilation, w.pad);
}

// Small integers, so that sums are exact in any order; some filters' taps are infinite, which makes
// what a tap outside the image adds visible.
TEST(CudaTiles, WindowsAddNothingOutside) {
  const Window windows[] = {
      {.images = 2, .channels = 16, .height = 7, .width = 6, .filters = 20},
      {.channels = 16, .height = 9, .width = 8, .filters = 17, .layout = "abcd"},
      {.channels = 3, .height = 11, .width = 10, .filters = 16, .taps = 5, .stride = 2, .pad = 2},
      {.channels = 5, .height = 9, .width = 9, .filters = 16, .taps_outside = false},
      {.channels = 16, .height = 12, .width = 9, .filters = 18, .dilation = 2, .pad = 2},
      {.channels = 16,
       .height = 10,
       .width = 9,
       .filters = 16,
       .stride = 2,
       .dilation = 3,
       .pad = 3},
      {.images = 3, .channels = 32, .height = 4, .width = 5, .filters = 16, .taps = 1, .pad = 0},
      {.channels = 32, .height = 6, .width = 6, .filters = 32, .layout = "aBcd16b"},
  };
  for (const Window& w : windows) {
    const loops::LoopNest nest = VerifiedNest(Convolution(w));
    ASSERT_FALSE(HasFailure());
    const Tiles tiles = Map(nest, TileShapes().back());
    ASSERT_FALSE(HasFailure()) << loops::Print(nest);
    const auto integers = [](int64_t count, int64_t modulus) {
      std::vector<float> x = Numbers(count, modulus);
      for (float& v : x) v = v * 3 + 100;  // above 0: an infinite tap gives no NaN inside
      return x;
    };
    std::vector<float> x = integers(w.images * w.channels * w.height * w.width, 13),
                       f = integers(w.filters * w.channels * w.taps * w.taps, 7),
                       b = integers(w.filters, 5);
    for (size_t i = 0; i < f.size(); i += 97) f[i] = std::numeric_limits<float>::infinity();
    std::vector<float> y(
        static_cast<size_t>(w.images * w.filters * w.OutOf(w.height) * w.OutOf(w.width))),
        expected(y.size());
    ASSERT_EQ(Execute(nest, x, f, b, expected), "");
    ASSERT_EQ(ExecuteBoth(tiles.nest, x, f, b, y), "") << loops::Print(tiles.nest);
    EXPECT_EQ(y, expected) << loops::Print(tiles.nest);
  }
}

TEST(CudaTiles, ASumThatEndsByCell) {
  const Extents e{.rows = 40, .columns = 70, .sum = 40};
  std::string text = Product(e, "nik", "nkj");
  const std::string_view whole = "for k = 0:40";
  text.replace(text.find(whole), whole.size(), "for k = 0:min(40, i + 1)");
  const loops::LoopNest nest = VerifiedNest(text);
  ExpectSame(nest, Map(nest, TileShapes().back()).nest, e);
}

TEST(CudaTiles, ShapesOfOtherThreads) {
  const Extents e{.rows = 70, .columns = 75, .sum = 37};
  const loops::LoopNest nest = VerifiedNest(Product(e, "nik", "njk"));
  for (const TileShape& shape :
       {TileShape{32, 32, 8, 4, 4}, {24, 64, 12, 8, 4}, {16, 16, 5, 4, 4}}) {
    const bool warps = shape.ThreadsX() * shape.ThreadsY() % 32 == 0;
    EXPECT_EQ(shape.IsValid(), warps) << shape.height;
    if (warps) ExpectSame(nest, Map(nest, shape).nest, e);
  }
  EXPECT_FALSE((TileShape{64, 64, 16, 6, 4}).IsValid());      // no quads
  EXPECT_FALSE((TileShape{256, 256, 16, 4, 4}).IsValid());    // too many threads
  EXPECT_FALSE((TileShape{128, 128, 64, 8, 8}).IsValid());    // too much shared memory
  EXPECT_FALSE((TileShape{128, 128, 16, 16, 16}).IsValid());  // too many registers
  EXPECT_FALSE((TileShape{1LL << 62, 64, 16, 4, 4}).IsValid());
}

TEST(CudaTiles, RegistersSufficeOnEveryArchitecture) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  for (const TileShape& shape : TileShapes()) {
    const Extents e{.rows = 1000, .columns = 1000, .sum = 1000};
    const Tiles tiles = Map(VerifiedNest(Product(e, "nik", "nkj")), shape);
    for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100}) {
      const auto kernel = codegen::EmitCuda(tiles.nest, {.kind = TargetKind::kCuda, .isa = isa});
      ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
      EXPECT_EQ(kernel->cubin.resources.local_accesses, 0)
          << shape.height << "x" << shape.width << ", " << kernel->cubin.resources.registers;
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
  EXPECT_FALSE(maps(with("b[n, k, j]", "b[n, k, i]")));                // j moves neither factor
  EXPECT_FALSE(maps(with("a[n, i, k]", "a[n, i, k] * t[0]")));         // a cell in a factor
  EXPECT_FALSE(maps(with("for k = 0:16", "for k = floor(i/64):16")));  // no range for all cells
  EXPECT_FALSE(maps(with("fma(a[n, i, k], b[n, k, j], t[0])", "max(a[n, i, k], t[0])")));
  EXPECT_FALSE(maps(Product({.rows = 3, .columns = 64, .sum = 16}, "nik", "nkj")));
  EXPECT_FALSE(maps(Product({.rows = 64, .columns = 64, .sum = 3}, "nik", "nkj")));
}

}  // namespace
}  // namespace weft::cuda_test
