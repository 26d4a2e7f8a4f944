// What each instruction set is to LLVM. The levels are those of the x86-64 psABI; the processor
// after which instructions are scheduled is one of its first.
#include "base/check.h"
#include "codegen/llvm/kernel.h"

namespace weft::codegen {

std::string_view CpuName(Isa isa) {
  if (isa == Isa::kX86V3) return "haswell";
  if (isa == Isa::kX86V4) return "skylake-avx512";
  return isa == Isa::kX86V4Vnni ? "cascadelake" : "cooperlake";  // AMX is a feature of it
}

std::string_view CpuFeatures(Isa isa) {
  // Without what a machine of that level may lack.
  constexpr std::string_view kAmx =
      "-rtm,-adx,-rdseed,-pku,-clwb,-xsavec,-xsaves,-aes,-pclmul,-fsgsbase,-invpcid,-rdrnd"
      ",+amx-tile,+amx-int8,+amx-bf16";
  if (isa == Isa::kX86V3) return "-rtm,-aes,-pclmul,-fsgsbase,-invpcid,-rdrnd";
  return HasMatrixProducts(isa) ? kAmx : kAmx.substr(0, kAmx.find(",+amx"));
}

}  // namespace weft::codegen
