// The generator of random numbers: NumPy's RandomState, whose sequences are frozen (NEP 19) and
// which the standard's reference evaluator draws from, so that what a seed gives can be checked.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>

namespace weft::fallback::native {

class RandomState {
 public:
  // RandomState(seed)
  explicit RandomState(uint32_t seed) : words_(seed) {}
  // RandomState([key…]); the key is not empty.
  explicit RandomState(std::span<const uint32_t> key);

  double Uniform();  // of [0, 1), with 53 bits
  double Normal();   // by Marsaglia's polar method

 private:
  std::mt19937 words_;
  std::optional<double> kept_;  // normal numbers come in pairs
};

}  // namespace weft::fallback::native
