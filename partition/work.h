// How much there is to do: what the price models count.
#pragma once

#include <map>
#include <string>

#include "base/dtype.h"
#include "base/layout.h"
#include "base/target.h"
#include "fallback/call.h"
#include "tc_lang/program.h"

namespace weft::partition {

// Evaluations of functions that are no single instruction, such as exp.
double MathCalls(const tc::Program& program);
// Of these, those that go by pieces where a processor has kPick (polyhedral/loops/math.h).
double PiecewiseCalls(const tc::Program& program);

// Elements that are compared with what a window has found so far, where windows overlap, or added
// to it, where they do along what lies side by side. Tensors lie as `layouts` says by name, others
// plain.
double WindowReads(const tc::Program& program, const std::map<std::string, Layout>& layouts);

// Of a sum of products with groups of its own (as of a grouped convolution), how many results of a
// group read the same elements of one operand, of that with fewer; 0 if it is no such sum.
double ColumnsOfGroup(const tc::Program& program, const tc::Statement& statement);

// How many products of these types (i8, u8, i16, bf16) a processor adds up while it does one of
// f32, at its peak; 1 for others. Instructions take two or four steps of a sum at once, and
// matrices.
double ProductsAtOnce(Isa isa, Dtype a, Dtype b);
// The same of a statement that is a sum of products; 1 for others.
double ProductsAtOnce(Isa isa, const tc::Program& program, const tc::Statement& statement);

// What part of a guarded sum's points lies inside its guard, as of a convolution's taps not in
// padding; 1 where extents are symbolic. Loops leave out the rest, but for lanes, which they mask.
double GuardedShare(const tc::Program& program, const tc::Statement& statement);

// Bytes written and read again of temporaries that are made for a contraction, or by one in another
// order than they are used in: no loop holds them while they live.
double StagedBytes(const tc::Program& program);

// Bytes of operands that statements read again which wait for more of the operand than a cache of
// so many bytes holds: as a norm's squares and results wait for its sums.
double PassedAgainBytes(const tc::Program& program, double cache_bytes);

// Elements that statements read one by one, since lanes along their results take them from places
// that do not lie side by side: at fractions of an index. Tensors lie as `layouts` says by name,
// others plain.
double GatheredReads(const tc::Program& program, const std::map<std::string, Layout>& layouts);

struct CallWork {
  double flops = 0, bytes = 0;
  double results = 0;         // elements
  double depth = 1;           // summands of one of them; 1 where it is no sum of products
  double unpadded = 1;        // part of a convolution's taps in no padding
  double math = 0;            // evaluations of functions, as above
  double columns = 0;         // of a group, as above
  double depth_of_group = 0;  // channels that one of the groups takes
  double alone = 0;           // functions of results that are computed one by one, see WorkOf
  double unfolded = 0;        // elements of windows that are copied before they are multiplied
  double folded = 0;          // elements of windows that a deconvolution adds up, or of its results
  Dtype factors[2] = {Dtype::kF32, Dtype::kF32};
};
// oneDNN convolves images that lie plain on both sides by way of matrices of windows, and what
// follows is then done by element, unless it is a ReLU or a sum; behind deconvolutions always.
CallWork WorkOf(const fallback::LibraryCall& call);

}  // namespace weft::partition
