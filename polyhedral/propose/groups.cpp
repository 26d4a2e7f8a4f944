// Which statements share loops.
#include <algorithm>
#include <set>

#include "polyhedral/access.h"
#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {

int64_t ClusterView::Extent(const std::string& axis) const {
  for (const Tile& block : blocks)
    if (block.axis == axis) return block.sizes[0];
  for (size_t k = 0; k < statements.size(); ++k) {
    for (size_t i = 0; i < axes[k].size(); ++i) {
      if (axes[k][i] != axis) continue;
      const Affine extent = At(k).indices[i].hi - At(k).indices[i].lo;
      return extent.IsConstant() ? extent.constant() : 0;
    }
  }
  return 0;
}

bool ClusterView::DividesBlock(const std::string& axis, int64_t size) const {
  return std::ranges::all_of(
      blocks, [&](const Tile& block) { return block.axis != axis || block.sizes[0] % size == 0; });
}

bool ClusterView::IsShared(const std::string& axis) const {
  return std::ranges::count(shared, axis) > 0;
}

ClusterView View(const ScheduleRequest& request, std::vector<int32_t> statements) {
  ClusterView view{.request = &request, .statements = std::move(statements)};
  view.axes = ClusterAxes(*request.program, view.statements);
  view.shared = SharedAxes(*request.program, view.statements, view.axes);
  view.anchor = AnchorOf(*request.program, view.statements);
  return view;
}

double Bytes(const tc::TensorDecl& tensor) {
  double bytes = static_cast<double>(Bits(tensor.dtype)) / 8;
  for (const Affine& extent : tensor.extents)
    bytes *= extent.IsConstant() ? static_cast<double>(extent.constant()) : 0;
  return bytes;
}

namespace {

// Reads below an expression, but not those of their subscripts.
void CollectOuterReads(const tc::Program& program, tc::ExprId id, std::vector<tc::ExprId>& out) {
  const tc::Expr& e = program[id];
  if (e.kind == tc::ExprKind::kRead) {
    out.push_back(id);
    return;
  }
  for (const tc::ExprId arg : e.args) CollectOuterReads(program, arg, out);
}

// Whether two reads of tensors of one shape have the same subscripts, affine ones.
bool AtSamePlace(const tc::Program& program, tc::ExprId a, tc::ExprId b) {
  const tc::Expr &x = program[a], &y = program[b];
  if (program[x.tensor].extents != program[y.tensor].extents) return false;
  return std::ranges::equal(x.args, y.args, [&](tc::ExprId i, tc::ExprId j) {
    const auto e = tc::AsAffine(program, i);
    return e && e == tc::AsAffine(program, j);
  });
}

bool Mentions(const tc::Program& program, tc::ExprId id, int32_t index) {
  const tc::Expr& e = program[id];
  if (e.kind == tc::ExprKind::kIndex) return e.position == index;
  return std::ranges::any_of(e.args, [&](tc::ExprId arg) { return Mentions(program, arg, index); });
}

}  // namespace

std::optional<Contraction> AsContraction(const tc::Program& program, const tc::Statement& s) {
  if (s.assign != tc::Assign::kSum || s.companion.valid()) return std::nullopt;
  tc::ExprId value = s.value;
  if (const auto guarded = tc::AsGuarded(program, value)) value = guarded->inside;
  const tc::Expr& e = program[value];
  if (e.kind != tc::ExprKind::kOp || e.op != ScalarOp::kMul) return std::nullopt;
  std::vector<tc::ExprId> reads;
  CollectOuterReads(program, value, reads);
  if (reads.size() < 2) return std::nullopt;
  Contraction c{.x = reads[0], .w = reads[1]};
  if (reads.size() > 2 && Reads(program, e.args[0]).size() > 1) return std::nullopt;
  for (const tc::ExprId read : std::span(reads).subspan(2)) {
    if (!AtSamePlace(program, c.w, read)) return std::nullopt;
    const auto is_same = [&](tc::ExprId other) {
      return program[other].tensor == program[read].tensor;
    };
    if (!is_same(c.w) && std::ranges::none_of(c.beside_w, is_same)) c.beside_w.push_back(read);
  }
  for (size_t i = 0; i < s.indices.size(); ++i) {
    (s.indices[i].reduction ? c.reduced : c.kept).push_back(static_cast<int32_t>(i));
  }
  const auto moves_one = [&](int32_t i) { return Uses(program, c.x, i) != Uses(program, c.w, i); };
  if (c.reduced.empty() || std::ranges::none_of(c.kept, moves_one)) return std::nullopt;
  return c;
}

