#include "codegen/cuda/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "polyhedral/loops/ranges.h"

namespace weft::codegen::cuda {

using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

// Words that an identifier of ours must not be: the language's up to C++20, and functions and types
// that texts use, which it would hide.
constexpr auto kWords = std::to_array<std::string_view>(
    {"NULL",       "WeftFault", "alignas",   "alignof",   "and",           "and_eq",
     "asm",        "atomicCAS", "auto",      "bitand",    "bitor",         "blockDim",
     "blockIdx",   "bool",      "break",     "case",      "catch",         "ceil",
     "ceilf",      "char",      "char16_t",  "char32_t",  "char8_t",       "class",
     "co_await",   "co_return", "co_yield",  "compl",     "concept",       "const",
     "const_cast", "consteval", "constexpr", "constinit", "continue",      "copysign",
     "decltype",   "default",   "delete",    "do",        "double",        "dynamic_cast",
     "else",       "enum",      "explicit",  "export",    "extern",        "fabs",
     "fabsf",      "false",     "float",     "floor",     "floorf",        "fma",
     "fmaf",       "fmod",      "fmodf",     "for",       "friend",        "goto",
     "gridDim",    "if",        "inline",    "int",       "linux",         "long",
     "max",        "memcpy",    "min",       "mutable",   "namespace",     "new",
     "noexcept",   "not",       "not_eq",    "nullptr",   "operator",      "or",
     "or_eq",      "private",   "protected", "public",    "register",      "reinterpret_cast",
     "requires",   "return",    "rint",      "rintf",     "short",         "signed",
     "sizeof",     "sqrt",      "sqrtf",     "static",    "static_assert", "static_cast",
     "struct",     "switch",    "template",  "this",      "threadIdx",     "thread_local",
     "throw",      "true",      "trunc",     "truncf",    "try",           "typedef",
     "typeid",     "typename",  "union",     "unix",      "unsigned",      "using",
     "virtual",    "void",      "volatile",  "warpSize",  "wchar_t",       "while",
     "xor",        "xor_eq"});

// How other words begin that are taken: our helpers', the language's own, and macros of NVRTC's
// (`cudaStreamLegacy` is a number by the time the compiler sees it).
constexpr auto kBeginnings =
    std::to_array<std::string_view>({"weft_", "_", "cuda", "CUDA", "CU_", "NV_"});

class Namer {
 public:
  explicit Namer(std::string kernel) : taken_{std::move(kernel)} {}

  std::string Unique(std::string_view name) {
    std::string word;
    for (const char c : name) {
      word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
    while (IsReserved(word)) word = "x" + word;  // twice for "or"
    std::string unique = word;
    for (int n = 1; !taken_.insert(unique).second; ++n) unique = fmt::format("{}_{}", word, n);
    return unique;
  }

 private:
  static bool IsReserved(std::string_view word) {
    return word.empty() || std::isdigit(static_cast<unsigned char>(word[0])) ||
           std::ranges::any_of(kBeginnings, [&](auto b) { return word.starts_with(b); }) ||
           IsWord(word) || IsPart(word);
  }
  // t0, t1, ...: the names of parts of a value.
  static bool IsPart(std::string_view word) {
    return word.size() > 1 && word[0] == 't' &&
           std::ranges::all_of(word.substr(1), [](unsigned char c) { return std::isdigit(c); });
  }
  std::set<std::string> taken_;
};

// An upper bound of |e| and of everything on the way to it.
double Magnitude(const Affine& e, const std::vector<double>& vars) {
  double sum = std::abs(static_cast<double>(e.constant()));
  for (const Affine::Term& t : e.terms()) {
    const double atom =
        t.dividend ? Magnitude(*t.dividend, vars) : vars[static_cast<size_t>(t.var)];
    sum += std::abs(static_cast<double>(t.coefficient)) * (atom + 1);
  }
  return sum;
}

class Widths {
 public:
  explicit Widths(const LoopNest& nest) : nest_(nest), vars_(nest.vars.size(), 0) {}

  bool Wide() {
    if (nest_.params > 0) return true;
    for (const loops::Buffer& b : nest_.buffers) {
      Note(static_cast<double>(loops::BufferBytes(b, {})) /
           static_cast<double>(SizeBytes(b.dtype)));
    }
    FindLongest(nest_.body);
    Body(nest_.body);
    for (const loops::Expr& e : nest_.exprs) {
      Note(e.index);
      Note(e.guards);
      if (e.kind == loops::ExprKind::kLoad) Note({loops::ElementOffset(nest_[e.buffer], e.index)});
    }
    return most_ >= 1 << 30;
  }

