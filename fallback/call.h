// LibraryCall: a call to somebody else's kernel as data. The noun of fallback/.
//
// A call says everything that its execution needs, so that a plan can hold it and an executor
// without a compiler can run it: which library, which operation, attributes, operands with their
// layouts, and what is fused behind it. Text form (`.call`), one line a call:
//
//   onednn.matmul(src = pool1_flat: f32[1, 3136] ab, weights = fc1_w: f32[3136, 10] any const,
//       bias = fc1_b: f32[10] a const) -> (dst = fc1: f32[1, 10] ab) {post = [relu], from =
//       ["/fc1/Gemm"]}
//
// A value of unknown extents (natives only) has `?` for each; an absent operand is `role = _`. The
// nodes that the call stands for follow as `from = ["/fc1/Gemm"]` in the braces, since a comment is
// not read back; an attribute that is itself called post or from is quoted.
//
// `any` lets the library choose the layout of an operand; what it chose is asked when the call is
// prepared. Constant operands in such a layout are packed once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/blob.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status.h"
#include "base/target.h"
#include "base/tensor.h"
#include "base/text.h"

namespace weft {
class Lexer;
}

namespace weft::fallback {

enum class Library : uint8_t { kNative, kOnednn, kCudnn, kCublas };
std::string_view LibraryName(Library library);  // "onednn"
std::optional<Library> ParseLibrary(std::string_view name);
// Whose calls a plan for such a target can have; natives aside.
std::span<const Library> LibrariesFor(TargetKind kind);
// Whether its calls are done by a CUDA device, in the device's memory.
inline bool IsOnDevice(Library library) {
  return library == Library::kCudnn || library == Library::kCublas;
}

// Strides, dilations and pads of windows are less than this: libraries compute with 32 bits.
inline constexpr int64_t kMostInWindow = 1 << 24;

struct CallOperand {
  std::string role;   // "src", "weights", "bias", "dst", "post0"; natives: "in0", "out0"
  std::string value;  // the graph value's name; empty: an absent optional operand
  Dtype dtype = Dtype::kF32;
  Shape shape;  // logical; -1: known when the network runs (natives only)
  Layout layout;
  bool any_layout = false;  // the library chooses
  bool constant = false;    // known when the plan is built
  bool operator==(const CallOperand&) const = default;
};

// Fused behind the operation, in order. Binary ones read the operand with role "post<k>".
struct PostOp {
  std::string kind;  // "relu", "clip", "sum", "binary_add", "swish", "hardswish", "gelu_erf", …
  float alpha = 0, beta = 0;  // as the kind defines
  bool operator==(const PostOp&) const = default;
};

using CallAttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                                        std::vector<float>, std::vector<std::string>, Tensor>;
struct CallAttribute {
  std::string name;
  CallAttributeValue value;
};

struct LibraryCall {
  Library library = Library::kNative;
  std::string op;  // "convolution", "matmul", "pooling"; natives: the ONNX operator
  std::vector<CallOperand> inputs, outputs;
  std::vector<CallAttribute> attributes;  // sorted by name
  std::vector<PostOp> post_ops;
  std::vector<std::string> origins;  // ONNX nodes it stands for
};

const CallAttribute* FindAttribute(const LibraryCall& call, std::string_view name);
int64_t IntAttr(const LibraryCall& call, std::string_view name, int64_t otherwise);
float FloatAttr(const LibraryCall& call, std::string_view name, float otherwise);
std::string StringAttr(const LibraryCall& call, std::string_view name, std::string_view otherwise);
std::vector<int64_t> IntsAttr(const LibraryCall& call, std::string_view name);
const CallOperand* FindOperand(const LibraryCall& call, std::string_view role);

std::string Print(const LibraryCall& call, BlobStore& blobs);
Result<LibraryCall> ParseCall(std::string_view text, const std::string& file,
                              const BlobStore& blobs);
// The same within a larger text, such as a plan: reads one call and stops behind it.
Result<LibraryCall> ParseCall(Lexer& lexer, const BlobStore& blobs);
Status Verify(const LibraryCall& call);
bool Equal(const LibraryCall& a, const LibraryCall& b);
// Names of values replaced by their place: calls that compute the same have the same text.
std::string CanonicalText(const LibraryCall& call);

}  // namespace weft::fallback
