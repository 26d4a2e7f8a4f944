#include "tc_lang/testing/random_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "tc_lang/bind.h"
#include "tc_lang/testing/generator.h"

namespace weft::tc {

std::string Generator::Run() {
  const int64_t count = random_.Between(1, options_.most_statements);
  values_.push_back(Input(RandomShape()));
  for (int64_t k = 0; k < count; ++k) Statement();
  const std::string type = options_.float64 ? "double" : options_.halves ? "bfloat16" : "float";
  std::string params, outputs;
  for (const Value& input : inputs_)
    params += fmt::format("{}{}({}) {}{}", params.empty() ? "" : ", ",
                          input.type.empty() ? type : input.type, fmt::join(input.shape, ", "),
                          input.name, input.strides);
  for (const Value& table : tables_)
    params += fmt::format(", int32({}) {}", fmt::join(table.shape, ", "), table.name);
  for (size_t k = 0; k < made_.size(); ++k) {
    // The last one is an output; so are those that nothing reads, and some others.
    const bool read =
        body_.find(made_[k] + "(", body_.find(made_[k] + "(") + 1) != std::string::npos;
    if (k + 1 < made_.size() && read && !random_.Chance(25)) continue;
    outputs += (outputs.empty() ? "" : ", ") + made_[k];
  }
  return fmt::format("{}def random({}) -> ({}) {{\n{}}}\n", library_, params, outputs, body_);
}

Shape Generator::RandomShape() {
  Shape shape(static_cast<size_t>(random_.Between(1, 4)));
  int64_t cells = 1;
  for (int64_t& extent : shape) {
    extent = random_.Between(1, cells > 64 ? 3 : 9);
    cells *= extent;
  }
  return shape;
}

Value Generator::Input(Shape shape) {
  inputs_.push_back({fmt::format("x{}", inputs_.size()), std::move(shape)});
  if (options_.nibbles && random_.Chance(40))
    inputs_.back().type = random_.Chance(50) ? "int4" : "uint4";
  return inputs_.back();
}

std::string Generator::Read(const Value& v, std::string_view subscripts) const {
  const bool half = options_.halves && v.type.empty() && v.name[0] == 'x';
  return fmt::format("{}({}){}", half ? "float(" + v.name : v.name, subscripts, half ? ")" : "");
}

std::string Generator::Indices(const Shape& shape) {
  std::string out;
  for (size_t d = 0; d < shape.size(); ++d) out += (d == 0 ? "" : ", ") + Name(d);
  return out;
}

std::string Generator::Ranges(const Shape& shape) {
  std::string out;
  for (size_t d = 0; d < shape.size(); ++d)
    out += fmt::format("{}{} in 0:{}", d == 0 ? "" : ", ", Name(d), shape[d]);
  return out;
}

void Generator::Emit(Shape shape, const std::string& left, const std::string& rest) {
  const std::string name = fmt::format("t{}", made_.size());
  body_ += fmt::format("  {}({}) {}\n", name, left, rest);
  made_.push_back(name);
  values_.push_back({name, std::move(shape)});
}

// A read that broadcasts into (i, j, …) of `shape`: a value whose trailing extents fit, or a new
// input.
std::string Generator::Operand(const Shape& shape) {
  std::vector<Value> fits;
  for (const Value& v : values_) {
    if (v.shape.size() <= shape.size() &&
        std::equal(v.shape.rbegin(), v.shape.rend(), shape.rbegin()))
      fits.push_back(v);
  }
  if (fits.empty() || random_.Chance(30)) {
    const auto rank = static_cast<size_t>(random_.Between(1, static_cast<int64_t>(shape.size())));
    fits = {Input(Shape(shape.end() - static_cast<int64_t>(rank), shape.end()))};
    values_.push_back(fits[0]);
  }
  const Value& v = random_.Pick(fits);
  std::string subscripts;
  for (size_t d = shape.size() - v.shape.size(); d < shape.size(); ++d)
    subscripts += (subscripts.empty() ? "" : ", ") + Name(d);
  return Read(v, subscripts);
}

std::string Generator::Expression(const Shape& shape, int64_t depth) {
  if (depth == 0 || random_.Chance(20)) return Operand(shape);
  const std::string a = Expression(shape, depth - 1);
  switch (random_.Between(0, 9)) {
    case 0:
      return fmt::format("tanh({})", a);
    case 1:
      return fmt::format("max({}, {}.25)", a, random_.Between(-1, 1));
    case 2:
      return fmt::format("({} > 0.0 ? {} : 0.125 * {})", a, a, Operand(shape));
    case 3:
      return fmt::format("sigmoid({})", a);
    case 4:
      return fmt::format("({} - {}.5)", a, random_.Between(0, 2));
    case 5:
      return fmt::format("abs({})", a);
    default:
      break;
  }
  const char* op = random_.Chance(50) ? "+" : random_.Chance(50) ? "*" : "-";
  return fmt::format("({} {} {})", a, op, Expression(shape, depth - 1));
}

void Generator::Statement() {
  const Value from = random_.Chance(70) ? values_.back() : random_.Pick(values_);
  if (options_.whole_language && random_.Chance(60)) return Rare(from);
  switch (random_.Between(0, options_.gathers ? 7 : 6)) {
    case 0:
      return Contraction(from);
    case 1:
      return Reduction(from);
    case 2:
      return Transpose(from);
    case 3:
      return Window(from);
    case 4:
      return Split(from);
    case 7:
      return Gather(from);
    default:
      break;
  }
  Emit(from.shape, Indices(from.shape),
       fmt::format("= {} where {}", Expression(from.shape, 2), Ranges(from.shape)));
}

// (…, k) x (k, n) -> (…, n).
void Generator::Contraction(const Value& from) {
  const int64_t n = random_.Between(1, 7), depth = from.shape.back();
  Shape shape = from.shape;
  shape.back() = n;
  const Value weight = Input({depth, n});
  std::string left = Indices(shape), read = left;
  read.back() = 'p';
  Emit(shape, left,
       fmt::format("+=! {} * {} where {}, p in 0:{}", Read(from, read),
                   Read(weight, "p, " + Name(shape.size() - 1)), Ranges(shape), depth));
}

// One axis away; or kept with extent 1's place taken by a broadcast later.
void Generator::Reduction(const Value& from) {
  if (from.shape.size() < 2) return Contraction(from);
  const auto axis =
      static_cast<size_t>(random_.Between(0, static_cast<int64_t>(from.shape.size()) - 1));
  Shape shape;
  std::string read;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (d != axis) shape.push_back(from.shape[d]);
    read += (d == 0 ? "" : ", ") + (d == axis ? std::string("p") : Name(d > axis ? d - 1 : d));
  }
  static const std::vector<std::string> ops = {"+=!", "max=!", "min=!"};
  Emit(shape, Indices(shape),
       fmt::format("{} {} where {}, p in 0:{}", random_.Pick(ops), Read(from, read), Ranges(shape),
                   from.shape[axis]));
}

