// One program run by every executable form that weft has: the comprehension's interpreter, the loop
// nest's interpreter and machine code. They must agree: the first with the others up to the order
// of sums and the rounding of fused multiply-adds, the last two bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "plan/kernel_abi.h"
#include "polyhedral/schedule.h"
#include "tc_lang/program.h"

namespace weft::oracle {

// The one def of a text, bound with these sizes.
Result<tc::Program> Compile(std::string_view text, const std::map<std::string, int64_t>& sizes = {},
                            const std::vector<std::string>& params = {});

struct Case {
  const tc::Program* program = nullptr;
  std::vector<Tensor> inputs;
  std::vector<int64_t> params;
  double tolerance = 1e-4;  // relative to the largest value of an output
  bool machine = true;      // machine code too, if this machine runs the target
  // Runs the nest on its operands in place of its interpreter.
  std::function<Status(std::span<void* const> operands, std::span<const int64_t> params,
                       KernelFault* fault)>
      run;
};

// Runs the nest by its interpreter (a team of 3) and as machine code, and compares all outputs.
Status Compare(const Case& c, const polyhedral::ScheduleRequest& request,
               const loops::LoopNest& nest);

// The one with the widest vectors that this machine runs, and the one with products of bfloat16,
// whose code is compiled and interpreted everywhere.
Target Widest();
Target Bf16();

// Builds, checks and lowers a choice, and compares it with the meaning of its program.
Status RunChoice(const tc::Program& program, const std::vector<Tensor>& inputs,
                 const polyhedral::Choice& choice, std::vector<std::string> constants = {},
                 bool machine = true);

// "legal", or the reason and words of the refusal.
std::string WhyIllegal(const tc::Program& program, std::string_view choice);

}  // namespace weft::oracle
