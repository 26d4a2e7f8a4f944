#include "codegen/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::codegen {
namespace {

constexpr Elf64_Half kCuda = 190;  // e_machine

// A value at a place, if the image goes that far.
template <typename T>
std::optional<T> At(std::span<const uint8_t> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct Section {
  std::string_view name;
  uint64_t size = 0;               // also of those that the file has no bytes of
  std::span<const uint8_t> bytes;  // empty for those
};

std::optional<std::vector<Section>> SectionsOf(std::span<const uint8_t> image) {
  const auto head = At<Elf64_Ehdr>(image, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != kCuda ||
      head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shstrndx >= head->e_shnum) {
    return std::nullopt;
  }
  std::vector<Elf64_Shdr> headers;
  for (uint64_t i = 0; i < head->e_shnum; ++i) {
    const auto header = At<Elf64_Shdr>(image, head->e_shoff + i * sizeof(Elf64_Shdr));
    if (!header) return std::nullopt;
    const bool inside =
        header->sh_type == SHT_NOBITS || header->sh_type == SHT_NULL ||
        (header->sh_offset <= image.size() && header->sh_size <= image.size() - header->sh_offset);
    if (!inside) return std::nullopt;
    headers.push_back(*header);
  }
  const auto bytes_of = [&](const Elf64_Shdr& h) {
    const bool has_none = h.sh_type == SHT_NOBITS || h.sh_type == SHT_NULL;
    return has_none ? std::span<const uint8_t>{} : image.subspan(h.sh_offset, h.sh_size);
  };
  const std::span<const uint8_t> names = bytes_of(headers[head->e_shstrndx]);
  std::vector<Section> sections;
  for (const Elf64_Shdr& h : headers) {
    if (h.sh_name >= names.size()) return std::nullopt;
    const auto* name = reinterpret_cast<const char*>(names.data() + h.sh_name);
    sections.push_back({{name, strnlen(name, names.size() - h.sh_name)}, h.sh_size, bytes_of(h)});
  }
  return sections;
}

// The attribute's value in a list of them: a format, an attribute and 16 bits, which in format 4
// are the size of a payload that follows, here a symbol and a value. The largest, if there are
// several.
int64_t Attribute(std::span<const uint8_t> list, uint8_t attribute) {
  constexpr uint8_t kSized = 4;
  struct Head {
    uint8_t format, attribute;
    uint16_t size;
  };
  int64_t found = 0;
  uint64_t at = 0;
  while (const auto head = At<Head>(list, at)) {
    at += sizeof(Head);
    if (head->format != kSized) continue;
    const auto value = At<uint32_t>(list, at + sizeof(uint32_t));
    if (head->attribute == attribute && head->size == 2 * sizeof(uint32_t) && value)
      found = std::max<int64_t>(found, *value);
    at += head->size;
  }
  return found;
}

// Instructions have 16 bytes, their operation in the lowest 12 bits.
int64_t LocalAccesses(std::span<const uint8_t> code) {
  constexpr uint64_t kInstruction = 16, kOperation = 0xfff, kLoad = 0x983, kStore = 0x387;
  int64_t count = 0;
  for (uint64_t at = 0; at + kInstruction <= code.size(); at += kInstruction) {
    const uint64_t operation = *At<uint64_t>(code, at) & kOperation;
    count += operation == kLoad || operation == kStore;
  }
  return count;
}

}  // namespace

Result<CudaResources> ReadCubin(std::span<const uint8_t> image) {
  constexpr uint8_t kFrameSize = 0x11, kRegisters = 0x2f;
  constexpr std::string_view kText = ".text.";
  constexpr int64_t kReserved = 1024;  // CUDA C++ Programming Guide, on compute capability 9.0
  const auto sections = SectionsOf(image);
  if (!sections) return Invalid("found no cubin, expected an ELF file for CUDA");
  const auto called = [&](const std::string& name) -> const Section* {
    const auto found = std::ranges::find(*sections, name, &Section::name);
    return found == sections->end() ? nullptr : &*found;
  };
  const Section* info = called(".nv.info");
  // Where the system keeps some of a block's shared memory for itself, the section counts that in.
  const int64_t reserved = called(".nv.shared.reserved.0") ? kReserved : 0;
  CudaResources all;
  bool found = false;
  for (const Section& text : *sections) {
    if (!text.name.starts_with(kText)) continue;
    found = true;
    const Section* shared = called(".nv.shared." + std::string(text.name.substr(kText.size())));
    if (shared)
      all.shared_bytes = std::max(all.shared_bytes, static_cast<int64_t>(shared->size) - reserved);
    all.local_accesses += LocalAccesses(text.bytes);
  }
  if (!found || !info) return Invalid("found a cubin without a kernel");
  all.registers = static_cast<int32_t>(Attribute(info->bytes, kRegisters));
  all.stack_bytes = Attribute(info->bytes, kFrameSize);
  return all;
}

}  // namespace weft::codegen
