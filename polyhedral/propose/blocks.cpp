// Which clusters run one after another in blocks, so that what passes between them never leaves a
// rank's caches: the scores of some rows of an attention, say, are made, normalized and used before
// the next rows are looked at.
//
// A block of the last cluster takes so many iterations of one of its axes. What it reads of an
// earlier cluster must be a block too, of an axis of that one: where a statement writes t(14*p + q)
// and another reads t(14*(h/4) + w/4), two of p's iterations belong to eight of h's. Windows that
// overlap have no such blocks.
#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

using Groups = std::vector<StatementGroup>;

// Of a subscript: scale * floor(index / step) + rest, where 0 <= rest < scale.
struct Digit {
  int64_t scale = 1, step = 1;
};

Interval RangeOf(const tc::Statement& s, const Affine& e) {
  return e.Bounds([&](Var v) {
    const tc::Index& index = s.indices[static_cast<size_t>(v)];
    const bool known = index.lo.IsConstant() && index.hi.IsConstant();
    return known ? Interval{index.lo.constant(), index.hi.constant() - 1}
                 : Interval{INT64_MIN, INT64_MAX};
  });
}

std::optional<Digit> LeadingDigit(const tc::Statement& s, const Affine& e, Var v) {
  for (const Affine::Term& t : e.terms()) {
    const bool alone = t.dividend ? t.dividend->AsVar() == v : t.var == v;
    if (!alone || t.coefficient < 1) continue;
    const Affine leading = t.dividend ? FloorDiv(*t.dividend, t.divisor) : Affine::OfVar(v);
    const Affine rest = e - leading * t.coefficient;
    const Interval range = RangeOf(s, rest);
    if (rest.Uses(v) || range.lo < 0 || range.hi >= t.coefficient) return std::nullopt;
    return Digit{.scale = t.coefficient, .step = t.dividend ? t.divisor : 1};
  }
  return std::nullopt;
}

// A subscript where an index of the reader and an axis of the maker count the same places.
struct Link {
  Digit read, written;
  std::string axis;

  // What so many iterations of the reader's index need, if it is a whole number of the maker's.
  std::optional<Tile> Block(int64_t size) const {
    if (size % read.step != 0) return std::nullopt;
    const int64_t places = size / read.step * read.scale;
    if (places * written.step % written.scale != 0) return std::nullopt;
    return Tile{axis, {places * written.step / written.scale}};
  }
};

// A read of what a statement of an earlier group makes.
struct Feed {
  size_t maker = 0;                      // the group
  std::vector<std::vector<Link>> links;  // by index of the reader
};

class Blocker {
 public:
  Blocker(const ScheduleRequest& request, const Groups& groups)
      : request_(request), program_(*request.program), groups_(groups) {
    for (const StatementGroup& group : groups) {
      const ClusterView& view = views_.emplace_back(View(request, group.statements));
      const bool contracts = AsContraction(program_, view.At(view.anchor)).has_value();
      lanes_.push_back(contracts ? "" : LaneAxis(view, Switches(view)));
    }
    for (size_t user = 0; user < groups.size(); ++user) {
      feeds_.emplace_back();
      for (size_t u = 0; u < groups[user].statements.size(); ++u)
        feeds_[user].push_back(FeedsOf(user, u));
    }
  }

  // For each group the blocks of its cluster; none where it is not worth it.
  std::vector<BlockedCluster> Run() {
    std::vector<BlockedCluster> all(groups_.size());
    for (size_t last = groups_.size(); last-- > 1;) {
      for (size_t first = 0; first < last; ++first) {
        const bool is_far = PassedBytes(first, last) > SharedBytes();
        if (!TryRegion(first, last, NearBytes(), all) && !TryRegion(first, last, L2Bytes(), all) &&
            !(is_far && TryRegion(first, last, FarBytes(), all)))
          continue;
        last = first;  // the next region ends before this one
        break;
      }
    }
    for (size_t first = 0; first < groups_.size();) {
      size_t end = first + 1;
      while (all[first].blocks.empty() && end < groups_.size() && all[end].blocks.empty() &&
             AddsPart(first, end))
        ++end;
      if (end - first > 1) BlockParts(first, end, all);
      first = end;
    }
    return all;
  }

