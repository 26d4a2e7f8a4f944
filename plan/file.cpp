#include "plan/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

namespace weft::plan {
namespace {

constexpr std::string_view kMagic = "WEFTPLAN";
constexpr int64_t kAlign = 64;
constexpr uint32_t kMaxSections = 8;

struct Section {
  char name[16];
  uint64_t offset, bytes;
  uint8_t sha256[32];
};
static_assert(sizeof(Section) == 64);

// One entry of the `blobs` section, which holds nothing else.
struct BlobEntry {
  char hash[64];           // hex
  uint64_t offset, bytes;  // in the file
};
static_assert(sizeof(BlobEntry) == 80);

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

uint64_t RoundUp(uint64_t at) { return (at + kAlign - 1) / kAlign * kAlign; }
void Align(std::string& out) { out.resize(RoundUp(out.size()), '\0'); }

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::shared_ptr<const void> owner, std::string name)
      : file_(file), owner_(std::move(owner)), name_(std::move(name)) {}

  Result<Plan> Run() {
    WEFT_TRY(Table());
    WEFT_TRY(auto text, Find("plan"));
    WEFT_TRY(auto entries, Find("blobs"));
    WEFT_TRY(BlobStore blobs, Blobs(entries));
    const std::string_view body(reinterpret_cast<const char*>(text.data()), text.size());
    WEFT_TRY(Plan plan, ParsePlan(body, name_ + ":plan", blobs));
    WEFT_TRY(Verify(plan));
    return plan;
  }

 private:
  Status Bad(std::string what, size_t byte) const {
    return Invalid(std::move(what))
        .At(fmt::format("{}: byte {}", name_, byte))
        .Try("build the plan again");
  }

  template <typename T>
  T Read(size_t at) const {
    T value;
    std::memcpy(&value, file_.data() + at, sizeof value);
    return value;
  }

  // Everything before the sections, then the sections, in order, gaps zero.
  Status Table() {
    const size_t fixed = kMagic.size() + 2 * sizeof(uint32_t);
    if (file_.size() < fixed || std::memcmp(file_.data(), kMagic.data(), kMagic.size()) != 0)
      return Bad("not a plan file", 0);
    if (const auto version = Read<uint32_t>(8); version != kFormatVersion)
      return Bad(
          fmt::format("found format version {}, this weft reads {}", version, kFormatVersion), 8);
    const auto count = Read<uint32_t>(12);
    if (count > kMaxSections)
      return Bad(fmt::format("found {} sections, at most {} are known", count, kMaxSections), 12);
    const size_t end = fixed + count * sizeof(Section);
    if (file_.size() < end + sizeof(Hash::bytes))
      return Bad("the file ends inside its table", file_.size());
    const Hash head = Sha256(file_.first(end));
    if (std::memcmp(head.bytes.data(), file_.data() + end, head.bytes.size()) != 0)
      return Bad("the table does not match its hash", end);
    end_ = end + head.bytes.size();
    for (uint32_t i = 0; i < count; ++i) {
      const auto s = Read<Section>(fixed + i * sizeof(Section));
      WEFT_TRY(Next(s.offset, s.bytes, fixed + i * sizeof(Section)));
      const Hash hash = Sha256(file_.subspan(s.offset, s.bytes));
      if (std::memcmp(hash.bytes.data(), s.sha256, sizeof s.sha256) != 0)
        return Bad(fmt::format("section {} does not match its hash", PrintString(NameOf(s))),
                   s.offset);
      sections_.push_back(s);
    }
    return {};
  }

  // What comes next in the file: at the next aligned offset, after nothing but zeros.
  Status Next(uint64_t offset, uint64_t bytes, size_t said_at) {
    const uint64_t aligned = RoundUp(end_);
    if (offset != aligned || offset > file_.size() || bytes > file_.size() - offset)
      return Bad(fmt::format("found {} bytes at {}, expected them at {} in a file of {}", bytes,
                             offset, aligned, file_.size()),
                 said_at);
    for (size_t i = end_; i < aligned; ++i)
      if (file_[i] != std::byte{0}) return Bad("a gap that is not zero", i);
    end_ = offset + bytes;
    return {};
  }

  static std::string_view NameOf(const Section& s) {
    return {s.name, strnlen(s.name, sizeof s.name)};
  }

  Result<std::span<const std::byte>> Find(std::string_view wanted) const {
    for (const Section& s : sections_)
      if (NameOf(s) == wanted) return file_.subspan(s.offset, s.bytes);
    return Bad(fmt::format("there is no section \"{}\"", wanted), 0);
  }

