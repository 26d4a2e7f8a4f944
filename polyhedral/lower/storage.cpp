#include "polyhedral/lower/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace weft::polyhedral::lower {
namespace {

using loops::Access;
using loops::Buffer;
using loops::LoopKind;
using loops::Space;

struct Touch {
  int32_t unit = 0;
  int32_t cluster = 0;
  bool write = false;
  std::vector<std::optional<Affine>> index;  // over dimensions
};

class Placer {
 public:
  Placer(const ScheduleRequest& request, const Plan& plan, loops::LoopNest& nest)
      : request_(request), plan_(plan), program_(*plan.program), nest_(nest) {}

  Result<Storage> Run() {
    storage_.views.resize(program_.tensors.size());
    touches_.resize(program_.tensors.size());
    for (size_t c = 0; c < plan_.clusters.size(); ++c) {
      for (const int32_t u : plan_.clusters[c].units) CollectTouches(u, static_cast<int32_t>(c));
    }
    WEFT_TRY(PlaceOperands());
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      const tc::Role role = program_.tensors[t].role;
      if (role == tc::Role::kTemporary) WEFT_TRY(PlaceTemporary(t));
      if (role == tc::Role::kLiteral) PlaceLiteral(t);
    }
    for (const auto& [statement, acc] : plan_.accumulators) PlaceAccumulator(statement, acc);
    return std::move(storage_);
  }

 private:
  const tc::TensorDecl& Decl(size_t t) const { return program_.tensors[t]; }
  int64_t RegisterBytes() const {
    return int64_t{request_.target.VectorBytes()} * request_.target.VectorRegisters();
  }

  void Add(int32_t u, int32_t cluster, tc::TensorId tensor,
           const std::vector<tc::ExprId>& subscripts, bool write = false) {
    Touch touch{.unit = u, .cluster = cluster, .write = write};
    for (const tc::ExprId s : subscripts) {
      touch.index.push_back(write ? AffineOf(program_, s, plan_.units[u].index)
                                  : SubscriptOf(program_, s, plan_.units[u].index));
    }
    touches_[tensor.index].push_back(std::move(touch));
  }

  void CollectTouches(int32_t u, int32_t cluster) {
    const Unit& unit = plan_.units[u];
    const tc::Statement& s = program_.statements[unit.statement];
    const auto reads = [&](tc::ExprId value) {
      for (const tc::ExprId read : tc::Reads(program_, value)) {
        Add(u, cluster, program_[read].tensor, program_[read].args);
      }
    };
    if (unit.part == Part::kWhole || unit.part == Part::kUpdate) {
      reads(unit.value);
      if (unit.along >= 0) reads(unit.length);
      if (s.companion.valid()) reads(s.companion_value);
    }
    for (const tc::ExprId sub : s.subscripts) {
      if (unit.part != Part::kUpdate) reads(sub);
    }
    const bool whole =
        unit.part == Part::kWhole || unit.part == Part::kInit || unit.part == Part::kFinish;
    if (whole && (unit.part != Part::kInit || !s.init)) {
      Add(u, cluster, s.target, s.subscripts, true);
      if (s.companion.valid()) Add(u, cluster, s.companion, s.subscripts, true);
    }
  }

  Result<Layout> LayoutOf(size_t t) const {
    const tc::TensorDecl& decl = Decl(t);
    for (const auto& [name, text] : plan_.packs) {
      const bool constant = std::ranges::count(request_.constants, name) > 0;
      if (name == decl.name && constant) return ParseLayout(text);
    }
    const auto found = request_.layouts.find(decl.name);
    if (found != request_.layouts.end()) return found->second;
    return Layout::Plain(decl.extents.size());
  }

