// LoopNest: what runs, exactly. The noun between scheduling and machine code; free of isl.
//
// What you see is what runs: nothing below this form reorders, fuses, vectorises or approximates.
// FMA is an operation, a vector loop is a vector instruction per operation, a register tile is a
// buffer in register space, a lane tree is a sequence of vector loops of halving length, exp is its
// polynomial. So the interpreter (codegen/reference) and the machine code agree bit for bit on a
// CPU.
//
//   loops conv1_relu1 (image: in f32[1, 28, 28, 16], w1: in f32[9, 16, 16] align 64, relu1: out
//   f32[…])
//       for /conv1/Conv /relu1/Relu {
//     reg acc: f32[6, 16]
//     parallel h = 0:28 {
//       for w0 = 0:24:6 {
//         mark "leaf 6x16" {
//           unroll m = 0:6 { vector k = 0:16 { acc[m, k] = b1[k] } }
//           for r = max(0, 1 - h):min(3, 29 - h) {
//             for s = 0:3 { for c = 0:16 {
//               unroll m = 0:6 { vector k = 0:16 {
//                 acc[m, k] = fma(image[0, h + r - 1, w0 + m + s - 1, c], w1[3*r + s, c, k], acc[m,
//                 k]) } } } } }
//           unroll m = 0:6 { vector k = 0:16 { relu1[0, h, w0 + m, k] = max(acc[m, k], 0.0) } }
//   } } } }
//
// Loops. `for` runs in order. `parallel` splits its range into equal contiguous blocks, one per
// rank of the team; between two parallel loops that depend on each other stands a `barrier`.
// `vector` runs its (constant, <= 64) trip count as lanes of one instruction per operation: a load
// whose index moves by 1 per lane is contiguous, by 0 a broadcast, otherwise a gather. `unroll` is
// expanded. On CUDA `block_x`… `thread_z` are the launch grid, and `cluster_x`, in place of
// `block_x`, the blocks of a cluster, which run at the same time. A loop's bounds are the max of
// `lo` and the min of `hi`, exclusive.
//
// Outside parallel loops a CPU kernel's code runs on every rank: statements there must only write
// cache or register space, or stand in `single` (rank 0 only).
//
// Loads may carry guards: constraints e >= 0 on loop variables; where one fails the load does not
// touch memory and gives 0 (of its dtype). That is how padding reads. A `let` names an integer that
// is loaded (a gathered index); its value is checked against lo <= v < hi first, and a violation is
// reported in the fault slot, with the buffer it is an index of or else the one it comes by, before
// any memory is touched; the value is then clamped to lo so that the kernel can run to its next
// poll.
//
// A `prefetch x at e` says that the line which holds element e of an operand, counted as it lies in
// memory, will be read soon, a `prefetch near x at e` that it will be at once: it goes to the
// second-level cache or to the first. Neither changes a value, and e may lie outside of x.
//
// Where blocks are, a barrier outside of them is one of the whole grid: what follows it is another
// launch, with a grid of its own, and finds what was written to global and grid space.
//
// Spaces: global (operands), cache (scratch of one rank, meant to stay in its caches), shared
// (scratch of the whole team on a CPU, of one block on CUDA), cluster (scratch of the blocks of a
// cluster, on CUDA: slice r of its outermost axis lies in shared memory of block r, which alone
// writes it), grid (scratch of all blocks, on CUDA), register (constant indices after unrolling;
// never in memory unless the compiler spills).
//
// A `barrier cluster` is a barrier of all threads of all blocks of a cluster.
//
// An `exchange 16 x[] = e` gives each thread what the thread of its warp whose number differs by 16
// (exclusive or) has of e. A warp is 32 threads with successive numbers, which all come there
// together.
//
// In the text, `x[h - 1, w]{h - 1 >= 0}` is a guarded load, `index(h + 1)` an integer expression as
// an i64, `1.5:f64` a literal other than f32, i64 or bool, `cast(x):f16` an operation whose type
// its operands don't show, and `$0 = ...` before a statement a part that its value uses several
// times.
//
// Verify(): (1) ids in range, a tree; (2) variables are bound by exactly one enclosing loop or let;
// (3) vector and unroll trip counts are constant, vectors nest no loops but unroll, no barrier, no
// mark; (4) register indices are constant, unroll or vector variables; (5) every access lies inside
// its buffer for all values of the loops around it (by intervals; guards are taken into account);
// (6) only primitive operations; types agree; (7) inputs are not written; (8) no store outside a
// parallel loop writes global or shared space except in `single`; (9) barriers stand in uniform
// control flow, those of a cluster in cluster_x, in no thread loop, alike for all its blocks;
// (10) an operand of four-bit elements, two of which share a byte, is written in `single` only, and
// such elements are only moved and converted. In other spaces each has a byte of its own; (11) an
// exchange, of 4 or 8 bytes that a thread has of its own, stands in a thread_x loop of whole warps,
// and whether it runs depends on no thread; (12) a let's range holds at least one integer; (13)
// operands are stored whole, and sizes, bounds, steps, trips, coefficients and depths stay within
// what any kernel needs, so that nothing that is computed of them overflows; (14) the cluster_x
// loops of a launch run from 0 to one number, 2 to 8, stand in no other and beside no block_x; (15)
// a buffer in cluster space has as many slices, each in one piece; a block stores to its own only,
// and reads another's between two barriers of the cluster, so that the other has begun, and has not
// ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/dtype.h"
#include "base/id.h"
#include "base/layout.h"
#include "base/scalar.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft::loops {

