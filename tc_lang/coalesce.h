// Neighbouring axes walked as one.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/layout.h"
#include "tc_lang/program.h"

namespace weft::tc {

// Where every statement that touches two axes walks both together, whole and in order, they become
// one axis of their product, again and again: a 1x1 convolution over [h, w] is a product over h*w
// places, whose tiles do not end with each row; an elementwise chain is one loop. The program
// computes the same, in the same order, on the same memory: axes of an operand are joined only
// where the inner one follows the outer one in memory, by its entry in `layouts` (plain without),
// which is rewritten along. Tensors in `whole` keep their axes.
void Coalesce(Program& program, std::map<std::string, Layout>& layouts,
              std::span<const std::string> whole);

}  // namespace weft::tc