  Status PlaceOperands() {
    for (const tc::Role role : {tc::Role::kInput, tc::Role::kOutput}) {
      for (size_t t = 0; t < program_.tensors.size(); ++t) {
        if (Decl(t).role != role) continue;
        WEFT_TRY(const Layout layout, LayoutOf(t));
        if (layout.rank() != Decl(t).extents.size()) {
          return Invalid(fmt::format("layout {} of {} has rank {}, expected {}", Print(layout),
                                     Decl(t).name, layout.rank(), Decl(t).extents.size()));
        }
        const bool in = role == tc::Role::kInput;
        const bool stream = !in && std::ranges::count(plan_.streams, Decl(t).name) > 0;
        Whole(t, {.name = Decl(t).name,
                  .dtype = Decl(t).dtype,
                  .shape = Decl(t).extents,
                  .layout = layout,
                  .space = Space::kGlobal,
                  .access = in ? Access::kIn : Access::kOut,
                  .align_bytes = stream ? loops::kOperandAlign : 0});
        storage_.views[t].stream = stream;
      }
    }
    return {};
  }

  void Whole(size_t t, Buffer buffer) {
    const size_t rank = buffer.shape.size();
    storage_.views[t] = {.buffer = loops::AddBuffer(nest_, std::move(buffer)),
                         .contracted = std::vector<bool>(rank, false),
                         .offset = std::vector<int64_t>(rank, 0)};
  }

  bool Constant(const Affine& index) const {
    std::vector<Var> used;
    index.CollectVars(used);
    return std::ranges::all_of(used, [&](Var v) {
      if (!plan_.IsDim(v)) return false;
      const bool once =
          plan_[v].kind == LoopKind::kSerial && plan_[v].range.lo == plan_[v].range.hi;
      return once || plan_[v].kind == LoopKind::kUnroll || plan_[v].kind == LoopKind::kVector;
    });
  }

  // A literal tensor is filled by the kernel; in registers its values fold into the code.
  void PlaceLiteral(size_t t) {
    bool constant = true;
    for (const Touch& touch : touches_[t]) {
      for (const auto& e : touch.index) constant &= e && Constant(*e);
    }
    const bool small = Decl(t).literal.bytes() <= RegisterBytes();
    Whole(t, {.name = Decl(t).name,
              .dtype = Decl(t).dtype,
              .shape = Decl(t).extents,
              .layout = Layout::Plain(Decl(t).extents.size()),
              .space = constant && small ? Space::kRegister : Space::kCache});
    storage_.literals.push_back(static_cast<int32_t>(t));
  }

  std::vector<Var> SharedDims(const std::vector<Touch>& touches) const {
    std::vector<Var> shared = plan_.units[touches[0].unit].dims;
    for (const Touch& touch : touches) {
      const std::vector<Var>& dims = plan_.units[touch.unit].dims;
      std::erase_if(shared, [&](Var v) { return std::ranges::count(dims, v) == 0; });
    }
    std::ranges::sort(shared);
    return shared;
  }

  // e without the part of the shared dimensions, and that part; nullopt if floors mix the two.
  std::optional<std::pair<Affine, Affine>> Split(const Affine& e,
                                                 const std::vector<Var>& shared) const {
    const auto is_shared = [&](Var v) { return std::ranges::binary_search(shared, v); };
    const Affine inner =
        e.Substitute([&](Var v) { return is_shared(v) ? Affine(0) : Affine::OfVar(v); });
    const Affine outer = e - inner;
    std::vector<Var> used;
    outer.CollectVars(used);
    if (!std::ranges::all_of(used, is_shared)) return std::nullopt;
    return std::pair{inner, outer};
  }

  Interval RangeOf(const Affine& e) const {
    return e.Bounds([&](Var v) { return plan_.IsDim(v) ? plan_[v].range : Interval{0, kOpen}; });
  }

  Status PlaceTemporary(size_t t) {
    const auto& touches = touches_[t];
    Buffer buffer{.name = Decl(t).name,
                  .dtype = Decl(t).dtype,
                  .shape = Decl(t).extents,
                  .layout = Layout::Plain(Decl(t).extents.size()),
                  .space = Space::kShared};
    View view{.contracted = std::vector<bool>(buffer.shape.size(), false),
              .offset = std::vector<int64_t>(buffer.shape.size(), 0)};
    const bool local = !touches.empty() && std::ranges::all_of(touches, [&](const Touch& touch) {
      return touch.cluster == touches[0].cluster;
    });
    if (local) Contract(touches, buffer, view);
    if (buffer.space != Space::kRegister) {
      const auto given = request_.layouts.find(buffer.name);
      buffer.layout = given != request_.layouts.end() ? given->second
                                                      : LanesInside(touches, buffer.shape.size());
    }
    for (const Affine& extent : buffer.shape) {
      if (!extent.IsConstant()) {
        return Unsupported(
            fmt::format("temporary {} has an extent that is known only at run time", Decl(t).name));
      }
    }
    if (buffer.space != Space::kRegister && request_.target.kind == TargetKind::kCpu)
      SpreadRows(buffer);
    view.buffer = loops::AddBuffer(nest_, std::move(buffer));
    storage_.views[t] = std::move(view);
    return {};
  }

