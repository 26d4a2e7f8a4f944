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

void Diagnostics::Add(Problem problem, Location at, std::string what, std::string hint, Code code) {
  if (full()) return;
  for (const Error& e : errors_) {
    if (e.at.line == at.line && e.at.column == at.column) return;
  }
  errors_.push_back({problem, at, std::move(what) + context_, std::move(hint), code});
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
  auto caret = static_cast<size_t>(at.column - 1);
  if (line.empty() || caret > line.size()) return "";
  if (line.size() > kWidestLine) {  // what is around the caret
    const size_t from =
        std::min(caret - std::min(caret, kWidestLine / 2), line.size() - kWidestLine);
    line = line.substr(from, kWidestLine);
    caret -= from;
  }
  for (char& c : line) {
    if (c == '\t' || c == '\r') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("\n    {}\n    {}^", line, std::string(caret, ' '));
}

Status Diagnostics::ToStatus() const {
  if (errors_.empty()) return {};
  std::string what;
  for (const Error& e : errors_) {
    const bool first = &e == errors_.data();
    if (!first) what += fmt::format("\n{}:{}:{}: ", file_, e.at.line, e.at.column);
    what += fmt::format("{} [E{:04}]", e.what, static_cast<int>(e.problem));
    if (!first && !e.hint.empty()) what += "; try: " + e.hint;
    what += Snippet(e.at);
  }
  const Error& first = errors_.front();
  Status status(first.code, std::move(what));
  if (!first.hint.empty()) status = std::move(status).Try(first.hint);
  return std::move(status).At(fmt::format("{}:{}:{}", file_, first.at.line, first.at.column));
}

std::string LineColumn(Location at) { return fmt::format("{}:{}", at.line, at.column); }

namespace {

// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`: the optimal
// string alignment distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      rows[i][j] = std::min(
          {rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string Suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;
  const std::string* best = nullptr;
  size_t best_distance = std::min<size_t>(2, name.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest || name.size() > kLongest || candidate == name) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = &candidate;
  }
  return best == nullptr ? "" : fmt::format(", did you mean '{}'?", *best);
}

}  // namespace weft::tc
