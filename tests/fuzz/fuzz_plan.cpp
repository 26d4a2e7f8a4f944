// Plans from strangers. The first byte says what the rest is: a plan file, or the text of one with
// a few blobs that it may name. Whatever parses and verifies must print as a text that reads back
// the same, and a file must come back byte for byte.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "plan/file.h"
#include "plan/plan.h"

namespace weft::plan {
namespace {

void CheckRoundTrip(const Plan& plan) {
  const auto again = ParsePlan(Print(plan), "again", plan.blobs);
  WEFT_CHECK(again.ok(), "{}\n{}", again.status().ToString(), Print(plan));
  WEFT_CHECK(Equal(plan, *again), "{}\n{}", Print(plan), Print(*again));
}

void ReadText(std::string_view text) {
  BlobStore blobs;
  blobs.Put(TextBlob("loops k (x: in f32[4], y: out f32[4]) {\n}\n"));
  blobs.Put(Tensor(Dtype::kF32, {4}));
  auto plan = ParsePlan(text, "fuzz", blobs);
  if (plan.ok() && Verify(*plan).ok()) CheckRoundTrip(*plan);
}

void ReadFile(std::span<const std::byte> bytes) {
  auto plan = ReadPlan(bytes, "fuzz");
  if (!plan.ok()) return;
  CheckRoundTrip(*plan);
  WEFT_CHECK(SerializePlan(*plan).ok(), "a plan that was read can't be written");
}

}  // namespace
}  // namespace weft::plan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == 'f')
    weft::plan::ReadFile(std::as_bytes(std::span(data + 1, size - 1)));
  else
    weft::plan::ReadText({reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
