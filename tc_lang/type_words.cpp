#include "tc_lang/syntax.h"

namespace weft::tc {
namespace {

struct TypeName {
  std::string_view word;
  Dtype dtype;
};
constexpr TypeName kTypes[] = {  // the first word of a type is the one that is printed
    {"float", Dtype::kF32},   {"float32", Dtype::kF32}, {"double", Dtype::kF64},
    {"float64", Dtype::kF64}, {"float16", Dtype::kF16}, {"bfloat16", Dtype::kBF16},
    {"bool", Dtype::kBool},   {"uint8", Dtype::kU8},    {"int8", Dtype::kI8},
    {"uint16", Dtype::kU16},  {"int16", Dtype::kI16},   {"uint32", Dtype::kU32},
    {"int32", Dtype::kI32},   {"uint64", Dtype::kU64},  {"int64", Dtype::kI64},
    {"uint4", Dtype::kU4},    {"int4", Dtype::kI4}};

}  // namespace

std::optional<Dtype> ParseTypeWord(std::string_view word) {
  for (const TypeName& type : kTypes) {
    if (type.word == word) return type.dtype;
  }
  return std::nullopt;
}

std::vector<std::string> TypeWords() {
  std::vector<std::string> words;
  for (const TypeName& type : kTypes) words.emplace_back(type.word);
  return words;
}

std::string_view TypeWord(Dtype dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.word;
  }
  return "string";
}

}  // namespace weft::tc
