#include "fallback/call.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft::fallback {
namespace {

constexpr const char* kMatmul =
    "onednn.matmul(src = pool1_flat: f32[1, 3136] ab, weights = fc1_w: f32[3136, 10] any const, "
    "bias = fc1_b: f32[10] a const) -> (dst = fc1: f32[1, 10] ab) {post = [relu], from = "
    "[\"/fc1/Gemm\"]}";

LibraryCall Parsed(std::string_view text, const BlobStore& blobs = {}) {
  auto call = ParseCall(text, "test", blobs);
  EXPECT_TRUE(call.ok()) << call.status().ToString();
  return call.ok() ? *std::move(call) : LibraryCall();
}

void ExpectRoundTrip(const LibraryCall& call) {
  ASSERT_TRUE(Verify(call).ok()) << Verify(call).ToString();
  BlobStore blobs;
  const std::string text = Print(call, blobs);
  const LibraryCall read = Parsed(text, blobs);
  EXPECT_TRUE(Equal(call, read)) << text;
  EXPECT_EQ(Print(read, blobs), text);
}

std::string ErrorOf(std::string_view text) {
  auto call = ParseCall(text, "test", BlobStore());
  return call.ok() ? "accepted" : call.status().ToString();
}

TEST(Call, PrintsWhatTheHeaderShows) {
  const LibraryCall call = Parsed(kMatmul);
  EXPECT_EQ(call.library, Library::kOnednn);
  EXPECT_EQ(call.op, "matmul");
  EXPECT_TRUE(FindOperand(call, "weights")->any_layout);
  EXPECT_TRUE(FindOperand(call, "weights")->constant);
  BlobStore blobs;
  EXPECT_EQ(Print(call, blobs), kMatmul);
}

TEST(Call, RoundTripsEveryKindOfAttribute) {
  LibraryCall call{.op = "TopK"};
  call.inputs = {
      {.role = "in0", .value = "scores of 1", .shape = {-1, 4}, .layout = Layout::Plain(2)},
      {.role = "in1"},
      {.role = "in2", .value = "k", .dtype = Dtype::kI64, .constant = true}};
  call.outputs = {{.role = "out0",
                   .value = "_",
                   .dtype = Dtype::kString,
                   .shape = {0},
                   .layout = Layout::Plain(1)}};
  Tensor small(Dtype::kF16, {2}), big(Dtype::kI32, {5, 5}), odd(Dtype::kF32, {1});
  SetElem(small, 0, 0.1);
  SetElem(odd, 0, std::nan(""));
  Tensor text(Dtype::kString, {1});
  text.strings()[0] = "a \"b\"\n";
  call.attributes = {{"a", int64_t{-5}},
                     {"b", 3.0f},
                     {"b2", -std::numeric_limits<float>::infinity()},
                     {"b3", std::nanf("")},
                     {"c", std::string("NOTSET")},
                     {"d", std::vector<int64_t>{}},
                     {"e", std::vector<float>{}},
                     {"f", std::vector<std::string>{}},
                     {"from", std::vector<int64_t>{1, -2}},
                     {"g", std::vector<float>{-1.0f, 0.1f}},
                     {"h", std::vector<std::string>{"x", ""}},
                     {"i", small},
                     {"j", big},
                     {"k", odd},
                     {"l", text},
                     {"m", Tensor(Dtype::kI64, {})},
                     {"n", Tensor(Dtype::kF32, {0, 3})},
                     {"post", int64_t{1}}};
  call.origins = {"/a/Top K", "b"};
  ExpectRoundTrip(call);
}

TEST(Call, RoundTripsLayoutsAndPostOps) {
  ExpectRoundTrip(
      Parsed("onednn.convolution(src = x: f32[1, 32, 8, 8] aBcd16b, weights = w: f32[16, 32, 1, 1] "
             "any const, "
             "post1 = r: f32[1, 16, 8, 8] acdb+16) -> (dst = y: f32[1, 16, 8, 8] acdb) "
             "{pads = [0, 0, 0, 0], post = [clip(0.0, 6.0), binary_add, leaky(0.01, 0.0)]}"));
  ExpectRoundTrip(Parsed("native.Identity(in0 = x: f32[] -) -> (out0 = y: f32[] -)"));
}

TEST(Call, CanonicalTextForgetsNamesOnly) {
  const auto canonical = [](std::string_view text) { return CanonicalText(Parsed(text)); };
  EXPECT_EQ(canonical("native.Add(in0 = p: f32[2] a, in1 = q: f32[2] a) -> (out0 = r: f32[2] a) "
                      "{from = [\"n\"]}"),
            canonical("native.Add(in0 = x: f32[2] a, in1 = y: f32[2] a) -> (out0 = z: f32[2] a)"));
  EXPECT_NE(canonical("native.Add(in0 = x: f32[2] a, in1 = y: f32[2] a) -> (out0 = z: f32[2] a)"),
            canonical("native.Add(in0 = x: f32[2] a, in1 = x: f32[2] a) -> (out0 = z: f32[2] a)"));
}

TEST(Call, RefusesWhatIsMalformed) {
  EXPECT_NE(ErrorOf("mkl.gemm() -> ()").find("expected a library"), std::string::npos);
  EXPECT_NE(ErrorOf("native.Add() -> ()").find("no outputs"), std::string::npos);
  EXPECT_NE(ErrorOf("native.A(x = a: f32[2] ab) -> (y = b: f32[] -)").find("layout ab for rank 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A(x = a: f32[-2] a) -> (y = b: f32[] -)").find("negative"),
            std::string::npos);
  EXPECT_NE(ErrorOf("onednn.a(x = a: f32[?] a) -> (y = b: f32[] -)").find("negative extent"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A(x = _, x = _) -> (y = b: f32[] -)").find("two operands"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[] - const)").find("constant"), std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[1, 1] ba)").find("plain"), std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[] -) {post = [relu]}").find("fuse nothing"),
            std::string::npos);
  EXPECT_NE(ErrorOf("onednn.a() -> (y = b: f32[] -) {post = [binary_add]}")
                .find("expected an operand post0"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[] -) {a = 1, a = 2}").find("given twice"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[] -) {a = f32[9000000000] const(1.0)}")
                .find("expected 9000000000"),
            std::string::npos);
  EXPECT_NE(ErrorOf("native.A() -> (y = b: f32[] -) x").find("end of the text"), std::string::npos);
}

TEST(Call, VerifyRefusesWhatTextCannotSay) {
  LibraryCall call = Parsed(kMatmul);
  call.inputs[0].layout.axes[0].axis = 40;
  EXPECT_FALSE(Verify(call).ok());
  call = Parsed(kMatmul);
  call.attributes = {{"b", int64_t{0}}, {"a", int64_t{0}}};
  EXPECT_FALSE(Verify(call).ok());
  call = Parsed(kMatmul);
  call.inputs[1].layout = *ParseLayout("ba");  // `any` and a layout at once
  EXPECT_FALSE(Verify(call).ok());
}

}  // namespace
}  // namespace weft::fallback
