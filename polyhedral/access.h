// How statements touch tensors, by kind: what partition asks before anything is scheduled. Free of
// isl.
//
// Accesses of networks are few in form. Each subscript of a read or write is one of
//
//   index     i                         slice    2*i + 3: one index, shifted or strided
//   constant  0                         window   i + r - 1: several indices that overlap
//   split     i / 8, i % 8              merge    8*i + j, j < 8: several indices that tile the axis
//   opaque    loaded, or none of these
//
// and the access as a whole has the kind of its most demanding subscript; accesses by plain indices
// alone are a projection (indices in order), a permutation (out of order), or a broadcast (some
// index of the statement that is not reduced does not occur: the same element serves many
// instances).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "tc_lang/program.h"

namespace weft::polyhedral {

enum class SubscriptKind : uint8_t { kConstant, kIndex, kSlice, kMerge, kSplit, kWindow, kOpaque };
enum class AccessKind : uint8_t {
  kProjection,
  kPermutation,
  kBroadcast,
  kSlice,
  kMerge,
  kSplit,
  kWindow,
  kOpaque
};

struct Subscript {
  SubscriptKind kind = SubscriptKind::kOpaque;
  Affine e;                      // over the statement's indices; 0 where opaque
  std::vector<int32_t> indices;  // those that occur, ascending
  Interval range;                // of the values, where known
};

struct AccessClass {
  AccessKind kind = AccessKind::kOpaque;
  std::vector<Subscript> subscripts;  // one per axis of the tensor
};

AccessClass Classify(const tc::Program& program, const tc::Statement& statement,
                     const std::vector<tc::ExprId>& subscripts);
std::string_view AccessKindName(AccessKind kind);  // "window"

// The elements that instances of consecutive values of one index share: how often an element of
// this axis is read when all of `statement`'s indices run, 1 for disjoint windows, 9 for a 3x3
// convolution's pixel.
double WindowRedundancy(const AccessClass& access, const tc::Statement& statement);

// How much a value computes of each element: operations, a polynomial as many of them.
int64_t Computed(const tc::Program& program, tc::ExprId value);

// Whether the windows that a statement reduces move along this subscript, and overlap.
bool SlidesAlong(const tc::Statement& statement, const Subscript& subscript);

// In how many consecutive values of an index a read stays at one element: 8 in x(k / 8, c), 1 where
// each has its own; 0 if no subscript that is affine uses the index.
int64_t StepsToMove(const tc::Program& program, tc::ExprId read, int32_t index);

}  // namespace weft::polyhedral
