#include "base/hash.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace weft {

std::string Hash::Hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Hash Sha256(std::span<const std::byte> data) {
  Hash hash;
  const int ok =
      EVP_Digest(data.data(), data.size(), hash.bytes.data(), nullptr, EVP_sha256(), nullptr);
  WEFT_CHECK(ok == 1, "SHA-256 of {} bytes", data.size());
  return hash;
}

Hash Sha256(std::string_view text) { return Sha256(std::as_bytes(std::span(text))); }

struct Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  const int ok = EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
  WEFT_CHECK(ok == 1, "SHA-256");
}

Hasher::~Hasher() = default;

Hasher& Hasher::Add(std::span<const std::byte> part) {
  uint8_t length[8];  // little endian on every machine
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(uint64_t{part.size()} >> (8 * i));
  const bool ok = EVP_DigestUpdate(state_->context, length, sizeof length) == 1 &&
                  EVP_DigestUpdate(state_->context, part.data(), part.size()) == 1;
  WEFT_CHECK(ok, "SHA-256 of {} bytes", part.size());
  return *this;
}

Hasher& Hasher::Add(std::string_view part) { return Add(std::as_bytes(std::span(part))); }

Hash Hasher::Finish() {
  Hash hash;
  const int ok = EVP_DigestFinal_ex(state_->context, hash.bytes.data(), nullptr);
  WEFT_CHECK(ok == 1, "finished before");
  return hash;
}

}  // namespace weft
