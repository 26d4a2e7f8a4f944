// What the tests of this folder share. Not for use outside of them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/cache/file_cache.h"
#include "driver/pipeline.h"
#include "fallback/execute.h"

namespace weft::driver::testing {

// A graph from its text, which must be right.
inline graph::Graph Parsed(const std::string& text) {
  auto graph = graph::ParseGraph(text, "test.graph", BlobStore());
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  return graph.ok() ? *std::move(graph) : graph::Graph();
}

inline bool HasOnednn() { return !fallback::LibraryVersion(fallback::Library::kOnednn).empty(); }

// For this machine, by estimates.
inline BuildOptions Options() {
  BuildOptions options;
  options.target = *HostTarget();
  options.target.threads = 2;
  options.partition.vendor = HasOnednn();
  return options;
}

// The network of a text, as far as `last`.
inline Module Advanced(const std::string& text, Form last, const BuildOptions& options) {
  auto module = OpenGraph(Parsed(text), options);
  EXPECT_TRUE(module.ok()) << module.status().ToString();
  if (!module.ok()) return {};
  const Status status = Advance(*module, last, options);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return *std::move(module);
}

// A directory, and a cache in it, for as long as a test lasts.
class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/weft-driver-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    cache_ = *FileCache::Open(root_ + "/cache");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // The cached files of one kind.
  std::vector<std::filesystem::path> Files(const std::string& kind) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(cache_->directory()))
      if (entry.path().extension() == "." + kind) files.push_back(entry.path());
    return files;
  }

  std::string root_;
  std::optional<FileCache> cache_;
};

}  // namespace weft::driver::testing