  // Rows a multiple of a page apart, or of an even part of one, would share a few sets of the
  // nearest cache, which then holds as many of them as it has ways: planes of 64x64 that a
  // convolution reads channel by channel, or 16 tiles of Winograd's that a transform writes by
  // rows and columns. An unused row inside each spreads them.
  void SpreadRows(Buffer& buffer) const {
    constexpr int64_t kPage = 4096, kLine = 64, kMostOverhead = 8;
    const int64_t ways = request_.target.l1_bytes / kPage, size = SizeBytes(buffer.dtype);
    const std::vector<Layout::Axis>& axes = buffer.layout.axes;
    if (std::ranges::any_of(axes, [](const Layout::Axis& a) { return a.block != 0; })) return;
    if (std::ranges::count(buffer.shape, Affine(0)) > 0) return;
    const auto extent = [&](size_t place) { return buffer.shape[axes[place].axis].constant(); };
    const auto bytes_of = [&](size_t place) {
      int64_t bytes = size;
      for (size_t inner = place + 1; inner < axes.size(); ++inner) bytes *= extent(inner);
      return bytes;
    };
    const auto crowds = [&](size_t place) {
      const int64_t starts = kPage / std::gcd(bytes_of(place), kPage);  // of rows, within a page
      const int64_t row = std::max(kLine, size * extent(axes.size() - 1));
      double rows = 1;  // those of outer axes begin there, too
      for (size_t outer = 0; outer <= place; ++outer) rows *= static_cast<double>(extent(outer));
      return starts * row < kPage && rows > static_cast<double>(ways * starts);
    };
    for (size_t place = axes.size(); place-- > 0;) {
      if (!crowds(place)) continue;
      for (size_t inner = axes.size(); inner-- > place + 1;) {
        const Affine kept = buffer.shape[axes[inner].axis];
        const int64_t more = bytes_of(inner) >= kLine ? 1 : kLine / bytes_of(inner);
        buffer.shape[axes[inner].axis] = kept + Affine(more);
        if (!crowds(place) && more * kMostOverhead <= kept.constant()) break;
        buffer.shape[axes[inner].axis] = kept;
      }
    }
  }

  // The axis that all lanes run along is the innermost, so that they lie side by side.
  Layout LanesInside(const std::vector<Touch>& touches, size_t rank) const {
    std::set<size_t> along;
    for (const Touch& touch : touches) {
      for (const Var v : plan_.units[touch.unit].dims) {
        for (size_t axis = 0; axis < rank && plan_[v].kind == LoopKind::kVector; ++axis)
          if (!touch.index[axis] || touch.index[axis]->Uses(v)) along.insert(axis);
      }
    }
    Layout layout = Layout::Plain(rank);
    if (along.size() != 1) return layout;
    const auto inner = layout.axes.begin() + static_cast<int64_t>(*along.begin());
    std::rotate(inner, inner + 1, layout.axes.end());
    return layout;
  }

  // What touches have in common along one axis of a temporary.
  struct Along {
    bool same = true;                // each iteration of the shared loops has its part of the axis
    bool crosses = false;            // ranks may touch each other's part
    bool fixed = true;               // the places within a part are constants
    Interval range{kOpen, kOpenLo};  // of those places
    std::set<Var> moves;             // the shared dimensions that a part depends on
  };

