// Choice: the decisions of a schedule as data: to be listed, stored, edited and replayed.
//
// A group is scheduled as a sequence of clusters. The statements of a cluster share an outer band
// of axes, tiled or not; below it they follow one another, each with its own inner loops. Axes are
// named after the indices of the cluster's anchor, its first contraction or else its last
// statement; an index of another statement belongs to the axis that data flow aligns it with.
//
// Text form (`.choices`): the group's name, its clusters in order, each with sections, then what
// concerns the whole group. Wrapped wherever one likes.
//
//   conv1_relu1: cluster conv1 relu1 | order n h w k | tile w 6, k 16 | parallel n h
//       | inner c r s w k | unroll w | vector k 8 | cluster pool1 | order n k h | parallel n k
//       | pack w1 badc | prefetch w1
//
// Of a cluster:
//   cluster   its statements, by the names of their targets
//   then      in place of `cluster`: it runs in the blocks of the one before it, after it, the n-th
//             block of one with the n-th of the other, so that what passes between them stays in a
//             rank's caches
//   block     axes, outermost first, and how many iterations of each make a block. The team shares
//             the blocks out, so nothing else is parallel
//   order     axes of the shared outer band, outermost first; the rest is inner
//   tile      axes and sizes, of several sizes the outermost first. In `order` a tiled axis stands
//             for its tiles, and its points are inner. The outermost size divides the block
//   parallel  a prefix of `order`, split over the team as one collapsed range
//   inner     the inner loops of each statement, restricted to the axes it has. An axis with inner
//             tile loops may stand several times: its loops in turn, the last all that remain
//   share     axes of inner loops that the team shares out in each iteration of `order`, of each
//             statement the outermost, unless it sums along it; the others run on one rank, and
//             ranks wait where one needs what another made
//   turn      axes of inner loops: the outermost, or the one below it where the team shares that,
//             goes backwards in every other iteration of the loop around it, on a CPU: what was
//             read last is still near when the next begins
//   together  an axis of `order` whose points the statements behind the last sum go through as one
//             loop: what passes between them is a row of their tile, not all of it
//   unroll    inner axes that are expanded, but that loop
//   vector    the inner axis along lanes, and how many lanes
//   dot       a tiled reduced axis whose points each lane takes by itself, as instructions do that
//             sum up several products; with `flush` subnormal numbers are zeros, and of two the
//             second comes first, as in VDPBF16PS, of more even and odd ones are summed up apart,
//             as in TDPBF16PS
//
// Of the group:
//   pack      operands that are stored in another layout: constants once, when the plan is built;
//             any other by a statement b_packed of the group, which copies operand b
//   prefetch  operands whose next panel is fetched while this one is used, and tables whose rows
//             are, some lookups ahead
//   stream    outputs that are stored past the caches
//   map       on CUDA, how the group stands on a grid of blocks and threads, and with what sizes
//             (polyhedral/cuda/map.h): `map tiles 64 64 16 8 4`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/layout.h"
#include "base/status.h"

namespace weft::polyhedral {

inline constexpr int64_t kMostFlushed = 32;  // points of a dot product, steps of TDPBF16PS

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
  std::vector<std::string> shares;
  std::vector<std::string> turns;
  std::string together;  // empty: none
  std::vector<std::string> unroll;
  std::vector<Tile> lanes;  // axes of vectors, how many lanes each; a statement takes its first
  std::string dot_axis;     // its points lie inside the lanes; empty: none
  bool dot_flushes = false;

  // As it is listed, whichever statement takes it; 0: it is not.
  int64_t LanesOf(const std::string& axis) const {
    for (const Tile& t : lanes)
      if (t.axis == axis) return t.sizes[0];
    return 0;
  }
  bool operator==(const Cluster&) const = default;
};

struct GridMap {
  std::string mapping;         // empty: the mapper's choice
  std::vector<int64_t> sizes;  // what they are depends on the mapping
  bool operator==(const GridMap&) const = default;
};

struct Choice {
  std::string group;
  std::vector<Cluster> clusters;
  std::vector<Pack> packs;
  std::vector<std::string> prefetches, streams;  // tensors
  GridMap map;
  bool operator==(const Choice&) const = default;
};

std::string Print(const Choice& choice);
Result<std::vector<Choice>> ParseChoices(std::string_view text, const std::string& file);

}  // namespace weft::polyhedral
