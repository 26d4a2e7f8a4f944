// Random numbers, drawn in row-major order by one thread: the same for any size of the team.
#include "fallback/native/random.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "fallback/native/args.h"

namespace weft::fallback::native {
namespace {

// Fills the generator's words from a key, as its authors' init_by_array does (Matsumoto and
// Nishimura, mt19937ar.c, 2002).
class KeySequence {
 public:
  using result_type = uint32_t;  // NOLINT: as the standard calls it
  explicit KeySequence(std::span<const uint32_t> key) : key_(key) {}

  template <typename It>
  void generate(It begin, It end) {  // NOLINT: as the standard calls it
    const auto n = static_cast<size_t>(end - begin);
    begin[0] = 19650218;
    for (size_t i = 1; i < n; ++i) {
      begin[i] = static_cast<uint32_t>(1812433253 * Mixed(begin[i - 1]) + i);
    }
    size_t i = 1, j = 0;
    const auto advance = [&] {
      if (++i < n) return;
      begin[0] = begin[n - 1];
      i = 1;
    };
    for (size_t k = std::max(n, key_.size()); k > 0; --k) {
      begin[i] = static_cast<uint32_t>((begin[i] ^ (Mixed(begin[i - 1]) * 1664525)) + key_[j] + j);
      advance();
      if (++j == key_.size()) j = 0;
    }
    for (size_t k = n - 1; k > 0; --k) {
      begin[i] = static_cast<uint32_t>((begin[i] ^ (Mixed(begin[i - 1]) * 1566083941)) - i);
      advance();
    }
    begin[0] = 0x80000000;
  }

 private:
  static uint32_t Mixed(uint64_t word) {
    const auto w = static_cast<uint32_t>(word);
    return w ^ (w >> 30);
  }
  std::span<const uint32_t> key_;
};

std::mt19937 FromKey(std::span<const uint32_t> key) {
  KeySequence sequence(key);
  return std::mt19937(sequence);
}

}  // namespace

RandomState::RandomState(std::span<const uint32_t> key) : words_(FromKey(key)) {}

double RandomState::Uniform() {
  const uint32_t high = words_() >> 5, low = words_() >> 6;
  return (high * 0x1p26 + low) * 0x1p-53;
}

double RandomState::Normal() {
  if (kept_) return *std::exchange(kept_, std::nullopt);
  double x = 0, y = 0, square = 0;
  do {
    x = 2 * Uniform() - 1;
    y = 2 * Uniform() - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  const double radius = std::sqrt(-2 * std::log(square) / square);
  kept_ = radius * x;
  return radius * y;
}

// Draw(shape, trip…) {distribution, seed or stream} -> f64: see graph/onnx/random.cpp. A seed that
// RandomState would not take is a key of its two words.
Status RunDraw(const Args& args) {
  WEFT_TRY(Shape shape, args.Ints(0));
  const std::string distribution = args.Text("distribution", "uniform");
  if (distribution != "uniform" && distribution != "normal")
    return args.Error("no distribution is called {}", PrintString(distribution));
  std::vector<uint32_t> key;
  const int64_t seed = args.Int("seed", 0);
  const bool seeded = FindAttribute(args.call, "seed") != nullptr;
  if (seeded) {
    key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  } else {
    key = {static_cast<uint32_t>(args.Int("stream", 0))};
    for (size_t i = 1; i < args.size(); ++i) {
      WEFT_TRY(const int64_t trip, args.Int(i));
      key.push_back(static_cast<uint32_t>(trip));
    }
  }
  WEFT_TRY(const Out out, args.Output(0, Dtype::kF64, std::move(shape)));
  RandomState state = seeded && key[1] == 0 ? RandomState(key[0]) : RandomState(key);
  const bool normal = distribution == "normal";
  for (int64_t i = 0; i < out.elems; ++i)
    out.as<double>()[i] = normal ? state.Normal() : state.Uniform();
  return {};
}

}  // namespace weft::fallback::native