Layout LayoutOf(const ScheduleRequest& request, const tc::TensorDecl& tensor) {
  const auto layout = request.layouts.find(tensor.name);
  return layout != request.layouts.end() ? layout->second : Layout::Plain(tensor.extents.size());
}

int64_t BytesBetween(const ScheduleRequest& request, tc::TensorId of,
                     const std::vector<tc::ExprId>& at, int32_t index) {
  const tc::Program& program = *request.program;
  const tc::TensorDecl& tensor = program[of];
  const auto shape = tc::StaticExtents(tensor);
  if (!shape || SharesBytes(tensor.dtype)) return 0;
  const Layout layout = LayoutOf(request, tensor);
  const std::vector<int64_t> strides = PhysicalStrides(layout, *shape);
  int64_t elements = 0;
  for (size_t place = 0; place < layout.axes.size(); ++place) {
    const auto sub = tc::AsAffine(program, at[static_cast<size_t>(layout.axes[place].axis)]);
    if (!sub) return 0;
    if (!sub->Uses(index)) continue;
    const int64_t step = sub->CoefficientOf(index);
    int64_t moved = 0;
    if (step == 0 || layout.axes[place].block != 0 ||
        __builtin_mul_overflow(step, strides[place], &moved) ||
        __builtin_add_overflow(elements, moved, &elements))
      return 0;
  }
  int64_t bytes = 0;
  return __builtin_mul_overflow(elements, SizeBytes(tensor.dtype), &bytes) ? 0 : std::abs(bytes);
}

int32_t ContiguousIndex(const ScheduleRequest& request, const tc::Statement& s, tc::TensorId tensor,
                        const std::vector<tc::ExprId>& subscripts) {
  if (subscripts.empty()) return -1;
  const auto innermost =
      static_cast<size_t>(LayoutOf(request, (*request.program)[tensor]).axes.back().axis);
  const auto e = tc::AsAffine(*request.program, subscripts[innermost]);
  if (!e) return -1;
  int32_t unit = -1;
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const auto v = static_cast<Var>(i);
    if (e->CoefficientOf(v) == 1 && !s.indices[i].reduction) unit = v;
    if (unit < 0 && e->AsVar() == v) unit = v;
  }
  return unit;
}

bool Turns(const ScheduleRequest& request, const tc::Statement& s) {
  const tc::Program& program = *request.program;
  const auto is_at_least = [&](int32_t index, int64_t extent) {
    const Affine own = s.indices[index].hi - s.indices[index].lo;
    return !own.IsConstant() || own.constant() >= extent;
  };
  const int32_t along = ContiguousIndex(request, s, s.target, s.subscripts);
  if (along < 0 || !is_at_least(along, 2)) return false;
  // Whether it lies along the same axis after all, if at strides or fractions. Axes of one element
  // lie anywhere: a vector by channel has them behind it.
  const auto is_row = [&](const tc::Expr& read) {
    const std::vector<Layout::Axis> axes = LayoutOf(request, program[read.tensor]).axes;
    for (size_t place = axes.size(); place-- > 0;) {
      const auto axis = static_cast<size_t>(axes[place].axis);
      if (program[read.tensor].extents[axis] == Affine(1)) continue;
      const auto e = tc::AsAffine(program, read.args[axis]);
      return e ? e->Uses(along) : Mentions(program, read.args[axis], along);
    }
    return false;
  };
  return std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
    const tc::Expr& e = program[read];
    const int32_t in = ContiguousIndex(request, s, e.tensor, e.args);
    const bool literal = program[e.tensor].role == tc::Role::kLiteral;
    return !literal && Uses(program, read, along) && in != along && !is_row(e) &&
           (in < 0 || is_at_least(in, kNarrow));
  });
}

