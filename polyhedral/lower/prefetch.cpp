#include "polyhedral/lower/prefetch.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/memory.h"
#include "polyhedral/access.h"

namespace weft::polyhedral::lower {
namespace {

using loops::LoopKind;

// A panel that is over sooner is so before its successor has come from memory. Measured with panels
// of 1 KiB: 12.0 GB/s when the next one is fetched, 14.0 two ahead, 17.1 four ahead, 17.3 from
// eight to 64 ahead.
constexpr int64_t kLeastAheadBytes = 4096, kMostAheadBytes = 16384;
// So what is fetched straight ahead may run over the end of its operand at no cost.
static_assert(kMostAheadBytes <= kReadableBehindBytes);

int64_t ElemsOfLine(Dtype dtype) {
  constexpr int64_t kLineBits = 512;  // of a cache
  return std::max<int64_t>(1, kLineBits / Bits(dtype));
}

// As they lie in memory; 0 if some extent is open.
int64_t KnownElems(const loops::Buffer& buffer) {
  const bool known = std::ranges::all_of(buffer.shape, &Affine::IsConstant);
  return known ? AllocElems(buffer.layout, loops::StoredShape(buffer)) : 0;
}

bool IsReduced(const Plan& plan, const Unit& unit, Var v) {
  const auto& indices = plan.program->statements[unit.statement].indices;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i].reduction && unit.index[i].Uses(v)) return true;
  return false;
}

// A panel is what the loops inside the last one that chooses it walk over. They walk over it once
// for each turn of those among them that leave the operand where it is (rows): so its successor can
// be fetched in as many pieces, evenly, instead of in one burst that the memory can't keep up with.
// What no loop walks over again is a panel if it lies in one piece.
class Panel {
 public:
  // What `chooser` chooses, where another unit's panel is walked over too; -1: its own.
  Panel(const Plan& plan, const Unit& unit, const Affine& offset, Var chooser = -1)
      : plan_(plan), offset_(offset) {
    size_t at = 0;
    if (chooser >= 0) {
      while (at < unit.dims.size() && unit.dims[at] != chooser) ++at;
      if (at++ == unit.dims.size() || !offset_.Uses(chooser)) return;
    } else {
      size_t rows = unit.dims.size();
      while (rows > 0 && !IsRow(unit.dims[rows - 1])) --rows;
      at = rows > 0 ? rows : Reduced(unit);
      while (at > 0 && !(Loops(unit.dims[at - 1]) && offset_.Uses(unit.dims[at - 1]))) --at;
    }
    if (at == 0) return;
    chooser_ = unit.dims[at - 1];
    for (size_t i = at; i < unit.dims.size(); ++i) {
      const Var v = unit.dims[i];
      if (offset.Uses(v) && plan_[v].range.hi < kOpen) walked_ *= Extent(v);
      if (!Loops(v)) continue;
      (!offset.Uses(v) && steps_.empty() ? rows_ : steps_).push_back(v);
    }
  }

  Var chooser() const { return chooser_; }

