// What the files of ai.onnx.ml share.
#pragma once

#include "graph/onnx/expansion.h"

namespace weft::graph::ml {

// An attribute's list; empty if it is absent.
std::vector<float> Floats(const Node& node, std::string_view name);
std::vector<int64_t> Ints(const Node& node, std::string_view name);
std::vector<std::string> Strings(const Node& node, std::string_view name);

// Of a table that a file says by its places: trees' leaves by targets, machines by classes.
inline constexpr int64_t kMostWeights = int64_t{1} << 26;

Tensor TensorOf(std::span<const float> list, Shape shape);
Tensor TensorOf(std::span<const std::string> list);

// Rows of floats [N, F]: of f64 if x is and `wide`, else of f32. A vector is one row.
Result<ValueId> Rows(Expansion& e, Formula& f, ValueId x, bool wide = false);

// What becomes of scores [N, E].
enum class Post : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
Result<Post> PostTransform(const Node& node);
ValueId Transformed(Formula& f, Expansion& e, Post post, ValueId scores);

// Labels as a constant [E]: of strings or of integers.
struct Labels {
  ValueId list;
  int64_t count = 0;
};
Result<Labels> LabelsOf(Expansion& e, std::string_view ints, std::string_view strings);

Status ExpandTreeEnsemble(Expansion& e);
Status ExpandTreeRegressor(Expansion& e);
Status ExpandTreeClassifier(Expansion& e);
Status ExpandSvmClassifier(Expansion& e);
Status ExpandSvmRegressor(Expansion& e);

}  // namespace weft::graph::ml