bool SumsRows(const ScheduleRequest& request, const tc::Statement& s) {
  const tc::Program& program = *request.program;
  bool sums = false;
  for (const tc::ExprId read : tc::Reads(program, s)) {
    const tc::Expr& e = program[read];
    const int32_t along = ContiguousIndex(request, s, e.tensor, e.args);
    bool reduced = along >= 0 && s.indices[along].reduction;
    for (size_t i = 0; i < s.indices.size(); ++i)
      reduced |= s.indices[i].reduction && Uses(program, read, static_cast<int32_t>(i));
    if (!reduced) continue;
    if (along < 0 || (tc::Contracts(s) && !s.indices[along].reduction)) return false;
    sums = true;
  }
  return sums;
}

int32_t AxisOf(const tc::Program& program, tc::ExprId read, int32_t index) {
  const auto& args = program[read].args;
  for (size_t a = 0; a < args.size(); ++a) {
    const auto e = tc::AsAffine(program, args[a]);
    if (e && e->AsVar() == index) return static_cast<int32_t>(a);
  }
  return -1;
}

bool Uses(const tc::Program& program, tc::ExprId read, int32_t index) {
  return std::ranges::any_of(program[read].args, [&](tc::ExprId sub) {
    const auto e = tc::AsAffine(program, sub);
    return e ? e->Uses(index) : Mentions(program, sub, index);
  });
}

namespace {

// What lies where a read may look for the values of one index: along that, and what it looks up.
double SampledBytes(const tc::Program& program, tc::ExprId read, int32_t index) {
  const tc::Expr& e = program[read];
  auto bytes = static_cast<double>(SizeBytes(e.dtype));
  for (size_t axis = 0; axis < e.args.size(); ++axis) {
    const Affine& extent = program[e.tensor].extents[axis];
    const auto place = tc::AsAffine(program, e.args[axis]);
    if ((!place || place->Uses(index)) && extent.IsConstant())
      bytes *= static_cast<double>(extent.constant());
  }
  return bytes;
}

}  // namespace

int32_t BesideLookups(const ScheduleRequest& request, const tc::Statement& s, int64_t least) {
  const tc::Program& program = *request.program;
  if (request.target.kind != TargetKind::kCpu) return -1;  // threads look up each for itself
  const int32_t out = ContiguousIndex(request, s, s.target, s.subscripts);
  const auto is_table = [&](tc::ExprId read) {
    return program[program[read].tensor].role == tc::Role::kLiteral;
  };
  const auto lookups = [&](tc::ExprId read, int32_t index) {
    return std::ranges::count_if(program[read].args, [&](tc::ExprId sub) {
      return !tc::AsAffine(program, sub) && Mentions(program, sub, index) &&
             !std::ranges::all_of(tc::Reads(program, sub), is_table);
    });
  };
  int32_t beside = -1;
  int64_t longest = least - 1;
  for (const tc::ExprId read : tc::Reads(program, s)) {
    if (out < 0 || lookups(read, out) == 0) continue;
    const bool several = lookups(read, out) > 1;
    const int32_t along = ContiguousIndex(request, s, program[read].tensor, program[read].args);
    for (int32_t i = 0; i < std::ssize(s.indices); ++i) {
      const Affine extent = s.indices[i].hi - s.indices[i].lo;
      if (i == out || s.indices[i].reduction || !extent.IsConstant()) continue;
      if (!Uses(program, read, i) || lookups(read, i) > 0 || extent.constant() <= longest) continue;
      const bool near = SampledBytes(program, read, i) <= request.target.l1_bytes;
      if (i != along && !(several && near)) continue;
      beside = i;
      longest = extent.constant();
    }
  }
  return beside;
}

