// Values that two statements compute, computed once.
#pragma once

#include "tc_lang/program.h"

namespace weft::tc {

// Where a statement sums up a function that costs many operations (an `exp`, say) along an index,
// and a later one computes the same for the same elements, both read it from a temporary: of
// `s(n) +=! exp(x(n, k)) y(n, k) = exp(x(n, k)) / s(n)` the exponentials become
// `e(n, k) = exp(x(n, k))`. The program computes the same bits. What one sum takes, a row of the
// temporary, has at most `row_bytes`, so that it can stay in a cache until the later statement.
Program WithSharedValues(const Program& program, int64_t row_bytes);

}  // namespace weft::tc
