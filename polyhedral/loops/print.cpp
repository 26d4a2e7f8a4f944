// The text of a nest: see the header's example for its look and parse.cpp for its grammar.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {
namespace {

class Printer {
 public:
  explicit Printer(const LoopNest& nest) : nest_(nest), place_(nest.vars.size(), -1) {
    for (Var p = 0; p < nest.params; ++p) Place(p);
    PlaceVars(nest.body);
    for (size_t v = 0; v < place_.size(); ++v) Place(static_cast<Var>(v));  // used, though unbound
  }

  std::string Nest() {
    out_ = "loops " + PrintName(nest_.name);
    for (int32_t p = 0; p < nest_.params; ++p)
      out_ += (p == 0 ? "<" : ", ") + PrintName(nest_.vars[p]);
    out_ += nest_.params > 0 ? "> (" : " (";
    const char* separator = "";
    for (BufferId id : Operands(nest_)) {
      out_ += std::exchange(separator, ", ") + BufferText(nest_[id]);
    }
    out_ += ")";
    if (!nest_.origins.empty()) out_ += "\n    for";
    for (const std::string& origin : nest_.origins) out_ += " " + PrintString(origin);
    out_ += " {\n";
    for (const Buffer& b : nest_.buffers) {
      if (b.access == Access::kLocal)
        out_ += fmt::format("  {} {}\n", SpaceName(b.space), BufferText(b));
    }
    Body(nest_.body, "  ");
    return out_ + "}\n";
  }

 private:
  // Terms stand in the order in which the nest binds their variables, however those are numbered.
  std::string AffineText(const Affine& e) const {
    const Affine ordered = e.Substitute([this](Var v) { return Affine::OfVar(place_[v]); });
    return ordered.Print([this](Var place) { return PrintName(nest_.vars[at_[place]]); });
  }

  void Place(Var v) {
    if (place_[v] >= 0) return;
    place_[v] = static_cast<Var>(at_.size());
    at_.push_back(v);
  }

  void PlaceVars(const std::vector<StmtId>& body) {
    for (StmtId id : body) {
      if (nest_[id].var >= 0) Place(nest_[id].var);
      PlaceVars(nest_[id].body);
      PlaceVars(nest_[id].otherwise);
    }
  }

  std::string List(const std::vector<Affine>& list, std::string_view suffix = "") const {
    std::string text;
    for (const Affine& e : list)
      text += (text.empty() ? "" : ", ") + AffineText(e) + std::string(suffix);
    return text;
  }

  std::string BufferText(const Buffer& b) const {
    constexpr std::string_view kAccess[] = {"in ", "out ", "inout ", ""};
    std::string text =
        fmt::format("{}: {}{}[{}]", PrintName(b.name), kAccess[static_cast<size_t>(b.access)],
                    DtypeName(b.dtype), List(b.shape));
    if (!b.layout.IsPlain()) text += " layout " + PrintString(weft::Print(b.layout));
    if (b.align_bytes > 0) text += fmt::format(" align {}", b.align_bytes);
    if (!b.fold.empty()) text += fmt::format(" fold [{}]", fmt::join(b.fold, ", "));
    return text;
  }

  void Body(const std::vector<StmtId>& body, const std::string& indent) {
    for (StmtId id : body) StmtText(nest_[id], indent);
  }

  void Block(std::string_view head, const std::vector<StmtId>& body, const std::string& indent) {
    out_ += fmt::format("{}{} {{\n", indent, head);
    Body(body, indent + "  ");
    out_ += indent + "}\n";
  }

  std::string Bound(const std::vector<Affine>& list, std::string_view function) const {
    return list.size() == 1 ? AffineText(list[0]) : fmt::format("{}({})", function, List(list));
  }

  void StmtText(const Stmt& s, const std::string& indent) {
    switch (s.kind) {
      case StmtKind::kFor: {
        std::string head =
            fmt::format("{} {} = {}:{}", LoopKindName(s.loop), PrintName(nest_.vars[s.var]),
                        Bound(s.lo, "max"), Bound(s.hi, "min"));
        if (s.step != 1) head += fmt::format(":{}", s.step);
        return Block(head, s.body, indent);
      }
      case StmtKind::kIf:
        return If(s, indent);
      case StmtKind::kStore: {
        const std::string value = Value(s.value, indent);
        const std::string word = s.across > 0 ? fmt::format("exchange {} ", s.across)
                                 : s.stream   ? "stream "
                                              : "";
        out_ += fmt::format("{}{}{}[{}] = {}\n", indent, word, PrintName(nest_[s.buffer].name),
                            List(s.index), value);
        return;
      }
      case StmtKind::kLet: {
        const std::string value = Value(s.value, indent);
        out_ += fmt::format("{}let {} = {} in {}:{} {} {}\n", indent, PrintName(nest_.vars[s.var]),
                            value, Bound(s.lo, "max"), Bound(s.hi, "min"),
                            s.by_buffer ? "by" : "of", PrintName(nest_[s.buffer].name));
        return;
      }
      case StmtKind::kBarrier:
        out_ += indent + (s.cluster ? "barrier cluster\n" : "barrier\n");
        return;
      case StmtKind::kPrefetch:
        out_ += fmt::format("{}prefetch {}{} at {}\n", indent, s.near ? "near " : "",
                            PrintName(nest_[s.buffer].name), AffineText(s.index[0]));
        return;
      case StmtKind::kMark:
        return Block("mark " + PrintString(s.label), s.body, indent);
      case StmtKind::kSingle:
        return Block("single", s.body, indent);
    }
    WEFT_UNREACHABLE();
  }

