#include "tc_lang/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft::tc {
namespace {

constexpr size_t kMostErrors = 10;
constexpr size_t kWidestLine = 160;

}  // namespace

bool Diagnostics::full() const { return errors_.size() >= kMostErrors; }

void Diagnostics::Add(Location at, std::string what, std::string hint, Code code) {
  if (full()) return;
  for (const Error& e : errors_) {
    if (e.at.line == at.line && e.at.column == at.column) return;
  }
  errors_.push_back({at, std::move(what) + context_, std::move(hint), code});
}

// The line and a caret under its column, each on a line of its own. Control bytes and what is not
// ASCII are shown as `?`, so that a hostile text can't reach the terminal.
std::string Diagnostics::Snippet(Location at) const {
  size_t begin = 0;
  for (int32_t line = 1; line < at.line; ++line) {
    const size_t end = text_.find('\n', begin);
    if (end == std::string_view::npos) return "";
    begin = end + 1;
  }
  std::string line(text_.substr(begin, text_.find('\n', begin) - begin));
  if (line.size() > kWidestLine || line.empty()) return "";
  for (char& c : line) {
    if (c == '\t' || c == '\r') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("\n    {}\n    {}^", line,
                     std::string(static_cast<size_t>(at.column - 1), ' '));
}

Status Diagnostics::ToStatus() const {
  if (errors_.empty()) return {};
  std::string what;
  for (const Error& e : errors_) {
    const bool first = &e == errors_.data();
    if (!first) what += fmt::format("\n{}:{}:{}: ", file_, e.at.line, e.at.column);
    what += e.what;
    if (!first && !e.hint.empty()) what += "; try: " + e.hint;
    what += Snippet(e.at);
  }
  const Error& first = errors_.front();
  Status status(first.code, std::move(what));
  if (!first.hint.empty()) status = std::move(status).Try(first.hint);
  return std::move(status).At(fmt::format("{}:{}:{}", file_, first.at.line, first.at.column));
}

std::string LineColumn(Location at) { return fmt::format("{}:{}", at.line, at.column); }

std::string Suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::min<size_t>(2, name.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64 || name.size() > 64) continue;
    std::vector<size_t> row(candidate.size() + 1);  // edit distance, one row at a time
    std::iota(row.begin(), row.end(), 0);
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0]++;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t cost = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, cost});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = &candidate;
    }
  }
  return best == nullptr ? "" : fmt::format(", did you mean '{}'?", *best);
}

}  // namespace weft::tc
