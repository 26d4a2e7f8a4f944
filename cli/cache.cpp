#include <fmt/format.h>

#include <map>

#include "base/log.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "driver/cached.h"

namespace weft::cli {
namespace {

constexpr const char* kKeptSize = "1G";

struct CacheFlags {
  std::vector<std::string> files;
  std::string max_size = kKeptSize;
  std::function<Status()> chosen;
};

// Where a build does without a cache that does not open, these have nothing to do.
struct OpenedCache {
  FileCache files;
  std::unique_ptr<TuningDb> tuning;
};

Result<OpenedCache> OpenCache(const Flags& flags) {
  for (const std::string& setting : flags.log) WEFT_TRY(ConfigureLog(setting));
  WEFT_TRY(const std::string directory, CacheDirectory(flags));
  WEFT_TRY(FileCache files, FileCache::Open(directory));
  WEFT_TRY(auto tuning, TuningDb::Open(TuningDb::PathIn(files.directory())));
  return OpenedCache{std::move(files), std::move(tuning)};
}

struct Volume {
  int64_t entries = 0, bytes = 0;
  void Add(const CacheEntry& entry) { ++entries, bytes += entry.bytes; }
};

Json VolumeJson(const Volume& volume) {
  return {{"entries", volume.entries}, {"bytes", volume.bytes}};
}

Status CacheStats(const Flags& flags) {
  WEFT_TRY(const OpenedCache cache, OpenCache(flags));
  std::map<std::string, Volume> kinds;
  for (const CacheEntry& entry : cache.files.Entries()) kinds[entry.kind].Add(entry);
  if (!flags.json) {
    fmt::print("{}\n", Printable(cache.files.directory()));
    for (const auto& [kind, volume] : kinds)
      fmt::print("  {}: {} entries, {} bytes\n", kind, volume.entries, volume.bytes);
    fmt::print("  measurements: {}\n", cache.tuning->size());
    return {};
  }
  Json described = Json::object();
  for (const auto& [kind, volume] : kinds) described[kind] = VolumeJson(volume);
  PrintJson({{"schema", 1},
             {"directory", cache.files.directory()},
             {"kinds", described},
             {"measurements", cache.tuning->size()}});
  return {};
}

std::string WhyText(const driver::Cached& cached, size_t compiled) {
  std::string plan = "planned";
  if (!cached.is_planned) plan = "to be planned: nothing was built of this with these options here";
  if (cached.other_budget_s)
    plan = fmt::format("to be planned: was built with --budget {}", *cached.other_budget_s);
  return fmt::format("{}; {} of {} kernels compiled, {} of {} steps measured", plan, compiled,
                     cached.kernels.size(), cached.measured, cached.steps);
}

Status CacheWhy(const Flags& flags) {
  Session session;
  WEFT_TRY(OpenSession(flags, session, true));  // as `weft build` does
  if (!session.cache) return Missing("no cache to look into").Try("--cache-dir");
  WEFT_TRY(const auto found, driver::FindCached(flags.model, session.options, session.profiles));
  Json specializations = Json::array();
  for (const driver::Cached& cached : found) {
    Json kernels = Json::array();
    size_t compiled = 0;
    for (const driver::Cached::Kernel& kernel : cached.kernels) {
      kernels.push_back({{"name", kernel.name}, {"compiled", kernel.is_compiled}});
      compiled += kernel.is_compiled;
    }
    const std::string why = WhyText(cached, compiled);
    specializations.push_back({{"planned", cached.is_planned},
                               {"key", cached.key},
                               {"why", why},
                               {"kernels", kernels},
                               {"steps", cached.steps},
                               {"measured", cached.measured}});
    if (!flags.json) fmt::print("{}\n", why);
  }
  if (flags.json)
    PrintJson({{"schema", 1},
               {"specializations", specializations},
               {"env", EnvironmentJson(flags, session.options.target.threads)}});
  return {};
}

// Machine code stays where it was made: nobody runs what others have compiled.
Status WriteMeasurements(const Flags& flags, const std::vector<std::unique_ptr<TuningDb>>& from) {
  if (flags.output.empty()) return Usage("found no place for the measurements").Try("-o F.db");
  WEFT_TRY(const auto all, TuningDb::Open(":memory:"));
  for (const auto& db : from) WEFT_TRY(all->Merge(*db));
  WEFT_TRY(const std::string bytes, all->Bytes());
  const HoldInterrupt whole;
  WEFT_TRY(WriteFileAtomically(flags.output, bytes));
  if (flags.json)
    PrintJson({{"schema", 1}, {"file", flags.output}, {"measurements", all->size()}});
  else
    fmt::print("{}: {} measurements\n", Printable(flags.output), all->size());
  return {};
}

Status CacheExport(const Flags& flags) {
  WEFT_TRY(OpenedCache cache, OpenCache(flags));
  std::vector<std::unique_ptr<TuningDb>> from;
  from.push_back(std::move(cache.tuning));
  return WriteMeasurements(flags, from);
}

Result<std::vector<std::unique_ptr<TuningDb>>> ReadAll(const std::vector<std::string>& files) {
  std::vector<std::unique_ptr<TuningDb>> all;
  for (const std::string& file : files) {
    WEFT_TRY(auto db, TuningDb::Read(file));
    all.push_back(std::move(db));
  }
  return all;
}

Status CacheMerge(const Flags& flags, const CacheFlags& given) {
  for (const std::string& setting : flags.log) WEFT_TRY(ConfigureLog(setting));
  WEFT_TRY(const auto from, ReadAll(given.files));
  return WriteMeasurements(flags, from);
}

Status CacheImport(const Flags& flags, const CacheFlags& given) {
  WEFT_TRY(const OpenedCache cache, OpenCache(flags));
  WEFT_TRY(const auto from, ReadAll(given.files));
  int64_t came = 0;
  for (const auto& db : from) {
    WEFT_TRY(const int64_t of_one, cache.tuning->Merge(*db));
    came += of_one;
  }
  if (flags.json)
    PrintJson({{"schema", 1}, {"imported", came}, {"measurements", cache.tuning->size()}});
  else
    fmt::print("{} measurements came, {} are there\n", came, cache.tuning->size());
  return {};
}

// Damaged entries go, which nobody can use, then the oldest until the rest fits.
Status CachePrune(const Flags& flags, const CacheFlags& given) {
  WEFT_TRY(const int64_t most, ParseBytes(given.max_size));
  WEFT_TRY(const OpenedCache cache, OpenCache(flags));
  std::vector<CacheEntry> whole;
  Volume damaged, kept, old;
  for (CacheEntry& entry : cache.files.Entries()) {
    if (!cache.files.PathOf(entry.kind, entry.key)) {
      if (cache.files.Remove(entry)) damaged.Add(entry);
      continue;
    }
    kept.Add(entry);
    whole.push_back(std::move(entry));
  }
  for (const CacheEntry& entry : whole) {
    if (kept.bytes <= most) break;
    if (!cache.files.Remove(entry)) continue;
    old.Add(entry);
    --kept.entries, kept.bytes -= entry.bytes;
  }
  if (flags.json)
    PrintJson({{"schema", 1},
               {"damaged", VolumeJson(damaged)},
               {"old", VolumeJson(old)},
               {"kept", VolumeJson(kept)}});
  else
    fmt::print("{} damaged and {} old entries went, {} stay, of {} bytes\n", damaged.entries,
               old.entries, kept.entries, kept.bytes);
  return {};
}

}  // namespace

void AddCache(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto given = std::make_shared<CacheFlags>();
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* help, std::function<Status()> what) {
    CLI::App* sub = app.add_subcommand(name, help);
    AddGeneralFlags(*sub, flags);
    sub->callback([given, what = std::move(what)] { given->chosen = what; });
    return sub;
  };
  const auto add_files = [&](CLI::App* sub) {
    sub->add_option("FILE", given->files, "measurements that export or merge wrote")->required();
  };
  const auto add_output = [&](CLI::App* sub) {
    sub->add_option("-o,--output", flags.output, "F.db for the measurements");
  };
  AddCacheFlag(*add("stats", "count what is kept", [&flags] { return CacheStats(flags); }), flags);
  CLI::App* why = add("why", "say what a build of a model would find", [&flags] {
    MeasureByDefault(flags);
    return CacheWhy(flags);
  });
  AddModel(*why, flags, "MODEL");
  AddBuildFlags(*why, flags);
  CLI::App* out = add("export", "write the measurements to a file of their own",
                      [&flags] { return CacheExport(flags); });
  AddCacheFlag(*out, flags);
  add_output(out);
  CLI::App* in = add("import", "take the measurements of files; of two the one of more samples",
                     [&flags, given = given.get()] { return CacheImport(flags, *given); });
  AddCacheFlag(*in, flags);
  add_files(in);
  CLI::App* merge = add("merge", "make one file of measurements of several",
                        [&flags, given = given.get()] { return CacheMerge(flags, *given); });
  add_files(merge);
  add_output(merge);
  CLI::App* prune = add("prune", "remove damaged entries, then the oldest",
                        [&flags, given = given.get()] { return CachePrune(flags, *given); });
  AddCacheFlag(*prune, flags);
  prune->add_option("--max-size", given->max_size,
                    fmt::format("what may stay: 512M, 2G; default {}", kKeptSize));
  run = [given] { return given->chosen(); };
}

}  // namespace weft::cli
