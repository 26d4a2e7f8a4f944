// Statements of random programs that networks rarely have: the rest of the language. What decides
// between values (a comparison, an extreme's place, a rounding to 16 bits) is computed from inputs
// exactly, so that all who run the program decide alike.
#include <algorithm>

#include "tc_lang/testing/generator.h"

namespace weft::tc {
namespace {

// "f(i, j, k)" with the first subscript replaced.
std::string WithFirst(const std::string& name, const std::string& first,
                      const std::string& indices) {
  const size_t comma = indices.find(',');
  return fmt::format("{}({}{})", name, first, comma == indices.npos ? "" : indices.substr(comma));
}

}  // namespace

Value Generator::TypedInput(Shape shape, std::string type) {
  Input(std::move(shape));
  inputs_.back().type = std::move(type);
  return inputs_.back();
}

void Generator::Rare(const Value& from) {
  switch (random_.Between(0, 16)) {
    case 0:
      return Tuple();
    case 1:
      return Recurrence(from);
    case 2:
      return Network(from);
    case 3:
      return Scatter(from);
    case 4:
      return Constant(from);
    case 5:
      return Integers(from);
    case 6:
      return SmallTypes(from);
    case 7:
      return Accumulate(from);
    case 8:
      return Wide(from);
    case 9:
      return Lets(from);
    case 10:
      return Later(from);
    case 11:
      return Pieces(from);
    case 12:
      return Rows(from);
    case 13:
      return Checked(from);
    case 14:
      return Conditional(from);
    case 15:
      return Strided(from);
    default:
      return Call(from);
  }
}

// The extreme of each row of an input, and where it is.
void Generator::Tuple() {
  const Value x = Input(RandomShape());
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (shape.empty()) shape = {2};
  const bool flat = x.shape.size() == 1;
  const std::string left = Indices(shape), read = flat ? "p" : left + ", p",
                    where = fmt::format("{}, p in 0:{}", Ranges(shape), x.shape.back()),
                    value = NextName(), place = value + "_at";
  if (!body_.empty()) body_.insert(body_.size() - 1, ";");
  body_ += fmt::format("  ({}({}), {}({})) {} ({}({}), 2 * p + 1) where {}\n", value, left, place,
                       left, random_.Chance(50) ? "max=!" : "min=!", x.name, read, where);
  made_.push_back(value);
  values_.push_back({value, shape});
  Emit(shape, left, fmt::format("= {}({}) + float({}({}))", value, left, place, left));
}

void Generator::Recurrence(const Value& from) {
  const std::string left = Indices(from.shape), self = NextName();
  std::string value = fmt::format("{}({}) + (i > 0 ? 0.5 * {} : 0.0)", from.name, left,
                                  WithFirst(self, "i - 1", left));
  if (from.shape.size() == 2 && random_.Chance(40))
    value += fmt::format(" - (j > 0 ? 0.25 * {}(i, j - 1) : 0.0)", self);
  Emit(from.shape, left, fmt::format("= {} where {}", value, Ranges(from.shape)));
}

// h(t) from a sum over h(t - 1): two statements, one loop.
void Generator::Network(const Value& from) {
  if (from.shape.size() != 2) return Recurrence(from);
  const std::string sum = NextName(), state = fmt::format("t{}", made_.size() + 1);
  const Value u = Input({from.shape[1], from.shape[1]});
  Emit(from.shape, "i, j",
       fmt::format("+=! (i > 0 ? {}(i - 1, p) : 0.0) * {}(j, p) where {}, p in 0:{}", state, u.name,
                   Ranges(from.shape), from.shape[1]));
  Emit(from.shape, "i, j",
       fmt::format("= tanh({}(i, j) + {}(i, j)) where {}", from.name, sum, Ranges(from.shape)));
}

void Generator::Scatter(const Value& from) {
  static const std::vector<std::string> ops = {"+=!", "max=!", "min=!", "*=!"};
  const std::string left = Indices(from.shape);
  Shape shape = from.shape;
  const bool modulo = random_.Chance(50);
  const int64_t by = random_.Between(2, 3);
  shape[0] = modulo ? std::min(shape[0], by) : (shape[0] + by - 1) / by;
  const size_t comma = std::min(left.find(','), left.size());
  Emit(shape, fmt::format("i {} {}{}", modulo ? "%" : "/", by, left.substr(comma)),
       fmt::format("{} {}({}) where {}", random_.Pick(ops), from.name, left, Ranges(from.shape)));
}

void Generator::Constant(const Value& from) {
  const std::string name = fmt::format("c{}", made_.size()), left = Indices(from.shape);
  body_ += fmt::format("  const {}(3) = {{0.5, -1.25, {}}}\n", name, random_.Between(0, 3));
  Emit(from.shape, left,
       fmt::format("= {}({}) * {}((i + 1) % 3) where {}", from.name, left, name,
                   Ranges(from.shape)));
}

// Index arithmetic as values: divisions round down, remainders have the divisor's sign.
void Generator::Integers(const Value& from) {
  static const std::vector<std::string> arithmetic = {
      "(3 * i - 7) % 5", "(i - 4) / 3",           "trunc_div(i - 4, 3)",  "int_pow(i - 4, 3)",
      "rem(i - 4, 3)",   "bit_and(5 * i + 3, 6)", "bit_xor(i, 5)",        "shl(i + 1, 2)",
      "shr(i - 4, 1)",   "min(max(2 * i, 3), 9)", "(i - 2) % (0 - 3)",    "i / (i - 1)",
      "i % (i - 1)",     "int32(1.5 * float(i))", "int32(int8(i * 100))", "abs(i - 3)",
      "bit_not(i)"};
  const std::string left = Indices(from.shape);
  Emit(from.shape, left,
       fmt::format("= {}({}) + 0.125 * float({}) where {}", from.name, left,
                   random_.Pick(arithmetic), Ranges(from.shape)));
}

// Inputs of a byte or two; sums of them are exact.
void Generator::SmallTypes(const Value& from) {
  static const std::vector<std::string> types = {"int8", "uint8", "int16", "float16", "bfloat16"};
  const std::string type = random_.Pick(types), left = Indices(from.shape);
  const bool real = type.ends_with("16") && type[0] != 'i';
  const int64_t depth = from.shape.back(), n = random_.Between(1, 7);
  const Value a = TypedInput({from.shape[0], depth}, type), b = TypedInput({depth, n}, type);
  const std::string cast = real ? "float" : "int32", sum = NextName() + "_sum";
  body_ += fmt::format(
      "  {}(i, j) +=! {}({}(i, p)) * {}({}(p, j)) where i in 0:{}, j in 0:{}, "
      "p in 0:{}\n",
      sum, cast, a.name, cast, b.name, from.shape[0], n, depth);
  const std::string half =
      real ? fmt::format("float({}({}(i, 0)))", type, Input({9, 1}).name) : "0.5";
  Emit(from.shape, left,
       fmt::format("= {}({}) + {} * float({}(i, 0)) where {}", from.name, left, half, sum,
                   Ranges(from.shape)));
}

// A tensor that is written, read by another, and then added to.
void Generator::Accumulate(const Value& from) {
  const std::string left = Indices(from.shape), name = NextName();
  const int64_t depth = random_.Between(0, 4);
  Shape shape = from.shape;
  shape.push_back(depth);
  const Value more = Input(shape);
  Emit(from.shape, left,
       fmt::format("= {}({}) * 0.5 where {}", from.name, left, Ranges(from.shape)));
  Emit(from.shape, left, fmt::format("= {}({}) - 1.0 where {}", name, left, Ranges(from.shape)));
  body_ +=
      fmt::format("  {}({}) {} {}({}, p) where {}, p in 0:{}\n", name, left,
                  random_.Chance(50) ? "+=" : "max=", more.name, left, Ranges(from.shape), depth);
}

// A sum kept in float64 and stored in float32.
void Generator::Wide(const Value& from) {
  if (from.shape.size() < 2) return Lets(from);
  const std::string sum = NextName() + "_sum";
  body_ += fmt::format("  float({}) {}\n  {}(i) +=! double({}({})) * 1.5 where {}\n", from.shape[0],
                       sum, sum, from.name, Indices(from.shape), Ranges(from.shape));
  Emit({from.shape[0]}, "i", fmt::format("= {}(i) + 1.0", sum));
}

void Generator::Lets(const Value& from) {
  const std::string left = Indices(from.shape);
  Emit(from.shape, left,
       fmt::format("= b * b - a where a = {}({}) + 0.25, b = a * 0.5, exists {}({})", from.name,
                   left, from.name, left));
}

// A range that starts later: its first element becomes the one at 0.
void Generator::Later(const Value& from) {
  if (from.shape[0] < 2) return Lets(from);
  const int64_t first = random_.Between(1, from.shape[0] - 1);
  const std::string left = Indices(from.shape);
  Shape shape = from.shape;
  shape[0] -= first;
  const std::string where = Ranges(from.shape), name = NextName();
  Emit(shape, left,
       fmt::format("= {}({}) * float(i) where i in {}:{}{}", from.name, left, first, from.shape[0],
                   where.substr(std::min(where.find(','), where.size()))));
  // Inside of the def it keeps its coordinates, which the values above do not expect.
  values_.pop_back();
  made_.pop_back();
  std::string moved = WithFirst(name, fmt::format("i + {}", first), left);
  made_.push_back(name);
  Emit(shape, left, fmt::format("= {} + 1.0 where {}", moved, Ranges(shape)));
}

// The first slice by one statement, the others by another.
void Generator::Pieces(const Value& from) {
  const std::string left = Indices(from.shape), where = Ranges(from.shape), name = NextName();
  const std::string rest = where.substr(std::min(where.find(','), where.size()));
  body_ +=
      fmt::format("  {}({}) = 0.25 * {}({}) where i in 0:1{}\n", name, left, from.name, left, rest);
  Emit(from.shape, left,
       fmt::format("= {}({}) - 0.5 where i in 1:{}{}", from.name, left, from.shape[0], rest));
}

// Sums along segments of the first axis; the offsets ascend or not, which is an empty one.
void Generator::Rows(const Value& from) {
  static const std::vector<std::string> ops = {"+=!", "max=!", "min=!", "*=!"};
  const int64_t rows = random_.Between(1, 5);
  tables_.push_back({fmt::format("o{}", tables_.size()), {rows + 1}});
  const std::string table = tables_.back().name, left = Indices(from.shape);
  Shape shape = from.shape;
  shape[0] = rows;
  const std::string value = WithFirst(from.name, "p", left);
  Emit(shape, left,
       fmt::format("{} max(-1e4, min(1e4, {})) where {}, p in {}(i):{}(i + 1) max {}",
                   random_.Pick(ops), value, Ranges(shape), table, table, from.shape[0]));
}

void Generator::Checked(const Value& from) {
  const int64_t rows = random_.Between(1, 6);
  tables_.push_back({fmt::format("w{}", tables_.size()), {rows}});
  Shape shape = from.shape;
  shape[0] = rows;
  const std::string left = Indices(shape);
  const std::string at = fmt::format("within({}(i), 0, {})", tables_.back().name, from.shape[0]);
  Emit(shape, left, fmt::format("= {} where {}", WithFirst(from.name, at, left), Ranges(shape)));
}

// Reads that only a value that is read allows: past the end, or at an index that is none.
void Generator::Conditional(const Value& from) {
  const std::string left = Indices(from.shape), ranges = Ranges(from.shape);
  const Value x = Input(from.shape), y = Input({from.shape[0]});
  const std::string past = WithFirst(from.name, "i + 1", left),
                    test = fmt::format("{}({})", x.name, left);
  if (random_.Chance(50)) {
    const char* shape = random_.Chance(50) ? "{} > 0.0 && i + 1 < {} ? {} : {}({})"
                                           : "i + 1 >= {1} || !({0} > 0.0) ? {3}({4}) : {2}";
    return Emit(from.shape, left,
                "= " +
                    fmt::format(fmt::runtime(shape), test, from.shape[0], past, from.name, left) +
                    " where " + ranges);
  }
  const std::string at = NextName() + "_at";
  body_ +=
      fmt::format("  {}(i) = {}(i) > 0.0 ? i : 99 where i in 0:{}\n", at, y.name, from.shape[0]);
  Emit(from.shape, left,
       fmt::format("= {}(i) < 99 && {} > -1.0 ? {} : 0.75 where {}", at, test,
                   WithFirst(from.name, at + "(i)", left), ranges));
}

void Generator::Strided(const Value& from) {
  const std::string left = Indices(from.shape);
  Input(from.shape);
  int64_t stride = random_.Between(1, 2);
  std::vector<int64_t> strides(from.shape.size());
  const bool transposed = random_.Chance(50);
  for (size_t k = 0; k < strides.size(); ++k) {
    const size_t d = transposed ? k : strides.size() - 1 - k;
    strides[d] = stride;
    stride = stride * from.shape[d] + random_.Between(0, 2);
  }
  inputs_.back().strides = fmt::format(" strides({})", fmt::join(strides, ", "));
  Emit(from.shape, left,
       fmt::format("= {}({}) + {}({}) where {}", from.name, left, inputs_.back().name, left,
                   Ranges(from.shape)));
}

void Generator::Call(const Value& from) {
  if (library_.empty()) {
    library_ =
        "def act(float x) -> (y) { t = 0.5 * x; y = t > 1.0 ? 1.0 + 0.5 * t : t }\n"
        "def product(float(M, K) a, float(K, N) b) -> (y) {\n"
        "  t(i, j) +=! a(i, k) * b(k, j)\n  y(i, j) = act(t(i, j)) }\n"
        "def bounds(float(M, K) a, float shift) -> (low, high) {\n"
        "  low(i) min=! a(i, j) + shift\n  high(i) max=! a(i, j) - shift }\n";
  }
  const std::string left = Indices(from.shape);
  if (from.shape.size() != 2 || random_.Chance(30)) {
    return Emit(
        from.shape, left,
        fmt::format("= act({}({}) - 0.5) * 2.0 where {}", from.name, left, Ranges(from.shape)));
  }
  if (random_.Chance(50)) {
    const Value weight = Input({from.shape[1], random_.Between(1, 7)});
    const Shape shape = {from.shape[0], weight.shape[1]};
    return Emit(shape, "i, j",
                fmt::format("= product({}, {})(i, j) + 1.0 where {}", from.name, weight.name,
                            Ranges(shape)));
  }
  const std::string low = NextName(), high = fmt::format("t{}", made_.size() + 1);
  if (!body_.empty()) body_.insert(body_.size() - 1, ";");
  body_ += fmt::format("  ({}, {}) = bounds({}, 0.5 + 1.0);\n", low, high, from.name);
  made_.push_back(low);
  made_.push_back(high);
  Emit({from.shape[0]}, "i", fmt::format("= {}(i) - 0.5 * {}(i)", high, low));
}

}  // namespace weft::tc