  Along LookAlong(size_t axis, const std::vector<Touch>& touches,
                  const std::vector<Var>& shared) const {
    Along along;
    std::optional<Affine> outer;
    Interval written{kOpen, kOpenLo};
    for (const Touch& touch : touches) {
      const auto parts = touch.index[axis] ? Split(*touch.index[axis], shared) : std::nullopt;
      if (!parts) {
        along.same = false;
        along.crosses = true;  // unknown: it may
        continue;
      }
      along.same &= !outer || *outer == parts->second;
      outer = parts->second;
      std::vector<Var> used;
      parts->second.CollectVars(used);
      for (const Var v : used)
        along.crosses |= plan_.IsDim(v) && plan_[v].kind == LoopKind::kParallel;
      along.moves.insert(used.begin(), used.end());
      const Interval r = RangeOf(parts->first);
      const auto grow = [&](Interval& i) { i = {std::min(i.lo, r.lo), std::max(i.hi, r.hi)}; };
      grow(along.range);
      if (touch.write) grow(written);
      along.fixed &= Constant(parts->first);
    }
    // What an earlier iteration made is gone once this one has taken its place.
    along.same &= along.moves.empty() || written == along.range;
    return along;
  }

  // The outermost of the shared loops an iteration of which reads what an earlier one wrote, as its
  // place in their order: a part of some axis is another's too, or it is not written in each.
  size_t OutermostCarried(const std::vector<Along>& axes, const std::vector<Touch>& touches,
                          const std::vector<Var>& order) const {
    std::set<Var> carried, parted;
    for (const Along& along : axes)
      (along.same ? parted : carried).insert(along.moves.begin(), along.moves.end());
    for (const Touch& touch : touches) {
      if (!touch.write) continue;
      for (const Constraint& c : plan_.units[touch.unit].constraints) {
        if (c.limit != Limit::kDomain || RangeOf(c.e).lo >= 0) continue;
        std::vector<Var> used;
        c.e.CollectVars(used);
        if (std::ranges::none_of(used, [&](Var v) { return parted.contains(v); }))
          carried.insert(used.begin(), used.end());
      }
    }
    return std::ranges::find_if(order, [&](Var v) { return carried.contains(v); }) - order.begin();
  }

