// The sections of a module's text, as somebody may have changed them.
#include "driver/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/testing.h"

namespace weft::driver {
namespace {

// A Softmax has two alternatives.
constexpr const char* kNetwork = "graph g (x: f32[4, 8]) -> (y) {\ny = Softmax(x)\n}";

class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Module module = testing::Advanced(kNetwork, Form::kTc, testing::Options());
    text_ = Print(module, blobs_);
    const size_t section = text_.find("\n=== tc y ") + 1;
    header_ = text_.substr(section, text_.find('\n', section) - section);
  }

  // What a reader says of the text with another section in front of the first comprehension.
  std::string Says(const std::string& section) const {
    std::string text = text_;
    text.insert(text.find(header_), section);
    return ParseModule(text, "f", blobs_).status().ToString();
  }

  std::string text_, header_;
  BlobStore blobs_;
};

void ExpectIn(std::string_view part, const std::string& whole) {
  EXPECT_NE(whole.find(part), whole.npos) << whole;
}

TEST_F(ModuleTest, RefusalsAreHeaders) {
  const std::string left = "=== tc y rough refused inaccurate \"3 > 2\"",
                    none = "=== tc y refused no_comprehension \"none\"";
  for (const std::string& refusal : {left, none}) {
    EXPECT_EQ(Says(refusal + "\n"), Status().ToString());
    EXPECT_EQ(Says(refusal + "\n \n"), Status().ToString());
    ExpectIn("found more, expected the end of the line", Says(refusal + " more\n"));
    ExpectIn("found text below a refusal", Says(refusal + "\ndef y(float(4, 8) x) -> (y) {}\n"));
  }
  ExpectIn("unknown reason \"whim\"", Says("=== tc y refused whim \"none\"\n"));
  ExpectIn("no node \"z\"", Says("=== tc z refused no_comprehension \"none\"\n"));
}

TEST_F(ModuleTest, NothingStandsTwice) {
  const std::string none = "=== tc y refused no_comprehension \"none\"\n",
                    left = "=== tc y rough refused inaccurate \"3 > 2\"\n";
  ExpectIn("the node is refused twice", Says(none + none));
  ExpectIn("the alternative \"rough\" stands twice", Says(left + left));
  const std::string body = text_.substr(text_.find(header_) + header_.size());
  ExpectIn("stands twice", Says(header_ + body.substr(0, body.find("\n===") + 1)));
  ExpectIn("found more, expected the end of the line",
           Says(header_ + " more" + body.substr(0, body.find("\n===") + 1)));
}

// Two groups of a node that is no view, behind one that is.
class GroupsTest : public ::testing::Test {
 protected:
  GroupsTest() : text_(Text(Form::kGroups)) {}

  std::string Text(Form form) {
    BuildOptions options = testing::Options();
    options.partition.vendor = false;
    options.partition.fuse = false;
    return Print(testing::Advanced(
                     "graph g (x: f32[4, 8], w: f32[8, 8]) -> (y, e) {\nshape: i64[1] = const(-1)\n"
                     "v = MatMul(x, w)\nf = Reshape(v, shape)\ny = Hardmax(f)\n"
                     "k: i64[1] = const(2)\ne, i = TopK(x, k)\n}",
                     form, options),
                 blobs_);
  }

  // What is said of a text that has something else in place of `old`.
  Status Changed(std::string text, std::string_view old, std::string_view now) const {
    const size_t at = text.find(old);
    EXPECT_NE(at, text.npos) << old << " in " << text;
    if (at == text.npos) return {};
    auto module = ParseModule(text.replace(at, old.size(), now), "f", blobs_);
    if (!module.ok()) return module.status();
    return Advance(*module, Form::kPlan, testing::Options());
  }

  // Where a line stands in the text.
  std::string LineOf(std::string_view part) const {
    return fmt::format("f:{}:",
                       1 + std::count(text_.begin(), text_.begin() + text_.find(part), '\n'));
  }

