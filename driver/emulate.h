// Comprehensions for CUDA without a device: each kernel by the interpreter of its nest, which finds
// races and accesses out of bounds, and by its CUDA C++ on the CPU, which must compute the same.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "codegen/cuda/emulate/emulate.h"
#include "driver/module.h"

namespace weft::driver {

class Emulation {
 public:
  // Of a module at Form::kLoops, own groups only. kMissing where no C++ compiler is.
  static Result<Emulation> Make(Module module);

  // An index that a gather finds out of range is an error that names the table.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

 private:
  Emulation(Module module, codegen::EmulatedKernels kernels)
      : module_(std::move(module)), kernels_(std::move(kernels)) {}

  Module module_;
  codegen::EmulatedKernels kernels_;  // one for each group, in order
};

}  // namespace weft::driver
