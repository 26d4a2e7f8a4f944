// A comprehension of the user's own on its way through the pipeline: a network of nothing else.
#pragma once

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "tc_lang/program.h"

namespace weft::driver {

// A module at Form::kTc with a node for each part that can be a kernel of its own (tc::Parts),
// named as the tensor that the part ends with. All sizes are known.
Result<Module> OpenProgram(const tc::Program& program, const Target& target);

// One specialization, with inputs and outputs in the program's order and under its names. Programs
// that differ in names alone share what the cache holds; forced choices and dumps, which name
// statements, are of the program as it is. Machine code goes into the cache, if there is one.
Result<plan::Plan> CompileProgram(const tc::Program& program, const BuildOptions& options);

}  // namespace weft::driver
