#include "codegen/llvm/emit.h"

#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/hash.h"
#include "codegen/llvm/kernel.h"
#include "codegen/llvm/link.h"

namespace weft::codegen {
namespace {

constexpr int kEmittedCode = 37;  // grows when the code for some nest changes
constexpr std::string_view kTriple = "x86_64-unknown-linux-gnu";

// The backend's passes without loop strength reduction: Scope has put every part of an address at
// the loop that moves it, and to look for other ways takes longer than all other passes together.
class BackendPasses : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    if (pass->getPassName() == "Loop Strength Reduction")
      delete pass;
    else
      PassManager::add(pass);
  }
};

std::unique_ptr<llvm::TargetMachine> MakeMachine(Isa isa) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  const std::string triple(kTriple);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  WEFT_CHECK(target != nullptr, "{}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // FMA only where the nest says so
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, std::string(CpuName(isa)), std::string(CpuFeatures(isa)), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

// Registers out of register buffers, common parts once, and out of loops what does not change in
// them.
void RunPasses(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loop;
  llvm::FunctionAnalysisManager function;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager whole;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(whole);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(function);
  builder.registerLoopAnalyses(loop);
  builder.crossRegisterProxies(loop, function, cgscc, whole);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) passes.run(f, function);
  }
}

struct Compiled {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
};

Result<Compiled> Compile(const loops::LoopNest& nest, const Target& target, bool names,
                         bool optimized) {
  if (target.kind != TargetKind::kCpu) return Unsupported("machine code by LLVM is for CPUs");
  if (loops::Flushes(nest) && !HasBfloatProducts(target.isa)) {
    return Unsupported(fmt::format("nest {}: {} has no multiply-adds that flush", nest.name,
                                   weft::Print(target)))
        .Try("--target cpu:x86-64-v4-bf16");
  }
  const auto in_cluster = [](const loops::Stmt& s) { return s.loop == loops::LoopKind::kClusterX; };
  const auto of_cluster = [](const loops::Buffer& b) { return b.space == loops::Space::kCluster; };
  if (std::ranges::any_of(nest.stmts, in_cluster) || std::ranges::any_of(nest.buffers, of_cluster))
    return Unsupported(fmt::format("nest {}: clusters of blocks are for CUDA", nest.name));
  Compiled c;
  c.context = std::make_unique<llvm::LLVMContext>();
  c.context->setDiscardValueNames(!names);
  c.machine = MakeMachine(target.isa);
  c.module = BuildModule(nest, target, *c.context, *c.machine);
  std::string said;
  llvm::raw_string_ostream stream(said);
  if (llvm::verifyModule(*c.module, &stream)) {
    return Internal(fmt::format("nest {}: the IR is malformed: {}", nest.name, said));
  }
  if (optimized) RunPasses(*c.module, *c.machine);
  return c;
}

}  // namespace

Result<MachineCode> EmitMachineCode(const loops::LoopNest& nest, const Target& target) {
  WEFT_TRY(const Compiled c, Compile(nest, target, false, true));
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  BackendPasses passes;
  if (c.machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    return Internal("the target writes no object files");
  }
  passes.run(*c.module);
  WEFT_TRY(std::vector<uint8_t> shared, LinkShared({object.data(), object.size()}));
  return MachineCode{.shared_object = std::move(shared)};
}

Result<std::string> EmitLlvmIr(const loops::LoopNest& nest, const Target& target, bool optimized) {
  WEFT_TRY(const Compiled c, Compile(nest, target, true, optimized));
  std::string text = fmt::format("; {} for {}\n", nest.name, CpuName(target.isa));
  for (const std::string& origin : nest.origins) text += "; node " + origin + "\n";
  llvm::raw_string_ostream stream(text);
  c.module->print(stream, nullptr);
  return text;
}

std::string CodegenIdentity() {
  return fmt::format("llvm {} codegen {}", LLVM_VERSION_STRING, kEmittedCode);
}

std::string KernelKey(const loops::LoopNest& nest, const Target& target) {
  // Threads and caches don't show in the code.
  return Hasher()
      .Add(loops::Print(nest))
      .Add(CpuName(target.isa))
      .Add(CpuFeatures(target.isa))
      .Add(CodegenIdentity())
      .Finish()
      .Hex();
}

}  // namespace weft::codegen
