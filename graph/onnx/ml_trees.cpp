// Ensembles of decision trees, of ai.onnx.ml. All trees of all rows are walked at once, one level a
// step: the state [N, trees] is the node that each has reached, and tables say what comes next.
// Leaves lead to themselves, so that shallow trees wait for deep ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "graph/onnx/ml.h"

namespace weft::graph::ml {
namespace {

constexpr int64_t kDeepest = 256;  // levels, each some nodes of the graph

enum Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };

struct Branch {
  int64_t feature = 0;
  double split = 0;
  Mode mode = kLeq;
  bool missing = false;  // NaN takes the true branch
  int64_t yes = 0, no = 0;
};

struct Weight {
  int64_t leaf = 0, target = 0;
  double value = 0;
};

// Places of nodes: branches from 0, leaves from branches.size() on.
struct Forest {
  std::vector<Branch> branches;
  int64_t leaves = 0;
  std::vector<int64_t> roots;
  std::vector<Weight> weights;
  int64_t targets = 0;
};

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

// Levels from the roots to the deepest leaf; an error for a cycle. Depth first without recursion.
Result<int64_t> Depth(const Forest& forest) {
  constexpr int64_t kNew = -1, kOpen = -2;
  const auto count = std::ssize(forest.branches);
  std::vector<int64_t> height(static_cast<size_t>(count), kNew);  // above the leaves
  const auto known = [&](int64_t node) {
    return node >= count ? 0 : height[static_cast<size_t>(node)];
  };
  int64_t deepest = 0;
  for (int64_t root : forest.roots) {
    std::vector<int64_t> path = {root};
    while (!path.empty()) {
      const int64_t node = path.back();
      if (known(node) >= 0) {
        path.pop_back();
        continue;
      }
      const Branch& b = forest.branches[static_cast<size_t>(node)];
      int64_t& mine = height[static_cast<size_t>(node)];
      if (mine == kOpen) {  // its descendants are done
        mine = 1 + std::max(known(b.yes), known(b.no));
        continue;
      }
      mine = kOpen;
      for (int64_t next : {b.yes, b.no}) {
        if (known(next) == kOpen)  // open nodes are those on the way from the root
          return Invalid(fmt::format("node {} of a tree is its own descendant", next));
        if (known(next) == kNew) path.push_back(next);
      }
    }
    deepest = std::max(deepest, known(root));
  }
  return deepest;
}

ValueId Table(Expansion& e, const Forest& forest, std::string_view what, auto of_branch,
              auto of_leaf) {
  const auto count = std::ssize(forest.branches);
  Tensor table(Dtype::kI64, {count + forest.leaves});
  for (int64_t i = 0; i < table.elems(); ++i) {
    SetElemInt(table, i,
               i < count ? of_branch(forest.branches[static_cast<size_t>(i)]) : of_leaf(i));
  }
  return e.Constant(what, std::move(table));
}

ValueId Compared(Formula& f, Mode mode, ValueId x, ValueId split) {
  switch (mode) {
    case kLeq:
      return f.Do(Op::kLessOrEqual, {x, split});
    case kLt:
      return f.Do(Op::kLess, {x, split});
    case kGte:
      return f.Do(Op::kGreaterOrEqual, {x, split});
    case kGt:
      return f.Do(Op::kGreater, {x, split});
    case kEq:
      return f.Do(Op::kEqual, {x, split});
    default:
      return f.Do(Op::kNot, {f.Do(Op::kEqual, {x, split})});
  }
}

// The leaves [N, trees] that rows x [N, F] reach, counted from 0.
Result<ValueId> Leaves(Expansion& e, Formula& f, const Forest& forest, ValueId x) {
  WEFT_TRY(const int64_t depth, Depth(forest));
  if (depth > kDeepest)
    return Limit(fmt::format("a tree of {} levels, the limit is {}", depth, kDeepest));
  const auto count = std::ssize(forest.branches);
  const auto itself = [](int64_t i) { return i; };
  const auto none = [](int64_t) { return int64_t{0}; };
  const ValueId features =
      Table(e, forest, "features", [](const Branch& b) { return b.feature; }, none);
  const ValueId yes = Table(e, forest, "yes", [](const Branch& b) { return b.yes; }, itself);
  const ValueId no = Table(e, forest, "no", [](const Branch& b) { return b.no; }, itself);
  const ValueId modes =
      Table(e, forest, "modes", [](const Branch& b) { return int64_t{b.mode}; }, none);
  const ValueId missing =
      f.Cast(Table(
                 e, forest, "missing", [](const Branch& b) { return int64_t{b.missing}; }, none),
             Dtype::kBool);
  Tensor numbers(Dtype::kF64, {count + forest.leaves});
  std::set<Mode> used;
  bool tracks = false;
  for (int64_t i = 0; i < count; ++i) {
    const Branch& b = forest.branches[static_cast<size_t>(i)];
    SetElem(numbers, i, b.split);
    used.insert(b.mode);
    tracks |= b.missing;
  }
  const ValueId splits = f.Do(Op::kCastLike, {e.Constant("splits", std::move(numbers)), x});

  // Every row starts at the roots.
  const ValueId rows = f.Do(Op::kShape, {x}, {{"end", int64_t{1}}, {"start", int64_t{0}}});
  const ValueId shape = f.Do(Op::kConcat, {rows, e.Ints("trees", {std::ssize(forest.roots)})},
                             {{"axis", int64_t{0}}});
  ValueId at = f.Do(Op::kExpand, {e.Ints("roots", forest.roots), shape});
  for (int64_t level = 0; level < depth; ++level) {
    const auto look = [&](ValueId table) { return f.Do(Op::kGather, {table, at}); };
    const ValueId value = f.Do(Op::kGatherElements, {x, look(features)}, {{"axis", int64_t{1}}});
    const ValueId split = look(splits);
    ValueId taken;
    for (Mode mode : used) {
      const ValueId holds = Compared(f, mode, value, split);
      taken = taken.valid()
                  ? f.Do(Op::kWhere,
                         {f.Do(Op::kEqual, {look(modes), e.Int("mode", mode)}), holds, taken})
                  : holds;
    }
    if (tracks) {
      const ValueId lost = f.Do(Op::kAnd, {f.Do(Op::kIsNaN, {value}), look(missing)});
      taken = f.Do(Op::kOr, {taken, lost});
    }
    at = f.Do(Op::kWhere, {taken, look(yes), look(no)});
  }
  return f.Sub(at, e.Int("branches", count));
}

// What the trees together say of each target: [N, targets] in x's type.
Result<ValueId> Scores(Expansion& e, Formula& f, const Forest& forest, ValueId x, Aggregate how) {
  if (forest.targets < 1 || forest.targets > kMostWeights / std::max<int64_t>(forest.leaves, 1))
    return Limit(fmt::format("{} leaves for {} targets, the limit is {} weights", forest.leaves,
                             forest.targets, kMostWeights));
  const bool extreme = how == Aggregate::kMin || how == Aggregate::kMax;
  const double most = e.Known(x).dtype == Dtype::kF64
                          ? std::numeric_limits<double>::max()
                          : static_cast<double>(std::numeric_limits<float>::max());
  const double empty = !extreme ? 0 : how == Aggregate::kMin ? most : -most;
  WEFT_TRY(Tensor table, Tensor::Allocate(Dtype::kF64, {forest.leaves, forest.targets}));
  std::fill_n(table.mutable_as<double>(), table.elems(), empty);
  for (const Weight& w : forest.weights) {
    if (w.target < 0 || w.target >= forest.targets)
      return Invalid(fmt::format("found target {} of {}", w.target, forest.targets));
    double& cell = table.mutable_as<double>()[w.leaf * forest.targets + w.target];
    cell = how == Aggregate::kMin   ? std::min(cell, w.value)
           : how == Aggregate::kMax ? std::max(cell, w.value)
                                    : cell + w.value;
  }
  const ValueId weights = f.Do(Op::kCastLike, {e.Constant("weights", std::move(table)), x});
  WEFT_TRY(const ValueId leaves, Leaves(e, f, forest, x));
  const ValueId each = f.Do(Op::kGather, {weights, leaves});  // [N, trees, targets]
  const Op reduce = how == Aggregate::kMin       ? Op::kReduceMin
                    : how == Aggregate::kMax     ? Op::kReduceMax
                    : how == Aggregate::kAverage ? Op::kReduceMean
                                                 : Op::kReduceSum;
  return f.Do(reduce, {each, e.Ints("trees", {1})}, {{"keepdims", int64_t{0}}});
}

Result<std::vector<double>> Numbers(const Node& node, std::string_view name) {
  const Attribute* found = FindAttribute(node, name);
  if (!found) return std::vector<double>();
  if (const auto* list = std::get_if<std::vector<float>>(&found->value))
    return std::vector<double>(list->begin(), list->end());
  const auto* tensor = std::get_if<Tensor>(&found->value);
  if (!tensor || tensor->dtype() == Dtype::kString)
    return Invalid(fmt::format("attribute \"{}\" holds no numbers", name));
  std::vector<double> numbers(static_cast<size_t>(tensor->elems()));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = ElemAsDouble(*tensor, static_cast<int64_t>(i));
  return numbers;
}

// A list of floats, or a tensor in its stead.
Result<std::vector<double>> NumbersOrTensor(const Node& node, const std::string& name) {
  WEFT_TRY(const auto tensor, Numbers(node, name + "_as_tensor"));
  if (!tensor.empty()) return tensor;
  return Numbers(node, name);
}

Status SameCount(std::string_view what, size_t found, size_t expected) {
  if (found == expected) return {};
  return Invalid(
      fmt::format("attribute \"{}\" has {} elements, expected {}", what, found, expected));
}

// A branch whose feature is in a set is a chain of branches that compare. It starts at the place of
// the branch; the rest follow all others.
void AddMembers(std::vector<Branch>& branches, size_t at, std::span<const double> members) {
  const Branch set = branches[at];
  size_t place = at;
  for (size_t i = 0; i < members.size(); ++i) {
    const bool last = i + 1 == members.size();
    branches[place] = {.feature = set.feature,
                       .split = members[i],
                       .mode = kEq,
                       .missing = set.missing && i == 0,
                       .yes = set.yes,
                       .no = last ? set.no : std::ssize(branches)};
    if (last) break;
    place = branches.size();
    branches.emplace_back();
  }
}

// Of TreeEnsemble. Until all branches are there, leaves count from -1 downwards.
Result<Forest> ReadForest(const Node& node) {
  const std::vector<int64_t> features = Ints(node, "nodes_featureids"),
                             yes = Ints(node, "nodes_truenodeids"),
                             no = Ints(node, "nodes_falsenodeids"),
                             yes_leaf = Ints(node, "nodes_trueleafs"),
                             no_leaf = Ints(node, "nodes_falseleafs"),
                             missing = Ints(node, "nodes_missing_value_tracks_true"),
                             targets = Ints(node, "leaf_targetids");
  WEFT_TRY(const auto splits, Numbers(node, "nodes_splits"));
  WEFT_TRY(const auto modes, Numbers(node, "nodes_modes"));
  WEFT_TRY(const auto weights, Numbers(node, "leaf_weights"));
  WEFT_TRY(const auto members, Numbers(node, "membership_values"));
  const size_t count = features.size();
  WEFT_TRY(SameCount("nodes_truenodeids", yes.size(), count));
  WEFT_TRY(SameCount("nodes_falsenodeids", no.size(), count));
  WEFT_TRY(SameCount("nodes_trueleafs", yes_leaf.size(), count));
  WEFT_TRY(SameCount("nodes_falseleafs", no_leaf.size(), count));
  WEFT_TRY(SameCount("nodes_splits", splits.size(), count));
  WEFT_TRY(SameCount("nodes_modes", modes.size(), count));
  if (!missing.empty())
    WEFT_TRY(SameCount("nodes_missing_value_tracks_true", missing.size(), count));
  WEFT_TRY(SameCount("leaf_weights", weights.size(), targets.size()));
  Forest forest{.leaves = std::ssize(targets), .targets = IntAttr(node, "n_targets", 0)};
  const auto place = [&](int64_t id, bool leaf) -> Result<int64_t> {
    const int64_t limit = leaf ? forest.leaves : static_cast<int64_t>(count);
    if (id < 0 || id >= limit)
      return Invalid(fmt::format("found {} {} of {}", leaf ? "leaf" : "node", id, limit));
    return leaf ? -1 - id : id;
  };
  for (size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= int{kMember}))
      return Invalid(fmt::format("node {} of a tree has mode {}", i, modes[i]));
    Branch b{.feature = features[i],
             .split = splits[i],
             .mode = static_cast<Mode>(modes[i]),
             .missing = !missing.empty() && missing[i] != 0};
    WEFT_TRY(b.yes, place(yes[i], yes_leaf[i] != 0));
    WEFT_TRY(b.no, place(no[i], no_leaf[i] != 0));
    forest.branches.push_back(b);
  }
  for (int64_t root : Ints(node, "tree_roots")) {
    WEFT_TRY(const int64_t at, place(root, false));
    const Branch& b = forest.branches[static_cast<size_t>(at)];
    forest.roots.push_back(b.yes < 0 && b.yes == b.no ? b.yes : at);  // a tree of a leaf alone
  }
  if (forest.roots.empty()) return Invalid("attribute \"tree_roots\" is absent or empty");
  size_t member = 0;  // sets follow each other in the order of their branches, a NaN behind each
  for (size_t i = 0; i < count; ++i) {
    if (forest.branches[i].mode != kMember) continue;
    const size_t begin = member;
    while (member < members.size() && !std::isnan(members[member])) ++member;
    if (member == members.size() || member == begin)
      return Invalid(fmt::format("node {} of a tree has no set of members", i));
    AddMembers(forest.branches, i, std::span(members).subspan(begin, member - begin));
    ++member;
  }
  const auto settle = [&](int64_t& id) {
    if (id < 0) id = std::ssize(forest.branches) - 1 - id;
  };
  for (Branch& b : forest.branches) {
    settle(b.yes);
    settle(b.no);
  }
  for (int64_t& root : forest.roots) settle(root);
  for (size_t i = 0; i < weights.size(); ++i)
    forest.weights.push_back({static_cast<int64_t>(i), targets[i], weights[i]});
  return forest;
}

