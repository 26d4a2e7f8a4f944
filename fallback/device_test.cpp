#include "fallback/device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "fallback/contraction.h"
#include "fallback/execute.h"
#include "fallback/pooling.h"

namespace weft::fallback {
namespace {

constexpr Isa kIsas[] = {Isa::kSm80, Isa::kSm90, Isa::kSm100};

LibraryCall Parsed(const std::string& text) {
  auto call = ParseCall(text, "test", BlobStore());
  EXPECT_TRUE(call.ok()) << call.status().ToString() << " of " << text;
  return call.ok() ? *std::move(call) : LibraryCall();
}

std::string Plain(const Shape& shape) {
  return fmt::format("f32{} {}", weft::Print(shape), weft::Print(Layout::Plain(shape.size())));
}

// Operands but src and weights as text, ", bias = b: f32[6] a".
LibraryCall Matmul(const Shape& src, const Shape& weights, const Shape& dst,
                   const std::string& more = "", const std::string& attributes = "") {
  return Parsed(fmt::format("cublas.matmul(src = x: {}, weights = w: {}{}) -> (dst = y: {}) {{{}}}",
                            Plain(src), Plain(weights), more, Plain(dst), attributes));
}

std::string ReasonOf(const LibraryCall& call) {
  const auto product = ProductOf(call);
  return product.yes() ? "taken" : std::string(ReasonName(product.refusal().reason));
}

TEST(Product, FoldsRowsThatMeetOneMatrix) {
  const auto folded = ProductOf(Matmul({2, 3, 4, 5}, {5, 6}, {2, 3, 4, 6}));
  ASSERT_TRUE(folded.yes()) << folded.refusal().detail;
  EXPECT_EQ(folded->batches, 1);
  EXPECT_EQ(folded->m, 24);
  EXPECT_EQ(folded->n, 6);
  EXPECT_EQ(folded->k, 5);
  const auto batched = ProductOf(Matmul({2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}));
  ASSERT_TRUE(batched.yes()) << batched.refusal().detail;
  EXPECT_EQ(batched->batches, 6);
  EXPECT_EQ(batched->m, 4);
  EXPECT_TRUE(batched->has_batches_a && batched->has_batches_b);
  const auto one = ProductOf(Matmul({4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}));
  ASSERT_TRUE(one.yes()) << one.refusal().detail;
  EXPECT_EQ(one->batches, 6);
  EXPECT_FALSE(one->has_batches_a);
  const auto turned =
      ProductOf(Matmul({2, 5, 4}, {6, 5}, {2, 4, 6}, "", "trans_a = 1, trans_b = 1"));
  ASSERT_TRUE(turned.yes()) << turned.refusal().detail;
  EXPECT_EQ(turned->batches, 2);
  EXPECT_FALSE(turned->has_batches_b);
}

TEST(Product, TakesAnEpilogueInOneOrder) {
  const std::string bias = ", bias = b: f32[6] a", addend = "z: f32[4, 6] ab";
  const auto with = [&](const std::string& more, const std::string& post) {
    return ProductOf(Matmul({4, 5}, {5, 6}, {4, 6}, more, "post = [" + post + "]"));
  };
  const auto all = with(bias + ", post0 = " + addend, "binary_add, relu");
  ASSERT_TRUE(all.yes()) << all.refusal().detail;
  EXPECT_EQ(all->bias, 2);
  EXPECT_EQ(all->addend, 3);
  EXPECT_TRUE(all->relu);
  const auto scaled = with("", "linear(0.5, 0.0), relu");
  ASSERT_TRUE(scaled.yes()) << scaled.refusal().detail;
  EXPECT_EQ(scaled->alpha, 0.5f);
  const auto refused = [&](const std::string& more, const std::string& post) {
    const auto product = with(more, post);
    return product.yes() ? Reason() : product.refusal().reason;
  };
  EXPECT_EQ(refused("", "gelu_erf"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused("", "gelu_tanh"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused("", "linear(0.5, 1.0)"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused(bias, "linear(0.5, 0.0)"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused(", post1 = " + addend, "relu, binary_add"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused("", "relu, relu"), Reason::kPatternUnknownToLibrary);
  EXPECT_EQ(refused(", post0 = z: f32[6] a", "binary_add"), Reason::kPatternUnknownToLibrary);
}

// Calls come from files: what is refused here would be read out of bounds.
TEST(Product, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {4, 6})), "taken");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {4, 6}, {4, 6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {5, 6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {1, 4, 6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({2, 1, 4, 5}, {1, 3, 5, 6}, {2, 3, 4, 6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({3, 4, 5}, {2, 5, 6}, {3, 4, 6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({5}, {5, 6}, {6})), "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {4, 6}, ", bias = b: f32[5] a")),
            "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {4, 6}, ", bias = b: f32[4, 6] ab")),
            "shape_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({4, 5}, {5, 6}, {4, 6}, ", scale = b: f32[4, 6] ab")),
            "pattern_unknown_to_library");
  EXPECT_EQ(ReasonOf(Matmul({1 << 20, 1 << 20}, {1 << 20, 6}, {1 << 20, 6})),
            "shape_unknown_to_library");
  LibraryCall turned = Matmul({4, 5}, {5, 6}, {4, 6});
  turned.outputs[0].layout = Layout::Permuted(std::vector<int32_t>{1, 0});
  EXPECT_EQ(ReasonOf(turned), "layout_unknown_to_library");
  turned = Matmul({4, 5}, {5, 6}, {4, 6});
  turned.inputs[0].dtype = Dtype::kF16;
  EXPECT_EQ(ReasonOf(turned), "dtype_unknown_to_library");
}

struct Window {
  Shape x, w, y;
  std::vector<int64_t> pads, strides, dilations;
  int64_t group = 1;
};

LibraryCall Convolve(const Window& c, const std::string& more = "", const std::string& post = "") {
  return Parsed(
      fmt::format("cudnn.convolution(src = x: {}, weights = w: {}{}) -> (dst = y: {}) {{dilations "
                  "= [{}], group "
                  "= {}, pads = [{}], strides = [{}], post = [{}]}}",
                  Plain(c.x), Plain(c.w), more, Plain(c.y), fmt::join(c.dilations, ", "), c.group,
                  fmt::join(c.pads, ", "), fmt::join(c.strides, ", "), post));
}

const Window kImage = {.x = {1, 64, 56, 56},
                       .w = {32, 64, 3, 3},
                       .y = {1, 32, 56, 56},
                       .pads = {1, 1, 1, 1},
                       .strides = {1, 1},
                       .dilations = {1, 1}};

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto reason = [](const Window& window, const std::string& more = "",
                         const std::string& post = "") {
    const auto convolution = ConvolutionOf(Convolve(window, more, post));
    return convolution.yes() ? "taken" : std::string(ReasonName(convolution.refusal().reason));
  };
  EXPECT_EQ(reason(kImage), "taken");
  Window w = kImage;
  w.y[2] = 57;
  EXPECT_EQ(reason(w), "shape_unknown_to_library");
  w = kImage;
  w.group = 2;
  EXPECT_EQ(reason(w), "shape_unknown_to_library");
  w = kImage;
  w.strides = {0, 1};
  EXPECT_EQ(reason(w), "shape_unknown_to_library");
  w = kImage;
  w.pads = {1, 1, -1, 1};
  EXPECT_EQ(reason(w), "shape_unknown_to_library");
  w = kImage;
  w.dilations = {int64_t{1} << 62, 1};
  EXPECT_EQ(reason(w), "shape_unknown_to_library");
  EXPECT_EQ(reason(kImage, ", bias = b: f32[64] a"), "shape_unknown_to_library");
  const std::string bias = ", bias = b: f32[32] a";
  EXPECT_EQ(reason(kImage, bias, "relu"), "taken");
  EXPECT_EQ(reason(kImage, bias, "swish(1.0, 0.0)"), "pattern_unknown_to_library");
  EXPECT_EQ(reason(kImage, bias, "gelu_tanh"), "pattern_unknown_to_library");
  EXPECT_EQ(reason(kImage, "", "linear(2.0, 0.0)"), "pattern_unknown_to_library");
  EXPECT_EQ(reason(kImage, "", "relu"), "pattern_unknown_to_library");
  const auto line = ConvolutionOf(Convolve({.x = {2, 4, 12},
                                            .w = {6, 2, 3},
                                            .y = {2, 6, 10},
                                            .pads = {2, 0},
                                            .strides = {1},
                                            .dilations = {2},
                                            .group = 2}));
  ASSERT_TRUE(line.yes()) << line.refusal().detail;
  EXPECT_EQ(line->x, (Shape{2, 4, 1, 12}));
  EXPECT_EQ(line->strides, (std::vector<int64_t>{1, 1}));
}

// The library itself says so, of devices that are not here.
TEST(Cudnn, HasAWayForWhatIsTaken) {
  if (LibraryVersion(Library::kCudnn).empty()) GTEST_SKIP() << "no cuDNN can be loaded here";
  const Window windows[] = {
      kImage,
      {{1, 3, 224, 224}, {64, 3, 7, 7}, {1, 64, 112, 112}, {3, 3, 3, 3}, {2, 2}, {1, 1}},
      {{1, 3, 225, 225}, {32, 3, 3, 3}, {1, 32, 113, 113}, {1, 1, 1, 1}, {2, 2}, {1, 1}},
      {{1, 32, 56, 56}, {32, 1, 3, 3}, {1, 32, 56, 56}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 32},
      {{2, 32, 28, 28}, {48, 8, 3, 3}, {2, 48, 28, 28}, {2, 2, 2, 2}, {1, 1}, {2, 2}, 4},
      {{1, 13, 11, 7}, {17, 13, 1, 1}, {1, 17, 11, 7}, {0, 0, 0, 0}, {1, 1}, {1, 1}},
      {{1, 8, 10, 10}, {8, 8, 3, 3}, {1, 8, 5, 5}, {0, 0, 1, 1}, {2, 2}, {1, 1}},
      {{2, 4, 120}, {6, 2, 3}, {2, 6, 118}, {2, 0}, {1}, {2}, 2},
      {{1, 4, 8, 8, 8}, {8, 4, 3, 3, 3}, {1, 8, 8, 8, 8}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
  };
  for (const Window& window : windows)
    for (const bool biased : {false, true})
      for (const std::string_view post : {"", "relu", "binary_add", "binary_add, relu"}) {
        if (!biased && !post.empty()) continue;
        std::string more = biased ? fmt::format(", bias = b: f32[{}] a", window.w[0]) : "";
        if (post.starts_with("binary")) more += ", post0 = z: " + Plain(window.y);
        const LibraryCall call = Convolve(window, more, std::string(post));
        for (const Isa isa : kIsas) {
          const Status status = CheckWithoutDevice(call, isa);
          EXPECT_TRUE(status.ok()) << status.ToString() << " of " << CanonicalText(call);
        }
      }
}

LibraryCall Pool(const std::string& how, const Shape& x, const Shape& y, const std::string& kernel,
                 const std::string& strides, const std::string& pads,
                 const std::string& dilations) {
  return Parsed(
      fmt::format("cudnn.pooling(src = x: {}) -> (dst = y: {}) {{algorithm = \"{}\", dilations = "
                  "[{}], kernel = [{}], pads = [{}], strides = [{}]}}",
                  Plain(x), Plain(y), how, dilations, kernel, pads, strides));
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  const auto reason = [](const LibraryCall& call) {
    const auto pooling = PoolingOf(call);
    return pooling.yes() ? "taken" : std::string(ReasonName(pooling.refusal().reason));
  };
  const Shape x{2, 4, 9, 9}, y{2, 4, 5, 5};
  const auto pool = [&](const std::string& strides, const std::string& pads,
                        const std::string& dilations, const Shape& to) {
    return reason(Pool("max", x, to, "3, 3", strides, pads, dilations));
  };
  EXPECT_EQ(pool("2, 2", "1, 1, 1, 1", "1, 1", y), "taken");
  EXPECT_EQ(pool("2, 2", "1, 1, 1, 1", "2, 2", y), "shape_unknown_to_library");
  EXPECT_EQ(pool("2, 0", "1, 1, 1, 1", "1, 1", y), "shape_unknown_to_library");
  EXPECT_EQ(pool("2, 2", "3, 3, 1, 1", "1, 1", {2, 4, 6, 6}), "shape_unknown_to_library");
  EXPECT_EQ(pool("2, 2", "1, 1, 1, 1", "1, 1", {2, 4, 6, 5}), "shape_unknown_to_library");
  EXPECT_EQ(pool("2, 2", "1, 1", "1, 1", y), "shape_unknown_to_library");
  EXPECT_EQ(reason(Pool("median", x, y, "3, 3", "2, 2", "1, 1, 1, 1", "1, 1")),
            "op_unknown_to_library");
  const auto line = PoolingOf(Pool("max", {2, 4, 9}, {2, 4, 7}, "3", "1", "0, 0", "1"));
  ASSERT_TRUE(line.yes()) << line.refusal().detail;
  EXPECT_EQ(line->x, (Shape{2, 4, 1, 9}));
  EXPECT_EQ(line->window, (std::vector<int64_t>{1, 3}));
}

TEST(Cudnn, HasAWayForPooling) {
  if (LibraryVersion(Library::kCudnn).empty()) GTEST_SKIP() << "no cuDNN can be loaded here";
  for (const std::string how : {"max", "avg_include_padding", "avg_exclude_padding"}) {
    const LibraryCall calls[] = {
        Pool(how, {1, 64, 112, 112}, {1, 64, 56, 56}, "3, 3", "2, 2", "1, 1, 1, 1", "1, 1"),
        Pool(how, {2, 3, 9, 7}, {2, 3, 8, 7}, "2, 3", "1, 1", "0, 1, 0, 1", "1, 1"),
        Pool(how, {1, 2048, 7, 7}, {1, 2048, 1, 1}, "7, 7", "1, 1", "0, 0, 0, 0", "1, 1"),
        Pool(how, {2, 4, 120}, {2, 4, 60}, "2", "2", "0, 0", "1"),
        Pool(how, {1, 4, 8, 8, 8}, {1, 4, 4, 4, 4}, "2, 2, 2", "2, 2, 2", "0, 0, 0, 0, 0, 0",
             "1, 1, 1")};
    for (const LibraryCall& call : calls)
      for (const Isa isa : kIsas) {
        const Status status = CheckWithoutDevice(call, isa);
        EXPECT_TRUE(status.ok()) << status.ToString() << " of " << CanonicalText(call);
      }
  }
}

TEST(Cudnn, HidesOnRequest) {
  setenv("WEFT_CUDNN", "none", 1);
  setenv("WEFT_CUBLAS", "none", 1);
  EXPECT_EQ(LibraryVersion(Library::kCudnn), "");
  EXPECT_EQ(LibraryVersion(Library::kCublas), "");
  EXPECT_EQ(CheckWithoutDevice(Convolve(kImage), Isa::kSm90).code(), Code::kMissing);
  EXPECT_EQ(PrepareOnDevice(Convolve(kImage), nullptr).status().code(), Code::kMissing);
  EXPECT_EQ(PrepareOnDevice(Matmul({4, 5}, {5, 6}, {4, 6}), nullptr).status().code(),
            Code::kMissing);
  unsetenv("WEFT_CUDNN");
  unsetenv("WEFT_CUBLAS");
}

}  // namespace
}  // namespace weft::fallback
