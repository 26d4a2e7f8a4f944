// Big constants by content: a text form prints `blob(hash, bytes)` and the bytes lie beside it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft {

// Holds each distinct content once. Lookup is by hex hash. Tensors of zero elements are never
// stored. The bytes of strings are, for each, its length as a little-endian u64 and its characters.
class BlobStore {
 public:
  // Returns the hex hash of the bytes.
  std::string Put(const Tensor& tensor);
  // The bytes as a tensor of this type and shape; an error names the hash if absent or of another
  // size.
  Result<Tensor> Get(std::string_view hash, Dtype dtype, Shape shape) const;
  // The bytes as u8, whatever they mean.
  Result<Tensor> Bytes(std::string_view hash) const;
  // Everything that `other` holds.
  void Add(const BlobStore& other) { blobs_.insert(other.blobs_.begin(), other.blobs_.end()); }
  // Moves the blobs that are too small for huge pages of their own into one block that has them.
  // Without memory for it they stay where they are.
  void LieTogether();
  // Hex hashes, sorted.
  std::vector<std::string> Hashes() const;
  size_t size() const { return blobs_.size(); }

  // As FILE.blobs/<hash>. No blobs, no directory.
  Status Save(const std::string& directory) const;
  // Of a directory only what the text of FILE refers to: it may hold anything. What is absent is
  // missed by who asks for it.
  static Result<BlobStore> Load(std::string_view text, const std::string& directory);

 private:
  std::map<std::string, Tensor, std::less<>> blobs_;  // u8
};

}  // namespace weft
