#include "cli/common.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/target.h"
#include "base/version.h"
#include "cli/interrupt.h"
#include "driver/target.h"
#include "fallback/execute.h"
#include "plan/memory.h"

namespace weft::cli {
namespace {

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Result<int64_t> ParseCount(const std::string& text) {
  size_t used = 0;
  int64_t value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || value < 0)
    return Usage(fmt::format("found \"{}\", expected a number that is not negative", text));
  return value;
}

Status FillPartition(const Flags& flags, TargetKind kind, partition::PartitionOptions& options) {
  if (flags.force == "own")
    options.force = partition::PartitionOptions::Force::kOwn;
  else if (flags.force == "vendor")
    options.ForceVendor();
  else if (flags.force == "calls")
    options.force = partition::PartitionOptions::Force::kCalls;
  else if (!flags.force.empty())
    return Usage(fmt::format("--force {}: expected own, vendor or calls", flags.force));
  options.strict = flags.strict;
  options.vendor = !fallback::LibraryVersions(kind).empty();
  return {};
}

// What may change rounding beyond the numerics of the design. tf32, factors of fewer bits, is for
// the libraries of a GPU.
Status FillAllowed(const std::vector<std::string>& allow, driver::BuildOptions& options) {
  for (const std::string& what : allow) {
    if (what == "none" && allow.size() > 1)
      return Usage("--allow none: expected nothing beside it");
    if (what == "none") options.partition.flushes = false;
    if (what == "none") options.winograd = tc::Winograd::kNever;
    if (what == "winograd") options.winograd = tc::Winograd::kAlways;
    if (what == "bf16") options.bfloat16 = true;
    if (what == "tf32") options.partition.tf32 = true;
    if (what != "none" && what != "winograd" && what != "tf32" && what != "bf16")
      return Usage(fmt::format("--allow {}: expected tf32, bf16, winograd or none", what));
  }
  return {};
}

}  // namespace

CLI::Validator NotNegative() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = -1;
        if (CLI::detail::lexical_cast(text, value) && value >= 0) return "";
        return fmt::format("found {}, expected a number that is not negative", text);
      },
      "NUMBER");
}

void AddGeneralFlags(CLI::App& app, Flags& flags) {
  app.add_flag("--json", flags.json, "one JSON document on stdout, nothing else there");
  app.add_flag("--quiet", flags.quiet, "no progress on stderr");
  app.add_option("--log", flags.log, "LEVEL or TOPIC=LEVEL: debug, info, warning, error, off");
}

void AddCacheFlag(CLI::App& app, Flags& flags) {
  app.add_option("--cache-dir", flags.cache_dir, "default: $WEFT_CACHE_DIR, else the XDG cache");
}

void AddBuildFlags(CLI::App& app, Flags& flags) {
  app.add_option("--target", flags.target, "cpu[:x86-64-v3|x86-64-v4|native] or cuda[:sm_90]");
  app.add_option("--threads", flags.threads, "default: what cgroup and affinity allow");
  app.add_option(
      "--shape", flags.shapes,
      "INPUT=1x3x224x224, repeatable; 1..8@4x3x224x224: a range and the size to tune at");
  app.add_option("--dim", flags.dims, "SYMBOL=8, repeatable");
  app.add_option("--profile", flags.profiles,
                 "\"x=1x3;y=1x4\": one specialization each, repeatable");
  AddCacheFlag(app, flags);
  app.add_option("--budget", flags.budget, "time to measure in: 60s, 5m; 0 estimates only");
  app.add_option("--force", flags.force, "own | vendor | calls");
  app.add_option("--allow", flags.allow, "tf32, bf16, winograd; none")->delimiter(',');
  app.add_flag("--strict", flags.strict, "refuse a native step where a comprehension exists");
  app.add_option("--dump", flags.dump, "a folder for every text form, numbered");
}

void AddSpecializeFlag(CLI::App& app, Flags& flags) {
  app.add_option("--specialize", flags.specialize,
                 "now | background | never: whether kernels are compiled for what was not known "
                 "before, at once, beside calls of libraries and natives, or not; default now")
      ->check(CLI::IsMember({"now", "background", "never"}));
}

