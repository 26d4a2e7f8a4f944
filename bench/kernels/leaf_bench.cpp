// How near bare leaves, contractions of register tiles whose operands lie in the first cache, come
// to the peak of the machine's multipliers, by type and instruction set.
//
//   leaf_bench [FILE]   with a file: the machine code of the first leaf goes there, for objdump
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/memory.h"
#include "bench/kernels/peaks.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/load_for_test.h"

namespace weft {
namespace {

using bench::Clock;
using bench::Median;
using bench::Seconds;

// Tiles of rows by columns, one behind another, each of which sums up `depth` steps. One trip of
// the loop over steps takes `at_once` of them.
struct Leaf {
  Isa isa;
  Dtype dtype;
  int rows, columns, depth, at_once;

  static constexpr int kTiles = 2;
  int64_t all_rows() const { return int64_t{rows} * kTiles; }
};

// What sums up lies in registers, from zero on and then to c.
std::string InRegisters(const Leaf& leaf, std::string_view operands, std::string_view add) {
  return fmt::format(
      R"(loops leaf ({operands}, c: out f32[{m}, {n}]) {{
  reg acc: f32[{mr}, {n}]
  parallel i = 0:{m}:{mr} {{
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ acc[r, v] = 0.0 }} }}
    for k0 = 0:{trips} {{ {add} }}
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ c[i + r, v] = acc[r, v] }} }} }} }})",
      fmt::arg("operands", operands), fmt::arg("add", add), fmt::arg("m", leaf.all_rows()),
      fmt::arg("n", leaf.columns), fmt::arg("mr", leaf.rows),
      fmt::arg("trips", leaf.depth / leaf.at_once));
}

std::string Singles(const Leaf& leaf) {
  return InRegisters(
      leaf,
      fmt::format("a: in f32[{0}, {1}], b: in f32[{1}, {2}] align 64", leaf.all_rows(), leaf.depth,
                  leaf.columns),
      fmt::format("unroll k = {0}*k0:{0}*k0 + {0} {{ unroll r = 0:{1} {{ vector v = 0:{2} {{ "
                  "acc[r, v] = fma(a[i + r, k], b[k, v], acc[r, v]) }} }} }}",
                  leaf.at_once, leaf.rows, leaf.columns));
}

// TDPBF16PS takes 32 steps, even and odd ones apart.
std::string Matrices(const Leaf& leaf) {
  return fmt::format(
      R"(loops leaf (a: in bf16[{m}, {k}], b: in bf16[{k}, {n}] layout "BA16b2a" align 64, c: out f32[{m}, {n}]) {{
  reg p: f32[2, {n}]
  parallel i = 0:{m}:{mr} {{
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ c[i + r, v] = 0.0 }} }}
    for k = 0:{blocks} {{ unroll r1 = 0:{mr} {{ vector v1 = 0:{n} {{
      p[0, v1] = 0.0 p[1, v1] = 0.0
      unroll s = 0:32 {{
        p[s mod 2, v1] = fma_flush(a[i + r1, 32*k + s], b[32*k + s, v1], p[s mod 2, v1]) }}
      c[i + r1, v1] = add_flush(c[i + r1, v1], add_flush(p[0, v1], p[1, v1])) }} }} }} }} }})",
      fmt::arg("m", leaf.all_rows()), fmt::arg("n", leaf.columns), fmt::arg("mr", leaf.rows),
      fmt::arg("k", leaf.depth), fmt::arg("blocks", leaf.depth / 32));
}

// VDPBF16PS takes pairs of steps, the second one first.
std::string Pairs(const Leaf& leaf) {
  if (HasMatrixProducts(leaf.isa)) return Matrices(leaf);
  return InRegisters(
      leaf,
      fmt::format("a: in bf16[{0}, {1}], b: in bf16[{1}, {2}] layout \"Ab2a\" align 64",
                  leaf.all_rows(), leaf.depth, leaf.columns),
      fmt::format("unroll r = 0:{} {{ vector v = 0:{} {{ unroll k = 0:2 {{ "
                  "acc[r, v] = fma_flush(a[i + r, 2*k0 + 1 - k], b[2*k0 + 1 - k, v], acc[r, v]) "
                  "}} }} }}",
                  leaf.rows, leaf.columns));
}

// VPDPBUSD takes quads of steps, AMX 16 quads of 16 rows and columns.
std::string Quads(const Leaf& leaf) {
  const bool in_matrices = HasMatrixProducts(leaf.isa);
  return fmt::format(
      R"(loops leaf (a: in u8[{m}, {k}], b: in i8[{k}, {n}] layout "{layout}" align 64, c: out i32[{m}, {n}]) {{
  {reg}
  parallel i = 0:{m}:{mr} {{
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ {sum} = 0:i32 }} }}
    for k = 0:{quads} {{ unroll r1 = 0:{mr} {{ vector v1 = 0:{n} {{ unroll s = 0:4 {{
      {sum1} = {sum1} + (cast(a[i + r1, 4*k + s]):i32 * cast(b[4*k + s, v1]):i32) }} }} }} }}
    {store} }} }})",
      fmt::arg("m", leaf.all_rows()), fmt::arg("n", leaf.columns), fmt::arg("mr", leaf.rows),
      fmt::arg("k", leaf.depth), fmt::arg("quads", leaf.depth / 4),
      fmt::arg("layout", in_matrices ? "BA16b4a" : "Ab4a"),
      fmt::arg("reg",
               in_matrices ? "" : fmt::format("reg acc: i32[{}, {}]", leaf.rows, leaf.columns)),
      fmt::arg("sum", in_matrices ? "c[i + r, v]" : "acc[r, v]"),
      fmt::arg("sum1", in_matrices ? "c[i + r1, v1]" : "acc[r1, v1]"),
      fmt::arg("store", in_matrices
                            ? ""
                            : fmt::format("unroll r2 = 0:{} {{ vector v2 = 0:{} {{ c[i + r2, v2] = "
                                          "acc[r2, v2] }} }}",
                                          leaf.rows, leaf.columns)));
}

