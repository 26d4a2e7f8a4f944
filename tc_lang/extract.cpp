// The one def of a group: programs of its nodes, joined where they share values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/scalar.h"
#include "tc_lang/syntax.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

// A value's name as an identifier: "/conv1/Conv_output_0" -> "conv1_Conv_output_0".
std::string Sanitize(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
    if (out.size() == 48) break;
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(0, "v");
  return out;
}

bool IsReserved(const std::string& name) {
  constexpr std::array<std::string_view, 9> kWords = {"def",  "where",    "in",  "exists", "const",
                                                      "size", "infinity", "nan", "within"};
  return std::find(kWords.begin(), kWords.end(), name) != kWords.end() || ParseTypeWord(name) ||
         ParseScalarFunction(name) || name.starts_with("bitcast_");
}

class Joiner {
 public:
  Joiner(const graph::Graph& graph, std::span<const Alternative* const> parts,
         std::span<const graph::ValueId> kept)
      : graph_(graph), parts_(parts), kept_(kept.begin(), kept.end()) {}

  Result<Extracted> Run(std::string name) {
    out_.program.name = Sanitize(name);
    for (const Alternative* part : parts_) {
      for (const std::string& param : part->program.params) AddParam(param);
      for (const Statement& s : part->program.statements) {
        for (const Index& index : s.indices)
          taken_.insert(index.name);  // an index never shares a tensor's name
      }
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (graph::ValueId v : parts_[p]->inputs) last_use_[v] = p;
    }
    for (part_ = 0; part_ < parts_.size(); ++part_) WEFT_TRY(AddPart(part_));
    SortTensors();
    Status verified = Verify(out_.program);
    if (!verified.ok()) {
      return Internal(fmt::format("the def of group '{}' is wrong: {}", out_.program.name,
                                  verified.ToString()));
    }
    return std::move(out_);
  }

 private:
  void AddParam(const std::string& name) {
    std::vector<std::string>& params = out_.program.params;
    if (std::find(params.begin(), params.end(), name) == params.end()) params.push_back(name);
    taken_.insert(name);
  }

  std::string Unique(const std::string& wanted) {
    std::string name = wanted;
    for (int k = 2; IsReserved(name) || taken_.contains(name); ++k)
      name = fmt::format("{}_{}", wanted, k);
    taken_.insert(name);
    return name;
  }

  TensorId AddTensor(TensorDecl decl, const std::string& wanted, Role role) {
    decl.name = Unique(wanted);
    decl.role = role;
    out_.program.tensors.push_back(std::move(decl));
    return TensorId(out_.program.tensors.size() - 1);
  }

  Status AddPart(size_t p) {
    const Program& from = parts_[p]->program;
    const Alternative& part = *parts_[p];
    if (Inputs(from).size() != part.inputs.size() || Outputs(from).size() != part.outputs.size()) {
      return Internal(
          fmt::format("the alternative '{}' names other operands than its def has", part.name));
    }
    param_place_.clear();
    for (const std::string& param : from.params) {
      const std::vector<std::string>& params = out_.program.params;
      param_place_.push_back(
          static_cast<int32_t>(std::find(params.begin(), params.end(), param) - params.begin()));
    }
    tensor_place_.clear();
    size_t input = 0, output = 0;
    for (const TensorDecl& decl : from.tensors) {
      TensorDecl moved = decl;
      for (Affine& extent : moved.extents) extent = Moved(extent);
      switch (decl.role) {
        case Role::kInput:
          WEFT_TRY(AddInput(std::move(moved), part.inputs[input++]));
          break;
        case Role::kOutput:
          WEFT_TRY(AddOutput(p, std::move(moved), part.outputs[output++]));
          break;
        case Role::kTemporary:
        case Role::kLiteral:
          tensor_place_.push_back(AddTensor(std::move(moved), decl.name, decl.role));
      }
    }
    CopyStatements(from);
    return {};
  }

  std::string NameOf(graph::ValueId v, const TensorDecl& decl) const {
    return v.valid() && static_cast<size_t>(v.index) < graph_.values.size()
               ? Sanitize(graph_[v].name)
               : decl.name;
  }