  // All blobs, used where they lie; the last of them ends the file.
  Result<BlobStore> Blobs(std::span<const std::byte> entries) {
    const auto base = static_cast<size_t>(entries.data() - file_.data());
    BlobStore blobs;
    if (entries.size() % sizeof(BlobEntry) != 0)
      return Bad("a blob table that ends early", base + entries.size());
    for (size_t at = base; at < base + entries.size(); at += sizeof(BlobEntry)) {
      const auto entry = Read<BlobEntry>(at);
      WEFT_TRY(Next(entry.offset, entry.bytes, at));
      const Tensor bytes = Tensor::Borrow(Dtype::kU8, {static_cast<int64_t>(entry.bytes)}, owner_,
                                          file_.data() + entry.offset);
      if (blobs.Put(bytes) != std::string_view(entry.hash, sizeof entry.hash))
        return Bad("a blob that does not match its hash", entry.offset);
    }
    if (end_ != file_.size()) return Bad("bytes after the last blob", end_);
    return blobs;
  }

  std::span<const std::byte> file_;
  std::shared_ptr<const void> owner_;
  std::string name_;
  std::vector<Section> sections_;
  size_t end_ = 0;  // of what was read so far
};

// A plan's file: all that stands before the blobs, and the blobs, which are big, where they are.
struct Contents {
  std::string head;
  std::vector<Tensor> blobs;

  std::vector<std::string_view> Pieces() const {
    static constexpr char kGap[kAlign] = {};
    std::vector<std::string_view> pieces{head};
    uint64_t at = head.size();
    for (const Tensor& blob : blobs) {
      pieces.emplace_back(kGap, RoundUp(at) - at);
      pieces.emplace_back(blob.as<char>(), static_cast<size_t>(blob.elems()));
      at = RoundUp(at) + static_cast<uint64_t>(blob.elems());
    }
    return pieces;
  }
};

Result<Contents> ContentsOf(const Plan& plan) {
  Contents contents;
  const std::vector<std::string> hashes = plan.blobs.Hashes();
  const std::string text = Print(plan);
  constexpr uint32_t kCount = 2;
  const uint64_t text_at = RoundUp(kMagic.size() + 2 * sizeof(uint32_t) + kCount * sizeof(Section) +
                                   sizeof(Hash::bytes));
  const uint64_t blobs_at = RoundUp(text_at + text.size());
  std::string entries;
  uint64_t at = blobs_at + hashes.size() * sizeof(BlobEntry);
  for (const std::string& hash : hashes) {
    WEFT_TRY(Tensor bytes, plan.blobs.Bytes(hash));
    BlobEntry entry{.offset = RoundUp(at), .bytes = static_cast<uint64_t>(bytes.elems())};
    std::memcpy(entry.hash, hash.data(), sizeof entry.hash);
    entries += BytesOf(entry);
    at = entry.offset + entry.bytes;
    contents.blobs.push_back(std::move(bytes));
  }
  std::string& head = contents.head;
  head += kMagic;
  head += BytesOf(kFormatVersion);
  head += BytesOf(kCount);
  const auto section = [&](std::string_view name, uint64_t offset, const std::string& body) {
    Section s{.name = {}, .offset = offset, .bytes = body.size(), .sha256 = {}};
    std::memcpy(s.name, name.data(), name.size());
    const Hash hash = Sha256(body);
    std::memcpy(s.sha256, hash.bytes.data(), sizeof s.sha256);
    head += BytesOf(s);
  };
  section("plan", text_at, text);
  section("blobs", blobs_at, entries);
  const Hash hash = Sha256(head);
  head.append(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
  for (const std::string* body : {&text, static_cast<const std::string*>(&entries)}) {
    Align(head);
    head += *body;
  }
  return contents;
}

}  // namespace

Result<std::string> SerializePlan(const Plan& plan) {
  WEFT_TRY(const Contents contents, ContentsOf(plan));
  std::string file;
  for (std::string_view piece : contents.Pieces()) file += piece;
  return file;
}

Status WritePlan(const Plan& plan, const std::string& path) {
  WEFT_TRY(const Contents contents, ContentsOf(plan));
  return WriteFileAtomically(path, contents.Pieces());
}

Result<Plan> ReadPlan(const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not waited for
  if (fd < 0) return Invalid(std::strerror(errno)).At(path);
  const Result<Tensor> bytes = ReadBytes(fd);
  close(fd);
  if (!bytes.ok()) return Status(bytes.status()).At(path);
  return Reader(bytes->raw(), std::make_shared<Tensor>(*bytes), path).Run();
}

Result<Plan> ReadPlan(std::span<const std::byte> bytes, const std::string& name) {
  // Blobs view the bytes, so the plan keeps a copy of them that is aligned like a file's.
  WEFT_TRY(Tensor copy, Tensor::Allocate(Dtype::kU8, {static_cast<int64_t>(bytes.size())}));
  if (!bytes.empty()) std::memcpy(copy.mutable_data(), bytes.data(), bytes.size());
  auto owner = std::make_shared<Tensor>(std::move(copy));
  return Reader(owner->raw(), owner, name).Run();
}

}  // namespace weft::plan
