#include "codegen/cuda/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "codegen/cuda/value.h"

namespace weft::codegen::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

// A vector loop on the way to its statements. Each statement runs for all lanes before the next one
// does, so it becomes a loop over lanes of its own, with what a lane must know at its head.
struct Lanes {
  Var var = -1;
  Affine lo;
  int64_t step = 1, count = 0;
  std::string lane;                // the lane's number, as spelled
  std::vector<std::string> heads;  // "const int u = k + weft_u;"
  std::vector<std::string> masks;  // conditions
};

class Body {
 public:
  Body(const LoopNest& nest, const Names& names, const Places& places, const Launch& launch,
       Helpers& helpers)
      : nest_(nest),
        places_(places),
        launch_(launch),
        helpers_(helpers),
        values_(nest, names, helpers),
        multiples_(nest.vars.size(), 1) {}

  std::string Run() {
    Block(nest_.body);
    return std::move(text_);
  }

 private:
  void Line(std::string_view line) { text_ += fmt::format("{:{}}{}\n", "", 2 * depth_, line); }
  void Open(std::string_view line) {
    Line(line);
    ++depth_;
  }
  void Close() {
    --depth_;
    Line("}");
  }

  // A let holds to the end of its block.
  void Block(const std::vector<StmtId>& body) {
    for (const StmtId id : body) Statement(nest_[id]);
    for (size_t i = body.size(); i-- > 0;) {
      if (nest_[body[i]].kind == StmtKind::kLet) values_.ranges().Pop(nest_[body[i]]);
    }
  }

