// Element types, from the schemas' type variables, and the checks that every operator shares.
#pragma once

#include "graph/infer/engine.h"
#include "graph/schema.h"

namespace weft::graph::infer {

// The inputs have types that the operator takes, and equal ones where it wants them equal.
Status CheckTypes(Context& context, const Schema& schema);
// Outputs that the rule left open get the type of their variable.
Status SetTypes(Context& context, const Schema& schema);
// No static output has more bytes than 63 bits can count.
Status CheckSizes(Context& context);

}  // namespace weft::graph::infer
