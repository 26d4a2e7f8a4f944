#include <fmt/format.h>

#include "graph/infer/engine.h"

namespace weft::graph::infer {

// RNN, GRU, LSTM: X [length, batch, size] (layout 1: batch first), W [directions, gates * hidden,
// size].
Status RecurrentRule(Context& c) {
  WEFT_TRY(c.Rank(0, 3));
  WEFT_TRY(c.Rank(1, 3));
  WEFT_TRY(c.Rank(2, 3));
  const Extents* x = c.In(0);
  const Extents* w = c.In(1);
  const Extents* r = c.In(2);
  const std::string direction = StringAttr(c.node, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return Invalid("attribute \"direction\" is none of forward, reverse, bidirectional");
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const int64_t gates = c.node.op == Op::kLSTM ? 4 : c.node.op == Op::kGRU ? 3 : 1;
  if (!x) return {};
  Extent hidden = c.Int("hidden_size", 0);
  if (r) {
    WEFT_TRY(c.Same((*r)[0], directions, "the directions of R"));
    if (hidden == Extent(0)) hidden = (*r)[2];
    WEFT_TRY(c.Same((*r)[2], hidden, "the hidden size and R"));
  }
  if (hidden.IsConstant() && (hidden.value() < 1 || hidden.value() > INT32_MAX)) {
    return Invalid(fmt::format("the hidden size is {}, expected 1 or more", hidden.value()));
  }
  const Extent stacked =
      hidden.IsConstant() ? Extent(hidden.value() * gates) : Extent(c.Fresh("gates"));
  if (r && hidden.IsConstant()) WEFT_TRY(c.Same((*r)[1], stacked, "the gates of R"));
  if (w) {
    WEFT_TRY(c.Same((*w)[0], directions, "the directions of W"));
    WEFT_TRY(c.Same((*w)[2], (*x)[2], "the input size of W and X"));
    if (hidden.IsConstant()) WEFT_TRY(c.Same((*w)[1], stacked, "the gates of W"));
  }
  const bool batch_first = c.Int("layout", 0) != 0;
  const Extent length = (*x)[batch_first ? 1 : 0], batch = (*x)[batch_first ? 0 : 1];
  if (batch_first) {
    c.Out(0, {batch, length, directions, hidden});
  } else {
    c.Out(0, {length, directions, batch, hidden});
  }
  const Extents state =
      batch_first ? Extents{batch, directions, hidden} : Extents{directions, batch, hidden};
  c.Out(1, state);
  c.Out(2, state);
  return {};
}

}  // namespace weft::graph::infer
