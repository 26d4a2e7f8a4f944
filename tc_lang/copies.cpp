#include "tc_lang/copies.h"

#include <algorithm>
#include <optional>

namespace weft::tc {
namespace {

// Whether each value of an integer type is one of another.
bool Holds(Dtype wide, Dtype narrow) {
  if (!IsInteger(wide) || !IsInteger(narrow)) return wide == narrow;
  if (KindOf(wide) == KindOf(narrow)) return Bits(wide) >= Bits(narrow);
  return KindOf(wide) == DtypeKind::kSigned && Bits(wide) > Bits(narrow);
}

// The read whose elements a value has, unchanged by casts.
const Expr* Copied(const Program& p, const Statement& s) {
  const Dtype dtype = p[s.target].dtype;
  const Expr* e = &p[s.value];
  while (e->kind == ExprKind::kOp && e->op == ScalarOp::kCast && Holds(e->dtype, dtype))
    e = &p[e->args[0]];
  return e->kind == ExprKind::kRead && e->dtype == dtype ? e : nullptr;
}

// By axis the place of the index that it is, which no other axis is; -1 for a constant. Nullopt if
// an axis is anything else.
std::optional<std::vector<int32_t>> IndicesOf(const Program& p, const std::vector<ExprId>& subs) {
  std::vector<int32_t> indices;
  for (const ExprId sub : subs) {
    const auto e = AsAffine(p, sub);
    const auto var = e ? e->AsVar() : std::nullopt;
    if (!var && !(e && e->IsConstant())) return std::nullopt;
    if (var && std::ranges::count(indices, *var) > 0) return std::nullopt;
    indices.push_back(var.value_or(-1));
  }
  return indices;
}

class Dropper {
 public:
  Dropper(Program& program, const std::map<std::string, Layout>& layouts)
      : program_(program), layouts_(layouts) {}

  bool Drop(size_t place) {
    const Statement s = program_.statements[place];
    const Expr* const copied = Copied(program_, s);
    if (s.assign != Assign::kSet || Reduces(s) || copied == nullptr) return false;
    if (program_[s.target].role != Role::kTemporary ||
        program_[copied->tensor].role != Role::kInput ||
        std::ranges::count(program_.statements, s.target, &Statement::target) > 1)
      return false;
    const auto to = IndicesOf(program_, s.subscripts), from = IndicesOf(program_, copied->args);
    if (!to || !from || !InOrder(*copied, *to, *from)) return false;
    Redirect(s.target, *copied, *to, *from);
    program_.statements.erase(program_.statements.begin() + static_cast<std::ptrdiff_t>(place));
    Erase(s.target);
    return true;
  }

 private:
  // Whether the indices move the temporary in the order in which they move the input in memory, all
  // of them from 0 on.
  bool InOrder(const Expr& copied, const std::vector<int32_t>& to,
               const std::vector<int32_t>& from) const {
    const auto it = layouts_.find(program_[copied.tensor].name);
    const Layout layout = it == layouts_.end() ? Layout::Plain(from.size()) : it->second;
    std::vector<int32_t> in_memory, wanted;
    for (const auto& [axis, block] : layout.axes) {
      if (block != 0) return false;
      if (from[static_cast<size_t>(axis)] >= 0)
        in_memory.push_back(from[static_cast<size_t>(axis)]);
    }
    std::ranges::copy_if(to, std::back_inserter(wanted), [](int32_t i) { return i >= 0; });
    // An axis of the temporary that is always the same says nothing of what is read from it.
    return wanted.size() == to.size() && in_memory == wanted;
  }

  // Reads of the temporary become reads of the input.
  void Redirect(TensorId target, const Expr& copied, const std::vector<int32_t>& to,
                const std::vector<int32_t>& from) {
    const TensorId input = copied.tensor;
    const std::vector<ExprId> constant = copied.args;
    for (Expr& e : program_.exprs) {
      if (e.kind != ExprKind::kRead || e.tensor != target) continue;
      std::vector<ExprId> subs = constant;
      for (size_t axis = 0; axis < from.size(); ++axis)
        if (from[axis] >= 0) subs[axis] = e.args[std::ranges::find(to, from[axis]) - to.begin()];
      e.tensor = input;
      e.args = std::move(subs);
    }
  }

  void Erase(TensorId gone) {
    const auto shift = [gone](TensorId& id) {
      if (id.valid() && id.index > gone.index) --id.index;
    };
    for (Expr& e : program_.exprs) shift(e.tensor);
    for (Statement& s : program_.statements) {
      shift(s.target);
      shift(s.companion);
    }
    program_.tensors.erase(program_.tensors.begin() + gone.index);
  }

  Program& program_;
  const std::map<std::string, Layout>& layouts_;
};

}  // namespace

std::vector<size_t> DropCopies(Program& program, const std::map<std::string, Layout>& layouts) {
  std::vector<size_t> dropped;
  Dropper dropper(program, layouts);
  for (size_t place = 0; place < program.statements.size();) {
    if (dropper.Drop(place))
      dropped.push_back(place + dropped.size());
    else
      ++place;
  }
  return dropped;
}

}  // namespace weft::tc