void Generator::Transpose(const Value& from) {
  std::vector<size_t> order;
  for (size_t d = 0; d < from.shape.size(); ++d)
    order.insert(order.begin() + random_.Between(0, static_cast<int64_t>(d)), d);
  Shape shape;
  std::string left;
  for (size_t d : order) {
    shape.push_back(from.shape[d]);
    left += (left.empty() ? "" : ", ") + Name(d);
  }
  Emit(shape, left,
       fmt::format("= {} where {}", Read(from, Indices(from.shape)), Ranges(from.shape)));
}

// A window of r taps over the last axis, padded by p, with stride s: a sum with weights or a
// maximum.
void Generator::Window(const Value& from) {
  const int64_t extent = from.shape.back(), taps = random_.Between(1, 3),
                stride = random_.Between(1, 2);
  const int64_t pad = random_.Between(0, taps - 1), out = (extent + 2 * pad - taps) / stride + 1;
  if (extent + 2 * pad < taps) return Contraction(from);
  Shape shape = from.shape;
  shape.back() = out;
  const std::string left = Indices(shape), axis = Name(shape.size() - 1);
  const std::string at = fmt::format("{} * {} + r - {}", stride, axis, pad);
  const std::string read = Read(from, left.substr(0, left.size() - 1) + at);
  const std::string guard = fmt::format("{} >= 0 && {} < {}", at, at, extent);
  if (random_.Chance(50)) {
    const Value weight = Input({taps});
    return Emit(shape, left,
                fmt::format("+=! ({} ? {} * {} : 0.0) where {}, r in 0:{}", guard, read,
                            Read(weight, "r"), Ranges(shape), taps));
  }
  Emit(shape, left,
       fmt::format("max=! ({} ? {} : -infinity()) where {}, r in 0:{}", guard, read, Ranges(shape),
                   taps));
}

