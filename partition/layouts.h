// Which layout each value of the network has.
#pragma once

#include <map>

#include "base/layout.h"
#include "graph/graph.h"

namespace weft::partition {

// Channels last (acb, acdb, acdeb) for images: values of rank 3 to 5 that convolutions and pooling
// read or write, and what elementwise operators connect with them. Lanes then run along channels,
// taps outside of the image fall away as whole vectors, and vendor kernels take the same layout, so
// that nothing is transposed between the two. Inputs and outputs of the network stay plain; so do
// values that a reshape reads as plain memory, rows that it makes, and operands of nodes that
// `wants_plain` names (by node; empty: none), which are no kernels, and of convolutions whose
// results have few channels, unless all that can be is done by a library, which has no better way
// with plain ones. Every kernel reads and writes each operand in its own layout, so a change of
// layout costs no pass over memory.
std::map<graph::ValueId, Layout> PlanLayouts(const graph::Graph& graph,
                                             const std::vector<bool>& wants_plain = {},
                                             bool by_library = false);

// That of a value, plain where none is planned.
Layout LayoutOf(const std::map<graph::ValueId, Layout>& layouts, const graph::Graph& graph,
                graph::ValueId value);

// True if the two layouts put the elements of this shape in the same places: axes of extent 1 and
// the order around them don't matter.
bool SamePlaces(const Layout& a, const Layout& b, const Shape& shape);

}  // namespace weft::partition
