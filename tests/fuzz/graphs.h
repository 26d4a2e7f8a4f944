// What the targets that read models ask of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/check.h"
#include "graph/graph.h"
#include "graph/onnx/import.h"

namespace weft::fuzz {

// A refusal has a reason that is the input's.
inline void CheckFair(const Status& status) {
  WEFT_CHECK(status.code() != Code::kInternal, "{}", status.ToString());
}

// And, since it is about a graph, a place.
inline void CheckPlaced(const Status& status) {
  CheckFair(status);
  WEFT_CHECK(status.ok() || !status.where().empty(), "no place: {}", status.ToString());
}

// It verifies, and what it prints reads back as itself.
inline void CheckSound(const graph::Graph& graph) {
  BlobStore blobs;
  const std::string text = Print(graph, blobs);
  const Status verified = Verify(graph);
  WEFT_CHECK(verified.ok(), "{}\n{}", verified.ToString(), text);
  const auto again = graph::ParseGraph(text, "printed", blobs);
  WEFT_CHECK(again.ok(), "{}\n{}", again.status().ToString(), text);
  WEFT_CHECK(Equal(graph, *again), "reads back different:\n{}\n{}", text, Print(*again, blobs));
}

// Small enough that a target does many a second.
inline std::optional<graph::Graph> Import(const uint8_t* data, size_t size) {
  const graph::ImportLimits limits{.max_nodes = 2000, .max_bytes = 1 << 20};
  auto graph = graph::ImportOnnx(std::as_bytes(std::span(data, size)), "fuzz", "", limits);
  CheckFair(graph.status());
  if (!graph.ok()) return std::nullopt;
  return *std::move(graph);
}

}  // namespace weft::fuzz
