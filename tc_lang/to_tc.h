// Graph nodes as comprehensions. Each node has alternatives: variants of its mathematics (direct,
// Winograd) and expansions (a softmax in three statements), each one def.
//
// Translators live in tc_lang/ops/, one file a family; they write comprehension text and bind it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/verdict.h"
#include "graph/graph.h"
#include "tc_lang/program.h"

namespace weft::tc {

// When a convolution may be done by Winograd's algorithm: where its error against double precision
// is at most twice that of the direct form, or always.
enum class Winograd : uint8_t { kNever, kWithinBound, kAlways };

// A constant in another form, for an alternative that wants it.
struct Prepared {
  std::vector<graph::NodeId> nodes;   // that have this constant and would take the form
  std::string alternative;            // of theirs: "winograd"
  std::optional<double> error_ratio;  // of its results over the direct form's, if asked
  std::optional<Refusal> refusal;     // else it was added
};

// Adds such forms to the graph, as values that no node reads; ToTc finds them there. `judged`:
// those that are wanted are known to keep to the bound, so none is left out.
std::vector<Prepared> PrepareConstants(graph::Graph& graph, Winograd winograd, bool judged = false);

// Adds the sums of constant signed bytes that quantized products and convolutions take, over
// all that is reduced. Where they are there, ToTc gives the alternative "bytes". `any_sign`: for
// instructions that multiply bytes of any sign; else the other factor is made unsigned.
void PrepareSums(graph::Graph& graph, bool any_sign = false);

// Adds constant filters of bytes with few channels as rows of taps and channels, for instructions
// that add up so many `steps` of a sum at once. Where they are there, ToTc takes them.
void PrepareFilterRows(graph::Graph& graph, int64_t steps);

// Adds constant filters of bytes less their constant zero points, in 16 bits. Where they are there,
// ToTc takes them; otherwise each run makes them.
void PrepareCentredFilters(graph::Graph& graph);

// Adds constant filters of bytes with three taps along an axis as tiles of integers take them.
// Where they are there, ToTc gives the alternative "winograd", which is exact: a convolution of
// such filters by F(2x2, 3x3) has 16 products for 36, of 16 bits.
void PrepareIntegerTiles(graph::Graph& graph);

// Adds the tables of cosines and sines of Fourier transforms. Where they are there, ToTc takes
// them; otherwise each run makes them.
void PrepareTables(graph::Graph& graph);

// Adds the weights of products with dequantized ones as float32, where products have more than a
// few rows. Where they are there, ToTc gives the alternative "folded".
void PrepareDequantized(graph::Graph& graph);

// Adds the weights of products with few rows in 28 bits each, if they all take at least so many
// bytes: more than a cache holds. Where they are there, ToTc gives the alternative "compressed".
void PrepareCompressed(graph::Graph& graph, int64_t least_bytes);

struct Alternative {
  std::string name;  // "direct"; unique within the node
  Program program;
  // What the program's inputs and outputs are, in its order. Operands that the translator folded
  // into literals (scales, axes, bounds) do not appear.
  std::vector<graph::ValueId> inputs, outputs;
};

// Refuses with kNoComprehension when no mathematics is known here, with kOpaqueAccess when the node
// depends on data in a way that the language can't say, with kOpenExtents when shapes are missing:
// those of all operands must be known, but symbolic outermost extents become params.
Verdict<std::vector<Alternative>> ToTc(const graph::Graph& graph, graph::NodeId node);

// The one def of a group: alternatives inlined in order, values between them temporaries, except
// those in `kept`, which are outputs too. Inputs and outputs are in order of first use and of
// definition.
struct Extracted {
  Program program;
  std::vector<size_t> part_of;  // by statement: which of the parts it comes from
  std::vector<graph::ValueId> inputs, outputs;
};
Result<Extracted> Extract(const graph::Graph& graph, std::span<const Alternative* const> parts,
                          std::span<const graph::ValueId> kept, std::string name);

}  // namespace weft::tc