int32_t BesideLookups(const ScheduleRequest& request, const tc::Statement& s) {
  const Dtype dtype = (*request.program)[s.target].dtype;
  return BesideLookups(request, s, request.target.VectorBytes() / SizeBytes(dtype));
}

namespace {

bool IsPointwise(const tc::Statement& s) { return s.assign == tc::Assign::kSet && !tc::Reduces(s); }

class Grouper {
 public:
  Grouper(const ScheduleRequest& request, bool little)
      : request_(request), program_(*request.program), little_(little) {}

  std::vector<StatementGroup> Run(bool fuse) {
    const auto steps = tc::Steps(program_);
    std::vector<tc::Step> order;
    if (steps.ok()) order = *steps;
    for (const tc::Step& step : order) {
      if (step.first == step.last) {
        Add(static_cast<int32_t>(step.first), fuse);
        continue;
      }
      for (size_t s = step.first; s <= step.last; ++s) {
        const std::vector<int32_t> operands = WaitingFor(static_cast<int32_t>(s));
        for (const int32_t operand : operands) Append(operand, fuse);
        Forget(operands);
      }
      StatementGroup& group = groups_.emplace_back();
      for (size_t s = step.first; s <= step.last; ++s)
        group.statements.push_back(static_cast<int32_t>(s));
      group.loop = closed_ = true;
    }
    for (const int32_t s : waiting_) Append(s, fuse);
    return std::move(groups_);
  }

 private:
  void Add(int32_t s, bool fuse) {
    const std::vector<int32_t> operands = WaitingFor(s);
    if (fuse && operands.empty() && Widens(program_.statements[s]) && CanWait(s)) {
      waiting_.push_back(s);
      return;
    }
    if (Takes(operands, s, fuse)) {
      auto& statements = groups_.back().statements;
      statements.insert(statements.end(), operands.begin(), operands.end());
      statements.push_back(s);
    } else if (!operands.empty() &&
               std::ranges::none_of(operands, [&](int32_t o) { return ReadsLast(o); }) &&
               Takes({}, s, fuse)) {
      for (const int32_t operand : operands)
        groups_.insert(groups_.end() - 1, {.statements = {operand}});
      groups_.back().statements.push_back(s);
    } else if (fuse && Waits(s)) {
      return waiting_.push_back(s);
    } else {
      Gather(operands, s, fuse);
    }
    Forget(operands);
  }

  // s and what waits for it, which the last group does not take together: those right before s that
  // have its iterations begin a group with it, though none of them reads what another one does.
  void Gather(const std::vector<int32_t>& operands, int32_t s, bool fuse) {
    std::vector<int32_t> all = operands;
    all.push_back(s);
    const auto is_alike = [&](size_t from) {
      const std::vector<int32_t> rest(all.begin() + static_cast<int64_t>(from), all.end());
      const auto is_free = [&](int32_t k) {
        return IsPointwise(program_.statements[k]) && !Recurs(k);
      };
      return std::ranges::all_of(rest, is_free) && SameDomains(View(request_, rest));
    };
    size_t k = 0;
    for (; k + 1 < all.size() && !(fuse && is_alike(k)); ++k) Append(all[k], fuse);
    if (k + 1 == all.size()) return Append(s, fuse);
    groups_.push_back({.statements = {all.begin() + static_cast<int64_t>(k), all.end()}});
    closed_ = false;
  }

  void Forget(const std::vector<int32_t>& operands) {
    std::erase_if(waiting_, [&](int32_t w) { return std::ranges::count(operands, w) > 0; });
  }

  // Whether a statement reads what the last group makes.
  bool ReadsLast(int32_t s) const {
    const auto reads = [&](int32_t maker) { return Reads(s, maker); };
    return !groups_.empty() && std::ranges::any_of(groups_.back().statements, reads);
  }

