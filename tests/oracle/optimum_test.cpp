// How far the groups that the partitioner takes are from the best ones: set partitioning, solved
// exactly by CBC, over every group that is legal for it.
//
// A column is a connected, convex set of nodes that CheckGroup allows, at its price as one own
// kernel. Each node is covered once. Groups that wait for one another are cut off when they turn
// up: of those on a cycle, not all can be taken.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "driver/pipeline.h"
#include "graph/edit.h"
#include "partition/candidate.h"
#include "partition/forms.h"

#ifdef WEFT_HAS_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace weft {
namespace {

using graph::NodeId;
using graph::ValueId;
using Nodes = std::vector<NodeId>;  // in graph order

constexpr double kMostGap = 1.02;        // of the optimum: of a real network, of random ones mean
constexpr double kWorstGap = 1.05;       // of a random one
constexpr size_t kMostColumns = 40'000;  // of one network

struct Column {
  Nodes nodes;
  double us = 0;
};

// What may be one own kernel, at which price.
class Pool {
 public:
  Pool(const driver::Module& module, const partition::PartitionOptions& options)
      : module_(module),
        options_(options),
        facts_(module.graph),
        pricer_(module.target),
        alternatives_(AlternativesOf(module)),
        forms_(facts_, module.comprehensions, module.grouping.layouts, alternatives_) {
    FindReach();
    Nodes own;
    for (const partition::Group& group : module.grouping.groups) {
      if (group.implementation != partition::Implementation::kOwn) continue;
      Nodes nodes;
      for (const partition::Member& m : group.members) nodes.push_back(m.node);
      own.insert(own.end(), nodes.begin(), nodes.end());
      is_own_.insert(nodes.begin(), nodes.end());
      cost_ += group.us;
      Offer(nodes);
    }
    std::ranges::sort(own);
    for (const NodeId n : own) Offer({n});
    // Grown node by node, small ones first.
    for (size_t next = 0; next < columns_.size() && columns_.size() < kMostColumns; ++next)
      for (const NodeId n : Around(columns_[next].nodes)) {
        Nodes grown = columns_[next].nodes;
        grown.insert(std::ranges::upper_bound(grown, n), n);
        Offer(std::move(grown));
      }
  }

  const std::vector<Column>& columns() const { return columns_; }
  double cost() const { return cost_; }  // of the grouping at hand
  bool complete() const { return columns_.size() < kMostColumns; }

  // The columns on a cycle of those that are taken; empty if there is none.
  std::vector<size_t> Cycle(const std::vector<size_t>& taken) const {
    std::map<NodeId, size_t> of;
    for (const size_t c : taken)
      for (const NodeId n : columns_[c].nodes) of[n] = c;
    // Nodes that are no kernels of our own stand for themselves, by ids beyond the columns.
    const auto set_of = [&](NodeId n) {
      const auto it = of.find(n);
      return it == of.end() ? columns_.size() + static_cast<size_t>(n.index) : it->second;
    };
    std::map<size_t, std::set<size_t>> producers;
    for (size_t n = 0; n < module_.graph.nodes.size(); ++n) {
      auto& mine = producers[set_of(NodeId(n))];
      for (const ValueId v : module_.graph.nodes[n].inputs)
        if (v.valid() && module_.graph[v].producer.valid())
          if (const size_t p = set_of(module_.graph[v].producer); p != set_of(NodeId(n)))
            mine.insert(p);
    }
    // Kahn: what is left when nothing more is ready holds a cycle, found by walking backwards.
    bool any = true;
    while (any) {
      any = false;
      for (auto it = producers.begin(); it != producers.end();) {
        if (std::ranges::any_of(it->second, [&](size_t p) { return producers.contains(p); })) {
          ++it;
        } else {
          it = producers.erase(it);
          any = true;
        }
      }
    }
    if (producers.empty()) return {};
    std::vector<size_t> walk{producers.begin()->first};
    while (true) {
      const auto& from = producers.at(walk.back());
      const size_t p = *std::ranges::find_if(from, [&](size_t s) { return producers.contains(s); });
      if (const auto seen = std::ranges::find(walk, p); seen != walk.end()) {
        walk.erase(walk.begin(), seen);
        break;
      }
      walk.push_back(p);
    }
    std::erase_if(walk, [&](size_t s) { return s >= columns_.size(); });
    return walk;
  }

 private:
  static std::vector<size_t> AlternativesOf(const driver::Module& module) {
    std::vector<size_t> taken(module.graph.nodes.size());
    for (const partition::Group& group : module.grouping.groups)
      for (const partition::Member& m : group.members) {
        const auto& all = module.comprehensions.of[m.node.index];
        for (size_t a = 0; a < all.size(); ++a)
          if (all[a].name == m.alternative) taken[m.node.index] = a;
      }
    return taken;
  }