void AddDataFlags(CLI::App& app, Flags& flags) {
  app.add_option("--inputs", flags.inputs, "F.npz with arrays named as the inputs");
  app.add_option("--input", flags.input,
                 "NAME=F.npy, or an image: NAME=F.png, NAME=F.jpg; repeatable");
  app.add_option("--mean", flags.image.mean,
                 "of images: (pixel - mean) * scale; one number or one per channel; default 0")
      ->delimiter(',');
  app.add_option("--scale", flags.image.scale, "of images; default 1")->delimiter(',');
  app.add_option("--layout", flags.image.layout, "of images: nchw (default), nhwc, chw, hwc")
      ->check(CLI::IsMember({"nchw", "nhwc", "chw", "hwc"}));
  app.add_option("--data", flags.data, "an ONNX test_data_set folder: input_K.pb, output_K.pb");
  app.add_option("--seed", flags.seed, "for inputs that are generated");
}

void AddAccuracyFlags(CLI::App& app, Flags& flags) {
  app.add_option("--expected", flags.expected, "F.npz with what the outputs should be, by name");
  app.add_option("--tolerance", flags.tolerance,
                 "largest error, as a part of the output's scale; default 1e-4")
      ->check(NotNegative());
  app.add_option("--rtol", flags.rtol,
                 "by element instead: |y - expected| <= atol + rtol * |expected|")
      ->check(NotNegative());
  app.add_option("--atol", flags.atol, "likewise; either is 0 unless given")->check(NotNegative());
}

void AddMemoryFlag(CLI::App& app, Flags& flags) {
  app.add_option("--max-memory", flags.max_memory, "refuse a plan that needs more: 512M, 2G");
}

void AddMeasureFlags(CLI::App& app, Flags& flags) {
  app.add_option("--duration", flags.duration,
                 "at most this long: 2s; default until the interval is under 1 % or 3 s");
  app.add_option("--runs", flags.runs, "exactly so many");
  app.add_option("--warmup", flags.warmup, "runs that are not counted");
}

Result<tuner::MeasureOptions> MeasureOptionsOf(const Flags& flags) {
  tuner::MeasureOptions options{.runs = flags.runs, .seed = flags.seed};
  if (flags.runs < 0)
    return Usage(fmt::format("--runs {}: expected a number that is not negative", flags.runs));
  if (flags.warmup >= 0) options.warmup = flags.warmup;
  if (!flags.duration.empty()) {
    WEFT_TRY(options.seconds, ParseDuration(flags.duration));
  }
  return options;
}

Json AccuracyJson(const driver::Accuracy& a) {
  const auto finite = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
  return {{"max_abs", finite(a.max_abs)},
          {"max_rel", finite(a.max_rel)},
          {"max_ulp", finite(a.max_ulp)},
          {"within", a.within}};
}

Json StepCounts(const plan::Specialization& s) {
  Json counts;
  for (auto kind : {plan::StepKind::kOwn, plan::StepKind::kVendor, plan::StepKind::kNative,
                    plan::StepKind::kView, plan::StepKind::kPlan}) {
    int64_t n = 0;
    for (const plan::Step& step : s.steps) n += step.kind == kind;
    counts[std::string(plan::StepKindName(kind))] = n;
  }
  return counts;
}

void AddModel(CLI::App& app, Flags& flags, const char* what) {
  app.add_option(what, flags.model, what)->required();
}

Result<std::map<std::string, polyhedral::Choice>> ReadChoices(const std::string& path) {
  WEFT_TRY(const std::string text, ReadFile(path));
  if (text.starts_with("=== ")) {
    WEFT_TRY(driver::Module module, driver::ParseModule(text, path, BlobStore()));
    return std::move(module.choices);
  }
  WEFT_TRY(auto choices, polyhedral::ParseChoices(text, path));
  std::map<std::string, polyhedral::Choice> by_group;
  for (auto& choice : choices) by_group[choice.group] = std::move(choice);
  return by_group;
}