Result<Mode> OldMode(const std::string& name) {
  static constexpr std::string_view kNames[] = {
      "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF"};
  const auto* const found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    return Invalid(fmt::format("found {} among the modes of nodes", PrintString(name)));
  return static_cast<Mode>(found - std::begin(kNames));  // leaves have the last one
}

// Of the older operators: branches and leaves in one list, by numbers of trees and nodes; weights
// are `what`_ids, `what`_nodeids, `what`_treeids and `what`_weights.
Result<Forest> ReadOldForest(const Node& node, const std::string& what) {
  const std::vector<int64_t> trees = Ints(node, "nodes_treeids"), ids = Ints(node, "nodes_nodeids"),
                             features = Ints(node, "nodes_featureids"),
                             yes = Ints(node, "nodes_truenodeids"),
                             no = Ints(node, "nodes_falsenodeids"),
                             missing = Ints(node, "nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = Strings(node, "nodes_modes");
  WEFT_TRY(const auto splits, NumbersOrTensor(node, "nodes_values"));
  const size_t count = ids.size();
  WEFT_TRY(SameCount("nodes_treeids", trees.size(), count));
  WEFT_TRY(SameCount("nodes_featureids", features.size(), count));
  WEFT_TRY(SameCount("nodes_truenodeids", yes.size(), count));
  WEFT_TRY(SameCount("nodes_falsenodeids", no.size(), count));
  WEFT_TRY(SameCount("nodes_modes", modes.size(), count));
  WEFT_TRY(SameCount("nodes_values", splits.size(), count));
  if (!missing.empty())
    WEFT_TRY(SameCount("nodes_missing_value_tracks_true", missing.size(), count));
  Forest forest;
  std::map<std::pair<int64_t, int64_t>, int64_t> places;  // leaves count from -1 downwards
  std::set<int64_t> begun;
  std::vector<Mode> parsed(count);
  int64_t branches = 0;
  for (size_t i = 0; i < count; ++i) {
    WEFT_TRY(parsed[i], OldMode(modes[i]));
    const int64_t place = parsed[i] == kMember ? -++forest.leaves : branches++;
    if (!places.emplace(std::pair(trees[i], ids[i]), place).second)
      return Invalid(fmt::format("tree {} has node {} twice", trees[i], ids[i]));
    if (begun.insert(trees[i]).second) forest.roots.push_back(place);
  }
  if (forest.roots.empty()) return Invalid("attribute \"nodes_nodeids\" is absent or empty");
  const auto settled = [&](int64_t place) { return place < 0 ? branches - 1 - place : place; };
  const auto find = [&](int64_t tree, int64_t id) -> Result<int64_t> {
    const auto found = places.find({tree, id});
    if (found == places.end()) return Invalid(fmt::format("tree {} has no node {}", tree, id));
    return settled(found->second);
  };
  for (size_t i = 0; i < count; ++i) {
    if (parsed[i] == kMember) continue;
    Branch b{.feature = features[i],
             .split = splits[i],
             .mode = parsed[i],
             .missing = !missing.empty() && missing[i] != 0};
    WEFT_TRY(b.yes, find(trees[i], yes[i]));
    WEFT_TRY(b.no, find(trees[i], no[i]));
    forest.branches.push_back(b);
  }
  for (int64_t& root : forest.roots) root = settled(root);

  const std::vector<int64_t> of = Ints(node, what + "_ids"), at = Ints(node, what + "_nodeids"),
                             in = Ints(node, what + "_treeids");
  WEFT_TRY(const auto weights, NumbersOrTensor(node, what + "_weights"));
  WEFT_TRY(SameCount(what + "_nodeids", at.size(), of.size()));
  WEFT_TRY(SameCount(what + "_treeids", in.size(), of.size()));
  WEFT_TRY(SameCount(what + "_weights", weights.size(), of.size()));
  for (size_t i = 0; i < of.size(); ++i) {
    WEFT_TRY(const int64_t place, find(in[i], at[i]));
    if (place < branches)
      return Invalid(fmt::format("node {} of tree {} has a weight, but is no leaf", at[i], in[i]));
    forest.weights.push_back({place - branches, of[i], weights[i]});
  }
  return forest;
}

// The features of a graph whose width is known are checked here, others when it runs.
Status CheckFeatures(Expansion& e, const Forest& forest, ValueId x) {
  const Value& known = e.Known(x);
  const bool fixed = known.shape && (*known.shape)[1].IsConstant();
  const int64_t width = fixed ? (*known.shape)[1].value() : INT32_MAX;
  for (const Branch& b : forest.branches) {
    if (b.feature < 0 || b.feature >= width)
      return Invalid(fmt::format("found feature {} of {}", b.feature, width));
  }
  return {};
}

// Base values, one or one a target; none if they are absent.
Result<std::vector<double>> BaseValues(const Expansion& e, int64_t targets) {
  WEFT_TRY(auto base, NumbersOrTensor(e.node(), "base_values"));
  if (base.size() > 1 && std::ssize(base) != targets)
    return Invalid(fmt::format("found {} base values for {} targets", base.size(), targets));
  return base;
}

ValueId WithBase(Expansion& e, Formula& f, const std::vector<double>& base, ValueId scores) {
  if (base.empty()) return scores;
  Tensor numbers(Dtype::kF64, {std::ssize(base)});
  std::ranges::copy(base, numbers.mutable_as<double>());
  return f.Add(scores, f.Do(Op::kCastLike, {e.Constant("base", std::move(numbers)), scores}));
}

Status OnlyOldAttributes(const Expansion& e) {
  return e.Only({"aggregate_function",
                 "base_values",
                 "base_values_as_tensor",
                 "class_ids",
                 "class_nodeids",
                 "class_treeids",
                 "class_weights",
                 "class_weights_as_tensor",
                 "classlabels_int64s",
                 "classlabels_strings",
                 "n_targets",
                 "nodes_falsenodeids",
                 "nodes_featureids",
                 "nodes_hitrates",
                 "nodes_hitrates_as_tensor",
                 "nodes_missing_value_tracks_true",
                 "nodes_modes",
                 "nodes_nodeids",
                 "nodes_treeids",
                 "nodes_truenodeids",
                 "nodes_values",
                 "nodes_values_as_tensor",
                 "post_transform",
                 "target_ids",
                 "target_nodeids",
                 "target_treeids",
                 "target_weights",
                 "target_weights_as_tensor"});
}

}  // namespace

