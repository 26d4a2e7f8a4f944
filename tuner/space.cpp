#include "tuner/space.h"

#include <algorithm>
#include <utility>

#include "polyhedral/copies.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::tuner {
namespace {

using polyhedral::Choice;
using polyhedral::Cluster;
using polyhedral::ClusterView;
using polyhedral::Tile;

constexpr int64_t kMostLanes = loops::kMostLanes;
constexpr int64_t kMostUnrolled = 16;  // iterations of a loop that is written out as a whole
constexpr int64_t kMostCopies = 1024;  // of a statement, in code
constexpr int64_t kLeastBlocked = 16;  // iterations of an axis that is worth a tile

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

Tile* TileOf(std::vector<Tile>& tiles, const std::string& axis) {
  const auto found = std::ranges::find(tiles, axis, &Tile::axis);
  return found == tiles.end() ? nullptr : &*found;
}

// One cluster of a choice, and how its decisions change.
class Mover {
 public:
  // `program` is that of the request with the choice's copies.
  Mover(const polyhedral::ScheduleRequest& request, const ClusterView& view, Choice& choice,
        Cluster& cluster, Random& random)
      : request_(request), view_(view), choice_(choice), c_(cluster), random_(random) {
    for (const auto& axes : view.axes)
      for (const std::string& axis : axes)
        if (!Has(axes_, axis)) axes_.push_back(axis);
  }

  // Whether the move applies. None does to what has no axes.
  bool Run() {
    if (axes_.empty()) return false;
    using Move = bool (Mover::*)();
    // What a kind of move is drawn by: tiles matter most, and have the most values.
    static constexpr std::pair<Move, int> kMoves[] = {
        {&Mover::Resize, 8},       {&Mover::AddTile, 3},        {&Mover::DropTile, 2},
        {&Mover::SwapOrder, 3},    {&Mover::MoveParallel, 2},   {&Mover::MoveInner, 3},
        {&Mover::ToggleUnroll, 2}, {&Mover::TogglePrefetch, 2}, {&Mover::ToggleStream, 1},
        {&Mover::MoveLanes, 1},    {&Mover::ScaleBlock, 2},     {&Mover::Unpack, 1}};
    int sum = 0;
    for (const auto& [move, weight] : kMoves) sum += weight;
    int at = static_cast<int>(Below(sum));
    for (const auto& [move, weight] : kMoves) {
      if (at < weight) return (this->*move)();
      at -= weight;
    }
    return false;
  }

 private:
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  template <typename T>
  T& Any(std::vector<T>& from) {
    return from[Below(from.size())];
  }
  int64_t Vector() const {
    return request_.target.VectorBytes() /
           std::max<int64_t>(1, SizeBytes(view_.At(view_.anchor).accumulate));
  }

  // Another size near this one, in steps of `step`: doubled, halved, one step on, or the extent
  // shared out evenly.
  int64_t Near(int64_t size, int64_t step, int64_t extent) {
    int64_t next = size;
    switch (Below(5)) {
      case 0:
        next = size * 2;
        break;
      case 1:
        next = size / 2;
        break;
      case 2:
        next = size + step;
        break;
      case 3:
        next = size - step;
        break;
      default: {
        const int64_t parts =
            std::max<int64_t>(1, (extent + size - 1) / size) + static_cast<int64_t>(Below(3)) - 1;
        next = parts > 0 ? (extent + parts - 1) / parts : size;
      }
    }
    next = (next + step - 1) / step * step;
    return std::clamp(next, step, std::max(step, (extent + step - 1) / step * step));
  }

