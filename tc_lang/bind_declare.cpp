#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "tc_lang/bind_def.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr int64_t kLargestExtent = int64_t{1} << 40;

}  // namespace

bool DefBinder::Declare() {
  bool fine = true;
  for (const SyntaxParam& param : def_->params) fine = DeclareSize(param, nullptr) && fine;
  for (const SyntaxParam& param : def_->params) {
    if (!param.is_size) fine = DeclareInput(param) && fine;
  }
  return DeclareBody() && fine;
}

// What a def has of its own, called or not.
bool DefBinder::DeclareBody() {
  for (const SyntaxStatement& s : def_->statements) {
    for (const SyntaxExprPtr& value : s.values) {  // before ranks that nobody can know are missed
      if (value->kind == SyntaxKind::kApply && callables_.Recurs(*def_, value->text))
        return exprs_.Recursion(*value, *def_).has_value();
    }
  }
  bool fine = DeclareOutputs();
  for (const SyntaxConst& c : def_->constants) fine = DeclareConst(c) && fine;
  return DeclareTemporaries() && fine;
}

// Sizes first: a tensor's extent may name one that a later parameter introduces.
bool DefBinder::DeclareSize(const SyntaxParam& param, const SyntaxExpr* dim) {
  if (dim == nullptr && !param.is_size) {
    bool fine = true;
    for (const SyntaxExprPtr& d : param.dims) {
      if (d->kind == SyntaxKind::kName) fine = DeclareSize(param, d.get()) && fine;
    }
    return fine;
  }
  const std::string& name = dim != nullptr ? dim->text : param.name;
  const Location at = dim != nullptr ? dim->at : param.at;
  if (scope_.sizes.contains(name) || scope_.params.contains(name)) {
    return dim != nullptr ||
           Error(Problem::kTakenName, at, fmt::format("the size '{}' is declared twice", name));
  }
  if (std::find(sizes_.params.begin(), sizes_.params.end(), name) != sizes_.params.end()) {
    scope_.params[name] = static_cast<int32_t>(program_.params.size());
    program_.params.push_back(name);
    names_.insert(name);
    return true;
  }
  const auto value = sizes_.values.find(name);
  if (value == sizes_.values.end()) {
    return Error(Problem::kUnknownSize, at, fmt::format("the size '{}' is not known", name),
                 param.is_size ? fmt::format("--size {}=V", name)
                               : fmt::format("give '{}' or its extents", param.name));
  }
  if (value->second < 0 || value->second > kLargestExtent) {
    return Error(
        Problem::kTooLarge, at,
        fmt::format("the size '{}' is {}, expected 0 to {}", name, value->second, kLargestExtent));
  }
  scope_.sizes[name] = value->second;
  return true;
}

std::optional<Affine> DefBinder::Dim(const SyntaxExpr& dim) {
  if (dim.kind == SyntaxKind::kInt) {
    const std::optional<int64_t> value = ParseInt(dim.text);
    if (value && *value <= kLargestExtent) return Affine(*value);
    Error(Problem::kTooLarge, dim.at,
          fmt::format("the extent {} is larger than {}", dim.text.substr(0, 40), kLargestExtent));
    return std::nullopt;
  }
  // Expressions in annotations: of sizes only. A statement without indices reads them.
  exprs_.Begin(Dtype::kI32);
  const Statement none;
  const std::optional<Typed> value = exprs_.Bind(dim, true);
  if (!value) return std::nullopt;
  const std::optional<Affine> e = AsAffineWithParams(program_, none, value->id);
  if (!e) Error(Problem::kBound, dim.at, "found an extent that is no sum of sizes");
  return e;
}

bool DefBinder::AddName(const std::string& name, TensorId tensor, Location at) {
  if (scope_.sizes.contains(name) || scope_.params.contains(name)) {
    return Error(Problem::kTakenName, at, fmt::format("'{}' is a size and a tensor", name));
  }
  return scope_.tensors.emplace(name, tensor).second ||
         Error(Problem::kTakenName, at, fmt::format("the tensor '{}' is declared twice", name));
}

