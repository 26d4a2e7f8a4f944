#include "polyhedral/alike.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "polyhedral/axes.h"
#include "polyhedral/lower/emit.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

using Names = std::map<std::string, std::string>;  // of one program by those of another

const std::string& Renamed(const std::string& name, const Names& names) {
  const auto it = names.find(name);
  return it == names.end() ? name : it->second;
}

void Rename(std::string& name, const Names& names) { name = Renamed(name, names); }

Names TensorNames(const tc::Program& from, const tc::Program& to) {
  Names names;
  for (size_t t = 0; t < from.tensors.size(); ++t)
    names.emplace(from.tensors[t].name, to.tensors[t].name);
  return names;
}

// Axes bear the names of indices, so those of the same statements correspond by their places.
void RenameAxes(Cluster& cluster, const tc::Program& from, const tc::Program& to,
                const std::vector<int32_t>& statements) {
  const auto old = ClusterAxes(from, statements), now = ClusterAxes(to, statements);
  Names names;
  for (size_t k = 0; k < old.size(); ++k)
    for (size_t i = 0; i < old[k].size(); ++i) names.emplace(old[k][i], now[k][i]);
  for (auto* const axes :
       {&cluster.order, &cluster.inner, &cluster.shares, &cluster.turns, &cluster.unroll})
    for (std::string& axis : *axes) Rename(axis, names);
  for (auto* const tiles : {&cluster.blocks, &cluster.tiles, &cluster.lanes})
    for (Tile& tile : *tiles) Rename(tile.axis, names);
  Rename(cluster.together, names);
  Rename(cluster.dot_axis, names);
}

// Buffers bear the names of tensors; what is made besides is named after one of them.
void RenameBuffers(loops::LoopNest& nest, const Names& names) {
  std::vector<loops::Buffer> buffers;
  std::swap(buffers, nest.buffers);
  for (loops::Buffer& buffer : buffers) {
    std::string stem = buffer.name;
    while (!stem.empty() && !names.contains(stem))
      stem.resize(std::min(stem.rfind('_'), stem.size()));
    if (!stem.empty()) buffer.name.replace(0, stem.size(), names.at(stem));
    AddBuffer(nest, std::move(buffer));
  }
}

}  // namespace

std::string KeyOf(const ScheduleRequest& request) {
  tc::Program program = *request.program;
  program.name = "f";
  for (tc::Statement& s : program.statements) s.origin.clear();
  std::string operands;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    std::string& name = program.tensors[t].name;
    if (const auto it = request.layouts.find(name); it != request.layouts.end())
      operands += fmt::format("{} {}\n", t, Print(it->second));
    if (std::ranges::count(request.constants, name)) operands += fmt::format("{} constant\n", t);
    if (const auto it = request.copies.find(name); it != request.copies.end()) {
      const auto of =
          std::ranges::find(request.program->tensors, it->second, &tc::TensorDecl::name);
      operands += fmt::format("{} copy {}\n", t, of - request.program->tensors.begin());
    }
    name = fmt::format("tensor{}", t);
  }
  return fmt::format("{}{}{} flushes {} streams {}", tc::Print(program), operands,
                     Print(request.target), request.flushes, request.streams);
}

CopiedRequest Nameless(const ScheduleRequest& request) {
  CopiedRequest nameless{.program = std::make_unique<tc::Program>(tc::Canonical(*request.program)),
                         .request = request};
  const tc::Program& program = *nameless.program;
  // A tag says more than accesses show: proposals go by it.
  for (size_t s = 0; s < program.statements.size(); ++s)
    nameless.program->statements[s].tag = request.program->statements[s].tag;
  nameless.request.program = &program;
  nameless.request.layouts.clear();
  nameless.request.copies.clear();
  const Names names = TensorNames(*request.program, program);
  for (std::string& constant : nameless.request.constants) Rename(constant, names);
  for (const auto& [tensor, layout] : request.layouts)
    nameless.request.layouts.emplace(Renamed(tensor, names), layout);
  for (const auto& [copy, operand] : request.copies)
    nameless.request.copies.emplace(Renamed(copy, names), Renamed(operand, names));
  return nameless;
}

Verdict<Choice> InNamesOf(const ScheduleRequest& request, const ScheduleRequest& known,
                          const Choice& choice) {
  Choice renamed = choice;
  renamed.group = request.program->name;
  const Names operands = TensorNames(*known.program, *request.program);
  for (Pack& pack : renamed.packs) Rename(pack.tensor, operands);
  for (std::string& tensor : renamed.prefetches) Rename(tensor, operands);
  for (std::string& tensor : renamed.streams) Rename(tensor, operands);
  // Packed operands that are no constants are tensors of their own, and statements.
  const auto before = WithCopies(known, choice.packs);
  const auto after = WithCopies(request, renamed.packs);
  if (!before.yes()) return before.refusal();
  if (!after.yes()) return after.refusal();
  const tc::Program &from = *before->request.program, &to = *after->request.program;
  const std::vector<std::string> old = StatementNames(from), now = StatementNames(to);
  for (Cluster& cluster : renamed.clusters) {
    std::vector<int32_t> statements;
    for (std::string& name : cluster.statements) {
      const auto found = std::ranges::find(old, name);
      if (found == old.end())
        return Refusal{Reason::kChoiceDoesNotFit, fmt::format("no statement is called {}", name)};
      statements.push_back(static_cast<int32_t>(found - old.begin()));
      name = now[found - old.begin()];
    }
    if (statements.empty())
      return Refusal{Reason::kChoiceDoesNotFit, "a cluster without statements"};
    RenameAxes(cluster, from, to, statements);
  }
  return renamed;
}

Verdict<Scheduled> InNamesOf(const ScheduleRequest& request, const ScheduleRequest& known,
                             const Scheduled& scheduled) {
  auto choice = InNamesOf(request, known, scheduled.choice);
  if (!choice.yes()) return choice.refusal();
  auto tree = BuildSchedule(request, *choice);
  if (!tree.yes()) return tree.refusal();
  const auto before = WithCopies(known, scheduled.choice.packs);
  const auto after = WithCopies(request, choice->packs);
  if (!before.yes()) return before.refusal();
  if (!after.yes()) return after.refusal();
  const tc::Program &from = *before->request.program, &to = *after->request.program;
  Scheduled result{.choice = *std::move(choice), .tree = std::move(*tree), .nest = scheduled.nest};
  result.nest.name = request.program->name;
  result.nest.origins = lower::Origins(to);
  RenameBuffers(result.nest, TensorNames(from, to));
  return result;
}

}  // namespace weft::polyhedral
