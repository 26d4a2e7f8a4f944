// Where temporaries will lie, as far as those who read them tell.
#include <algorithm>
#include <set>

#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

class Guesser {
 public:
  explicit Guesser(const ScheduleRequest& request)
      : request_(request), program_(*request.program), lanes_(program_.statements.size(), -1) {}

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
      const int32_t axis = AxisOfReaders(s.target, k);
      if (axis < 0) continue;
      const auto along = tc::AsAffine(program_, s.subscripts[static_cast<size_t>(axis)]);
      lanes_[k] = along ? along->AsVar().value_or(-1) : -1;
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
  std::vector<int32_t> lanes_;  // by statement, an index of it; -1: not known
};

}  // namespace

ScheduleRequest WithTemporaries(const ScheduleRequest& request) {
  ScheduleRequest guessed = request;
  if (request.target.kind == TargetKind::kCpu) guessed.layouts.merge(Guesser(request).Run());
  return guessed;
}

}  // namespace weft::polyhedral
