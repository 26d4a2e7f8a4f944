#include "polyhedral/axes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

using Names = std::vector<std::string>;

struct Access {
  tc::TensorId tensor;
  bool write = false;
  std::vector<int32_t> index;               // per axis of the tensor: a plain index, or -1
  std::vector<std::optional<Affine>> sums;  // where it is no plain index, but affine
};

std::vector<Access> AccessesOf(const tc::Program& program, const tc::Statement& s) {
  const auto make = [&](tc::TensorId tensor, bool write,
                        const std::vector<tc::ExprId>& subscripts) {
    Access access{.tensor = tensor, .write = write};
    for (const tc::ExprId e : subscripts) {
      const auto affine = tc::AsAffine(program, e);
      access.index.push_back(affine ? affine->AsVar().value_or(-1) : -1);
      access.sums.push_back(access.index.back() < 0 ? affine : std::nullopt);
    }
    return access;
  };
  std::vector<Access> accesses{make(s.target, true, s.subscripts)};
  if (s.companion.valid()) accesses.push_back(make(s.companion, true, s.subscripts));
  for (const tc::ExprId read : tc::Reads(program, s)) {
    accesses.push_back(make(program[read].tensor, false, program[read].args));
  }
  return accesses;
}

class Aligner {
 public:
  Aligner(const tc::Program& program, const std::vector<int32_t>& statements)
      : program_(program), statements_(statements), axes_(statements.size()) {
    for (size_t k = 0; k < statements.size(); ++k) {
      axes_[k].resize(At(k).indices.size());
      accesses_.push_back(AccessesOf(program, At(k)));
    }
  }

  std::vector<Names> Run() {
    const size_t anchor = AnchorOf(program_, statements_);
    for (size_t i = 0; i < axes_[anchor].size(); ++i) axes_[anchor][i] = At(anchor).indices[i].name;
    AlignSteps(anchor);
    Spread(true);
    Spread(false);
    const Names names = StatementNames(program_);
    for (size_t round = 0; round < statements_.size(); ++round) {
      const size_t k = statements_.size() - 1 - round;  // consumers lend names to producers
      bool fresh = false;
      for (size_t i = 0; i < axes_[k].size(); ++i) {
        if (!axes_[k][i].empty()) continue;
        const std::string& plain = At(k).indices[i].name;
        axes_[k][i] = Taken(plain) ? names[statements_[k]] + "." + plain : plain;
        fresh = true;
      }
      if (fresh) Spread(true), Spread(false);
    }
    return axes_;
  }

 private:
  const tc::Statement& At(size_t k) const { return program_.statements[statements_[k]]; }

  // The statements of the anchor's recurrence step together by their first index, whether or not
  // data flows between them.
  void AlignSteps(size_t anchor) {
    if (!FeedsBack()) return;
    const auto steps = tc::Steps(program_);
    if (!steps.ok()) return;
    const auto holds = [&](const tc::Step& step, size_t k) {
      const auto s = static_cast<size_t>(statements_[k]);
      return step.first != step.last && step.first <= s && s <= step.last;
    };
    for (const tc::Step& step : *steps) {
      for (size_t k = 0; holds(step, anchor) && k < axes_.size(); ++k)
        if (holds(step, k)) axes_[k][0] = axes_[anchor][0];
    }
  }

  // Whether a statement reads what one after it writes.
  bool FeedsBack() const {
    for (size_t a = 0; a < accesses_.size(); ++a) {
      for (const Access& x : accesses_[a]) {
        for (size_t b = a + 1; !x.write && b < accesses_.size(); ++b)
          for (const Access& y : accesses_[b])
            if (y.write && y.tensor == x.tensor) return true;
      }
    }
    return false;
  }

  bool Taken(const std::string& name) const {
    return std::ranges::any_of(axes_,
                               [&](const Names& n) { return std::ranges::count(n, name) > 0; });
  }

