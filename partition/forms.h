// Which groups are alike: a network repeats its layers, and what holds for one holds for all.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/layout.h"
#include "graph/graph.h"
#include "partition/candidate.h"
#include "partition/partition.h"

namespace weft::partition {

// Groups of one form have the same program but for names, with operands of the same layouts: they
// are legal alike and cost the same.
using Form = std::vector<int32_t>;

class Forms {
 public:
  // Of nodes by these alternatives (by node). Of those that have none a form says only how they are
  // wired.
  Forms(const GraphFacts& facts, const NodeComprehensions& nodes,
        const std::map<graph::ValueId, Layout>& layouts, const std::vector<size_t>& alternatives);

  // Of the group of these nodes, which are in an order that respects data flow. (Another order may
  // give another form.)
  Form Of(std::span<const graph::NodeId> group) const;

 private:
  const tc::Alternative& AlternativeOf(graph::NodeId node) const;

  const GraphFacts& facts_;
  const NodeComprehensions& nodes_;
  const std::vector<size_t>& alternatives_;
  std::vector<int32_t> programs_;  // by node: equal for equal comprehensions
  std::vector<int32_t> operands_;  // by value: equal for equal layouts, and for constants
};

}  // namespace weft::partition