std::string TextOf(const Leaf& leaf) {
  switch (leaf.dtype) {
    case Dtype::kBF16:
      return Pairs(leaf);
    case Dtype::kU8:
      return Quads(leaf);
    default:
      return Singles(leaf);
  }
}

std::shared_ptr<void> Filled(Dtype dtype, int64_t elems) {
  std::shared_ptr<void> data = AllocateZeroed(elems * SizeBytes(dtype));
  for (int64_t i = 0; i < elems; ++i)
    StoreScalar(dtype, data.get(), i, ScalarOf(dtype, static_cast<double>(i % 7)));
  return data;
}

Status Run(const Leaf& leaf, const char* file) {
  WEFT_TRY(const loops::LoopNest nest, loops::Parse(TextOf(leaf), "leaf"));
  WEFT_TRY(loops::Verify(nest));
  WEFT_TRY(const codegen::MachineCode code, codegen::EmitMachineCode(nest, {.isa = leaf.isa}));
  if (file != nullptr)
    return WriteFileAtomically(file, {reinterpret_cast<const char*>(code.shared_object.data()),
                                      code.shared_object.size()});
  WEFT_TRY(const codegen::LoadedKernel kernel, codegen::LoadKernel(code, "leaf"));
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> buffers;
  for (const loops::BufferId id : loops::Operands(nest)) {
    const int64_t elems = nest[id].shape[0].constant() * nest[id].shape[1].constant();
    buffers.push_back(memory.emplace_back(Filled(nest[id].dtype, elems)).get());
  }
  const KernelArgs args = {.buffers = buffers.data()};
  std::vector<double> speeds, peaks, parts;
  const double ops = 2.0 * static_cast<double>(leaf.all_rows()) * leaf.depth * leaf.columns;
  const int calls = std::max(1, static_cast<int>(2e7 / ops));
  for (int round = 0; round < 401; ++round) {
    peaks.push_back(bench::Peak(leaf.dtype, leaf.isa));
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) kernel.function(&args, 0, 1);
    speeds.push_back(ops * calls / Seconds(start));
    parts.push_back(speeds.back() / peaks.back());
  }
  fmt::print("{:30} {:4} {:>2}x{} depth {:4}, {} at once: {:6.1f} Gop/s, {:5.1f} % of {:.1f}\n",
             Print(Target{.isa = leaf.isa}), DtypeName(leaf.dtype), leaf.rows, leaf.columns,
             leaf.depth, leaf.at_once, Median(speeds) / 1e9, 100 * Median(parts),
             Median(peaks) / 1e9);
  return {};
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using weft::Dtype;
  using weft::Isa;
  for (const weft::Leaf& leaf : {
           weft::Leaf{Isa::kX86V3, Dtype::kF32, 6, 16, 256, 1},
           {Isa::kX86V3, Dtype::kF32, 6, 16, 256, 4},
           {Isa::kX86V3, Dtype::kF32, 6, 16, 64, 1},
           {Isa::kX86V3, Dtype::kF32, 4, 24, 256, 1},
           {Isa::kX86V3, Dtype::kF32, 5, 16, 256, 1},
           {Isa::kX86V3, Dtype::kF32, 6, 14, 256, 1},
           {Isa::kX86V4, Dtype::kF32, 6, 64, 128, 1},
           {Isa::kX86V4, Dtype::kF32, 8, 48, 128, 1},
           {Isa::kX86V4, Dtype::kF32, 12, 32, 128, 1},
           {Isa::kX86V4, Dtype::kF32, 13, 32, 128, 1},
           {Isa::kX86V4, Dtype::kF32, 12, 32, 64, 1},
           {Isa::kX86V4Bf16, Dtype::kBF16, 6, 64, 256, 2},
           {Isa::kX86V4Bf16, Dtype::kBF16, 8, 48, 256, 2},
           {Isa::kX86V4Bf16, Dtype::kBF16, 12, 32, 256, 2},
           {Isa::kX86V4Vnni, Dtype::kU8, 6, 64, 256, 4},
           {Isa::kX86V4Vnni, Dtype::kU8, 8, 48, 256, 4},
           {Isa::kX86V4Vnni, Dtype::kU8, 12, 32, 256, 4},
           {Isa::kX86V4Amx, Dtype::kBF16, 32, 32, 128, 32},
           {Isa::kX86V4Amx, Dtype::kBF16, 32, 32, 384, 32},
           {Isa::kX86V4Amx, Dtype::kBF16, 16, 64, 128, 32},
           {Isa::kX86V4Amx, Dtype::kU8, 32, 32, 256, 4},
           {Isa::kX86V4Amx, Dtype::kU8, 32, 32, 768, 4},
           {Isa::kX86V4Amx, Dtype::kU8, 16, 64, 256, 4},
       }) {
    if (!weft::HostRuns(leaf.isa)) continue;
    if (const weft::Status status = weft::Run(leaf, argc > 1 ? argv[1] : nullptr); !status.ok())
      return fmt::print("{}\n", status.ToString()), 1;
    if (argc > 1) return 0;
  }
}
