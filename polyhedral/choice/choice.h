// Choice: the decisions of a schedule as data, so that they can be listed, stored, edited,
// replayed.
//
// A group is scheduled as a sequence of clusters. The statements of a cluster share an outer band
// of axes, tiled or not; below it they follow one another, each with its own inner loops. Axes are
// named after the indices of the cluster's anchor, its first contraction or else its last
// statement; an index of another statement belongs to the axis that data flow aligns it with.
//
// Text form (`.choices`), one group a line or wrapped at `|`:
//
//   conv1_relu1: cluster conv1 relu1 | order n h w k | tile w 6, k 16 | parallel n h | inner c r s
//   w k
//       | unroll w | vector k 8 | pack w1 badc | cluster pool1 | …
//
//   block     axes and sizes, outermost first: the team shares blocks of the cluster's instances
//   out.
//             A cluster that opens with `then` in place of `cluster` runs in the blocks of the one
//             before it, after it, so that what passes between them stays in a rank's caches; the
//             n-th block of one goes with the n-th of the other
//   order     axes of the shared outer band, outermost first; the rest is inner
//   tile      axis and size; an axis in `order` that is tiled appears there as its tile loop, and
//   its
//             points become inner. Several sizes for one axis: outermost first
//   parallel  a prefix of `order`, split over the team as one collapsed range
//   inner     order of the inner loops (of each statement, restricted to those it has); an axis
//   with
//             inner tile loops may stand several times: its loops in turn, the last all that remain
//   unroll    inner axes expanded; vector: the inner axis along lanes, and how many lanes
//   prefetch  packed constants whose next panel is fetched while this one is used
//   stream    outputs that are stored past the caches
//   pack      a constant or scratch copy of an operand in another layout; constants are packed
//   once,
//             when the plan is built
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/layout.h"
#include "base/status.h"

namespace weft::polyhedral {

struct Tile {
  std::string axis;
  std::vector<int64_t> sizes;  // outermost first
  bool operator==(const Tile&) const = default;
};

struct Pack {
  std::string tensor;
  Layout layout;
  bool operator==(const Pack&) const = default;
};

struct Cluster {
  std::vector<std::string>
      statements;  // by the name of their target, "softmax_max"; unique in the group
  bool then = false;
  std::vector<Tile> blocks;  // of one size each
  std::vector<std::string> order;
  std::vector<Tile> tiles;
  int32_t parallel = 0;  // the first so many of `order`
  std::vector<std::string> inner;
  std::vector<std::string> unroll;
  std::string vector_axis;  // empty: scalar code
  int64_t vector_lanes = 0;
  bool operator==(const Cluster&) const = default;
};

struct Choice {
  std::string group;
  std::vector<Cluster> clusters;
  std::vector<Pack> packs;
  std::vector<std::string> prefetches, streams;  // tensors
  bool operator==(const Choice&) const = default;
};

std::string Print(const Choice& choice);
Result<std::vector<Choice>> ParseChoices(std::string_view text, const std::string& file);

}  // namespace weft::polyhedral
