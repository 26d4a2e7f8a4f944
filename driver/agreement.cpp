#include "driver/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/accuracy.h"
#include "driver/reference.h"

namespace weft::driver {
namespace {

constexpr double kAgreement = 1e-3;  // of an output's scale
constexpr double kRoundings = 4;     // what rounding may do, in what it does to jittered references
constexpr uint64_t kMostJittered = 4;  // more would move no farther

}  // namespace

// What ways to group a network may differ by. Values of 16 bits are rounded where a group ends, so
// each is rounded in one of them and not in the other: by half a unit in its last place, this way
// or that, and so many of them add up as steps of a random walk do.
double AgreementOf(const graph::Graph& graph) {
  double squares = 0;
  for (const graph::Value& value : graph.values) {
    if (value.kind != graph::ValueKind::kComputed) continue;
    const double unit = value.dtype == Dtype::kBF16  ? 0x1p-8
                        : value.dtype == Dtype::kF16 ? 0x1p-11
                                                     : 0;
    squares += unit * unit;
  }
  return kAgreement + 2 * std::sqrt(squares);
}

Result<std::string> Referee::FaultOf(std::span<const Tensor> outputs) {
  if (moved_.empty()) {
    WEFT_TRY(reference_, RunReference(graph_, inputs_));
    moved_.resize(reference_.size());
  }
  std::string fault = FaultAsFarAsKnown(outputs);
  for (; !fault.empty() && jittered_ < kMostJittered; fault = FaultAsFarAsKnown(outputs))
    WEFT_TRY(Jitter());
  return fault;
}

std::string Referee::FaultAsFarAsKnown(std::span<const Tensor> outputs) const {
  const double most = AgreementOf(graph_);
  for (size_t k = 0; k < reference_.size(); ++k) {
    if (k >= outputs.size()) return fmt::format("by lack of output {}", k);
    const auto y = outputs.subspan(k, 1), reference = std::span(reference_).subspan(k, 1);
    const Moved& moved = moved_[k];
    const Accuracy off = CompareOutputs(y, reference, most + kRoundings * moved.by_rel);
    if (off.within || moved.unbounded) continue;
    if (y[0].shape() != reference[0].shape()) return fmt::format("by the shape of output {}", k);
    if (off.differing > 0) {
      if (off.differing <= kRoundings * moved.elements && off.max_abs <= kRoundings * moved.by)
        continue;
      return fmt::format("in {} of {} elements", off.differing, off.exact);
    }
    // Where the reference is zero there is no scale.
    if (moved.by > 0 && CompareOutputs(y, reference, {0, {}, kRoundings * moved.by}).within)
      continue;
    return fmt::format("by {:.1e} of the scale", off.max_rel);
  }
  return "";
}

Status Referee::Jitter() {
  WEFT_TRY(const auto jittered, RunReference(graph_, inputs_, Rounding::kJittered, jittered_++));
  for (size_t k = 0; k < reference_.size(); ++k) {
    const auto reference = std::span(reference_).subspan(k, 1);
    const Accuracy by = CompareOutputs(std::span(jittered).subspan(k, 1), reference, 0);
    Moved& moved = moved_[k];
    moved.by = std::max(moved.by, by.max_abs);
    moved.by_rel = std::max(moved.by_rel, by.max_rel);
    moved.elements = std::max(moved.elements, by.differing);
    moved.unbounded |= jittered[k].shape() != reference_[k].shape() || !std::isfinite(by.max_abs);
  }
  return {};
}

Status CheckAgreement(const graph::Graph& graph, std::span<const Tensor> inputs,
                      std::span<const Way> ways) {
  const auto agrees = [&](const Way& way) {
    return CompareOutputs(way.outputs, ways[0].outputs, AgreementOf(graph)).within;
  };
  if (std::ranges::all_of(ways, agrees)) return {};
  Referee referee(graph, inputs);
  for (const Way& way : ways) {
    WEFT_TRY(const std::string fault, referee.FaultOf(way.outputs));
    if (!fault.empty())
      return Internal(fmt::format("the {} plan of this network leaves the reference {}", way.name,
                                  fault))
          .At(graph.name)
          .Try("--budget 0 builds without measuring; weft compare --against reference shows more");
  }
  return {};
}

}  // namespace weft::driver