  void If(const Stmt& s, const std::string& indent) {
    std::string head = "if ";
    for (size_t i = 0; i < s.conditions.size(); ++i) {
      head += fmt::format("{}{} >= 0", i > 0 ? " && " : "", AffineText(s.conditions[i]));
    }
    Block(head, s.body, indent);
    if (s.otherwise.empty()) return;
    out_.pop_back();
    out_ += " else {\n";
    Body(s.otherwise, indent + "  ");
    out_ += indent + "}\n";
  }

  // The text of a statement's value; parts used more than once go before it, as lines of their own.
  std::string Value(ExprId root, const std::string& indent) {
    std::map<ExprId, int> uses;
    CountUses(root, uses);
    shared_.clear();
    for (const auto& [id, count] : uses) {  // in the order of ids: children first
      const ExprKind kind = nest_[id].kind;
      if (count < 2 || kind == ExprKind::kLiteral || kind == ExprKind::kAffine) continue;
      const std::string text = ExprText(id, false);
      out_ += fmt::format("{}${} = {}\n", indent, shared_.size(), text);
      shared_.emplace(id, fmt::format("${}", shared_.size()));
    }
    return ExprText(root, false);
  }

  void CountUses(ExprId id, std::map<ExprId, int>& uses) const {
    if (++uses[id] > 1) return;
    for (ExprId arg : nest_[id].args) CountUses(arg, uses);
  }

  std::string ExprText(ExprId id, bool nested) const {
    if (const auto it = shared_.find(id); it != shared_.end()) return it->second;
    const Expr& e = nest_[id];
    switch (e.kind) {
      case ExprKind::kLiteral:
        return LiteralText(e);
      case ExprKind::kAffine:
        return fmt::format("index({}){}", AffineText(e.index[0]),
                           e.dtype == Dtype::kI64 ? "" : fmt::format(":{}", DtypeName(e.dtype)));
      case ExprKind::kLoad: {
        std::string text = fmt::format("{}[{}]", PrintName(nest_[e.buffer].name), List(e.index));
        if (!e.guards.empty()) text += "{" + List(e.guards, " >= 0") + "}";
        return text;
      }
      case ExprKind::kOp:
        return OpText(e, nested);
    }
    WEFT_UNREACHABLE();
  }

  std::string LiteralText(const Expr& e) const {
    std::string text;
    if (e.dtype == Dtype::kBool) return e.literal.i != 0 ? "true" : "false";
    if (e.dtype == Dtype::kU64) return fmt::format("{}:u64", static_cast<uint64_t>(e.literal.i));
    if (!IsFloat(e.dtype)) {
      text = fmt::format("{}", e.literal.i);
    } else {
      text = e.dtype == Dtype::kF64 ? PrintFloat(e.literal.f64) : PrintFloat(e.literal.f32);
      if (text.find_first_of(".en") == text.npos) text += ".0";
    }
    const bool plain = e.dtype == Dtype::kF32 || e.dtype == Dtype::kI64;
    return plain ? text : fmt::format("{}:{}", text, DtypeName(e.dtype));
  }

  // The type that a reader gives an operation from its operands.
  Dtype Inferred(const Expr& e) const {
    if (IsCompare(e.op) || e.op == ScalarOp::kIsNan) return Dtype::kBool;
    return nest_[e.args[TypedBy(e.op)]].dtype;
  }

  std::string OpText(const Expr& e, bool nested) const {
    const std::string_view name = ScalarName(e.op);
    const bool word = ParseScalarFunction(name).has_value();
    const bool cast = e.op == ScalarOp::kCast || e.op == ScalarOp::kBitcast;
    const std::string suffix =
        cast || Inferred(e) != e.dtype ? fmt::format(":{}", DtypeName(e.dtype)) : "";
    if (!word && e.args.size() == 1) return fmt::format("{}{}", name, ExprText(e.args[0], true));
    if (!word) {
      const std::string a = ExprText(e.args[0], true), b = ExprText(e.args[1], true);
      const bool brackets = nested || !suffix.empty();
      return brackets ? fmt::format("({} {} {}){}", a, name, b, suffix)
                      : fmt::format("{} {} {}", a, name, b);
    }
    std::string args;
    for (ExprId arg : e.args) args += (args.empty() ? "" : ", ") + ExprText(arg, false);
    return fmt::format("{}({}){}", name, args, suffix);
  }

  const LoopNest& nest_;
  std::vector<Var> place_, at_;  // of each variable in the order of binding, and the inverse
  std::string out_;
  std::map<ExprId, std::string> shared_;  // of the statement at hand
};

}  // namespace

std::string Print(const LoopNest& nest) { return Printer(nest).Nest(); }

}  // namespace weft::loops
