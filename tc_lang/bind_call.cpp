// Calls between defs: a callee's statements are bound in a scope of their own, in the caller's
// place, so that no name of either can mean something of the other.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tc_lang/bind_def.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

constexpr int32_t kDeepest = 100;  // of calls in calls

}  // namespace

std::string DefBinder::UniqueName(const std::string& wanted) {
  std::string name = wanted;
  int& count = name_counts_[wanted];
  while (names_.contains(name) || IsBuiltin(name)) name = fmt::format("{}_{}", wanted, ++count + 1);
  names_.insert(name);
  return name;
}

TensorId DefBinder::AddTemporary(const std::string& wanted, size_t rank,
                                 std::optional<Dtype> dtype) {
  TensorDecl decl{.name = UniqueName(wanted), .role = Role::kTemporary};
  decl.dtype = dtype.value_or(Dtype::kF32);
  decl.extents.resize(rank);
  return PushTensor(std::move(decl), {.typed = dtype.has_value()});
}

// y = f(x, w) | (y, z) = f(x, w): the targets are what f gives, whole.
bool DefBinder::BindCall(const SyntaxStatement& s, const Def& callee) {
  std::vector<TensorId> targets;
  for (const SyntaxTarget& target : s.targets) {
    const TensorId id = scope_.tensors.find(target.name)->second;
    if (states_[static_cast<size_t>(id.index)].defined ||
        std::find(targets.begin(), targets.end(), id) != targets.end()) {
      return Error(Problem::kTarget, target.at,
                   fmt::format("'{}' holds something already, a call wants new tensors to fill",
                               target.name),
                   "another name");
    }
    targets.push_back(id);
  }
  if (targets.size() != callee.outputs.size()) {
    return Error(
        Problem::kArguments, s.at,
        fmt::format("found {} targets for '{}', which gives {} (declared at {})", targets.size(),
                    callee.name, callee.outputs.size(), LineColumn(callee.at)));
  }
  if (!HoistCallsBelow(*s.values[0])) return false;
  std::vector<const SyntaxParam*> declared;
  for (TensorId id : targets) declared.push_back(states_[static_cast<size_t>(id.index)].declared);
  if (!Call(*s.values[0], callee, targets)) return false;
  for (size_t k = 0; k < targets.size(); ++k) {
    State& state = states_[static_cast<size_t>(targets[k].index)];
    state.declared = declared[k];
    const Dtype found = program_[targets[k]].dtype;
    if (declared[k] != nullptr && *declared[k]->dtype != found && !exprs_.IsOpen(targets[k])) {
      return Error(Problem::kArgument, s.targets[k].at,
                   fmt::format("'{}' gives {} (declared at {}), expected {} for '{}'", callee.name,
                               TypeWord(found), LineColumn(callee.outputs[k].at),
                               TypeWord(*declared[k]->dtype), s.targets[k].name));
    }
  }
  return true;
}

bool DefBinder::HoistCallsBelow(const SyntaxExpr& e) {
  return std::all_of(e.args.begin(), e.args.end(),
                     [this](const SyntaxExprPtr& arg) { return HoistCalls(*arg); });
}

// Calls inside an expression become temporaries before its statement; inner ones first.
bool DefBinder::HoistCalls(const SyntaxExpr& e) {
  if (!HoistCallsBelow(e)) return false;
  const Def* callee = e.kind == SyntaxKind::kApply ? callables_.Find(*def_, e.text) : nullptr;
  if (callee == nullptr || callables_.IsFunction(*callee)) return true;
  if (callee->outputs.size() != 1) {
    return Error(Problem::kArguments, e.at,
                 fmt::format("'{}' gives {} tensors (declared at {}), expected one inside of "
                             "an expression",
                             e.text, callee->outputs.size(), LineColumn(callee->at)),
                 fmt::format("(y, z) = {}(…)", e.text));
  }
  const SyntaxParam& output = callee->outputs[0];
  std::optional<size_t> rank;
  for (const SyntaxStatement& s : callee->statements) {
    for (size_t t = 0; t < s.targets.size() && !rank; ++t) {
      if (s.targets[t].name == output.name) rank = callables_.RankOfTarget(*callee, s, t);
    }
  }
  if (!rank)
    return Error(Problem::kNeverWritten, output.at,
                 fmt::format("no statement writes '{}'", output.name));
  const TensorId target = AddTemporary(callee->name, *rank, std::nullopt);
  if (!Call(e, *callee, {target})) return false;
  exprs_.SetCall(e, target);
  return true;
}