 private:
  // The blocks of groups first .. last along one axis, as sizes by group.
  using Along = std::vector<Tile>;

  int64_t Extent(size_t group, const std::string& axis) const { return views_[group].Extent(axis); }

  // Every statement of the group has the axis, and keeps it.
  bool FitsAll(size_t group, const Tile& tile) const {
    const ClusterView& view = views_[group];
    for (size_t k = 0; k < view.statements.size(); ++k) {
      const auto found = std::ranges::find(view.axes[k], tile.axis);
      if (found == view.axes[k].end()) return false;
      const auto i = static_cast<size_t>(found - view.axes[k].begin());
      if (view.At(k).indices[i].reduction) return false;
    }
    return Extent(group, tile.axis) > 0;
  }

  std::vector<Feed> FeedsOf(size_t user, size_t u) const {
    std::vector<Feed> feeds;
    const tc::Statement& s = views_[user].At(u);
    for (const tc::ExprId read : tc::Reads(program_, s))
      for (size_t group = 0; group < user; ++group)
        for (size_t k = 0; k < views_[group].statements.size(); ++k)
          if (program_[read].tensor == views_[group].At(k).target)
            feeds.push_back({.maker = group, .links = LinksOf(s, read, group, k)});
    return feeds;
  }

  std::vector<std::vector<Link>> LinksOf(const tc::Statement& user, tc::ExprId read, size_t group,
                                         size_t k) const {
    std::vector<std::vector<Link>> links(user.indices.size());
    const tc::Statement& maker = views_[group].At(k);
    for (size_t sub = 0; sub < maker.subscripts.size(); ++sub) {
      const auto used = tc::AsAffine(program_, program_[read].args[sub]);
      const auto written = tc::AsAffine(program_, maker.subscripts[sub]);
      if (!used || !written) continue;
      for (size_t i = 0; i < maker.indices.size(); ++i) {
        const auto own = LeadingDigit(maker, *written, static_cast<Var>(i));
        if (!own || maker.indices[i].reduction) continue;
        for (size_t v = 0; v < user.indices.size(); ++v)
          if (const auto digit = LeadingDigit(user, *used, static_cast<Var>(v)))
            links[v].push_back({.read = *digit, .written = *own, .axis = views_[group].axes[k][i]});
      }
    }
    return links;
  }

  // The block that one read needs of what feeds it, by the first link that has one.
  static std::optional<Tile> Needed(const Feed& feed, size_t index, int64_t size) {
    if (index >= feed.links.size()) return std::nullopt;
    for (const Link& link : feed.links[index])
      if (auto block = link.Block(size)) return block;
    return std::nullopt;
  }

  // The block of a group that those of the later ones read, if they agree on one.
  std::optional<Tile> ReadBlock(size_t first, size_t last, size_t group, const Along& along) const {
    std::optional<Tile> common;
    for (size_t user = group + 1; user <= last; ++user) {
      const Tile& tile = along[user - first];
      for (size_t u = 0; u < views_[user].statements.size(); ++u) {
        const auto& axes = views_[user].axes[u];
        const auto index = static_cast<size_t>(std::ranges::find(axes, tile.axis) - axes.begin());
        for (const Feed& feed : feeds_[user][u]) {
          if (feed.maker != group) continue;
          const auto needed = Needed(feed, index, tile.sizes[0]);
          if (!needed || (common && *common != *needed)) return std::nullopt;
          common = needed;
        }
      }
    }
    return common;
  }