  // Where in memory to look ahead, over dimensions, and how many elements from there on until the
  // next step; nullopt if no panel follows another. `elems` of the operand; 0: unknown.
  struct Piece {
    Affine at;
    int64_t elems = 0;
    bool straight = false;
  };
  // What is walked over once is fetched `straight_bytes` ahead.
  std::optional<Piece> Ahead(int64_t bits, int64_t elems, int64_t straight_bytes) const {
    if (chooser_ < 0 || steps_.empty()) return std::nullopt;
    const auto open = [&](Var v) { return plan_[v].range.hi >= kOpen; };
    if (std::ranges::any_of(rows_, open) || std::ranges::any_of(steps_, open)) return std::nullopt;
    const Affine here = offset_.Substitute([&](Var v) {
      const bool within = std::ranges::count(steps_, v) > 0 || !Loops(v);
      return plan_.IsDim(v) && within ? Affine(plan_[v].range.lo) : Affine::OfVar(v);
    });
    const Affine size = here.Substitute([&](Var v) {
      return v == chooser_ ? Affine::OfVar(v) + 1 : Affine::OfVar(v);
    }) - here;
    if (!size.IsConstant() || size.constant() <= 0) return std::nullopt;
    const int64_t panel = size.constant(), turns = Count(rows_), steps = Count(steps_);
    // A strip of a matrix: each of its rows continues as the next one's.
    if (rows_.empty() && walked_ == panel * steps && steps > 1 &&
        2 * panel * bits <= kMostAheadBytes * 8)
      return Piece{.at = Walked() + panel, .elems = panel};
    if (rows_.empty() && (walked_ < panel || walked_ >= 2 * panel)) return std::nullopt;
    // Elements per step; and how many turns fetch the same piece when there are more than enough.
    const int64_t same = std::max<int64_t>(1, turns * steps / panel);
    const int64_t stride =
        std::max<int64_t>(1, (panel * same + turns * steps - 1) / (turns * steps));
    // What is walked over once, from end to end, is fetched as it goes on: a whole panel ahead, two
    // large ones would be more than the cache holds, and each line come from memory twice.
    const Affine straight = here + Counter(steps_) * stride;
    if (rows_.empty() && panel * bits > straight_bytes * 8 && straight == Walked())
      return Piece{straight + straight_bytes * 8 / bits, stride, true};
    const int64_t least = kLeastAheadBytes * 8 / bits;
    // No further than most of its panels have successors.
    const int64_t by = std::clamp<int64_t>((least + panel - 1) / panel, 1,
                                           std::max<int64_t>(1, Extent(chooser_) / 2));
    // The last large one fetches itself: behind the operand there may be no page, and what is not
    // there is looked for again at each of its thousands of prefetches (37 cycles on Zen 1).
    Affine successor = here + by * panel;
    if (by == 1 && elems > 0) successor = successor - FloorDiv(successor, elems) * panel;
    return Piece{successor + (FloorDiv(Counter(rows_), same) * steps + Counter(steps_)) * stride,
                 stride};
  }

 private:
  bool Loops(Var v) const {
    return plan_[v].kind == LoopKind::kSerial || plan_[v].kind == LoopKind::kParallel;
  }
  bool IsRow(Var v) const { return Loops(v) && Extent(v) > 1 && !offset_.Uses(v); }
  // Where the loops are, at the first lane and row of a tile.
  Affine Walked() const {
    return offset_.Substitute([&](Var v) {
      return plan_.IsDim(v) && !Loops(v) ? Affine(plan_[v].range.lo) : Affine::OfVar(v);
    });
  }
  // Where the innermost loops over what is reduced begin.
  size_t Reduced(const Unit& unit) const {
    size_t at = unit.dims.size();
    while (at > 0 && (!Loops(unit.dims[at - 1]) || IsReduced(plan_, unit, unit.dims[at - 1]))) --at;
    return at;
  }
  int64_t Extent(Var v) const { return plan_[v].range.hi - plan_[v].range.lo + 1; }
  int64_t Count(const std::vector<Var>& dims) const {
    int64_t count = 1;
    for (const Var v : dims) count *= Extent(v);
    return count;
  }
  Affine Counter(const std::vector<Var>& dims) const {
    Affine counter = 0;
    for (const Var v : dims) counter = counter * Extent(v) + Affine::OfVar(v) - plan_[v].range.lo;
    return counter;
  }

  const Plan& plan_;
  const Affine& offset_;
  Var chooser_ = -1;
  std::vector<Var> rows_, steps_;
  int64_t walked_ = 1;  // elements of a panel, with the ends of tiles that are not whole
};

// What gathers of a unit will read some iterations of a loop later.
class Rows {
 public:
  Rows(const Plan& plan, const Storage& storage, Scope& scope, Values& values, const Active& active,
       const SerialLoop& loop, loops::LoopNest& nest)
      : plan_(plan),
        program_(*plan.program),
        storage_(storage),
        scope_(scope),
        values_(values),
        active_(active),
        loop_(loop),
        nest_(nest) {}

  Stmts Run() {
    constexpr int64_t kAhead = 8;  // rows in the last cache: 1.8 times as fast; in memory: 1.1
    const auto decides = [&](const Constraint& c) {
      return c.limit != Limit::kHint && c.e.Uses(loop_.dim);
    };
    const auto [lo, hi] = loop_.piece;
    if (hi - lo < kAhead || std::ranges::any_of(active_.open, decides)) return {};
    const std::vector<Values::Gathered> all = values_.FindGathered(*active_.unit);
    std::set<int32_t> reads;
    for (const Values::Gathered& g : all)
      if (IsPrefetched(g.read)) reads.insert(g.read.index);
    Stmt later{.kind = loops::StmtKind::kIf,
               .conditions = {Affine(hi - kAhead) - Affine::OfVar(loop_.var)}};
    scope_.Bind(loop_.dim, Affine::OfVar(loop_.var) + kAhead, {lo + kAhead, hi});
    for (const int32_t read : reads) {
      std::vector<Values::Gathered> needed;  // inner ones first, as they stand
      for (const Values::Gathered& g : all)
        if (Contains(tc::ExprId(read), g.read)) needed.push_back(g);
      if (IsKnown(needed)) Fetch(tc::ExprId(read), needed, later.body);
    }
    scope_.Bind(loop_.dim, Affine::OfVar(loop_.var), loop_.piece);
    if (later.body.empty()) return {};
    return {loops::AddStmt(nest_, std::move(later))};
  }

