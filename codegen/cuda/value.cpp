#include "codegen/cuda/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace weft::codegen::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;

namespace {

constexpr size_t kLongText = 90;  // what is longer becomes a line of its own

// Everything below a value, parts before the whole, and how often each is used.
std::map<ExprId, int> UsesBelow(const loops::LoopNest& nest, ExprId root) {
  std::map<ExprId, int> uses{{root, 1}};
  // Parts have smaller ids, so going down the map meets every user of a part before the part.
  for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
    for (const ExprId arg : nest[it->first].args) ++uses[arg];
  }
  return uses;
}

}  // namespace

std::string Values::Index(const Affine& e) const {
  const auto floor_div = [this](const Affine& dividend, int64_t divisor) {
    if (ranges_.NonNegative(dividend)) return fmt::format("(({})/{})", Index(dividend), divisor);
    return fmt::format("{}<{}>({}, {})", helpers_.Use("weft_floor_div"), index_type_,
                       Index(dividend), divisor);
  };
  return AffineText(e, [this](Var v) { return VarName(v); }, floor_div);
}

std::string Values::Conjunction(const std::vector<Affine>& conditions) const {
  std::vector<std::string> parts;
  for (const Affine& e : conditions) parts.push_back(Index(e) + " >= 0");
  return parts.empty() ? "true" : fmt::format("{}", fmt::join(parts, " && "));
}

std::string Values::Fold(std::string_view function, const std::vector<Affine>& list) const {
  std::string text = Index(list[0]);
  for (size_t i = 1; i < list.size(); ++i) {
    text = fmt::format("{}(({})({}), ({})({}))", function, index_type_, text, index_type_,
                       Index(list[i]));
  }
  return text;
}

std::string Values::Largest(const std::vector<Affine>& list) const { return Fold("max", list); }
std::string Values::Least(const std::vector<Affine>& list) const { return Fold("min", list); }

std::string Values::Element(BufferId buffer, const std::vector<Affine>& index) {
  const std::string& name = names_.buffers[static_cast<size_t>(buffer.index)];
  if (nest_[buffer].space != loops::Space::kCluster)
    return fmt::format("{}[{}]", name, Index(loops::ElementOffset(nest_[buffer], index)));
  std::vector<Affine> in_slice = index;
  in_slice[0] = 0;
  const std::string offset = Index(loops::ElementOffset(nest_[buffer], in_slice));
  if (index[0] == Affine::OfVar(place_in_cluster_)) return fmt::format("{}[{}]", name, offset);
  return fmt::format("{}({}, {})[{}]", helpers_.Use("weft_of_block"), name, Index(index[0]),
                     offset);
}

std::string Values::ToMemory(Dtype dtype, const std::string& value) {
  if (dtype == Dtype::kBool) return fmt::format("(unsigned char)({})", value);
  if (dtype == Dtype::kF16) return fmt::format("{}({})", helpers_.Use("weft_to_f16"), value);
  if (dtype == Dtype::kBF16) return fmt::format("{}({})", helpers_.Use("weft_to_bf16"), value);
  return value;
}

// Four-bit elements of operands lie in pairs; elsewhere each has a byte.
bool Values::IsHalfByte(BufferId buffer) const {
  return SharesBytes(nest_[buffer].dtype) && nest_[buffer].space == loops::Space::kGlobal;
}

std::string Values::StoreTo(BufferId buffer, const std::vector<Affine>& index,
                            const std::string& value) {
  if (!IsHalfByte(buffer)) return fmt::format("{} = {};", Element(buffer, index), value);
  return fmt::format("{}<{}>({}, {}, {});", helpers_.Use("weft_set_half"),
                     MemoryType(nest_[buffer].dtype),
                     names_.buffers[static_cast<size_t>(buffer.index)],
                     Index(loops::ElementOffset(nest_[buffer], index)), value);
}

// A four-bit element of an operand; the other half of its byte is a neighbour's.
std::string Values::HalfByte(const Expr& e) const {
  const Affine offset = loops::ElementOffset(nest_[e.buffer], e.index);
  return WrapFour(e.dtype, fmt::format("({}[{}] >> 4 * ({}))",
                                       names_.buffers[static_cast<size_t>(e.buffer.index)],
                                       Index(FloorDiv(offset, 2)), Index(Mod(offset, 2))));
}

std::string Values::Load(ExprId id) {
  const Expr& e = nest_[id];
  const auto known = known_.find(id);
  std::string text = known != known_.end()  ? known->second
                     : IsHalfByte(e.buffer) ? HalfByte(e)
                                            : Element(e.buffer, e.index);
  if (e.dtype == Dtype::kBool) text = fmt::format("({} != 0)", text);
  if (e.dtype == Dtype::kF16) text = fmt::format("{}({})", helpers_.Use("weft_from_f16"), text);
  if (e.dtype == Dtype::kBF16) text = fmt::format("{}({})", helpers_.Use("weft_from_bf16"), text);
  if (e.guards.empty() || known != known_.end()) return text;
  return fmt::format("({} ? {} : {})", Conjunction(e.guards), text, LiteralText(e.dtype, Scalar{}));
}

std::string Values::Node(ExprId id, std::span<const std::string> args) {
  const Expr& e = nest_[id];
  switch (e.kind) {
    case ExprKind::kLiteral: {
      const std::string text = LiteralText(e.dtype, e.literal);
      return text.starts_with('-') || text.starts_with('(') ? "(" + text + ")" : text;
    }
    case ExprKind::kAffine:
      return CastText(helpers_, Dtype::kI64, e.dtype,
                      fmt::format("(long long)({})", Index(e.index[0])));
    case ExprKind::kLoad:
      return Load(id);
    case ExprKind::kOp:
      return OpText(helpers_, e.op, nest_[e.args.back()].dtype, e.dtype, args);
  }
  return "";
}

std::string Values::Emit(ExprId root, std::vector<std::string>& lines) {
  std::map<ExprId, std::string> text;
  int parts = 0;
  for (const auto& [id, uses] : UsesBelow(nest_, root)) {
    const Expr& e = nest_[id];
    std::vector<std::string> args;
    for (const ExprId arg : e.args) args.push_back(text[arg]);
    std::string value = Node(id, args);
    const bool named = e.kind != ExprKind::kLiteral && (uses > 1 || value.size() > kLongText);
    if (named && id != root) {
      const std::string name = fmt::format("t{}", parts++);
      lines.push_back(fmt::format("const {} {} = {};", RegisterType(e.dtype), name, value));
      value = name;
    }
    text[id] = std::move(value);
  }
  return text[root];
}

}  // namespace weft::codegen::cuda
