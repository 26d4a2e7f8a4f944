// Workers that answer, and those that don't.
#include "tuner/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace weft::tuner {
namespace {

std::unique_ptr<Worker> Started(const std::vector<std::string>& command) {
  auto worker = Worker::Start(command);
  EXPECT_TRUE(worker.ok()) << worker.status().ToString();
  return *std::move(worker);
}

TEST(Worker, Answers) {
  const auto worker = Started({"cat"});
  for (const std::string& text :
       {std::string("how long"), std::string(), std::string(60'000, 'x')}) {
    const auto answer = worker->Ask(text, 20);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(*answer, text);
  }
}

TEST(Worker, ThatCrashesIsAnError) {
  const auto worker = Started({"sh", "-c", "head -c 4 > /dev/null; kill -SEGV $$"});
  const auto answer = worker->Ask("anything", 20);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), Code::kInternal);
  EXPECT_NE(answer.status().what().find("Segmentation fault"), std::string::npos)
      << answer.status().ToString();
  EXPECT_FALSE(worker->Ask("again", 20).ok());
}

TEST(Worker, ThatExitsIsAnError) {
  const auto answer = Started({"sh", "-c", "head -c 4 > /dev/null; exit 3"})->Ask("anything", 20);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.status().what().find("exit code 3"), std::string::npos);
}

TEST(Worker, ThatHangsIsGivenUp) {
  const auto answer = Started({"sleep", "1000"})->Ask("anything", 0.2);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), Code::kLimit);
}

// An answer that comes after all is not taken for that to the next request.
TEST(Worker, ThatIsLateIsNotAskedAgain) {
  const auto worker = Started({"sh", "-c", "sleep 0.3; cat"});
  EXPECT_FALSE(worker->Ask("first", 0.1).ok());
  const auto answer = worker->Ask("second", 20);
  EXPECT_FALSE(answer.ok()) << *answer;
}

TEST(Worker, IsGivenUpWhenAsked) {
  const std::atomic<bool> stop = true;
  const auto answer = Started({"sleep", "1000"})->Ask("anything", 1000, &stop);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), Code::kInterrupted);
}

TEST(Worker, ThatTalksNonsenseIsAnError) {
  const auto worker = Started({"sh", "-c", "printf '\\377\\377\\377\\377'; cat > /dev/null"});
  EXPECT_FALSE(worker->Ask("anything", 20).ok());
}

TEST(Worker, ThatIsNotThereIsMissing) {
  const auto worker = Worker::Start({"/no/such/program"});
  ASSERT_FALSE(worker.ok());
  EXPECT_EQ(worker.status().code(), Code::kMissing);
}

TEST(Worker, ServesUntilItsInputEnds) {
  std::array<int, 2> in{}, out{};
  ASSERT_TRUE(pipe(in.data()) == 0 && pipe(out.data()) == 0);
  const std::string frame("\3\0\0\0abc", 7);
  ASSERT_EQ(write(in[1], frame.data(), frame.size()), 7);
  close(in[1]);
  EXPECT_TRUE(Serve(in[0], out[1], [](std::string_view text) { return std::string(text) + "!"; }));
  std::array<char, 9> reply{};
  ASSERT_EQ(read(out[0], reply.data(), reply.size()), 8);
  EXPECT_EQ(std::string(reply.data() + 4, 4), "abc!");
  for (const int file : {in[0], out[0], out[1]}) close(file);
}

TEST(Worker, ServesNoHalfFrames) {
  for (const std::string& text : {std::string("\3\0", 2), std::string("\3\0\0\0ab", 6),
                                  std::string("\377\377\377\377ab", 6)}) {
    std::array<int, 2> in{};
    ASSERT_EQ(pipe(in.data()), 0);
    ASSERT_EQ(write(in[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(in[1]);
    EXPECT_FALSE(Serve(in[0], -1, [](std::string_view) { return ""; }));
    close(in[0]);
  }
}

}  // namespace
}  // namespace weft::tuner