bool DefBinder::HoistCalls(const SyntaxStatement& s) {
  bool fine = true;
  for (const SyntaxExprPtr& value : s.values) fine = fine && HoistCalls(*value);
  for (const SyntaxClause& clause : s.clauses) {
    if (clause.kind != SyntaxClause::kRange) fine = fine && HoistCalls(*clause.a);
  }
  return fine;
}

bool DefBinder::Call(const SyntaxExpr& e, const Def& callee, const std::vector<TensorId>& targets) {
  if (depth_ >= kDeepest) {
    return Error(Problem::kTooMuch, e.at,
                 fmt::format("calls are nested more than {} deep", kDeepest), "", Code::kLimit);
  }
  if (e.args.size() != callee.params.size()) {
    return Error(Problem::kArguments, e.at,
                 fmt::format("found {} arguments for '{}', expected {} (declared at {})",
                             e.args.size(), e.text, callee.params.size(), LineColumn(callee.at)));
  }
  Frame frame{.def = &callee, .first_statement = program_.statements.size()};
  for (size_t k = 0; k < e.args.size(); ++k) {
    const SyntaxParam& param = callee.params[k];
    const bool fine =
        param.is_size ? SizeArgument(*e.args[k], param, frame) : Argument(*e.args[k], param, frame);
    if (!fine) return false;
  }
  for (TensorId target : targets) {
    if (frame.arguments.contains(target.index)) {
      return Error(Problem::kTarget, e.at,
                   fmt::format("'{}' is both filled and read by the call", program_[target].name),
                   "another name");
    }
  }
  for (size_t k = 0; k < targets.size(); ++k) frame.results[callee.outputs[k].name] = targets[k];
  frame.first_statement = program_.statements.size();  // arguments may have added some
  return Enter(std::move(frame), e.at);
}

// Binds the callee's statements with its own names in place of the caller's.
bool DefBinder::Enter(Frame frame, Location at) {
  const Def* caller = def_;
  Frame* outer = frame_;
  Scope scope = std::exchange(scope_, std::move(frame.scope));
  def_ = frame.def;
  frame_ = &frame;
  exprs_.SetDef(*def_);
  ++depth_;
  called_ = true;
  rebased_.resize(frame.first_statement, false);
  const std::string outer_context = diagnostics_.SetContext(
      fmt::format(" (in the call of '{}' at {})", def_->name, LineColumn(at)));
  const size_t first_tensor = program_.tensors.size();
  bool fine = DeclareBody() && BindAll();
  if (fine) {
    std::vector<size_t> made;
    for (const auto& [name, id] : frame.results) made.push_back(static_cast<size_t>(id.index));
    for (size_t t = first_tensor; t < program_.tensors.size(); ++t) made.push_back(t);
    fine = !guessed_wrong_ && FinishTensors(made) && CheckFinal(frame.first_statement);
    if (fine) Rebase(frame.first_statement);
    for (size_t t : made) {
      State& state = states_[t];
      state.declared = nullptr;
      for (size_t d = 0; d < state.lo.size(); ++d) {
        state.hi[d] = state.hi[d] - state.lo[d];
        state.lo[d] = Affine(0);
      }
    }
    rebased_.resize(program_.statements.size());
    std::fill(rebased_.begin() + static_cast<int64_t>(frame.first_statement), rebased_.end(), true);
  }
  diagnostics_.SetContext(outer_context);
  --depth_;
  frame_ = outer;
  def_ = caller;
  exprs_.SetDef(*def_);
  scope_ = std::move(scope);
  return fine;
}

