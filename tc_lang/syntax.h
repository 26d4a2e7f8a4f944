// The language as written: defs with names and locations, before anything is resolved.
//
// Grammar, precedences and rules: docs/language.md. Errors name file:line:col, found and expected;
// a parse goes on after an error at the next statement, so that several are reported at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace weft::tc {

struct Location {
  int32_t line = 1, column = 1;
};

struct SyntaxExpr;
using SyntaxExprPtr = std::unique_ptr<SyntaxExpr>;

enum class SyntaxKind : uint8_t {
  kInt,
  kFloat,
  kName,
  kApply,
  kElement,
  kUnary,
  kBinary,
  kSelect,
  kCast
};

// kApply is an access or a call, resolved later; kElement an element of what a call gives,
// `f(x, w)(i, j)`: the call, then subscripts. `text` holds the name, operator or number as written.
struct SyntaxExpr {
  SyntaxKind kind = SyntaxKind::kInt;
  Location at;
  std::string text;
  std::optional<Dtype> cast;  // kCast
  int32_t depth = 1;          // of the tree below, bounded by the parser: recursion is safe
  std::vector<SyntaxExprPtr> args;
};

struct SyntaxParam {
  Location at;
  std::string name;
  std::optional<Dtype> dtype;          // absent on bare outputs
  bool is_size = false;                // `size NAME`
  std::vector<SyntaxExprPtr> dims;     // names or integers
  std::vector<SyntaxExprPtr> strides;  // in elements, by dimension; empty: row-major, dense
};

struct SyntaxClause {
  enum Kind : uint8_t { kRange, kLet, kExists } kind = kRange;
  Location at;
  std::string name;    // kRange, kLet
  SyntaxExprPtr a, b;  // range a:b; let a; exists a
  SyntaxExprPtr most;  // range a:b max most: a segment that is read
};

struct SyntaxTarget {  // one on the left; several in a tuple statement
  Location at;
  std::string name;
  std::vector<SyntaxExprPtr> subscripts;
};

struct SyntaxStatement {
  Location at;
  std::string tag;  // "" or "convolution"
  std::vector<SyntaxTarget> targets;
  std::string assign;                 // "=", "+=", …
  bool init = false;                  // `!`
  std::vector<SyntaxExprPtr> values;  // one per target
  std::vector<SyntaxClause> clauses;
  std::string origin;  // of a trailing `# …` comment on the statement's last line
};

struct SyntaxConst {  // const NAME(6, 4) = { … }
  Location at;
  std::string name;
  std::optional<Dtype> dtype;  // const float16 NAME(2) = …; else that of the elements
  std::vector<int64_t> shape;
  std::vector<SyntaxExprPtr> elements;
};

struct Def {
  Location at;
  std::string file, name;
  std::shared_ptr<const std::string> source;  // the whole text, for messages that show a line
  std::vector<SyntaxParam> params, outputs;
  std::vector<SyntaxParam> temporaries;  // declared types: `float16(4, 8) name` in the body
  std::vector<SyntaxConst> constants;
  std::vector<SyntaxStatement> statements;
};

// The words for element types: float, double, float16, bfloat16, int8 … uint64, bool.
std::optional<Dtype> ParseTypeWord(std::string_view word);
std::string_view TypeWord(Dtype dtype);
std::vector<std::string> TypeWords();  // all of them

Result<std::vector<Def>> ParseDefs(std::string_view text, const std::string& file);

}  // namespace weft::tc
