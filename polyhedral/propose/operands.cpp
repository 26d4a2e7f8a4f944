#include "polyhedral/propose/operands.h"

#include <algorithm>

#include "polyhedral/axes.h"

namespace weft::polyhedral {
namespace {

// Cycles for an element of an operand that is copied: transposed in registers and stored, and
// loaded again from a cache that is farther away. Below so many uses the loops of rows do better;
// where lanes take each channel by itself, these mask or gather what a window reads of a row.
constexpr double kCopied = 0.3, kLeastUses = 16, kLeastUsesOfChannels = 2;

}  // namespace

int32_t Operands::AxisAlong(tc::ExprId read, int32_t index) const {
  for (size_t a = 0; a < program[read].args.size(); ++a) {
    const auto e = tc::AsAffine(program, program[read].args[a]);
    if (!e || e->CoefficientOf(index) != 1) continue;
    const Affine rest = *e - Affine::OfVar(index);
    const bool whole = std::ranges::all_of(
        rest.terms(), [&](const Affine::Term& t) { return t.coefficient % Extent(index) == 0; });
    if (!rest.Uses(index) && whole && rest.constant() % Extent(index) == 0)
      return static_cast<int32_t>(a);
  }
  return -1;
}

bool Operands::IsWindow(tc::ExprId read, int32_t index) const {
  if (!Uses(read, index) || AxisOf(read, index) >= 0) return false;
  const auto place = tc::AsAffine(program, program[read].args[Innermost(program[read])]);
  return StrideOf(read, index) <= 1 || !place || place->terms().size() != 1;
}

size_t Operands::Innermost(const tc::Expr& read) const {
  return static_cast<size_t>(LayoutOf(*view.request, program[read.tensor]).axes.back().axis);
}

bool Operands::Adjacent(tc::ExprId read, int32_t index) const {
  const tc::Expr& e = program[read];
  const auto inner = tc::AsAffine(program, e.args[Innermost(e)]);
  if (!inner || inner->AsVar() == index) return inner.has_value();
  const Affine places = *inner - Affine::OfVar(index);
  return !places.Uses(index) && Extent(index) % 2 == 0;
}

int64_t Operands::Bytes(tc::ExprId read) const {
  const tc::Expr& e = program[read];
  const auto shape = tc::StaticExtents(program[e.tensor]);
  int64_t bits = Bits(e.dtype);
  for (size_t axis = 0; shape && axis < shape->size(); ++axis) {
    const auto sub = tc::AsAffine(program, e.args[axis]);
    int64_t places = 1;
    for (int32_t i = 0; sub && i < std::ssize(s.indices); ++i) {
      const int64_t steps = StepsToMove(read, i);
      if (sub->Uses(i)) places *= std::max<int64_t>(1, (Extent(i) + steps - 1) / steps);
    }
    bits *= sub ? std::min(places, (*shape)[axis]) : (*shape)[axis];
  }
  return bits / 8;
}

int32_t Operands::OutputLane() const {
  const tc::Statement& last = view.At(view.statements.size() - 1);
  const int32_t out = ContiguousIndex(*view.request, last, last.target, last.subscripts);
  if (out < 0) return -1;
  const auto found = std::ranges::find(axes, view.axes.back()[out]);
  return found == axes.end() ? -1 : static_cast<int32_t>(found - axes.begin());
}

bool Operands::Streams(tc::ExprId read, int32_t index) const {
  const auto streams = [&](tc::ExprId beside) { return Streams(beside, index); };
  if (read == c.w && !std::ranges::all_of(c.beside_w, streams)) return false;
  if (!Uses(read, index) || Packable(read, index)) return true;
  const tc::Expr& e = program[read];
  if (ContiguousIndex(*view.request, s, e.tensor, e.args) == index) return true;
  if (StrideOf(read, index) > 1) return true;
  // Groups of lanes that share an element: one for all lanes, or near each other.
  const int64_t steps = StepsToMove(read, index);
  if (steps == 1) return false;
  const auto near = tc::AsAffine(program, e.args[Innermost(e)]);
  return steps % Vector() == 0 || (near && near->Uses(index));
}

int64_t Operands::StrideOf(tc::ExprId read, int32_t index) const {
  constexpr int64_t kMost = 4, kLeastRows = 8;
  const tc::Expr& e = program[read];
  if (view.request->target.kind != TargetKind::kCpu || MovesBoth(index) || Packable(read, index) ||
      e.dtype != Dtype::kF32 || e.args.empty())
    return 1;
  const auto serves = [&](int32_t i) {
    const int64_t rows = Uses(read, i) ? StepsToMove(read, i) : Extent(i);
    return i != index && IsShared(i) && rows >= kLeastRows;
  };
  const auto place = tc::AsAffine(program, e.args[Innermost(e)]);
  if (!place || std::ranges::none_of(c.kept, serves)) return 1;
  const int64_t stride = place->CoefficientOf(index);
  const bool alone = !(*place - Affine::OfVar(index, stride)).Uses(index);
  for (size_t axis = 0; axis < e.args.size(); ++axis) {
    if (axis == Innermost(e)) continue;
    const auto other = tc::AsAffine(program, e.args[axis]);
    if (!other || other->Uses(index)) return 1;
  }
  return alone && stride > 1 && stride <= kMost ? stride : 1;
}

bool Operands::Packable(tc::ExprId read, int32_t index) const {
  const std::string& name = program[program[read].tensor].name;
  const bool constant = std::ranges::count(view.request->constants, name) > 0;
  return constant && !view.request->layouts.contains(name) && AxisOf(read, index) >= 0;
}

bool Operands::IsCopy(tc::ExprId read) const {
  return view.request->copies.contains(program[program[read].tensor].name);
}

bool Operands::TakesCopy(tc::ExprId read, int32_t index) const {
  if (!IsCopy(read) || !Uses(read, index) || AxisOf(read, index) < 0) return false;
  const auto uses_pay = [&](double least) { return CopyCycles(read) * least < kCopied * Steps(); };
  if (!MovesBoth(index)) return uses_pay(kLeastUses);
  const auto laid_out =
      view.request->layouts.find(view.request->copies.at(program[program[read].tensor].name));
  const bool lies = laid_out != view.request->layouts.end() &&
                    laid_out->second.axes.back().axis == AxisOf(read, index);
  const bool near = Bytes(read) * Vector() <= view.request->target.l2_bytes * Extent(index);
  return !lies && near && Extent(index) >= Vector() && uses_pay(kLeastUsesOfChannels);
}

tc::ExprId Operands::Copied(int32_t lane) const {
  for (const tc::ExprId read : {c.w, c.x}) {
    const tc::ExprId other = read == c.w ? c.x : c.w;
    if (read == c.w && !c.beside_w.empty()) continue;  // one copy is not all of the factor
    if (TakesCopy(read, lane) && (!Uses(other, lane) || Streams(other, lane))) return read;
  }
  return {};
}

double Operands::CopyCycles(tc::ExprId read) const {
  const int64_t elements = Bytes(read) / SizeBytes(program[read].dtype);
  double outputs = 1;
  for (const int32_t i : c.kept) outputs *= static_cast<double>(std::max<int64_t>(1, Extent(i)));
  return kCopied * static_cast<double>(elements) / outputs;
}

bool Operands::LeapsPages(tc::ExprId read, int32_t lane) const {
  constexpr int64_t kPage = 4096;
  const tc::TensorDecl& tensor = program[program[read].tensor];
  const bool lies = (tensor.role == tc::Role::kInput || IsCopy(read)) && !Packable(read, lane) &&
                    !view.request->layouts.contains(tensor.name);
  const int32_t step = ReductionOrder(lane).back();
  const bool alone = AxisOf(read, step) >= 0 || c.reduced.size() == 1;  // not a group's, with taps
  return lies && alone && BytesBetween(read, step) >= kPage;
}

int64_t Operands::BytesBetween(tc::ExprId read, int32_t index) const {
  return polyhedral::BytesBetween(*view.request, program[read].tensor, program[read].args, index);
}

int64_t Operands::BytesBetweenResults(int32_t index) const {
  const tc::Statement& last = view.At(view.statements.size() - 1);
  const std::vector<std::string>& own = view.axes.back();
  const auto found = std::ranges::find(own, axes[index]);
  if (found == own.end()) return 0;
  return polyhedral::BytesBetween(*view.request, last.target, last.subscripts,
                                  static_cast<int32_t>(found - own.begin()));
}

int64_t Operands::ResultBytes() const {
  return SizeBytes(program[view.At(view.statements.size() - 1).target].dtype);
}

double Operands::Steps() const {
  double steps = 1;
  for (const int32_t i : c.reduced) steps *= static_cast<double>(std::max<int64_t>(1, Extent(i)));
  return steps;
}

std::vector<int32_t> Operands::ReductionOrder(int32_t lane) const {
  std::vector<int32_t> order = c.reduced;
  const tc::Expr& x = program[Broadcast(lane)];
  const auto sub = x.args.empty() ? std::nullopt : tc::AsAffine(program, x.args[Innermost(x)]);
  if (sub) std::ranges::stable_partition(order, [&](int32_t i) { return sub->AsVar() != i; });
  return order;
}

bool Operands::IsNarrow() const {
  const Dtype x = program[c.x].dtype, w = program[c.w].dtype;
  const auto fits = [](Dtype d) { return d == Dtype::kI16 || d == Dtype::kI8 || d == Dtype::kU8; };
  if (view.request->target.kind != TargetKind::kCpu || !c.beside_w.empty()) return false;
  if (s.accumulate == Dtype::kF32) return x == Dtype::kBF16 && w == Dtype::kBF16;
  return s.accumulate == Dtype::kI32 && fits(x) && fits(w);
}

bool Operands::Flushes() const {
  return IsNarrow() && IsFloat(s.accumulate) && view.request->flushes &&
         HasBfloatProducts(view.request->target.isa);
}

}  // namespace weft::polyhedral