  // The innermost size moves lanes and panels along with it, and the outer ones stay multiples.
  bool Resize() {
    if (c_.tiles.empty()) return false;
    Tile& tile = Any(c_.tiles);
    const int64_t extent = view_.Extent(tile.axis);
    const bool is_dot = tile.axis == c_.dot_axis;
    if (extent == 0 || (is_dot && tile.sizes.size() < 2)) return false;
    const size_t levels = tile.sizes.size() - (is_dot ? 1 : 0), level = Below(levels);
    const bool is_last = level + 1 == tile.sizes.size();
    const int64_t lanes = c_.LanesOf(tile.axis), old = tile.sizes[level];
    const int64_t step = !is_last    ? tile.sizes[level + 1]
                         : lanes > 0 ? std::min(lanes, Vector())
                                     : 1;
    const int64_t size = Near(old, step, extent);
    if (size == old) return false;
    for (size_t outer = 0; outer < level; ++outer)
      tile.sizes[outer] = std::max<int64_t>(1, tile.sizes[outer] / old) * size;
    tile.sizes[level] = size;
    if (is_last) Follow(tile.axis, old, size);
    return true;
  }

  // What is as wide as a tile: lanes, where registers hold that many, and panels.
  void Follow(const std::string& axis, int64_t old, int64_t size) {
    if (Tile* const lanes = TileOf(c_.lanes, axis); lanes != nullptr && lanes->sizes[0] == old)
      lanes->sizes[0] = size <= kMostLanes ? size : Vector();
    for (size_t k = 0; k < view_.statements.size(); ++k) {
      const auto index =
          static_cast<int32_t>(std::ranges::find(view_.axes[k], axis) - view_.axes[k].begin());
      for (const tc::ExprId read : tc::Reads(view_.program(), view_.At(k))) {
        const int32_t place = polyhedral::AxisOf(view_.program(), read, index);
        if (place < 0) continue;
        const std::string& tensor = view_.program()[view_.program()[read].tensor].name;
        const auto copied = request_.copies.find(tensor);
        const std::string& operand = copied == request_.copies.end() ? tensor : copied->second;
        for (polyhedral::Pack& pack : choice_.packs)
          for (Layout::Axis& a : pack.layout.axes)
            if (pack.tensor == operand && a.axis == place && a.block == old) a.block = size;
      }
    }
  }

  // Of an axis that is none of the shared band's the tiles go outermost: each pass over the rest
  // then uses a block of it.
  bool AddTile() {
    const std::string& axis = Any(axes_);
    const int64_t extent = view_.Extent(axis);
    if (extent < kLeastBlocked || TileOf(c_.tiles, axis) != nullptr) return false;
    int64_t size = int64_t{8} << Below(7);
    if (const int64_t lanes = c_.LanesOf(axis); lanes > 0)
      size = std::max(lanes, size / lanes * lanes);
    if (size >= extent) return false;
    c_.tiles.push_back({axis, {size}});
    if (!Has(c_.order, axis)) c_.inner.insert(c_.inner.begin(), axis);
    return true;
  }

  bool DropTile() {
    if (c_.tiles.empty()) return false;
    Tile& tile = Any(c_.tiles);
    if (tile.sizes.size() > 1) {
      tile.sizes.erase(tile.sizes.begin());
      return true;
    }
    const std::string axis = tile.axis;
    if (axis == c_.dot_axis || (Has(c_.unroll, axis) && view_.Extent(axis) > kMostUnrolled))
      return false;
    std::erase_if(c_.tiles, [&](const Tile& t) { return t.axis == axis; });
    return true;
  }

  bool SwapOrder() {
    if (c_.order.size() < 2) return false;
    const size_t at = Below(c_.order.size() - 1);
    std::swap(c_.order[at], c_.order[at + 1]);
    return true;
  }

  bool MoveParallel() {
    if (!c_.blocks.empty() || c_.order.empty()) return false;
    const auto next = static_cast<int32_t>(Below(c_.order.size() + 1));
    return std::exchange(c_.parallel, next) != next;
  }

  // What `inner` does not list comes behind what it does, so a loop that is listed moves outwards.
  bool MoveInner() {
    if (c_.inner.size() > 1 && Below(4) > 0) {
      const size_t at = Below(c_.inner.size() - 1);
      std::swap(c_.inner[at], c_.inner[at + 1]);
      return true;
    }
    const std::string& axis = Any(axes_);
    if (Has(c_.inner, axis) || (Has(c_.order, axis) && TileOf(c_.tiles, axis) == nullptr))
      return false;
    c_.inner.insert(c_.inner.begin() + static_cast<ptrdiff_t>(Below(c_.inner.size() + 1)), axis);
    return true;
  }