  void Append(int32_t s, bool fuse) {
    if (Takes({}, s, fuse)) return groups_.back().statements.push_back(s);
    closed_ = Recurs(s);
    groups_.push_back({.statements = {s}, .loop = closed_});
  }

  bool Recurs(int32_t s) const {
    const auto indices = tc::RecurrenceIndices(program_, program_.statements[s]);
    return !indices.ok() || !indices->empty();
  }

  bool Takes(const std::vector<int32_t>& operands, int32_t s, bool fuse) const {
    return !closed_ && fuse && Joins(groups_.back().statements, operands, s);
  }

  // Of the statements that wait, those whose values s needs.
  std::vector<int32_t> WaitingFor(int32_t s) const {
    std::vector<int32_t> needed;
    std::vector<int32_t> users = {s};
    for (size_t w = waiting_.size(); w-- > 0;) {
      const auto reads = [&](int32_t user) { return Reads(user, waiting_[w]); };
      if (std::ranges::none_of(users, reads)) continue;
      users.push_back(waiting_[w]);
      needed.insert(needed.begin(), waiting_[w]);
    }
    return needed;
  }

  // Whether one statement reads what another makes.
  bool Reads(int32_t user, int32_t maker) const {
    const tc::Statement& made = program_.statements[maker];
    return std::ranges::any_of(
        tc::Reads(program_, program_.statements[user]), [&](tc::ExprId read) {
          return program_[read].tensor == made.target || program_[read].tensor == made.companion;
        });
  }

  // One that the schedule makes of an operand, so that it is read otherwise than it lies.
  bool IsCopy(int32_t s) const {
    return request_.copies.contains(program_[program_.statements[s].target].name);
  }

  // Whether s may run as late as its first reader, whose loops it may share: an operand of what
  // follows a contraction is best computed there, rather than stored before and loaded again.
  bool Waits(int32_t s) const { return !ReadsLast(s) && CanWait(s); }

  // Whether its values take more bytes than what it makes them from, so that they had better be
  // made by whoever reads them.
  bool Widens(const tc::Statement& s) const {
    int64_t widest = 0;
    for (const tc::ExprId read : tc::Reads(program_, s)) {
      bool each = true;
      for (int32_t i = 0; i < std::ssize(s.indices); ++i) each &= Uses(program_, read, i);
      if (each) widest = std::max<int64_t>(widest, Bits(program_[read].dtype));
    }
    return !s.indices.empty() && widest > 0 && widest < Bits(program_[s.target].dtype);
  }

  bool CanWait(int32_t s) const {
    const tc::Statement& statement = program_.statements[s];
    if (!IsPointwise(statement) || Recurs(s) || IsCopy(s)) return false;
    if (program_[statement.target].role != tc::Role::kTemporary || Turns(request_, statement))
      return false;
    const auto writers = [&](tc::TensorId tensor) {
      return std::ranges::count(program_.statements, tensor, &tc::Statement::target);
    };
    const bool written_again =
        std::ranges::any_of(tc::Reads(program_, statement),
                            [&](tc::ExprId read) { return writers(program_[read].tensor) > 1; });
    if (written_again || writers(statement.target) > 1) return false;
    const auto count = static_cast<int32_t>(program_.statements.size());
    for (int32_t user = 0; user < count; ++user)
      if (Reads(user, s) && (user < s || !IsPointwise(program_.statements[user]))) return false;
    return true;
  }

  bool Touches(const std::vector<int32_t>& group, int32_t s) const {
    for (const tc::ExprId read : tc::Reads(program_, program_.statements[s])) {
      for (const int32_t g : group) {
        const tc::Statement& other = program_.statements[g];
        if (program_[read].tensor == other.target || program_[read].tensor == other.companion)
          return true;
        for (const tc::ExprId r : tc::Reads(program_, other)) {
          if (program_[r].tensor == program_[read].tensor) return true;
        }
      }
    }
    return false;
  }

