#include "driver/stages.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ranges>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "driver/inputs.h"
#include "executor/cuda/device.h"
#include "fallback/device.h"
#include "fallback/execute.h"
#include "graph/edit.h"
#include "graph/widen.h"
#include "partition/candidate.h"
#include "partition/layouts.h"
#include "partition/singles.h"
#include "polyhedral/alike.h"
#include "polyhedral/cuda/map.h"
#include "tuner/best.h"

namespace weft::driver {

using graph::NodeId;
using graph::ValueId;
using partition::GraphFacts;
using partition::Group;
using partition::Implementation;

bool MayUseVariants(const BuildOptions& options) {
  return options.target.kind == TargetKind::kCpu && options.winograd != tc::Winograd::kNever &&
         options.partition.force != partition::PartitionOptions::Force::kVendor &&
         options.partition.force != partition::PartitionOptions::Force::kCalls;
}

// A statement for each of hundreds of parts, as of a tensor that is split, makes a kernel that
// takes minutes to compile; without one, nothing but a native step is left.
void DropLongOnes(const std::string& op, Verdict<std::vector<tc::Alternative>>& alternatives) {
  if (!alternatives.yes() || !fallback::HasNative(op)) return;
  size_t least = SIZE_MAX;
  for (const tc::Alternative& a : *alternatives)
    least = std::min(least, a.program.statements.size());
  std::erase_if(*alternatives, [](const tc::Alternative& a) {
    return a.program.statements.size() > polyhedral::kMostStatements;
  });
  if (alternatives->empty())
    alternatives = Refusal{Reason::kTooManyStatements,
                           fmt::format("{} > {}", least, polyhedral::kMostStatements)};
}

void PrepareForms(graph::Graph& graph, const BuildOptions& options) {
  tc::PrepareDequantized(graph);
  tc::PrepareTables(graph);
  // Unpacking takes a dozen instructions for a register of weights: without registers of 16 lanes
  // that is longer than weights take to come.
  if (MayUseVariants(options) && options.partition.variants && options.target.HasAvx512())
    tc::PrepareCompressed(graph, options.target.l3_bytes);
}

void PrepareNarrow(graph::Graph& graph, const BuildOptions& options) {
  using Force = partition::PartitionOptions::Force;
  const Target& target = options.target;
  if (target.kind == TargetKind::kCpu) {
    graph::WidenProducts(graph, Dtype::kF16);
    if (!HasBfloatProducts(target.isa)) graph::WidenProducts(graph, Dtype::kBF16);
  }
  const bool quads = HasDotProducts(target.isa);
  if (quads) tc::PrepareSums(graph, HasMatrixProducts(target.isa));
  tc::PrepareCentredFilters(graph);
  if (target.kind != TargetKind::kCpu) return;
  tc::PrepareFilterRows(graph, quads ? 4 : 2);
  // Products of 16 bits, which are no faster than half of those of bytes.
  const Force force = options.partition.force;
  if (!quads && force != Force::kVendor && force != Force::kCalls) tc::PrepareIntegerTiles(graph);
}

Status MakeComprehensions(Module& module, const BuildOptions& options) {
  auto& c = module.comprehensions;
  PrepareNarrow(module.graph, options);
  if (MayUseVariants(options)) {
    for (const tc::Prepared& p : tc::PrepareConstants(module.graph, options.winograd)) {
      if (p.error_ratio)
        WEFT_LOG(kInfo, "driver", "{}: {} has {:.2f} times the error{}",
                 graph::NodeName(module.graph, p.nodes[0]), p.alternative, *p.error_ratio,
                 p.refusal ? ", too much" : "");
      for (const NodeId n : p.nodes)
        if (p.refusal) c.left_out[n].emplace(p.alternative, *p.refusal);
    }
  }
  PrepareForms(module.graph, options);
  c.of.assign(module.graph.nodes.size(), {});
  c.refusals.assign(module.graph.nodes.size(), std::nullopt);
  const fallback::Uses uses(module.graph);
  const bool brief = options.brief && !options.partition.strict &&
                     options.partition.force == partition::PartitionOptions::Force::kCalls;
  for (size_t i = 0; i < module.graph.nodes.size(); ++i) {
    if (brief &&
        partition::HasCall(module.graph, uses, NodeId(i), module.target, options.partition)) {
      c.refusals[i] = Refusal{Reason::kForced, ""};
      continue;
    }
    auto alternatives = tc::ToTc(module.graph, NodeId(i));
    DropLongOnes(std::string(graph::OpName(module.graph[NodeId(i)].op)), alternatives);
    if (alternatives.yes())
      c.of[i] = std::move(*alternatives);
    else
      c.refusals[i] = alternatives.refusal();
  }
  return {};
}

namespace {

// A tree from a text may have been edited: it is checked like one of our own.
Status CheckTree(const polyhedral::ScheduleRequest& request, const polyhedral::ScheduleTree& tree,
                 const std::string& group) {
  const auto legal = polyhedral::CheckLegal(request, tree);
  if (!legal.yes()) return ToStatus(legal.refusal(), Code::kInvalid).At("group " + group);
  return {};
}

// Whether a loop's data decides when it ends: on data that was generated it may never.
bool MayNotEnd(const graph::Graph& graph) {
  constexpr double kMostTrips = 1 << 20;  // exporters write a large count for "as long as it goes"
  return std::ranges::any_of(graph.nodes, [&](const graph::Node& node) {
    for (const auto& inner : graph::Subgraphs(node))
      if (MayNotEnd(*inner)) return true;
    if (node.op != graph::Op::kLoop && node.op != graph::Op::kRepeat) return false;
    const ValueId trips = graph::InputAt(node, 0);
    return !trips.valid() || graph[trips].kind != graph::ValueKind::kConstant ||
           graph[trips].constant.elems() != 1 ||
           ElemAsDouble(graph[trips].constant, 0) > kMostTrips;
  });
}

// One that was asked for by name, or is too long for a kernel, is a comprehension all the same.
bool HasComprehension(const Module& module, NodeId node) {
  const auto& refusal = module.comprehensions.refusals[node.index];
  return !module.comprehensions.of[node.index].empty() ||
         (refusal && refusal->reason == Reason::kTooManyStatements);
}

// --strict has no native step where a comprehension exists. On CUDA it has none at all: a step that
// is no kernel runs on the host, between two copies.
Status RefuseNativeSteps(const Module& module) {
  const bool is_cuda = module.target.kind == TargetKind::kCuda;
  std::vector<std::string> found;
  for (const Group& group : module.grouping.groups) {
    const NodeId node = group.members[0].node;
    if (group.implementation != Implementation::kNative) continue;
    if (!is_cuda && !HasComprehension(module, node)) continue;
    found.push_back(fmt::format("{}: {}", graph::Describe(module.graph, node),
                                module.comprehensions.of[node.index].empty()
                                    ? WhyNative(module, group)
                                    : "it has a comprehension"));
  }
  if (found.empty()) return {};
  return Unsupported(fmt::format("{} node(s) would run {}: {}", found.size(),
                                 is_cuda ? "on the host" : "as native steps",
                                 fmt::join(found, "; ")))
      .Try("build without --strict");
}

// What runs kernels for the target, or why there is nothing here that does.
Status FindHere(const Target& target) {
  if (target.kind == TargetKind::kCuda) return executor::cuda::FindDevice(target.isa).status();
  if (HostRuns(target.isa)) return {};
  return Missing(fmt::format("this processor does not run {}", Print(target)));
}

// Data that was generated may be none that the network takes: indices that it computes, say, may
// leave their table. Its estimates stay, then; real data may do.
Status MeasureOrEstimate(Module& module, const BuildOptions& options) {
  Status status = MeasureGroups(module, options);
  if (status.code() != Code::kInvalid && status.code() != Code::kUsage) return status;
  WEFT_LOG(kWarning, "driver", "{}: not measured but estimated: {}", module.graph.name,
           status.ToString());
  return {};
}

}  // namespace

std::string WhyNative(const Module& module, const Group& group) {
  return partition::WhyNoComprehension(module.comprehensions, group.members[0].node);
}

Status MakeGroups(Module& module, const BuildOptions& options) {
  partition::PartitionOptions how = options.partition;
  const bool is_cuda = options.target.kind == TargetKind::kCuda;
  using Force = partition::PartitionOptions::Force;
  if (how.force == Force::kVendor && fallback::LibraryVersions(options.target.kind).empty())
    return Missing(fmt::format("{} can be loaded, found force vendor",
                               is_cuda ? "neither cuDNN nor cuBLASLt" : "no oneDNN"))
        .Try(is_cuda ? "install them, set CUDA_HOME to a toolkit that has them, or build with "
                       "--force own"
                     : "build with --force own");
  if (is_cuda && how.force == Force::kOwn) how.vendor = false;  // in layouts of its own
  partition::RooflinePricer pricer(options.target);
  WEFT_TRY(module.grouping,
           partition::Partition(module.graph, module.comprehensions, options.target, pricer, how));
  if (how.strict) WEFT_TRY(RefuseNativeSteps(module));
  // There is nothing to choose between where calls are forced, nor on a device without its library.
  const bool chooses = !is_cuda || (how.vendor && how.force != Force::kOwn);
  if (options.budget_s > 0 && chooses && how.fuse && how.force != Force::kCalls) {
    const Status here = FindHere(options.target);
    if (MayNotEnd(module.graph))
      WEFT_LOG(kWarning, "driver",
               "{}: not measured but estimated: on data that is generated a loop may never end",
               module.graph.name);
    else if (const ValueId open = OpenInput(module.graph); open.valid())
      WEFT_LOG(kInfo, "driver", "{}: not measured, the extents of input \"{}\" are not known",
               module.graph.name, module.graph[open].name);
    else if (!here.ok())
      WEFT_LOG(kWarning, "driver", "{}: not measured but estimated: {}", module.graph.name,
               here.what());
    else
      WEFT_TRY(MeasureOrEstimate(module, options));
  }
  WEFT_TRY(partition::Verify(module.grouping, module.graph));
  return partition::VerifyImplementations(module.grouping, GraphFacts(module.graph),
                                          module.comprehensions);
}

Status FillGroupProgram(const Module& module, const GraphFacts& facts, const Group& group,
                        GroupProgram& out) {
  WEFT_TRY(out.extracted,
           partition::ExtractMembers(facts, module.comprehensions, group.members, group.name));
  out.request =
      partition::RequestFor(out.extracted, module.graph, module.grouping.layouts, module.target);
  return {};
}

Status FillGroupProgram(const Module& module, const GraphFacts& facts, const Group& group,
                        const BuildOptions& options, GroupProgram& out) {
  WEFT_TRY(FillGroupProgram(module, facts, group, out));
  out.request.flushes = options.partition.flushes;
  out.request.streams = options.streams;
  return {};
}

namespace {

void LogRefusals(const Group& group, const std::vector<Refusal>& refusals) {
  for (const Refusal& r : refusals)
    WEFT_LOG(kInfo, "driver", "{}: {} {}", group.name, ReasonName(r.reason), r.detail);
}

// The widest of the choices made for a grid, or the forced one, which later stages check and map.
Status ChooseForCuda(Module& module, const Group& group, const GroupProgram& p,
                     const polyhedral::Choice* forced) {
  if (forced) {
    module.choices[group.name] = *forced;
    return {};
  }
  WEFT_TRY(auto scheduled, polyhedral::MapToCuda(p.request));
  LogRefusals(group, scheduled.refusals);
  WEFT_LOG(kInfo, "driver", "{}: mapped as {}, {} at once", group.name,
           polyhedral::CudaMappingName(scheduled.mapped.mapping), scheduled.mapped.width);
  module.choices[group.name] = std::move(scheduled.choice);
  module.schedules[group.name] = std::move(scheduled.tree);
  module.nests[group.name] = std::move(scheduled.mapped.nest);
  return {};
}

}  // namespace

namespace {

// The whole schedule is tried here, so that the choice on record is one that is legal and lowers.
class Scheduler {
 public:
  explicit Scheduler(TuningDb* tuning) : tuning_(tuning) {}

