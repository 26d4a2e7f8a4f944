// Plans with tensors of strings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "executor/executor.h"

namespace weft::executor {
namespace {

// y = x + " more", n = y == x; all but the marked places stand as they are.
std::string Text(std::string_view kind = "string dynamic", std::string_view shape = "[2]") {
  BlobStore unused;
  Tensor more(Dtype::kString, {1});
  more.strings() = {" more"};
  return fmt::format(R"(plan p for "cpu:x86-64-v3" {{
  model ""
  versions "" "" ""
  prices estimated
  specialization (x) -> (y, n) arena 64 {{
    buffer x: string{1} input live 0:2
    buffer c: string[1] weight blob("{2}", 0 bytes) live 0:2
    buffer t: {0} live 0:2
    buffer y: string[2] output live 0:2
    buffer n: bool[2] output live 0:2
    step native t (x, c) -> (t) us 0 estimated nodes ()
      call native.StringConcat(in0 = x: string{1} a, in1 = c: string[1] a const) -> (out0 = t: string[2] a) {{}}
    step native y (t) -> (y) us 0 estimated nodes ()
      call native.Identity(in0 = t: string[2] a) -> (out0 = y: string[2] a) {{}}
    step native n (t, x) -> (n) us 0 estimated nodes ()
      call native.Equal(in0 = t: string[2] a, in1 = x: string{1} a) -> (out0 = n: bool[2] a) {{}}
  }}
}})",
                     kind, shape, unused.Put(more));
}

Result<plan::Plan> Parsed(const std::string& text) {
  BlobStore blobs;
  Tensor more(Dtype::kString, {1});
  more.strings() = {" more"};
  blobs.Put(more);
  return plan::ParsePlan(text, "test", blobs);
}

Tensor Words(std::vector<std::string> words) {
  Tensor t(Dtype::kString, {std::ssize(words)});
  t.strings() = std::move(words);
  return t;
}

TEST(Strings, PrintParseVerifyAndRun) {
  const auto plan = Parsed(Text());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_TRUE(plan::Verify(*plan).ok()) << plan::Verify(*plan).ToString();
  const auto again = Parsed(plan::Print(*plan));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(plan::Equal(*plan, *again));
  auto executor = Executor::Load(*plan, {.threads = 1});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  for (const std::string word : {"a", "\xff", ""}) {
    const Tensor x = Words({word, std::string("b\0", 2)});
    const auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().ToString();
    EXPECT_EQ((*y)[0].strings(), (std::vector{word + " more", std::string("b\0 more", 7)}));
    EXPECT_EQ(ElemAsInt((*y)[1], 0), 0);
  }
}

TEST(Strings, ThreadsTakeTurns) {
  auto executor = Executor::Load(*Parsed(Text()), {.threads = 1});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      const Tensor x = Words({fmt::format("a long enough word {}", k), "b"});
      for (int i = 0; i < 50; ++i) {
        const auto y = (*executor)->Run(std::span(&x, 1));
        ASSERT_TRUE(y.ok()) << y.status().ToString();
        EXPECT_EQ((*y)[0].strings()[0], x.strings()[0] + " more");
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(Strings, WhatIsGivenIsChecked) {
  auto executor = Executor::Load(*Parsed(Text()), {.threads = 1});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  const auto refused = [&](const Tensor& x, std::string_view part) {
    const auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_FALSE(y.ok());
    EXPECT_NE(y.status().ToString().find(part), std::string::npos) << y.status().ToString();
  };
  refused(Words({"a"}), "found inputs");
  refused(Tensor(Dtype::kF32, {2}), "expected string");
  Tensor few = Words({"a", "b"});
  few.strings().pop_back();
  refused(few, "found 1 strings");
  const void* in[] = {nullptr};
  bool n[2];
  void* out[] = {nullptr, n};
  EXPECT_EQ((*executor)->Run(0, in, out).code(), Code::kUnsupported);
}

// A plan may say anything.
TEST(Strings, HostilePlans) {
  const auto said = [](const std::string& text) {
    const auto plan = Parsed(text);
    const Status status = plan.ok() ? plan::Verify(*plan) : plan.status();
    return status.ok() ? "accepted" : status.ToString();
  };
  EXPECT_NE(said(Text("string[2] arena at 0")).find("no place in an arena"), std::string::npos);
  EXPECT_NE(said(Text("string[2] alias of x")).find("no place in an arena"), std::string::npos);
  EXPECT_NE(said(Text("f32[2] arena at 0")).find("the call expects string"), std::string::npos);
  std::string text = Text();
  text.replace(text.find("c: string[1]"), 12, "c: string[9]");
  EXPECT_NE(said(text).find("blob"), std::string::npos) << said(text);
  // The shape that it promises its caller is not what its steps make.
  auto executor = Executor::Load(*Parsed(Text("string dynamic", "[1]")), {.threads = 1});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  const Tensor x = Words({"a"});
  const auto y = (*executor)->Run(std::span(&x, 1));
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().ToString().find("found string[1], expected string[2]"), std::string::npos);
}

}  // namespace
}  // namespace weft::executor
