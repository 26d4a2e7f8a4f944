// How a translator writes its comprehension: operands, indices with their ranges, statements.
//
//   void Relu(Writer& w) {
//     const Operand x = w.In(0), y = w.Out(0);
//     const Subs i = w.Indices("i", y.dims);              // i0, i1, … over y's axes
//     w.Set("pointwise", y, i, fmt::format("max({}, {})", w.At(x, i), Lit(y.dtype, 0)));
//   }
//
// gives `@pointwise y(i0, i1) = max(x(i0, i1), 0.0) where i0 in 0:2, i1 in 0:8  # /relu1`. The
// ranges come from the indices that a statement mentions; an operand becomes a parameter when it is
// read.
//
// 16-bit floats are computed in float32 and rounded when stored, by the rules of the language. What
// is float32 by type in such a def (temporaries, literals that 16 bits can't hold) makes a value
// float32; then Set writes the cast, and a reduction goes through a float32 temporary.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/verdict.h"
#include "graph/graph.h"
#include "tc_lang/to_tc.h"

namespace weft::tc::ops {

using Subs = std::vector<std::string>;  // subscripts, one an axis
using Ints = std::vector<int64_t>;

// An extent as the def writes it: a number, or the name of a param.
struct Dim {
  int64_t value = 0;
  std::string symbol;
  Dim(int64_t v = 0) : value(v) {}  // NOLINT: numbers are extents
  bool symbolic() const { return !symbol.empty(); }
  bool IsOne() const { return !symbolic() && value == 1; }
  std::string text() const { return symbolic() ? symbol : std::to_string(value); }
  bool operator==(const Dim&) const = default;
};
using Dims = std::vector<Dim>;

struct Operand {
  graph::ValueId id;  // invalid: a temporary
  std::string name;   // in the def
  Dims dims;          // unknown for temporaries
  Dtype dtype = Dtype::kF32;
  std::string literal;  // not empty: a constant scalar, written in place
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

std::string Cast(Dtype dtype, std::string_view expr);
std::string Cast(Dtype to, Dtype from, std::string expr);  // as it is if both are the same
// Literals of the type (float32 if 16 bits can't hold the value), in parentheses when negative.
std::string Lit(Dtype dtype, double value);
std::string LitInt(Dtype dtype, int64_t value);
std::string Lowest(Dtype dtype);  // what max=! starts from
std::string Highest(Dtype dtype);
std::string Join(std::span<const std::string> parts, std::string_view separator);
// "2*h + r - 1", leaving out what adds nothing.
std::string Sum(const std::vector<std::pair<int64_t, std::string>>& terms, int64_t constant = 0);
// An index that counts from the end if it is negative. What is too far from it stays as it is, so
// that an error names the index that was given.
std::string FromEnd(const std::string& index, int64_t extent);
Subs Concat(Subs a, const Subs& b);
int64_t Product(std::span<const int64_t> extents);

class Writer {
 public:
  Writer(const graph::Graph& graph, graph::NodeId id);

  // The node.
  const graph::Graph& graph;
  const graph::Node& node;
  bool Has(size_t i) const { return graph::InputAt(node, i).valid(); }
  bool HasOut(size_t i) const { return i < node.outputs.size() && node.outputs[i].valid(); }
  Operand In(size_t i);
  Operand Value(graph::ValueId id);  // one that is no input of the node
  Operand Arg(size_t i);             // as In, but a constant of one element is a literal
  Operand Out(size_t i = 0);
  int64_t Int(std::string_view name, int64_t otherwise) const {
    return IntAttr(node, name, otherwise);
  }
  double Float(std::string_view name, float otherwise) const {
    return FloatAttr(node, name, otherwise);
  }
  // The attribute's list, or `otherwise` n times when it is absent.
  Ints IntsOr(std::string_view name, int64_t otherwise, size_t n);
  // Constant elements of input i; refuses (and gives `otherwise`) if they are not known here.
  Ints ConstInts(size_t i);
  double ConstFloat(size_t i, double otherwise);
  const Tensor* Constant(size_t i) const;    // null unless it is one
  int64_t Axis(int64_t axis, int64_t rank);  // made non-negative, refuses if out of range
  Ints Axes(std::span<const int64_t> axes, int64_t rank);
  int64_t Extent(const Operand& x, int64_t axis);  // refuses a symbol
  Ints Extents(const Operand& x, int64_t first = 0);

  // Indices. Later statements that mention `name` range it over [lo, hi).
  std::string Range(std::string name, const Dim& hi, int64_t lo = 0);
  Subs Indices(std::string_view prefix, const Dims& dims);

  std::string At(const Operand& x, const Subs& subs);  // "x(i, j)", or the literal
  // Numpy broadcasting: x's axes are the last of `subs`, over the extents `dims`.
  Subs Align(const Operand& x, const Subs& subs, const Dims& dims);
  std::string AtAligned(const Operand& x, const Subs& subs, const Dims& dims);

  // Names and statements.
  Operand Temp(std::string_view suffix, Dtype dtype);  // named after the first output; at least f32
  Operand Copy(std::string_view suffix, Dtype dtype);  // likewise, of values of just this type
  void Declare(const Operand& temp, const Dims& dims);  // where a recurrence reads it first
  Operand Const(std::string_view suffix, Dtype dtype, const Ints& shape,
                std::span<const double> elements);
  void Set(std::string_view tag, const Operand& y, const Subs& subs, const std::string& value);
  void Reduce(std::string_view tag, const Operand& y, const Subs& subs, std::string_view assign,
              const std::string& value);
  // (v(subs), k(subs)) assign (value, companion)
  void Pick(std::string_view tag, const Operand& v, const Operand& k, const Subs& subs,
            std::string_view assign, const std::string& value, const std::string& companion);

  // The first refusal stays. Whoever calls on afterwards gets harmless values.
  void Refuse(std::string detail, Reason reason = Reason::kNoComprehension);
  bool ok() const { return !refusal_; }
  const Refusal& refusal() const { return *refusal_; }
  std::string Text();  // the def
  Verdict<Alternative> Finish(std::string name);

 private:
  Operand Named(graph::ValueId id);
  bool IsWide(const std::string& value) const;
  std::string Fresh(std::string base);
  Dims DimsOf(const graph::Value& value);
  std::string Ranges(const std::string& statement) const;
  void Line(std::string_view tag, const std::string& statement);
  std::string Typed(const Operand& x) const;
  std::vector<graph::ValueId> Inputs() const;

  std::map<graph::ValueId, Operand> operands_;
  std::vector<graph::ValueId> others_;  // operands that the node does not name
  std::set<graph::ValueId> read_;
  std::set<std::string> names_, wide_names_;
  bool half_ = false;                       // some operand is a 16-bit float
  std::map<int32_t, std::string> symbols_;  // by SymbolId
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> ranges_;
  std::string constants_, statements_;
  size_t last_end_ = 0;  // of the last statement, before its comment
  std::optional<Refusal> refusal_;
};

}  // namespace weft::tc::ops