  Status AddInput(TensorDecl decl, graph::ValueId v) {
    const auto known = place_.find(v);
    if (known != place_.end()) {
      const TensorDecl& other = out_.program[known->second];
      if (other.dtype != decl.dtype || other.extents != decl.extents) {
        return Internal(fmt::format("two defs see '{}' with different types", other.name));
      }
      tensor_place_.push_back(known->second);
      return {};
    }
    const std::string wanted = NameOf(v, decl);
    tensor_place_.push_back(place_[v] = AddTensor(std::move(decl), wanted, Role::kInput));
    out_.inputs.push_back(v);
    return {};
  }

  Status AddOutput(size_t p, TensorDecl decl, graph::ValueId v) {
    if (place_.contains(v))
      return Internal(
          fmt::format("'{}' is used before it is defined, or defined twice", decl.name));
    const auto last = last_use_.find(v);
    const bool inner = last != last_use_.end() && last->second > p && !kept_.contains(v);
    const std::string wanted = NameOf(v, decl);
    tensor_place_.push_back(
        place_[v] = AddTensor(std::move(decl), wanted, inner ? Role::kTemporary : Role::kOutput));
    if (!inner) out_.outputs.push_back(v);
    return {};
  }

  Affine Moved(const Affine& e) const {
    return e.Substitute(
        [this](Var v) { return Affine::OfVar(param_place_[static_cast<size_t>(v)]); });
  }

  void CopyStatements(const Program& from) {
    const size_t offset = out_.program.exprs.size();
    const auto shift = [&](ExprId& id) {
      if (id.valid()) id = ExprId(static_cast<size_t>(id.index) + offset);
    };
    for (Expr e : from.exprs) {
      for (ExprId& arg : e.args) shift(arg);
      if (e.kind == ExprKind::kParam) e.position = param_place_[static_cast<size_t>(e.position)];
      if (e.kind == ExprKind::kRead) e.tensor = tensor_place_[static_cast<size_t>(e.tensor.index)];
      out_.program.exprs.push_back(std::move(e));
    }
    for (Statement s : from.statements) {
      s.target = tensor_place_[static_cast<size_t>(s.target.index)];
      if (s.companion.valid()) s.companion = tensor_place_[static_cast<size_t>(s.companion.index)];
      for (ExprId& id : s.subscripts) shift(id);
      shift(s.value);
      shift(s.companion_value);
      for (Index& index : s.indices) {
        index.lo = Moved(index.lo);
        index.hi = Moved(index.hi);
      }
      out_.program.statements.push_back(std::move(s));
      out_.part_of.push_back(part_);
    }
  }

  // Inputs, outputs, the rest: each in order of appearance.
  void SortTensors() {
    Program& program = out_.program;
    std::vector<TensorId> to(program.tensors.size());
    std::vector<TensorDecl> sorted;
    const auto take = [&](auto wanted) {
      for (size_t t = 0; t < to.size(); ++t) {
        if (to[t].valid() || !wanted(program.tensors[t].role)) continue;
        to[t] = TensorId(sorted.size());
        sorted.push_back(std::move(program.tensors[t]));
      }
    };
    take([](Role role) { return role == Role::kInput; });
    take([](Role role) { return role == Role::kOutput; });
    take([](Role) { return true; });
    program.tensors = std::move(sorted);
    for (Expr& e : program.exprs) {
      if (e.kind == ExprKind::kRead) e.tensor = to[static_cast<size_t>(e.tensor.index)];
    }
    for (Statement& s : program.statements) {
      s.target = to[static_cast<size_t>(s.target.index)];
      if (s.companion.valid()) s.companion = to[static_cast<size_t>(s.companion.index)];
    }
  }

  const graph::Graph& graph_;
  std::span<const Alternative* const> parts_;
  std::set<graph::ValueId> kept_;
  Extracted out_;
  size_t part_ = 0;  // the current one
  std::set<std::string> taken_;
  std::map<graph::ValueId, TensorId> place_;   // of values seen so far
  std::map<graph::ValueId, size_t> last_use_;  // part that reads it last
  std::vector<TensorId> tensor_place_;         // of the current part's tensors
  std::vector<int32_t> param_place_;
};

}  // namespace

Result<Extracted> Extract(const graph::Graph& graph, std::span<const Alternative* const> parts,
                          std::span<const graph::ValueId> kept, std::string name) {
  return Joiner(graph, parts, kept).Run(std::move(name));
}

}  // namespace weft::tc
