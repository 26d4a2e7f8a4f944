#include "tests/oracle/op_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace weft::oracle {
namespace {

struct Class {
  std::string_view name, operators;
};
constexpr Class kClasses[] = {
#define WEFT_CLASS(name, of, operators) {#name, operators},
#define WEFT_TOLERANCE(...)
#include "tests/data/tolerances.def"
#undef WEFT_CLASS
#undef WEFT_TOLERANCE
};

// |found - expected| <= relative * |expected| + absolute.
struct Tolerance {
  std::string_view of_class, dtype;
  double relative = 0, absolute = 0;
};
constexpr Tolerance kTolerances[] = {
#define WEFT_CLASS(...)
#define WEFT_TOLERANCE(of_class, dtype, relative, absolute) {#of_class, #dtype, relative, absolute},
#include "tests/data/tolerances.def"
#undef WEFT_CLASS
#undef WEFT_TOLERANCE
};

std::string_view ClassOf(std::string_view op) {
  for (const Class& c : kClasses) {
    std::istringstream words{std::string(c.operators)};
    for (std::string word; words >> word;)
      if (word == op) return c.name;
  }
  return "computed";
}

Tolerance ToleranceOf(std::string_view op, Dtype dtype) {
  const std::string_view of_class = ClassOf(op);
  for (const Tolerance& t : kTolerances)
    if (t.of_class == of_class && t.dtype == DtypeName(dtype)) return t;
  return {};
}

const char* Wanted() {
  const char* only = std::getenv("WEFT_OP_CASE");
  return only != nullptr ? only : "";
}

}  // namespace

std::vector<OpCase> ReadOpCases(std::map<std::string, int>& skipped) {
  std::ifstream file(WEFT_OP_CASES, std::ios::binary);
  std::vector<OpCase> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "case" || kind == "skipped") {
      std::string op;
      words >> name >> op;
      if (kind == "case")
        cases.push_back({name, op, "", {}, {}});
      else
        ++skipped[words.str().substr(kind.size() + name.size() + 2)];
      continue;
    }
    if (kind != "graph") words >> name;
    size_t bytes = 0;
    words >> bytes;
    std::string data(bytes, '\0');
    file.read(data.data(), static_cast<std::streamsize>(bytes));
    OpCase& c = cases.back();
    if (kind == "graph")
      c.graph = data;
    else
      (kind == "input" ? c.inputs : c.outputs).push_back(data);
  }
  if (SomeCasesOnly())
    std::erase_if(cases,
                  [](const OpCase& c) { return c.name.find(Wanted()) == std::string::npos; });
  return cases;
}

bool SomeCasesOnly() { return Wanted()[0] != '\0'; }

Tensor FromBytes(const graph::Value& value, const std::string& bytes) {
  Tensor t(*value.dtype, *graph::StaticShape(value));
  if (static_cast<int64_t>(bytes.size()) == t.bytes() && t.bytes() > 0) {
    std::memcpy(t.mutable_data(), bytes.data(), bytes.size());
  }
  return t;
}

std::string Difference(std::string_view op, const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) {
    return fmt::format("found {}{}, expected {}{}", DtypeName(found.dtype()),
                       weft::Print(found.shape()), DtypeName(expected.dtype()),
                       weft::Print(expected.shape()));
  }
  const Tolerance tolerance = ToleranceOf(op, found.dtype());
  for (int64_t i = 0; i < found.elems(); ++i) {
    if (!IsFloat(found.dtype())) {
      if (ElemAsInt(found, i) == ElemAsInt(expected, i)) continue;
      return fmt::format("element {}: found {}, expected {}", i, ElemAsInt(found, i),
                         ElemAsInt(expected, i));
    }
    const double a = ElemAsDouble(found, i), b = ElemAsDouble(expected, i);
    if (std::isnan(b)
            ? std::isnan(a)
            : a == b || std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b))
      continue;
    return fmt::format("element {}: found {}, expected {}", i, a, b);
  }
  return "";
}

}  // namespace weft::oracle
