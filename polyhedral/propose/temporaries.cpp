// Where temporaries will lie, as far as those who read them tell.
#include <algorithm>
#include <set>

#include "polyhedral/access.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

class Guesser {
 public:
  explicit Guesser(const ScheduleRequest& request)
      : request_(request), program_(*request.program), lanes_(program_.statements.size(), -1) {
    for (const tc::Statement& s : program_.statements) Follow(s);
  }

  // From the results on: a statement's lanes are along what its target is contiguous along.
  std::map<std::string, Layout> Run() {
    std::map<std::string, Layout> guesses;
    for (size_t k = program_.statements.size(); k-- > 0;) {
      const tc::Statement& s = program_.statements[k];
      const tc::TensorDecl& target = program_[s.target];
      const bool open =
          target.role == tc::Role::kTemporary && !request_.layouts.contains(target.name);
      if (!open) {
        lanes_[k] = ContiguousIndex(request_, s, s.target, s.subscripts);
        continue;
      }
      int32_t axis = AxisOfReaders(s.target, k);
      if (axis < 0) continue;
      if (const int32_t along = RowsOf(s.target).axis;
          along >= 0 && (ScalesRows(s) || SumsAcross(s, along) || MeetsRows(s, axis)))
        axis = along;
      const auto place = tc::AsAffine(program_, s.subscripts[static_cast<size_t>(axis)]);
      lanes_[k] = place ? place->AsVar().value_or(-1) : -1;
      const size_t rank = target.extents.size();
      if (static_cast<size_t>(axis) + 1 == rank) continue;
      Layout layout = Layout::Plain(rank);
      const auto inner = layout.axes.begin() + axis;
      std::rotate(inner, inner + 1, layout.axes.end());
      guesses.emplace(target.name, std::move(layout));
    }
    return guesses;
  }

 private:
  // How a tensor would lie if readers had no say: the axis along which what it is made of is
  // contiguous; -1 if that is up to loops, as for a contraction. And whether it depends on sums
  // along such an axis.
  struct Rows {
    int32_t axis = -1;
    bool summed = false;
  };

  Rows RowsOf(tc::TensorId tensor) const {
    if (const auto found = rows_.find(tensor); found != rows_.end()) return found->second;
    const auto layout = request_.layouts.find(program_[tensor].name);
    const auto rank = static_cast<int32_t>(program_[tensor].extents.size());
    return {.axis = layout == request_.layouts.end() ? rank - 1 : layout->second.axes.back().axis};
  }

  // The index that is a subscript, but for an offset; -1: none.
  int32_t IndexOf(tc::ExprId subscript) const {
    const auto e = tc::AsAffine(program_, subscript);
    return e ? (*e - e->constant()).AsVar().value_or(-1) : -1;
  }

  // The index that goes along the rows of what is read along most indices; -1: none.
  int32_t AlongRows(const tc::Statement& s) const {
    int32_t along = -1;
    int64_t most = 0;
    for (const tc::ExprId read : tc::Reads(program_, s)) {
      const int32_t axis = RowsOf(program_[read].tensor).axis;
      int64_t used = 0;
      for (int32_t i = 0; i < std::ssize(s.indices); ++i) used += Uses(program_, read, i);
      if (axis < 0 || used <= most) continue;
      along = IndexOf(program_[read].args[static_cast<size_t>(axis)]);
      most = used;
    }
    return along;
  }

  bool IsNarrow(const tc::Statement& s, int32_t index) const {
    const Affine extent = s.indices[index].hi - s.indices[index].lo;
    return extent.IsConstant() && extent.constant() < kNarrow;
  }

  void Follow(const tc::Statement& s) {
    const tc::TensorDecl& target = program_[s.target];
    if (target.role != tc::Role::kTemporary || request_.layouts.contains(target.name)) return;
    if (AsContraction(program_, s)) {
      rows_[s.target] = {};
      return;
    }
    const int32_t along = AlongRows(s);
    Rows rows;
    for (size_t sub = 0; along >= 0 && sub < s.subscripts.size(); ++sub)
      if (IndexOf(s.subscripts[sub]) == along) rows.axis = static_cast<int32_t>(sub);
    if (along < 0) rows.axis = SlidAxis(s);
    rows.summed = along >= 0 && s.indices[along].reduction;
    for (const tc::ExprId read : tc::Reads(program_, s))
      rows.summed |= RowsOf(program_[read].tensor).summed;
    rows_[s.target] = rows;
    if (s.companion.valid()) rows_[s.companion] = rows;
  }

  // Whether s sums up rows that it reads, across or by windows, which leaves rows along this axis.
  // Its lanes run along them: across them each would gather all that it sums up.
  bool SumsAcross(const tc::Statement& s, int32_t axis) const {
    const int32_t along = IndexOf(s.subscripts[static_cast<size_t>(axis)]);
    return along >= 0 && tc::Reduces(s) && !tc::Contracts(s) && !IsNarrow(s, along);
  }