 private:
  using Stmt = loops::Stmt;

  bool IsPrefetched(tc::ExprId read) const {
    const tc::Expr& e = program_[read];
    return e.kind == tc::ExprKind::kRead &&
           std::ranges::count(plan_.prefetches, program_[e.tensor].name) > 0;
  }

  bool Contains(tc::ExprId expr, tc::ExprId part) const {
    return expr == part || std::ranges::any_of(program_[expr].args,
                                               [&](tc::ExprId arg) { return Contains(arg, part); });
  }

  // The subscripts that are loaded are so whatever else holds, and depend on nothing inside of the
  // loop but on the loop.
  bool IsKnown(const std::vector<Values::Gathered>& subscripts) const {
    bool moves = false;
    for (const Values::Gathered& g : subscripts) {
      if (!g.taken.guards.empty() || !g.taken.conditions.empty()) return false;
      for (const Affine& e : g.needs) {
        if (!scope_.Bound(e)) return false;
        moves |= e.Uses(loop_.dim);
      }
    }
    return moves;
  }

  // The subscripts, then the lines that the loops and lanes inside walk over.
  void Fetch(tc::ExprId read, const std::vector<Values::Gathered>& subscripts, Stmts& into) {
    constexpr int64_t kMostLines = 16;  // the rest of a long row the processor sees coming
    Active later{.unit = active_.unit};
    for (const Values::Gathered& g : subscripts) into.push_back(values_.Let(later, g));
    std::vector<Var> inside;
    for (const Var d : active_.unit->dims)
      if (!scope_.Bound(d)) inside.push_back(d);
    const auto offset = [&](bool last) {
      for (const Var d : inside) {
        const int64_t at = last ? plan_[d].range.hi : plan_[d].range.lo;
        scope_.Bind(d, at, {at, at});
      }
      Affine e = values_.Offset(later, read);
      for (const Var d : inside) scope_.Release(d);
      return e;
    };
    const Affine first = offset(false), elems = offset(true) - first;
    const loops::BufferId buffer = storage_.views[program_[read].tensor.index].buffer;
    const int64_t line = ElemsOfLine(nest_[buffer].dtype),
                  most = std::min(elems.IsConstant() ? elems.constant() : 0, kMostLines * line - 1);
    for (int64_t at = 0; at <= most; at += line)
      into.push_back(loops::AddStmt(nest_, {.kind = loops::StmtKind::kPrefetch,
                                            .buffer = buffer,
                                            .index = {first + at},
                                            .near = true}));
  }

  const Plan& plan_;
  const tc::Program& program_;
  const Storage& storage_;
  Scope& scope_;
  Values& values_;
  const Active& active_;
  const SerialLoop& loop_;
  loops::LoopNest& nest_;
};

}  // namespace

Stmts PrefetchRows(const Plan& plan, const Storage& storage, Scope& scope, Values& values,
                   const Active& active, const SerialLoop& loop, loops::LoopNest& nest) {
  return Rows(plan, storage, scope, values, active, loop, nest).Run();
}