  std::optional<Along> BlocksAlong(size_t first, size_t last, const std::string& axis,
                                   int64_t size) const {
    Along along(last - first + 1);
    along.back() = {axis, {size}};
    for (size_t group = last;; --group) {
      if (group < last) {
        const auto block = ReadBlock(first, last, group, along);
        if (!block) return std::nullopt;
        along[group - first] = *block;
      }
      const Tile& tile = along[group - first];
      if (!FitsAll(group, tile)) return std::nullopt;
      if (CountOf(group, tile) != CountOf(last, along.back())) return std::nullopt;
      if (group == first) return along;
    }
  }

  int64_t CountOf(size_t group, const Tile& tile) const {
    return (Extent(group, tile.axis) + tile.sizes[0] - 1) / tile.sizes[0];
  }

  // Whether one of the groups is a contraction and what goes with it.
  bool HasAnchor(size_t first, size_t last) const {
    return std::any_of(
        views_.begin() + static_cast<ptrdiff_t>(first),
        views_.begin() + static_cast<ptrdiff_t>(last) + 1,
        [&](const ClusterView& view) { return AsContraction(program_, view.At(view.anchor)); });
  }

  // The smallest blocks along an axis of the last group that are worth running.
  std::optional<Along> Smallest(size_t first, size_t last, const std::string& axis) const {
    constexpr int64_t kMostTries = 256;
    const bool contracts = HasAnchor(first, last);
    const int64_t extent = Extent(last, axis);
    for (int64_t size = 1; size < std::min(extent, kMostTries); ++size) {
      auto along = BlocksAlong(first, last, axis, size);
      if (!along) continue;
      if (contracts ? FillsTiles(first, last, {*along}) : FillsLanes(first, last, {*along}))
        return along;
    }
    return std::nullopt;
  }

  // Bytes of what is made elsewhere and read by several groups.
  double CommonBytes(size_t first, size_t last) const {
    double bytes = 0;
    for (const tc::TensorId input : tc::Inputs(program_)) {
      int64_t readers = 0;
      for (size_t group = first; group <= last; ++group) readers += ReadsIn(group, group, input);
      if (readers > 1) bytes += Bytes(program_[input]);
    }
    return bytes;
  }

  // Of temporaries that pass from group to group.
  double PassedBytes(size_t first, size_t last) const {
    std::set<tc::TensorId> passed;
    for (size_t group = first; group < last; ++group) {
      for (size_t k = 0; k < views_[group].statements.size(); ++k) {
        const tc::TensorId made = views_[group].At(k).target;
        if (ReadsIn(group + 1, last, made)) passed.insert(made);
      }
    }
    double bytes = 0;
    for (const tc::TensorId tensor : passed) bytes += Bytes(program_[tensor]);
    return bytes;
  }

  bool ReadsIn(size_t first, size_t last, tc::TensorId tensor) const {
    const auto is = [&](tc::ExprId read) { return program_[read].tensor == tensor; };
    for (size_t group = first; group <= last; ++group)
      for (size_t k = 0; k < views_[group].statements.size(); ++k)
        if (std::ranges::any_of(tc::Reads(program_, views_[group].At(k)), is)) return true;
    return false;
  }

  bool MakesIn(size_t first, size_t last, tc::TensorId tensor) const {
    for (size_t group = first; group <= last; ++group)
      for (size_t k = 0; k < views_[group].statements.size(); ++k)
        if (views_[group].At(k).target == tensor) return true;
    return false;
  }

  bool Uses(size_t group, size_t k, tc::ExprId read, const std::string& axis) const {
    const std::vector<std::string>& axes = views_[group].axes[k];
    const auto index = static_cast<int32_t>(std::ranges::find(axes, axis) - axes.begin());
    return polyhedral::Uses(program_, read, index);
  }

  // Bytes of what is made elsewhere that a block reads and the next one along the last of the axes
  // reads again.
  double ReadAgain(size_t first, size_t last, const std::vector<Along>& axes) const {
    double bytes = 0;
    for (size_t group = first; group <= last; ++group) {
      for (size_t k = 0; k < views_[group].statements.size(); ++k) {
        for (const tc::ExprId read : tc::Reads(program_, views_[group].At(k))) {
          if (MakesIn(first, last, program_[read].tensor)) continue;
          const auto at = [&](const Along& along) { return along[group - first]; };
          if (Uses(group, k, read, at(axes.back()).axis)) continue;
          double part = Bytes(program_[program_[read].tensor]);
          for (const Along& along : axes)
            if (Uses(group, k, read, at(along).axis))
              part /= static_cast<double>(CountOf(group, at(along)));
          bytes += part;
        }
      }
    }
    return bytes;
  }