  // Of groups that are alike the first decides for all, unless the choice is forced. What tuning
  // found is taken before anything is proposed.
  Result<polyhedral::Scheduled> Run(const Group& group, std::unique_ptr<GroupProgram> program,
                                    const polyhedral::Choice* forced) {
    if (forced) return polyhedral::Schedule(program->request, forced);
    const std::string key = fmt::format("{} {}", group.kind, polyhedral::KeyOf(program->request));
    if (const auto it = known_.find(key); it != known_.end()) {
      const Known& known = it->second;
      auto like = polyhedral::InNamesOf(program->request, known.program->request, known.scheduled);
      if (like.yes()) return *std::move(like);
    }
    WEFT_TRY(auto scheduled, Choose(group, program->request));
    LogRefusals(group, scheduled.refusals);
    WEFT_LOG(kDebug, "driver", "{}: isl {:.1f} ms", group.name, scheduled.isl_ms);
    known_.insert_or_assign(key, Known{std::move(program), scheduled});
    return scheduled;
  }

 private:
  struct Known {
    std::unique_ptr<GroupProgram> program;
    polyhedral::Scheduled scheduled;
  };

  Result<polyhedral::Scheduled> Choose(const Group& group,
                                       const polyhedral::ScheduleRequest& request) const {
    if (const auto best = tuning_ ? tuner::FindBest(request, *tuning_) : std::nullopt) {
      auto scheduled = polyhedral::Schedule(request, &*best);
      if (scheduled.ok()) return scheduled;
      WEFT_LOG(kWarning, "driver", "a choice on record is not used: {}",
               scheduled.status().ToString());
    }
    std::vector<polyhedral::Choice> others;
    if (group.kind > 0) others = polyhedral::ProposeKind(request, group.kind);
    for (const polyhedral::Choice& other : others) {
      auto scheduled = polyhedral::Schedule(request, &other);
      if (scheduled.ok()) return scheduled;
    }
    return polyhedral::Schedule(request);
  }

