#include "tc_lang/bind_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/check.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

constexpr int64_t kMostNodes = 50000;  // of one statement: lets can double at each step

struct Operator {
  std::string_view text;
  ScalarOp op;
};
constexpr Operator kOperators[] = {
    {"+", ScalarOp::kAdd}, {"-", ScalarOp::kSub}, {"*", ScalarOp::kMul}, {"/", ScalarOp::kDiv},
    {"%", ScalarOp::kMod}, {"<", ScalarOp::kLt},  {"<=", ScalarOp::kLe}, {">", ScalarOp::kGt},
    {">=", ScalarOp::kGe}, {"==", ScalarOp::kEq}, {"!=", ScalarOp::kNe}, {"&&", ScalarOp::kAnd},
    {"||", ScalarOp::kOr}};

bool WantsInteger(ScalarOp op) {
  return op == ScalarOp::kBitAnd || op == ScalarOp::kBitOr || op == ScalarOp::kBitXor ||
         op == ScalarOp::kBitNot || op == ScalarOp::kShl || op == ScalarOp::kShr ||
         op == ScalarOp::kTruncDiv || op == ScalarOp::kIntPow;
}

// Functions of real numbers: integers are converted first.
bool WantsFloat(ScalarOp op) {
  return (IsMath(op) && !WantsInteger(op)) || op == ScalarOp::kSqrt || op == ScalarOp::kFloor ||
         op == ScalarOp::kCeil || op == ScalarOp::kTrunc || op == ScalarOp::kRound ||
         op == ScalarOp::kIsNan;
}

// A check of a type that what is still open passes.
bool MayBe(const Typed& value, bool (*holds)(Dtype)) { return value.open || holds(value.type); }
bool IsBool(Dtype dtype) { return dtype == Dtype::kBool; }

// The common type of those that are known; open if none is.
struct Common {
  Dtype type;
  bool open;
};
std::optional<Common> CommonType(std::span<const Typed> values) {
  std::optional<Dtype> type;
  for (const Typed& value : values) {
    if (value.open) continue;
    type = JoinTypes(type.value_or(value.type), value.type);
    if (!type) return std::nullopt;
  }
  return Common{type.value_or(Dtype::kF32), !type};
}

}  // namespace

bool IsBuiltin(std::string_view name) {
  if (name == "infinity" || name == "nan" || name == "within" || name.starts_with("bitcast_"))
    return true;
  const std::optional<ScalarOp> op = ParseScalarFunction(name);
  constexpr ScalarOp kOfLoops[] = {ScalarOp::kSelect,   ScalarOp::kCast,     ScalarOp::kBitcast,
                                   ScalarOp::kFmaFlush, ScalarOp::kAddFlush, ScalarOp::kLdexp,
                                   ScalarOp::kPick};
  return op && std::ranges::count(kOfLoops, *op) == 0;
}

std::vector<std::string> BuiltinNames() {
  std::vector<std::string> names = {"infinity", "nan", "within"};
  for (std::string_view name : {
#define WEFT_SCALAR(name, text, arity, kind) std::string_view(text),
#include "base/scalar.def"
#undef WEFT_SCALAR
       }) {
    if (IsBuiltin(name)) names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> Scope::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, id] : tensors) names.push_back(name);
  for (const auto& [name, value] : sizes) names.push_back(name);
  for (const auto& [name, place] : params) names.push_back(name);
  return names;
}

void ExprBinder::Begin(Dtype index_type) {
  at_.resize(program_.exprs.size());
  indices_.clear();
  frames_.clear();
  segments_.clear();
  frame_ = &frames_.emplace_back();
  index_type_ = index_type;
  nodes_ = visits_ = 0;
}

void ExprBinder::Clear(const Def& def) {
  read_.clear();
  open_.clear();
  open_reads_.clear();
  calls_.clear();
  float_literals_.clear();
  implicit_.clear();
  def_ = &def;
}

bool ExprBinder::AddIndex(const std::string& name, Location at) {
  const char* other = scope_.tensors.contains(name)                                 ? "a tensor"
                      : scope_.sizes.contains(name) || scope_.params.contains(name) ? "a size"
                      : frame_->lets.contains(name)                                 ? "a let"
                      : IsBuiltin(name) ? "a builtin function"
                                        : nullptr;
  if (other != nullptr) {
    Error(Problem::kTakenName, at,
          fmt::format("found '{}', which is {}, expected an index", name, other));
    return false;
  }
  if (std::find(indices_.begin(), indices_.end(), name) == indices_.end()) indices_.push_back(name);
  return true;
}