  void FindReach() {
    const size_t count = module_.graph.nodes.size();
    above_.assign(count, std::vector<bool>(count));
    for (size_t n = 0; n < count; ++n)
      for (const ValueId v : module_.graph.nodes[n].inputs) {
        if (!v.valid() || !module_.graph[v].producer.valid()) continue;
        const auto p = static_cast<size_t>(module_.graph[v].producer.index);
        above_[n][p] = true;
        for (size_t k = 0; k < p; ++k)
          if (above_[p][k]) above_[n][k] = true;
      }
  }

  bool IsConvex(const Nodes& nodes) const {
    for (int32_t n = nodes.front().index; n < nodes.back().index; ++n) {
      if (std::ranges::binary_search(nodes, NodeId(static_cast<size_t>(n)))) continue;
      const auto feeds = [&](NodeId m) { return above_[n][m.index]; };
      const auto reads = [&](NodeId m) { return above_[m.index][n]; };
      if (std::ranges::any_of(nodes, feeds) && std::ranges::any_of(nodes, reads)) return false;
    }
    return true;
  }

  std::set<NodeId> Around(const Nodes& nodes) const {
    std::set<NodeId> around;
    for (const NodeId n : nodes) {
      for (const ValueId v : module_.graph[n].inputs)
        if (v.valid() && module_.graph[v].producer.valid())
          around.insert(module_.graph[v].producer);
      for (const ValueId v : module_.graph[n].outputs)
        if (v.valid())
          around.insert(facts_.consumers[v.index].begin(), facts_.consumers[v.index].end());
    }
    for (const NodeId n : nodes) around.erase(n);
    std::erase_if(around, [&](NodeId n) { return !is_own_.contains(n); });
    return around;
  }

  void Offer(Nodes nodes) {
    if (!seen_.insert(nodes).second || !IsConvex(nodes)) return;
    partition::Form form = forms_.Of(nodes);
    auto it = prices_.find(form);
    if (it == prices_.end()) it = prices_.emplace(std::move(form), PriceOf(nodes)).first;
    if (it->second) columns_.push_back({std::move(nodes), *it->second});
  }

  std::optional<double> PriceOf(const Nodes& nodes) {
    std::vector<partition::Member> members;
    for (const NodeId n : nodes)
      members.push_back({n, module_.comprehensions.of[n.index][alternatives_[n.index]].name});
    const auto extracted =
        partition::ExtractMembers(facts_, module_.comprehensions, members, "column");
    if (!extracted.ok()) return std::nullopt;
    bool in_blocks = false;
    if (nodes.size() > 1) {
      const auto legal = partition::CheckGroup(*extracted, module_.graph, module_.grouping.layouts,
                                               module_.target, options_);
      if (!legal.yes()) return std::nullopt;
      in_blocks = legal->in_blocks;
    }
    return pricer_.Own(extracted->program, in_blocks).us;
  }