namespace {

std::optional<std::vector<Affine>> IndexOf(const Plan& plan, const Unit& unit, tc::ExprId read) {
  std::vector<Affine> index;
  for (const tc::ExprId sub : (*plan.program)[read].args) {
    const auto at = SubscriptOf(*plan.program, sub, unit.index);
    if (!at) return std::nullopt;
    index.push_back(*at);
  }
  return index;
}

std::optional<Affine> OffsetOf(const Plan& plan, const Storage& storage, const Unit& unit,
                               tc::ExprId read, const loops::LoopNest& nest) {
  const auto index = IndexOf(plan, unit, read);
  if (!index) return std::nullopt;
  const tc::TensorId tensor = (*plan.program)[read].tensor;
  return loops::ElementOffset(nest[storage.views[tensor.index].buffer], *index);
}

bool IsWindow(const Plan& plan, const Unit& unit, tc::ExprId read) {
  const tc::Statement& s = plan.program->statements[unit.statement];
  const AccessClass access = Classify(*plan.program, s, (*plan.program)[read].args);
  return unit.part == Part::kUpdate &&
         std::ranges::any_of(access.subscripts,
                             [&](const Subscript& at) { return SlidesAlong(s, at); });
}

// Several units may walk over one panel one after the other, as the passes of a softmax do. Memory
// brings its successor while one of them computes, so that is for the one which takes longest: what
// is asked for in a pass that only reads waits for memory there, and memory for the others
// afterwards. Storing past the caches takes as long as ten operations, which hide behind it; a pass
// that stores into them asks for lines already. Measured, us: rows of 4 KB on Zen 5 1478 in the
// pass of the exponentials, 1993 in that of the results, 2455 in that of the maxima; root mean
// squares of rows of 3 KB on Zen 3 3434 in the pass of the results, 4981 in that of the squares.
// Which dimension chooses the panels that `unit` is to fetch the successors of; -1: none.
Var FetchesPanelOf(const Plan& plan, const Storage& storage, const Unit& unit, tc::TensorId tensor,
                   const loops::LoopNest& nest) {
  const tc::Program& program = *plan.program;
  const loops::Buffer& buffer = nest[storage.views[tensor.index].buffer];
  const auto offset_of = [&](const Unit& u) -> std::optional<Affine> {
    for (const tc::ExprId read : tc::Reads(program, u.value))
      if (program[read].tensor == tensor) return OffsetOf(plan, storage, u, read, nest);
    return std::nullopt;
  };
  const auto chooser_of = [&](const Unit& u) -> Var {
    const auto offset = u.part == Part::kUpdate ? offset_of(u) : std::nullopt;
    return offset ? Panel(plan, u, *offset).chooser() : -1;
  };
  Var chooser = chooser_of(unit);
  for (const Unit& other : plan.units) {
    if (chooser >= 0) break;
    const Var v = chooser_of(other);
    if (std::ranges::count(unit.dims, v) > 0) chooser = v;
  }
  if (chooser < 0) return -1;
  const auto rank = [&](const Unit& u) {
    constexpr int64_t kStreamed = 10, kStored = -1;  // behind all that store nothing
    const tc::TensorDecl& made = program[program.statements[u.statement].target];
    const bool passes = u.part == Part::kWhole && made.role == tc::Role::kOutput,
               streams = passes && std::ranges::count(plan.streams, made.name) > 0;
    const int64_t computed = Computed(program, u.value);
    return std::pair(streams ? kStreamed : passes ? kStored : computed, computed);
  };
  const auto may_fetch = [&](const Unit& u) {
    const auto offset = offset_of(u);
    return offset && Panel(plan, u, *offset, chooser)
                         .Ahead(Bits(buffer.dtype), KnownElems(buffer), kMostAheadBytes)
                         .has_value();
  };
  for (const Unit& other : plan.units) {
    if (&other == &unit || (other.part != Part::kWhole && other.part != Part::kUpdate)) continue;
    if (std::ranges::count(other.dims, chooser) == 0 || !may_fetch(other)) continue;
    if (other.part == Part::kUpdate && chooser_of(other) != chooser) continue;
    if (rank(other) > rank(unit) || (rank(other) == rank(unit) && &other < &unit)) return -1;
  }
  return chooser;
}

// The reads whose tensors are to be fetched ahead, one of each.
std::vector<tc::ExprId> Fetched(const Plan& plan, const Unit& unit) {
  const tc::Program& program = *plan.program;
  std::vector<tc::ExprId> reads;
  for (const tc::ExprId read : tc::Reads(program, unit.value)) {
    const tc::TensorId tensor = program[read].tensor;
    const auto is_same = [&](tc::ExprId other) { return program[other].tensor == tensor; };
    if (std::ranges::count(plan.prefetches, program[tensor].name) > 0 &&
        std::ranges::none_of(reads, is_same))
      reads.push_back(read);
  }
  return reads;
}

}  // namespace

