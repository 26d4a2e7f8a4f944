// Which outputs of a contraction stay in registers: lanes along one index, rows along another, and
// how many of either.
#pragma once

#include <optional>

#include "polyhedral/propose/operands.h"
#include "polyhedral/propose/tile_model.h"

namespace weft::polyhedral {

// Long sums of many rows are cut into blocks of about so many steps.
inline constexpr int64_t kSumBlock = 384;

struct RegisterTile {
  int32_t lane = -1, row = -1;  // indices; no row: -1
  TileShape shape;
  double cycles = 0;    // of the whole statement, for an element of its result
  bool copies = false;  // the lanes' operand
  bool matrix = false;  // a block of tiles of a processor that multiplies matrices
  // Instructions take several steps of this reduced index at once; -1: one.
  int32_t dot = -1;
  int64_t dot_steps = 1;
  int64_t packed_steps = 1;  // that lie side by side where an operand is packed
  double far = 0;            // cycles, as above, of waiting for the second cache
};

// By cycles: the best first, then the best of each other kind (what lanes and rows run along, how
// lanes are loaded), then all others. Only tiles of one kind are told apart by how they wait. The
// `rank`-th of them, or the last; none if no index has lanes that can be loaded.
std::optional<RegisterTile> ChooseRegisterTile(const Operands& operands, int rank);

// Those whose best tile the model takes for about as fast as the best of all.
Kinds NearKinds(const Operands& operands);

// Of the lines of results that so many lanes begin where rows lie side by side, those that push
// each other out of the nearest cache before the rows behind a tile's fill them: each is fetched
// and written back for every part. None where a tile's rows fill them.
int64_t LinesLost(const Operands& operands, int32_t lane, int32_t row, int64_t rows, int64_t lanes);

// No operand stays where it is along the lanes, so that nothing is loaded for several of them: but
// neighbouring taps of neighbouring places are the same element, and stay in registers if all are
// written out.
bool UnrollsTaps(const Operands& operands, int32_t lane);

// Where a sum goes over the taps of a window alone, and lanes lie along it: the reduced index whose
// taps read in one row of the tile what others read in the rows beside it. With both written out, a
// row is loaded once for all of its taps. -1: none.
int32_t TapAcrossRows(const Operands& operands, int32_t lane, int32_t row);

}  // namespace weft::polyhedral
