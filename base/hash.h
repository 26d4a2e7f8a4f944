// SHA-256, the one hash of the project: names blobs, kernels and cache entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft {

struct Hash {
  std::array<uint8_t, 32> bytes{};
  std::string Hex() const;  // 64 digits
  auto operator<=>(const Hash&) const = default;
};

Hash Sha256(std::span<const std::byte> data);
Hash Sha256(std::string_view text);

// A hash over several parts; each part is framed by its length, so parts can't run together.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& Add(std::string_view part);
  Hasher& Add(std::span<const std::byte> part);
  Hash Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