bool ExprBinder::AddLet(const SyntaxClause& clause) {
  const bool known = scope_.tensors.contains(clause.name) || scope_.sizes.contains(clause.name) ||
                     scope_.params.contains(clause.name) || IsBuiltin(clause.name) ||
                     std::find(indices_.begin(), indices_.end(), clause.name) != indices_.end();
  const Let let{.value = clause.a.get(), .frame = frame_};
  if (known || !frame_->lets.emplace(clause.name, let).second) {
    Error(Problem::kTakenName, clause.at, fmt::format("the name '{}' is taken", clause.name));
    return false;
  }
  return true;
}

ExprId ExprBinder::Add(Expr e, Location at) {
  ++nodes_;
  program_.exprs.push_back(std::move(e));
  at_.resize(program_.exprs.size());
  at_.back() = at;
  return ExprId(program_.exprs.size() - 1);
}

std::optional<Typed> ExprBinder::Error(Problem problem, Location at, std::string what,
                                       std::string hint) {
  diagnostics_.Add(problem, at, std::move(what), std::move(hint));
  return std::nullopt;
}

Typed ExprBinder::Op(ScalarOp op, Dtype node, Dtype type, std::vector<ExprId> args, Location at) {
  return {Add({.kind = ExprKind::kOp, .dtype = node, .op = op, .args = std::move(args)}, at), type};
}

Typed ExprBinder::FloatLiteral(double wide, float narrow, Location at) {
  Scalar s;
  s.f32 = narrow;
  const ExprId id = Add({.kind = ExprKind::kLiteral, .dtype = Dtype::kF32, .literal = s}, at);
  float_literals_[id.index] = wide;
  return {id, Dtype::kF32};
}

ExprId ExprBinder::Convert(Typed value, Dtype dtype) {
  Expr& e = program_.exprs[static_cast<size_t>(value.id.index)];
  if (e.dtype == dtype) return value.id;
  if (e.kind == ExprKind::kLiteral) {
    const auto written = float_literals_.find(value.id.index);
    if (written != float_literals_.end()) {
      e.literal = ScalarOf(dtype, written->second);
    } else {
      e.literal = EvalScalar(ScalarOp::kCast, e.dtype, dtype, {&e.literal, 1});
    }
    float_literals_.erase(value.id.index);
    e.dtype = dtype;
    return value.id;
  }
  const ExprId cast = Op(ScalarOp::kCast, dtype, dtype, {value.id}, At(value.id)).id;
  implicit_.insert(cast.index);
  return cast;
}

std::optional<Typed> ExprBinder::Bind(const SyntaxExpr& e, bool closed) {
  const bool outer = closed_;
  closed_ = closed_ || closed;
  std::optional<Typed> result;
  if (nodes_ > kMostNodes || ++visits_ > 2 * kMostNodes) {
    diagnostics_.Add(
        Problem::kTooMuch, e.at,
        fmt::format("the statement has more than {} operations, lets written out", kMostNodes), "",
        Code::kLimit);
  } else {
    switch (e.kind) {
      case SyntaxKind::kInt:
      case SyntaxKind::kFloat:
        result = Number(e, false);
        break;
      case SyntaxKind::kName:
        result = Name(e);
        break;
      case SyntaxKind::kApply:
        result = Apply(e);
        break;
      case SyntaxKind::kElement:
        result = Element(e);
        break;
      case SyntaxKind::kUnary:
        result = Unary(e);
        break;
      case SyntaxKind::kBinary:
        result = Binary(e);
        break;
      case SyntaxKind::kSelect:
        result = Select(e);
        break;
      case SyntaxKind::kCast:
        result = Cast(e, *e.cast);
        break;
    }
  }
  closed_ = outer;
  return result;
}

std::optional<Typed> ExprBinder::BindSubscript(const SyntaxExpr& e) {
  const std::optional<Typed> value = Bind(e);
  if (value && !MayBe(*value, IsInteger)) {
    return Error(
        Problem::kWrongType, e.at,
        fmt::format("found a subscript of type {}, expected an integer", TypeWord(value->type)));
  }
  if (value && value->open) return Typed{Convert(*value, index_type_), index_type_};
  return value;
}

