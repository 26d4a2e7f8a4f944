#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/text.h"
#include "tc_lang/program.h"
#include "tc_lang/syntax.h"

namespace weft::tc {
namespace {

// Binding strength: an operand is put in parentheses when it binds less than its place asks for.
enum Level : int32_t { kSelect, kOr, kAnd, kCompare, kSum, kProduct, kUnary, kPrimary };

std::string FloatText(double value, std::string text) {
  if (std::isnan(value)) return "nan()";
  if (std::isinf(value)) return value < 0 ? "-infinity()" : "infinity()";
  return text.find_first_of(".eE") == std::string::npos ? text + ".0" : text;
}

bool FitsInt32(int64_t value) {
  // The smallest int32 is a minus before a literal that is already an int64.
  return value > std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}

// A literal so that it reads back with its type; `in_list` leaves out what a const's type says
// already.
std::string LiteralText(Dtype dtype, Scalar literal, bool in_list = false) {
  if (dtype == Dtype::kF32) return FloatText(literal.f32, PrintFloat(literal.f32));
  std::string text;
  if (dtype == Dtype::kF64)
    text = FloatText(literal.f64, PrintFloat(literal.f64));
  else if (IsFloat(dtype))
    text = FloatText(literal.f32, PrintFloat(literal.f32));
  else
    text = fmt::format("{}", literal.i);
  const bool plain = dtype == Dtype::kI32 && FitsInt32(literal.i);
  return plain || in_list ? text : fmt::format("{}({})", TypeWord(dtype), text);
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string Run() {
    std::string out = fmt::format("def {}({}) -> ({}) {{\n", program_.name, Params(), OutputList());
    for (const TensorDecl& tensor : program_.tensors) {
      if (tensor.role == Role::kLiteral) out += Const(tensor);
    }
    for (size_t i = 0; i < program_.tensors.size(); ++i) {
      const TensorDecl& tensor = program_.tensors[i];
      if (tensor.role == Role::kTemporary && MustDeclare(TensorId(i)))
        out += fmt::format("  {}\n", Typed(tensor));
    }
    for (const Statement& s : program_.statements) out += PrintStatement(s);
    return out + "}\n";
  }

 private:
  // A sum over params, in the words of the language.
  std::string Size(const Affine& e) const {
    std::string out;
    const auto add = [&](int64_t factor, const std::string& atom) {
      const bool minus = factor < 0;
      out += out.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
      const int64_t size = minus ? -factor : factor;
      if (atom.empty())
        out += fmt::format("{}", size);
      else
        out += size == 1 ? atom : fmt::format("{} * {}", size, atom);
    };
    for (const Affine::Term& term : e.terms()) {
      if (term.dividend == nullptr)
        add(term.coefficient, program_.params[static_cast<size_t>(term.var)]);
      else
        add(term.coefficient, fmt::format("(({}) / {})", Size(*term.dividend), term.divisor));
    }
    if (e.constant() != 0 || out.empty()) add(e.constant(), "");
    return out;
  }

  std::string Typed(const TensorDecl& tensor) const {
    if (tensor.extents.empty()) return fmt::format("{} {}", TypeWord(tensor.dtype), tensor.name);
    std::string dims;
    for (const Affine& extent : tensor.extents) dims += (dims.empty() ? "" : ", ") + Size(extent);
    return fmt::format("{}({}) {}", TypeWord(tensor.dtype), dims, tensor.name);
  }

  // Params that no input's extent mentions are size parameters; all stand in order of first
  // mention.
  std::string Params() const {
    std::string out;
    std::vector<bool> seen(program_.params.size(), false);
    size_t next = 0;
    const auto append = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
    const auto declare_up_to = [&](size_t end) {
      for (; next < end; ++next) {
        if (!seen[next]) append("size " + program_.params[next]);
      }
    };
    for (const TensorDecl& tensor : program_.tensors) {
      if (tensor.role != Role::kInput) continue;
      for (const Affine& extent : tensor.extents) {
        const std::optional<Var> param = extent.AsVar();
        if (!param) continue;
        const auto place = static_cast<size_t>(*param);
        if (!seen[place]) declare_up_to(place);
        seen[place] = true;
        next = std::max(next, place + 1);
      }
      append(Typed(tensor));
    }
    declare_up_to(program_.params.size());
    return out;
  }

  std::string OutputList() const {
    std::string out;
    for (const TensorDecl& tensor : program_.tensors) {
      if (tensor.role == Role::kOutput) out += (out.empty() ? "" : ", ") + Typed(tensor);
    }
    return out;
  }

  std::string Const(const TensorDecl& tensor) const {
    std::string extents, elements;
    for (const Affine& extent : tensor.extents) {
      extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent.constant());
    }
    for (int64_t i = 0; i < tensor.literal.elems(); ++i) {
      const Scalar element = LoadScalar(tensor.dtype, tensor.literal.data(), i);
      elements += (i == 0 ? "" : ", ") + LiteralText(tensor.dtype, element, true);
    }
    return fmt::format("  const {} {}({}) = {{{}}}\n", TypeWord(tensor.dtype), tensor.name, extents,
                       elements);
  }