Result<double> ParseDuration(const std::string& text) {
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double scale = unit.empty() || unit == "s" ? 1
                       : unit == "ms"              ? 1e-3
                       : unit == "m"               ? 60
                       : unit == "h"               ? 3600
                                                   : -1;
  if (used == 0 || scale < 0 || !(value >= 0 && value < 1e9))
    return Usage(
        fmt::format("found \"{}\", expected a duration such as 500ms, 60, 5m or 1h", text));
  return value * scale;
}

Result<int64_t> ParseBytes(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  const size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  const auto count = ParseCount(unit == kUnits.npos ? text : text.substr(0, text.size() - 1));
  const int64_t scale = unit == kUnits.npos ? 1 : int64_t{1} << (10 * (unit + 1));
  int64_t bytes = 0;
  if (!count.ok() || __builtin_mul_overflow(*count, scale, &bytes))
    return Usage(fmt::format("found \"{}\", expected a size such as 100000, 512M or 2G", text));
  return bytes;
}

Result<int64_t> CheckMemory(const Flags& flags, const plan::Plan& plan, int32_t threads) {
  if (flags.max_memory.empty()) return 0;
  WEFT_TRY(const int64_t allowed, ParseBytes(flags.max_memory));
  for (const plan::Specialization& s : plan.specializations)
    if (const int64_t needed = plan::NeededBytes(plan, s, threads); needed > allowed)
      return Limit(fmt::format("the plan needs {} bytes, --max-memory allows {}", needed, allowed))
          .At(flags.model)
          .Try("a smaller --shape, or fewer --threads");
  return allowed;
}

Result<driver::Built> BuildOrStop(
    const std::string& path, const driver::BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles) {
  if (options.budget_s == 0) return driver::Build(path, options, profiles);
  const HoldInterrupt measuring;
  driver::BuildOptions stoppable = options;
  stoppable.stop = &Interrupted();
  return driver::Build(path, stoppable, profiles);
}

Result<RangedShape> ParseRangedShape(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0)
    return Usage(fmt::format("found \"{}\", expected INPUT=1x3x224x224 or INPUT=1..8@4x3", text));
  RangedShape out{.input = text.substr(0, equals)};
  for (const std::string& part : SplitAt(text.substr(equals + 1), 'x')) {
    const size_t dots = part.find(".."), at = part.find('@');
    int64_t size = -1;
    if (dots == part.npos) {
      WEFT_TRY(size, ParseCount(part));
      out.shape.push_back(size);
    } else {
      Interval range;
      WEFT_TRY(range.lo, ParseCount(part.substr(0, dots)));
      WEFT_TRY(range.hi, ParseCount(part.substr(dots + 2, at - dots - 2)));
      if (at != part.npos) {
        WEFT_TRY(size, ParseCount(part.substr(at + 1)));
      }
      if (range.empty() || (at != part.npos && (size < range.lo || size > range.hi)))
        return Usage(
            fmt::format("found \"{}\", expected LOW..HIGH, or LOW..HIGH@SIZE within", part));
      out.ranges.emplace_back(out.shape.size(), range);
      out.shape.push_back(-1);
    }
    out.tuned.push_back(size);
  }
  return out;
}

Result<std::pair<std::string, Shape>> ParseShapeFlag(const std::string& text) {
  WEFT_TRY(RangedShape given, ParseRangedShape(text));
  if (!given.ranges.empty())
    return Usage(fmt::format("found \"{}\", expected INPUT=1x3x224x224", text));
  return std::pair(std::move(given.input), std::move(given.shape));
}

void MeasureByDefault(Flags& flags) {
  if (flags.budget.empty()) flags.budget = "60s";
}

Result<std::string> CacheDirectory(const Flags& flags) {
  if (!flags.cache_dir.empty()) return flags.cache_dir;
  return FileCache::DefaultDirectory();
}