std::optional<Typed> ExprBinder::Name(const SyntaxExpr& e) {
  if (const auto let = frame_->lets.find(e.text); let != frame_->lets.end())
    return BindLet(e, let->second);
  const auto index = std::find(indices_.begin(), indices_.end(), e.text);
  if (index == indices_.end()) {
    if (const auto size = scope_.sizes.find(e.text); size != scope_.sizes.end()) {
      const Dtype dtype =
          size->second <= std::numeric_limits<int32_t>::max() ? Dtype::kI32 : Dtype::kI64;
      return Typed{Add({.kind = ExprKind::kLiteral,
                        .dtype = dtype,
                        .literal = ScalarOfInt(dtype, size->second)},
                       e.at),
                   dtype};
    }
    if (const auto param = scope_.params.find(e.text); param != scope_.params.end()) {
      return Typed{
          Add({.kind = ExprKind::kParam, .dtype = index_type_, .position = param->second}, e.at),
          index_type_};
    }
    if (const auto tensor = scope_.tensors.find(e.text); tensor != scope_.tensors.end())
      return Read(e.at, {}, tensor->second);
    if (closed_) {
      return Error(Problem::kBound, e.at,
                   fmt::format("found '{}', expected a size, a literal or an earlier let{}", e.text,
                               Suggestion(e.text, scope_.Names())));
    }
    if (!AddIndex(e.text, e.at)) return std::nullopt;
  } else if (closed_) {
    return Error(
        Problem::kBound, e.at,
        fmt::format("found the index '{}', expected sizes, literals and lets only", e.text));
  }
  const auto place = std::find(indices_.begin(), indices_.end(), e.text) - indices_.begin();
  const Typed value{
      Add({.kind = ExprKind::kIndex, .dtype = index_type_, .position = static_cast<int32_t>(place)},
          e.at),
      index_type_};
  return IsSegment(e.text) ? Segment(e, value) : value;
}

std::optional<Typed> ExprBinder::Number(const SyntaxExpr& e, bool negative) {
  const char* begin = e.text.data();
  const char* end = begin + e.text.size();
  if (e.kind == SyntaxKind::kFloat) {
    double wide = 0;
    float narrow = 0;
    // Out of range leaves the value alone: infinity or zero, which strtod knows better.
    if (std::from_chars(begin, end, wide).ec != std::errc()) wide = std::strtod(begin, nullptr);
    if (std::from_chars(begin, end, narrow).ec != std::errc()) narrow = std::strtof(begin, nullptr);
    return FloatLiteral(negative ? -wide : wide, negative ? -narrow : narrow, e.at);
  }
  uint64_t magnitude = 0;
  const uint64_t most =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (std::from_chars(begin, end, magnitude).ec != std::errc() || magnitude > most) {
    return Error(Problem::kNumber, e.at,
                 fmt::format("the integer {} does not fit in 64 bits", e.text.substr(0, 40)));
  }
  // The type is that of the digits: -2147483648 is an int64.
  const Dtype dtype = magnitude <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max())
                          ? Dtype::kI32
                          : Dtype::kI64;
  const auto value = static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude);
  return Typed{
      Add({.kind = ExprKind::kLiteral, .dtype = dtype, .literal = ScalarOfInt(dtype, value)}, e.at),
      dtype};
}

std::optional<Typed> ExprBinder::Unary(const SyntaxExpr& e) {
  const SyntaxExpr& inner = *e.args[0];
  const bool number = inner.kind == SyntaxKind::kInt || inner.kind == SyntaxKind::kFloat;
  if (e.text == "-" && number) return Number(inner, true);
  const std::optional<Typed> a = Bind(inner);
  if (!a) return std::nullopt;
  if (e.text == "!") {
    if (!MayBe(*a, IsBool)) {
      return Error(Problem::kTypes, e.at,
                   fmt::format("found {} under '!', expected bool", TypeWord(a->type)));
    }
    return Op(ScalarOp::kNot, Dtype::kBool, Dtype::kBool, {Convert(*a, Dtype::kBool)}, e.at);
  }
  if (const auto literal = float_literals_.find(a->id.index); literal != float_literals_.end()) {
    Expr& node = program_.exprs[static_cast<size_t>(a->id.index)];  // -infinity()
    literal->second = -literal->second;
    node.literal.f32 = -node.literal.f32;
    return a;
  }
  return Arithmetic(ScalarOp::kNeg, {*a}, e.at);
}