  TuningDb* tuning_;                    // may be null
  std::map<std::string, Known> known_;  // by kind and KeyOf its request
};

}  // namespace

Status CheckForced(const Module& module, const BuildOptions& options) {
  std::set<std::string> own;
  for (const Group& group : module.grouping.groups)
    if (group.implementation == Implementation::kOwn) own.insert(group.name);
  for (const auto& [name, choice] : options.forced_choices)
    if (!own.contains(name))
      return Usage(fmt::format("a choice is for '{}', found the own groups {}", Printable(name),
                               own.empty() ? "none" : fmt::format("{}", fmt::join(own, ", "))));
  return {};
}

Status MakeChoices(Module& module, const BuildOptions& options) {
  WEFT_TRY(CheckForced(module, options));
  const GraphFacts facts(module.graph);
  Scheduler scheduler(options.tuning);
  for (const Group& group : module.grouping.groups) {
    if (group.implementation != Implementation::kOwn) continue;
    WEFT_TRY(CheckAbandoned(options));
    auto p = std::make_unique<GroupProgram>();
    WEFT_TRY(FillGroupProgram(module, facts, group, options, *p));
    const auto it = options.forced_choices.find(group.name);
    const polyhedral::Choice* forced = it == options.forced_choices.end() ? nullptr : &it->second;
    if (module.target.kind == TargetKind::kCuda) {
      WEFT_TRY(ChooseForCuda(module, group, *p, forced));
      continue;
    }
    WEFT_TRY(auto scheduled, scheduler.Run(group, std::move(p), forced));
    module.choices[group.name] = std::move(scheduled.choice);
    module.schedules[group.name] = std::move(scheduled.tree);
    module.nests[group.name] = std::move(scheduled.nest);
  }
  return {};
}

// When the choices come from this run their trees are there already; from a text they are made
// here.
Status MakeSchedules(Module& module, const BuildOptions&) {
  const GraphFacts facts(module.graph);
  for (const Group& group : module.grouping.groups) {
    if (group.implementation != Implementation::kOwn || module.schedules.contains(group.name))
      continue;
    GroupProgram p;
    WEFT_TRY(FillGroupProgram(module, facts, group, p));
    WEFT_TRY(const auto* choice, Held(module.choices, group.name, Form::kChoices));
    auto tree = polyhedral::BuildSchedule(p.request, *choice);
    if (!tree.yes()) return ToStatus(tree.refusal(), Code::kInvalid).At("group " + group.name);
    WEFT_TRY(CheckTree(p.request, *tree, group.name));
    module.schedules[group.name] = std::move(*tree);
  }
  return {};
}

Status MakeLoops(Module& module, const BuildOptions& options) {
  const GraphFacts facts(module.graph);
  for (const Group& group : module.grouping.groups) {
    if (group.implementation != Implementation::kOwn || module.nests.contains(group.name)) continue;
    WEFT_TRY(CheckAbandoned(options));
    GroupProgram p;
    WEFT_TRY(FillGroupProgram(module, facts, group, p));
    WEFT_TRY(const auto* choice, Held(module.choices, group.name, Form::kChoices));
    WEFT_TRY(const auto* tree, Held(module.schedules, group.name, Form::kSched));
    WEFT_TRY(CheckTree(p.request, *tree, group.name));
    WEFT_TRY(loops::LoopNest nest, polyhedral::Lower(p.request, *choice, *tree));
    if (module.target.kind == TargetKind::kCuda) {
      WEFT_TRY(auto mapped, polyhedral::MapNest(nest, module.target, choice->map));
      nest = std::move(mapped.nest);
    }
    module.nests[group.name] = std::move(nest);
  }
  return {};
}

namespace {

// From what its grouping says it is, "onednn.convolution".
Result<fallback::Library> LibraryOf(const Group& group, TargetKind kind) {
  if (group.implementation == Implementation::kNative) return fallback::Library::kNative;
  const std::string name = group.library_call.substr(0, group.library_call.find('.'));
  const auto library = fallback::ParseLibrary(name);
  if (library && std::ranges::count(fallback::LibrariesFor(kind), *library) > 0) return *library;
  return Invalid(fmt::format(
      "found \"{}\", expected a call of {}", Printable(group.library_call),
      fmt::join(std::views::transform(fallback::LibrariesFor(kind), fallback::LibraryName),
                " or ")));
}

Result<fallback::LibraryCall> CallOf(const Module& module, const Group& group,
                                     const fallback::Uses& uses, const fallback::Abilities& can) {
  const auto layout = [&](ValueId v) {
    return partition::LayoutOf(module.grouping.layouts, module.graph, v);
  };
  std::vector<NodeId> nodes;
  for (const partition::Member& m : group.members) nodes.push_back(m.node);
  WEFT_TRY(const fallback::Library library, LibraryOf(group, module.target.kind));
  auto call = fallback::Match(module.graph, uses, nodes, library, layout, can);
  // A text that asks for what there is not is wrong; of our own making it is something missing.
  if (!call.yes())
    return ToStatus(call.refusal(), group.where.empty() ? Code::kUnsupported : Code::kInvalid);
  const std::string name = fmt::format("{}.{}", fallback::LibraryName(library), call->op);
  if (group.implementation == Implementation::kVendor && group.library_call != name)
    return Invalid(fmt::format("found \"{}\", expected {}", Printable(group.library_call), name));
  if (fallback::IsOnDevice(library))
    WEFT_TRY(fallback::CheckWithoutDevice(*call, module.target.isa));
  return *std::move(call);
}

}  // namespace

Status MakeCalls(Module& module, const BuildOptions& options) {
  const fallback::Abilities can = partition::AbilitiesFor(module.target, options.partition);
  const fallback::Uses uses(module.graph);
  for (const Group& group : module.grouping.groups) {
    if (group.implementation != Implementation::kVendor &&
        group.implementation != Implementation::kNative)
      continue;
    auto call = CallOf(module, group, uses, can);
    if (!call.ok())
      return std::move(call.status()).At(PlaceOf(group, module.graph, group.members[0].node));
    module.calls[group.name] = *std::move(call);
  }
  return {};
}

Status DumpIfAsked(const Module& module, const BuildOptions& options) {
  if (options.dump_dir.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(options.dump_dir, error);
  if (error) return Invalid(error.message()).At(options.dump_dir);
  BlobStore blobs;
  const std::string text = Print(module, blobs);
  const std::string path = fmt::format("{}/{}.{}", options.dump_dir, static_cast<int>(module.form),
                                       FormName(module.form));
  WEFT_TRY(blobs.Save(options.dump_dir + "/blobs"));
  return WriteFileAtomically(path, text);
}

}  // namespace weft::driver
