// The sections of a module's text, as somebody may have changed them.
#include "driver/module.h"

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

}  // namespace
}  // namespace weft::driver
