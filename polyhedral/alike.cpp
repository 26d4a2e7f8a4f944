#include "polyhedral/alike.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "polyhedral/copies.h"
#include "polyhedral/lower/emit.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

using Names = std::map<std::string, std::string>;  // of one program by those of another

void Rename(std::string& name, const Names& names) {
  if (const auto it = names.find(name); it != names.end()) name = it->second;
}

Names TensorNames(const tc::Program& from, const tc::Program& to) {
  Names names;
  for (size_t t = 0; t < from.tensors.size(); ++t)
    names.emplace(from.tensors[t].name, to.tensors[t].name);
  return names;
}

Names NamesOfStatements(const tc::Program& from, const tc::Program& to) {
  const std::vector<std::string> old = StatementNames(from), now = StatementNames(to);
  Names names;
  for (size_t s = 0; s < old.size(); ++s) names.emplace(old[s], now[s]);
  return names;
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

Verdict<Scheduled> InNamesOf(const ScheduleRequest& request, const ScheduleRequest& known,
                             const Scheduled& scheduled) {
  Scheduled result{.choice = scheduled.choice, .nest = scheduled.nest};
  Choice& choice = result.choice;
  choice.group = request.program->name;
  const Names operands = TensorNames(*known.program, *request.program);
  for (Pack& pack : choice.packs) Rename(pack.tensor, operands);
  for (std::string& tensor : choice.prefetches) Rename(tensor, operands);
  for (std::string& tensor : choice.streams) Rename(tensor, operands);
  // Packed operands that are no constants are tensors of their own, and statements.
  const auto before = WithCopies(known, scheduled.choice.packs);
  const auto after = WithCopies(request, choice.packs);
  if (!before.yes()) return before.refusal();
  if (!after.yes()) return after.refusal();
  const tc::Program& from = *before->request.program;
  const tc::Program& to = *after->request.program;
  const Names statements = NamesOfStatements(from, to);
  for (Cluster& cluster : choice.clusters)
    for (std::string& statement : cluster.statements) Rename(statement, statements);
  auto tree = BuildSchedule(request, choice);
  if (!tree.yes()) return tree.refusal();
  result.tree = std::move(*tree);
  result.nest.name = request.program->name;
  result.nest.origins = lower::Origins(to);
  RenameBuffers(result.nest, TensorNames(from, to));
  return result;
}

}  // namespace weft::polyhedral
