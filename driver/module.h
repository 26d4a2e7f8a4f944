// Module: a network on its way through the pipeline, holding every noun made so far.
//
// Text form: the nouns' own forms, each in a section that begins with a line `=== kind …`. A file
// at form F holds what F and all later stages need, so it suffices alone: `weft opt --from F --to G
// FILE`.
//
//   === module tc for cpu:x86-64-v3 threads=2
//   === graph
//   graph digits (…) …
//   === tc conv1 direct (image, w1, b1) -> (conv1)
//   def conv1(…) …
//   === groups
//   …
//
// A line that begins with `=== ` can't occur inside a section: strings are escaped, and no form has
// it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/blob.h"
#include "base/status.h"
#include "base/target.h"
#include "fallback/call.h"
#include "graph/graph.h"
#include "partition/grouping.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "polyhedral/choice/choice.h"
#include "polyhedral/schedule.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {

// The text forms in the order in which data goes through them.
enum class Form : uint8_t { kGraph, kTc, kGroups, kChoices, kSched, kLoops, kCall, kPlan };
std::string_view FormName(Form form);
std::optional<Form> ParseForm(std::string_view name);

struct Module {
  Form form = Form::kGraph;  // the last noun that is there
  Target target;
  graph::Graph graph;  // simplified, shapes bound
  partition::NodeComprehensions comprehensions;
  partition::Grouping grouping;
  // By the name of the group, for own groups.
  std::map<std::string, polyhedral::Choice> choices;
  std::map<std::string, polyhedral::ScheduleTree> schedules;
  std::map<std::string, loops::LoopNest> nests;
  // By the name of the group, for vendor and native groups.
  std::map<std::string, fallback::LibraryCall> calls;
  plan::Plan plan;
};

// Constants go to `blobs`.
std::string Print(const Module& module, BlobStore& blobs);
Result<Module> ParseModule(std::string_view text, const std::string& file, const BlobStore& blobs);

}  // namespace weft::driver