 private:
  void Note(double value) { most_ = std::max(most_, value); }
  double Note(const std::vector<Affine>& list) {
    double most = 0;
    for (const Affine& e : list) most = std::max(most, Magnitude(e, vars_));
    Note(most);
    return most;
  }
  void FindLongest(const std::vector<StmtId>& body) {
    for (const StmtId id : body) {
      const Stmt& s = nest_[id];
      if (s.kind == StmtKind::kFor && loops::IsGrid(s.loop))
        longest_[s.loop] = std::max(longest_[s.loop], static_cast<double>(loops::ConstantTrip(s)));
      FindLongest(s.body);
      FindLongest(s.otherwise);
    }
  }
  void Body(const std::vector<StmtId>& body) {
    for (const StmtId id : body) {
      const Stmt& s = nest_[id];
      const double ends = std::max(Note(s.lo), Note(s.hi));
      if (s.var >= 0) vars_[static_cast<size_t>(s.var)] = ends + static_cast<double>(s.step);
      // Blocks and threads that only a longer loop has compute where they would be, too.
      if (const auto longest = longest_.find(s.loop);
          s.kind == StmtKind::kFor && longest != longest_.end())
        Note(Note(s.lo) + static_cast<double>(s.step) * longest->second);
      Note(s.conditions);
      if (s.kind == StmtKind::kStore) Note({loops::ElementOffset(nest_[s.buffer], s.index)});
      Body(s.body);
      Body(s.otherwise);
    }
  }

  const LoopNest& nest_;
  std::vector<double> vars_;
  std::map<loops::LoopKind, double> longest_;  // of blocks and threads, by their axis
  double most_ = 0;
};

}  // namespace

bool IsWord(std::string_view name) { return std::ranges::count(kWords, name) > 0; }

Names NamesOf(const LoopNest& nest) {
  Namer namer(nest.name);
  Names names;
  for (const loops::Buffer& b : nest.buffers) names.buffers.push_back(namer.Unique(b.name));
  for (const std::string& v : nest.vars) names.vars.push_back(namer.Unique(v));
  return names;
}

std::string_view RegisterType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "bool";
    case Dtype::kU4:
    case Dtype::kU8:
      return "unsigned char";
    case Dtype::kI4:
    case Dtype::kI8:
      return "signed char";
    case Dtype::kU16:
      return "unsigned short";
    case Dtype::kI16:
      return "short";
    case Dtype::kU32:
      return "unsigned";
    case Dtype::kI32:
      return "int";
    case Dtype::kU64:
      return "unsigned long long";
    case Dtype::kI64:
      return "long long";
    case Dtype::kF16:
    case Dtype::kBF16:
    case Dtype::kF32:
      return "float";
    case Dtype::kF64:
      return "double";
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF4E2M1:
    case Dtype::kF8E8M0:
    case Dtype::kU2:
    case Dtype::kI2:
    case Dtype::kString:
      break;
  }
  WEFT_UNREACHABLE();
}

std::string_view MemoryType(Dtype dtype) {
  if (dtype == Dtype::kBool) return "unsigned char";
  if (dtype == Dtype::kF16 || dtype == Dtype::kBF16) return "unsigned short";
  return RegisterType(dtype);
}

std::string_view WrapType(Dtype dtype) {
  return SizeBytes(dtype) == 8 ? "unsigned long long" : "unsigned";
}

std::string LiteralText(Dtype dtype, Scalar value) {
  if (IsFloat(dtype)) {
    const bool wide = dtype == Dtype::kF64;
    const double number = AsDouble(dtype, value);
    if (!std::isfinite(number)) {
      const std::string_view bits = std::isnan(number)
                                        ? (wide ? "0x7ff8000000000000" : "0x7fc00000")
                                    : number > 0 ? (wide ? "0x7ff0000000000000" : "0x7f800000")
                                                 : (wide ? "0xfff0000000000000" : "0xff800000");
      return wide ? fmt::format("__longlong_as_double((long long){}ull)", bits)
                  : fmt::format("__int_as_float((int){}u)", bits);
    }
    std::string text = wide ? PrintFloat(value.f64) : PrintFloat(value.f32);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return wide ? text : text + "f";
  }
  if (dtype == Dtype::kBool) return value.i != 0 ? "true" : "false";
  if (dtype == Dtype::kI32 && value.i > INT32_MIN) return fmt::format("{}", value.i);
  if (dtype == Dtype::kI64 && value.i > INT64_MIN) return fmt::format("{}ll", value.i);
  return fmt::format("({}){}ull", RegisterType(dtype), static_cast<uint64_t>(value.i));
}

bool NeedsWideIndex(const LoopNest& nest) { return Widths(nest).Wide(); }

std::string AffineText(const Affine& e, const std::function<std::string(Var)>& name,
                       const std::function<std::string(const Affine&, int64_t)>& floor_div) {
  std::string text;
  const auto add = [&](int64_t factor, const std::string& atom) {
    const bool minus = factor < 0;
    const uint64_t size = minus ? 0 - static_cast<uint64_t>(factor) : static_cast<uint64_t>(factor);
    const std::string_view sign = text.empty() ? (minus ? "-" : "") : minus ? " - " : " + ";
    if (atom.empty()) {
      text += fmt::format("{}{}", sign, size);
    } else if (size == 1) {
      text += fmt::format("{}{}", sign, atom);
    } else {
      text += fmt::format("{}{}*{}", sign, size, atom);
    }
  };
  for (const Affine::Term& t : e.terms()) {
    add(t.coefficient, t.dividend ? floor_div(*t.dividend, t.divisor) : name(t.var));
  }
  if (e.constant() != 0 || text.empty()) add(e.constant(), "");
  return text;
}

}  // namespace weft::codegen::cuda
