// Sequences have no shape of their own; of their tensors the element type is known, so that a
// tensor taken out of one has a type before the sequence is there.

#include "graph/infer/engine.h"

namespace weft::graph::infer {

Status IdentityRule(Context& c) {
  c.OutHeld(0, c.Held(0));
  return Unary(c);
}

Status SequenceConstructRule(Context& c) {
  c.OutHeld(0, c.Type(0));
  return {};
}

// Without the attribute ONNX means f32, but an empty sequence that a rewrite left has none either.
Status SequenceEmptyRule(Context& c) {
  const int64_t code = c.Int("dtype", 0);
  if (code > 0 && code < 1000) c.OutHeld(0, DtypeFromOnnx(static_cast<int32_t>(code)));
  return {};
}

Status SplitToSequenceRule(Context& c) {
  c.FactsIn(1);  // how long the parts are
  c.OutHeld(0, c.Type(0));
  return {};
}

Status SequenceInsertRule(Context& c) {
  c.FactsIn(2);  // where
  c.OutHeld(0, c.Type(1) ? c.Type(1) : c.Held(0));
  return {};
}

Status SequenceEraseRule(Context& c) {
  c.FactsIn(1);  // which
  c.OutHeld(0, c.Held(0));
  return {};
}

Status SequenceAtRule(Context& c) {
  c.FactsIn(1);  // which
  if (const auto held = c.Held(0)) c.OutType(0, *held);
  return {};
}

Status ConcatFromSequenceRule(Context& c) {
  if (const auto held = c.Held(0)) c.OutType(0, *held);
  return {};
}

Status SequenceLengthRule(Context& c) {
  c.Out(0, {});
  return {};
}

}  // namespace weft::graph::infer