Stmts PrefetchPanels(const Plan& plan, const Storage& storage, const Scope& scope, const Unit& unit,
                     Var innermost, loops::LoopNest& nest) {
  Stmts stmts;
  const bool last = std::ranges::none_of(unit.dims, [&](Var v) {
    return !scope.Bound(v) && plan[v].kind != LoopKind::kUnroll &&
           plan[v].kind != LoopKind::kVector;
  });
  if ((unit.part != Part::kUpdate && unit.part != Part::kWhole) || !last ||
      plan[innermost].kind != LoopKind::kSerial)
    return stmts;
  const tc::Program& program = *plan.program;
  const std::vector<tc::ExprId> fetched = Fetched(plan, unit);
  // Where a number is made of several tensors of few bits, instructions that unpack it fill the
  // window in which a processor finds the next loads: all of them are fetched into the nearest
  // cache, as many elements ahead. Measured on Zen 5, weights of 28 bits in three tensors, GB/s: 36
  // not fetched, 38 into the second cache, 41 to 42 into the nearest, of 42 that memory brings.
  int64_t widest = 1;
  bool unpacks = false;
  for (const tc::ExprId read : fetched) {
    widest = std::max<int64_t>(widest, Bits(program[read].dtype));
    unpacks |= fetched.size() > 1 && Bits(program[read].dtype) < 32;
  }
  for (const tc::ExprId read : fetched) {
    const tc::TensorId tensor = program[read].tensor;
    if (IsWindow(plan, unit, read)) continue;  // see PrefetchWindow
    const auto offset = OffsetOf(plan, storage, unit, read, nest);
    const Var chooser = offset ? FetchesPanelOf(plan, storage, unit, tensor, nest) : -1;
    if (chooser < 0) continue;
    const loops::BufferId buffer = storage.views[tensor.index].buffer;
    const int64_t bits = Bits(nest[buffer].dtype);
    const auto ahead = Panel(plan, unit, *offset, chooser)
                           .Ahead(bits, KnownElems(nest[buffer]),
                                  unpacks ? kMostAheadBytes * bits / widest : kMostAheadBytes);
    if (!ahead || !scope.Bound(ahead->at)) continue;
    const int64_t line = ElemsOfLine(nest[buffer].dtype);
    for (int64_t first = 0; first < ahead->elems; first += line)
      stmts.push_back(loops::AddStmt(nest, {.kind = loops::StmtKind::kPrefetch,
                                            .buffer = buffer,
                                            .index = {scope.Place(ahead->at + first)},
                                            .near = ahead->straight && unpacks}));
  }
  return stmts;
}

namespace {

// The part of an operand that a window in one place reads.
class Window {
 public:
  Window(const Plan& plan, const Scope& scope, const Unit& unit, const loops::Buffer& buffer,
         std::vector<Affine> index)
      : plan_(plan), buffer_(buffer), index_(std::move(index)), spans_(index_.size(), 1) {
    for (size_t a = 0; a < index_.size(); ++a) {
      for (const Var v : unit.dims) {
        if (scope.Bound(v) || !index_[a].Uses(v)) continue;
        const int64_t by = index_[a].CoefficientOf(v);
        const auto [lo, hi] = plan_[v].range;
        const bool known = by != 0 && hi < kOpen && lo > kOpenLo && hi - lo < kMostSpan;
        spans_[a] = known ? std::min(kMostSpan, spans_[a] + std::abs(by) * (hi - lo)) : kMostSpan;
        const Affine first = known ? (by < 0 ? hi : lo) : 0;
        index_[a] = index_[a].Substitute([&](Var w) { return w == v ? first : Affine::OfVar(w); });
      }
    }
  }

  // The last of the loops around the window that moves it from row to row.
  Var LoopOverRows(std::span<const Var> around) const {
    for (size_t i = around.size(); i-- > 0;) {
      const Var v = around[i];
      for (size_t a = 0; a < index_.size(); ++a)
        if (a != Along() && index_[a].CoefficientOf(v) > 0) return v;
    }
    return -1;
  }

