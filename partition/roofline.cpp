// The price model that needs no measurement: a roofline with cache levels.
#include <algorithm>
#include <cmath>

#include "partition/partition.h"

namespace weft::partition {
namespace {

// Per core, conservative for the server parts that the project targets; only ratios matter, since
// whatever is selected within a budget is measured. Bytes per microsecond and operations per cycle.
constexpr double kCyclesPerUs = 3000;
constexpr double kL2BytesPerUs = 80'000, kL3BytesPerUs = 40'000, kDramBytesPerUs = 15'000;
constexpr double kMathFlops = 12;  // a polynomial, against one multiply-add
// What passes through memory between statements: stored and read in passes of their own, that
// nothing overlaps (fitted to Winograd's transforms from 16 to 512 channels).
constexpr double kStagedBytesPerUs = 15'000;
constexpr double kBarrierUs = 0.3, kLibraryCallUs = 2.5;
constexpr double kOwnEfficiency = 0.85, kLibraryEfficiency = 0.85;

double PeakFlopsPerUs(const Target& t) {
  return kCyclesPerUs * (static_cast<double>(t.VectorBytes()) / 4) * 2 * 2;  // two FMA units
}

double BytesPerUs(const Target& t, double bytes) {
  if (bytes <= static_cast<double>(t.l2_bytes) / 2) return kL2BytesPerUs;
  if (bytes <= static_cast<double>(t.l3_bytes) / 2) return kL3BytesPerUs;
  return kDramBytesPerUs;
}

// Time of compute and memory, mostly overlapped: what of the shorter is not.
constexpr double kExposed = 0.05;
double Roof(const Target& t, double flops, double bytes, double efficiency) {
  const double threads = std::max(1, t.threads);
  const double compute = flops / (PeakFlopsPerUs(t) * efficiency * threads);
  const double memory = bytes / (BytesPerUs(t, bytes) * std::min(threads, 2.0));
  return compute + memory - (1 - kExposed) * std::min(compute, memory);
}

double MathFlops(const tc::Program& p) {
  double extra = 0;
  for (const tc::Statement& s : p.statements) {
    double instances = 1;
    for (const tc::Index& i : s.indices)
      if (i.lo.IsConstant() && i.hi.IsConstant())
        instances *= static_cast<double>(i.hi.constant() - i.lo.constant());
    int64_t functions = 0;
    std::vector<tc::ExprId> todo{s.value};
    while (!todo.empty()) {
      const tc::Expr& e = p[todo.back()];
      todo.pop_back();
      functions += e.kind == tc::ExprKind::kOp && IsMath(e.op);
      todo.insert(todo.end(), e.args.begin(), e.args.end());
    }
    extra += instances * static_cast<double>(functions) * kMathFlops;
  }
  return extra;
}

// Bytes written and read again of temporaries that are made for a contraction, or by one in another
// order than they are used in: no loop holds them while they live.
double StagedBytes(const tc::Program& p) {
  const auto is_plain = [&](tc::ExprId sub) {
    const auto e = tc::AsAffine(p, sub);
    return e && e->AsVar();
  };
  double bytes = 0;
  for (const tc::Statement& maker : p.statements) {
    const tc::TensorDecl& decl = p[maker.target];
    if (decl.role != tc::Role::kTemporary) continue;
    bool staged = false;
    for (const tc::Statement& user : p.statements)
      for (const tc::ExprId read : tc::Reads(p, user))
        staged |= p[read].tensor == maker.target &&
                  (tc::Contracts(user) ||
                   (tc::Contracts(maker) && !std::ranges::all_of(p[read].args, is_plain)));
    if (!staged) continue;
    double elems = 1;
    for (const int64_t extent : tc::StaticExtents(decl).value_or(Shape{}))
      elems *= static_cast<double>(extent);
    bytes += 2 * elems * static_cast<double>(Bits(decl.dtype)) / 8;
  }
  return bytes;
}

}  // namespace

Price RooflinePricer::Own(const tc::Program& program, bool in_blocks) {
  const double flops = static_cast<double>(tc::Flops(program)) + MathFlops(program);
  const double staged = StagedBytes(program);
  const double cores = std::clamp(target_.threads, 1, 2);
  const double passed = in_blocks ? kExposed * staged / kL2BytesPerUs : staged / kStagedBytesPerUs;
  return {.us =
              kBarrierUs + passed / cores +
              Roof(target_, flops, static_cast<double>(tc::OperandBytes(program)), kOwnEfficiency)};
}

Price RooflinePricer::Call(const fallback::LibraryCall& call) {
  double bytes = 0, flops = 0, outputs = 0;
  const auto count = [](const fallback::CallOperand& o) {
    double elems = 1;
    for (int64_t e : o.shape) elems *= static_cast<double>(std::max<int64_t>(e, 0));
    return elems;
  };
  for (const auto& o : call.inputs)
    if (!o.value.empty()) bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
  for (const auto& o : call.outputs) {
    bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
    outputs += count(o);
  }
  const fallback::CallOperand* weights = fallback::FindOperand(call, "weights");
  if (call.op == "convolution" && weights && weights->shape.size() > 1)
    flops = 2 * outputs * count(*weights) /
            static_cast<double>(std::max<int64_t>(1, weights->shape[0]));
  else if (call.op == "matmul" && weights && weights->shape.size() > 1)
    flops = 2 * outputs * static_cast<double>(weights->shape[weights->shape.size() - 2]);
  else
    flops = 2 * outputs;
  flops += outputs * static_cast<double>(call.post_ops.size());
  return {.us = kLibraryCallUs + Roof(target_, flops, bytes, kLibraryEfficiency)};
}

}  // namespace weft::partition