TensorId DefBinder::PushTensor(TensorDecl decl, State state) {
  const TensorId id(program_.tensors.size());
  const auto guess = guesses_.find(id.index);
  if (!state.typed && guess != guesses_.end()) decl.dtype = guess->second;
  if (!state.typed && guess == guesses_.end()) exprs_.SetOpen(id);
  program_.tensors.push_back(std::move(decl));
  states_.push_back(std::move(state));
  return id;
}

bool DefBinder::AddTensor(TensorDecl decl, Location at, const SyntaxParam* declared) {
  if (!AddName(decl.name, TensorId(program_.tensors.size()), at)) return false;
  if (frame_ == nullptr)
    names_.insert(decl.name);
  else
    decl.name = UniqueName(fmt::format("{}_{}", def_->name, decl.name));
  State state;
  state.declared = declared;
  state.typed = decl.role == Role::kInput || decl.role == Role::kLiteral || declared != nullptr;
  state.defined = decl.role == Role::kInput || decl.role == Role::kLiteral;
  if (state.defined) {
    state.lo.assign(decl.extents.size(), Affine(0));
    state.hi = decl.extents;
  }
  PushTensor(std::move(decl), std::move(state));
  return true;
}

bool DefBinder::DeclareInput(const SyntaxParam& param) {
  TensorDecl decl{.name = param.name, .dtype = *param.dtype, .role = Role::kInput};
  for (const SyntaxExprPtr& dim : param.dims) {
    const std::optional<Affine> extent = Dim(*dim);
    if (!extent) return false;
    if (!extent->IsConstant() && dim != param.dims.front()) {
      return Error(
          Problem::kOpenSize, dim->at,
          fmt::format(
              "the size '{}' is left open, which only the outermost extent of a tensor may be",
              dim->text));
    }
    decl.extents.push_back(*extent);
  }
  State state;
  if (!param.strides.empty() && !SetStrides(param, decl, state)) return false;
  if (!AddTensor(std::move(decl), param.at, nullptr)) return false;
  states_.back().strides = std::move(state.strides);
  states_.back().cells = state.cells;
  states_.back().wide = state.wide;
  return true;
}

// Their extents come from what is written; the rank from the first statement that does.
bool DefBinder::DeclareOutputs() {
  bool fine = true;
  std::unordered_map<std::string_view, std::pair<const SyntaxStatement*, size_t>> writers;
  for (const SyntaxStatement& s : def_->statements) {
    for (size_t k = 0; k < s.targets.size(); ++k) writers.try_emplace(s.targets[k].name, &s, k);
  }
  for (const SyntaxParam& output : def_->outputs) {
    const auto writer = writers.find(output.name);
    if (writer == writers.end()) {
      fine = Error(Problem::kNeverWritten, output.at,
                   fmt::format("no statement writes the output '{}'", output.name));
      continue;
    }
    const auto [statement, k] = writer->second;
    const SyntaxTarget* const first = &statement->targets[k];
    const std::optional<size_t> rank = callables_.RankOfTarget(*def_, *statement, k);
    if (!rank) {
      fine =
          Error(Problem::kArguments, first->at, fmt::format("the call gives no '{}'", output.name));
      continue;
    }
    if (output.dtype && output.dims.size() != *rank) {
      fine = Error(Problem::kRank, first->at,
                   fmt::format("found {} subscripts on '{}', which is declared with rank {}", *rank,
                               output.name, output.dims.size()));
      continue;
    }
    if (frame_ != nullptr) {  // a tensor of the caller
      const TensorId id = frame_->results.at(output.name);
      State& state = states_[static_cast<size_t>(id.index)];
      state.declared = output.dtype ? &output : nullptr;
      state.typed = output.dtype.has_value();
      if (output.dtype) SetType(id, *output.dtype);
      fine = AddName(output.name, id, output.at) && fine;
      continue;
    }
    TensorDecl decl{
        .name = output.name, .dtype = output.dtype.value_or(Dtype::kF32), .role = Role::kOutput};
    decl.extents.resize(*rank);
    fine = AddTensor(std::move(decl), output.at, output.dtype ? &output : nullptr) && fine;
  }
  return fine;
}

