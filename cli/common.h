// What all verbs share: options with one meaning everywhere, and how they are turned into work.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/cache/tuning_db.h"
#include "base/status.h"
#include "base/tensor.h"
#include "cli/image.h"
#include "driver/accuracy.h"
#include "driver/build.h"
#include "driver/options.h"
#include "plan/plan.h"
#include "tuner/measure.h"

namespace weft::cli {

using Json = nlohmann::ordered_json;

// As given on the command line; --help of each verb says what they mean.
struct Flags {
  bool json = false, quiet = false;
  std::vector<std::string> log;
  std::string target = "cpu";
  int32_t threads = 0;
  std::vector<std::string> shapes, dims, profiles;
  std::string inputs, data, expected;
  std::vector<std::string> input;
  ImageFlags image;
  uint64_t seed = 0;
  std::string output, cache_dir, budget, force, specialize, dump, max_memory;
  std::vector<std::string> allow;
  bool strict = false;
  double tolerance = 1e-4;
  std::optional<double> rtol, atol;
  std::string duration;
  int64_t runs = 0, warmup = -1;
  std::string model;  // the positional
};

// A verb: adds its options to `app`; `run` is called if it was chosen and returns the exit code's
// status.
using Verb = void (*)(CLI::App& app, Flags& flags, std::function<Status()>& run);

// For numbers of options: neither less than 0 nor NaN, which no comparison would find.
CLI::Validator NotNegative();
void AddGeneralFlags(CLI::App& app, Flags& flags);  // --json --quiet --log
void AddCacheFlag(CLI::App& app, Flags& flags);     // --cache-dir
void AddBuildFlags(CLI::App& app, Flags& flags);    // --target --shape … --budget --force …
void AddSpecializeFlag(CLI::App& app, Flags& flags);
void AddDataFlags(CLI::App& app,
                  Flags& flags);  // --inputs --input --data --seed --mean --scale --layout
void AddAccuracyFlags(CLI::App& app, Flags& flags);  // --expected --tolerance --rtol --atol
void AddMeasureFlags(CLI::App& app, Flags& flags);   // --duration --runs --warmup
void AddMemoryFlag(CLI::App& app, Flags& flags);     // --max-memory
void AddModel(CLI::App& app, Flags& flags, const char* what);

// For the verbs that are about speed: a budget of 60 s, unless one is given.
void MeasureByDefault(Flags& flags);

// By group: lines of choices alone, or those of a module's text, as --dump writes it.
Result<std::map<std::string, polyhedral::Choice>> ReadChoices(const std::string& path);

Result<std::string> CacheDirectory(const Flags& flags);

// Everything a build needs, with the cache and database opened. A cache that can't be opened is
// said on stderr and done without.
struct Session {
  driver::BuildOptions options;
  std::optional<FileCache> cache;
  std::unique_ptr<TuningDb> tuning;
  std::vector<std::vector<std::pair<std::string, Shape>>> profiles;
  std::vector<std::pair<std::string, Shape>> tuned;  // by input with a range: the size to tune at
};
// An extent with a range has the size to tune at; where plans keep `open_inputs`, that is a
// specialization beside one for the range.
Status OpenSession(const Flags& flags, Session& session, bool open_inputs = false);

// "60", "500ms", "2s", "1m", "1h" in seconds.
Result<double> ParseDuration(const std::string& text);
// "x=1x3x224x224".
Result<std::pair<std::string, Shape>> ParseShapeFlag(const std::string& text);
// "x=1..8@4x3x224x224": extents in a range, and the one to tune at.
struct RangedShape {
  std::string input;
  Shape shape;                                      // -1: in a range
  Shape tuned;                                      // -1: in a range without a size to tune at
  std::vector<std::pair<size_t, Interval>> ranges;  // by axis
};
Result<RangedShape> ParseRangedShape(const std::string& text);

// "512M", "2G": bytes, or with K, M, G or T that many times 1024.
Result<int64_t> ParseBytes(const std::string& text);
// What --max-memory allows, 0 without it. kLimit if a specialization of the plan needs more on that
// many threads: arena, weights, inputs, outputs and the scratch of its kernels.
Result<int64_t> CheckMemory(const Flags& flags, const plan::Plan& plan, int32_t threads);
// driver::Build, which Ctrl-C makes finish with what it has measured so far; without a budget there
// is nothing to wait for, and it ends the process.
Result<driver::Built> BuildOrStop(
    const std::string& path, const driver::BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles);

Result<tuner::MeasureOptions> MeasureOptionsOf(const Flags& flags);
// NaN and infinities, which JSON has no words for, are null.
Json AccuracyJson(const driver::Accuracy& accuracy);
Json StepCounts(const plan::Specialization& specialization);

// A plan file begins with its magic; everything else is taken for a model.
bool IsPlanFile(const std::string& path);
void Progress(const Flags& flags, const std::string& text);  // stderr, unless --quiet
// Bytes that are no UTF-8 are replaced: whatever a model calls its nodes, this is valid JSON.
std::string ToText(const Json& json);
// One document on stdout: the first one counts, so that an error after a report adds nothing.
void PrintJson(const Json& json);
Json EnvironmentJson(const Flags& flags, int32_t threads);

}  // namespace weft::cli
