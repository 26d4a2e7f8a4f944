#include "tc_lang/parser.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>

namespace weft::tc {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr std::array<std::string_view, 9> kAssigns = {
    "=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"};

bool IsAssign(const TcToken& token) {
  if (token.kind != TcTokenKind::kPunct) return false;
  for (std::string_view assign : kAssigns) {
    if (token.text == assign) return true;
  }
  return false;
}

class DefParser {
 public:
  DefParser(const TokenList& list, Diagnostics& diagnostics)
      : cursor_(list, diagnostics), exprs_(cursor_) {}

  std::vector<Def> Run(const std::string& file, const std::shared_ptr<const std::string>& source) {
    std::vector<Def> defs;
    std::set<std::string> names;
    while (cursor_.Peek().kind != TcTokenKind::kEnd && !cursor_.full()) {
      Def def;
      def.file = file;
      def.source = source;
      if (!ParseDef(def)) {
        SkipToDef();
        continue;
      }
      if (!names.insert(def.name).second) {
        cursor_.FailAt(Problem::kTakenName, def.at,
                       fmt::format("a def named '{}' stands above already", def.name));
      }
      defs.push_back(std::move(def));
    }
    return defs;
  }

 private:
  bool ParseDef(Def& def) {
    if (!cursor_.Expect("def")) return false;
    def.at = cursor_.Peek().at;
    if (!cursor_.ExpectName(def.name, "the name of the def") || !cursor_.Expect("(")) return false;
    if (!ParseList(def.params, false) || !cursor_.Expect("->") || !cursor_.Expect("("))
      return false;
    if (!ParseList(def.outputs, true) || !cursor_.Expect("{")) return false;
    while (!cursor_.Accept("}")) {
      if (cursor_.Peek().kind == TcTokenKind::kEnd) return cursor_.Fail("a statement or '}'");
      const size_t before = cursor_.position();
      if (!ParseItem(def)) SkipToStatement(before);
      if (cursor_.full()) return false;
    }
    return true;
  }

  bool ParseList(std::vector<SyntaxParam>& params, bool outputs) {
    if (cursor_.Accept(")")) return true;
    do {
      SyntaxParam param;
      if (!ParseParam(param, outputs)) return false;
      params.push_back(std::move(param));
    } while (cursor_.Accept(","));
    return cursor_.Accept(")") || cursor_.Fail("',' or ')'");
  }

  // float(N, C) name, size NAME or, among outputs, a bare name.
  bool ParseParam(SyntaxParam& param, bool output) {
    param.dtype = ParseTypeWord(cursor_.Peek().text);
    if (param.dtype) {
      cursor_.Next();
      if (cursor_.Accept("(") && !ParseDims(param, output)) return false;
    } else if (!output) {
      if (!cursor_.Is("size") || cursor_.Peek(1).kind != TcTokenKind::kName) {
        std::vector<std::string> words = TypeWords();
        words.emplace_back("size");
        return cursor_.Fail("an element type such as float, or 'size'", words);
      }
      cursor_.Next();
      param.is_size = true;
    }
    param.at = cursor_.Peek().at;
    if (!cursor_.ExpectName(param.name, "a name")) return false;
    if (output || param.dims.empty() || !cursor_.Is("strides")) return true;
    const Location at = cursor_.Next().at;
    if (!cursor_.Expect("(") || !exprs_.ParseArgs(param.strides)) return false;
    return param.strides.size() == param.dims.size() ||
           cursor_.FailAt(Problem::kRank, at,
                          fmt::format("found {} strides for '{}', which has rank {}",
                                      param.strides.size(), param.name, param.dims.size()));
  }

  bool ParseDims(SyntaxParam& param, bool output) {
    if (cursor_.Accept(")")) return true;
    do {
      const TcToken& token = cursor_.Peek();
      const bool simple = token.kind == TcTokenKind::kInt || token.kind == TcTokenKind::kName;
      if (!output && !simple) return cursor_.Fail("a size: a name or an integer");
      SyntaxExprPtr dim = exprs_.Parse();
      if (dim == nullptr) return false;
      if (!output && dim->kind != SyntaxKind::kInt && dim->kind != SyntaxKind::kName) {
        return cursor_.FailAt(Problem::kBound, dim->at,
                              "found an expression as a size, expected a name or an integer");
      }
      param.dims.push_back(std::move(dim));
    } while (cursor_.Accept(","));
    return cursor_.Accept(")") || cursor_.Fail("',' or ')'");
  }

  bool ParseItem(Def& def) {
    if (cursor_.Is("const") && cursor_.Peek(1).kind == TcTokenKind::kName) return ParseConst(def);
    if (ParseTypeWord(cursor_.Peek().text)) {
      SyntaxParam declared;
      if (!ParseParam(declared, true)) return false;
      def.temporaries.push_back(std::move(declared));
      cursor_.Accept(";");
      return true;
    }
    SyntaxStatement s;
    if (!ParseStatement(s)) return false;
    s.origin = cursor_.Comment();
    def.statements.push_back(std::move(s));
    return true;
  }