bool DefBinder::Argument(const SyntaxExpr& arg, const SyntaxParam& param, Frame& frame) {
  if (!param.strides.empty()) {
    return Error(Problem::kArgument, arg.at,
                 fmt::format("'{}' of '{}' has strides (declared at {}), which say how "
                             "memory from outside lies, and no call gives that",
                             param.name, frame.def->name, LineColumn(param.at)));
  }
  const std::optional<TensorId> tensor =
      param.dims.empty() ? ScalarArgument(arg, param) : TensorArgument(arg, param);
  if (!tensor) return false;
  const TensorDecl& decl = program_[*tensor];
  const State& state = states_[static_cast<size_t>(tensor->index)];
  if (!state.defined)
    return Error(Problem::kUndefined, arg.at,
                 fmt::format("nothing has defined '{}' before this call", decl.name));
  if ((decl.dtype != *param.dtype && !exprs_.IsOpen(*tensor)) ||
      decl.extents.size() != param.dims.size()) {
    return Error(Problem::kArgument, arg.at,
                 fmt::format("found {} of rank {} for '{}' of '{}', expected {} of rank {} "
                             "(declared at {})",
                             TypeWord(decl.dtype), decl.extents.size(), param.name, frame.def->name,
                             TypeWord(*param.dtype), param.dims.size(), LineColumn(param.at)));
  }
  if (!MatchExtents(arg, param, *tensor, frame)) return false;
  frame.arguments.insert(tensor->index);
  if (!frame.scope.tensors.emplace(param.name, *tensor).second)
    return Error(Problem::kTakenName, param.at,
                 fmt::format("the tensor '{}' is declared twice", param.name));
  return true;
}

std::optional<TensorId> DefBinder::TensorArgument(const SyntaxExpr& arg, const SyntaxParam& param) {
  if (arg.kind == SyntaxKind::kApply) {
    if (const std::optional<TensorId> call = exprs_.CallOf(arg)) return call;
  }
  if (arg.kind == SyntaxKind::kName) {
    const auto tensor = scope_.tensors.find(arg.text);
    if (tensor != scope_.tensors.end()) return tensor->second;
    Error(Problem::kUnknownName, arg.at,
          fmt::format("found '{}' for '{}', expected a tensor{}", arg.text, param.name,
                      Suggestion(arg.text, scope_.Names())));
  } else {
    Error(Problem::kArgument, arg.at,
          fmt::format("found an expression for '{}', which has rank {}, expected the name of a "
                      "tensor or a call that gives one",
                      param.name, param.dims.size()),
          "give it a name in a statement above");
  }
  return std::nullopt;
}

// A scalar by its name, or any expression without indices, which becomes a temporary.
std::optional<TensorId> DefBinder::ScalarArgument(const SyntaxExpr& arg, const SyntaxParam& param) {
  if (arg.kind == SyntaxKind::kName) {
    const auto tensor = scope_.tensors.find(arg.text);
    if (tensor != scope_.tensors.end()) return tensor->second;
  }
  const size_t first = program_.exprs.size();
  exprs_.Begin(Dtype::kI32);
  const std::optional<Typed> value = exprs_.Bind(arg);
  if (!value) return std::nullopt;
  if (!exprs_.indices().empty()) {
    Error(Problem::kArgument, arg.at,
          fmt::format("found the index '{}' in the argument for '{}' of a def that reads "
                      "tensors, expected one value for the whole call",
                      exprs_.indices()[0], param.name));
    return std::nullopt;
  }
  if (!value->open && !MayStore(*param.dtype, value->type)) {
    Error(Problem::kArgument, arg.at,
          fmt::format("found {} for '{}', expected {} (declared at {})", TypeWord(value->type),
                      param.name, TypeWord(*param.dtype), LineColumn(param.at)),
          fmt::format("{}(…)", TypeWord(*param.dtype)));
    return std::nullopt;
  }
  const TensorId target = AddTemporary(param.name, 0, param.dtype);
  Statement s{.target = target, .value = exprs_.Convert(*value, *param.dtype)};
  s.accumulate = *param.dtype;
  states_[static_cast<size_t>(target.index)].defined = true;
  AddStatement(std::move(s), arg.at, first, Dtype::kI32);
  return target;
}

