// Measurements in SQLite: what took how long, on which device, with which library.
//
// The key of a record is everything that its time depends on: the canonical comprehension (or
// library call), sizes, layouts, element types, choice, target, threads, and the identity of
// device, library and code generator. Several processes may share the file. A database that can't
// be read is treated as empty, and one that can't be written is not written.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft {

struct TuningKey {
  std::string what;  // canonical text of the comprehension or of the library call, layouts included
  std::string choice;  // canonical text of the choice; empty for a library call
  std::string target;  // Print(Target)
  std::string device;  // model of the processor or GPU, as it names itself
  std::string engine;  // library or compiler and weft, with all that tells their builds apart
  auto operator<=>(const TuningKey&) const = default;
};

// In place of a choice: the record's note is the one that was found best.
inline constexpr std::string_view kBestChoice = "best";

struct TuningRecord {
  double median_us = 0;
  double low_us = 0, high_us = 0;  // 95 % interval of the median
  int64_t samples = 0;
  bool correct = true;  // outputs agreed with the reference
  std::string note;     // why not, if not; of kBestChoice the choice
};

class TuningDb {
 public:
  static Result<std::unique_ptr<TuningDb>> Open(const std::string& path);  // ":memory:" too
  // One that is there already, from anywhere, and is not written; an error if it can't be read.
  static Result<std::unique_ptr<TuningDb>> Read(const std::string& path);
  static std::string PathIn(const std::string& cache_directory);
  ~TuningDb();
  std::optional<TuningRecord> Find(const TuningKey& key);
  void Store(const TuningKey& key, const TuningRecord& record);  // replaces
  Status CheckWritable();  // kLimit if what is stored would not be kept
  // Takes the records of another: of two with one key, that of more samples stays. How many came.
  Result<int64_t> Merge(TuningDb& other);
  Result<std::string> Bytes();  // as a file of its own
  int64_t size();
  // A hash of what is found best: as long as it stays, builds that go by it stay.
  std::string BestChoices();

 private:
  struct State;
  explicit TuningDb(std::unique_ptr<State> state);
  Status NotKept();
  std::unique_ptr<State> state_;
};

}  // namespace weft