  // A temporary's type is its first value's; only where a sum is kept wider does it need a word.
  bool MustDeclare(TensorId id) const {
    for (const Statement& s : program_.statements) {
      if (s.target == id) return program_[s.value].dtype != program_[id].dtype;
      if (s.companion == id) return program_[s.companion_value].dtype != program_[id].dtype;
    }
    return false;
  }

  std::string List(const Statement& s, const std::vector<ExprId>& ids) const {
    std::string out;
    for (ExprId id : ids) out += (out.empty() ? "" : ", ") + Text(s, id, kSelect);
    return out;
  }

  std::string Target(const Statement& s, TensorId id) const {
    if (s.subscripts.empty()) return program_[id].name;
    return fmt::format("{}({})", program_[id].name, List(s, s.subscripts));
  }

  std::string PrintStatement(const Statement& s) const {
    std::string out = "  ";
    if (s.tag != Tag::kNone) out += fmt::format("@{} ", TagName(s.tag));
    const std::string assign = std::string(AssignText(s.assign)) + (s.init ? "!" : "");
    if (s.companion.valid()) {
      out += fmt::format("({}, {}) {} ({}, {})", Target(s, s.target), Target(s, s.companion),
                         assign, Text(s, s.value, kSelect), Text(s, s.companion_value, kSelect));
    } else {
      out += fmt::format("{} {} {}", Target(s, s.target), assign, Text(s, s.value, kSelect));
    }
    for (size_t i = 0; i < s.indices.size(); ++i) {
      const Index& index = s.indices[i];
      out += fmt::format("{}{} in {}:{}", i == 0 ? " where " : ", ", index.name, Size(index.lo),
                         Size(index.hi));
    }
    const bool tuple_next = &s != &program_.statements.back() && (&s + 1)->companion.valid();
    if (tuple_next) out += ';';
    if (!s.origin.empty()) out += "  # " + Comment(s.origin);
    return out + '\n';
  }

  static std::string Comment(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    return text;
  }

  static std::string Wrap(bool parentheses, std::string text) {
    return parentheses ? '(' + std::move(text) + ')' : text;
  }

  std::string Text(const Statement& s, ExprId id, int32_t level) const {
    const Expr& e = program_[id];
    switch (e.kind) {
      case ExprKind::kLiteral: {
        std::string text = LiteralText(e.dtype, e.literal);
        const bool negative = text.starts_with('-');
        return Wrap(negative && level > kUnary, std::move(text));
      }
      case ExprKind::kIndex:
        return s.indices[static_cast<size_t>(e.position)].name;
      case ExprKind::kParam:
        return program_.params[static_cast<size_t>(e.position)];
      case ExprKind::kRead:
        if (e.args.empty()) return program_[e.tensor].name;
        return fmt::format("{}({})", program_[e.tensor].name, List(s, e.args));
      case ExprKind::kCheck:
        return fmt::format("within({})", List(s, e.args));
      case ExprKind::kOp:
        return Op(s, e, level);
    }
    WEFT_UNREACHABLE();
  }

  std::string Op(const Statement& s, const Expr& e, int32_t level) const {
    switch (e.op) {
      case ScalarOp::kSelect:
        return Wrap(level > kSelect,
                    fmt::format("{} ? {} : {}", Text(s, e.args[0], kOr),
                                Text(s, e.args[1], kSelect), Text(s, e.args[2], kSelect)));
      case ScalarOp::kOr:
        return Binary(s, e, kOr, level);
      case ScalarOp::kAnd:
        return Binary(s, e, kAnd, level);
      case ScalarOp::kLt:
      case ScalarOp::kLe:
      case ScalarOp::kGt:
      case ScalarOp::kGe:
      case ScalarOp::kEq:
      case ScalarOp::kNe:
        return Binary(s, e, kCompare, level);
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
        return Binary(s, e, kSum, level);
      case ScalarOp::kMul:
      case ScalarOp::kDiv:
      case ScalarOp::kMod:
        return Binary(s, e, kProduct, level);
      case ScalarOp::kNeg: {
        // A minus before a literal would read back as a negative literal.
        const bool literal = program_[e.args[0]].kind == ExprKind::kLiteral;
        if (literal) return fmt::format("neg({})", List(s, e.args));
        return Wrap(level > kUnary, "-" + Text(s, e.args[0], kUnary));
      }
      case ScalarOp::kNot:
        return Wrap(level > kUnary, "!" + Text(s, e.args[0], kUnary));
      case ScalarOp::kCast:
        return fmt::format("{}({})", TypeWord(e.dtype), List(s, e.args));
      case ScalarOp::kBitcast:
        return fmt::format("bitcast_{}({})", TypeWord(e.dtype), List(s, e.args));
      default:
        return fmt::format("{}({})", ScalarName(e.op), List(s, e.args));
    }
  }

  std::string Binary(const Statement& s, const Expr& e, int32_t own, int32_t level) const {
    return Wrap(level > own, fmt::format("{} {} {}", Text(s, e.args[0], own), ScalarName(e.op),
                                         Text(s, e.args[1], own + 1)));
  }

  const Program& program_;
};

}  // namespace

std::string Print(const Program& program) { return Printer(program).Run(); }

}  // namespace weft::tc
