#include "base/blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

namespace weft {
namespace {

constexpr size_t kLengthBytes = 8;

Tensor PackStrings(const std::vector<std::string>& strings) {
  size_t bytes = 0;
  for (const std::string& s : strings) bytes += kLengthBytes + s.size();
  Tensor packed(Dtype::kU8, {static_cast<int64_t>(bytes)});
  uint8_t* at = packed.mutable_as<uint8_t>();
  for (const std::string& s : strings) {
    for (size_t i = 0; i < kLengthBytes; ++i)
      *at++ = static_cast<uint8_t>(uint64_t{s.size()} >> (8 * i));
    at = std::copy(s.begin(), s.end(), at);
  }
  return packed;
}

// False if the bytes are not exactly as many strings as `out` holds.
bool UnpackStrings(std::span<const std::byte> bytes, std::vector<std::string>& out) {
  for (std::string& s : out) {
    if (bytes.size() < kLengthBytes) return false;
    uint64_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i)
      length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
    bytes = bytes.subspan(kLengthBytes);
    if (bytes.size() < length) return false;
    s.assign(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  return bytes.empty();
}

bool IsHash(std::string_view name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

Status Failed(const std::string& path, std::string_view what) {
  return Usage(fmt::format("{}: {}", what, std::strerror(errno))).At(path);
}

// A regular file as u8; links are refused, since blobs come with models from strangers.
Result<Tensor> ReadBlob(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Failed(path, "can't read the blob");
  Result<Tensor> bytes = ReadBytes(fd);
  ::close(fd);
  if (!bytes.ok()) return std::move(bytes.status()).At(path);
  if (bytes->elems() == 0) return Invalid("expected a file that is not empty").At(path);
  return bytes;
}

}  // namespace

std::string BlobStore::Put(const Tensor& tensor) {
  if (tensor.elems() == 0) return Sha256(std::string_view()).Hex();
  const bool text = tensor.dtype() == Dtype::kString;
  const Tensor bytes =
      text ? PackStrings(tensor.strings()) : tensor.ReadAs(Dtype::kU8, {tensor.bytes()});
  std::string hash = bytes.ContentHash().Hex();
  blobs_.try_emplace(hash, bytes);
  return hash;
}

Result<Tensor> BlobStore::Get(std::string_view hash, Dtype dtype, Shape shape) const {
  WEFT_TRY(const int64_t elems, CountElems(shape));
  if (elems == 0) return Tensor::Allocate(dtype, std::move(shape));
  const auto error = [&](std::string what) {
    return Invalid(fmt::format("blob {}: {}", hash.substr(0, 64), what));
  };
  if (!IsHash(hash)) return Invalid("a blob's hash has 64 hexadecimal digits");
  const auto found = blobs_.find(hash);
  if (found == blobs_.end()) return error("is absent");
  const Tensor& bytes = found->second;
  const auto wrong_size = [&] {
    return error(fmt::format("found {} bytes, which is no {}{}", bytes.bytes(), DtypeName(dtype),
                             Print(shape)));
  };
  if (dtype == Dtype::kString) {
    if (elems > bytes.bytes() / static_cast<int64_t>(kLengthBytes)) return wrong_size();
    WEFT_TRY(Tensor strings, Tensor::Allocate(dtype, shape));
    if (!UnpackStrings(bytes.raw(), strings.strings())) return wrong_size();
    return strings;
  }
  if (elems > INT64_MAX / SizeBytes(dtype) || StorageBytes(dtype, elems) != bytes.bytes())
    return wrong_size();
  return bytes.ReadAs(dtype, std::move(shape));
}

void BlobStore::LieTogether() {
  const auto place = [](int64_t end, int64_t bytes) {
    const int64_t align = bytes < kLeastPhasedBytes ? 64 : kPhasePeriodBytes;
    return (end + align - 1) / align * align;
  };
  int64_t end = 0;
  for (const auto& [hash, blob] : blobs_)
    if (blob.bytes() < kHugePageBytes) end = place(end, blob.bytes()) + blob.bytes();
  if (end < kHugePageBytes) return;
  const std::shared_ptr<void> block = AllocateZeroed(end);
  if (!block) return;
  end = 0;
  for (auto& [hash, blob] : blobs_) {
    if (blob.bytes() >= kHugePageBytes) continue;
    const int64_t begin = place(end, blob.bytes());
    std::byte* const at = static_cast<std::byte*>(block.get()) + begin;
    std::ranges::copy(blob.raw(), at);
    end = begin + blob.bytes();
    blob = Tensor::Borrow(Dtype::kU8, {blob.bytes()}, block, at);
  }
}

Status BlobStore::Save(const std::string& directory) const {
  if (blobs_.empty()) return {};
  const bool created = ::mkdir(directory.c_str(), 0777) == 0;
  if (!created && errno != EEXIST) return Failed(directory, "can't create");
  for (const auto& [hash, bytes] : blobs_) {
    const std::span<const std::byte> raw = bytes.raw();
    const std::string_view content(reinterpret_cast<const char*>(raw.data()), raw.size());
    Status written = WriteFileAtomically(fmt::format("{}/{}", directory, hash), content);
    if (written.ok()) continue;
    if (!created) return written;
    for (const auto& [other, unused] : blobs_)  // nothing is left of what did not become whole
      ::unlink(fmt::format("{}/{}", directory, other).c_str());
    ::rmdir(directory.c_str());
    return written;
  }
  return {};
}

Result<BlobStore> BlobStore::Load(std::string_view text, const std::string& directory) {
  constexpr std::string_view kWord =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  BlobStore store;
  std::set<std::string_view> seen;
  for (size_t at = 0; (at = text.find_first_of(kWord, at)) != text.npos;) {
    const size_t end = std::min(text.find_first_not_of(kWord, at), text.size());
    const std::string_view hash = text.substr(at, end - at);
    at = end;
    const std::string path = fmt::format("{}/{}", directory, IsHash(hash) ? hash : "");
    if (!IsHash(hash) || !seen.insert(hash).second || ::access(path.c_str(), F_OK) != 0) continue;
    WEFT_TRY(const Tensor bytes, ReadBlob(path));
    if (store.Put(bytes) != hash) return Invalid("its bytes have another hash").At(path);
  }
  return store;
}

Result<Tensor> BlobStore::Bytes(std::string_view hash) const {
  const auto found = blobs_.find(hash);
  if (found == blobs_.end()) return Invalid(fmt::format("blob {}: is absent", hash.substr(0, 64)));
  return Get(hash, Dtype::kU8, found->second.shape());
}

std::vector<std::string> BlobStore::Hashes() const {
  std::vector<std::string> hashes;
  hashes.reserve(blobs_.size());
  for (const auto& [hash, bytes] : blobs_) hashes.push_back(hash);
  return hashes;
}

}  // namespace weft
