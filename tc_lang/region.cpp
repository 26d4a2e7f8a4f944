#include "tc_lang/region.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"

namespace weft::tc {
namespace {

constexpr int64_t kMostCells = int64_t{1} << 24;
constexpr size_t kMostBoxes = 256;
constexpr int64_t kSampleParam = 37;

int64_t Extent(const Interval& i) { return i.empty() ? 0 : i.hi - i.lo + 1; }

// The number of cells, or more than kMostCells.
int64_t Cells(const IntBox& box) {
  int64_t cells = 1;
  for (const Interval& i : box) {
    if (i.empty()) return 0;
  }
  for (const Interval& i : box) {
    if (Extent(i) > kMostCells) return kMostCells + 1;
    cells *= Extent(i);
    if (cells > kMostCells) return kMostCells + 1;
  }
  return cells;
}

int64_t Sample(const Program& program, const Affine& e) {
  return e.Eval(std::vector<int64_t>(program.params.size(), kSampleParam));
}

std::vector<Affine> Left(const Program& program, const Statement& s) {
  std::vector<Affine> left;
  const auto count = static_cast<Var>(s.indices.size());
  for (ExprId id : s.subscripts) {
    const std::optional<Affine> e = AsAffineWithParams(program, s, id);
    WEFT_CHECK(e, "a subscript on the left that is not affine");
    left.push_back(
        e->Substitute([&](Var v) { return v < count ? Affine::OfVar(v) : Affine(kSampleParam); }));
  }
  return left;
}

// Calls visit(values) for all values of the given variables; `values` has room for all indices.
template <typename F>
void ForAll(const std::vector<Var>& vars, const IntBox& ranges, std::vector<int64_t>& values,
            F visit) {
  for (Var v : vars) {
    if (ranges[static_cast<size_t>(v)].empty()) return;
    values[static_cast<size_t>(v)] = ranges[static_cast<size_t>(v)].lo;
  }
  while (true) {
    visit(values);
    size_t k = vars.size();
    for (; k > 0; --k) {
      const auto v = static_cast<size_t>(vars[k - 1]);
      if (++values[v] <= ranges[v].hi) break;
      values[v] = ranges[v].lo;
    }
    if (k == 0) return;
  }
}

// Subscripts that share variables, directly or through others: each such part maps on its own.
struct Part {
  std::vector<size_t> dims;
  std::vector<Var> vars;
};

std::vector<Part> PartsOf(const std::vector<Affine>& left) {
  std::vector<Part> parts;
  for (size_t d = 0; d < left.size(); ++d) {
    Part part;
    part.dims = {d};
    left[d].CollectVars(part.vars);
    for (auto it = parts.begin(); it != parts.end();) {
      const bool shares = std::any_of(it->vars.begin(), it->vars.end(), [&](Var v) {
        return std::find(part.vars.begin(), part.vars.end(), v) != part.vars.end();
      });
      if (!shares) {
        ++it;
        continue;
      }
      part.dims.insert(part.dims.end(), it->dims.begin(), it->dims.end());
      for (Var v : it->vars) {
        if (std::find(part.vars.begin(), part.vars.end(), v) == part.vars.end())
          part.vars.push_back(v);
      }
      it = parts.erase(it);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

struct PartCount {
  int64_t cells = 0, instances = 0, box = 0;  // distinct cells; how many writes; size of their hull
};

// How a part covers its own hull, by trying all its instances. None if there are too many.
std::optional<PartCount> CountPart(const Part& part, const std::vector<Affine>& left,
                                   const IntBox& ranges, Work& work) {
  IntBox domain;
  for (Var v : part.vars) domain.push_back(ranges[static_cast<size_t>(v)]);
  PartCount count;
  count.instances = Cells(domain);
  if (count.instances > kMostCells / 4) return std::nullopt;
  const auto range = [&](Var v) { return ranges[static_cast<size_t>(v)]; };
  IntBox hull;
  for (size_t d : part.dims) hull.push_back(left[d].Bounds(range));
  count.box = Cells(hull);
  if (count.box > kMostCells || !work.Take(count.instances + count.box / 64)) return std::nullopt;
  std::vector<int64_t> values(ranges.size(), 0);
  std::vector<bool> seen(static_cast<size_t>(count.box), false);
  if (count.instances == 0) return count;
  ForAll(part.vars, ranges, values, [&](const std::vector<int64_t>& at) {
    int64_t cell = 0;
    for (size_t k = 0; k < part.dims.size(); ++k) {
      cell = cell * Extent(hull[k]) + left[part.dims[k]].Eval(at) - hull[k].lo;
    }
    if (!seen[static_cast<size_t>(cell)]) ++count.cells;
    seen[static_cast<size_t>(cell)] = true;
  });
  return count;
}

// A sum of indices times numbers, each number larger than all that the smaller ones can add up to,
// as the digits of a number are: no two instances give the same.
bool HasDigits(const Affine& e, const IntBox& ranges) {
  std::vector<std::pair<int64_t, int64_t>> digits;  // |coefficient|, the most it counts
  for (const Affine::Term& term : e.terms()) {
    if (term.dividend != nullptr) return false;
    const int64_t extent = Extent(ranges[static_cast<size_t>(term.var)]);
    if (extent > 1) digits.emplace_back(std::abs(term.coefficient), extent - 1);
  }
  std::sort(digits.begin(), digits.end());
  int64_t below = 0;
  for (const auto& [coefficient, most] : digits) {
    int64_t reach = 0;
    if (coefficient <= below || __builtin_mul_overflow(coefficient, most, &reach) ||
        __builtin_add_overflow(below, reach, &below)) {
      return false;
    }
  }
  return true;
}

bool IsPlain(const Affine& e) { return e.AsVar().has_value(); }

}  // namespace

IntBox RangesOf(const Program& program, const Statement& s) {
  IntBox out;
  for (const Index& index : s.indices)
    out.push_back({Sample(program, index.lo), Sample(program, index.hi) - 1});
  return out;
}

IntBox HullOf(const Program& program, TensorId tensor) {
  IntBox out;
  for (const Affine& extent : program[tensor].extents)
    out.push_back({0, Sample(program, extent) - 1});
  return out;
}

IntBox ReadBox(const Program& program, const Statement& s, const Expr& read) {
  const IntBox ranges = RangesOf(program, s);
  const auto count = static_cast<Var>(s.indices.size());
  const auto range = [&](Var v) {
    return v < count ? ranges[static_cast<size_t>(v)] : Interval{kSampleParam, kSampleParam};
  };
  IntBox out = HullOf(program, read.tensor);
  for (size_t d = 0; d < read.args.size(); ++d) {
    if (const std::optional<Affine> e = AsAffineWithParams(program, s, read.args[d]))
      out[d] = e->Bounds(range);
  }
  for (const Interval& i : ranges) {
    if (i.empty()) return IntBox(out.size(), Interval{0, -1});  // no instance reads
  }
  return out;
}

std::optional<bool> WritesEachCellOnce(const Program& program, const Statement& s, Work& work) {
  const std::vector<Affine> left = Left(program, s);
  const IntBox ranges = RangesOf(program, s);
  for (const Part& part : PartsOf(left)) {
    if (part.dims.size() == 1 && HasDigits(left[part.dims[0]], ranges)) continue;
    const std::optional<PartCount> count = CountPart(part, left, ranges, work);
    if (!count) return std::nullopt;
    if (count->cells != count->instances) return false;
  }
  return true;
}

Interval TightBounds(const Affine& e, const IntBox& ranges, const Interval& target) {
  const Interval loose = e.Bounds([&](Var v) {
    return static_cast<size_t>(v) < ranges.size() ? ranges[static_cast<size_t>(v)]
                                                  : Interval{kSampleParam, kSampleParam};
  });
  if (loose.lo >= target.lo && loose.hi <= target.hi) return loose;
  std::vector<Var> vars;
  e.CollectVars(vars);
  IntBox domain;
  for (Var v : vars) {
    if (static_cast<size_t>(v) >= ranges.size()) return loose;
    domain.push_back(ranges[static_cast<size_t>(v)]);
  }
  const int64_t cells = Cells(domain);
  if (cells == 0 || cells > (1 << 12)) return loose;
  std::vector<int64_t> values(ranges.size(), 0);
  Interval tight{loose.hi, loose.lo};
  ForAll(vars, ranges, values, [&](const std::vector<int64_t>& at) {
    const int64_t value = e.Eval(at);
    tight = {std::min(tight.lo, value), std::max(tight.hi, value)};
  });
  return tight;
}

Region::Region(IntBox hull) : hull_(std::move(hull)) {
  if (Cells(hull_) > 0) open_.push_back(hull_);
}

bool Region::Misses(const IntBox& box) const {
  if (!written_) {
    return std::any_of(open_.begin(), open_.end(), [&](const IntBox& open) {
      for (size_t d = 0; d < box.size(); ++d) {
        if (box[d].empty() || box[d].hi < open[d].lo || open[d].hi < box[d].lo) return false;
      }
      return true;
    });
  }
  IntBox clipped = box;
  std::vector<Var> vars;
  for (size_t d = 0; d < box.size(); ++d) {
    clipped[d] = {std::max(box[d].lo, hull_[d].lo), std::min(box[d].hi, hull_[d].hi)};
    vars.push_back(static_cast<Var>(d));
  }
  bool misses = false;
  std::vector<int64_t> values(box.size(), 0);
  ForAll(vars, clipped, values, [&](const std::vector<int64_t>& at) {
    int64_t cell = 0;
    for (size_t d = 0; d < at.size(); ++d) cell = cell * Extent(hull_[d]) + at[d] - hull_[d].lo;
    misses = misses || !(*written_)[static_cast<size_t>(cell)];
  });
  return misses;
}

// Each open box that meets `box` falls into the slabs around it.
void Region::Subtract(const IntBox& box) {
  std::vector<IntBox> kept;
  for (IntBox& open : open_) {
    bool meets = true;
    for (size_t d = 0; d < box.size(); ++d)
      meets = meets && box[d].lo <= open[d].hi && open[d].lo <= box[d].hi;
    if (!meets) {
      kept.push_back(std::move(open));
      continue;
    }
    for (size_t d = 0; d < box.size(); ++d) {
      if (open[d].lo < box[d].lo) {
        kept.push_back(open);
        kept.back()[d].hi = box[d].lo - 1;
        open[d].lo = box[d].lo;
      }
      if (box[d].hi < open[d].hi) {
        kept.push_back(open);
        kept.back()[d].lo = box[d].hi + 1;
        open[d].hi = box[d].hi;
      }
    }
  }
  open_ = std::move(kept);
}

bool Region::MakeBits(Work& work) {
  if (written_) return true;
  const int64_t cells = Cells(hull_);
  if (cells > kMostCells || !work.Take(cells)) return false;
  std::vector<bool> bits(static_cast<size_t>(cells), true);
  for (const IntBox& open : open_) {
    std::vector<Var> vars;
    for (size_t d = 0; d < open.size(); ++d) vars.push_back(static_cast<Var>(d));
    std::vector<int64_t> values(open.size(), 0);
    ForAll(vars, open, values, [&](const std::vector<int64_t>& at) {
      int64_t cell = 0;
      for (size_t d = 0; d < at.size(); ++d) cell = cell * Extent(hull_[d]) + at[d] - hull_[d].lo;
      bits[static_cast<size_t>(cell)] = false;
    });
  }
  written_ = std::move(bits);
  return true;
}

bool Region::WriteCells(const Program& program, const Statement& s, Work& work) {
  if (!MakeBits(work)) return false;
  const std::vector<Affine> left = Left(program, s);
  const IntBox ranges = RangesOf(program, s);
  std::vector<Var> vars;
  for (size_t v = 0; v < s.indices.size(); ++v) {
    if (!s.indices[v].reduction)
      vars.push_back(static_cast<Var>(v));
    else if (ranges[v].empty() && !s.init)
      return true;
  }
  IntBox domain;
  for (Var v : vars) domain.push_back(ranges[static_cast<size_t>(v)]);
  if (Cells(domain) > kMostCells || !work.Take(Cells(domain))) return false;
  std::vector<int64_t> values(s.indices.size(), 0);
  ForAll(vars, ranges, values, [&](const std::vector<int64_t>& at) {
    int64_t cell = 0;
    for (size_t d = 0; d < left.size(); ++d)
      cell = cell * Extent(hull_[d]) + left[d].Eval(at) - hull_[d].lo;
    (*written_)[static_cast<size_t>(cell)] = true;
  });
  return true;
}

bool Region::Write(const Program& program, const Statement& s, Work& work) {
  const std::vector<Affine> left = Left(program, s);
  const IntBox ranges = RangesOf(program, s);
  IntBox box;
  for (const Affine& e : left)
    box.push_back(e.Bounds([&](Var v) { return ranges[static_cast<size_t>(v)]; }));
  for (size_t v = 0; v < ranges.size(); ++v) {
    if (ranges[v].empty() && (!s.indices[v].reduction || !s.init))
      return true;  // nothing is written
  }
  bool full = !written_;
  for (const Part& part : PartsOf(left)) {
    if (!full) break;
    if (part.dims.size() == 1 &&
        (part.vars.empty() || IsPlain(left[part.dims[0]] - left[part.dims[0]].constant()))) {
      continue;
    }
    const std::optional<PartCount> count = CountPart(part, left, ranges, work);
    full = count && count->cells == count->box;
  }
  if (!full) return WriteCells(program, s, work);
  Subtract(box);
  return open_.size() <= kMostBoxes || MakeBits(work);
}

}  // namespace weft::tc
