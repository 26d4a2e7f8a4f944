// The parser of the text form:
//
//   nest  ::= "loops" name ["<" params ">"] "(" operands ")" ["for" origins] "{" {local} {stmt} "}"
//   local ::= ("cache" | "shared" | "reg" | "cluster" | "grid") buffer
//   buffer ::= name ":" [access] dtype "[" extents "]" ["layout" string] ["align" n] ["fold" [...]]
//   stmt  ::= loop | "if" | "let" | "barrier" ["cluster"] | "single" | "mark" | ["stream"] name "["
//   ... "]" "=" expr | "exchange" n name "[" ... "]" "=" expr
//   expr  ::= primary { infix primary }          all infix operators bind alike, to the left:
//   use brackets
//
// A statement's key word is one only if no "[" follows it, so that a buffer may have any name.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/text.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {
namespace {

constexpr int kMaxDepth = 256;

class Parser {
 public:
  explicit Parser(Lexer& lexer) : lexer_(lexer) {}

  Result<LoopNest> Nest() {
    WEFT_TRY(lexer_.Expect("loops"));
    WEFT_TRY(nest_.name, lexer_.ExpectName());
    if (lexer_.Accept("<")) {
      do {
        WEFT_TRY(std::string name, lexer_.ExpectName());
        vars_.emplace(name, static_cast<Var>(nest_.vars.size()));
        nest_.vars.push_back(std::move(name));
      } while (lexer_.Accept(","));
      WEFT_TRY(lexer_.Expect(">"));
    }
    nest_.params = static_cast<int32_t>(nest_.vars.size());
    WEFT_TRY(OperandList());
    if (lexer_.Accept("for")) {
      while (!lexer_.Is("{")) {
        WEFT_TRY(std::string origin, lexer_.ExpectName());
        nest_.origins.push_back(std::move(origin));
      }
    }
    WEFT_TRY(lexer_.Expect("{"));
    WEFT_TRY(Locals());
    WEFT_TRY(Body(nest_.body, 0));
    if (!lexer_.AtEnd()) return lexer_.Error("expected the end of the text after the nest");
    return std::move(nest_);
  }

 private:
  Status OperandList() {
    WEFT_TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!nest_.buffers.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(BufferDecl(Space::kGlobal));
    }
    return {};
  }

  bool IsKeyword(std::string_view word) const {
    return lexer_.Peek().kind == TokenKind::kName && lexer_.Is(word) && lexer_.Peek(1).text != "[";
  }

  Status Locals() {
    for (;;) {
      const Space spaces[] = {Space::kRegister, Space::kCache, Space::kShared, Space::kCluster,
                              Space::kGrid};
      const auto is = [this](Space space) { return IsKeyword(SpaceName(space)); };
      const auto space = std::ranges::find_if(spaces, is);
      if (space == std::end(spaces)) return {};
      lexer_.Next();
      WEFT_TRY(BufferDecl(*space));
    }
  }

  Status BufferDecl(Space space) {
    Buffer b{.space = space};
    const Token at = lexer_.Peek();
    WEFT_TRY(b.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect(":"));
    if (space == Space::kGlobal) {
      if (lexer_.Accept("in")) {
        b.access = Access::kIn;
      } else if (lexer_.Accept("out")) {
        b.access = Access::kOut;
      } else {
        WEFT_TRY(lexer_.Expect("inout"));
        b.access = Access::kInOut;
      }
    }
    WEFT_TRY(b.dtype, lexer_.ExpectDtype());
    WEFT_TRY(b.shape, Index());
    if (b.shape.size() > Layout::kMaxRank) return lexer_.ErrorAt(at, "the rank is too large");
    b.layout = Layout::Plain(b.shape.size());
    WEFT_TRY(Attributes(b));
    if (!buffers_.emplace(b.name, BufferId(nest_.buffers.size())).second) {
      return lexer_.ErrorAt(at, fmt::format("buffer {} is declared twice", b.name));
    }
    nest_.buffers.push_back(std::move(b));
    return {};
  }

  Status Attributes(Buffer& b) {
    if (lexer_.Accept("layout")) {
      const Token at = lexer_.Peek();
      WEFT_TRY(const std::string text, lexer_.ExpectString());
      Result<Layout> layout = ParseLayout(text);
      if (!layout.ok()) return std::move(layout.status()).At(lexer_.Where(at));
      if (layout->rank() != b.shape.size())
        return lexer_.ErrorAt(at, "the layout has another rank");
      b.layout = *std::move(layout);
    }
    if (lexer_.Accept("align")) {
      WEFT_TRY(b.align_bytes, lexer_.ExpectInt());
    }
    if (lexer_.Accept("fold")) {
      WEFT_TRY(lexer_.Expect("["));
      do {
        WEFT_TRY(const int64_t window, lexer_.ExpectInt());
        b.fold.push_back(window);
      } while (lexer_.Accept(","));
      WEFT_TRY(lexer_.Expect("]"));
    }
    return {};
  }

