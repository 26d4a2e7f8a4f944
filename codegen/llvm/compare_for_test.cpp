#include "codegen/llvm/compare_for_test.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "base/text.h"
#include "codegen/llvm/load_for_test.h"
#include "codegen/reference/interpret.h"

namespace weft::codegen {
namespace {

using loops::Access;
using loops::Buffer;

constexpr size_t kPage = 4096;

// Memory whose end is the end of what may be read.
class Fenced {
 public:
  Fenced(size_t bytes, size_t align) : bytes_(bytes) {
    mapped_ = (bytes + kPage - 1) / kPage * kPage + kPage;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE);
    data_ = base_ + (mapped_ - kPage - bytes) / align * align;
  }
  ~Fenced() { munmap(base_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, mapped_;
  std::byte *base_, *data_;
};

using Arena = std::vector<std::unique_ptr<Fenced>>;

Scalar RandomScalar(Dtype dtype, std::mt19937_64& random, bool wild) {
  const uint64_t bits = random();
  if (dtype == Dtype::kBool) return ScalarOfInt(dtype, static_cast<int64_t>(bits & 1));
  if (!IsFloat(dtype)) {
    return ScalarOfInt(dtype, wild && bits % 4 == 0 ? static_cast<int64_t>(random())
                                                    : static_cast<int64_t>(bits % 16) - 8);
  }
  constexpr double kOdd[] = {0.0,
                             -0.0,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             1e-40,
                             -3e-42,
                             6e-6,
                             65504,
                             3.4e38,
                             -3.4e38,
                             1.2e-19,
                             -0.9e-19,
                             1e-300,
                             2147483648.0,
                             -9.3e18};
  if (wild && bits % 3 == 0) return ScalarOf(dtype, kOdd[random() % std::size(kOdd)]);
  return ScalarOf(dtype, static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-61);
}

Arena MakeOperands(const loops::LoopNest& nest, const CompareOptions& options) {
  Arena arena;
  std::mt19937_64 random(options.seed);
  for (loops::BufferId id : loops::Operands(nest)) {
    const Buffer& b = nest[id];
    const auto bytes = static_cast<size_t>(loops::BufferBytes(b, options.params));
    arena.push_back(
        std::make_unique<Fenced>(bytes, std::max<size_t>(b.align_bytes, SizeBytes(b.dtype))));
    if (b.access == Access::kOut) continue;
    const size_t elems = SharesBytes(b.dtype) ? 2 * bytes : bytes / SizeBytes(b.dtype);
    for (size_t i = 0; i < elems; ++i) {
      StoreScalar(b.dtype, arena.back()->data(), static_cast<int64_t>(i),
                  RandomScalar(b.dtype, random, options.wild));
    }
  }
  return arena;
}

std::vector<void*> Pointers(const Arena& arena) {
  std::vector<void*> pointers;
  for (const auto& operand : arena) pointers.push_back(operand->data());
  return pointers;
}

void RunKernel(const LoadedKernel& kernel, const loops::LoopNest& nest, const Arena& arena,
               const CompareOptions& options, uint32_t size, KernelFault* fault) {
  const std::vector<void*> buffers = Pointers(arena);
  const Fenced team(static_cast<size_t>(loops::TeamScratchBytes(nest)), 64);
  const int64_t own = loops::RankScratchBytes(nest);
  const Fenced rank_scratch(static_cast<size_t>(own) * size, 64);
  std::barrier<> barrier(size);
  const int32_t cancel = 0;
  const KernelArgs args = {
      .buffers = buffers.data(),
      .params = options.params.data(),
      .team_scratch = team.data(),
      .rank_scratch = rank_scratch.data(),
      .rank_scratch_stride = own,
      .barrier = [](void* b) { static_cast<std::barrier<>*>(b)->arrive_and_wait(); },
      .barrier_data = &barrier,
      .fault = fault,
      .cancel = &cancel};
  std::vector<std::thread> threads;
  for (uint32_t rank = 1; rank < size; ++rank)
    threads.emplace_back([&, rank] { kernel.function(&args, rank, size); });
  kernel.function(&args, 0, size);
  for (std::thread& t : threads) t.join();
}

// NaNs are equal whatever their payload: machines and compilers pick operands freely.
bool SameScalar(Dtype dtype, Scalar a, Scalar b) {
  if (!IsFloat(dtype)) return a.i == b.i;
  if (dtype == Dtype::kF64)
    return std::bit_cast<uint64_t>(a.f64) == std::bit_cast<uint64_t>(b.f64) ||
           (std::isnan(a.f64) && std::isnan(b.f64));
  return std::bit_cast<uint32_t>(a.f32) == std::bit_cast<uint32_t>(b.f32) ||
         (std::isnan(a.f32) && std::isnan(b.f32));
}

std::string FirstDifference(const loops::LoopNest& nest, const Arena& want, const Arena& found) {
  for (size_t i = 0; i < want.size(); ++i) {
    const Buffer& b = nest.buffers[i];
    const auto elems = static_cast<int64_t>(want[i]->bytes()) / SizeBytes(b.dtype) *
                       (SharesBytes(b.dtype) ? 2 : 1);
    for (int64_t e = 0; e < elems; ++e) {
      const Scalar w = LoadScalar(b.dtype, want[i]->data(), e),
                   f = LoadScalar(b.dtype, found[i]->data(), e);
      if (SameScalar(b.dtype, w, f)) continue;
      return fmt::format("{} element {}: loops {} ({:x}), kernel {} ({:x})", b.name, e,
                         AsDouble(b.dtype, w), static_cast<uint64_t>(w.i), AsDouble(b.dtype, f),
                         static_cast<uint64_t>(f.i));
    }
  }
  return "";
}

// "" if the dynamic symbol table defines all that it names.
std::string UndefinedSymbol(const MachineCode& code) {
  const uint8_t* file = code.shared_object.data();
  Elf64_Ehdr header;
  std::memcpy(&header, file, sizeof(header));
  for (int section = 0; section < header.e_shnum; ++section) {
    Elf64_Shdr table;
    std::memcpy(&table, file + header.e_shoff + section * sizeof(table), sizeof(table));
    if (table.sh_type != SHT_DYNSYM) continue;
    for (size_t i = 1; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, file + table.sh_offset + i * sizeof(symbol), sizeof(symbol));
      if (symbol.st_shndx == SHN_UNDEF)
        return fmt::format("symbol {} of the object is undefined", i);
    }
  }
  return "";
}

}  // namespace

std::string Compare(const loops::LoopNest& nest, const Target& target,
                    const CompareOptions& options) {
  if (const Status status = loops::Verify(nest); !status.ok()) return status.ToString();
  const Result<MachineCode> code = EmitMachineCode(nest, target);
  if (!code.ok()) return code.status().ToString();
  if (std::string undefined = UndefinedSymbol(*code); !undefined.empty()) return undefined;
  const Result<LoadedKernel> kernel = LoadKernel(*code, nest.name);
  if (!kernel.ok()) return kernel.status().ToString();
  for (uint32_t size : options.sizes) {
    const Arena want = MakeOperands(nest, options), found = MakeOperands(nest, options);
    KernelFault want_fault{}, found_fault{};
    const Status status = Interpret(nest, Pointers(want), options.params, &want_fault,
                                    {.team_size = size, .check = options.check});
    if (!status.ok()) return "loops: " + status.ToString();
    RunKernel(*kernel, nest, found, options, size, &found_fault);
    const std::string differs = FirstDifference(nest, want, found);
    if (!differs.empty()) return fmt::format("size {}: {}", size, differs);
    const bool same_fault = size > 1
                                ? want_fault.code == found_fault.code
                                : std::memcmp(&want_fault, &found_fault, sizeof(KernelFault)) == 0;
    if (!same_fault)
      return fmt::format("size {}: fault {} at {}, kernel {} at {}", size, want_fault.code,
                         want_fault.found, found_fault.code, found_fault.found);
  }
  return "";
}

std::string CompilesFor(const loops::LoopNest& nest, const Target& target) {
  const Result<MachineCode> code = EmitMachineCode(nest, target);
  return code.ok() ? UndefinedSymbol(*code) : code.status().ToString();
}

}  // namespace weft::codegen
