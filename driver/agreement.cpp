#include "driver/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/accuracy.h"
#include "driver/reference.h"

namespace weft::driver {
namespace {

constexpr double kAgreement = 1e-3;  // of an output's scale
constexpr double kRoundings = 4;  // what the rounding of kernels may weigh, in roundings of values

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

Status CheckAgreement(const graph::Graph& graph, std::span<const Tensor> inputs,
                      std::span<const Way> ways) {
  double most = AgreementOf(graph);
  const auto agrees = [&](const Way& way) {
    return CompareOutputs(way.outputs, ways[0].outputs, most).within;
  };
  if (std::ranges::all_of(ways, agrees)) return {};
  WEFT_TRY(const auto reference, RunReference(graph, inputs));
  const auto wrong = [&](const Way& way) {
    return !CompareOutputs(way.outputs, reference, most).within;
  };
  if (std::ranges::none_of(ways, wrong)) return {};
  WEFT_TRY(const auto rounded, RunReference(graph, inputs, Rounding::kEachValue));
  const Accuracy moved = CompareOutputs(rounded, reference, most);
  if (!moved.within) return {};  // outputs like these can't tell who is wrong
  most += kRoundings * moved.max_rel;
  for (const Way& way : ways)
    if (wrong(way))
      return Internal(fmt::format(
                          "the {} plan of this network leaves the reference by {:.1e} of the scale",
                          way.name, CompareOutputs(way.outputs, reference, kAgreement).max_rel))
          .At(graph.name)
          .Try("--budget 0 builds without measuring; weft compare --against reference shows more");
  return {};
}

}  // namespace weft::driver
