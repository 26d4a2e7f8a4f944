// Lets, functions of scalars, and elements of what calls give.
#include <fmt/format.h>

#include <algorithm>

#include "tc_lang/bind_expr.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

constexpr size_t kDeepestLets = 100;

// Names of scalars: x, and x() where a statement of the def has that on the left.
void CollectNames(const SyntaxExpr& e, const Def& def, std::vector<const SyntaxExpr*>& out) {
  const bool assigned =
      std::any_of(def.statements.begin(), def.statements.end(),
                  [&](const SyntaxStatement& s) { return s.targets[0].name == e.text; });
  if (e.kind == SyntaxKind::kName || (e.kind == SyntaxKind::kApply && e.args.empty() && assigned))
    out.push_back(&e);
  for (const SyntaxExprPtr& arg : e.args) CollectNames(*arg, def, out);
}

}  // namespace

// The value is written out where the name stands, with the names of where it was written.
std::optional<Typed> ExprBinder::BindLet(const SyntaxExpr& e, const Let& let) {
  if (std::find(open_lets_.begin(), open_lets_.end(), &let) != open_lets_.end())
    return Error(Problem::kSelfReference, e.at, fmt::format("the let '{}' uses itself", e.text));
  if (open_lets_.size() >= kDeepestLets)
    return Error(Problem::kTooMuch, e.at,
                 fmt::format("lets are nested more than {} deep", kDeepestLets));
  open_lets_.push_back(&let);
  Frame* frame = std::exchange(frame_, let.frame);
  std::optional<Typed> value = Bind(*let.value);
  frame_ = frame;
  open_lets_.pop_back();
  if (!value) return value;
  const bool stored = let.type || let.frame->function != nullptr;  // and 16-bit floats rounded
  if (!let.type) {
    return stored ? Typed{Convert(*value, value->type), value->type, value->open} : *value;
  }
  if (!value->open && !MayStore(*let.type, value->type)) {
    return Error(
        Problem::kArgument, let.value->at,
        fmt::format("found {} for '{}', expected {} (declared at {})", TypeWord(value->type),
                    e.text, TypeWord(*let.type), LineColumn(let.declared)),
        fmt::format("{}(…)", TypeWord(*let.type)));
  }
  return Typed{Convert(*value, *let.type), *let.type};
}

std::optional<TensorId> ExprBinder::CallOf(const SyntaxExpr& e) const {
  const auto call = calls_.find(&e);
  return call == calls_.end() ? std::nullopt : std::optional(call->second);
}

// f(x, w)(i, j)
std::optional<Typed> ExprBinder::Element(const SyntaxExpr& e) {
  const std::optional<TensorId> result = CallOf(*e.args[0]);
  if (result) return Read(e.at, std::span(e.args).subspan(1), *result);
  if (scope_.tensors.contains(e.text)) {
    return Error(Problem::kRank, e.args[0]->at,
                 fmt::format("found two lists of subscripts on the tensor '{}'", e.text),
                 "';' before a tuple statement");
  }
  return UnknownApply(*e.args[0]);
}

std::optional<Typed> ExprBinder::Recursion(const SyntaxExpr& e, const Def& in) {
  const std::string what =
      e.text == in.name
          ? fmt::format("'{}' calls itself, and a def calls only those above it", e.text)
          : fmt::format("'{}' stands below '{}', and a def calls only those above it", e.text,
                        in.name);
  return Error(Problem::kRecursion, e.at, what + ", so that no call recurs");
}

std::optional<Typed> ExprBinder::UnknownApply(const SyntaxExpr& e) {
  const Def& in = frame_->function != nullptr ? *frame_->function : *def_;
  if (callables_.Recurs(in, e.text)) return Recursion(e, in);
  if (callables_.Find(in, e.text) != nullptr) {
    return Error(Problem::kFunction, e.at,
                 fmt::format("'{}' is no function of scalars, which is all that a function "
                             "of scalars may call",
                             e.text));
  }
  std::vector<std::string> names = scope_.Names();
  for (std::string& builtin : BuiltinNames()) names.push_back(std::move(builtin));
  for (std::string& def : callables_.Names(in)) names.push_back(std::move(def));
  return Error(Problem::kUnknownName, e.at,
               fmt::format("'{}' is neither a tensor of this def nor a builtin{}", e.text,
                           Suggestion(e.text, names)));
}

// gelu(x(i)): the statements of the def become lets in a frame where nothing else has a name.
std::optional<Typed> ExprBinder::CallFunction(const SyntaxExpr& e, const Def& def) {
  if (e.args.size() != def.params.size()) {
    return Error(Problem::kArguments, e.at,
                 fmt::format("found {} arguments for '{}', expected {} (declared at {})",
                             e.args.size(), e.text, def.params.size(), LineColumn(def.at)));
  }
  Frame& frame = frames_.emplace_back();
  frame.function = &def;
  for (size_t k = 0; k < e.args.size(); ++k) {
    frame.lets[def.params[k].name] = {.value = e.args[k].get(),
                                      .frame = frame_,
                                      .type = def.params[k].dtype,
                                      .declared = def.params[k].at};
  }
  const SyntaxParam& output = def.outputs[0];
  for (const SyntaxStatement& s : def.statements) {
    std::vector<const SyntaxExpr*> names;
    CollectNames(*s.values[0], def, names);
    for (const SyntaxExpr* name : names) {
      if (frame.lets.contains(name->text)) continue;
      return Error(Problem::kFunction, name->at,
                   fmt::format("'{}' is no scalar that '{}' has defined", name->text, def.name));
    }
    const bool last = s.targets[0].name == output.name;
    frame.lets[s.targets[0].name] = {.value = s.values[0].get(),
                                     .frame = &frame,
                                     .type = last ? output.dtype : std::nullopt,
                                     .declared = output.at};
  }
  const std::string context = diagnostics_.SetContext(
      fmt::format(" (in the call of '{}' at {})", def.name, LineColumn(e.at)));
  SyntaxExpr result;
  result.kind = SyntaxKind::kName;
  result.at = e.at;
  result.text = output.name;
  std::optional<Typed> value = BindLet(result, frame.lets.find(output.name)->second);
  diagnostics_.SetContext(context);
  return value;
}

}  // namespace weft::tc
