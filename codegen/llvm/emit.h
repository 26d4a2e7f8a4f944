// LoopNest -> machine code by LLVM: IR -> object -> shared object by LLD, in process.
//
// IR is emitted as the nest says, vectors and FMA included; of LLVM's passes only those run that
// make registers out of register buffers (SROA, CSE, LICM), then the code generator at O2. Strides
// are constants. Functions carry no-builtins, so the object has no undefined symbol on any ISA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct MachineCode {
  std::vector<uint8_t> shared_object;  // ELF, exports nest.name as a KernelFunction
};

// The nest must verify. Thread-safe; linking is serialised, since LLD is not.
Result<MachineCode> EmitMachineCode(const loops::LoopNest& nest, const Target& target);
// The IR as text, before or after LLVM's passes, headed by the nodes it stands for.
Result<std::string> EmitLlvmIr(const loops::LoopNest& nest, const Target& target, bool optimized);
// Everything that machine code depends on besides the nest and the target: LLVM's version and a
// number that grows when the emitted code changes.
std::string CodegenIdentity();
// Key of a kernel in the code cache.
std::string KernelKey(const loops::LoopNest& nest, const Target& target);

}  // namespace weft::codegen
