// Calls of cuDNN, each a graph of operations.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/target.h"
#include "fallback/cudnn/graph.h"
#include "fallback/device.h"

namespace weft::fallback::cudnn {

Result<std::unique_ptr<DeviceCall>> Prepare(const LibraryCall& call, const void* context);
Status CheckWithoutDevice(const LibraryCall& call, Isa isa);

// "cudnn 9.19.0"; empty if it can't be loaded.
std::string Version();

// By operation; kUnsupported for a call that the library's matcher would refuse.
Result<CallGraph> ConvolutionGraph(const Library& library, const LibraryCall& call);
Result<CallGraph> PoolingGraph(const Library& library, const LibraryCall& call);

}  // namespace weft::fallback::cudnn