  bool ReadsCopy(const Contraction& contraction) const {
    const auto is_copy = [&](tc::ExprId read) {
      return request_.copies.contains(program_[program_[read].tensor].name);
    };
    return is_copy(contraction.x) || is_copy(contraction.w);
  }

  bool LiesAlong(const tc::Statement& s, const Contraction& contraction, int32_t index) const {
    return std::ranges::any_of(std::array{contraction.x, contraction.w}, [&](tc::ExprId read) {
      const tc::Expr& e = program_[read];
      return ContiguousIndex(request_, s, e.tensor, e.args) == index;
    });
  }

  // A block of a contraction still has rows and columns for a tile of registers, or all there are:
  // places that move one factor only, and that the loads of the other are used again for.
  bool FillsTiles(size_t first, size_t last, const std::vector<Along>& axes) const {
    constexpr int64_t kRows = 6;
    for (size_t group = first; group <= last; ++group) {
      const ClusterView& view = views_[group];
      const tc::Statement& s = view.At(view.anchor);
      const auto contraction = AsContraction(program_, s);
      if (!contraction) continue;
      const int64_t vector = request_.target.VectorBytes() / SizeBytes(s.accumulate);
      int64_t all[2] = {1, 1}, block[2] = {1, 1};  // of what moves x, of what moves w
      for (const int32_t i : contraction->kept) {
        const std::string& axis = view.axes[view.anchor][static_cast<size_t>(i)];
        const bool by_x = Uses(group, view.anchor, contraction->x, axis),
                   by_w = Uses(group, view.anchor, contraction->w, axis);
        const int64_t extent = std::max<int64_t>(1, Extent(group, axis));
        int64_t size = extent;
        for (const Along& along : axes) {
          const Tile& tile = along[group - first];
          if (tile.axis == axis) size = std::min(size, tile.sizes[0]);
        }
        // Lanes along what moves both factors are why one of them is copied, and all there are
        // where channels lie side by side.
        if (by_x && by_w && (ReadsCopy(*contraction) || LiesAlong(s, *contraction, i)) &&
            size < extent && size % vector != 0)
          return false;
        if (by_x == by_w) continue;
        if (!by_x && size < extent) return false;  // columns are lanes of packed panels: whole ones
        all[by_x ? 0 : 1] *= extent;
        block[by_x ? 0 : 1] *= size;
      }
      const int64_t lanes = 2 * vector;
      // Which of the two lanes run along is decided later: either may be the shorter one.
      const auto fills = [&](int64_t rows, int64_t columns) {
        return block[0] >= std::min(all[0], rows) && block[1] >= std::min(all[1], columns);
      };
      if (!fills(kRows, lanes) && !fills(lanes, kRows)) return false;
    }
    return true;
  }

  // Whether the axis is that along which something lies that is turned around.
  bool IsTurned(const ClusterView& view, const std::string& axis) const {
    for (size_t k = 0; k < view.statements.size(); ++k) {
      const tc::Statement& s = view.At(k);
      if (tc::Reduces(s) || !Turns(request_, s)) continue;
      for (const tc::ExprId read : tc::Reads(program_, s)) {
        const tc::Expr& e = program_[read];
        const int32_t in = ContiguousIndex(request_, s, e.tensor, e.args);
        if (in >= 0 && view.axes[k][in] == axis) return true;
      }
    }
    return false;
  }

