// Tensors beside the model: what is read, and what is never opened.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "graph/onnx/external.h"
#include "graph/onnx/testing.h"

namespace weft::graph {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class External : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft_external_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "sub");
    Write(folder_ / "w.bin", 64);
    Write(folder_ / "sub" / "w.bin", 64);
    Write(root_ / "secret.bin", 64);
  }
  void TearDown() override { fs::remove_all(root_); }

  static void Write(const fs::path& path, size_t bytes) {
    std::string content(bytes, '\0');
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      const float value = static_cast<float>(i / 4);
      content.replace(i, 4, reinterpret_cast<const char*>(&value), 4);
    }
    std::ofstream(path, std::ios::binary) << content;
  }

  static onnx::ModelProto Model(const std::vector<std::pair<std::string, std::string>>& entries) {
    onnx::ModelProto model = ModelOf({NodeP("Add", {"x", "w"}, {"y"})});
    auto& w = *model.mutable_graph()->add_initializer();
    w = Floats("w", {3}, {});
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return model;
  }
  double First(const std::vector<std::pair<std::string, std::string>>& entries) {
    const Graph g = Good(Model(entries), folder_);
    const ValueId w = FindValue(g, "w");
    return w.valid() ? ElemAsDouble(g[w].constant, 0) : -1;
  }
  void Refused(const std::vector<std::pair<std::string, std::string>>& entries,
               const std::string& part) {
    ExpectRefused(Model(entries), part, folder_);
  }

  fs::path root_, folder_;
};

TEST_F(External, Reads) {
  EXPECT_EQ(First({{"location", "w.bin"}}), 0);
  EXPECT_EQ(First({{"location", "./sub/w.bin"}, {"offset", "8"}, {"length", "12"}}), 2);
  EXPECT_EQ(First({{"location", "w.bin"}, {"offset", "52"}}), 13);
  EXPECT_EQ(First({{"location", "w.bin"}, {"checksum", "whatever"}}), 0);
  const Graph odd =
      Good(Model({{"location", "w.bin"}, {"offset", "3"}}), folder_);  // unaligned: copied
  EXPECT_EQ(odd[FindValue(odd, "w")].constant.elems(), 3);
}

TEST_F(External, SpellingsOfANameAreOneFile) {
  ExternalFiles files(folder_.string());
  const auto file = files.Open("sub/w.bin");
  ASSERT_TRUE(file.ok());
  for (const char* name : {"./sub/w.bin", "sub//w.bin", "sub/././w.bin"}) {
    const auto again = files.Open(name);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->data(), file->data()) << name;
  }
}

TEST_F(External, FilesThatGoAwayLaterChangeNothing) {
  const Graph g = Good(Model({{"location", "w.bin"}, {"offset", "8"}}), folder_);
  const Graph h = Good(Model({{"location", "sub/w.bin"}}), folder_);
  fs::resize_file(folder_ / "w.bin", 0);
  fs::remove(folder_ / "sub" / "w.bin");
  EXPECT_EQ(ElemAsDouble(g[FindValue(g, "w")].constant, 2), 4);
  EXPECT_EQ(ElemAsDouble(h[FindValue(h, "w")].constant, 2), 2);
  Refused({{"location", "w.bin"}}, "which has 0");
  Refused({{"location", "sub/w.bin"}}, "No such file");
}

TEST_F(External, Bounds) {
  Refused({{"location", "w.bin"}, {"offset", "56"}}, "which has 64");
  Refused({{"location", "w.bin"}, {"offset", "65"}}, "which has 64");
  Refused({{"location", "w.bin"}, {"offset", "9223372036854775807"}}, "which has 64");
  Refused({{"location", "w.bin"}, {"offset", "-4"}}, "expected a number of bytes");
  Refused({{"location", "w.bin"}, {"offset", "4x"}}, "expected a number of bytes");
  Refused({{"location", "w.bin"}, {"offset", "99999999999999999999"}},
          "expected a number of bytes");
  Refused({{"location", "w.bin"}, {"length", "8"}}, "expected 12");
  Refused({{"location", "w.bin"}, {"length", "1152921504606846976"}}, "expected 12");
  Refused({{"location", "w.bin"}, {"location", "w.bin"}}, "twice");
  Refused({{"offset", "0"}}, "no location");
}

TEST_F(External, StaysInTheFolder) {
  fs::create_symlink(root_ / "secret.bin", folder_ / "link.bin");
  fs::create_symlink(folder_ / "w.bin", folder_ / "inner.bin");
  fs::create_directory_symlink(root_, folder_ / "up");
  fs::create_hard_link(root_ / "secret.bin", folder_ / "hard.bin");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  Refused({{"location", (root_ / "secret.bin").string()}}, "not in the model's folder");
  Refused({{"location", "../secret.bin"}}, "leaves the model's folder");
  Refused({{"location", "sub/../../secret.bin"}}, "leaves the model's folder");
  Refused({{"location", "sub/../w.bin"}}, "leaves the model's folder");
  Refused({{"location", "link.bin"}}, "links are not followed");
  Refused({{"location", "inner.bin"}}, "links are not followed");
  Refused({{"location", "up/secret.bin"}}, "links are not followed");
  Refused({{"location", "hard.bin"}}, "has 2 names");
  Refused({{"location", "pipe"}}, "not a regular file");
  Refused({{"location", "sub"}}, "not a regular file");
  Refused({{"location", "."}}, "is a folder");
  Refused({{"location", ""}}, "empty");
  Refused({{"location", "absent.bin"}}, "No such file");
  Refused({{"location", std::string("w.bin\0x", 7)}}, "zero byte");
  ExpectRefused(Model({{"location", "w.bin"}}), "the model is not a file");
}

TEST_F(External, ModelFilesThemselves) {
  const fs::path path = folder_ / "m.onnx";
  std::ofstream(path, std::ios::binary) << Model({{"location", "w.bin"}}).SerializeAsString();
  EXPECT_TRUE(ImportOnnx(path.string()).ok());
  for (const fs::path& bad :
       {folder_, folder_ / "absent.onnx", fs::path("/dev/zero"), fs::path("/proc/self/environ")}) {
    const auto graph = ImportOnnx(bad.string());
    EXPECT_FALSE(graph.ok()) << bad;
  }
  EXPECT_EQ(ImportOnnx(path.string(), {.max_bytes = 10}).status().code(), Code::kLimit);
}

}  // namespace
}  // namespace weft::graph
