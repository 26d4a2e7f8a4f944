// How random programs are written: a def's text, statement by statement.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {

// SplitMix64: the same numbers on every platform, which the standard's distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  int64_t Between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(Next() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool Chance(int64_t percent) { return Between(1, 100) <= percent; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Between(0, static_cast<int64_t>(from.size()) - 1))];
  }

 private:
  uint64_t state_;
};

struct Value {
  std::string name;
  Shape shape;
  std::string type;     // of an input; empty: the program's float
  std::string strides;  // of an input: " strides(…)"
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomOptions& options) : random_(seed), options_(options) {}
  std::string Run();

 private:
  Shape RandomShape();
  Value Input(Shape shape);
  Value TypedInput(Shape shape, std::string type);
  // "i, j, k" and "i in 0:4, j in 0:3, …".
  static std::string Name(size_t axis) { return std::string(1, "ijkl"[axis]); }
  static std::string Indices(const Shape& shape);
  // In the type that is computed in.
  std::string Read(const Value& v, std::string_view subscripts) const;
  static std::string Ranges(const Shape& shape);
  // A new tensor: "  t3(left) rest".
  void Emit(Shape shape, const std::string& left, const std::string& rest);
  std::string NextName() const { return fmt::format("t{}", made_.size()); }
  std::string Operand(const Shape& shape);
  std::string Expression(const Shape& shape, int64_t depth);
  void Statement();
  void Contraction(const Value& from);
  void Reduction(const Value& from);
  void Transpose(const Value& from);
  void Window(const Value& from);
  void Split(const Value& from);
  void Gather(const Value& from);

  // random_rare.cpp
  void Rare(const Value& from);
  void Tuple();
  void Recurrence(const Value& from);
  void Network(const Value& from);
  void Scatter(const Value& from);
  void Constant(const Value& from);
  void Integers(const Value& from);
  void SmallTypes(const Value& from);
  void Accumulate(const Value& from);
  void Wide(const Value& from);
  void Lets(const Value& from);
  void Later(const Value& from);
  void Pieces(const Value& from);
  void Rows(const Value& from);
  void Checked(const Value& from);
  void Conditional(const Value& from);
  void Strided(const Value& from);
  void Call(const Value& from);

  Random random_;
  const RandomOptions& options_;
  std::vector<Value> inputs_, tables_, values_;
  std::vector<std::string> made_;
  std::string library_, body_;
};

}  // namespace weft::tc