bool DefBinder::DeclareConst(const SyntaxConst& c) {
  const Result<int64_t> count = CountElems(c.shape);
  if (!count.ok() || *count != static_cast<int64_t>(c.elements.size())) {
    return Error(Problem::kConstant, c.at,
                 fmt::format("found {} elements for the constant '{}' of shape {}",
                             c.elements.size(), c.name, weft::Print(c.shape)));
  }
  exprs_.Begin(Dtype::kI32);
  std::vector<Typed> elements;
  std::optional<Dtype> dtype = c.dtype;
  for (const SyntaxExprPtr& element : c.elements) {
    const std::optional<Typed> value = exprs_.Bind(*element, true);
    if (!value) return false;
    if (program_[value->id].kind != ExprKind::kLiteral) {
      return Error(Problem::kConstant, element->at,
                   "found an expression in a constant, expected a number");
    }
    elements.push_back(*value);
    if (!c.dtype) dtype = dtype ? JoinTypes(*dtype, value->type) : value->type;
    if (!dtype)
      return Error(Problem::kConstant, element->at, "found bool beside a number in a constant");
  }
  TensorDecl decl{.name = c.name, .dtype = dtype.value_or(Dtype::kF32), .role = Role::kLiteral};
  for (int64_t extent : c.shape) decl.extents.emplace_back(extent);
  decl.literal = Tensor(decl.dtype, c.shape);
  for (size_t i = 0; i < elements.size(); ++i) {
    const ExprId id = exprs_.Convert(elements[i], decl.dtype);
    StoreScalar(decl.dtype, decl.literal.mutable_data(), static_cast<int64_t>(i),
                program_[id].literal);
  }
  return AddTensor(std::move(decl), c.at, nullptr);
}

// A name that is assigned but is nothing else is a temporary.
bool DefBinder::DeclareTemporaries() {
  bool fine = true;
  for (const SyntaxStatement& s : def_->statements) {
    for (size_t k = 0; k < s.targets.size(); ++k) {
      const SyntaxTarget& target = s.targets[k];
      if (scope_.tensors.contains(target.name)) continue;
      const std::optional<size_t> rank = callables_.RankOfTarget(*def_, s, k);
      if (!rank) {
        fine = Error(Problem::kArguments, target.at,
                     fmt::format("the call gives no '{}'", target.name));
        continue;
      }
      const SyntaxParam* declared = nullptr;
      for (const SyntaxParam& t : def_->temporaries) {
        if (t.name == target.name) declared = &t;
      }
      if (declared != nullptr && declared->dims.size() != *rank) {
        fine = Error(Problem::kRank, target.at,
                     fmt::format("found {} subscripts on '{}', which is declared with rank {}",
                                 *rank, target.name, declared->dims.size()));
        continue;
      }
      TensorDecl decl{.name = target.name, .role = Role::kTemporary};
      if (declared != nullptr) decl.dtype = *declared->dtype;
      decl.extents.resize(*rank);
      fine = AddTensor(std::move(decl), target.at, declared) && fine;
    }
  }
  for (const SyntaxParam& t : def_->temporaries) {
    const auto tensor = scope_.tensors.find(t.name);
    if (tensor == scope_.tensors.end()) {
      fine = Error(Problem::kNeverWritten, t.at,
                   fmt::format("no statement writes the temporary '{}'", t.name));
    } else if (program_[tensor->second].role != Role::kTemporary) {
      fine = Error(Problem::kTakenName, t.at,
                   fmt::format("the tensor '{}' is declared twice", t.name));
    }
  }
  return fine;
}

bool DefBinder::CheckAnnotation(size_t tensor) {
  const SyntaxParam* declared = states_[tensor].declared;
  if (declared == nullptr) return true;
  bool fine = true;
  for (size_t d = 0; d < declared->dims.size(); ++d) {
    const std::optional<Affine> stated = Dim(*declared->dims[d]);
    const Affine& found = program_.tensors[tensor].extents[d];
    if (!stated) {
      fine = false;
    } else if (*stated != found) {
      const auto name = [this](Var v) { return program_.params[static_cast<size_t>(v)]; };
      fine = Error(Problem::kExtent, declared->dims[d]->at,
                   fmt::format("extent {} of '{}' is stated as {}, but {} is what is written", d,
                               declared->name, stated->Print(name), found.Print(name)));
    }
  }
  return fine;
}

}  // namespace weft::tc