  void ExpectInvalid(std::string_view old, std::string_view now, std::string_view what,
                     const std::string& where) const {
    const Status status = Changed(text_, old, now);
    EXPECT_EQ(status.code(), Code::kInvalid) << now;
    ExpectIn(what, status.ToString());
    ExpectIn(where, status.where());
  }

  BlobStore blobs_;
  std::string text_;
};

TEST_F(GroupsTest, ANodeIsDoneAsItCanBe) {
  ASSERT_TRUE(Changed(text_, "view f {f}", "view f {f}").ok());
  const std::string v = "own v {v: direct}", y = "own y {y: direct}",
                    of_v = "node of \"v\" (MatMul)", of_y = "node of \"y\" (Hardmax)",
                    line = LineOf("own v {"), last = LineOf("own y {");
  for (const std::string& where : {line, of_v}) {
    ExpectInvalid(v, "view v {v}", "expected a node that moves nothing", where);
    ExpectInvalid(v, "plan v {v}", "expected a node that holds one", where);
    ExpectInvalid(v, "vendor v {v}", "found \"\", expected a call of onednn", where);
    ExpectInvalid(v, "vendor v by native.MatMul {v}", "expected a call of onednn", where);
    ExpectInvalid(v, "vendor v by onednn.sum {v}", "expected onednn.matmul", where);
    ExpectInvalid(v, "own v {v: better}", "no alternative \"better\", found direct", where);
    ExpectInvalid(v, "own v {v}", "no alternative \"\", found direct", where);
  }
  ExpectInvalid(y, "native y {y}", "op_unknown_to_library: Hardmax", of_y);
  ExpectInvalid(y, "view y {y}", "neither constant nor an output", of_y);
  ExpectInvalid("native e {e}", "own e {e: direct}", "found none", "node of \"e\"");
  // Nothing of the second is lost.
  ExpectInvalid(y, "view y {y, v}", "in \"v\" and in \"y\"", last);
  EXPECT_TRUE(Changed(text_, "view f {f}", "own w {f: direct}").ok());  // a copy
}

TEST_F(GroupsTest, ANodeIsDoneOnce) {
  const std::string y = "own y {y: direct}";
  ExpectInvalid(y, "own y {y: direct, y: direct}", "in \"y\" and in \"y\"", LineOf(y));
  ExpectInvalid(y, "own y {y: direct, v: direct}", "in \"v\" and in \"y\"", LineOf(y));
  ExpectInvalid(y, "own v {y: direct}", "two groups are called \"v\"", LineOf(y));
  ExpectInvalid(y, "own \"y z\" {y: direct}", "expected an identifier", LineOf(y));
  ExpectInvalid(y + " us", "refused {y}: forced \"\" layout y \"a\" | own us",
                "node of \"y\" (Hardmax): in no group", LineOf("=== groups"));
}

TEST_F(GroupsTest, ATextHoldsWhatItSays) {
  ASSERT_TRUE(Changed(text_, "=== groups", "=== groups").ok());
  const std::string groups = text_.substr(text_.find("=== groups"));
  ExpectInvalid(groups, "", "no \"=== groups\" section", "f");
  const std::string call = Text(Form::kCall);
  for (const auto& [section, says] :
       {std::pair("=== loops v\n", "no loops of it"), {"=== call e\n", "no call of it"}}) {
    const size_t begin = call.find(section), end = call.find("\n===", begin) + 1;
    const Status status = Changed(call, call.substr(begin, end == 0 ? call.npos : end - begin), "");
    EXPECT_EQ(status.code(), Code::kInvalid) << section;
    ExpectIn(says, status.ToString());
  }
}

TEST_F(GroupsTest, LinesCountFromTheTopOfTheFile) {
  EXPECT_EQ(Changed(text_, "native e {e}", "native e {zz}").where(), LineOf("native e {") + "15");
  EXPECT_EQ(Changed(text_, "=== tc v direct (x,", "=== tc v direct (zz,").where(),
            LineOf("=== tc v") + "20");
}

}  // namespace
}  // namespace weft::driver
