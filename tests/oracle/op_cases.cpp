#include "tests/oracle/op_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace weft::oracle {
namespace {

// |found - expected| <= absolute + relative * |expected|. The expected values are themselves
// rounded after every operation, in 16 bits where the type has 16.
struct Tolerance {
  double absolute, relative;
};
Tolerance ToleranceOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return {1e-7, 1e-7};  // the suite's attributes and constants are float32
    case Dtype::kF32:
      return {2e-5, 2e-5};
    case Dtype::kF16:
      return {4e-3, 4e-3};
    case Dtype::kBF16:
      return {2e-2, 2e-2};
    default:
      return {0, 0};
  }
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

std::string Difference(const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) {
    return fmt::format("found {}{}, expected {}{}", DtypeName(found.dtype()),
                       weft::Print(found.shape()), DtypeName(expected.dtype()),
                       weft::Print(expected.shape()));
  }
  const Tolerance tolerance = ToleranceOf(found.dtype());
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