  void Contract(const std::vector<Touch>& touches, Buffer& buffer, View& view) {
    View smaller = view;
    smaller.shared = SharedDims(touches);
    std::vector<Var> order = plan_.units[touches[0].unit].dims;  // the shared, outermost first
    std::erase_if(order, [&](Var v) { return !std::ranges::binary_search(smaller.shared, v); });
    std::vector<Affine> shape = buffer.shape;
    std::vector<Along> axes;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      axes.push_back(LookAlong(axis, touches, smaller.shared));
    const size_t carried = OutermostCarried(axes, touches, order);
    bool constant = true;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Along& along = axes[axis];
      for (size_t inside = carried + 1; inside < order.size(); ++inside)
        along.same &= !along.moves.contains(order[inside]);  // would be overwritten before
      if (!along.same && along.crosses && AnyParallel(touches)) return;  // stays shared and whole
      if (!along.same) {
        constant = false;
        continue;
      }
      const Interval& range = along.range;
      if (range.lo == kOpenLo || range.hi >= kOpen) return;
      constant &= along.fixed;
      smaller.contracted[axis] = true;
      smaller.offset[axis] = range.lo;
      shape[axis] = std::max<int64_t>(0, range.hi - range.lo + 1);
    }
    int64_t bytes = SizeBytes(buffer.dtype);
    for (const Affine& extent : shape) {
      if (!extent.IsConstant()) return;
      bytes *= extent.constant();
    }
    buffer.shape = std::move(shape);
    buffer.space = constant && bytes <= RegisterBytes() ? Space::kRegister : Space::kCache;
    if (AnyApart(touches, smaller.shared)) buffer.space = Space::kShared;
    view = std::move(smaller);
  }

  // Ranks share out loops of their own around some of the touches: what one writes another reads.
  bool AnyApart(const std::vector<Touch>& touches, const std::vector<Var>& shared) const {
    return std::ranges::any_of(touches, [&](const Touch& touch) {
      return std::ranges::any_of(plan_.units[touch.unit].dims, [&](Var v) {
        return plan_[v].kind == LoopKind::kParallel && !std::ranges::binary_search(shared, v);
      });
    });
  }

  bool AnyParallel(const std::vector<Touch>& touches) const {
    return std::ranges::any_of(plan_.units[touches[0].unit].dims,
                               [&](Var v) { return plan_[v].kind == LoopKind::kParallel; });
  }

  void PlaceAccumulator(int32_t statement, const Accumulator& acc) {
    const tc::Statement& s = program_.statements[statement];
    const tc::TensorDecl& target = program_[s.target];
    const View& view = storage_.views[s.target.index];
    AccumulatorBuffer result;
    Block block{.bytes = SizeBytes(s.accumulate)};
    for (const Var v : acc.axes.at(Part::kUpdate)) AddAxis(v, block);
    if (acc.lanes >= 0) {
      AddAxis(acc.lanes, block);
      result.lanes = block.shape.back().constant();
    }
    result.offset = block.offset;
    // Sums that wait in a cache anyway do so where they are wanted.
    const Space space = nest_[view.buffer].space;
    const bool near = space == Space::kRegister ||
                      (space == Space::kCache && (acc.blocked || !FitsRegisters(block)));
    if (acc.blocked) PlaceTile(s, acc, result);
    if (acc.apart >= 0) PlaceApart(s, acc, result);
    if (near && s.init && s.accumulate == target.dtype && acc.lanes < 0 && !s.companion.valid()) {
      result.is_target = true;
      storage_.accumulators[statement] = result;
      return;
    }
    const auto add = [&](std::string_view suffix, Dtype dtype) {
      return AddBlock(target.name + std::string(suffix), dtype, block);
    };
    result.buffer = add("_acc", s.accumulate);
    if (s.companion.valid()) {
      // Among lanes the greatest value says that nothing was found yet: a vector of bools is slow.
      result.companion = add("_with", acc.lanes >= 0 ? Dtype::kI32 : program_[s.companion].dtype);
      if (acc.lanes < 0) result.found = add("_found", Dtype::kBool);
    }
    storage_.accumulators[statement] = std::move(result);
  }

  // Some dimensions as axes of a buffer.
  struct Block {
    std::vector<Affine> shape;
    std::vector<int64_t> offset;
    int64_t bytes = 0;
    bool constant = true;
  };

  void AddAxis(Var v, Block& block) const {
    const Interval range = plan_[v].range;
    const int64_t extent = std::max<int64_t>(0, range.hi - range.lo + 1);
    block.shape.emplace_back(extent);
    block.offset.push_back(range.lo);
    block.bytes *= extent;
    block.constant &= Constant(Affine::OfVar(v));
  }

  bool FitsRegisters(const Block& block) const {
    return block.constant && block.bytes <= RegisterBytes();
  }

  loops::BufferId AddBlock(std::string name, Dtype dtype, const Block& block) {
    return loops::AddBuffer(nest_,
                            {.name = std::move(name),
                             .dtype = dtype,
                             .shape = block.shape,
                             .layout = Layout::Plain(block.shape.size()),
                             .space = FitsRegisters(block) ? Space::kRegister : Space::kCache});
  }

  void PlaceTile(const tc::Statement& s, const Accumulator& acc, AccumulatorBuffer& result) {
    Block block{.bytes = SizeBytes(s.accumulate)};
    for (const Var v : acc.tile.at(Part::kUpdate)) AddAxis(v, block);
    result.tile_offset = block.offset;
    result.tile = AddBlock(program_[s.target].name + "_tile", s.accumulate, block);
  }

  void PlaceApart(const tc::Statement& s, const Accumulator& acc, AccumulatorBuffer& result) {
    Block block{.shape = {2}, .bytes = 2 * SizeBytes(s.accumulate)};
    for (const Var v : acc.axes.at(Part::kUpdate)) {
      if (plan_[v].kind != LoopKind::kVector) continue;
      result.apart_lanes.push_back(v);
      result.apart_offset.push_back(plan_[v].range.lo);
      AddAxis(v, block);
    }
    result.apart = AddBlock(program_[s.target].name + "_apart", s.accumulate, block);
  }

  const ScheduleRequest& request_;
  const Plan& plan_;
  const tc::Program& program_;
  loops::LoopNest& nest_;
  Storage storage_;
  std::vector<std::vector<Touch>> touches_;
};

}  // namespace

Result<Storage> PlaceValues(const ScheduleRequest& request, const Plan& plan,
                            loops::LoopNest& nest) {
  return Placer(request, plan, nest).Run();
}

}  // namespace weft::polyhedral::lower