std::optional<Typed> ExprBinder::Binary(const SyntaxExpr& e) {
  const std::optional<Typed> a = Bind(*e.args[0]), b = Bind(*e.args[1]);
  if (!a || !b) return std::nullopt;
  ScalarOp op = ScalarOp::kAdd;
  for (const Operator& o : kOperators) {
    if (o.text == e.text) op = o.op;
  }
  const bool both_bool = MayBe(*a, IsBool) && MayBe(*b, IsBool);
  const auto of_bools = [&] {
    return Op(op, Dtype::kBool, Dtype::kBool,
              {Convert(*a, Dtype::kBool), Convert(*b, Dtype::kBool)}, e.at);
  };
  if (op == ScalarOp::kAnd || op == ScalarOp::kOr) {
    if (!both_bool) {
      return Error(Problem::kTypes, e.at,
                   fmt::format("found {} {} {}, expected bool on both sides", TypeWord(a->type),
                               e.text, TypeWord(b->type)));
    }
    return of_bools();
  }
  if (both_bool && (op == ScalarOp::kEq || op == ScalarOp::kNe)) return of_bools();
  return Arithmetic(op, {*a, *b}, e.at);
}

// Operands in their common type; compares give bool.
std::optional<Typed> ExprBinder::Arithmetic(ScalarOp op, std::vector<Typed> args, Location at) {
  std::optional<Common> common = CommonType(args);
  if (!common) {
    std::string found;
    for (const Typed& arg : args)
      found += (found.empty() ? "" : " and ") + std::string(TypeWord(arg.type));
    return Error(Problem::kTypes, at,
                 fmt::format("'{}' is not defined for {}", ScalarName(op), found),
                 "cast bool with int32(x)");
  }
  if (WantsInteger(op) && !IsInteger(common->type) && !common->open) {
    return Error(Problem::kTypes, at,
                 fmt::format("found {} for '{}', expected integers", TypeWord(common->type),
                             ScalarName(op)));
  }
  if (WantsInteger(op) && common->open) common->type = Dtype::kI32;
  if (WantsFloat(op) && (!IsFloat(common->type) || common->open)) common = {Dtype::kF32, false};
  const Dtype node = ComputeType(common->type);
  std::vector<ExprId> ids;
  for (const Typed& arg : args) ids.push_back(Convert(arg, node));
  if (IsCompare(op) || op == ScalarOp::kIsNan)
    return Op(op, Dtype::kBool, Dtype::kBool, std::move(ids), at);
  Typed result = Op(op, node, common->type, std::move(ids), at);
  result.open = common->open;
  return result;
}

std::optional<Typed> ExprBinder::Select(const SyntaxExpr& e) {
  const std::optional<Typed> cond = Bind(*e.args[0]), a = Bind(*e.args[1]), b = Bind(*e.args[2]);
  if (!cond || !a || !b) return std::nullopt;
  if (!MayBe(*cond, IsBool)) {
    return Error(Problem::kWrongType, e.args[0]->at,
                 fmt::format("found a condition of type {}, expected bool", TypeWord(cond->type)));
  }
  const ExprId holds = Convert(*cond, Dtype::kBool);
  if (a->open || b->open) {
    const Typed& known = a->open ? *b : *a;
    const Dtype node = program_[known.id].dtype;
    const ExprId x = Convert(*a, node), y = Convert(*b, node);
    Typed result = Op(ScalarOp::kSelect, node, known.type, {holds, x, y}, e.at);
    result.open = known.open;
    return result;
  }
  const bool same_node = program_[a->id].dtype == program_[b->id].dtype;
  if (a->type == b->type && same_node)
    return Op(ScalarOp::kSelect, program_[a->id].dtype, a->type, {holds, a->id, b->id}, e.at);
  const std::optional<Dtype> type = JoinTypes(a->type, b->type);
  if (!type) {
    return Error(Problem::kTypes, e.at,
                 fmt::format("found {} and {} as the two branches, expected a common type",
                             TypeWord(a->type), TypeWord(b->type)));
  }
  const Dtype node = ComputeType(*type);
  const ExprId x = Convert(*a, node), y = Convert(*b, node);
  return Op(ScalarOp::kSelect, node, *type, {holds, x, y}, e.at);
}

