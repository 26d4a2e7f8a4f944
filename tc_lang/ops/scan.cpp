// Running sums and products along one axis.
#include <algorithm>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

struct Running {
  Operand x, y;
  size_t axis = 0;
  int64_t extent = 1;
  Subs at;  // with the axis as index t
  bool exclusive = false, reverse = false;
  std::string identity;
};

Running MakeRunning(Writer& w) {
  Running s{w.In(0), w.Out(), 0, 1, {}, w.Int("exclusive", 0) != 0, w.Int("reverse", 0) != 0, ""};
  const int64_t identity = w.node.op == graph::Op::kCumProd ? 1 : 0;
  // With the type spelled out, which a temporary takes from the first value that it is given.
  s.identity =
      IsFloat(s.y.dtype) ? LitInt(s.y.dtype, identity) : Cast(s.y.dtype, std::to_string(identity));
  const Ints axis = w.ConstInts(1);
  if (axis.size() != 1) w.Refuse("no axis");
  if (!w.ok()) return s;
  s.axis = static_cast<size_t>(w.Axis(axis[0], s.x.rank()));
  s.extent = w.Extent(s.x, static_cast<int64_t>(s.axis));
  s.at = w.Indices("i", s.x.dims);
  if (w.ok()) s.at[s.axis] = w.Range("t", s.extent);
  return s;
}

// A recurrence over t, counted from the end if it is reversed.
void RunAlong(Writer& w, std::string_view operation) {
  const Running s = MakeRunning(w);
  if (!w.ok()) return;
  const auto along = [&](const std::string& t) {
    Subs subs = s.at;
    subs[s.axis] = t;
    return subs;
  };
  const auto source = [&](int64_t back) {  // x at step t - back
    return w.At(s.x,
                along(s.reverse ? Sum({{-1, "t"}}, s.extent - 1 + back) : Sum({{1, "t"}}, -back)));
  };
  const bool direct = !s.reverse && (!IsFloat(s.y.dtype) || SizeBytes(s.y.dtype) > 2);
  const Operand run = direct ? s.y : w.Temp("run", s.y.dtype);
  w.Range("t", std::min<int64_t>(s.extent, 1));
  w.Set("recurrence", run, s.at, s.exclusive ? s.identity : source(0));
  w.Range("t", s.extent, 1);
  w.Set("recurrence", run, s.at,
        fmt::format("{} {} {}", w.At(run, along("t - 1")), operation, source(s.exclusive ? 1 : 0)));
  if (direct) return;
  w.Range("t", s.extent);
  const std::string t = s.reverse ? Sum({{-1, "t"}}, s.extent - 1) : "t";
  w.Set("copy", s.y, s.at, w.At(run, along(t)));
}

// Each element on its own: more work, none of it in sequence.
void EachOnItsOwn(Writer& w, std::string_view assign) {
  const Running s = MakeRunning(w);
  if (!w.ok()) return;
  if (s.extent > 256) return w.Refuse("an axis too long for a result of its own at each place");
  Subs from = s.at;
  from[s.axis] = w.Range("k", s.extent);
  const std::string compare = std::string(s.reverse ? ">" : "<") + (s.exclusive ? "" : "=");
  w.Reduce("reduction", s.y, s.at, assign,
           fmt::format("k {} t ? {} : {}", compare, w.At(s.x, from), s.identity));
}

}  // namespace

void CumSum(Writer& w) { RunAlong(w, "+"); }
void CumSumTriangular(Writer& w) { EachOnItsOwn(w, "+=!"); }
void CumProd(Writer& w) { RunAlong(w, "*"); }
void CumProdTriangular(Writer& w) { EachOnItsOwn(w, "*=!"); }

}  // namespace weft::tc::ops
