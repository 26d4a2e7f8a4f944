// ONNX file -> Graph. The only place that knows protobuf.
//
// A wire walk checks lengths, nesting depth, field types and UTF-8 before protobuf sees a byte, so
// that an error has its byte offset and nothing is allocated that the file has not paid for.
// External data is mapped from regular files inside the model's folder only. Function bodies (of
// the model and of ONNX) are expanded, with a bound on the number of nodes and on their size.
// Opsets 1 to 28 are taken; operators come out in the newest form. What can't be imported at all is
// an error; a node whose operator nobody here knows is kept as Op::kUnknown, so that `weft check`
// can list all of them at once.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

struct ImportLimits {
  int64_t max_nodes = 1'000'000;          // after functions are expanded
  size_t max_expanded = size_t{1} << 30;  // bytes that the calls of functions make of their bodies
  int64_t max_dense = int64_t{1} << 30;   // bytes of all sparse tensors, with their zeros
  int64_t max_bytes = int64_t{1} << 36;
  int32_t max_depth = 32;  // of subgraphs, types and functions
};

// Shapes are not inferred yet, but declared input types and constants are in place.
Result<Graph> ImportOnnx(const std::string& path, const ImportLimits& limits = {});
// From memory; external data is looked for in `folder` (empty: refused).
Result<Graph> ImportOnnx(std::span<const std::byte> bytes, const std::string& name,
                         const std::string& folder, const ImportLimits& limits = {});

// The opset of each domain that a model imports; ai.onnx is "".
Result<std::map<std::string, int64_t>> OnnxOpsets(std::span<const std::byte> bytes,
                                                  const ImportLimits& limits = {});

}  // namespace weft::graph
