#include "plan/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/cache/file_cache.h"
#include "base/hash.h"

namespace weft::plan {
namespace {

constexpr std::string_view kMagic = "WEFTPLAN";
constexpr int64_t kAlign = 64;
constexpr uint32_t kMaxSections = 8;
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;

struct Section {
  char name[16];
  uint64_t offset, bytes;
  uint8_t sha256[32];
};
static_assert(sizeof(Section) == 64);

// One entry of the table at the start of the `blobs` section.
struct BlobEntry {
  char hash[64];           // hex
  uint64_t offset, bytes;  // in the section
};
static_assert(sizeof(BlobEntry) == 80);

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void Align(std::string& out) { out.resize((out.size() + kAlign - 1) / kAlign * kAlign, '\0'); }

Result<std::string> BlobSection(const BlobStore& blobs) {
  const std::vector<std::string> hashes = blobs.Hashes();
  std::string section;
  const uint64_t count = hashes.size();
  section += BytesOf(count);
  uint64_t at = sizeof count + count * sizeof(BlobEntry);
  std::vector<Tensor> contents;
  for (const std::string& hash : hashes) {
    WEFT_TRY(Tensor bytes, blobs.Bytes(hash));
    at = (at + kAlign - 1) / kAlign * kAlign;
    BlobEntry entry{.offset = at, .bytes = static_cast<uint64_t>(bytes.elems())};
    std::memcpy(entry.hash, hash.data(), sizeof entry.hash);
    section += BytesOf(entry);
    at += entry.bytes;
    contents.push_back(std::move(bytes));
  }
  for (const Tensor& bytes : contents) {
    Align(section);
    section.append(bytes.as<char>(), static_cast<size_t>(bytes.elems()));
  }
  return section;
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::shared_ptr<const void> owner, std::string name)
      : file_(file), owner_(std::move(owner)), name_(std::move(name)) {}

  Result<Plan> Run() {
    WEFT_TRY(Table());
    WEFT_TRY(auto text, Find("plan"));
    WEFT_TRY(auto section, Find("blobs"));
    WEFT_TRY(BlobStore blobs, Blobs(section));
    const std::string_view body(reinterpret_cast<const char*>(text.data()), text.size());
    WEFT_TRY(Plan plan, ParsePlan(body, name_ + ":plan", blobs));
    WEFT_TRY(Verify(plan));
    return plan;
  }

 private:
  Status Bad(std::string what, size_t byte) const {
    return Invalid(std::move(what)).At(fmt::format("{}: byte {}", name_, byte)).Try("build the plan again");
  }

  template <typename T>
  T Read(size_t at) const {
    T value;
    std::memcpy(&value, file_.data() + at, sizeof value);
    return value;
  }

  // Everything before the sections, then that the sections cover the rest, in order, gaps zero.
  Status Table() {
    const size_t fixed = kMagic.size() + 2 * sizeof(uint32_t);
    if (file_.size() < fixed || std::memcmp(file_.data(), kMagic.data(), kMagic.size()) != 0)
      return Bad("not a plan file", 0);
    if (const auto version = Read<uint32_t>(8); version != kFormatVersion)
      return Bad(fmt::format("found format version {}, this weft reads {}", version, kFormatVersion), 8);
    const auto count = Read<uint32_t>(12);
    if (count > kMaxSections) return Bad(fmt::format("found {} sections, at most {} are known", count, kMaxSections), 12);
    const size_t end = fixed + count * sizeof(Section);
    if (file_.size() < end + sizeof(Hash::bytes)) return Bad("the file ends inside its table", file_.size());
    const Hash head = Sha256(file_.first(end));
    if (std::memcmp(head.bytes.data(), file_.data() + end, head.bytes.size()) != 0)
      return Bad("the table does not match its hash", end);
    size_t at = end + head.bytes.size();
    for (uint32_t i = 0; i < count; ++i) {
      const auto s = Read<Section>(fixed + i * sizeof(Section));
      WEFT_TRY(OneSection(s, at, fixed + i * sizeof(Section)));
      at = s.offset + s.bytes;
      sections_.push_back(s);
    }
    if (at != file_.size()) return Bad("bytes after the last section", at);
    return {};
  }

  Status OneSection(const Section& s, size_t at, size_t entry) {
    const size_t aligned = (at + kAlign - 1) / kAlign * kAlign;
    if (s.offset != aligned || s.offset > file_.size() || s.bytes > file_.size() - s.offset)
      return Bad(fmt::format("a section at {} with {} bytes, in a file of {}", s.offset, s.bytes, file_.size()), entry);
    for (size_t i = at; i < aligned; ++i)
      if (file_[i] != std::byte{0}) return Bad("a gap that is not zero", i);
    const Hash hash = Sha256(file_.subspan(s.offset, s.bytes));
    if (std::memcmp(hash.bytes.data(), s.sha256, sizeof s.sha256) != 0)
      return Bad(fmt::format("section \"{}\" does not match its hash", std::string_view(s.name, strnlen(s.name, 16))), s.offset);
    return {};
  }

