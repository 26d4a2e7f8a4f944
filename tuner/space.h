// The space of choices around a group's analytic proposals: what a search moves in.
//
// A move changes one decision of one cluster: a tile, the order of loops, what is parallel, what is
// written out, lanes, packs, prefetches, streams, blocks. It keeps what belongs together, lanes
// with their tile and panels with both, since a change of one alone is hardly ever faster. Whatever
// a move makes is held against the scheduler, so every choice that comes from here is legal.
// Nothing is known of names, operators or networks.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "polyhedral/choice/choice.h"
#include "polyhedral/schedule.h"

namespace weft::tuner {

// What the standard library makes of its numbers differs between implementations; these don't.
using Random = std::mt19937_64;

class Space {
 public:
  // The request must outlive it.
  explicit Space(const polyhedral::ScheduleRequest& request) : request_(request) {}

  // The analytic choices, best guess first, at most `count`.
  std::vector<polyhedral::Choice> Constructions(int count) const;
  // A neighbour by a random move; none if the move does not apply or is not legal.
  std::optional<polyhedral::Choice> Mutate(const polyhedral::Choice& choice, Random& random) const;
  // Of each cluster the loops of one parent and the tiles of either; none if they have other
  // clusters, or what comes out is not legal.
  std::optional<polyhedral::Choice> Cross(const polyhedral::Choice& a, const polyhedral::Choice& b,
                                          Random& random) const;

 private:
  bool IsLegal(const polyhedral::Choice& choice) const;

  const polyhedral::ScheduleRequest& request_;
};

}  // namespace weft::tuner
