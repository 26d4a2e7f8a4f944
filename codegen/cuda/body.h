// Statements of a nest as CUDA C++.
#pragma once

#include <string>

#include "codegen/cuda/helpers.h"
#include "codegen/cuda/launch.h"
#include "codegen/cuda/names.h"
#include "codegen/cuda/places.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen::cuda {

// Indented by two; ends with a line break unless it is empty.
std::string BodyText(const loops::LoopNest& nest, const Names& names, const Places& places,
                     const Launch& launch, Helpers& helpers);

}  // namespace weft::codegen::cuda