  Result<std::span<const std::byte>> Find(std::string_view wanted) const {
    for (const Section& s : sections_)
      if (std::string_view(s.name, strnlen(s.name, sizeof s.name)) == wanted) return file_.subspan(s.offset, s.bytes);
    return Bad(fmt::format("there is no section \"{}\"", wanted), 0);
  }

  Result<BlobStore> Blobs(std::span<const std::byte> section) const {
    const auto base = static_cast<size_t>(section.data() - file_.data());
    BlobStore blobs;
    uint64_t count = 0;
    if (section.size() < sizeof count) return Bad("a blob table that ends early", base);
    std::memcpy(&count, section.data(), sizeof count);
    if (count > (section.size() - sizeof count) / sizeof(BlobEntry)) return Bad("a blob table that ends early", base);
    for (uint64_t i = 0; i < count; ++i) {
      BlobEntry entry;
      std::memcpy(&entry, section.data() + sizeof count + i * sizeof entry, sizeof entry);
      if (entry.offset > section.size() || entry.bytes > section.size() - entry.offset)
        return Bad(fmt::format("a blob at {} with {} bytes, in a section of {}", entry.offset, entry.bytes, section.size()),
                   base + sizeof count + i * sizeof entry);
      Tensor bytes = Tensor::Borrow(Dtype::kU8, {static_cast<int64_t>(entry.bytes)}, owner_, section.data() + entry.offset);
      // The section's hash has been checked, so this only says that the name fits; and with 64-byte
      // alignment the weights can be used where they lie.
      if (blobs.Put(bytes) != std::string_view(entry.hash, sizeof entry.hash))
        return Bad("a blob that does not match its hash", base + entry.offset);
      if (entry.offset % kAlign) return Bad("a blob that is not aligned", base + entry.offset);
    }
    return blobs;
  }

  std::span<const std::byte> file_;
  std::shared_ptr<const void> owner_;
  std::string name_;
  std::vector<Section> sections_;
};

struct Mapping {
  void* data = nullptr;
  size_t bytes = 0;
  ~Mapping() {
    if (data) munmap(data, bytes);
  }
};

}  // namespace

Result<std::string> SerializePlan(const Plan& plan) {
  WEFT_TRY(std::string blobs, BlobSection(plan.blobs));
  const std::pair<std::string_view, std::string> contents[] = {{"plan", Print(plan)}, {"blobs", std::move(blobs)}};
  std::string table(kMagic);
  const uint32_t count = std::size(contents);
  table += BytesOf(kFormatVersion);
  table += BytesOf(count);
  uint64_t at = table.size() + count * sizeof(Section) + sizeof(Hash::bytes);
  for (const auto& [name, body] : contents) {
    at = (at + kAlign - 1) / kAlign * kAlign;
    Section s{.name = {}, .offset = at, .bytes = body.size(), .sha256 = {}};
    std::memcpy(s.name, name.data(), name.size());
    const Hash hash = Sha256(body);
    std::memcpy(s.sha256, hash.bytes.data(), sizeof s.sha256);
    table += BytesOf(s);
    at += body.size();
  }
  const Hash hash = Sha256(table);
  std::string file = std::move(table);
  file.append(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
  for (const auto& [name, body] : contents) {
    Align(file);
    file += body;
  }
  return file;
}

Status WritePlan(const Plan& plan, const std::string& path) {
  WEFT_TRY(std::string bytes, SerializePlan(plan));
  return WriteFileAtomically(path, bytes);
}

Result<Plan> ReadPlan(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Usage(std::strerror(errno)).At(path);
  struct stat info;
  auto mapping = std::make_shared<Mapping>();
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (regular && info.st_size > 0 && info.st_size <= kMaxFileBytes) {
    mapping->bytes = static_cast<size_t>(info.st_size);
    void* data = mmap(nullptr, mapping->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    mapping->data = data == MAP_FAILED ? nullptr : data;
  }
  close(fd);
  if (!regular) return Invalid("not a regular file").At(path);
  if (!mapping->data) return Invalid("an empty file, or one that can't be mapped").At(path);
  return Reader({static_cast<const std::byte*>(mapping->data), mapping->bytes}, mapping, path).Run();
}

Result<Plan> ReadPlan(std::span<const std::byte> bytes, const std::string& name) {
  // Blobs view the bytes, so the plan keeps a copy of them that is aligned like a mapped file.
  WEFT_TRY(Tensor copy, Tensor::Allocate(Dtype::kU8, {static_cast<int64_t>(bytes.size())}));
  if (!bytes.empty()) std::memcpy(copy.mutable_data(), bytes.data(), bytes.size());
  auto owner = std::make_shared<Tensor>(std::move(copy));
  return Reader(owner->raw(), owner, name).Run();
}

}  // namespace weft::plan