  // Whether s shares the loops of a group, and so do `operands` of its own right before it.
  bool Joins(const std::vector<int32_t>& group, const std::vector<int32_t>& operands,
             int32_t s) const {
    const auto brings = [&](int32_t operand) {
      return Widens(program_.statements[operand]) && Touches(group, operand);
    };
    if (!Touches(group, s) && std::ranges::none_of(operands, brings)) return false;
    if (std::ranges::any_of(group, [&](int32_t g) { return IsCopy(g); })) return false;
    std::vector<int32_t> all = group;
    all.insert(all.end(), operands.begin(), operands.end());
    all.push_back(s);
    const ClusterView view = View(request_, all);
    if (ReadsElsewhere(view)) return false;
    const tc::Statement& statement = program_.statements[s];
    const bool anchored = AsContraction(program_, view.At(view.anchor)).has_value() &&
                          view.statements[view.anchor] != s;
    if (anchored && SumsAnchor(view, s)) return true;
    if (anchored) {
      // An epilogue: every value it makes, it makes from the anchor's value at the same place.
      size_t kept = 0;
      for (const tc::Index& i : view.At(view.anchor).indices) kept += !i.reduction;
      const auto is_at_place = [&](int32_t other) {
        return program_.statements[other].indices.size() == kept;
      };
      return IsPointwise(statement) && view.shared.size() == kept && is_at_place(s) &&
             std::ranges::all_of(operands, is_at_place);
    }
    if (AsContraction(program_, statement) || LooksUpAcross(view, s)) return false;
    const size_t lone = std::ranges::count_if(
        group, [&](int32_t g) { return !IsPointwise(program_.statements[g]); });
    const bool pointwise = lone == 0 && IsPointwise(statement);
    if (pointwise)
      return SameDomains(view) || (ShareAllButShort(view) && !Turns(request_, statement));
    if (TurnsRows(group, s) || TakesAway(view, group)) return false;
    return (Tasks(view) >= request_.target.threads || IsLittle(view)) && IsNear(view, s);
  }

  // Whether some statement reads what another one makes in other iterations of a loop that they
  // would share, as a window along rows that were made one by one.
  bool ReadsElsewhere(const ClusterView& view) const {
    for (size_t from = 0; from < view.statements.size(); ++from)
      for (size_t to = from + 1; to < view.statements.size(); ++to)
        for (const tc::ExprId read : tc::Reads(program_, view.At(to)))
          if (program_[read].tensor == view.At(from).target && IsElsewhere(view, from, to, read))
            return true;
    return false;
  }

  bool IsElsewhere(const ClusterView& view, size_t from, size_t to, tc::ExprId read) const {
    const auto axis_of = [&](size_t k, tc::ExprId subscript) {
      const auto place = tc::AsAffine(program_, subscript);
      const auto index = place ? place->AsVar() : std::nullopt;
      return index ? view.axes[k][*index] : std::string();
    };
    const tc::Statement& maker = view.At(from);
    for (size_t a = 0; a < maker.subscripts.size(); ++a) {
      const std::string made = axis_of(from, maker.subscripts[a]);
      if (!made.empty() && view.IsShared(made) && axis_of(to, program_[read].args[a]) != made)
        return true;
    }
    return false;
  }

  // Whether s turns around what rows are made into that the group sums up, or sums up rows that
  // the group turns around: the lanes of one are not along the rows, and those of the other are.
  bool TurnsRows(const std::vector<int32_t>& group, int32_t s) const {
    if (request_.target.kind != TargetKind::kCpu) return false;
    const auto sums = [&](int32_t k) { return SumsRows(request_, program_.statements[k]); };
    const auto turns = [&](int32_t k) {
      return IsPointwise(program_.statements[k]) && Turns(request_, program_.statements[k]);
    };
    return (turns(s) && std::ranges::any_of(group, sums)) ||
           (sums(s) && std::ranges::any_of(group, turns));
  }

