// One nest as one function of LLVM IR.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string_view>

#include "base/target.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

// A module that defines `void nest.name(const KernelArgs*, uint32_t rank, uint32_t size)`.
std::unique_ptr<llvm::Module> BuildModule(const loops::LoopNest& nest, const Target& target,
                                          llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine);

// The processor and its features, as LLVM names them: never the host's.
std::string_view CpuName(Isa isa);
std::string_view CpuFeatures(Isa isa);

}  // namespace weft::codegen
