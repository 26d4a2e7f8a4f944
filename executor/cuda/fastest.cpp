#include "executor/cuda/fastest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "fallback/execute.h"

namespace weft::executor::cuda {
namespace {

int64_t BytesOf(const fallback::CallOperand& operand) {
  return AllocElems(operand.layout, operand.shape) * SizeBytes(operand.dtype);
}

// Operands and scratch of a call, of any contents.
struct Operands {
  std::vector<Memory> memory;
  std::vector<Address> inputs, outputs;
  Address scratch = 0;
};

Result<Operands> Allocate(const Device& device, const fallback::LibraryCall& call,
                          const fallback::DeviceCall& ways) {
  Operands o;
  const auto take = [&](int64_t bytes) -> Result<Address> {
    WEFT_TRY(Memory memory, device.Allocate(bytes, "trying a library's call"));
    o.memory.push_back(memory);
    return memory.at();
  };
  for (const fallback::CallOperand& operand : call.inputs) {
    WEFT_TRY(o.inputs.emplace_back(), take(BytesOf(operand)));
  }
  for (const fallback::CallOperand& operand : call.outputs) {
    WEFT_TRY(o.outputs.emplace_back(), take(BytesOf(operand)));
  }
  int64_t scratch = 0;
  for (size_t way = 0; way < ways.Ways(); ++way)
    scratch = std::max(scratch, ways.ScratchBytes(way));
  WEFT_TRY(o.scratch, take(scratch));
  return o;
}

Result<size_t> Measure(const std::shared_ptr<const Device>& device,
                       const fallback::LibraryCall& call, fallback::DeviceCall& ways) {
  constexpr int kRuns = 5;  // behind one that warms up
  WEFT_TRY(const Operands o, Allocate(*device, call, ways));
  WEFT_TRY(const Owned stream, device->NewStream());
  WEFT_TRY(const Owned begin, device->NewEvent(/*timed=*/true));
  WEFT_TRY(const Owned end, device->NewEvent(/*timed=*/true));
  const auto run = [&](size_t way) {
    return ways.Enqueue(way, o.inputs, o.outputs, o.scratch, stream.get());
  };
  const auto time = [&](size_t way) -> Result<float> {
    WEFT_TRY(run(way));
    WEFT_TRY(device->Check(device->driver().record(begin.get(), stream.get()), "timing"));
    for (int i = 0; i < kRuns; ++i) WEFT_TRY(run(way));
    WEFT_TRY(device->Check(device->driver().record(end.get(), stream.get()), "timing"));
    WEFT_TRY(device->Check(device->driver().wait_for_stream(stream.get()), "trying a call"));
    float ms = 0;
    WEFT_TRY(device->Check(device->driver().elapsed_ms(&ms, begin.get(), end.get()), "timing"));
    return ms;
  };
  size_t fastest = 0;
  float least = std::numeric_limits<float>::infinity();
  Status why_not;
  for (size_t way = 0; way < ways.Ways(); ++way) {
    const auto ms = time(way);
    if (!ms.ok()) why_not = ms.status();
    if (!ms.ok() || *ms >= least) continue;
    least = *ms;
    fastest = way;
  }
  if (least == std::numeric_limits<float>::infinity()) return why_not;
  return fastest;
}

// The text of the cache's entry: an index alone would be another way where a library lists others.
std::string Spell(const fallback::DeviceCall& ways, size_t way) {
  return fmt::format("{} {}", way, ways.Name(way));
}

}  // namespace

Result<size_t> FastestWay(const std::shared_ptr<const Device>& device,
                          const fallback::LibraryCall& call, fallback::DeviceCall& ways,
                          const FileCache* cache) {
  constexpr std::string_view kWay = "way";
  if (ways.Ways() == 1) return size_t{0};
  const std::string key = Hasher()
                              .Add(device->identity())
                              .Add(fallback::LibraryVersion(call.library))
                              .Add(fallback::CanonicalText(call))
                              .Finish()
                              .Hex();
  if (cache)
    if (const auto kept = cache->Get(kWay, key))
      for (size_t way = 0; way < ways.Ways(); ++way)
        if (std::ranges::equal(Spell(ways, way), *kept)) return way;
  WEFT_TRY(const size_t fastest, Measure(device, call, ways));
  if (cache) cache->Put(kWay, key, Spell(ways, fastest));
  return fastest;
}

}  // namespace weft::executor::cuda
