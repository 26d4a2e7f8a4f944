// A schedule tree from isl's text: isl parses, this file copies what it finds into plain data.
#include <fmt/format.h>
#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/id.h>
#include <isl/schedule.h>
#include <isl/schedule_node.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/union_set.h>
#include <isl/val.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>

#include "affine/session.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

struct Free {
  void operator()(isl_schedule* p) const { isl_schedule_free(p); }
  void operator()(isl_schedule_node* p) const { isl_schedule_node_free(p); }
  void operator()(isl_union_set* p) const { isl_union_set_free(p); }
  void operator()(isl_multi_union_pw_aff* p) const { isl_multi_union_pw_aff_free(p); }
  void operator()(isl_union_pw_aff* p) const { isl_union_pw_aff_free(p); }
  void operator()(isl_aff* p) const { isl_aff_free(p); }
  void operator()(isl_val* p) const { isl_val_free(p); }
  void operator()(isl_id* p) const { isl_id_free(p); }
};
template <typename T>
using Ptr = std::unique_ptr<T, Free>;

int64_t Number(isl_val* value) {
  const Ptr<isl_val> owned(value);
  return value ? isl_val_get_num_si(value) : 0;
}

// floor(x / d) for a division of isl's, where x has rational coefficients over a common
// denominator.
Affine ToAffine(isl_aff* aff);

Affine FloorOf(isl_aff* division) {
  const Ptr<isl_aff> owned(division);
  const int64_t denominator = Number(isl_aff_get_denominator_val(division));
  if (denominator < 1) return 0;  // isl gave up on the way: the session says why
  const Ptr<isl_aff> whole(isl_aff_scale_val(
      isl_aff_copy(division), isl_val_int_from_si(isl_aff_get_ctx(division), denominator)));
  return FloorDiv(ToAffine(whole.get()), denominator);
}

// Coefficients must be integers; the caller has scaled rational ones away.
Affine ToAffine(isl_aff* aff) {
  Affine sum = Number(isl_aff_get_constant_val(aff));
  const int dims = std::max(0, isl_aff_dim(aff, isl_dim_in));
  for (int d = 0; d < dims; ++d) {
    sum += Affine::OfVar(d, Number(isl_aff_get_coefficient_val(aff, isl_dim_in, d)));
  }
  const int divs = std::max(0, isl_aff_dim(aff, isl_dim_div));
  for (int d = 0; d < divs; ++d) {
    const int64_t c = Number(isl_aff_get_coefficient_val(aff, isl_dim_div, d));
    if (c != 0) sum += FloorOf(isl_aff_get_div(aff, d)) * c;
  }
  return sum;
}

class Reader {
 public:
  explicit Reader(const tc::Program& program) : names_(StatementNames(program)) {}

  std::optional<TreeNode> Node(isl_schedule_node* node) {
    TreeNode result;
    switch (isl_schedule_node_get_type(node)) {
      case isl_schedule_node_domain:
        result.kind = TreeNode::Kind::kDomain;
        break;
      case isl_schedule_node_leaf:
        return result;
      case isl_schedule_node_sequence:
        result.kind = TreeNode::Kind::kSequence;
        break;
      case isl_schedule_node_band:
        if (!Band(node, result)) return std::nullopt;
        break;
      case isl_schedule_node_filter:
        result.kind = TreeNode::Kind::kFilter;
        if (!Statements(isl_schedule_node_filter_get_filter(node), result.statements)) {
          return std::nullopt;
        }
        break;
      case isl_schedule_node_mark: {
        const Ptr<isl_id> id(isl_schedule_node_mark_get_id(node));
        result.kind = TreeNode::Kind::kMark;
        result.mark = isl_id_get_name(id.get());
        break;
      }
      default:
        problem_ = "a node that is no band, sequence, filter or mark";
        return std::nullopt;
    }
    const int children = isl_schedule_node_n_children(node);
    for (int k = 0; k < children; ++k) {
      const Ptr<isl_schedule_node> child(isl_schedule_node_get_child(node, k));
      std::optional<TreeNode> below = Node(child.get());
      if (!below) return std::nullopt;
      const bool empty = below->kind == TreeNode::Kind::kLeaf;
      if (!empty) result.children.push_back(*std::move(below));
    }
    return result;
  }

