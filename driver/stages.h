// The stages of the pipeline: each makes one noun of a Module from the ones before it.
#pragma once

#include <fmt/format.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "partition/candidate.h"

namespace weft::driver {

Status MakeComprehensions(Module& module, const BuildOptions& options);  // graph -> tc
Status MakeGroups(Module& module, const BuildOptions& options);          // tc -> groups
// Replaces estimates by measurements within options.budget_s; reads and adds records of
// options.tuning.
Status MeasureGroups(Module& module, const BuildOptions& options);
Status MakeChoices(Module& module, const BuildOptions& options);  // groups -> choices
// Whether what is forced is for own groups that there are: another would have no effect.
Status CheckForced(const Module& module, const BuildOptions& options);
Status MakeSchedules(Module& module, const BuildOptions& options);  // choices -> sched
Status MakeLoops(Module& module, const BuildOptions& options);      // sched -> loops
Status MakeCalls(Module& module, const BuildOptions& options);      // groups -> call
Status MakePlan(Module& module, const BuildOptions& options);       // everything -> plan
Status DumpIfAsked(const Module& module, const BuildOptions& options);

// What a module has for a group: a text may hold less than its form says, perhaps that of one
// group.
template <typename Noun>
Result<const Noun*> Held(const std::map<std::string, Noun>& nouns, const std::string& group,
                         Form form) {
  if (const auto it = nouns.find(group); it != nouns.end()) return &it->second;
  return Invalid(fmt::format("the text has no {} of it", FormName(form)))
      .At(fmt::format("group {}", group));
}

// Whether nodes get alternatives that make NaN of infinite inputs, as Winograd's of a convolution:
// not with `--allow none`, nor on CUDA, nor where the library does them all.
bool MayUseVariants(const BuildOptions& options);
// Adds the forms of constants that alternatives take, whose rounding is no matter of choice.
void PrepareForms(graph::Graph& graph, const BuildOptions& options);
// Makes of products of narrow numbers what the target multiplies: float32 of 16-bit floats, and the
// forms that it takes of constant bytes.
void PrepareNarrow(graph::Graph& graph, const BuildOptions& options);
// Why no kernel of our own computes a native group.
std::string WhyNative(const Module& module, const partition::Group& group);

// The comprehension of an own group, with what its schedule needs to know of its surroundings.
struct GroupProgram {
  tc::Extracted extracted;
  polyhedral::ScheduleRequest request;  // points at extracted.program
};
Status FillGroupProgram(const Module& module, const partition::GraphFacts& facts,
                        const partition::Group& group, GroupProgram& out);
// The same for one whose schedule is still to be proposed: with what the build allows a proposal.
Status FillGroupProgram(const Module& module, const partition::GraphFacts& facts,
                        const partition::Group& group, const BuildOptions& options,
                        GroupProgram& out);

}  // namespace weft::driver