  bool ToggleUnroll() {
    const std::string& axis = Any(axes_);
    if (axis == c_.dot_axis) return false;
    if (std::erase(c_.unroll, axis) > 0) return true;
    const Tile* const tile = TileOf(c_.tiles, axis);
    const int64_t points = tile != nullptr ? tile->sizes.back() : view_.Extent(axis);
    if (points < 2 || points > kMostUnrolled || c_.LanesOf(axis) > 0) return false;
    c_.unroll.push_back(axis);
    return true;
  }

  bool Toggle(std::vector<std::string>& list, const std::vector<std::string>& from) {
    if (from.empty()) return false;
    const std::string& name = from[Below(from.size())];
    if (std::erase(list, name) == 0) list.push_back(name);
    return true;
  }

  bool TogglePrefetch() {
    std::vector<std::string> constants;
    for (const polyhedral::Pack& pack : choice_.packs)
      if (Has(request_.constants, pack.tensor)) constants.push_back(pack.tensor);
    return Toggle(choice_.prefetches, constants);
  }

  bool ToggleStream() {
    if (!request_.streams) return false;
    std::vector<std::string> outputs;
    for (const int32_t s : view_.statements)
      if (const tc::TensorDecl& t = view_.program()[view_.program().statements[s].target];
          t.role == tc::Role::kOutput)
        outputs.push_back(t.name);
    return Toggle(choice_.streams, outputs);
  }

  // Wider or narrower; or, where no tile depends on them, along another axis.
  bool MoveLanes() {
    if (c_.lanes.empty()) return false;
    Tile& lanes = Any(c_.lanes);
    const int64_t extent = view_.Extent(lanes.axis), old = lanes.sizes[0];
    if (c_.tiles.empty() && Below(2) == 0) {
      const std::string& axis = Any(axes_);
      if (view_.Extent(axis) < 4 || c_.LanesOf(axis) > 0 || Has(c_.unroll, axis)) return false;
      std::erase(c_.order, axis);
      c_.parallel = std::min(c_.parallel, static_cast<int32_t>(c_.order.size()));
      lanes = {axis, {std::min(Vector(), view_.Extent(axis))}};
      return true;
    }
    const int64_t next = Below(2) == 0 ? old * 2 : old / 2;
    if (next < 2 || next > std::min(kMostLanes, std::max(extent, Vector()))) return false;
    lanes.sizes[0] = next;
    if (Tile* const tile = TileOf(c_.tiles, lanes.axis);
        tile != nullptr && tile->sizes.back() == old) {
      for (int64_t& size : tile->sizes) size = size / old * next;
      Follow(lanes.axis, old, next);
    }
    return true;
  }

  // All clusters that share the blocks, by the same factor.
  bool ScaleBlock() {
    if (c_.blocks.empty()) return false;
    const size_t place = Below(c_.blocks.size());
    const bool grows = Below(2) == 0;
    auto first = choice_.clusters.begin() + (&c_ - choice_.clusters.data());
    while (first->then) --first;
    auto end = first + 1;
    while (end != choice_.clusters.end() && end->then) ++end;
    for (auto cluster = first; cluster != end; ++cluster) {
      if (place >= cluster->blocks.size()) return false;
      int64_t& size = cluster->blocks[place].sizes[0];
      if (!grows && size % 2 != 0) return false;
      size = grows ? size * 2 : size / 2;
    }
    return true;
  }

  // A constant as it is: a panel of it may not be worth its own place in the cache.
  bool Unpack() {
    std::vector<size_t> constants;
    for (size_t p = 0; p < choice_.packs.size(); ++p)
      if (Has(request_.constants, choice_.packs[p].tensor)) constants.push_back(p);
    if (constants.empty()) return false;
    const size_t p = Any(constants);
    std::erase(choice_.prefetches, choice_.packs[p].tensor);
    choice_.packs.erase(choice_.packs.begin() + static_cast<ptrdiff_t>(p));
    return true;
  }

