#include "base/cache/tuning_db.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/log.h"

namespace weft {
namespace {

// Records are found by the hash of their key; the texts stand beside it for people and for transfer
// between similar keys.
constexpr char kSchema[] =
    "CREATE TABLE IF NOT EXISTS measurement ("
    "  key BLOB PRIMARY KEY, what TEXT NOT NULL, choice TEXT NOT NULL, target TEXT NOT NULL,"
    "  device TEXT NOT NULL, engine TEXT NOT NULL, median_us REAL NOT NULL, low_us REAL NOT NULL,"
    "  high_us REAL NOT NULL, samples INTEGER NOT NULL, correct INTEGER NOT NULL, note TEXT NOT "
    "NULL"
    ") WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS best ON measurement (key, note) WHERE choice = 'best'";
constexpr char kFind[] =
    "SELECT median_us, low_us, high_us, samples, correct, note FROM measurement WHERE key = ?1";
constexpr char kStore[] =
    "INSERT OR REPLACE INTO measurement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
constexpr char kMerge[] =
    "INSERT INTO measurement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) "
    "ON CONFLICT (key) DO UPDATE SET median_us = excluded.median_us, low_us = excluded.low_us, "
    "high_us = excluded.high_us, samples = excluded.samples, correct = excluded.correct, "
    "note = excluded.note WHERE excluded.samples > measurement.samples";
constexpr char kAll[] =
    "SELECT median_us, low_us, high_us, samples, correct, note, what, choice, target, device, "
    "engine FROM measurement";
constexpr char kBest[] =
    "SELECT hex(key), note FROM measurement WHERE choice = 'best' ORDER BY key";
constexpr int kBusyMs = 5000;
constexpr int kMostBytes = 1 << 24;  // of a row

Hash HashOf(const TuningKey& key) {
  return Hasher()
      .Add(key.what)
      .Add(key.choice)
      .Add(key.target)
      .Add(key.device)
      .Add(key.engine)
      .Finish();
}

class Statement {
 public:
  Statement(sqlite3* db, std::string_view sql) {
    if (db == nullptr) return;
    sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Each binds the next parameter.
  Statement& Bind(const Hash& hash) {
    sqlite3_bind_blob(statement_, ++bound_, hash.bytes.data(), sizeof hash.bytes, SQLITE_TRANSIENT);
    return *this;
  }
  Statement& Bind(std::string_view text) {
    sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
    return *this;
  }
  Statement& Bind(double value) { return sqlite3_bind_double(statement_, ++bound_, value), *this; }
  Statement& Bind(int64_t value) { return sqlite3_bind_int64(statement_, ++bound_, value), *this; }

  bool HasRow() { return statement_ != nullptr && sqlite3_step(statement_) == SQLITE_ROW; }
  bool Run() { return statement_ != nullptr && sqlite3_step(statement_) == SQLITE_DONE; }
  double Real(int column) { return sqlite3_column_double(statement_, column); }
  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : std::string(text, sqlite3_column_bytes(statement_, column));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// The first six columns; none if it can be no measurement, as in a file that is not ours.
std::optional<TuningRecord> RecordOf(Statement& row) {
  TuningRecord record = {.median_us = row.Real(0),
                         .low_us = row.Real(1),
                         .high_us = row.Real(2),
                         .samples = row.Int(3),
                         .correct = row.Int(4) != 0,
                         .note = row.Text(5)};
  const bool sane = std::isfinite(record.median_us) && record.median_us >= 0 &&
                    record.low_us >= 0 && record.low_us <= record.median_us &&
                    record.median_us <= record.high_us && record.samples >= 0;
  if (!sane) return std::nullopt;
  return record;
}

bool Write(sqlite3* db, std::string_view sql, const TuningKey& key, const TuningRecord& record) {
  Statement write(db, sql);
  write.Bind(HashOf(key))
      .Bind(key.what)
      .Bind(key.choice)
      .Bind(key.target)
      .Bind(key.device)
      .Bind(key.engine);
  write.Bind(record.median_us).Bind(record.low_us).Bind(record.high_us).Bind(record.samples);
  write.Bind(int64_t{record.correct}).Bind(record.note);
  return write.Run();
}

bool Execute(sqlite3* db, const char* sql) {
  return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

// What made the tables and indexes of the file; nothing if that can't be read.
std::optional<std::set<std::string>> SchemaOf(sqlite3* db) {
  std::set<std::string> schema;
  Statement rows(db, "SELECT sql FROM sqlite_master");
  while (rows.HasRow()) schema.insert(rows.Text(0));
  if (sqlite3_errcode(db) != SQLITE_DONE) return std::nullopt;
  return schema;
}

// Columns that are computed, views and triggers can do anything at length: of a file that comes
// from elsewhere only what we make ourselves is taken, or a part of it.
bool HasOurSchema(sqlite3* db) {
  static const std::set<std::string> ours = [] {
    sqlite3* made = nullptr;
    sqlite3_open(":memory:", &made);
    Execute(made, kSchema);
    auto schema = SchemaOf(made).value_or(std::set<std::string>());
    sqlite3_close(made);
    return schema;
  }();
  const auto schema = SchemaOf(db);
  return schema && std::ranges::includes(ours, *schema);
}

// Neither the file nor those that SQLite keeps beside it: a pipe would be waited for.
bool IsOddFile(const std::string& path) {
  return std::ranges::any_of(std::array{"", "-wal", "-shm", "-journal"}, [&](const char* suffix) {
    std::error_code error;
    const auto status = std::filesystem::status(path + suffix, error);
    return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  });
}

sqlite3* TryOpen(const std::string& name, int flags) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(name.c_str(), &db, flags | SQLITE_OPEN_FULLMUTEX, nullptr) != SQLITE_OK) {
    sqlite3_close(db);
    return nullptr;
  }
  sqlite3_busy_timeout(db, kBusyMs);
  // The file may come from elsewhere: what its schema calls must not act.
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kMostBytes);
  if (!HasOurSchema(db)) {
    sqlite3_close(db);
    return nullptr;
  }
  return db;
}

bool CanRead(sqlite3* db) {
  Statement probe(db, kFind);
  return probe.Bind(Hash()).Run();
}

// A name that SQLite reads as a URI, with everything special in the path escaped.
std::string ImmutableUri(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (char c : path) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return uri + "?immutable=1";
}

}  // namespace

struct TuningDb::State {
  sqlite3* db = nullptr;  // null: nothing can be read
  std::string path;
  bool is_reported = false;