Status ExpandTreeEnsemble(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(
      e.Only({"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values",
              "n_targets", "nodes_falseleafs", "nodes_falsenodeids", "nodes_featureids",
              "nodes_hitrates", "nodes_missing_value_tracks_true", "nodes_modes", "nodes_splits",
              "nodes_trueleafs", "nodes_truenodeids", "post_transform", "tree_roots"}));
  WEFT_TRY(const Forest forest, ReadForest(e.node()));
  const int64_t how = IntAttr(e.node(), "aggregate_function", 1),
                post = IntAttr(e.node(), "post_transform", 0);
  if (how < 0 || how > 3)
    return Invalid(fmt::format("attribute \"aggregate_function\" is {}", how));
  if (post < 0 || post > 4) return Invalid(fmt::format("attribute \"post_transform\" is {}", post));
  Formula f(e);
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0), true));
  WEFT_TRY(CheckFeatures(e, forest, x));
  WEFT_TRY(const ValueId scores, Scores(e, f, forest, x, static_cast<Aggregate>(how)));
  const ValueId done = Transformed(f, e, static_cast<Post>(post), scores);
  return f.Finish(f.Do(Op::kCastLike, {done, e.In(0)}));
}

Status ExpandTreeRegressor(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(OnlyOldAttributes(e));
  WEFT_TRY(Forest forest, ReadOldForest(e.node(), "target"));
  forest.targets = IntAttr(e.node(), "n_targets", 1);
  WEFT_TRY(const Post post, PostTransform(e.node()));
  static constexpr std::string_view kHow[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string how = StringAttr(e.node(), "aggregate_function", "SUM");
  const auto* const found = std::ranges::find(kHow, how);
  if (found == std::end(kHow))
    return Invalid(fmt::format("attribute \"aggregate_function\" is {}", PrintString(how)));
  Formula f(e);
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0), true));
  WEFT_TRY(CheckFeatures(e, forest, x));
  WEFT_TRY(ValueId scores,
           Scores(e, f, forest, x, static_cast<Aggregate>(found - std::begin(kHow))));
  WEFT_TRY(const auto base, BaseValues(e, forest.targets));
  scores = WithBase(e, f, base, scores);
  return f.Finish(f.Cast(Transformed(f, e, post, scores), Dtype::kF32));
}