  Result<Affine> AffineExpr() {
    return lexer_.ExpectAffine([this](std::string_view name) -> Result<Var> {
      const auto it = vars_.find(name);
      if (it == vars_.end()) return Invalid(fmt::format("unknown variable {}", name));
      return it->second;
    });
  }

  Result<std::vector<Affine>> Index() {
    std::vector<Affine> index;
    WEFT_TRY(lexer_.Expect("["));
    while (!lexer_.Accept("]")) {
      if (!index.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(Affine e, AffineExpr());
      index.push_back(std::move(e));
    }
    return index;
  }

  Result<std::vector<Affine>> Bound(std::string_view function) {
    std::vector<Affine> list;
    const bool several = lexer_.Is(function) && lexer_.Peek(1).text == "(";
    if (several) {
      lexer_.Next();
      lexer_.Next();
    }
    do {
      WEFT_TRY(Affine e, AffineExpr());
      list.push_back(std::move(e));
    } while (several && lexer_.Accept(","));
    if (several) WEFT_TRY(lexer_.Expect(")"));
    return list;
  }

  // One loop or let may follow another with the same variable.
  Result<Var> NewVar() {
    WEFT_TRY(std::string name, lexer_.ExpectName());
    const auto [it, fresh] = vars_.emplace(name, static_cast<Var>(nest_.vars.size()));
    if (fresh) nest_.vars.push_back(std::move(name));
    return it->second;
  }

  Status Body(std::vector<StmtId>& body, int depth) {
    if (depth > kMaxDepth) return lexer_.Error("the nest is too deep");
    while (!lexer_.Accept("}")) {
      shared_.clear();
      while (lexer_.Accept("$")) {
        WEFT_TRY(const int64_t number, lexer_.ExpectInt());
        WEFT_TRY(lexer_.Expect("="));
        WEFT_TRY(const ExprId value, Expression(0));
        shared_[number] = value;
      }
      WEFT_TRY(Stmt s, Statement(depth));
      body.push_back(AddStmt(nest_, std::move(s)));
    }
    return {};
  }

  Result<Stmt> Statement(int depth) {
    for (int kind = 0; kind <= static_cast<int>(LoopKind::kThreadZ); ++kind) {
      if (IsKeyword(LoopKindName(static_cast<LoopKind>(kind))))
        return Loop(static_cast<LoopKind>(kind), depth);
    }
    Stmt s;
    if (IsKeyword("if")) return If(depth);
    if (IsKeyword("let")) return Let();
    if (IsKeyword("barrier")) {
      lexer_.Next();
      s.kind = StmtKind::kBarrier;
      s.cluster = IsKeyword("cluster");
      if (s.cluster) lexer_.Next();
      return s;
    }
    if (IsKeyword("prefetch")) {
      lexer_.Next();
      s.kind = StmtKind::kPrefetch;
      const auto is_at = [&](size_t ahead) { return lexer_.Peek(ahead).text == "at"; };
      s.near = IsKeyword("near") && (!is_at(1) || is_at(2));  // a buffer may be called either
      if (s.near) lexer_.Next();
      WEFT_TRY(s.buffer, BufferRef());
      WEFT_TRY(lexer_.Expect("at"));
      WEFT_TRY(s.index.emplace_back(), AffineExpr());
      return s;
    }
    if (IsKeyword("single") || IsKeyword("mark")) {
      const bool mark = lexer_.Next().text == "mark";
      s.kind = mark ? StmtKind::kMark : StmtKind::kSingle;
      if (mark) {
        WEFT_TRY(s.label, lexer_.ExpectString());
      }
      WEFT_TRY(lexer_.Expect("{"));
      WEFT_TRY(Body(s.body, depth + 1));
      return s;
    }
    s.kind = StmtKind::kStore;
    if (IsKeyword("stream")) {
      lexer_.Next();
      s.stream = true;
    } else if (IsKeyword("exchange")) {
      lexer_.Next();
      const Token at = lexer_.Peek();
      WEFT_TRY(const int64_t across, lexer_.ExpectInt());
      if (across < 1 || across >= kWarp)
        return lexer_.ErrorAt(at, fmt::format("found {}, expected 1 to {}", across, kWarp - 1));
      s.across = static_cast<int32_t>(across);
    }
    WEFT_TRY(s.buffer, BufferRef());
    WEFT_TRY(s.index, Index());
    WEFT_TRY(lexer_.Expect("="));
    WEFT_TRY(s.value, Expression(0));
    return s;
  }

  Result<Stmt> Loop(LoopKind kind, int depth) {
    lexer_.Next();
    Stmt s{.kind = StmtKind::kFor, .loop = kind};
    WEFT_TRY(s.var, NewVar());
    WEFT_TRY(lexer_.Expect("="));
    WEFT_TRY(s.lo, Bound("max"));
    WEFT_TRY(lexer_.Expect(":"));
    WEFT_TRY(s.hi, Bound("min"));
    if (lexer_.Accept(":")) {
      WEFT_TRY(s.step, lexer_.ExpectInt());
    }
    WEFT_TRY(lexer_.Expect("{"));
    WEFT_TRY(Body(s.body, depth + 1));
    return s;
  }

  Result<Stmt> If(int depth) {
    lexer_.Next();
    Stmt s{.kind = StmtKind::kIf};
    do {
      WEFT_TRY(Affine e, NonNegative());
      s.conditions.push_back(std::move(e));
    } while (lexer_.Accept("&&"));
    WEFT_TRY(lexer_.Expect("{"));
    WEFT_TRY(Body(s.body, depth + 1));
    if (lexer_.Accept("else")) {
      WEFT_TRY(lexer_.Expect("{"));
      WEFT_TRY(Body(s.otherwise, depth + 1));
    }
    return s;
  }

  // "e >= f" and "e < f" (for whoever writes by hand): the expression that is to be >= 0.
  Result<Affine> NonNegative() {
    WEFT_TRY(const Affine left, AffineExpr());
    const bool less = lexer_.Accept("<");
    if (!less) WEFT_TRY(lexer_.Expect(">="));
    WEFT_TRY(const Affine right, AffineExpr());
    auto e = less ? AddScaled(right, left, -1) : AddScaled(left, right, -1);
    if (e && less) e = AddScaled(*e, 1, -1);
    if (!e) return lexer_.Error("the condition leaves 64 bits");
    return *std::move(e);
  }

  Result<Stmt> Let() {
    lexer_.Next();
    Stmt s{.kind = StmtKind::kLet};
    WEFT_TRY(s.var, NewVar());
    WEFT_TRY(lexer_.Expect("="));
    WEFT_TRY(s.value, Expression(0));
    WEFT_TRY(lexer_.Expect("in"));
    WEFT_TRY(s.lo, Bound("max"));
    WEFT_TRY(lexer_.Expect(":"));
    WEFT_TRY(s.hi, Bound("min"));
    s.by_buffer = lexer_.Accept("by");
    if (!s.by_buffer) WEFT_TRY(lexer_.Expect("of"));
    WEFT_TRY(s.buffer, BufferRef());
    return s;
  }

  Result<BufferId> BufferRef() {
    const Token at = lexer_.Peek();
    WEFT_TRY(const std::string name, lexer_.ExpectName());
    const auto it = buffers_.find(name);
    if (it == buffers_.end())
      return lexer_.ErrorAt(at, fmt::format("unknown buffer {}", PrintName(name)));
    return it->second;
  }

  static std::optional<ScalarOp> Infix(const Token& token) {
    if (token.kind != TokenKind::kPunct) return std::nullopt;
    for (int op = 0; op <= static_cast<int>(ScalarOp::kOr); ++op) {
      const auto o = static_cast<ScalarOp>(op);
      if (ScalarArity(o) == 2 && ScalarName(o) == token.text) return o;
    }
    return std::nullopt;
  }

  Result<ExprId> Expression(int depth) {
    WEFT_TRY(ExprId left, Primary(depth));
    while (const std::optional<ScalarOp> op = Infix(lexer_.Peek())) {
      lexer_.Next();
      WEFT_TRY(const ExprId right, Primary(depth));
      left = Op(*op, {left, right});
    }
    return left;
  }

  ExprId Op(ScalarOp op, std::vector<ExprId> args) {
    const bool boolean = IsCompare(op) || op == ScalarOp::kIsNan;
    const Dtype dtype = boolean ? Dtype::kBool : nest_[args[TypedBy(op)]].dtype;
    return Add({.kind = ExprKind::kOp, .dtype = dtype, .op = op, .args = std::move(args)});
  }

  ExprId Add(Expr e) {
    nest_.exprs.push_back(std::move(e));
    return ExprId(nest_.exprs.size() - 1);
  }

  Result<ExprId> Primary(int depth) {
    if (depth > kMaxDepth) return lexer_.Error("the expression is too deep");
    const Token token = lexer_.Peek();
    if (lexer_.Accept("$")) return Shared();
    if (lexer_.Accept("!")) {
      WEFT_TRY(const ExprId arg, Primary(depth + 1));
      return Op(ScalarOp::kNot, {arg});
    }
    if (lexer_.Accept("(")) {
      WEFT_TRY(const ExprId inner, Expression(depth + 1));
      WEFT_TRY(lexer_.Expect(")"));
      // A type after brackets is the operation's: shared parts are made without brackets.
      WEFT_TRY(Suffix(inner));
      return inner;
    }
    const bool name = token.kind == TokenKind::kName || token.kind == TokenKind::kString;
    if (name && lexer_.Peek(1).text == "[") return Load();
    if (name && lexer_.Peek(1).text == "(") return Call(depth);
    return Literal();
  }

  Result<ExprId> Shared() {
    const Token at = lexer_.Peek();
    WEFT_TRY(const int64_t number, lexer_.ExpectInt());
    const auto it = shared_.find(number);
    if (it == shared_.end()) return lexer_.ErrorAt(at, fmt::format("unknown part ${}", number));
    return it->second;
  }

  Status Suffix(ExprId id) {
    if (lexer_.Accept(":")) {
      WEFT_TRY(nest_.exprs[id.index].dtype, lexer_.ExpectDtype());
    }
    return {};
  }

  Result<ExprId> Load() {
    Expr e{.kind = ExprKind::kLoad};
    WEFT_TRY(e.buffer, BufferRef());
    e.dtype = nest_[e.buffer].dtype;
    WEFT_TRY(e.index, Index());
    if (lexer_.Accept("{")) {
      do {
        WEFT_TRY(Affine guard, NonNegative());
        e.guards.push_back(std::move(guard));
      } while (lexer_.Accept(","));
      WEFT_TRY(lexer_.Expect("}"));
    }
    return Add(std::move(e));
  }

  Result<ExprId> Call(int depth) {
    const Token name = lexer_.Next();
    WEFT_TRY(lexer_.Expect("("));
    if (name.text == "index") {
      WEFT_TRY(Affine value, AffineExpr());
      WEFT_TRY(lexer_.Expect(")"));
      const ExprId id =
          Add({.kind = ExprKind::kAffine, .dtype = Dtype::kI64, .index = {std::move(value)}});
      WEFT_TRY(Suffix(id));
      return id;
    }
    const std::optional<ScalarOp> op = ParseScalarFunction(name.text);
    if (!op) return lexer_.ErrorAt(name, fmt::format("unknown function {}", PrintName(name.text)));
    std::vector<ExprId> args;
    while (!lexer_.Accept(")")) {
      if (!args.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(const ExprId arg, Expression(depth + 1));
      args.push_back(arg);
    }
    if (static_cast<int32_t>(args.size()) != ScalarArity(*op)) {
      return lexer_.ErrorAt(name, fmt::format("found {} arguments of {}, expected {}", args.size(),
                                              name.text, ScalarArity(*op)));
    }
    const ExprId id = Op(*op, std::move(args));
    WEFT_TRY(Suffix(id));
    return id;
  }

  Result<ExprId> Literal() {
    const bool yes = lexer_.Accept("true");
    if (yes || lexer_.Accept("false")) return Add({.dtype = Dtype::kBool, .literal = {.i = yes}});
    const Token number = lexer_.Peek().text == "-" ? lexer_.Peek(1) : lexer_.Peek();
    // The type comes last, so the number is read twice: as an integer if its type is one.
    const size_t begin = lexer_.Place();
    WEFT_TRY(const double real, lexer_.ExpectFloat());
    // Digits alone are whole, though the magnitude of the least integer is too large for a kInt.
    const bool whole = number.text.find_first_not_of("0123456789") == std::string_view::npos;
    Expr e{.dtype = whole ? Dtype::kI64 : Dtype::kF32};
    if (lexer_.Accept(":")) {
      WEFT_TRY(e.dtype, lexer_.ExpectDtype());
    }
    if (IsFloat(e.dtype)) {
      e.literal = ScalarOf(e.dtype, real);
      return Add(std::move(e));
    }
    const size_t end = lexer_.Place();
    lexer_.GoTo(begin);
    if (e.dtype == Dtype::kU64) {
      WEFT_TRY(const uint64_t value, lexer_.ExpectUint());
      e.literal.i = static_cast<int64_t>(value);
    } else {
      WEFT_TRY(e.literal.i, lexer_.ExpectInt());
    }
    lexer_.GoTo(end);
    return Add(std::move(e));
  }

  Lexer& lexer_;
  LoopNest nest_;
  std::map<std::string, Var, std::less<>> vars_;
  std::map<std::string, BufferId, std::less<>> buffers_;
  std::map<int64_t, ExprId> shared_;
};

}  // namespace

Result<LoopNest> Parse(std::string_view text, const std::string& file) {
  WEFT_TRY(Lexer lexer, Lexer::Open(text, file));
  return Parser(lexer).Nest();
}

}  // namespace weft::loops
