// Is a schedule tree legal? Each dependence walks down the tree from the root, as a set of pairs of
// instances (i, j), j after i, until every pair is known to be in order.
//
// At a permutable band no member may take any pair backwards: then the band may be tiled and its
// members interchanged. That is asked of the members' untiled forms, since floor(e/T) never turns
// e's order round; asking about tiles directly costs ten times as much. Pairs that a band does not
// tell apart go on to its child. At a sequence the filters' order decides.
#include <fmt/format.h>

#include <algorithm>

#include "affine/set.h"
#include "polyhedral/scop.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

using affine::Set;
using Kind = TreeNode::Kind;

enum class Answer : uint8_t { kLegal, kIllegal, kUnknown };

// floor(e/T) as (e, T), times any positive factor; (e, 1) otherwise.
std::pair<Affine, int64_t> WithoutTile(const Affine& e) {
  if (e.terms().size() != 1 || e.constant() != 0) return {e, 1};
  const Affine::Term& t = e.terms()[0];
  if (!t.dividend || t.coefficient <= 0) return {e, 1};
  return {*t.dividend, t.divisor * t.coefficient};
}

class Walk {
 public:
  Walk(const affine::Session& session, const tc::Program& program, const Dependence& d)
      : program_(program),
        d_(d),
        from_(static_cast<Var>(program.statements[d.from].indices.size())),
        to_(static_cast<Var>(program.statements[d.to].indices.size())),
        joined_(d.kind == Dependence::Kind::kFirst &&
                FirstIsLeast(program, program.statements[d.from])),
        pairs_(Pairs(session)) {}

  Answer Run(const TreeNode& root) { return Down(root, pairs_, Marks{}); }
  const std::string& where() const { return where_; }

 private:
  struct Marks {
    int32_t parallel = 0;
    bool vector = false, turn = false;
  };

  // Variables of the set: indices of `from`, indices of `to`, params.
  Affine Shift(const Affine& e, Var first, Var indices) const {
    return e.Substitute([&](Var v) {
      return Affine::OfVar(v < indices ? first + v : from_ + to_ + (v - indices));
    });
  }
  Affine Source(const Affine& e) const { return Shift(e, 0, from_); }
  Affine Sink(const Affine& e) const { return Shift(e, from_, to_); }

  Set Pairs(const affine::Session& session) const {
    const auto params = static_cast<Var>(program_.params.size());
    Set set = Set::Universe(session, from_ + to_ + params);
    const auto range = [&](int32_t statement, Var first) {
      const auto& indices = program_.statements[statement].indices;
      for (size_t i = 0; i < indices.size(); ++i) {
        const Affine v = Affine::OfVar(first + static_cast<Var>(i));
        const auto bound = [&](const Affine& e) {
          return e.Substitute([&](Var p) { return Affine::OfVar(from_ + to_ + p); });
        };
        set = set.Where(v - bound(indices[i].lo)).Where(bound(indices[i].hi) - 1 - v);
      }
    };
    range(d_.from, 0);
    range(d_.to, from_);
    for (size_t a = 0; a < d_.source.size(); ++a) {
      if (d_.source[a] && d_.sink[a])
        set = set.WhereZero(Source(*d_.source[a]) - Sink(*d_.sink[a]));
    }
    if (d_.level) set = Later(std::move(set), *d_.level);
    if (d_.distance) set = set.Where(Affine::OfVar(from_) - Affine::OfVar(0) - *d_.distance);
    return set;
  }

  // Of one reduction, the pairs that the program's order tells apart at an index.
  Set Later(Set set, int32_t level) const {
    const auto& indices = program_.statements[d_.from].indices;
    for (Var i = 0; i <= level; ++i) {
      const Affine apart = Affine::OfVar(from_ + i) - Affine::OfVar(i);
      if (i == level) {
        set = set.Where(apart - 1);
      } else if (indices[static_cast<size_t>(i)].reduction) {
        set = set.WhereZero(apart);
      }
    }
    return set;
  }

  Answer IsNever(const Set& set, std::string where) {
    const std::optional<bool> empty = set.IsEmpty();
    if (!empty) return Answer::kUnknown;
    if (!*empty && where_.empty()) where_ = std::move(where);
    return *empty ? Answer::kLegal : Answer::kIllegal;
  }

  Answer Down(const TreeNode& node, Set pairs, Marks marks) {
    switch (node.kind) {
      case Kind::kMark:
        if (node.mark.starts_with("parallel ")) marks.parallel = std::atoi(node.mark.c_str() + 9);
        if (node.mark == "vector") marks.vector = true;
        if (node.mark == "turn") marks.turn = true;
        return Child(node, std::move(pairs), marks);
      case Kind::kBand:
        return Band(node, std::move(pairs), marks);
      case Kind::kSequence:
        return Sequence(node, std::move(pairs));
      case Kind::kDomain:
      case Kind::kFilter:
        return Child(node, std::move(pairs), marks);
      case Kind::kLeaf:
        return Leaf(pairs);
    }
    return Answer::kUnknown;
  }