// With two labels and weights for one of them only, as gradient boosting has it, the score of that
// one decides: at a half if all weights are positive and the score is a probability, else at 0. A
// score of the first is taken for that of the second label, and what is left for the first is the
// rest of a probability, or the opposite of what is made one or may be negative.
Status ExpandTreeClassifier(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1, 2));
  WEFT_TRY(OnlyOldAttributes(e));
  WEFT_TRY(Forest forest, ReadOldForest(e.node(), "class"));
  WEFT_TRY(const Post post, PostTransform(e.node()));
  WEFT_TRY(const Labels labels, LabelsOf(e, "classlabels_int64s", "classlabels_strings"));
  if (labels.count < 2) return Unsupported("a classifier of one label is not supported");
  const auto of_first = [&](const Weight& w) { return w.target == forest.weights[0].target; };
  const bool binary =
      labels.count == 2 && !forest.weights.empty() && std::ranges::all_of(forest.weights, of_first);
  const bool turned = binary && forest.weights[0].target == 0;
  forest.targets = turned ? 1 : labels.count;
  Formula f(e);
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0), true));
  WEFT_TRY(CheckFeatures(e, forest, x));
  WEFT_TRY(ValueId scores, Scores(e, f, forest, x, Aggregate::kSum));
  WEFT_TRY(auto base, BaseValues(e, labels.count));
  if (turned && base.size() == 2) base.pop_back();
  scores = f.Cast(WithBase(e, f, base, scores), Dtype::kF32);
  ValueId best;
  if (binary) {
    const bool positive =
        std::ranges::all_of(forest.weights, [](const Weight& w) { return w.value >= 0; });
    const ValueId score =
        turned ? scores
               : f.Do(Op::kGather, {scores, e.Ints("second", {1})}, {{"axis", int64_t{1}}});
    const ValueId above = f.Do(Op::kGreater, {score, f.Number(positive ? 0.5 : 0, scores)});
    best = f.Do(Op::kSqueeze, {f.Cast(above, Dtype::kI64), e.Ints("only", {1})});
    if (turned) {
      const bool left = post == Post::kProbit || (post == Post::kNone && positive);
      const ValueId other = left ? f.Sub(f.Number(1, score), score) : f.Do(Op::kNeg, {score});
      scores = f.Do(Op::kConcat, {other, score}, {{"axis", int64_t{1}}});
    }
  } else {
    best = f.Do(Op::kArgMax, {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  }
  WEFT_TRY(f.Finish(f.Do(Op::kGather, {labels.list, best}), 0));
  return f.Finish(Transformed(f, e, post, scores), 1);
}

}  // namespace weft::graph::ml