  // A block of other statements has lanes for a vector, or all there are; and rows for one, if they
  // are turned around.
  bool FillsLanes(size_t first, size_t last, const std::vector<Along>& axes) const {
    const bool contracts = HasAnchor(first, last);
    for (size_t group = first; group <= last; ++group) {
      const ClusterView& view = views_[group];
      const tc::Statement& s = view.At(view.anchor);
      if (AsContraction(program_, s)) continue;
      const int64_t vector = request_.target.VectorBytes() / SizeBytes(s.accumulate);
      for (const Along& along : axes) {
        const Tile& tile = along[group - first];
        const bool is_row = tile.axis == lanes_[group] || (!contracts && IsTurned(view, tile.axis));
        if (is_row && tile.sizes[0] < std::min(vector, Extent(group, tile.axis))) return false;
      }
    }
    return true;
  }

  // So many rows are whole register tiles of every kind, and so many lanes whole vectors; or
  // halves.
  static constexpr int64_t kTiles = 48, kHalves = 8;

  // What a block may pass on beside other things in a core's second cache; else in all of it, with
  // what the next block reads again, and in a share of the last cache (tiles of 12 MB in blocks of
  // 310 to 410 KB 1.46 and 1.58 times as fast where the second cache is 512 KB, of 3 MB 1.24
  // and 1.53; those of 51 MB 1.7 times in blocks of 2 to 7 MB).
  double NearBytes() const { return L2Bytes() / 2; }
  double L2Bytes() const { return static_cast<double>(request_.target.l2_bytes); }
  // What the second caches hold of the team, from one cluster to the next.
  double HeldBytes() const { return L2Bytes() * request_.target.threads; }
  // What may be counted on of a cache that others use too.
  double SharedBytes() const { return static_cast<double>(request_.target.l3_bytes) / 4; }
  double FarBytes() const {
    return static_cast<double>(request_.target.l3_bytes) / (8.0 * request_.target.threads);
  }

  // Whether the blocks' axes come first in every statement, so that a block is one piece of memory.
  bool AreOuter(size_t first, size_t last, const std::vector<Along>& axes) const {
    for (size_t group = first; group <= last; ++group) {
      const auto is_blocked = [&](const std::string& axis) {
        return std::ranges::any_of(
            axes, [&](const Along& along) { return along[group - first].axis == axis; });
      };
      for (const std::vector<std::string>& own : views_[group].axes) {
        const auto inner = std::ranges::find_if(own, [&](const std::string& axis) {
          return !is_blocked(axis) && Extent(group, axis) != 1;
        });
        if (std::any_of(inner, own.end(), is_blocked)) return false;
      }
    }
    return true;
  }

  // Whether one group turns around rows that another one sums up.
  bool TurnsRows(size_t first, size_t last) const {
    bool sums = false, turns = false;
    for (size_t group = first; group <= last; ++group)
      for (const int32_t s : groups_[group].statements) {
        const tc::Statement& statement = program_.statements[s];
        sums |= SumsRows(request_, statement);
        turns |= !tc::Reduces(statement) && Turns(request_, statement);
      }
    return sums && turns;
  }

  // Whether lanes along this axis share what is looked up, which each of its blocks would look up
  // anew.
  bool SharesLookups(size_t first, size_t last, const std::string& axis) const {
    for (size_t group = first; group <= last; ++group) {
      const ClusterView& view = views_[group];
      for (size_t k = 0; k < view.statements.size(); ++k) {
        const int32_t beside = BesideLookups(request_, view.At(k));
        if (beside >= 0 && view.axes[k][beside] == axis) return true;
      }
    }
    return false;
  }

