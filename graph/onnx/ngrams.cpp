// TfIdfVectorizer: how often each n-gram of a pool occurs in each row, with gaps of equal width
// between its elements allowed. Each n-gram is compared at each place at once.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/onnx/ml.h"

namespace weft::graph {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 26;
constexpr int64_t kMost = 256;  // of what makes some nodes of the graph each

// The pool: the n-grams of one element, then those of two and so on, each sort from `counts` on.
struct Pool {
  ValueId elements;              // a list
  int64_t size = 0;              // elements
  std::vector<int64_t> counts;   // by n - 1: where it begins
  std::vector<int64_t> columns;  // by n-gram: its place in the result
  int64_t width = 0;             // of the result

  int64_t End(size_t i) const { return i + 1 < counts.size() ? counts[i + 1] : size; }
};

Result<Pool> ReadPool(Expansion& e) {
  const Node& node = e.node();
  const std::vector<int64_t> numbers = ml::Ints(node, "pool_int64s");
  const std::vector<std::string> texts = ml::Strings(node, "pool_strings");
  if (numbers.empty() == texts.empty())
    return Invalid("expected either \"pool_int64s\" or \"pool_strings\"");
  Pool pool{.size = std::max(std::ssize(numbers), std::ssize(texts)),
            .counts = ml::Ints(node, "ngram_counts"),
            .columns = ml::Ints(node, "ngram_indexes")};
  pool.elements = texts.empty() ? e.Ints("pool", numbers) : e.Constant("pool", ml::TensorOf(texts));
  int64_t grams = 0;
  for (size_t i = 0; i < pool.counts.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i) + 1, begin = pool.counts[i], end = pool.End(i);
    if (begin < 0 || begin > end || end > pool.size || (end - begin) % n != 0)
      return Invalid(fmt::format("n-grams of {} elements lie from {} to {} in a pool of {}", n,
                                 begin, end, pool.size));
    grams += (end - begin) / n;
  }
  if (std::ssize(pool.columns) != grams || grams == 0)
    return Invalid(
        fmt::format("found {} ngram_indexes for {} n-grams", pool.columns.size(), grams));
  for (int64_t column : pool.columns) {
    if (column < 0) return Invalid(fmt::format("attribute \"ngram_indexes\" has {}", column));
    if (column >= kMostColumns)
      return Limit(fmt::format("a column {}, the limit is {}", column, kMostColumns));
    pool.width = std::max(pool.width, column + 1);
  }
  return pool;
}

// How often each n-gram of n elements, pool[begin, end), occurs in x [..., C]: [..., n-grams].
ValueId Occurrences(Expansion& e, Formula& f, const Pool& pool, ValueId x, int64_t n, int64_t begin,
                    int64_t end, int64_t most_skipped) {
  const ValueId part =
      f.Do(Op::kSlice, {pool.elements, e.Ints("begin", {begin}), e.Ints("end", {end})});
  const ValueId grams = f.Do(Op::kReshape, {part, e.Ints("grams", {-1, n})});
  ValueId sum;
  for (int64_t step = 1; step <= (n == 1 ? 1 : most_skipped + 1); ++step) {
    ValueId all;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t behind = (n - 1 - k) * step;
      const ValueId window = f.Do(
          Op::kSlice, {x, e.Ints("from", {k * step}),
                       e.Ints("to", {behind == 0 ? INT64_MAX : -behind}), e.Ints("last", {-1})});
      const ValueId place = f.Do(Op::kUnsqueeze, {window, e.Ints("gram", {-1})});
      const ValueId element = f.Do(Op::kGather, {grams, e.Int("k", k)}, {{"axis", int64_t{1}}});
      const ValueId same = f.Do(Op::kEqual, {place, element});
      all = all.valid() ? f.Do(Op::kAnd, {all, same}) : same;
    }
    const ValueId count = f.Do(Op::kReduceSum, {f.Cast(all, Dtype::kF32), e.Ints("places", {-2})},
                               {{"keepdims", int64_t{0}}});
    sum = sum.valid() ? f.Add(sum, count) : count;
  }
  return sum;
}