namespace {

Status ReadShapes(const Flags& flags, Session& session) {
  driver::BuildOptions& options = session.options;
  for (const std::string& text : flags.shapes) {
    WEFT_TRY(RangedShape given, ParseRangedShape(text));
    options.shapes.emplace_back(given.input, given.shape);
    for (const auto& [axis, range] : given.ranges)
      options.ranges.emplace_back(given.input, axis, range);
    if (given.tuned != given.shape)
      session.tuned.emplace_back(std::move(given.input), std::move(given.tuned));
  }
  for (const std::string& text : flags.profiles) {
    session.profiles.emplace_back();
    for (const std::string& part : SplitAt(text, ';')) {
      WEFT_TRY(auto shape, ParseShapeFlag(part));
      session.profiles.back().push_back(std::move(shape));
    }
  }
  if (session.tuned.empty()) return {};
  if (options.open_inputs) {
    session.profiles.push_back(session.tuned);
    session.profiles.emplace_back();  // the last, as it takes whatever those before do not
  } else {
    options.shapes.insert(options.shapes.end(), session.tuned.begin(), session.tuned.end());
  }
  return {};
}

}  // namespace

Status OpenSession(const Flags& flags, Session& session, bool open_inputs) {
  for (const std::string& setting : flags.log) WEFT_TRY(ConfigureLog(setting));
  driver::BuildOptions& options = session.options;
  WEFT_TRY(options.target, driver::TargetHere(flags.target));
  if (flags.threads < 0 || flags.threads > 4096)
    return Usage(fmt::format("--threads {}: expected 1 to 4096", flags.threads));
  if (flags.threads > 0) options.target.threads = flags.threads;
  options.open_inputs = open_inputs;
  WEFT_TRY(ReadShapes(flags, session));
  for (const std::string& text : flags.dims) {
    const size_t equals = text.rfind('=');
    if (equals == text.npos) return Usage(fmt::format("--dim {}: expected SYMBOL=8", text));
    WEFT_TRY(options.symbols[text.substr(0, equals)], ParseCount(text.substr(equals + 1)));
  }
  if (!flags.budget.empty()) {
    WEFT_TRY(options.budget_s, ParseDuration(flags.budget));
  }
  WEFT_TRY(FillPartition(flags, options.target.kind, options.partition));
  if (flags.specialize == "background") options.specialize = driver::Specialize::kBackground;
  if (flags.specialize == "never") options.specialize = driver::Specialize::kNever;
  WEFT_TRY(FillAllowed(flags.allow, options));
  options.dump_dir = flags.dump;

  if (const auto directory = CacheDirectory(flags); directory.ok()) {
    if (auto cache = FileCache::Open(*directory); cache.ok()) {
      session.cache = std::move(*cache);
      options.cache = &*session.cache;
      if (auto db = TuningDb::Open(TuningDb::PathIn(*directory)); db.ok())
        session.tuning = std::move(*db);
      options.tuning = session.tuning.get();
    } else {
      Progress(flags, fmt::format("weft: works without a cache: {}", cache.status().ToString()));
    }
  }
  return {};
}

bool IsPlanFile(const std::string& path) {
  if (std::error_code error; !std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  char magic[8] = {};
  file.read(magic, sizeof magic);
  return file && std::string_view(magic, sizeof magic) == "WEFTPLAN";
}

void Progress(const Flags& flags, const std::string& text) {
  if (!flags.quiet) fmt::print(stderr, "{}\n", text);
}

std::string ToText(const Json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void PrintJson(const Json& json) {
  static bool is_printed = false;
  if (std::exchange(is_printed, true)) return;
  fmt::print("{}", ToText(json));
}

Json EnvironmentJson(const Flags& flags, int32_t threads) {
  Target host;
  if (auto found = HostTarget(); found.ok()) host = *found;
  host.threads = threads;
  return {{"weft", Version()},
          {"cpu", DeviceName()},
          {"isa", weft::Print(host)},
          {"libraries", fallback::LibraryVersion(fallback::Library::kOnednn)},
          {"threads", threads},
          {"seed", flags.seed}};
}

}  // namespace weft::cli