  // With a contraction, all axes along which the last group has blocks; the last of them is that
  // along which most is read again. It grows until what passes through a block is all that `most`
  // bytes hold, or half of the first-level cache if that holds a block and nothing is read again at
  // all. Without one, where rows are turned around, and where what passes would be gone from the
  // second caches: along outer axes then, so that a block is one piece of memory.
  bool TryRegion(size_t first, size_t last, double most, std::vector<BlockedCluster>& all) const {
    const bool contracts = HasAnchor(first, last);
    const double passed = PassedBytes(first, last);
    if (passed == 0) return false;
    const bool follows = !contracts && !TurnsRows(first, last);
    if (follows && passed <= HeldBytes()) return false;
    const auto counts = [&](const std::vector<Along>& of) {
      int64_t blocks = 1;
      for (const Along& along : of) blocks *= CountOf(last, along.back());
      return blocks;
    };
    const auto near = [&](const std::vector<Along>& of) {
      return passed / static_cast<double>(counts(of)) <= most;
    };
    std::vector<Along> axes;
    for (const std::string& axis : views_[last].shared) {
      if (!contracts && !axes.empty() && near(axes)) break;  // what is left stays whole
      if (SharesLookups(first, last, axis)) continue;
      auto along = Smallest(first, last, axis);
      if (!along) continue;
      axes.push_back(*std::move(along));
      if (follows && !AreOuter(first, last, axes)) return false;
    }
    if (axes.empty() || !near(axes)) return false;
    if (contracts)
      std::ranges::stable_sort(axes, {},
                               [&](const Along& along) { return ReadAgain(first, last, {along}); });
    const double touched = passed + CommonBytes(first, last);
    const auto nearest = static_cast<double>(request_.target.l1_bytes) / 2;
    const auto is_nearest = [&](const std::vector<Along>& of) {
      return touched <= nearest * static_cast<double>(counts(of));
    };
    const bool in_nearest =
        !contracts || (ReadAgain(first, last, {axes.back()}) == 0 && is_nearest(axes));
    const auto fits = [&](const std::vector<Along>& of) {
      return in_nearest ? is_nearest(of) : near(of);
    };
    const std::string axis = axes.back().back().axis;
    const int64_t unit = axes.back().back().sizes[0], extent = Extent(last, axis);
    // At least so many blocks that the team has work.
    const int64_t wanted = request_.target.threads == 1 ? 1 : 2 * request_.target.threads;
    const auto next = [&](int64_t size) {
      const int64_t step = size < kHalves * unit ? 1 : size < kTiles * unit ? kHalves : kTiles;
      return size + step * unit;
    };
    for (int64_t size = next(unit); size < next(extent); size = next(size)) {
      auto along = BlocksAlong(first, last, axis, std::min(size, extent));
      if (!along) continue;
      std::vector<Along> larger = axes;
      larger.back() = *std::move(along);
      if (!fits(larger) || counts(larger) < wanted) break;
      axes = std::move(larger);
    }
    // One that became the whole axis says nothing, and tiles of registers would have to divide it.
    if (CountOf(last, axes.back().back()) == 1) axes.pop_back();
    if (axes.empty() || counts(axes) < wanted || !FillsTiles(first, last, axes) ||
        !FillsLanes(first, last, axes))
      return false;
    const double again = ReadAgain(first, last, axes);
    if (most == L2Bytes() && passed / static_cast<double>(counts(axes)) + again > most)
      return false;
    const auto rounds = static_cast<double>(CountOf(last, axes.back().back()) - 1);
    if (again > NearBytes() && again * rounds > 2 * passed) return false;
    for (size_t group = first; group <= last; ++group) {
      all[group].then = group > first;
      for (const Along& along : axes) all[group].blocks.push_back(along[group - first]);
    }
    return true;
  }

  // What the last statement of a group writes.
  tc::TensorId Made(size_t group) const {
    return views_[group].At(views_[group].statements.size() - 1).target;
  }

  // Whether the group writes another part of what that of `first` writes, and reads nothing that is
  // made between them. Contractions want tiles of more rows than a block of parts has.
  bool AddsPart(size_t first, size_t group) const {
    if (Made(group) != Made(first) || Contracts(first) || Contracts(group)) return false;
    const ClusterView& view = views_[group];
    for (size_t k = 0; k < view.statements.size(); ++k)
      for (const tc::ExprId read : tc::Reads(program_, view.At(k)))
        if (MakesIn(first, group - 1, program_[read].tensor)) return false;
    return true;
  }

