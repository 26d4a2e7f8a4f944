// Expressions of a nest as CUDA C++: the same operations in the same order, so that device code
// differs from the interpreter at most in the payload of NaNs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/helpers.h"
#include "codegen/cuda/names.h"
#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/loops/ranges.h"

namespace weft::codegen::cuda {

// One operation on operands that are spelled already; an atom, or in parentheses.
std::string OpText(Helpers& helpers, ScalarOp op, Dtype operand, Dtype result,
                   std::span<const std::string> args);
std::string CastText(Helpers& helpers, Dtype from, Dtype to, const std::string& value);
std::string WrapFour(Dtype dtype, const std::string& value);  // the low four bits, as a number

class Values {
 public:
  Values(const loops::LoopNest& nest, const Names& names, Helpers& helpers)
      : nest_(nest),
        names_(names),
        helpers_(helpers),
        vars_(names.vars),
        index_type_(NeedsWideIndex(nest) ? "long long" : "int"),
        ranges_(nest) {}

  std::string_view index_type() const { return index_type_; }
  // What is known about variables where the emission stands.
  loops::Ranges& ranges() { return ranges_; }
  // The place of the block in its cluster, inside a loop over that; -1: outside.
  void SetPlaceInCluster(Var v) { place_in_cluster_ = v; }
  const std::string& VarName(Var v) const { return vars_[static_cast<size_t>(v)]; }
  void Rename(Var v, std::string text) { vars_[static_cast<size_t>(v)] = std::move(text); }

  std::string Index(const Affine& e) const;
  std::string Conjunction(const std::vector<Affine>& conditions) const;  // each >= 0
  std::string Largest(const std::vector<Affine>& list) const;
  std::string Least(const std::vector<Affine>& list) const;
  std::string Element(loops::BufferId buffer, const std::vector<Affine>& index);  // x[...]
  // The value; parts of it that are used twice, or long, become lines "const float t0 = ...;".
  std::string Emit(loops::ExprId root, std::vector<std::string>& lines);
  // The element that a load reads, as it lies in memory, spelled otherwise until all is forgotten.
  void Know(loops::ExprId load, std::string text) { known_[load] = std::move(text); }
  void Forget() { known_.clear(); }
  std::string ToMemory(Dtype dtype, const std::string& value);
  // The statement that stores what ToMemory gave.
  std::string StoreTo(loops::BufferId buffer, const std::vector<Affine>& index,
                      const std::string& value);

 private:
  std::string Node(loops::ExprId id, std::span<const std::string> args);
  std::string Load(loops::ExprId id);
  bool IsHalfByte(loops::BufferId buffer) const;
  std::string HalfByte(const loops::Expr& e) const;
  std::string Fold(std::string_view function, const std::vector<Affine>& list) const;

  const loops::LoopNest& nest_;
  const Names& names_;
  Helpers& helpers_;
  std::vector<std::string> vars_;
  std::string_view index_type_;
  loops::Ranges ranges_;
  Var place_in_cluster_ = -1;
  std::map<loops::ExprId, std::string> known_;
};

}  // namespace weft::codegen::cuda
