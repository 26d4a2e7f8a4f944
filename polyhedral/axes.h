// Axes of a cluster: which indices of its statements are one loop.
//
// A cluster's axes bear the names of its anchor's indices. Data flow aligns others with them: where
// one statement writes y(n, k) and another reads y(n, j), index k of the first and j of the second
// run along the same axis; statements that read the same place of the same tensor align likewise,
// if nothing else does. What stays unaligned is an axis of its own, "statement.index" where the
// plain name is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "polyhedral/choice/choice.h"
#include "tc_lang/program.h"

namespace weft::polyhedral {

// For each statement given, the axis of each of its indices.
std::vector<std::vector<std::string>> ClusterAxes(const tc::Program& program,
                                                  const std::vector<int32_t>& statements);
// The first contraction or convolution, else the last statement: a place in `statements`.
size_t AnchorOf(const tc::Program& program, const std::vector<int32_t>& statements);
// Axes that every statement has as an index it does not reduce, in the anchor's order.
std::vector<std::string> SharedAxes(const tc::Program& program,
                                    const std::vector<int32_t>& statements,
                                    const std::vector<std::vector<std::string>>& axes);
// Whether a statement reads this input at places that it loads.
bool LooksUp(const tc::Program& program, const tc::Statement& s, tc::TensorId table);
// Whether a statement writes an operand whose elements share bytes, which one rank has to do alone.
bool WritesSharedBytes(const tc::Program& program, const tc::Statement& s);

}  // namespace weft::polyhedral