  // Whether what s makes in an iteration of the loops that it shares is still near when the next
  // statement wants it: else it does better in loops that it shares with those that come after it.
  bool IsNear(const ClusterView& view, int32_t s) const {
    double made = Bytes(program_[program_.statements[s].target]), iterations = 1;
    for (const std::string& axis : view.shared)
      iterations *= static_cast<double>(std::max<int64_t>(1, view.Extent(axis)));
    const int64_t cache = iterations > 1 ? request_.target.l2_bytes : request_.target.l1_bytes;
    return made / iterations <= static_cast<double>(cache) / 2;
  }

  // Whether an operand that the group passes over more than once stays in the cache from one pass
  // to the next in the loops of the group, and does not in those that are left with one more
  // statement.
  bool TakesAway(const ClusterView& view, const std::vector<int32_t>& group) const {
    if (request_.target.kind != TargetKind::kCpu) return false;
    const auto cache = static_cast<double>(request_.target.l2_bytes);
    const ClusterView before = View(request_, group);
    std::set<tc::TensorId> passed;
    for (size_t k = 0; k < group.size(); ++k) {
      std::set<tc::TensorId> own;
      for (const tc::ExprId read : tc::Reads(program_, view.At(k))) {
        const tc::TensorId tensor = program_[read].tensor;
        if (!own.insert(tensor).second || passed.insert(tensor).second) continue;
        if (BytesPassed(before, k, read) <= cache && BytesPassed(view, k, read) > cache)
          return true;
      }
    }
    return false;
  }

  // Less work than the barriers that would divide it among threads.
  bool IsLittle(const ClusterView& view) const {
    constexpr int64_t kLittle = 16384;  // operations: a microsecond of vectors
    if (!little_ || request_.target.kind != TargetKind::kCpu || view.shared.empty()) return false;
    int64_t computed = 0;
    for (size_t k = 0; k < view.statements.size(); ++k) {
      int64_t times = 1 + Computed(program_, view.At(k).value);
      for (const std::string& axis : view.axes[k]) {
        const int64_t extent = view.Extent(axis);
        if (extent <= 0 || extent > kLittle / times) return false;
        times *= extent;
      }
      computed += times;
      if (computed > kLittle) return false;
    }
    return true;
  }

  // Of what the k-th statement reads, those of an iteration of the loops that all share.
  double BytesPassed(const ClusterView& view, size_t k, tc::ExprId read) const {
    double bytes = Bytes(program_[program_[read].tensor]);
    for (size_t i = 0; i < view.axes[k].size(); ++i) {
      const std::string& axis = view.axes[k][i];
      if (view.IsShared(axis) && Uses(program_, read, static_cast<int32_t>(i)))
        bytes /= static_cast<double>(std::max<int64_t>(1, view.Extent(axis)));
    }
    return bytes;
  }

  // Whether the lanes of s are along an axis that the others, which make the places where it looks
  // something up, do not have.
  bool LooksUpAcross(const ClusterView& view, int32_t s) const {
    const tc::Statement& statement = program_.statements[s];
    const int32_t beside = BesideLookups(request_, statement);
    return beside >= 0 && !view.IsShared(view.axes.back()[static_cast<size_t>(beside)]);
  }