using BufferId = Id<struct LoopBufferTag>;
using ExprId = Id<struct LoopExprTag>;
using StmtId = Id<struct LoopStmtTag>;

enum class Space : uint8_t { kGlobal, kCache, kShared, kRegister, kGrid, kCluster };
enum class Access : uint8_t { kIn, kOut, kInOut, kLocal };  // kLocal: not an operand

// What whoever calls a kernel aligns its operands to, in bytes: the most that a buffer may promise.
inline constexpr int64_t kOperandAlign = 64;
inline constexpr int64_t kMostLanes = 64;  // of one vector loop
inline constexpr int64_t kWarp = 32;  // threads that exchange values (CUDA C++ Programming Guide)
inline constexpr int64_t kMostCluster = 8;  // blocks, on every device that has clusters (ibid.)

// Elements lie at OffsetOf(layout, shape, index). Operands come first, in the order of the call.
// Only the outermost logical extent, if it is also physically outermost, may be a param.
struct Buffer {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<Affine> shape;  // over params
  Layout layout;
  Space space = Space::kGlobal;
  Access access = Access::kLocal;
  int64_t align_bytes = 0;    // promised alignment of the first element; 0: element size
  std::vector<int64_t> fold;  // per axis: index modulo this window; 0 or empty: none
};

enum class ExprKind : uint8_t { kLiteral, kAffine, kLoad, kOp };

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  Dtype dtype = Dtype::kF32;
  ScalarOp op = ScalarOp::kAdd;  // kOp, primitive
  Scalar literal;                // kLiteral
  BufferId buffer;               // kLoad
  std::vector<Affine> index;   // kLoad: logical index; kAffine: one expression, as a value of dtype
  std::vector<Affine> guards;  // kLoad: each >= 0, or the load gives 0
  std::vector<ExprId> args;    // kOp
};

enum class StmtKind : uint8_t { kFor, kIf, kStore, kLet, kBarrier, kMark, kSingle, kPrefetch };
enum class LoopKind : uint8_t {
  kSerial,
  kParallel,
  kVector,
  kUnroll,
  kClusterX,
  kBlockX,
  kBlockY,
  kBlockZ,
  kThreadX,
  kThreadY,
  kThreadZ
};
// Loops of the launch grid: over blocks, those of a cluster among them, and over threads.
constexpr bool IsGrid(LoopKind kind) { return kind >= LoopKind::kClusterX; }
constexpr bool IsThread(LoopKind kind) { return kind >= LoopKind::kThreadX; }
// Of a grid loop: block x, y, z, thread x, y, z.
constexpr size_t GridAxis(LoopKind kind) {
  return kind == LoopKind::kClusterX
             ? 0
             : static_cast<size_t>(kind) - static_cast<size_t>(LoopKind::kBlockX);
}