  const std::string& problem() const { return problem_; }

 private:
  int32_t StatementOf(isl_space* space, isl_dim_type type) {
    const char* name = isl_space_get_tuple_name(space, type);
    const auto found = std::ranges::find(names_, name ? name : "");
    isl_space_free(space);
    if (found == names_.end()) {
      problem_ = fmt::format("no statement is called {}", name ? name : "");
      return -1;
    }
    return static_cast<int32_t>(found - names_.begin());
  }

  bool Statements(isl_union_set* filter, std::vector<int32_t>& out) {
    const Ptr<isl_union_set> owned(filter);
    struct Visit {
      Reader* self;
      std::vector<int32_t>* out;
    } visit{this, &out};
    const auto each = [](isl_set* set, void* user) {
      auto* v = static_cast<Visit*>(user);
      v->out->push_back(v->self->StatementOf(isl_set_get_space(set), isl_dim_set));
      isl_set_free(set);
      return isl_stat_ok;
    };
    isl_union_set_foreach_set(filter, each, &visit);
    std::ranges::sort(out);
    return problem_.empty();
  }

  bool Band(isl_schedule_node* node, TreeNode& result) {
    result.kind = TreeNode::Kind::kBand;
    result.permutable = isl_schedule_node_band_get_permutable(node) == isl_bool_true;
    const Ptr<isl_multi_union_pw_aff> schedule(isl_schedule_node_band_get_partial_schedule(node));
    const int members = isl_schedule_node_band_n_member(node);
    for (int m = 0; m < members; ++m) {
      result.coincident.push_back(isl_schedule_node_band_member_get_coincident(node, m) ==
                                  isl_bool_true);
      result.members.emplace_back();
      if (!Member(isl_multi_union_pw_aff_get_union_pw_aff(schedule.get(), m),
                  result.members.back())) {
        return false;
      }
    }
    return true;
  }

  bool Member(isl_union_pw_aff* member, std::map<int32_t, Affine>& out) {
    const Ptr<isl_union_pw_aff> owned(member);
    struct Visit {
      Reader* self;
      std::map<int32_t, Affine>* out;
      int32_t statement;
    } visit{this, &out, -1};
    const auto piece = [](isl_set* where, isl_aff* aff, void* user) {
      auto* v = static_cast<Visit*>(user);
      isl_set_free(where);
      const Ptr<isl_aff> owned_aff(aff);
      const bool again = v->out->contains(v->statement);
      if (again || Number(isl_aff_get_denominator_val(aff)) != 1) {
        v->self->problem_ = "a band member that is no single integer expression";
      }
      (*v->out)[v->statement] = ToAffine(aff);
      return isl_stat_ok;
    };
    struct Both {
      Visit visit;
      isl_stat (*piece)(isl_set*, isl_aff*, void*);
    } both{visit, piece};
    const auto each = [](isl_pw_aff* pw, void* user) {
      auto* b = static_cast<Both*>(user);
      b->visit.statement = b->visit.self->StatementOf(isl_pw_aff_get_space(pw), isl_dim_in);
      if (b->visit.statement >= 0) isl_pw_aff_foreach_piece(pw, b->piece, &b->visit);
      isl_pw_aff_free(pw);
      return isl_stat_ok;
    };
    isl_union_pw_aff_foreach_pw_aff(member, each, &both);
    return problem_.empty();
  }

  std::vector<std::string> names_;
  std::string problem_;
};