  // Carries names along accesses of common tensors until nothing changes.
  void Spread(bool flow) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t a = 0; a < axes_.size(); ++a) {
        for (size_t b = 0; b < axes_.size(); ++b) {
          if (a != b) changed |= Carry(a, b, flow);
        }
      }
    }
  }

  bool Carry(size_t from, size_t to, bool flow) {
    bool changed = false;
    for (const Access& x : accesses_[from]) {
      for (const Access& y : accesses_[to]) {
        if (x.tensor != y.tensor || (flow && !x.write && !y.write)) continue;
        for (size_t axis = 0; axis < x.index.size(); ++axis) {
          auto pair = std::pair(x.index[axis], y.index[axis]);
          if (x.sums[axis] && y.sums[axis]) pair = OpenPair(*x.sums[axis], from, *y.sums[axis], to);
          changed |=
              pair.first >= 0 && pair.second >= 0 && CarryIndex(from, pair.first, to, pair.second);
        }
      }
    }
    return changed;
  }

  bool CarryIndex(size_t from, int32_t i, size_t to, int32_t j) {
    const std::string& name = axes_[from][i];
    std::string& other = axes_[to][j];
    if (name.empty() || !other.empty() || std::ranges::count(axes_[to], name) > 0) return false;
    const tc::Index &own = At(from).indices[i], &theirs = At(to).indices[j];
    if (!(own.lo == theirs.lo) || !(own.hi == theirs.hi)) return false;
    other = name;
    return true;
  }

  // Of two places that are the same sum of indices, such as channel 4 g + c, the pair of indices
  // that is left when all others are known to run along the same axes; (-1, -1) if there is none.
  std::pair<int32_t, int32_t> OpenPair(const Affine& a, size_t of_a, const Affine& b,
                                       size_t of_b) const {
    constexpr std::pair<int32_t, int32_t> kNone{-1, -1};
    std::vector<Var> of_x, of_y;
    a.CollectVars(of_x);
    b.CollectVars(of_y);
    std::map<Var, Var> partners;  // by their coefficients
    std::pair<int32_t, int32_t> open = kNone;
    for (const Var v : of_x) {
      const auto same = [&](Var u) { return b.CoefficientOf(u) == a.CoefficientOf(v); };
      if (std::ranges::count_if(of_y, same) != 1) return kNone;
      const Var u = *std::ranges::find_if(of_y, same);
      partners[v] = u;
      if (!axes_[of_b][u].empty() && axes_[of_a][v] == axes_[of_b][u]) continue;
      if (open != kNone) return kNone;
      open = {static_cast<int32_t>(v), static_cast<int32_t>(u)};
    }
    const auto renamed = a.TrySubstitute([&](Var v) { return Affine::OfVar(partners.at(v)); });
    return renamed == b ? open : kNone;
  }

  const tc::Program& program_;
  const std::vector<int32_t>& statements_;
  std::vector<Names> axes_;
  std::vector<std::vector<Access>> accesses_;
};

}  // namespace

size_t AnchorOf(const tc::Program& program, const std::vector<int32_t>& statements) {
  for (size_t k = 0; k < statements.size(); ++k)
    if (tc::Contracts(program.statements[statements[k]])) return k;
  return statements.size() - 1;
}

std::vector<std::vector<std::string>> ClusterAxes(const tc::Program& program,
                                                  const std::vector<int32_t>& statements) {
  if (statements.empty()) return {};
  return Aligner(program, statements).Run();
}

std::vector<std::string> SharedAxes(const tc::Program& program,
                                    const std::vector<int32_t>& statements,
                                    const std::vector<std::vector<std::string>>& axes) {
  std::vector<std::string> shared;
  if (statements.empty()) return shared;
  for (const std::string& name : axes[AnchorOf(program, statements)]) {
    bool everywhere = true;
    for (size_t k = 0; k < statements.size(); ++k) {
      const auto& indices = program.statements[statements[k]].indices;
      const auto found = std::ranges::find(axes[k], name);
      everywhere &= found != axes[k].end() && !indices[found - axes[k].begin()].reduction;
    }
    if (everywhere) shared.push_back(name);
  }
  return shared;
}

bool LooksUp(const tc::Program& program, const tc::Statement& s, tc::TensorId table) {
  return program[table].role == tc::Role::kInput &&
         std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
           const tc::Expr& e = program[read];
           return e.tensor == table && std::ranges::any_of(e.args, [&](tc::ExprId sub) {
                    return !tc::Reads(program, sub).empty();
                  });
         });
}

bool WritesSharedBytes(const tc::Program& program, const tc::Statement& s) {
  const auto shares = [&](tc::TensorId id) {
    return id.valid() && program[id].role == tc::Role::kOutput && SharesBytes(program[id].dtype);
  };
  return shares(s.target) || shares(s.companion);
}

}  // namespace weft::polyhedral