  bool Contracts(size_t group) const {
    return std::ranges::any_of(views_[group].statements,
                               [&](int32_t s) { return tc::Contracts(program_.statements[s]); });
  }

  // The axes of a tensor as they lie in memory, outermost first; none where they lie in blocks.
  std::vector<size_t> AxesInMemory(const tc::TensorDecl& tensor) const {
    std::vector<size_t> axes;
    for (const auto& [axis, block] : LayoutOf(request_, tensor).axes) {
      if (block != 0) return {};
      axes.push_back(static_cast<size_t>(axis));
    }
    return axes;
  }

  // How many of these axes, the outermost, all parts of a tensor have as a whole.
  size_t WholeAxes(size_t first, size_t end, const std::vector<size_t>& axes) const {
    const tc::TensorDecl& made = program_[Made(first)];
    for (size_t i = 0; i < axes.size(); ++i)
      for (size_t group = first; group < end; ++group) {
        const auto tile = AlongAxis(group, axes[i], 1);
        if (!tile || Affine(Extent(group, tile->axis)) != made.extents[axes[i]]) return i;
      }
    return axes.size();
  }

  // So much of an axis of what the group writes.
  std::optional<Tile> AlongAxis(size_t group, size_t axis, int64_t size) const {
    const ClusterView& view = views_[group];
    const size_t k = view.statements.size() - 1;
    const auto e = tc::AsAffine(program_, view.At(k).subscripts[axis]);
    const auto var = e ? e->AsVar() : std::nullopt;
    if (!var || view.At(k).indices[static_cast<size_t>(*var)].lo != Affine(0)) return std::nullopt;
    Tile tile{view.axes[k][static_cast<size_t>(*var)], {size}};
    return FitsAll(group, tile) ? std::optional(tile) : std::nullopt;
  }

  // Parts of rows, as those of a concatenation, go through the same rows together: else each would
  // pass through all the memory of the result.
  void BlockParts(size_t first, size_t end, std::vector<BlockedCluster>& all) const {
    constexpr double kNear = 16 << 10;
    const tc::TensorDecl& made = program_[Made(first)];
    const std::vector<size_t> axes = AxesInMemory(made);
    const size_t whole = WholeAxes(first, end, axes);
    double row = Bytes(made);
    for (size_t i = 0; i < whole; ++i) row /= static_cast<double>(made.extents[axes[i]].constant());
    if (!(row > 0)) return;                         // there is nothing to write
    std::vector<std::pair<size_t, int64_t>> sizes;  // by axis of what is made
    int64_t blocks = 1;
    for (size_t i = whole; i-- > 0;) {
      const size_t axis = axes[i];
      const int64_t extent = made.extents[axis].constant();
      const auto size = std::clamp<int64_t>(static_cast<int64_t>(kNear / row), 1, extent);
      row *= static_cast<double>(size);
      if (size == extent && sizes.empty()) continue;
      sizes.insert(sizes.begin(), {axis, size});
      blocks *= (extent + size - 1) / size;
    }
    if (blocks < std::max(2, 2 * request_.target.threads)) return;
    for (size_t group = first; group < end; ++group) {
      all[group].then = group > first;
      for (const auto& [axis, size] : sizes)
        all[group].blocks.push_back(*AlongAxis(group, axis, size));
    }
  }

  const ScheduleRequest& request_;
  const tc::Program& program_;
  const Groups& groups_;
  std::vector<ClusterView> views_;
  std::vector<std::string> lanes_;  // by group: the axis of its lanes, if it is no contraction
  std::vector<std::vector<std::vector<Feed>>> feeds_;  // by group and statement
};

}  // namespace

std::vector<BlockedCluster> BlockClusters(const ScheduleRequest& request, const Groups& groups) {
  const bool allowed = request.target.kind == TargetKind::kCpu && request.program->params.empty() &&
                       std::ranges::none_of(groups, &StatementGroup::loop);
  return allowed ? Blocker(request, groups).Run() : std::vector<BlockedCluster>(groups.size());
}

}  // namespace weft::polyhedral
