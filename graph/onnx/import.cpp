#include "graph/onnx/import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "graph/onnx/builder.h"
#include "graph/onnx/wire.h"

namespace weft::graph {
namespace {

// A subgraph is three messages deep (graph, node, attribute); types and tensors add a few.
int32_t MessageDepth(const ImportLimits& limits) { return 3 * limits.max_depth + 16; }

Result<Tensor> ReadModel(const std::string& path, const ImportLimits& limits) {
  const auto failed = [&](std::string_view why) {
    return Invalid(fmt::format("can't read {}: {}", PrintString(path), why));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return failed(std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd,
                                                                [](const int* f) { close(*f); });
  struct stat info{};
  if (fstat(fd, &info) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return failed("it is not a regular file");
  if (info.st_size > limits.max_bytes) {
    return Limit(fmt::format("{} has {} bytes, the limit is {}", PrintString(path), info.st_size,
                             limits.max_bytes));
  }
  Result<Tensor> bytes = ReadBytes(fd);
  if (bytes.ok()) return bytes;
  return std::move(bytes.status()).Because(fmt::format("can't read {}", PrintString(path)));
}

Status ParseModel(std::span<const std::byte> bytes, const ImportLimits& limits,
                  onnx::ModelProto& model) {
  if (bytes.empty()) return Invalid("the file is empty");
  if (static_cast<int64_t>(bytes.size()) > std::min<int64_t>(limits.max_bytes, INT32_MAX)) {
    return Limit(fmt::format("the model has {} bytes, the limit is {}", bytes.size(),
                             std::min<int64_t>(limits.max_bytes, INT32_MAX)))
        .Try("store its tensors as external data");
  }
  WEFT_TRY(CheckWire(bytes, *onnx::ModelProto::descriptor(), {.max_depth = MessageDepth(limits)}));
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(MessageDepth(limits) + 8);
  if (!model.ParseFromCodedStream(&stream)) return Invalid("the file is not an ONNX model");
  return {};
}

Result<Graph> Import(std::span<const std::byte> bytes, const std::string& name,
                     const std::string& folder, const ImportLimits& limits) {
  onnx::ModelProto model;
  WEFT_TRY(ParseModel(bytes, limits, model));
  WEFT_TRY(auto graph, Builder(model, folder, limits).Build());
  if (graph.name.empty()) graph.name = name;
  WEFT_TRY(Verify(graph));
  return graph;
}

}  // namespace

Result<Graph> ImportOnnx(const std::string& path, const ImportLimits& limits) {
  try {
    WEFT_TRY(const Tensor bytes, ReadModel(path, limits));
    const std::filesystem::path file(path);
    const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
    auto graph = Import(bytes.raw(), file.stem().string(), folder, limits);
    if (!graph.ok())
      return std::move(graph.status()).Because(fmt::format("in {}", PrintString(path)));
    return graph;
  } catch (const std::bad_alloc&) {
    return Limit(fmt::format("out of memory while reading {}", PrintString(path)));
  } catch (const std::exception& error) {
    return Invalid(fmt::format("can't import {}: {}", PrintString(path), error.what()));
  }
}

Result<Graph> ImportOnnx(std::span<const std::byte> bytes, const std::string& name,
                         const std::string& folder, const ImportLimits& limits) {
  try {
    return Import(bytes, name, folder, limits);
  } catch (const std::bad_alloc&) {
    return Limit("out of memory while reading the model");
  } catch (const std::exception& error) {
    return Invalid(fmt::format("can't import the model: {}", error.what()));
  }
}

Result<std::map<std::string, int64_t>> OnnxOpsets(std::span<const std::byte> bytes,
                                                  const ImportLimits& limits) {
  onnx::ModelProto model;
  WEFT_TRY(ParseModel(bytes, limits, model));
  return OpsetsOf(model.opset_import());
}

}  // namespace weft::graph
