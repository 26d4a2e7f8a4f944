// Operands that a kernel packs by itself.
//
// What is no constant can't be packed when the plan is built. A choice that packs it all the same
// asks for a copy in front of its first reader, `b_packed(i0, i1) = b(i0, i1)`, which is laid out
// as the pack says and read in the operand's place. From then on the copy is a statement like any
// other: it has a cluster, and its temporary is as small as the blocks it shares with its readers.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/verdict.h"
#include "polyhedral/schedule.h"

namespace weft::polyhedral {

// A request whose program has the copies.
struct CopiedRequest {
  std::unique_ptr<tc::Program> program;  // absent if there are none
  ScheduleRequest request;               // points at it
};

// Of the packs those of operands that are no constants. Refuses what is no input of known extents
// and whole bytes, and layouts of another rank.
Verdict<CopiedRequest> WithCopies(const ScheduleRequest& request, std::span<const Pack> packs);
// The same, of layouts that are still to be chosen.
CopiedRequest WithCopies(const ScheduleRequest& request, std::span<const std::string> operands);

// Whether WithCopies takes it.
bool IsCopyable(const ScheduleRequest& request, const std::string& operand);

}  // namespace weft::polyhedral
