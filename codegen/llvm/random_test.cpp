// Nests that nobody would write, from a seed: loops = kernel on all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "codegen/llvm/compare_for_test.h"

namespace weft::codegen {
namespace {

// A nest over x, y (inputs), z (output), a register tile and scratch, written as text: the
// generator needs no builder, and a failure prints what it is about.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string Nest() {
    rows_ = Pick(1, 5);
    lanes_ = Pick(1, 19);
    depth_ = Pick(1, 6);
    type_ = kTypes[Pick(0, 5)];
    const int64_t outer = Pick(1, 5);
    std::string text = fmt::format(
        "loops k (x: in {0}[{1}, {2}, {3}]{6}, y: in {0}[{2}, {3}], z: out {0}[{1}, {4}, {3}]{5}) "
        "{{\n"
        "  reg t: {0}[{4}, {3}] cache w: {0}[{2}, {3}]\n  parallel i = 0:{1} {{\n",
        type_, outer, depth_, lanes_, rows_, Coin() ? " layout \"acb\"" : "",
        Coin() ? " layout \"cab+3\"" : "");
    text += fmt::format(
        "  for d = 0:{} {{ vector v = 0:{} {{ w[d, v] = {} }} }}\n", depth_, lanes_,
        Value(2, {"x[i, d, v]", "y[d, v]", fmt::format("x[i, {} - d, v]", depth_ - 1)}));
    text += fmt::format("  unroll r = 0:{} {{ vector v = 0:{} {{ t[r, v] = y[0, v] }} }}\n", rows_,
                        lanes_);
    const std::string lo = Coin() ? fmt::format("max(0, i - {})", Pick(0, 3)) : "0";
    text += fmt::format("  for d = {}:{} {{ unroll r = 0:{} {{ vector v = 0:{} {{ {} }} }} }}\n",
                        lo, depth_, rows_, lanes_, Update());
    std::vector<std::string> leaves = {"t[r, v]", Guarded(), "w[0, v]"};
    if (rows_ <= depth_) leaves.insert(leaves.end(), 2, "x[i, r, v]");
    text += fmt::format("  unroll r = 0:{} {{ vector v = 0:{} {{ z[i, r, v] = {} }} }} }} }}",
                        rows_, lanes_, Value(2, leaves));
    return text;
  }

 private:
  static constexpr const char* kTypes[] = {"f32", "f64", "i32", "bf16", "u8", "f16"};
  static constexpr const char* kOps[] = {"+", "-", "*"};

  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % (hi - lo + 1));
  }
  bool Coin() { return random_() % 2 == 0; }

  std::string Guarded() {
    const int64_t shift = Pick(-3, 3);
    return fmt::format("y[0, v + {0}]{{v + {0} >= 0, {1} - v - {0} >= 0}}", shift, lanes_ - 1);
  }

  std::string Update() {
    const std::string store =
        fmt::format("t[r, v] = {}", Value(2, {"t[r, v]", "w[d, v]", "x[i, d, 0]", Guarded(),
                                              fmt::format("x[i, d, {} - v]", lanes_ - 1)}));
    if (Coin()) return store;
    const std::string condition = Coin() ? fmt::format("v - {} >= 0", Pick(0, 4))
                                         : fmt::format("v + d + i - {} >= 0", Pick(0, 6));
    return fmt::format("if {} {{ {} }} else {{ t[r, v] = w[d, v] }}", condition, store);
  }

  std::string Value(int depth, const std::vector<std::string>& leaves) {
    if (depth == 0 || Pick(0, 4) == 0) return leaves[random_() % leaves.size()];
    const std::string a = Value(depth - 1, leaves), b = Value(depth - 1, leaves);
    switch (Pick(0, 4)) {
      case 0:
        return fmt::format("max({}, {})", a, b);
      case 1:
        return fmt::format("select({} < {}, {}, {})", a, b, b, a);
      case 2:
        return fmt::format("fma({}, {}, {})", a, b, Value(depth - 1, leaves));
      default:
        return fmt::format("({} {} {})", a, kOps[random_() % 3], b);
    }
  }

  std::mt19937_64 random_;
  int64_t rows_ = 1, lanes_ = 1, depth_ = 1;
  std::string type_;
};

TEST(Random, LoopsAreTheKernel) {
  const bool wide = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq");
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = Generator(seed).Nest();
    const Result<loops::LoopNest> nest = loops::Parse(text, "random");
    ASSERT_TRUE(nest.ok()) << nest.status().ToString() << text;
    const CompareOptions options = {.seed = seed, .sizes = {2}, .wild = seed % 3 == 0};
    ASSERT_EQ(Compare(*nest, Target{}, options), "") << "seed " << seed << "\n" << text;
    const Target v4{.isa = Isa::kX86V4};
    if (seed % 20 == 0) {
      ASSERT_EQ(wide ? Compare(*nest, v4, options) : CompilesFor(*nest, v4), "") << text;
    }
  }
}

}  // namespace
}  // namespace weft::codegen