  // The first elements of lines that the window reads for the first time `kAheadBytes` after those
  // which it reads in this iteration of `rows`; none if they are many.
  std::vector<Affine> LinesAhead(Var rows) const {
    // Zen 5, planes of 256x256 that no cache holds, 3x3 by 2 steps: 2324 us without, 1739 and 1652
    // when 4 and 8 KiB are ahead. A long row is gone again when its turn comes, and the processor
    // sees it coming: rows of 256 KB 0.91 of the time without, of 800 KB 1.1 to 1.3.
    constexpr int64_t kAheadBytes = 8192, kLongBytes = 256 << 10;
    constexpr size_t kMostLines = 128;
    const int64_t line = ElemsOfLine(buffer_.dtype);
    std::vector<Affine> at = index_;
    std::vector<int64_t> spans = spans_;
    for (size_t a = 0; a < at.size(); ++a) {
      const int64_t by = at[a].CoefficientOf(rows);
      if (by <= 0) continue;
      at[a] += std::max<int64_t>(0, spans[a] - by);  // what lies before that it has seen
      spans[a] = std::min(spans[a], by);
    }
    const auto later = [&](int64_t steps) {
      std::vector<Affine> moved;
      for (const Affine& e : at)
        moved.push_back(e.Substitute(
            [&](Var v) { return v == rows ? Affine::OfVar(v) + steps : Affine::OfVar(v); }));
      return moved;
    };
    const Affine step = loops::ElementOffset(buffer_, later(1)) - loops::ElementOffset(buffer_, at);
    if (!step.IsConstant() || step.constant() <= 0) return {};
    const int64_t bytes = std::max<int64_t>(1, step.constant() * Bits(buffer_.dtype) / 8);
    if (bytes > kLongBytes || plan_[rows].range.hi >= kOpen) return {};
    const int64_t extent = plan_[rows].range.hi - plan_[rows].range.lo + 1;
    at = later(std::clamp<int64_t>((kAheadBytes + bytes - 1) / bytes, 1,
                                   std::max<int64_t>(1, extent / 2)));
    // Rows one after the other, along each of them line by line.
    std::vector<std::vector<Affine>> places = {at};
    const auto spread = [&](size_t a, int64_t by) {
      std::vector<std::vector<Affine>> all;
      for (const std::vector<Affine>& place : places) {
        for (int64_t more = 0; more < spans[a]; more += by) {
          all.push_back(place);
          all.back()[a] += more;
          if (all.size() > kMostLines) return false;
        }
      }
      places = std::move(all);
      return true;
    };
    for (size_t a = 0; a < spans.size(); ++a)
      if (a != Along() && !spread(a, 1)) return {};
    if (!spread(Along(), line)) return {};
    std::vector<Affine> lines;
    for (const std::vector<Affine>& place : places)
      lines.push_back(loops::ElementOffset(buffer_, place));
    return lines;
  }

 private:
  static constexpr int64_t kMostSpan = 4096;
  // The axis whose neighbours are neighbours in memory.
  size_t Along() const { return static_cast<size_t>(buffer_.layout.axes.back().axis); }

  const Plan& plan_;
  const loops::Buffer& buffer_;
  std::vector<Affine> index_;   // of its first element
  std::vector<int64_t> spans_;  // elements of each axis
};

}  // namespace

Stmts PrefetchWindow(const Plan& plan, const Storage& storage, const Scope& scope, const Unit& unit,
                     Var around, loops::LoopNest& nest) {
  Stmts stmts;
  const auto loops = [&](Var v) {  // one of one iteration is none
    const bool loop = plan[v].kind == LoopKind::kSerial || plan[v].kind == LoopKind::kParallel;
    return loop && plan[v].range.lo < plan[v].range.hi;
  };
  const auto inside =
      std::ranges::find_if(unit.dims, [&](Var v) { return IsReduced(plan, unit, v); });
  const auto here = std::ranges::find(unit.dims, around);
  if (here >= inside || !loops(around) || std::any_of(here + 1, inside, loops)) return stmts;
  for (const tc::ExprId read : Fetched(plan, unit)) {
    auto index = IndexOf(plan, unit, read);  // none: some of it is looked up
    if (!index || !IsWindow(plan, unit, read)) continue;
    const loops::BufferId buffer = storage.views[(*plan.program)[read].tensor.index].buffer;
    const Window window(plan, scope, unit, nest[buffer], *std::move(index));
    std::vector<Var> outside(unit.dims.begin(), here + 1);
    std::erase_if(outside, [&](Var v) { return !loops(v); });
    const Var rows = window.LoopOverRows(outside);
    if (rows < 0) continue;
    for (const Affine& at : window.LinesAhead(rows)) {
      if (!scope.Bound(at)) break;
      stmts.push_back(loops::AddStmt(nest, {.kind = loops::StmtKind::kPrefetch,
                                            .buffer = buffer,
                                            .index = {scope.Place(at)},
                                            .near = true}));
    }
  }
  return stmts;
}

}  // namespace weft::polyhedral::lower