  const driver::Module& module_;
  const partition::PartitionOptions& options_;
  const partition::GraphFacts facts_;
  partition::RooflinePricer pricer_;
  const std::vector<size_t> alternatives_;
  const partition::Forms forms_;
  std::vector<std::vector<bool>> above_;  // [n][k]: n depends on k
  std::set<NodeId> is_own_;
  std::vector<Column> columns_;
  std::set<Nodes> seen_;
  std::map<partition::Form, std::optional<double>> prices_;
  double cost_ = 0;
};

#ifdef WEFT_HAS_CBC

class Model {
 public:
  explicit Model(const std::vector<Column>& columns) : model_(Cbc_newModel()) {
    Cbc_setLogLevel(model_, 0);
    std::map<NodeId, std::vector<int>> covering;
    for (size_t c = 0; c < columns.size(); ++c) {
      Cbc_addCol(model_, "", 0, 1, columns[c].us, 1, 0, nullptr, nullptr);
      for (const NodeId n : columns[c].nodes) covering[n].push_back(static_cast<int>(c));
    }
    for (const auto& [node, by] : covering) AddRow(by, 'E', 1);
  }
  ~Model() { Cbc_deleteModel(model_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void AddRow(const std::vector<int>& columns, char sense, double bound) {
    const std::vector<double> ones(columns.size(), 1);
    Cbc_addRow(model_, "", static_cast<int>(columns.size()), columns.data(), ones.data(), sense,
               bound);
  }

  // The columns of an optimum; empty if none was found. A model is solved once.
  std::vector<size_t> Solve() {
    Cbc_solve(model_);
    if (!Cbc_isProvenOptimal(model_)) return {};
    const double* const x = Cbc_getColSolution(model_);
    std::vector<size_t> taken;
    for (int c = 0; c < Cbc_getNumCols(model_); ++c)
      if (x[c] > 0.5) taken.push_back(static_cast<size_t>(c));
    return taken;
  }

 private:
  Cbc_Model* model_;
};

std::optional<double> Optimum(const Pool& pool) {
  std::vector<std::vector<int>> cuts;
  while (true) {
    Model model(pool.columns());
    for (const auto& cut : cuts) model.AddRow(cut, 'L', static_cast<double>(cut.size()) - 1);
    const std::vector<size_t> taken = model.Solve();
    if (taken.empty()) return std::nullopt;
    const std::vector<size_t> cycle = pool.Cycle(taken);
    if (!cycle.empty()) {
      cuts.emplace_back(cycle.begin(), cycle.end());
      continue;
    }
    double us = 0;
    for (const size_t c : taken) us += pool.columns()[c].us;
    return us;
  }
}

#endif

driver::BuildOptions Options() {
  driver::BuildOptions options;
  options.target = *HostTarget();
  options.target.threads = 2;
  options.partition.vendor = false;
  return options;
}

// Own groups' cost over the optimum's.
double Gap(const driver::Module& module, const driver::BuildOptions& options) {
  const Pool pool(module, options.partition);
  EXPECT_TRUE(pool.complete()) << module.graph.name;
#ifdef WEFT_HAS_CBC
  const auto optimum = Optimum(pool);
  EXPECT_TRUE(optimum.has_value()) << module.graph.name;
  const double gap = optimum ? pool.cost() / *optimum : 1;
  EXPECT_GE(gap, 1 - 1e-6) << module.graph.name;
  fmt::print("{}: {} nodes, {} columns, {:.2f} us, {:.4f} of the optimum\n", module.graph.name,
             module.graph.nodes.size(), pool.columns().size(), pool.cost(), gap);
  return gap;
#else
  return 1;
#endif
}

// Elementwise, normalizing and contracting nodes over 256x512 tensors, wired to what is near.
graph::Graph RandomNetwork(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  graph::Graph graph{.name = fmt::format("random {}", seed)};
  const ValueId weight = graph::AddInput(graph, "w", Dtype::kF32, {512, 512});
  std::vector<ValueId> values = {graph::AddInput(graph, "x", Dtype::kF32, {256, 512}),
                                 graph::AddInput(graph, "y", Dtype::kF32, {256, 512})};
  constexpr graph::Op kOne[] = {graph::Op::kRelu, graph::Op::kTanh, graph::Op::kExp,
                                graph::Op::kSoftmax};
  constexpr graph::Op kTwo[] = {graph::Op::kAdd, graph::Op::kMul, graph::Op::kSub};
  for (size_t i = 0, count = 12 + below(19); i < count; ++i) {
    const auto pick = [&] {
      return values[values.size() - 1 - below(std::min<size_t>(values.size(), 6))];
    };
    const ValueId a = pick(), b = pick();
    const std::string name = fmt::format("v{}", i);
    const size_t kind = below(10);
    if (kind == 9)
      values.push_back(graph::AddNode(graph, graph::Op::kMatMul, {a, weight}, name));
    else if (kind < 4)
      values.push_back(graph::AddNode(graph, kOne[kind], {a}, name));
    else
      values.push_back(graph::AddNode(graph, kTwo[kind % 3], {a, b}, name));
  }
  const auto consumers = graph::Consumers(graph);
  for (const ValueId v : values)
    if (graph[v].kind == graph::ValueKind::kComputed && consumers[v.index].empty())
      graph.outputs.push_back(v);
  return graph;
}

TEST(Optimum, RandomNetworks) {
#ifndef WEFT_HAS_CBC
  GTEST_SKIP() << "without coinor-libcbc-dev nothing tells the optimum";
#endif
  const driver::BuildOptions options = Options();
  double sum = 0, worst = 0;
  constexpr int kNetworks = 40;
  for (uint64_t seed = 1; seed <= kNetworks; ++seed) {
    auto module = driver::OpenGraph(RandomNetwork(seed), options);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    const Status status = driver::Advance(*module, driver::Form::kGroups, options);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const double gap = Gap(*module, options);
    sum += gap;
    worst = std::max(worst, gap);
  }
  EXPECT_LE(sum / kNetworks, kMostGap);
  EXPECT_LE(worst, kWorstGap);
}

// Those that WEFT_OPTIMUM_MODELS lists, as "resnet50.onnx:batch=1 bert.onnx:batch=1:S=32"; or else
// the small one of the tree.
TEST(Optimum, RealNetworks) {
#ifndef WEFT_HAS_CBC
  GTEST_SKIP() << "without coinor-libcbc-dev nothing tells the optimum";
#endif
  const char* const listed = std::getenv("WEFT_OPTIMUM_MODELS");
  std::istringstream networks(listed ? listed : "models/digits.onnx");
  for (std::string network; networks >> network;) {
    std::istringstream parts(network);
    std::string path;
    std::getline(parts, path, ':');
    driver::BuildOptions options = Options();
    for (std::string dim; std::getline(parts, dim, ':');) {
      const size_t equals = dim.find('=');
      ASSERT_NE(equals, std::string::npos) << dim;
      options.symbols[dim.substr(0, equals)] = std::stoll(dim.substr(equals + 1));
    }
    auto module = driver::Open(path, options);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    const Status status = driver::Advance(*module, driver::Form::kGroups, options);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_LE(Gap(*module, options), kMostGap);
  }
}

}  // namespace
}  // namespace weft