// Where each column finds its n-gram among those that are counted; a second table has second ones
// and so on. A column that has none reads what is behind the counts.
Result<std::vector<std::vector<int64_t>>> TablesOf(const Pool& pool,
                                                   const std::vector<int64_t>& counted) {
  const auto width = static_cast<size_t>(pool.width);
  std::vector<std::vector<int64_t>> tables;
  std::vector<size_t> found(width);  // n-grams of each column
  for (size_t k = 0; k < counted.size(); ++k) {
    const auto column = static_cast<size_t>(pool.columns[static_cast<size_t>(counted[k])]);
    const size_t table = found[column]++;
    if (table == tables.size()) {
      if (std::ssize(tables) >= kMost || std::ssize(tables) * pool.width >= kMostColumns)
        return Limit(fmt::format("{} n-grams of one column", table + 1));
      tables.emplace_back(width, std::ssize(counted));
    }
    tables[table][column] = static_cast<int64_t>(k);
  }
  return tables;
}

}  // namespace

Status ExpandTfIdf(Expansion& e) {
  const Node& node = e.node();
  WEFT_TRY(const Pool pool, ReadPool(e));
  const int64_t least = IntAttr(node, "min_gram_length", 1),
                most = IntAttr(node, "max_gram_length", 1),
                skips = IntAttr(node, "max_skip_count", 0);
  if (least < 1 || most < least || skips < 0)
    return Invalid(
        fmt::format("found n-grams of {} to {} elements, {} skipped", least, most, skips));
  if (most > kMost || skips > kMost)
    return Limit(
        fmt::format("n-grams of {} elements, {} skipped, the limit is {}", most, skips, kMost));
  const std::string mode = StringAttr(node, "mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return Invalid(fmt::format("attribute \"mode\" is {}", PrintString(mode)));
  const auto rank = e.RankOf(e.In(0));
  if (!rank) return Unsupported("rows of unknown rank are not supported");
  if (*rank != 1 && *rank != 2)
    return Invalid(fmt::format("input 0 has rank {}, expected 1 or 2", *rank));

  Formula f(e);
  const bool numbers = FindAttribute(node, "pool_int64s") != nullptr;
  const ValueId x = numbers ? f.Cast(e.In(0), Dtype::kI64) : e.In(0);
  std::vector<float> weights = ml::Floats(node, "weights");
  const bool weighted = mode != "TF" && !weights.empty();
  if (weighted && weights.size() != pool.columns.size())
    return Invalid(
        fmt::format("found {} weights for {} n-grams", weights.size(), pool.columns.size()));
  std::vector<ValueId> parts;
  std::vector<int64_t> counted;  // n-grams
  int64_t gram = 0;
  for (size_t i = 0; i < pool.counts.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i) + 1, begin = pool.counts[i], end = pool.End(i);
    const int64_t grams = (end - begin) / n;
    if (n >= least && n <= most && grams > 0) {
      parts.push_back(Occurrences(e, f, pool, x, n, begin, end, skips));
      for (int64_t k = 0; k < grams; ++k) counted.push_back(gram + k);
    }
    gram += grams;
  }
  if (parts.empty()) return Unsupported("no n-grams of the lengths asked for is not supported");
  ValueId counts = f.Do(Op::kConcat, parts, {{"axis", int64_t{-1}}});
  if (mode == "IDF")
    counts = f.Cast(f.Do(Op::kGreater, {counts, f.Number(0, counts)}), Dtype::kF32);
  if (weighted) {
    std::vector<float> own;
    for (int64_t i : counted) own.push_back(weights[static_cast<size_t>(i)]);
    counts = f.Mul(counts, e.Constant("weights", ml::TensorOf(own, {std::ssize(own)})));
  }
  WEFT_TRY(const auto tables, TablesOf(pool, counted));
  if (mode == "IDF" && tables.size() > 1)
    return Unsupported("two n-grams of one column are not supported in mode \"IDF\"");
  std::vector<int64_t> pads(2 * *rank, 0);
  pads.back() = 1;
  const ValueId padded = f.Do(Op::kPad, {counts, e.Ints("pads", std::move(pads))});
  ValueId y;
  for (const auto& table : tables) {
    const ValueId part =
        f.Do(Op::kGather, {padded, e.Ints("columns", table)}, {{"axis", int64_t{-1}}});
    y = y.valid() ? f.Add(y, part) : part;
  }
  return f.Finish(y);
}

}  // namespace weft::graph
