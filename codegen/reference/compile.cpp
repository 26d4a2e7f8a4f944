#include <algorithm>
#include <map>

#include "base/check.h"
#include "codegen/reference/program.h"

namespace weft::codegen {

using loops::BufferId;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

FlatAffine::FlatAffine(const Affine& e) : constant_(e.constant()) {
  for (const Affine::Term& t : e.terms()) {
    if (t.dividend) {
      floors_.push_back({t.coefficient, FlatAffine(*t.dividend), t.divisor});
    } else {
      terms_.emplace_back(t.var, t.coefficient);
    }
  }
}

namespace {

FlatList Flat(const std::vector<Affine>& list) {
  FlatList flat;
  for (const Affine& e : list) flat.emplace_back(e);
  return flat;
}

class Flattener {
 public:
  explicit Flattener(const LoopNest& nest) : nest_(nest) { program_.vars = nest.vars.size(); }

  Program Run() {
    Body(nest_.body);
    return std::move(program_);
  }

 private:
  void Body(const std::vector<StmtId>& body) {
    const size_t bindings = lanes_.bindings.size();
    for (StmtId id : body) Statement(id);
    lanes_.bindings.resize(bindings);
  }

  size_t Emit(FlatOp op) {
    program_.ops.push_back(std::move(op));
    return program_.ops.size() - 1;
  }

  void Statement(StmtId id) {
    const Stmt& s = nest_[id];
    switch (s.kind) {
      case StmtKind::kFor:
        return s.loop == LoopKind::kVector ? Vector(s) : Loop(id);
      case StmtKind::kIf:
        return If(s);
      case StmtKind::kStore:
      case StmtKind::kLet:
        return Assign(s);
      case StmtKind::kBarrier:
        Emit({.kind = OpKind::kBarrier, .cluster = s.cluster});
        return;
      case StmtKind::kMark:
        return Body(s.body);
      case StmtKind::kPrefetch:
        return;  // changes no value
      case StmtKind::kSingle: {
        const size_t begin = Emit({.kind = OpKind::kSingle});
        Body(s.body);
        program_.ops[begin].target = program_.ops.size();
        return;
      }
    }
    WEFT_UNREACHABLE();
  }

  void Loop(StmtId id) {
    std::vector<StmtId> band = {id};
    if (nest_[id].loop == LoopKind::kParallel) band = loops::ParallelBand(nest_, id);
    program_.grid |= loops::IsGrid(nest_[id].loop);
    FlatOp op{.kind = OpKind::kLoop, .loop = nest_[id].loop, .frame = program_.frames};
    program_.frames += std::max<size_t>(2, band.size() + 1);
    for (StmtId member : band) {
      const Stmt& s = nest_[member];
      op.vars.push_back(s.var);
      op.lo.push_back(Flat(s.lo));
      op.hi.push_back(Flat(s.hi));
      op.steps.push_back(s.step);
    }
    const bool in_vector = lanes_.lanes > 0;
    if (in_vector) Unrolled(op, nest_[id]);
    const size_t begin = Emit(std::move(op));
    Body(nest_[band.back()].body);
    Emit({.kind = OpKind::kLoopEnd, .target = begin});
    program_.ops[begin].target = program_.ops.size();
    if (in_vector) lanes_.bindings.pop_back();
  }

  // Below a vector loop an unrolled loop's start may depend on the lane, so the loop itself only
  // counts.
  void Unrolled(FlatOp& op, const Stmt& s) {
    LaneBinding binding{.var = s.var,
                        .lo = Flat(s.lo),
                        .counter = static_cast<Var>(program_.vars++),
                        .step = s.step};
    const Affine trip = CeilDiv(s.hi[0] - s.lo[0], s.step);
    op.vars = {binding.counter};
    op.lo = {Flat({Affine(0)})};
    op.hi = {Flat({trip})};
    op.steps = {1};
    lanes_.bindings.push_back(std::move(binding));
  }

  void Vector(const Stmt& s) {
    const int64_t length = (s.hi[0] - s.lo[0]).constant();
    lanes_.lane_var = s.var;
    lanes_.lane_lo = Flat(s.lo);
    lanes_.lane_step = s.step;
    lanes_.lanes = std::max<int64_t>(0, (length + s.step - 1) / s.step);
    if (lanes_.lanes > 0) Body(s.body);
    lanes_ = {};
  }

  void If(const Stmt& s) {
    if (lanes_.lanes > 0) {
      lanes_.masks.push_back({Flat(s.conditions), false});
      Body(s.body);
      lanes_.masks.back().negated = true;
      Body(s.otherwise);
      lanes_.masks.pop_back();
      return;
    }
    const size_t begin = Emit({.kind = OpKind::kIf, .conditions = Flat(s.conditions)});
    Body(s.body);
    const size_t jump = s.otherwise.empty() ? 0 : Emit({.kind = OpKind::kJump});
    program_.ops[begin].target = program_.ops.size();
    Body(s.otherwise);
    if (jump > 0) program_.ops[jump].target = program_.ops.size();
  }

  void Assign(const Stmt& s) {
    FlatOp op = lanes_;
    op.kind = s.kind == StmtKind::kStore ? OpKind::kStore : OpKind::kLet;
    op.value = Value(s.value);
    if (s.kind == StmtKind::kStore) {
      if (s.across != 0) op.kind = OpKind::kExchange, op.across = s.across;
      op.access = AccessOf(s.buffer, s.index);
      Emit(std::move(op));
      return;
    }
    op.access.buffer = s.buffer;
    op.by_buffer = s.by_buffer;
    op.vars = {s.var};
    op.lo = {Flat(s.lo)};
    op.hi = {Flat(s.hi)};
    if (lanes_.lanes > 0) {
      op.let = static_cast<int32_t>(program_.lets++);
      lanes_.bindings.push_back({.var = s.var, .let = op.let});
    }
    Emit(std::move(op));
  }

  Access AccessOf(BufferId buffer, const std::vector<Affine>& index) const {
    return {.buffer = buffer,
            .offset = FlatAffine(loops::ElementOffset(nest_[buffer], index)),
            .index = Flat(index)};
  }

  FlatValue Value(ExprId root) const {
    FlatValue value;
    std::map<ExprId, int32_t> slot;
    AddNode(root, value, slot);
    return value;
  }

  int32_t AddNode(ExprId id, FlatValue& value, std::map<ExprId, int32_t>& slot) const {
    if (const auto it = slot.find(id); it != slot.end()) return it->second;
    const loops::Expr& e = nest_[id];
    Node node{.kind = e.kind, .op = e.op, .dtype = e.dtype};
    for (size_t i = 0; i < e.args.size(); ++i) node.args[i] = AddNode(e.args[i], value, slot);
    if (e.kind == ExprKind::kOp) node.operand = nest_[e.args.back()].dtype;
    if (e.kind == ExprKind::kAffine) node.affine = FlatAffine(e.index[0]);
    if (e.kind == ExprKind::kLoad) {
      node.access = AccessOf(e.buffer, e.index);
      node.guards = Flat(e.guards);
    }
    value.nodes.push_back(std::move(node));
    value.slots.push_back(e.literal);
    return slot[id] = static_cast<int32_t>(value.nodes.size() - 1);
  }

  const LoopNest& nest_;
  Program program_;
  FlatOp lanes_;  // the vector loop that statements stand in, copied into each
};

}  // namespace

Program Flatten(const LoopNest& nest) { return Flattener(nest).Run(); }

}  // namespace weft::codegen