std::optional<Typed> ExprBinder::Cast(const SyntaxExpr& e, Dtype to) {
  const std::optional<Typed> a = Bind(*e.args[0]);
  if (!a) return std::nullopt;
  const ExprId id = Convert(*a, to);
  if (id != a->id) implicit_.erase(id.index);
  float_literals_.erase(id.index);  // from here on it is exactly what the cast made of it
  return Typed{id, to};
}

std::optional<Typed> ExprBinder::Apply(const SyntaxExpr& e) {
  const auto tensor = scope_.tensors.find(e.text);
  if (tensor != scope_.tensors.end() && frame_->function == nullptr)
    return Read(e.at, e.args, tensor->second);
  if (const auto let = frame_->lets.find(e.text);  // a scalar of the function: x() is x
      frame_->function != nullptr && e.args.empty() && let != frame_->lets.end())
    return BindLet(e, let->second);
  if (IsBuiltin(e.text)) return Call(e);
  const Def& in = frame_->function != nullptr ? *frame_->function : *def_;
  const Def* callee = callables_.Find(in, e.text);
  if (callee != nullptr && callables_.IsFunction(*callee)) return CallFunction(e, *callee);
  if (const std::optional<TensorId> result = CallOf(e)) return Read(e.at, {}, *result);
  return UnknownApply(e);
}

std::optional<Typed> ExprBinder::Read(Location at, std::span<const SyntaxExprPtr> subscripts,
                                      TensorId tensor) {
  const TensorDecl& decl = program_[tensor];
  if (closed_) {
    return Error(Problem::kBound, at,
                 fmt::format("a bound may not read the tensor '{}'", decl.name),
                 "a:b max N along a segment, N being the most that one holds");
  }
  if (subscripts.size() != decl.extents.size()) {
    return Error(Problem::kRank, at,
                 fmt::format("found {} subscripts on '{}', which has rank {}", subscripts.size(),
                             decl.name, decl.extents.size()));
  }
  Expr read{.kind = ExprKind::kRead, .dtype = decl.dtype, .tensor = tensor};
  for (const SyntaxExprPtr& arg : subscripts) {
    const std::optional<Typed> subscript = BindSubscript(*arg);
    if (!subscript) return std::nullopt;
    read.args.push_back(subscript->id);
  }
  const Dtype dtype = program_[tensor].dtype;
  read_.insert(tensor.index);
  const bool open = IsOpen(tensor);
  if (open) open_reads_.insert(tensor.index);
  return Typed{Add(std::move(read), at), dtype, open};
}

std::optional<Typed> ExprBinder::Call(const SyntaxExpr& e) {
  if (e.text == "infinity" || e.text == "nan") {
    if (!e.args.empty())
      return Error(Problem::kOperands, e.at, fmt::format("'{}' takes no operands", e.text));
    const double value = e.text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                                         : std::numeric_limits<double>::infinity();
    return FloatLiteral(value, static_cast<float>(value), e.at);
  }
  if (e.text == "within") return Check(e);
  if (e.text.starts_with("bitcast_")) {
    const std::optional<Dtype> to = ParseTypeWord(std::string_view(e.text).substr(8));
    if (!to || e.args.size() != 1)
      return Error(Problem::kOperands, e.at, "expected bitcast_TYPE(x)");
    const std::optional<Typed> a = Bind(*e.args[0]);
    if (!a) return std::nullopt;
    const ExprId from = Convert(*a, a->type);
    if (Bits(*to) != Bits(a->type)) {
      return Error(Problem::kTypes, e.at,
                   fmt::format("a bitcast from {} to {} changes the width", TypeWord(a->type),
                               TypeWord(*to)));
    }
    return Op(ScalarOp::kBitcast, *to, *to, {from}, e.at);
  }
  return Function(e, *ParseScalarFunction(e.text));
}

std::optional<Typed> ExprBinder::Function(const SyntaxExpr& e, ScalarOp op) {
  const auto arity = static_cast<size_t>(ScalarArity(op));
  if (e.args.size() != arity) {
    return Error(
        Problem::kOperands, e.at,
        fmt::format("found {} operands for '{}', expected {}", e.args.size(), e.text, arity));
  }
  std::vector<Typed> args;
  for (const SyntaxExprPtr& arg : e.args) {
    const std::optional<Typed> value = Bind(*arg);
    if (!value) return std::nullopt;
    args.push_back(*value);
  }
  return Arithmetic(op, std::move(args), e.at);
}

}  // namespace weft::tc