  const polyhedral::ScheduleRequest& request_;
  const ClusterView& view_;
  Choice& choice_;
  Cluster& c_;
  Random& random_;
  std::vector<std::string> axes_;
};

// The places of a cluster's statements; empty if it names one that is not there.
std::vector<int32_t> PlacesOf(const tc::Program& program, const Cluster& cluster) {
  const std::vector<std::string> names = polyhedral::StatementNames(program);
  std::vector<int32_t> places;
  for (const std::string& name : cluster.statements) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return {};
    places.push_back(static_cast<int32_t>(found - names.begin()));
  }
  return places;
}

// How often a statement stands in the code, vectors of more than one register counted as several.
int64_t Copies(const ClusterView& view, size_t k, Cluster cluster, int64_t vector) {
  int64_t copies = 1;
  for (const std::string& axis : view.axes[k]) {
    const Tile* const tile = TileOf(cluster.tiles, axis);
    const int64_t points = tile != nullptr ? tile->sizes.back() : view.Extent(axis);
    int64_t written = 1;
    if (Has(cluster.unroll, axis)) written = std::max<int64_t>(1, points);
    if (const int64_t lanes = cluster.LanesOf(axis); lanes > 0)
      written *= (lanes + vector - 1) / vector;
    if (__builtin_mul_overflow(copies, written, &copies)) return INT64_MAX;
  }
  return copies;
}

}  // namespace

std::vector<Choice> Space::Constructions(int count) const {
  const auto proposals = polyhedral::Propose(request_, count);
  std::vector<Choice> choices = proposals.yes() ? *proposals : std::vector<Choice>();
  std::erase_if(choices, [&](const Choice& choice) { return !IsLegal(choice); });
  return choices;
}

std::optional<Choice> Space::Mutate(const Choice& choice, Random& random) const {
  const auto copied = polyhedral::WithCopies(request_, choice.packs);
  if (!copied.yes() || choice.clusters.empty()) return std::nullopt;
  Choice moved = choice;
  Cluster& cluster = moved.clusters[random() % moved.clusters.size()];
  const std::vector<int32_t> places = PlacesOf(*copied->request.program, cluster);
  if (places.empty()) return std::nullopt;
  const ClusterView view = polyhedral::View(copied->request, places);
  if (!Mover(copied->request, view, moved, cluster, random).Run()) return std::nullopt;
  if (moved == choice || !IsLegal(moved)) return std::nullopt;
  return moved;
}

std::optional<Choice> Space::Cross(const Choice& a, const Choice& b, Random& random) const {
  const auto same = [](const Cluster& x, const Cluster& y) {
    return x.statements == y.statements && x.then == y.then && x.blocks.size() == y.blocks.size();
  };
  if (!std::ranges::equal(a.clusters, b.clusters, same)) return std::nullopt;
  Choice child = random() % 2 == 0 ? a : b;
  for (size_t c = 0; c < child.clusters.size(); ++c) {
    Cluster& cluster = child.clusters[c];
    const Cluster& other = (random() % 2 == 0 ? a : b).clusters[c];
    cluster.order = other.order;
    cluster.parallel = other.parallel;
    cluster.inner = other.inner;
  }
  if (child == a || child == b || !IsLegal(child)) return std::nullopt;
  return child;
}

bool Space::IsLegal(const Choice& choice) const {
  const auto copied = polyhedral::WithCopies(request_, choice.packs);
  if (!copied.yes()) return false;
  for (const Cluster& cluster : choice.clusters) {
    const std::vector<int32_t> places = PlacesOf(*copied->request.program, cluster);
    if (places.empty()) return false;
    const ClusterView view = polyhedral::View(copied->request, places);
    for (size_t k = 0; k < places.size(); ++k)
      if (Copies(view, k, cluster, request_.target.VectorBytes() / 4) > kMostCopies) return false;
  }
  const auto tree = polyhedral::BuildSchedule(request_, choice);
  return tree.yes() && polyhedral::CheckLegal(request_, *tree).yes();
}

}  // namespace weft::tuner
