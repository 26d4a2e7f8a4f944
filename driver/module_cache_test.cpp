#include "driver/module_cache.h"

#include <fstream>
#include <functional>
#include <set>

#include "base/file.h"
#include "driver/build.h"
#include "driver/testing.h"
#include "plan/file.h"

namespace weft::driver {
namespace {

using testing::Advanced;
using testing::Options;

constexpr const char* kNetwork =
    "graph g (x: f32[4, 8]) -> (y) {\nw: f32[8, 3] = const(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
    "13, 14, 15, 16, "
    "17, 18, 19, 20, 21, 22, 23, 24)\nh = MatMul(x, w)\nr = Relu(h)\ny = Softmax(r)\n}";

// Whose filter has a second form, which no model holds.
constexpr const char* kFiltered =
    "graph g (x: f32[1, 1, 6, 6]) -> (y) {\nw: f32[1, 1, 3, 3] = const(1, -2, 3, 4, 5, -6, 7, 8, "
    "9)\ny = Conv(x, w) {pads = [1, 1, 1, 1]}\n}";

std::string Text(const Module& module) {
  BlobStore blobs;
  return Print(module, blobs);
}

class ModuleCacheTest : public testing::CacheTest {
 protected:
  // What `weft build` makes of a model with this cache.
  std::string Plan(const BuildOptions& options) const {
    auto built = Build(WEFT_MODEL, options);
    EXPECT_TRUE(built.ok()) << built.status().ToString();
    return built.ok() ? *plan::SerializePlan(built->plan) : "";
  }
  BuildOptions Cached() const {
    BuildOptions options = Options();
    options.shapes = {{"image", {1, 1, 16, 16}}};
    options.cache = &*cache_;
    return options;
  }
};

TEST_F(ModuleCacheTest, AHitIsWhatWasStored) {
  BuildOptions options = Options();
  options.cache = &*cache_;
  options.winograd = tc::Winograd::kAlways;
  for (const char* network : {kNetwork, kFiltered}) {
    const Module opened = Advanced(network, Form::kGraph, options);
    const std::string key = ModuleKey(opened, options);
    EXPECT_FALSE(FindModule(opened, key, options));
    Module module = Advanced(network, Form::kCall, options);
    EXPECT_EQ(module.graph.forms.empty(), network == kNetwork);
    StoreModule(module, key, *cache_);
    auto found = FindModule(opened, key, options);
    ASSERT_TRUE(found);
    EXPECT_EQ(Text(*found), Text(module));
    ASSERT_TRUE(Advance(*found, Form::kPlan, options).ok());
    ASSERT_TRUE(Advance(module, Form::kPlan, options).ok());
    EXPECT_EQ(*plan::SerializePlan(found->plan), *plan::SerializePlan(module.plan));
  }
}

TEST_F(ModuleCacheTest, KeepsWhyAnAlternativeWasLeft) {
  Module module = Advanced(kNetwork, Form::kTc, Options());
  module.comprehensions.left_out[graph::NodeId(0)].emplace("rough",
                                                           Refusal{Reason::kInaccurate, "3 > 2"});
  BlobStore blobs;
  const std::string text = Print(module, blobs);
  EXPECT_NE(text.find("rough refused inaccurate \"3 > 2\"\n"), std::string::npos) << text;
  const auto again = ParseModule(text, "text", blobs);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->comprehensions.left_out, module.comprehensions.left_out);
}

TEST_F(ModuleCacheTest, WhatIsAskedForIsInTheKey) {
  const auto key = [](const std::string& network,
                      const std::function<void(BuildOptions&)>& change) {
    BuildOptions options = Options();
    change(options);
    return ModuleKey(Advanced(network, Form::kGraph, options), options);
  };
  const std::string plain = key(kNetwork, [](BuildOptions&) {});
  EXPECT_EQ(key(kNetwork, [](BuildOptions&) {}), plain);
  EXPECT_EQ(key(kNetwork, [](BuildOptions& o) { o.dump_dir = "elsewhere"; }), plain);
  using Force = partition::PartitionOptions::Force;
  const std::vector<std::function<void(BuildOptions&)>> changes = {
      [](BuildOptions& o) { o.budget_s = 1; },
      [](BuildOptions& o) { o.partition.force = Force::kOwn; },
      [](BuildOptions& o) { o.partition.force = Force::kVendor; },
      [](BuildOptions& o) { o.partition.fuse = false; },
      [](BuildOptions& o) { o.partition.join = false; },
      [](BuildOptions& o) { o.partition.variants = false; },
      [](BuildOptions& o) { o.partition.strict = true; },
      [](BuildOptions& o) { o.partition.vendor = !o.partition.vendor; },
      [](BuildOptions& o) { o.partition.max_statements = 3; },
      [](BuildOptions& o) { o.partition.max_statements_in_blocks = 3; },
      [](BuildOptions& o) { o.partition.max_arguments = 3; },
      [](BuildOptions& o) { o.target.threads = 3; },
      [](BuildOptions& o) { o.target = *ParseTarget("cuda:sm_90"); },
      [](BuildOptions& o) { o.forced_choices["h"] = {}; },
  };
  std::set<std::string> keys = {plain};
  for (const auto& change : changes) keys.insert(key(kNetwork, change));
  std::string weight = kNetwork, width = kNetwork;
  keys.insert(key(weight.replace(weight.find("24)"), 3, "25)"), [](BuildOptions&) {}));
  keys.insert(key(width.replace(width.find("[4"), 2, "[5"), [](BuildOptions&) {}));
  EXPECT_EQ(keys.size(), changes.size() + 3);
}

TEST_F(ModuleCacheTest, ABuildTakesWhatIsThere) {
  const std::string first = Plan(Cached());
  ASSERT_EQ(Files("module").size(), 1u);
  EXPECT_EQ(Plan(Cached()), first);
  // Another module under its key shows that it is read at all.
  BuildOptions unfused = Cached();
  unfused.partition.fuse = false;
  Module other = *Open(WEFT_MODEL, unfused);
  ASSERT_TRUE(Advance(other, Form::kCall, unfused).ok());
  StoreModule(other, Files("module")[0].stem().string(), *cache_);
  const std::string second = Plan(Cached());
  EXPECT_NE(second, first);
  EXPECT_EQ(second, Plan(unfused));
}

TEST_F(ModuleCacheTest, ADamagedEntryIsMadeAnew) {
  const std::string plan = Plan(Cached());
  ASSERT_EQ(Files("module").size(), 1u);
  const std::filesystem::path file = Files("module")[0];
  const std::string whole = *ReadFile(file.string()), key = file.stem().string();
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string& bytes : {std::string(), whole.substr(0, whole.size() / 2), flipped}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_EQ(Plan(Cached()), plan);
    EXPECT_EQ(*ReadFile(file.string()), whole);
  }
  // Whole files with right hashes that are no module, or not one at this form.
  BlobStore blobs;
  const std::string early = Print(*Open(WEFT_MODEL, Cached()), blobs);
  for (const std::string& text : {std::string("no module"), early}) {
    cache_->Put("module", key, text);
    EXPECT_EQ(Plan(Cached()), plan);
    EXPECT_EQ(*ReadFile(file.string()), whole);
  }
}

TEST_F(ModuleCacheTest, WhatWasInterruptedIsNotKept) {
  const std::atomic<bool> stop = true;
  BuildOptions options = Cached();
  options.stop = &stop;
  const std::string plan = Plan(options);
  EXPECT_TRUE(Files("module").empty());
  EXPECT_EQ(Plan(Cached()), plan);
  EXPECT_EQ(Files("module").size(), 1u);
}

}  // namespace
}  // namespace weft::driver