// The last axis into two, by division and remainder.
void Generator::Split(const Value& from) {
  const int64_t extent = from.shape.back();
  if (from.shape.size() == 4 || extent % 2 != 0) return Transpose(from);
  Shape shape = from.shape;
  shape.back() = extent / 2;
  shape.push_back(2);
  std::string left = Indices(from.shape);
  const std::string axis(1, left.back());
  left.pop_back();
  Emit(shape, fmt::format("{}{} / 2, {} % 2", left, axis, axis),
       fmt::format("= {} where {}", Read(from, Indices(from.shape)), Ranges(from.shape)));
}

// Rows chosen by a table of indices, which RandomInputs keeps legal.
void Generator::Gather(const Value& from) {
  const int64_t rows = random_.Between(1, 6);
  tables_.push_back({fmt::format("n{}_{}", tables_.size(), from.shape[0]), {rows}});
  Shape shape = from.shape;
  shape[0] = rows;
  const std::string left = Indices(shape);
  Emit(shape, left,
       fmt::format("= {} where {}", Read(from, tables_.back().name + "(i)" + left.substr(1)),
                   Ranges(shape)));
}

namespace {

// How far an integer input's elements may go: the least extent of what it is a subscript of.
int64_t LimitOf(const Program& program, TensorId input) {
  int64_t limit = 8;
  for (const Expr& e : program.exprs) {
    if (e.kind != ExprKind::kRead) continue;
    for (size_t d = 0; d < e.args.size(); ++d) {
      for (ExprId read : Reads(program, e.args[d])) {
        const Affine& extent = program[e.tensor].extents[d];
        if (program[read].tensor == input && extent.IsConstant())
          limit = std::min(limit, extent.constant());
      }
    }
  }
  for (const Expr& e : program.exprs) {  // what `within` allows
    if (e.kind != ExprKind::kCheck) continue;
    for (ExprId read : Reads(program, e.args[0])) {
      const std::optional<Affine> end = AsAffine(program, e.args[2]);
      if (program[read].tensor == input && end && end->IsConstant())
        limit = std::min(limit, end->constant());
    }
  }
  return std::max<int64_t>(limit, 1);
}

}  // namespace

std::string RandomProgramText(uint64_t seed, const RandomOptions& options) {
  return Generator(seed, options).Run();
}

Program RandomProgram(uint64_t seed, const RandomOptions& options) {
  const std::string text = RandomProgramText(seed, options);
  const Result<std::vector<Def>> defs = ParseDefs(text, "random");
  WEFT_CHECK(defs.ok(), "seed {}: {}\n{}", seed, defs.status().ToString(), text);
  Result<Program> program = Bind(defs->back(), {}, *defs);
  WEFT_CHECK(program.ok(), "seed {}: {}\n{}", seed, program.status().ToString(), text);
  return *std::move(program);
}

std::vector<Tensor> RandomInputs(const Program& program, uint64_t seed) {
  Random random(seed + 77);
  std::vector<Tensor> out;
  for (TensorId id : Inputs(program)) {
    const std::optional<Shape> shape = StaticExtents(program[id]);
    WEFT_CHECK(shape, "the input '{}' has no static extents", program[id].name);
    Tensor tensor(program[id].dtype, *shape);
    const int64_t limit = IsFloat(program[id].dtype) ? 0 : LimitOf(program, id);
    for (int64_t k = 0; k < tensor.elems(); ++k) {
      if (SharesBytes(tensor.dtype()))
        SetElemInt(tensor, k, random.Between(0, 15));
      else if (limit > 0)
        SetElemInt(tensor, k, random.Between(0, limit - 1));
      else
        SetElem(tensor, k, static_cast<double>(random.Between(-1024, 1024)) / 512);
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace weft::tc
