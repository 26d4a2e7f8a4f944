#include "partition/merge_order.h"

#include <algorithm>

namespace weft::partition {

// What can be reached from some sets, with the flow of data or against it, as far as it can matter
// to them: by their positions.
class MergeOrder::Search {
 public:
  enum class Way : uint8_t { kForward, kBackward };

  // Searches of the same `sets` are made in pairs, one each way, after Mark().
  Search(MergeOrder& order, std::span<const int32_t> sets, Way way) : order_(order), way_(way) {
    const auto position = [&](int32_t set) { return order.position_[set]; };
    const auto [least, most] = std::ranges::minmax(sets, {}, position);
    least_ = position(least);
    most_ = position(most);
    for (const int32_t set : sets) Visit(set);
  }

  static void Mark(MergeOrder& order, std::span<const int32_t> sets) {
    order.stamp_ += 3;
    for (const int32_t set : sets) order.marks_[set] = order.stamp_;
  }

  bool found() const { return found_; }  // a way back to the sets
  bool done() const { return next_ == reached_.size(); }
  void Step() { Visit(reached_[next_++]); }

  // In topological order, when done.
  std::vector<int32_t> Reached() && {
    std::ranges::sort(reached_, {}, [&](int32_t set) { return order_.position_[set]; });
    return std::move(reached_);
  }

 private:
  void Visit(int32_t set) {
    const bool forward = way_ == Way::kForward;
    const uint32_t members = order_.stamp_, mine = members + (forward ? 1 : 2),
                   others = members + (forward ? 2 : 1);
    const bool is_member = order_.marks_[set] == members;
    for (const int32_t next :
         forward ? order_.clusters_.Readers(set) : order_.clusters_.Producers(set)) {
      uint32_t& mark = order_.marks_[next];
      if (mark == mine) continue;
      if (mark == members || mark == others) {
        found_ |= mark == others || !is_member;
      } else if (const int32_t at = order_.position_[next]; least_ < at && at < most_) {
        mark = mine;
        reached_.push_back(next);
      }
    }
  }

  MergeOrder& order_;
  const Way way_;
  int32_t least_, most_;
  std::vector<int32_t> reached_;
  size_t next_ = 0;
  bool found_ = false;
};

MergeOrder::MergeOrder(Clusters& clusters)
    : clusters_(clusters), position_(clusters.size()), marks_(clusters.size()) {
  int32_t next = 0;
  for (const int32_t set : clusters.TopologicalOrder()) position_[set] = next++;
}

// Both ways in turn: the first that comes to its end decides, so that one set with thousands of
// readers costs no more than the other's few producers.
bool MergeOrder::PathAround(std::span<const int32_t> sets) {
  Search::Mark(*this, sets);
  Search forward(*this, sets, Search::Way::kForward), backward(*this, sets, Search::Way::kBackward);
  while (!forward.found() && !backward.found()) {
    if (forward.done() || backward.done()) return false;
    forward.Step();
    backward.Step();
  }
  return true;
}

int32_t MergeOrder::Merge(std::span<const int32_t> sets) {
  Search::Mark(*this, sets);
  Search forward(*this, sets, Search::Way::kForward), backward(*this, sets, Search::Way::kBackward);
  while (!forward.done()) forward.Step();
  while (!backward.done()) backward.Step();
  // What the sets need goes before them and what needs them after, on the positions of all.
  const std::vector<int32_t> after = std::move(forward).Reached(),
                             before = std::move(backward).Reached();
  std::vector<int32_t> positions;
  for (const auto& moved :
       {std::span<const int32_t>(before), std::span<const int32_t>(after), sets})
    for (const int32_t set : moved) positions.push_back(position_[set]);
  std::ranges::sort(positions);
  for (size_t k = 0; k < before.size(); ++k) position_[before[k]] = positions[k];
  for (size_t k = 0; k < after.size(); ++k)
    position_[after[k]] = positions[positions.size() - after.size() + k];
  int32_t all = sets[0];
  for (const int32_t set : sets.subspan(1)) all = clusters_.Merge(all, set);
  position_[all] = positions[before.size()];
  return all;
}

}  // namespace weft::partition
