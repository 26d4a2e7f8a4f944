#include "tests/cuda/standin/image.h"

#include <elf.h>

#include <array>
#include <cstring>

namespace weft::standin {
namespace {

constexpr Elf64_Half kCuda = 190;  // e_machine
constexpr std::string_view kCode = ".weft.host";

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

std::string Wrap(std::string_view symbol, std::string_view code) {
  std::string names(1, '\0');
  std::array<Elf64_Shdr, 5> sections{};
  const auto add = [&](size_t i, const std::string& name, Elf64_Word type, size_t at, size_t size) {
    sections[i].sh_name = static_cast<Elf64_Word>(names.size());
    sections[i].sh_type = type;
    sections[i].sh_offset = at;
    sections[i].sh_size = size;
    names += name + '\0';
  };
  const size_t begin = sizeof(Elf64_Ehdr), end = begin + code.size();
  add(1, ".text." + std::string(symbol), SHT_PROGBITS, begin, 0);
  add(2, ".nv.info", SHT_PROGBITS, begin, 0);
  add(3, std::string(kCode), SHT_PROGBITS, begin, code.size());
  add(4, ".shstrtab", SHT_STRTAB, end, 0);
  sections[4].sh_size = names.size();
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_machine = kCuda;
  head.e_shoff = end + names.size();
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = sections.size();
  head.e_shstrndx = 4;
  std::string image(Bytes(head));
  image += code;
  image += names;
  for (const Elf64_Shdr& section : sections) image += Bytes(section);
  return image;
}

std::string_view Unwrap(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  Elf64_Ehdr head;
  std::memcpy(&head, bytes, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine != kCuda) return {};
  const auto section = [&](size_t i) {
    Elf64_Shdr s;
    std::memcpy(&s, bytes + head.e_shoff + i * sizeof s, sizeof s);
    return s;
  };
  const Elf64_Shdr names = section(head.e_shstrndx);
  for (size_t i = 1; i < head.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (kCode == bytes + names.sh_offset + s.sh_name) return {bytes + s.sh_offset, s.sh_size};
  }
  return {};
}

}  // namespace weft::standin