  Answer Child(const TreeNode& node, Set pairs, Marks marks) {
    return node.children.empty() ? Leaf(pairs) : Down(node.children[0], std::move(pairs), marks);
  }

  // Pairs that nothing has told apart. Sums may touch their cell in any order.
  Answer Leaf(const Set& pairs) {
    if (d_.kind == Dependence::Kind::kSameCell) return Answer::kLegal;
    return IsNever(pairs, "nothing orders the two");
  }

  Answer Sequence(const TreeNode& node, Set pairs) {
    size_t from = 0, to = 0;
    for (size_t k = 0; k < node.children.size(); ++k) {
      const auto& filter = node.children[k].statements;
      if (std::ranges::binary_search(filter, d_.from)) from = k;
      if (std::ranges::binary_search(filter, d_.to)) to = k;
    }
    if (from == to) return Down(node.children[from], std::move(pairs), {});
    if (from < to) return Answer::kLegal;
    return IsNever(pairs, "the sequence runs them the other way round");
  }

  Answer Band(const TreeNode& node, Set pairs, Marks marks) {
    const bool same_cell = d_.kind == Dependence::Kind::kSameCell;
    for (size_t m = 0; m < node.members.size(); ++m) {
      const auto a = node.members[m].find(d_.from), b = node.members[m].find(d_.to);
      if (a == node.members[m].end() || b == node.members[m].end()) return Answer::kUnknown;
      const Affine apart = Sink(b->second) - Source(a->second);
      const auto [e, s] = WithoutTile(a->second);
      const auto [f, t] = WithoutTile(b->second);
      const Affine untiled = s == t ? Sink(f) - Source(e) : apart;
      const std::string name = fmt::format("member {} of a band", m);
      if (!same_cell) {
        const Answer back = IsNever(pairs.Where(-untiled - 1), name + " takes it backwards");
        if (back != Answer::kLegal) return back;
      }
      // A loop that turns keeps no order, as one that is shared out.
      const bool parallel = static_cast<int32_t>(m) < marks.parallel || (m == 0 && marks.turn);
      const bool lanes = marks.vector && m + 1 == node.members.size() && !same_cell && !joined_;
      // Equal untiled members are the common case: then the tiles are equal too.
      const std::optional<bool> equal = pairs.WhereNot(untiled).IsEmpty();
      if (!equal) return Answer::kUnknown;
      if (*equal) continue;
      if (parallel || lanes) {
        const Answer apart_never =
            IsNever(pairs.WhereNot(apart), name + " is parallel and carries it");
        if (apart_never != Answer::kLegal) return apart_never;
      } else if (!node.permutable) {
        pairs = pairs.WhereZero(apart);
      }
    }
    if (node.permutable && !same_cell) pairs = NotCarried(node, std::move(pairs));
    return Child(node, std::move(pairs), {});
  }

  Set NotCarried(const TreeNode& node, Set pairs) const {
    for (const auto& member : node.members) {
      const Affine apart = Sink(member.at(d_.to)) - Source(member.at(d_.from));
      const std::optional<bool> equal = pairs.WhereNot(apart).IsEmpty();
      if (equal != true) pairs = pairs.WhereZero(apart);
    }
    return pairs;
  }

  const tc::Program& program_;
  const Dependence& d_;
  Var from_, to_;
  bool joined_;  // lanes that reduce are put in order when they are joined
  Set pairs_;
  std::string where_;
};

}  // namespace

Verdict<bool> CheckLegal(const ScheduleRequest& request, const ScheduleTree& tree,
                         const ScheduleLimits& limits) {
  const auto ordered = ReadTree(request, tree, limits);
  if (!ordered.yes()) return ordered.refusal();
  const tc::Program& program = *ordered->copied.request.program;
  const ScheduleLimits most = limits.For(*request.program);
  const affine::Session session(most.isl_operations, most.isl_milliseconds);
  const Scop scop = Analyze(program);
  for (const Dependence& d : scop.dependences) {
    Walk walk(session, program, d);
    const Answer answer = walk.Run(ordered->root);
    if (auto failure = session.failure()) return *failure;
    if (answer == Answer::kUnknown)
      return Refusal{Reason::kIslError, "no answer for " + Print(program, d)};
    if (answer == Answer::kIllegal) {
      return Refusal{Reason::kIllegalSchedule,
                     fmt::format("{}: {}", Print(program, d), walk.where())};
    }
  }
  return true;
}

}  // namespace weft::polyhedral
