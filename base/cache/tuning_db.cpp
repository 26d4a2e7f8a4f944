#include "base/cache/tuning_db.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
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
    ") WITHOUT ROWID";
constexpr char kFind[] =
    "SELECT median_us, low_us, high_us, samples, correct, note FROM measurement WHERE key = ?1";
constexpr char kStore[] =
    "INSERT OR REPLACE INTO measurement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
constexpr int kBusyMs = 5000;

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
    const int error = db == nullptr ? SQLITE_CANTOPEN : sqlite3_extended_errcode(db);
    WEFT_LOG(kWarning, "cache", "{}: {}: {}", path, what, sqlite3_errstr(error));
  }
};

TuningDb::TuningDb(std::unique_ptr<State> state) : state_(std::move(state)) {}
TuningDb::~TuningDb() = default;

Result<std::unique_ptr<TuningDb>> TuningDb::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos)
    return Usage("malformed path of a tuning database");
  auto state = std::make_unique<State>();
  state->path = path;
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
      state->Report("the tuning database is unreadable and taken as empty");
      sqlite3_close(std::exchange(state->db, nullptr));
    }
  }
  return std::unique_ptr<TuningDb>(new TuningDb(std::move(state)));
}

std::optional<TuningRecord> TuningDb::Find(const TuningKey& key) {
  Statement find(state_->db, kFind);
  if (!find.Bind(HashOf(key)).HasRow()) return std::nullopt;
  TuningRecord record = {.median_us = find.Real(0),
                         .low_us = find.Real(1),
                         .high_us = find.Real(2),
                         .samples = find.Int(3),
                         .correct = find.Int(4) != 0,
                         .note = find.Text(5)};
  const bool sane = std::isfinite(record.median_us) && record.median_us >= 0 &&
                    record.low_us >= 0 && record.low_us <= record.median_us &&
                    record.median_us <= record.high_us && record.samples >= 0;
  if (!sane) return std::nullopt;
  return record;
}

void TuningDb::Store(const TuningKey& key, const TuningRecord& record) {
  if (state_->db == nullptr) return;
  Statement store(state_->db, kStore);
  store.Bind(HashOf(key))
      .Bind(key.what)
      .Bind(key.choice)
      .Bind(key.target)
      .Bind(key.device)
      .Bind(key.engine);
  store.Bind(record.median_us).Bind(record.low_us).Bind(record.high_us).Bind(record.samples);
  store.Bind(int64_t{record.correct}).Bind(record.note);
  if (!store.Run()) state_->Report("measurements are not kept");
}

int64_t TuningDb::size() {
  Statement count(state_->db, "SELECT count(*) FROM measurement");
  return count.HasRow() ? count.Int(0) : 0;
}

}  // namespace weft