  // The axis of what s makes along which it slides windows along the rows of what it reads; -1:
  // none.
  int32_t SlidAxis(const tc::Statement& s) const {
    if (!tc::Reduces(s) || tc::Contracts(s)) return -1;
    for (const tc::ExprId read : tc::Reads(program_, s)) {
      const int32_t rows = RowsOf(program_[read].tensor).axis;
      if (rows < 0) continue;
      const AccessClass access = Classify(program_, s, program_[read].args);
      const Subscript& at = access.subscripts[static_cast<size_t>(rows)];
      if (!SlidesAlong(s, at)) continue;
      for (size_t sub = 0; sub < s.subscripts.size(); ++sub)
        if (std::ranges::count(at.indices, IndexOf(s.subscripts[sub])) > 0)
          return static_cast<int32_t>(sub);
    }
    return -1;
  }

  // Whether s computes from several tensors that lie along rows, and fewer that lie as its readers
  // want its values, along `axis`: these are turned around once, behind it.
  bool MeetsRows(const tc::Statement& s, int32_t axis) const {
    const int32_t rows = AlongRows(s), wanted = IndexOf(s.subscripts[static_cast<size_t>(axis)]);
    if (tc::Reduces(s) || rows < 0 || wanted < 0 || rows == wanted || IsNarrow(s, rows))
      return false;
    int64_t along = 0, across = 0;
    for (const tc::ExprId read : tc::Reads(program_, s)) {
      const int32_t last = RowsOf(program_[read].tensor).axis;
      if (last < 0 || !Uses(program_, read, wanted) || !Uses(program_, read, rows)) continue;
      const int32_t index = IndexOf(program_[read].args[static_cast<size_t>(last)]);
      along += index == rows;
      across += index == wanted;
    }
    return along > across + 1;
  }

  // Whether s takes rows and what is one value for each of them, a sum along it, as norms do. Its
  // lanes run along the row then, like those of the sum: turned around, for a reader that wants it
  // along another axis, it is once, but what is summed up would be read across in every pass.
  bool ScalesRows(const tc::Statement& s) const {
    const int32_t along = AlongRows(s);
    if (along < 0 || s.indices[along].reduction || IsNarrow(s, along)) return false;
    return std::ranges::any_of(tc::Reads(program_, s), [&](tc::ExprId read) {
      return RowsOf(program_[read].tensor).summed && !Uses(program_, read, along);
    });
  }

  // Whether a read goes along an axis only to reduce it, which may be done along lanes; a window
  // goes on with what is kept.
  bool ReducesAxis(const tc::Statement& s, tc::ExprId read) const {
    return std::ranges::any_of(program_[read].args, [&](tc::ExprId sub) {
      const auto e = tc::AsAffine(program_, sub);
      bool reduces = false, keeps = false;
      for (int32_t i = 0; i < std::ssize(s.indices); ++i)
        if (!e || e->Uses(i)) (s.indices[i].reduction ? reduces : keeps) = true;
      return reduces && !keeps;
    });
  }

  // The axis along which statement r would have what it reads contiguous: that of its lanes, unless
  // it reduces one. The factor of a contraction that is the same in all lanes is taken along the
  // sum. -1: it has no say.
  int32_t Wanted(size_t r, tc::ExprId read) const {
    const tc::Statement& s = program_.statements[r];
    if (Uses(program_, read, lanes_[r]))
      return ReducesAxis(s, read) ? -1 : AxisOf(program_, read, lanes_[r]);
    if (!AsContraction(program_, s)) return -1;
    int32_t axis = -1;
    for (int32_t i = 0; i < std::ssize(s.indices); ++i)
      if (const int32_t along = AxisOf(program_, read, i); s.indices[i].reduction && along >= 0)
        axis = along;
    return axis;
  }

  // The one axis that readers behind statement k want. -1: none, or several.
  int32_t AxisOfReaders(tc::TensorId tensor, size_t k) const {
    std::set<int32_t> axes;
    for (size_t r = k + 1; r < program_.statements.size(); ++r) {
      const tc::Statement& reader = program_.statements[r];
      if (lanes_[r] < 0) continue;
      for (const tc::ExprId read : tc::Reads(program_, reader)) {
        if (program_[read].tensor != tensor) continue;
        if (const int32_t axis = Wanted(r, read); axis >= 0) axes.insert(axis);
      }
    }
    return axes.size() == 1 ? *axes.begin() : -1;
  }

  const ScheduleRequest& request_;
  const tc::Program& program_;
  std::vector<int32_t> lanes_;         // by statement, an index of it; -1: not known
  std::map<tc::TensorId, Rows> rows_;  // of temporaries
};

}  // namespace

ScheduleRequest WithTemporaries(const ScheduleRequest& request) {
  ScheduleRequest guessed = request;
  if (request.target.kind == TargetKind::kCpu) guessed.layouts.merge(Guesser(request).Run());
  return guessed;
}

}  // namespace weft::polyhedral
