#include "base/cache/tuning_db.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "base/file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class TuningDbTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/weft-db-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    path_ = root_ + "/tuning.db";
  }
  void TearDown() override { fs::remove_all(root_); }

  static std::unique_ptr<TuningDb> Open(const std::string& path) {
    Result<std::unique_ptr<TuningDb>> db = TuningDb::Open(path);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    return *std::move(db);
  }
  static TuningKey Key(std::string choice) {
    return {"def mm(...)", std::move(choice), "cpu:x86-64-v4 threads=2", "some processor",
            "weft codegen"};
  }

  std::string root_, path_;
};

const TuningRecord kFast = {.median_us = 1.5, .low_us = 1.25, .high_us = 2, .samples = 30};

TEST_F(TuningDbTest, KeepsRecords) {
  {
    const auto db = Open(path_);
    EXPECT_EQ(db->size(), 0);
    EXPECT_FALSE(db->Find(Key("a")));
    db->Store(Key("a"), kFast);
    TuningRecord wrong = kFast;
    wrong.correct = false;
    wrong.note = std::string("off by \0 3", 10);
    db->Store(Key("b"), kFast);
    db->Store(Key("b"), wrong);
  }
  const auto db = Open(path_);
  EXPECT_EQ(db->size(), 2);
  const std::optional<TuningRecord> a = db->Find(Key("a")), b = db->Find(Key("b"));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->median_us, 1.5);
  EXPECT_EQ(a->low_us, 1.25);
  EXPECT_EQ(a->high_us, 2);
  EXPECT_EQ(a->samples, 30);
  EXPECT_TRUE(a->correct);
  EXPECT_FALSE(b->correct);
  EXPECT_EQ(b->note.size(), 10u);
}

TEST_F(TuningDbTest, EveryPartOfTheKeyCounts) {
  const auto db = Open(":memory:");
  db->Store(Key("a"), kFast);
  for (auto part : {&TuningKey::what, &TuningKey::choice, &TuningKey::target, &TuningKey::device,
                    &TuningKey::engine}) {
    TuningKey key = Key("a");
    key.*part += "x";
    EXPECT_FALSE(db->Find(key));
  }
  EXPECT_TRUE(db->Find(Key("a")));
}

TEST_F(TuningDbTest, DamageIsEmpty) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(5000, 'x')).ok());
  const auto db = Open(path_);
  EXPECT_EQ(db->size(), 0);
  db->Store(Key("a"), kFast);
  EXPECT_FALSE(db->Find(Key("a")));
  EXPECT_EQ(*ReadFile(path_), std::string(5000, 'x'));  // somebody's file, left alone
  EXPECT_EQ(Open(root_)->size(), 0);
  EXPECT_EQ(Open(root_ + "/no/such/db")->size(), 0);
  EXPECT_FALSE(TuningDb::Open("").ok());
}

TEST_F(TuningDbTest, RandomDamageNeverCrashes) {
  {
    const auto db = Open(path_);
    for (int i = 0; i < 100; ++i) db->Store(Key(std::to_string(i)), kFast);
  }
  const std::string whole = *ReadFile(path_);
  std::srand(1);
  for (int round = 0; round < 60; ++round) {
    std::string damaged =
        whole.substr(0, round % 3 == 0 ? std::rand() % whole.size() : whole.size());
    for (int i = 0; i < 50 && !damaged.empty(); ++i)
      damaged[std::rand() % damaged.size()] = std::rand();
    ASSERT_TRUE(WriteFileAtomically(path_, damaged).ok());
    const auto db = Open(path_);
    for (int i = 0; i < 100; i += 7) {
      const auto record = db->Find(Key(std::to_string(i)));
      EXPECT_TRUE(!record || (std::isfinite(record->median_us) && record->median_us >= 0));
    }
    db->Store(Key("new"), kFast);
    db->size();
    fs::remove(path_ + "-wal");
    fs::remove(path_ + "-shm");
  }
}

TEST_F(TuningDbTest, ForeignSchemaIsEmpty) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
  sqlite3_exec(raw, "CREATE TABLE measurement (other INTEGER)", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  const auto db = Open(path_);
  EXPECT_EQ(db->size(), 0);
  db->Store(Key("a"), kFast);
  EXPECT_FALSE(db->Find(Key("a")));
}