  // A sum over some of the places of the contraction before it, such as one of the blocks of its
  // reduction: what a tile of the one makes, the other takes while it is near.
  bool SumsAnchor(const ClusterView& view, int32_t s) const {
    const tc::Statement& statement = program_.statements[s];
    const tc::Statement& anchor = view.At(view.anchor);
    if (view.statements.size() != 2 || statement.assign != tc::Assign::kSum) return false;
    if (statement.companion.valid() || view.shared.empty()) return false;
    std::set<std::string> made, taken(view.axes[1].begin(), view.axes[1].end());
    const Contraction contraction = *AsContraction(program_, anchor);
    for (const int32_t i : contraction.kept) {
      const std::string& axis = view.axes[0][static_cast<size_t>(i)];
      made.insert(axis);
      // What it adds up along rows or columns of a tile would leave one of them.
      const bool both = Uses(program_, contraction.x, i) && Uses(program_, contraction.w, i);
      if (!view.IsShared(axis) && !both) return false;
    }
    if (made != taken) return false;
    for (const tc::ExprId read : tc::Reads(program_, statement)) {
      if (program_[read].tensor != anchor.target) continue;
      for (const tc::ExprId sub : program_[read].args) {
        const auto e = tc::AsAffine(program_, sub);
        if (!e || !e->AsVar()) return false;
      }
      return program_[anchor.target].role == tc::Role::kTemporary;
    }
    return false;
  }

  // Each does a little of its own in every iteration of what they share, and reads of the others
  // what they made in that iteration.
  bool ShareAllButShort(const ClusterView& view) const {
    constexpr int64_t kShort = 16;
    std::set<tc::TensorId> made;
    for (size_t k = 0; k < view.statements.size(); ++k) {
      int64_t own = 1;
      for (const std::string& axis : view.axes[k])
        if (!view.IsShared(axis)) own *= std::max<int64_t>(1, view.Extent(axis));
      if (own > kShort) return false;
      for (const tc::ExprId read : tc::Reads(program_, view.At(k))) {
        if (!made.contains(program_[read].tensor)) continue;
        for (const tc::ExprId sub : program_[read].args) {
          const auto e = tc::AsAffine(program_, sub);
          if (!e || (!e->IsConstant() && !e->AsVar())) return false;
        }
      }
      made.insert(view.At(k).target);
    }
    return view.shared.size() > 1;
  }

  static bool SameDomains(const ClusterView& view) {
    for (size_t k = 0; k < view.statements.size(); ++k) {
      if (view.At(k).indices.size() != view.shared.size()) return false;
    }
    return true;
  }

  // How many tasks the shared band has: its iterations, where those of the axis that lanes run
  // along come by whole vectors.
  int64_t Tasks(const ClusterView& view) const {
    const std::string lane = LaneAxis(view, Switches(view));
    int64_t tasks = view.shared.empty() ? 0 : 1;
    for (const std::string& axis : view.shared) {
      const int64_t extent = view.Extent(axis) > 0 ? view.Extent(axis) : 64;
      tasks *= axis == lane ? std::max<int64_t>(1, extent / loops::kMostLanes) : extent;
    }
    return tasks;
  }

  const ScheduleRequest& request_;
  const tc::Program& program_;
  const bool little_;  // see IsLittle
  std::vector<StatementGroup> groups_;
  bool closed_ = true;            // the last group takes no more
  std::vector<int32_t> waiting_;  // see Waits
};

}  // namespace

std::vector<StatementGroup> GroupStatements(const ScheduleRequest& request, bool fuse,
                                            bool little) {
  return Grouper(request, little).Run(fuse);
}

int32_t ParallelPrefix(const ClusterView& view, const Cluster& cluster) {
  for (size_t k = 0; k < view.statements.size(); ++k)
    if (WritesSharedBytes(view.program(), view.At(k))) return 0;
  int64_t tasks = 1;
  const int64_t wanted = int64_t{16} * view.request->target.threads;
  int32_t prefix = 0;
  for (const std::string& axis : cluster.order) {
    const int64_t extent = view.Extent(axis);
    if (tasks >= wanted && prefix > 0) break;
    if (extent == 0 && prefix > 0) break;  // only the first may have an open end
    int64_t tile = 1;
    for (const Tile& t : cluster.tiles) {
      if (t.axis == axis) tile = t.sizes[0];
    }
    tasks *= extent == 0 ? wanted : (extent + tile - 1) / tile;
    ++prefix;
  }
  return prefix;
}

}  // namespace weft::polyhedral