  void Statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kFor:
        return For(s);
      case StmtKind::kIf:
        return lanes_ ? MaskedIf(s) : If(s);
      case StmtKind::kStore:
        return lanes_ ? LaneStore(s) : Store(s);
      case StmtKind::kLet:
        lanes_ ? LaneLet(s) : Let(s);
        values_.ranges().Push(s);
        return;
      case StmtKind::kBarrier:
        return Line("__syncthreads();");
      case StmtKind::kPrefetch:
        return;  // warps hide the latency that a CPU cannot
      case StmtKind::kMark:
        Line(fmt::format("// {}", PrintString(s.label)));
        return Block(s.body);
      case StmtKind::kSingle:
        Open("if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {");
        Block(s.body);
        return Close();
    }
    WEFT_UNREACHABLE();
  }

  void For(const Stmt& s) {
    if (s.loop == LoopKind::kVector) return Vector(s);
    if (lanes_) return UnrollInLanes(s);
    if (s.loop >= LoopKind::kBlockX) return GridLoop(s);
    if (s.loop == LoopKind::kUnroll) Line("#pragma unroll");
    const std::string& v = values_.VarName(s.var);
    Open(fmt::format("for ({} {} = {}; {} < {}; {}) {{", values_.index_type(), v,
                     values_.Largest(s.lo), v, values_.Least(s.hi),
                     s.step == 1 ? "++" + v : fmt::format("{} += {}", v, s.step)));
    Inside(s);
    Close();
  }

  void Inside(const Stmt& s) {
    const int64_t start = s.lo.size() == 1 ? MultipleOf(s.lo[0]) : 1;
    multiples_[static_cast<size_t>(s.var)] = std::gcd(start, s.step);
    values_.ranges().Push(s);
    Block(s.body);
    values_.ranges().Pop(s);
  }

  // The one iteration of this block or thread, if it has one.
  void GridLoop(const Stmt& s) {
    constexpr std::string_view kPlaces[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                            "threadIdx.x", "threadIdx.y", "threadIdx.z"};
    const size_t place = static_cast<size_t>(s.loop) - static_cast<size_t>(LoopKind::kBlockX);
    const LaunchExtent& extent = place < 3 ? launch_.grid[place] : launch_.block[place - 3];
    const int64_t trip = loops::ConstantTrip(s);
    const bool all = extent.IsConstant() && trip == extent.Eval({});
    const std::string own = fmt::format("({}){}", values_.index_type(), kPlaces[place]);
    const std::string lo = values_.Largest(s.lo), &v = values_.VarName(s.var);
    Open("{");
    Line(fmt::format("const {} {} = {}{}{};", values_.index_type(), v, lo == "0" ? "" : lo + " + ",
                     s.step == 1 ? "" : fmt::format("{}*", s.step), own));
    if (!all) Open(fmt::format("if ({} < {}) {{", v, values_.Least(s.hi)));
    Inside(s);
    if (!all) Close();
    Close();
  }

  void If(const Stmt& s) {
    Open(fmt::format("if ({}) {{", values_.Conjunction(s.conditions)));
    values_.ranges().PushConstraints(s.conditions);
    Block(s.body);
    values_.ranges().PopConstraints(s.conditions.size());
    Close();
    if (s.otherwise.empty()) return;
    Open("else {");
    Block(s.otherwise);
    Close();
  }

  void Store(const Stmt& s) {
    std::vector<std::string> lines;
    const std::string value = StoredValue(s, lines);
    if (!lines.empty()) Open("{");
    for (const std::string& line : lines) Line(line);
    Line(values_.StoreTo(s.buffer, s.index, value));
    if (!lines.empty()) Close();
  }

  std::string StoredValue(const Stmt& s, std::vector<std::string>& lines) {
    std::string value = values_.Emit(s.value, lines);
    if (value.starts_with('(') && value.find(')') == value.size() - 1) {
      value = value.substr(1, value.size() - 2);
    }
    return values_.ToMemory(nest_[s.buffer].dtype, value);
  }

  // The checked and clamped value; the check is left out where the value can be seen to be inside.
  std::string LetValue(const Stmt& s, std::vector<std::string>& lines) {
    const std::string_view type = values_.index_type();
    const Expr& value = nest_[s.value];
    if (value.kind == ExprKind::kAffine && values_.ranges().NonNegative(value.index[0] - s.lo[0]) &&
        values_.ranges().NonNegative(s.hi[0] - 1 - value.index[0])) {
      return values_.Index(value.index[0]);
    }
    lines.push_back(
        fmt::format("const long long weft_found = (long long)({});", values_.Emit(s.value, lines)));
    // An unsigned 64-bit value above the signed range is outside too: it turns negative.
    const std::string lo = values_.Index(s.lo[0]), hi = values_.Index(s.hi[0]);
    lines.push_back(
        fmt::format("const bool weft_inside = weft_found >= {} && weft_found < {};", lo, hi));
    lines.push_back(fmt::format("if (!weft_inside) {}(weft_error, {}, {}, weft_found, {}, {});",
                                helpers_.Use("weft_fault"), s.by_buffer ? 2 : 1, s.buffer.index, lo,
                                hi));
    return fmt::format("weft_inside ? ({})weft_found : ({})({})", type, type, lo);
  }

  void Let(const Stmt& s) {
    std::vector<std::string> lines;
    const std::string value = LetValue(s, lines);
    const std::string& v = values_.VarName(s.var);
    if (lines.empty()) {
      Line(fmt::format("const {} {} = {};", values_.index_type(), v, value));
      return;
    }
    Line(fmt::format("{} {};", values_.index_type(), v));
    Open("{");
    for (const std::string& line : lines) Line(line);
    Line(fmt::format("{} = {};", v, value));
    Close();
  }

  void Vector(const Stmt& s) {
    const int64_t count = loops::ConstantTrip(s);
    if (count <= 0) return;
    const bool plain = s.lo[0] == Affine(0) && s.step == 1;
    lanes_ = Lanes{.var = s.var,
                   .lo = s.lo[0],
                   .step = s.step,
                   .count = count,
                   .lane = plain ? values_.VarName(s.var) : "weft_lane"};
    if (!plain) {
      lanes_->heads.push_back(fmt::format("const {} {} = {} + {}*weft_lane;", values_.index_type(),
                                          values_.VarName(s.var), values_.Index(s.lo[0]), s.step));
    }
    Inside(s);
    lanes_.reset();
  }

  void OpenLanes() {
    Line("#pragma unroll");
    Open(fmt::format("for ({} {} = 0; {} < {}; ++{}) {{", values_.index_type(), lanes_->lane,
                     lanes_->lane, lanes_->count, lanes_->lane));
    for (const std::string& head : lanes_->heads) Line(head);
    if (!lanes_->masks.empty()) Open(fmt::format("if ({}) {{", fmt::join(lanes_->masks, " && ")));
  }
  void CloseLanes() {
    if (!lanes_->masks.empty()) Close();
    Close();
  }

  void LaneStore(const Stmt& s) {
    if (WideCopy(s)) return;
    std::vector<std::string> lines;
    const std::string value = StoredValue(s, lines);
    const bool two_steps = ReadsOtherLanes(s);
    if (two_steps) {
      Open("{");
      Line(fmt::format("{} weft_lanes[{}];", MemoryType(nest_[s.buffer].dtype), lanes_->count));
    }
    OpenLanes();
    for (const std::string& line : lines) Line(line);
    Line(two_steps ? fmt::format("weft_lanes[{}] = {};", lanes_->lane, value)
                   : values_.StoreTo(s.buffer, s.index, value));
    CloseLanes();
    if (!two_steps) return;
    OpenLanes();
    Line(values_.StoreTo(s.buffer, s.index, fmt::format("weft_lanes[{}]", lanes_->lane)));
    CloseLanes();
    Close();
  }

  // All lanes read before any writes: does some lane read what another one writes?
  bool ReadsOtherLanes(const Stmt& s) const {
    std::vector<ExprId> todo = {s.value};
    while (!todo.empty()) {
      const Expr& e = nest_[todo.back()];
      todo.pop_back();
      todo.insert(todo.end(), e.args.begin(), e.args.end());
      if (e.kind == ExprKind::kLoad && MayBeOneMemory(e.buffer, s.buffer) && e.index != s.index) {
        return true;
      }
    }
    return false;
  }

  // Operands may be told to share memory.
  bool MayBeOneMemory(BufferId a, BufferId b) const {
    const auto operand = [&](BufferId id) { return nest_[id].access != loops::Access::kLocal; };
    return a == b || (operand(a) && operand(b));
  }

  // Contiguous, aligned f32 from memory to memory: four lanes in one access.
  bool WideCopy(const Stmt& s) {
    const Expr& e = nest_[s.value];
    if (e.kind != ExprKind::kLoad || !e.guards.empty() || lanes_->step != 1 ||
        lanes_->count % 4 != 0 || !lanes_->masks.empty() || ReadsOtherLanes(s) ||
        !Wide(s.buffer, s.index) || !Wide(e.buffer, e.index)) {
      return false;
    }
    Line("#pragma unroll");
    const std::string& lane = lanes_->lane;
    Open(fmt::format("for ({} {} = 0; {} < {}; {} += 4) {{", values_.index_type(), lane, lane,
                     lanes_->count, lane));
    for (const std::string& head : lanes_->heads) Line(head);
    Line(fmt::format("*(float4*)&{} = *(const float4*)&{};", values_.Element(s.buffer, s.index),
                     values_.Element(e.buffer, e.index)));
    Close();
    return true;
  }

  bool Wide(BufferId id, const std::vector<Affine>& index) const {
    const loops::Buffer& b = nest_[id];
    const Place place = places_.of[static_cast<size_t>(id.index)];
    if (b.dtype != Dtype::kF32 || place == Place::kThread) return false;
    if (place == Place::kOperand && b.align_bytes < 16) return false;
    const Affine offset = loops::ElementOffset(b, index);
    if (offset.CoefficientOf(lanes_->var) != 1) return false;
    const Affine rest = offset - Affine::OfVar(lanes_->var) + lanes_->lo;
    return !rest.Uses(lanes_->var) && MultipleOf(rest) % 4 == 0;
  }

  // A number that divides every value of e: 0 if it is 0.
  int64_t MultipleOf(const Affine& e) const {
    int64_t multiple = e.constant();
    for (const Affine::Term& t : e.terms()) {
      const int64_t atom = t.dividend ? 1 : multiples_[static_cast<size_t>(t.var)];
      multiple = std::gcd(multiple, t.coefficient * atom);
    }
    return std::abs(multiple);
  }

  void LaneLet(const Stmt& s) {
    const std::string name = values_.VarName(s.var);
    Line(fmt::format("{} {}[{}];", values_.index_type(), name, lanes_->count));
    std::vector<std::string> lines;
    const std::string value = LetValue(s, lines);
    OpenLanes();
    for (const std::string& line : lines) Line(line);
    Line(fmt::format("{}[{}] = {};", name, lanes_->lane, value));
    CloseLanes();
    values_.Rename(s.var, fmt::format("{}[{}]", name, lanes_->lane));
  }

  void MaskedIf(const Stmt& s) {
    const std::string condition = "(" + values_.Conjunction(s.conditions) + ")";
    lanes_->masks.push_back(condition);
    Open("{");
    Block(s.body);
    Close();
    lanes_->masks.back() = "!" + condition;
    if (!s.otherwise.empty()) {
      Open("{");
      Block(s.otherwise);
      Close();
    }
    lanes_->masks.pop_back();
  }

  // The loop counts; where it starts may depend on the lane.
  void UnrollInLanes(const Stmt& s) {
    const std::string v = values_.VarName(s.var), count = "weft_" + v;
    Line("#pragma unroll");
    Open(fmt::format("for ({} {} = 0; {} < {}; ++{}) {{", values_.index_type(), count, count,
                     std::max<int64_t>(0, loops::ConstantTrip(s)), count));
    lanes_->heads.push_back(fmt::format("const {} {} = {} + {}*{};", values_.index_type(), v,
                                        values_.Index(s.lo[0]), s.step, count));
    Inside(s);
    lanes_->heads.pop_back();
    Close();
  }

  const LoopNest& nest_;
  const Places& places_;
  const Launch& launch_;
  Helpers& helpers_;
  Values values_;
  std::vector<int64_t> multiples_;  // of the values of a loop's variable
  std::optional<Lanes> lanes_;
  std::string text_;
  int depth_ = 1;
};

}  // namespace

std::string BodyText(const LoopNest& nest, const Names& names, const Places& places,
                     const Launch& launch, Helpers& helpers) {
  return Body(nest, names, places, launch, helpers).Run();
}

}  // namespace weft::codegen::cuda
