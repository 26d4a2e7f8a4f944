#include "codegen/cuda/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

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
  std::vector<Var> inner;          // variables bound inside that differ between lanes
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
        if (!s.cluster) return Line("__syncthreads();");
        Line("__cluster_barrier_arrive();");
        return Line("__cluster_barrier_wait();");
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
    if (loops::IsGrid(s.loop)) return GridLoop(s);
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
    const size_t place = loops::GridAxis(s.loop);
    const LaunchExtent& extent = place < 3 ? launch_.grid[place] : launch_.block[place - 3];
    const int64_t trip = loops::ConstantTrip(s);
    const bool all = extent.IsConstant() && trip == extent.Eval({});
    const std::string own = fmt::format("({}){}", values_.index_type(), kPlaces[place]);
    const std::string lo = values_.Largest(s.lo), &v = values_.VarName(s.var);
    Open("{");
    Line(fmt::format("const {} {} = {}{}{};", values_.index_type(), v, lo == "0" ? "" : lo + " + ",
                     s.step == 1 ? "" : fmt::format("{}*", s.step), own));
    if (!all) Open(fmt::format("if ({} < {}) {{", v, values_.Least(s.hi)));
    const bool in_cluster = s.loop == LoopKind::kClusterX;
    if (in_cluster) values_.SetPlaceInCluster(s.var);
    Inside(s);
    if (in_cluster) values_.SetPlaceInCluster(-1);
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
    std::string value = StoredValue(s, lines);
    if (s.across != 0) value = fmt::format("__shfl_xor_sync(0xffffffffu, {}, {})", value, s.across);
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

  void OpenLanes(int64_t at_once) {
    const std::string& lane = lanes_->lane;
    Line("#pragma unroll");
    Open(fmt::format("for ({} {} = 0; {} < {}; {}) {{", values_.index_type(), lane, lane,
                     lanes_->count,
                     at_once == 1 ? "++" + lane : fmt::format("{} += {}", lane, at_once)));
    for (const std::string& head : lanes_->heads) Line(head);
    if (!lanes_->masks.empty()) Open(fmt::format("if ({}) {{", fmt::join(lanes_->masks, " && ")));
  }
  void CloseLanes() {
    if (!lanes_->masks.empty()) Close();
    Close();
  }

  // Contiguous, aligned elements move by up to 16 bytes at once. What is read so is read first.
  void LaneStore(const Stmt& s) {
    const std::string& lane = lanes_->lane;
    std::vector<ExprId> loads = WideLoads(s.value);
    const int64_t wide = WideLanes(s.buffer, s.index);
    const bool two_steps = wide > 1 || ReadsOtherLanes(s);
    if (two_steps || !loads.empty()) Open("{");
    for (size_t i = 0; i < loads.size(); ++i) {
      const Expr& e = nest_[loads[i]];
      const size_t first = FirstLike(loads, i);
      const int64_t at_once = WideLanes(e.buffer, e.index);
      const std::string name = fmt::format("weft_wide{}", first);
      values_.Know(loads[i], fmt::format("{0}[{1}/{2}].lane[{1}%{2}]", name, lane, at_once));
      if (first < i) continue;
      const std::string type = VectorType(e.buffer, at_once);
      Line(fmt::format("{} {}[{}];", type, name, lanes_->count / at_once));
      std::string value = fmt::format("{}<{}>(&{})", helpers_.Use("weft_load"), at_once,
                                      values_.Element(e.buffer, e.index));
      if (!e.guards.empty())
        value = fmt::format("{} ? {} : {}{{}}", values_.Conjunction(e.guards), value, type);
      OpenLanes(at_once);
      Line(fmt::format("{}[{}/{}] = {};", name, lane, at_once, value));
      CloseLanes();
    }
    std::vector<std::string> lines;
    const std::string value = StoredValue(s, lines);
    values_.Forget();
    const std::string held = wide > 1 ? fmt::format("weft_lanes[{0}/{1}].lane[{0}%{1}]", lane, wide)
                                      : fmt::format("weft_lanes[{}]", lane);
    if (two_steps)
      Line(fmt::format("{} weft_lanes[{}];", VectorType(s.buffer, wide), lanes_->count / wide));
    OpenLanes(1);
    for (const std::string& line : lines) Line(line);
    Line(two_steps ? fmt::format("{} = {};", held, value)
                   : values_.StoreTo(s.buffer, s.index, value));
    CloseLanes();
    if (two_steps) {
      OpenLanes(wide);
      Line(wide > 1 ? fmt::format("{}(&{}, weft_lanes[{}/{}]);", helpers_.Use("weft_store"),
                                  values_.Element(s.buffer, s.index), lane, wide)
                    : values_.StoreTo(s.buffer, s.index, held));
      CloseLanes();
    }
    if (two_steps || !loads.empty()) Close();
  }

  // Of so many lanes.
  std::string VectorType(BufferId id, int64_t lanes) {
    const std::string_view type = MemoryType(nest_[id].dtype);
    return lanes == 1 ? std::string(type)
                      : fmt::format("{}<{}, {}>", helpers_.Use("weft_vector"), type, lanes);
  }

  // The first of some loads that reads what load i does.
  size_t FirstLike(const std::vector<ExprId>& loads, size_t i) const {
    const auto same = [&](ExprId id) {
      const Expr &a = nest_[id], &b = nest_[loads[i]];
      return a.buffer == b.buffer && a.index == b.index && a.guards == b.guards;
    };
    return static_cast<size_t>(std::ranges::find_if(loads, same) - loads.begin());
  }

  // The loads of a value that are wide, each once.
  std::vector<ExprId> WideLoads(ExprId root) const {
    std::set<ExprId> found, done;
    std::vector<ExprId> todo = {root};
    while (!todo.empty()) {
      const ExprId id = todo.back();
      todo.pop_back();
      if (!done.insert(id).second) continue;
      const Expr& e = nest_[id];
      todo.insert(todo.end(), e.args.begin(), e.args.end());
      const bool same =
          std::ranges::none_of(e.guards, [this](const Affine& g) { return InLanes(g); });
      if (e.kind == ExprKind::kLoad && same && WideLanes(e.buffer, e.index) > 1) found.insert(id);
    }
    return {found.begin(), found.end()};
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

  // How many lanes one access takes: as many as lie side by side in memory, and are aligned to what
  // they are together, of at most 16 bytes. 1: it is not known of more.
  int64_t WideLanes(BufferId id, const std::vector<Affine>& index) const {
    constexpr int64_t kMostBytes = 16;
    const loops::Buffer& b = nest_[id];
    const Place place = places_.of[static_cast<size_t>(id.index)];
    if (place == Place::kThread || SharesBytes(b.dtype) || lanes_->step != 1 ||
        !lanes_->masks.empty()) {
      return 1;
    }
    if (b.space == loops::Space::kCluster && InLanes(index[0])) return 1;  // of several blocks
    const Affine offset = loops::ElementOffset(b, index);
    const Affine rest = offset - Affine::OfVar(lanes_->var) + lanes_->lo;
    if (InLanes(rest)) return 1;
    const int64_t start = MultipleOf(rest), size = SizeBytes(b.dtype),
                  align = place == Place::kOperand ? b.align_bytes : kMostBytes;
    int64_t lanes = 1;
    while (lanes_->count % (2 * lanes) == 0 && start % (2 * lanes) == 0 &&
           2 * lanes * size <= kMostBytes && align % (2 * lanes * size) == 0 && align > 0) {
      lanes *= 2;
    }
    return lanes;
  }

  // Whether a value differs between lanes.
  bool InLanes(const Affine& e) const {
    return e.Uses(lanes_->var) ||
           std::ranges::any_of(lanes_->inner, [&](Var v) { return e.Uses(v); });
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
    OpenLanes(1);
    for (const std::string& line : lines) Line(line);
    Line(fmt::format("{}[{}] = {};", name, lanes_->lane, value));
    CloseLanes();
    values_.Rename(s.var, fmt::format("{}[{}]", name, lanes_->lane));
    lanes_->inner.push_back(s.var);
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
    const bool varies = InLanes(s.lo[0]);
    if (varies) lanes_->inner.push_back(s.var);
    Inside(s);
    if (varies) lanes_->inner.pop_back();
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