// The same names with something behind them that acts.
TEST_F(TuningDbTest, OnlyOurSchemaIsRead) {
  const std::string columns =
      "key BLOB PRIMARY KEY, what TEXT, choice TEXT, target TEXT, device TEXT, engine TEXT, "
      "median_us REAL, low_us REAL, high_us REAL, samples INTEGER, correct INTEGER, note TEXT";
  for (const std::string& schema :
       {"CREATE TABLE measurement (" + columns + " AS (hex(zeroblob(400000000))) VIRTUAL)",
        "CREATE TABLE measurement (" + columns + "); CREATE INDEX best ON measurement (hex(key))",
        std::string("CREATE VIEW measurement AS SELECT 1 AS key")}) {
    fs::remove(path_);
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(raw, schema.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << schema;
    sqlite3_close(raw);
    EXPECT_FALSE(TuningDb::Read(path_).ok()) << schema;
    const auto db = Open(path_);
    db->Store(Key("a"), kFast);
    EXPECT_FALSE(db->Find(Key("a"))) << schema;
  }
}

TEST_F(TuningDbTest, PipesAreNotWaitedFor) {
  for (const char* suffix : {"", "-wal", "-journal"}) {
    ASSERT_EQ(::mkfifo((path_ + suffix).c_str(), 0600), 0);
    EXPECT_EQ(Open(path_)->size(), 0);
    fs::remove(path_ + suffix);
  }
}

TEST_F(TuningDbTest, ImpossibleRecordsAreNotBelieved) {
  const auto db = Open(path_);
  TuningRecord record = kFast;
  record.median_us = INFINITY;
  db->Store(Key("a"), record);
  record.median_us = std::nan("");
  db->Store(Key("b"), record);
  record.median_us = -1;
  db->Store(Key("c"), record);
  for (const char* choice : {"a", "b", "c"}) EXPECT_FALSE(db->Find(Key(choice)));
}

TEST_F(TuningDbTest, MergesWhatIsKnownBetter) {
  const auto db = Open(path_), other = Open(root_ + "/other.db");
  TuningRecord more = kFast;
  more.samples = 31;
  more.median_us = 1.75;
  db->Store(Key("ours"), kFast);
  db->Store(Key("fewer"), more);
  db->Store(Key("more"), kFast);
  other->Store(Key("fewer"), kFast);
  other->Store(Key("more"), more);
  other->Store(Key("new"), kFast);
  TuningRecord wrong = kFast;
  wrong.median_us = -1;
  other->Store(Key("wrong"), wrong);
  const auto came = db->Merge(**TuningDb::Read(root_ + "/other.db"));
  ASSERT_TRUE(came.ok()) << came.status().ToString();
  EXPECT_EQ(*came, 2);
  EXPECT_EQ(db->size(), 4);
  EXPECT_EQ(db->Find(Key("ours"))->samples, 30);
  EXPECT_EQ(db->Find(Key("fewer"))->samples, 31);
  EXPECT_EQ(db->Find(Key("more"))->median_us, 1.75);
  EXPECT_TRUE(db->Find(Key("new")));
  EXPECT_EQ(*db->Merge(*other), 0);
}

TEST_F(TuningDbTest, ItsBytesAreADatabase) {
  const auto db = Open(":memory:");
  db->Store(Key("a"), kFast);
  const auto bytes = db->Bytes();
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  ASSERT_TRUE(WriteFileAtomically(path_, *bytes).ok());
  const auto read = TuningDb::Read(path_);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ((*read)->Find(Key("a"))->samples, 30);
  EXPECT_EQ((*read)->Merge(*db).status().code(), Code::kLimit);  // is not written
  // What is cut or damaged ends in an error or in records that hold, never elsewhere.
  for (size_t i = 0; i < bytes->size(); i += 13) {
    std::string damaged = *bytes;
    damaged[i] ^= 0x55;
    for (const std::string& text : {damaged, bytes->substr(0, i)}) {
      ASSERT_TRUE(WriteFileAtomically(path_, text).ok());
      const auto found = TuningDb::Read(path_);
      if (found.ok()) (void)Open(":memory:")->Merge(**found);
    }
  }
}

TEST_F(TuningDbTest, ReadsNothingThatIsNone) {
  for (const char* text : {"", "SQLite format 3", "hello"}) {
    ASSERT_TRUE(WriteFileAtomically(path_, text).ok());
    const Status status = TuningDb::Read(path_).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << text;
    EXPECT_EQ(status.where(), path_);
    EXPECT_EQ(*ReadFile(path_), text);
  }
  EXPECT_EQ(TuningDb::Read(root_).status().code(), Code::kInvalid);
  EXPECT_EQ(TuningDb::Read(root_ + "/absent").status().code(), Code::kInvalid);
  EXPECT_FALSE(fs::exists(root_ + "/absent"));
}

TEST_F(TuningDbTest, UnwritableCanBeRead) {
  Open(path_)->Store(Key("a"), kFast);
  const auto use = [&] {
    ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
    ASSERT_EQ(::chmod(root_.c_str(), 0555), 0);
    if (::geteuid() == 0) {
      ASSERT_EQ(::seteuid(65534), 0);  // root could write
    }
    const auto db = Open(path_);
    db->Store(Key("b"), kFast);
    ::_exit(db->Find(Key("a")) && !db->Find(Key("b")) ? 0 : 1);
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(0), "measurements are not kept");
  ::chmod(root_.c_str(), 0700);
}

TEST_F(TuningDbTest, ProcessesShareTheFile) {
  constexpr int kWriters = 3, kEach = 50;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto db = Open(path_);
      for (int i = 0; i < kEach; ++i) db->Store(Key(std::to_string(writer * kEach + i)), kFast);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) ::waitpid(child, nullptr, 0);
  EXPECT_EQ(Open(path_)->size(), kWriters * kEach);
}

TEST_F(TuningDbTest, ThreadsShareAConnection) {
  const auto db = Open(path_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        db->Store(Key(std::to_string(t * 50 + i)), kFast);
        EXPECT_TRUE(db->Find(Key(std::to_string(t * 50 + i))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(db->size(), 150);
}

}  // namespace
}  // namespace weft