// The instances of the tree are those of the program, no more and no fewer.
bool SameDomain(const affine::Session& session, const tc::Program& program,
                isl_schedule* schedule) {
  const TreeNode bare{.kind = TreeNode::Kind::kDomain};
  const Ptr<isl_schedule> wanted(
      isl_schedule_read_from_str(session.ctx(), PrintTree(program, bare).text.c_str()));
  const Ptr<isl_union_set> a(isl_schedule_get_domain(schedule));
  const Ptr<isl_union_set> b(isl_schedule_get_domain(wanted.get()));
  return isl_union_set_is_equal(a.get(), b.get()) == isl_bool_true;
}

// isl's parser calls itself for a bracket, a sign, a question mark, an `exists`, and a child, which
// is indented: whether there are so few of them that its stack suffices.
bool IsShallow(std::string_view text) {
  constexpr int kMostNested = 200, kMostInARow = 200, kMostIndent = 1000, kMostWords = 10000;
  int nested = 0, signs = 0, words = 0, indent = 0;
  bool begins = true;  // the line
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto is = [&](std::string_view word) { return text.substr(i, word.size()) == word; };
    if (c == '(' || c == '[' || c == '{') ++nested;
    if (c == ')' || c == ']' || c == '}') --nested;
    if (c == '-' || c == '!' || is("not"))
      ++signs;
    else if (c != ' ' && c != 'o' && c != 't')
      signs = 0;
    words += c == '?' || is("exists");
    if (c == '\n') indent = 0;
    begins = c == '\n' || (begins && c == ' ');
    indent += begins && c == ' ';
    if (nested > kMostNested || signs > kMostInARow || words > kMostWords || indent > kMostIndent)
      return false;
  }
  return true;
}

// What the marks below the domain pack.
Verdict<std::vector<Pack>> PacksOf(isl_schedule_node* root) {
  std::vector<Pack> packs;
  Ptr<isl_schedule_node> node(isl_schedule_node_copy(root));
  while (isl_schedule_node_n_children(node.get()) == 1) {
    node.reset(isl_schedule_node_get_child(node.get(), 0));
    if (isl_schedule_node_get_type(node.get()) != isl_schedule_node_mark) break;
    const Ptr<isl_id> id(isl_schedule_node_mark_get_id(node.get()));
    std::istringstream words(isl_id_get_name(id.get()));
    std::string what, tensor, text;
    words >> what >> tensor >> text;
    if (what != "pack") continue;
    auto layout = ParseLayout(text);
    if (!layout.ok()) return Refusal{Reason::kChoiceDoesNotFit, layout.status().ToString()};
    packs.push_back({tensor, *std::move(layout)});
  }
  return packs;
}

}  // namespace

Verdict<OrderedProgram> ReadTree(const ScheduleRequest& request, const ScheduleTree& tree,
                                 const ScheduleLimits& limits) {
  if (!IsShallow(tree.text))
    return Refusal{Reason::kChoiceDoesNotFit, "the tree is nested too deep"};
  const ScheduleLimits most = limits.For(*request.program);
  const affine::Session session(most.isl_operations, most.isl_milliseconds);
  const Ptr<isl_schedule> schedule(isl_schedule_read_from_str(session.ctx(), tree.text.c_str()));
  if (auto failure = session.failure()) return *failure;
  if (!schedule) return Refusal{Reason::kIslError, "the text is no schedule tree"};
  const Ptr<isl_schedule_node> root(isl_schedule_get_root(schedule.get()));
  const auto packs = PacksOf(root.get());
  if (!packs.yes()) return packs.refusal();
  auto copied = WithCopies(request, *packs);
  if (!copied.yes()) return copied.refusal();
  const tc::Program& program = *copied->request.program;
  if (!SameDomain(session, program, schedule.get())) {
    if (auto failure = session.failure()) return *failure;
    return Refusal{Reason::kChoiceDoesNotFit, "the tree's domain is not the program's"};
  }
  Reader reader(program);
  std::optional<TreeNode> result = reader.Node(root.get());
  if (auto failure = session.failure()) return *failure;
  if (!result) return Refusal{Reason::kChoiceDoesNotFit, reader.problem()};
  return OrderedProgram{std::move(*copied), *std::move(result)};
}

}  // namespace weft::polyhedral