  bool ParseConst(Def& def) {
    cursor_.Next();
    SyntaxConst c;
    c.dtype = ParseTypeWord(cursor_.Peek().text);
    if (c.dtype) cursor_.Next();
    c.at = cursor_.Peek().at;
    if (!cursor_.ExpectName(c.name, "the name of the constant")) return false;
    if (cursor_.Accept("(") && !cursor_.Accept(")")) {
      do {
        int64_t extent = 0;
        const TcToken token = cursor_.Peek();
        const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), extent);
        if (token.kind != TcTokenKind::kInt || error != std::errc())
          return cursor_.Fail("an extent");
        cursor_.Next();
        c.shape.push_back(extent);
      } while (cursor_.Accept(","));
      if (!cursor_.Expect(")")) return false;
    }
    if (!cursor_.Expect("=") || !cursor_.Expect("{")) return false;
    while (!cursor_.Accept("}")) {
      SyntaxExprPtr element = exprs_.Parse();
      if (element == nullptr) return false;
      c.elements.push_back(std::move(element));
      if (!cursor_.Accept(",") && !cursor_.Is("}")) return cursor_.Fail("',' or '}'");
    }
    cursor_.Accept(";");
    def.constants.push_back(std::move(c));
    return true;
  }

  bool ParseTarget(SyntaxStatement& s) {
    SyntaxTarget target;
    target.at = cursor_.Peek().at;
    if (!cursor_.ExpectName(target.name, "a statement or '}'")) return false;
    if (cursor_.Accept("(") && !exprs_.ParseArgs(target.subscripts)) return false;
    s.targets.push_back(std::move(target));
    return true;
  }

  bool ParseStatement(SyntaxStatement& s) {
    s.at = cursor_.Peek().at;
    if (cursor_.Accept("@") && !cursor_.ExpectName(s.tag, "a tag")) return false;
    const bool tuple = cursor_.Accept("(");
    if (!ParseTarget(s)) return false;
    while (tuple && cursor_.Accept(",")) {
      if (!ParseTarget(s)) return false;
    }
    if (tuple && !cursor_.Expect(")")) return false;
    if (!IsAssign(cursor_.Peek())) {
      std::vector<std::string> words = TypeWords();  // what else could have begun so
      words.insert(words.end(), {"where", "const"});
      return cursor_.Fail("an assignment such as '=' or '+=!'", words, s.targets[0].name);
    }
    s.assign = cursor_.Next().text;
    if (s.assign.ends_with("!")) {
      s.init = true;
      s.assign.pop_back();
    }
    if (tuple && (s.init || s.assign != "=" || cursor_.Is("("))) {
      if (!cursor_.Expect("(") || !exprs_.ParseArgs(s.values)) return false;
    } else {  // one value, or a call that gives all
      s.values.push_back(exprs_.Parse());
      if (s.values.back() == nullptr) return false;
    }
    if (cursor_.Accept("where")) {
      do {
        if (!ParseClause(s)) return false;
      } while (cursor_.Accept(","));
    }
    cursor_.Accept(";");
    return true;
  }

  // exists e | i in a:b | x = e
  bool ParseClause(SyntaxStatement& s) {
    SyntaxClause clause;
    clause.at = cursor_.Peek().at;
    if (cursor_.Accept("exists")) {
      clause.kind = SyntaxClause::kExists;
      clause.a = exprs_.Parse();
      if (clause.a == nullptr) return false;
      s.clauses.push_back(std::move(clause));
      return true;
    }
    if (!cursor_.ExpectName(clause.name, "a range, a let or 'exists'")) return false;
    if (cursor_.Accept("=")) {
      clause.kind = SyntaxClause::kLet;
      clause.a = exprs_.Parse();
      if (clause.a == nullptr) return false;
    } else {
      if (!cursor_.Accept("in")) {
        const bool word = !Suggestion(cursor_.Peek().text, {"in"}).empty();
        return word ? cursor_.Fail("'in' or '='", {"in"})
                    : cursor_.Fail("'in' or '='", {"exists"}, clause.name);
      }
      clause.a = exprs_.ParseBound();
      if (clause.a == nullptr || !cursor_.Expect(":")) return false;
      clause.b = exprs_.ParseBound();
      if (clause.b == nullptr) return false;
      if (cursor_.Accept("max")) {
        clause.most = exprs_.ParseBound();
        if (clause.most == nullptr) return false;
      }
    }
    s.clauses.push_back(std::move(clause));
    return true;
  }

  // To where a statement may begin: after a `;`, or at the start of a line. At least one token
  // further.
  void SkipToStatement(size_t before) {
    if (cursor_.position() == before) cursor_.Next();
    while (cursor_.Peek().kind != TcTokenKind::kEnd && !cursor_.Is("}") && !cursor_.Is("def")) {
      if (cursor_.Accept(";")) return;
      const TcToken& next = cursor_.Peek(1);
      const bool opens =
          cursor_.Is("@") || cursor_.Is("const") || next.text == "(" || IsAssign(next);
      if (cursor_.StartsLine() && opens) return;
      cursor_.Next();
    }
  }

  void SkipToDef() {
    while (cursor_.Peek().kind != TcTokenKind::kEnd) {
      cursor_.Next();
      if (cursor_.Is("def") && cursor_.StartsLine()) return;
    }
  }

  Cursor cursor_;
  ExprParser exprs_;
};

}  // namespace

Result<std::vector<Def>> ParseDefs(std::string_view text, const std::string& file) {
  if (text.size() > kMostBytes) {
    return Limit(fmt::format("a text of {} bytes, at most {} are read", text.size(), kMostBytes))
        .At(file);
  }
  const auto source = std::make_shared<const std::string>(text);
  Diagnostics diagnostics(*source, file);
  const TokenList tokens = Tokenize(*source, diagnostics);
  if (tokens.tokens.size() == 1 && diagnostics.ok()) {
    diagnostics.Add(Problem::kNoDef, {}, "the text holds no def");
  }
  std::vector<Def> defs = DefParser(tokens, diagnostics).Run(file, source);
  WEFT_TRY(diagnostics.ToStatus());
  return defs;
}

}  // namespace weft::tc