struct Stmt {
  StmtKind kind = StmtKind::kStore;
  Var var = -1;  // kFor, kLet
  std::vector<Affine> lo,
      hi;            // kFor: max of lo <= var < min of hi; kLet: one each, the legal range
  int64_t step = 1;  // kFor
  LoopKind loop = LoopKind::kSerial;
  std::vector<Affine> conditions;       // kIf: all >= 0
  BufferId buffer;                      // kStore, kPrefetch; kLet: whom the index is for, or
  bool by_buffer = false;               // kLet: what the integer, no index, was computed from
  std::vector<Affine> index;            // kStore; kPrefetch: one, the offset in elements
  ExprId value;                         // kStore, kLet
  std::string label;                    // kMark: "leaf 6x16", "copy x"
  int32_t across = 0;                   // kStore: an exchange with so far a thread; 0: none
  bool stream = false;                  // kStore: bypass the caches (the result leaves them anyway)
  bool near = false;                    // kPrefetch
  bool cluster = false;                 // kBarrier
  std::vector<StmtId> body, otherwise;  // kFor, kIf, kMark, kSingle
};

struct LoopNest {
  std::string name;                  // an identifier; the kernel's symbol
  std::vector<std::string> origins;  // ONNX nodes it stands for
  std::vector<std::string> vars;     // names; params first
  int32_t params = 0;                // vars[0 .. params) are run-time sizes
  std::vector<Buffer> buffers;       // operands first
  std::vector<Expr> exprs;           // children before parents
  std::vector<Stmt> stmts;
  std::vector<StmtId> body;
  // Whether the processor has an instruction for kLdexp, and for kPick: math is expanded to the
  // form that is the fastest with what there is.
  bool has_ldexp = false, has_pick = false;

  const Buffer& operator[](BufferId id) const { return buffers[id.index]; }
  const Expr& operator[](ExprId id) const { return exprs[id.index]; }
  const Stmt& operator[](StmtId id) const { return stmts[id.index]; }
};

// Building blocks for whoever makes a nest.
Var AddVar(LoopNest& nest, std::string name);       // made unique by a suffix
BufferId AddBuffer(LoopNest& nest, Buffer buffer);  // its name likewise
ExprId AddLiteral(LoopNest& nest, Dtype dtype, double value);
ExprId AddAffine(LoopNest& nest, Dtype dtype, Affine value);
ExprId AddLoad(LoopNest& nest, BufferId buffer, std::vector<Affine> index,
               std::vector<Affine> guards = {});
ExprId AddOp(LoopNest& nest, ScalarOp op, Dtype dtype,
             std::vector<ExprId> args);  // math is expanded
StmtId AddStmt(LoopNest& nest, Stmt stmt);
// Operations that are equal, down to what they load, become one: a formula that names a function of
// its argument several times computes it once in a statement.
void ShareOperations(LoopNest& nest);

// Questions.
std::vector<BufferId> Operands(const LoopNest& nest);
int64_t RankScratchBytes(const LoopNest& nest);  // cache space, each buffer 64-byte aligned
int64_t TeamScratchBytes(const LoopNest& nest);  // shared space, likewise
int64_t BufferBytes(const Buffer& buffer, const std::vector<int64_t>& params);
int64_t ScratchOffset(const LoopNest& nest,
                      BufferId id);  // of a cache or shared buffer in its scratch
// The extents that are stored: a folded axis by its window, a param (which no stride needs) by 1.
std::vector<int64_t> StoredShape(const Buffer& buffer);
// The offset in elements of a logical index, folding and layout applied.
Affine ElementOffset(const Buffer& buffer, const std::vector<Affine>& index);
// What one block of a cluster has of a buffer in cluster space, as a buffer; all of any other.
Buffer SliceOf(Buffer buffer);
// The parallel loop and those nested directly in it, outermost first: they split one range.
std::vector<StmtId> ParallelBand(const LoopNest& nest, StmtId outermost);
// Which operand an operation has the type of, where its text gives none.
size_t TypedBy(ScalarOp op);
// Whether it adds as VDPBF16PS or TDPBF16PS does, which only some targets have.
bool Flushes(const LoopNest& nest);
// The parts of a nest between barriers of the whole grid, each with all of its buffers: itself, if
// it has none.
std::vector<LoopNest> LaunchesOf(const LoopNest& nest);
std::string_view LoopKindName(LoopKind kind);
std::string_view SpaceName(Space space);

std::string Print(const LoopNest& nest);
Result<LoopNest> Parse(std::string_view text, const std::string& file);
Status Verify(const LoopNest& nest);
// Parse and Verify, of a text that a stranger may have written: kInvalid where either fails.
Result<LoopNest> Read(std::string_view text, const std::string& file);
bool Equal(const LoopNest& a, const LoopNest& b);
// Itself, its variables and buffers called by their places, origins and labels dropped: nests that
// compute the same from their operands in the same way have the same one.
LoopNest Nameless(LoopNest nest);

}  // namespace weft::loops