bool DefBinder::SizeArgument(const SyntaxExpr& arg, const SyntaxParam& param, Frame& frame) {
  const std::optional<Affine> value = Dim(arg);
  if (!value) return false;
  SyntaxExpr dim;
  dim.kind = SyntaxKind::kName;
  dim.at = param.at;
  dim.text = param.name;
  return SetSize(arg, dim, *value, "the argument", frame);
}

bool DefBinder::MatchExtents(const SyntaxExpr& arg, const SyntaxParam& param, TensorId tensor,
                             Frame& frame) {
  const State& state = states_[static_cast<size_t>(tensor.index)];
  const auto name = [this](Var v) { return program_.params[static_cast<size_t>(v)]; };
  for (size_t d = 0; d < param.dims.size(); ++d) {
    if (state.lo[d] != Affine(0)) {
      return Error(Problem::kArgument, arg.at,
                   fmt::format("axis {} of '{}' starts at {}, a call wants it to start at 0", d,
                               program_[tensor].name, state.lo[d].Print(name)));
    }
    const std::string source = fmt::format("extent {} of '{}'", d, program_[tensor].name);
    if (!SetSize(arg, *param.dims[d], state.hi[d], source, frame)) return false;
  }
  return true;
}

// One more witness of what a size of the callee is.
bool DefBinder::SetSize(const SyntaxExpr& arg, const SyntaxExpr& dim, const Affine& value,
                        const std::string& source, Frame& frame) {
  const auto print = [this](const Affine& e) {
    return e.Print([this](Var v) { return program_.params[static_cast<size_t>(v)]; });
  };
  if (dim.kind == SyntaxKind::kInt) {
    const std::optional<Affine> wanted = Dim(dim);
    if (!wanted) return false;
    return *wanted == value || Error(Problem::kArgument, arg.at,
                                     fmt::format("{} is {}, expected {} (declared at {})", source,
                                                 print(value), print(*wanted), LineColumn(dim.at)));
  }
  const auto [known, first] = frame.sizes.try_emplace(dim.text, value, source);
  if (!first && known->second.first != value) {
    return Error(Problem::kArgument, arg.at,
                 fmt::format("the size '{}' of '{}' is {} by {} and {} by {} (declared at {})",
                             dim.text, frame.def->name, print(known->second.first),
                             known->second.second, print(value), source, LineColumn(dim.at)));
  }
  if (value.IsConstant()) {
    frame.scope.sizes[dim.text] = value.constant();
  } else if (const std::optional<Var> param = value.AsVar()) {
    frame.scope.params[dim.text] = *param;
  } else {
    return Error(Problem::kOpenSize, arg.at,
                 fmt::format("{} is {}, which depends on a size that is left open, expected such a "
                             "size alone",
                             source, print(value)),
                 "", Code::kUnsupported);
  }
  return true;
}

// Indices keep their names where these mean nothing else in the program that has become of it all.
void DefBinder::RenameIndices() {
  std::set<std::string, std::less<>> taken(program_.params.begin(), program_.params.end());
  for (const TensorDecl& tensor : program_.tensors) taken.insert(tensor.name);
  for (Statement& s : program_.statements) {
    std::set<std::string, std::less<>> own;
    for (const Index& index : s.indices) own.insert(index.name);
    for (Index& index : s.indices) {
      if (!taken.contains(index.name)) continue;
      std::string name = index.name;
      while (taken.contains(name) || own.contains(name)) name += '_';
      own.insert(name);
      index.name = name;
    }
  }
}

}  // namespace weft::tc