  ~State() { sqlite3_close(db); }

  // SQLite's longer messages quote the file, so they stay inside.
  void Report(std::string_view what) {
    if (std::exchange(is_reported, true)) return;
    WEFT_LOG(kWarning, "cache", "{}: {}{}{}", path, what, db == nullptr ? "" : ": ",
             db == nullptr ? "" : sqlite3_errstr(sqlite3_extended_errcode(db)));
  }
};

TuningDb::TuningDb(std::unique_ptr<State> state) : state_(std::move(state)) {}
TuningDb::~TuningDb() = default;

Result<std::unique_ptr<TuningDb>> TuningDb::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos)
    return Usage("malformed path of a tuning database");
  auto state = std::make_unique<State>();
  state->path = path;
  if (IsOddFile(path)) {
    state->Report("the tuning database is no regular file and taken as empty");
    return std::unique_ptr<TuningDb>(new TuningDb(std::move(state)));
  }
  state->db = TryOpen(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (state->db != nullptr) {
    // With a write-ahead log, readers and one writer don't wait for each other. A lost power supply
    // may lose the last records, but never the file.
    sqlite3_exec(state->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", nullptr,
                 nullptr, nullptr);
    sqlite3_exec(state->db, kSchema, nullptr, nullptr, nullptr);
  }
  if (!CanRead(state->db)) {
    // In a directory that can't be written there is no place for the log, but also nobody who
    // writes.
    sqlite3* const fixed = TryOpen(ImmutableUri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    if (CanRead(fixed)) {
      sqlite3_close(std::exchange(state->db, fixed));
    } else {
      sqlite3_close(fixed);
      state->Report("the tuning database is unreadable, or not of weft, and taken as empty");
      sqlite3_close(std::exchange(state->db, nullptr));
    }
  }
  return std::unique_ptr<TuningDb>(new TuningDb(std::move(state)));
}

Result<std::unique_ptr<TuningDb>> TuningDb::Read(const std::string& path) {
  if (std::error_code error; !std::filesystem::is_regular_file(path, error))
    return Invalid(error ? error.message() : "no regular file").At(path);
  if (IsOddFile(path)) return Invalid("found no regular file beside it").At(path);
  auto state = std::make_unique<State>();
  state->path = path;
  // Without a place for what SQLite keeps beside a file, it is read as one that nobody writes.
  state->db = TryOpen(path, SQLITE_OPEN_READONLY);
  if (!CanRead(state->db)) {
    sqlite3_close(std::exchange(
        state->db, TryOpen(ImmutableUri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)));
  }
  if (!CanRead(state->db)) return Invalid("no database of measurements").At(path);
  return std::unique_ptr<TuningDb>(new TuningDb(std::move(state)));
}

std::string TuningDb::PathIn(const std::string& cache_directory) {
  return cache_directory + "/tuning.db";
}

std::optional<TuningRecord> TuningDb::Find(const TuningKey& key) {
  Statement find(state_->db, kFind);
  if (!find.Bind(HashOf(key)).HasRow()) return std::nullopt;
  return RecordOf(find);
}

void TuningDb::Store(const TuningKey& key, const TuningRecord& record) {
  if (state_->db == nullptr) return;
  if (!Write(state_->db, kStore, key, record)) state_->Report("measurements are not kept");
}

Status TuningDb::NotKept() {
  const int error = state_->db == nullptr ? SQLITE_CANTOPEN : sqlite3_extended_errcode(state_->db);
  Execute(state_->db, "ROLLBACK");
  return Limit(fmt::format("measurements are not kept: {}", sqlite3_errstr(error)))
      .At(state_->path);
}

Status TuningDb::CheckWritable() {
  if (state_->db == nullptr || !Execute(state_->db, "BEGIN IMMEDIATE")) return NotKept();
  Execute(state_->db, "ROLLBACK");
  return {};
}

Result<int64_t> TuningDb::Merge(TuningDb& other) {
  sqlite3* const db = state_->db;
  if (other.state_->db == nullptr) return 0;
  if (db == nullptr || !Execute(db, "BEGIN IMMEDIATE")) return NotKept();
  int64_t came = 0;
  Statement rows(other.state_->db, kAll);
  // Records are filed under the key that their texts have, whatever the file calls it.
  while (rows.HasRow()) {
    const std::optional<TuningRecord> record = RecordOf(rows);
    if (!record) continue;
    const TuningKey key = {rows.Text(6), rows.Text(7), rows.Text(8), rows.Text(9), rows.Text(10)};
    if (!Write(db, kMerge, key, *record)) return NotKept();
    came += sqlite3_changes(db);
  }
  if (const int error = sqlite3_errcode(other.state_->db); error != SQLITE_DONE) {
    Execute(db, "ROLLBACK");
    return Invalid(sqlite3_errstr(error)).At(other.state_->path);
  }
  if (!Execute(db, "COMMIT")) return NotKept();
  return came;
}

Result<std::string> TuningDb::Bytes() {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> bytes(
      sqlite3_serialize(state_->db, "main", &size, 0), sqlite3_free);
  if (!bytes) return Limit("no memory for a copy of the measurements").At(state_->path);
  return std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size));
}

std::string TuningDb::BestChoices() {
  Hasher hasher;
  for (Statement rows(state_->db, kBest); rows.HasRow();)
    hasher.Add(rows.Text(0)).Add(rows.Text(1));
  return hasher.Finish().Hex();
}

int64_t TuningDb::size() {
  Statement count(state_->db, "SELECT count(*) FROM measurement");
  return count.HasRow() ? count.Int(0) : 0;
}

}  // namespace weft
