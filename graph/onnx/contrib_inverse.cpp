// Inverse of com.microsoft (ContribOperators.md): Gauss-Jordan elimination with partial pivoting, a
// column in each step of a Scan.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

class Elimination {
 public:
  explicit Elimination(Dtype dtype) : dtype_(dtype) {}

  // (M, k) -> M, which is [..., n, 2 n]: column k becomes that of the identity.
  std::shared_ptr<Graph> Make() {
    body_->name = "step";
    const ValueId m = State("m", dtype_), k = State("k", Dtype::kI64);
    const ValueId list = Add(Op::kUnsqueeze, {k, Ints({0})});
    const ValueId n = Add(Op::kShape, {m}, {{"end", int64_t{-1}}, {"start", int64_t{-2}}});
    const ValueId place = Add(Op::kRange, {Int(0), Add(Op::kSqueeze, {n, Ints({0})}), Int(1)});
    // The row of the largest element from k on comes to k.
    const ValueId column = Add(Op::kGather, {m, k}, {{"axis", int64_t{-1}}});
    const ValueId left = Add(Op::kGreaterOrEqual, {place, k});
    const ValueId sizes = Add(Op::kWhere, {left, Add(Op::kAbs, {column}), Number(-1)});
    const ValueId best = Add(Op::kArgMax, {sizes}, {{"axis", int64_t{-1}}});
    const ValueId at_best = Rows(Add(Op::kEqual, {place, best}));
    const ValueId at_k = Rows(Add(Op::kEqual, {place, k}));
    const ValueId best_row =
        Add(Op::kReduceSum, {Add(Op::kWhere, {at_best, m, Number(0)}), Ints({-2})});
    const ValueId row_k = Add(Op::kGather, {m, list}, {{"axis", int64_t{-2}}});
    const ValueId rest = Add(Op::kWhere, {at_best, row_k, m});
    const ValueId pivot = Add(Op::kGather, {best_row, list}, {{"axis", int64_t{-1}}});
    const ValueId row = Add(Op::kDiv, {best_row, pivot});
    const ValueId factor = Add(Op::kGather, {rest, list}, {{"axis", int64_t{-1}}});
    const ValueId less = Add(Op::kSub, {rest, Add(Op::kMul, {factor, row})});
    body_->outputs = {Add(Op::kWhere, {at_k, row, less})};
    return body_;
  }

 private:
  ValueId Rows(ValueId mask) { return Add(Op::kUnsqueeze, {mask, Ints({-1})}); }
  ValueId State(std::string_view name, Dtype dtype) {
    body_->values.push_back(
        {.name = names_.Fresh(name), .kind = ValueKind::kInput, .dtype = dtype});
    body_->inputs.emplace_back(body_->values.size() - 1);
    return body_->inputs.back();
  }
  ValueId Constant(Tensor tensor) {
    return AddConstant(*body_, names_.Fresh("constant"), std::move(tensor));
  }
  ValueId Ints(std::vector<int64_t> list) { return Constant(TensorOfInts(list)); }
  ValueId Int(int64_t value) {
    Tensor tensor(Dtype::kI64, {});
    SetElemInt(tensor, 0, value);
    return Constant(std::move(tensor));
  }
  ValueId Number(double value) { return Constant(TensorOfScalar(dtype_, value)); }
  ValueId Add(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {}) {
    Node node{.op = op, .op_name = std::string(OpName(op)), .inputs = std::move(inputs)};
    node.outputs = {AddComputed(*body_, names_.Fresh(OpName(op)))};
    for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
    const ValueId result = node.outputs[0];
    AddNode(*body_, std::move(node));
    return result;
  }

  Dtype dtype_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  Names names_{*body_};
};

}  // namespace

Status ExpandInverse(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", "T=f16|f32|f64"));
  const Value& x = e.Known(e.In(0));
  if (!x.dtype || !x.shape)
    return Unsupported("matrices of unknown type or rank are not supported");
  const size_t rank = x.shape->size();
  const auto differ = [](Extent a, Extent b) { return a.IsConstant() && b.IsConstant() && a != b; };
  if (rank < 2 || differ((*x.shape)[rank - 1], (*x.shape)[rank - 2]))
    return Invalid("the matrices are not square");
  const Dtype exact = *x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  Formula f(e);
  const ValueId m = f.Cast(e.In(0), exact);
  const ValueId n = f.Do(Op::kShape, {m}, {{"start", int64_t{-1}}});
  const ValueId place =
      f.Do(Op::kRange,
           {e.Int("first", 0), f.Do(Op::kSqueeze, {n, e.Ints("only", {0})}), e.Int("step", 1)});
  const ValueId diagonal =
      f.Do(Op::kEqual, {place, f.Do(Op::kUnsqueeze, {place, e.Ints("column", {1})})});
  const ValueId identity = f.Do(Op::kExpand, {f.Cast(diagonal, exact), f.Do(Op::kShape, {m})});
  const ValueId both = f.Do(Op::kConcat, {m, identity}, {{"axis", int64_t{-1}}});
  const ValueId done = f.Do(Op::kScan, {both, place},
                            {{"body", Elimination(exact).Make()}, {"num_scan_inputs", int64_t{1}}});
  const ValueId inverse =
      f.Do(Op::kSlice,
           {done, n, e.Ints("to", {std::numeric_limits<int64_t>::max()}), e.Ints("along", {-1})});
  return f.Finish(f.Do(Op::kCastLike, {inverse, e.In(0)}));
}

}  // namespace weft::graph
