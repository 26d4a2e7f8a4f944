#include "codegen/reference/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/tensor.h"
#include "base/text.h"
#include "codegen/reference/interpret.h"

namespace weft::codegen {
namespace {

constexpr int kPattern = 0xff;  // NaN in every floating type, and an index that is out of range

// The first element where two memories differ, but for the bits of NaNs; -1 if there is none.
int64_t FirstDifference(Dtype dtype, int64_t bytes, const void* a, const void* b) {
  if (bytes == 0 || std::memcmp(a, b, static_cast<size_t>(bytes)) == 0) return -1;
  const int64_t size = SizeBytes(dtype), elems = bytes / size;
  const Tensor x = Tensor::Borrow(dtype, {elems}, nullptr, a);
  const Tensor y = Tensor::Borrow(dtype, {elems}, nullptr, b);
  for (int64_t i = 0; i < elems; ++i) {
    const auto at = [&](const void* p) { return static_cast<const std::byte*>(p) + i * size; };
    if (std::memcmp(at(a), at(b), static_cast<size_t>(size)) == 0) continue;
    if (IsFloat(dtype) && std::isnan(ElemAsDouble(x, i)) && std::isnan(ElemAsDouble(y, i)))
      continue;
    return i;
  }
  return -1;
}

// Operands of a second run of a kernel: what it writes lies in memory of its own, between zones
// that nobody may write, and so does what it reads from memory that is less aligned than promised.
class OwnOutputs {
 public:
  // What is only written begins as the pattern, there and here.
  OwnOutputs(const loops::LoopNest& nest, std::span<void* const> operands,
             std::span<const int64_t> params) {
    for (const loops::BufferId id : loops::Operands(nest)) {
      const loops::Buffer& buffer = nest[id];
      void* given = operands[operands_.size()];
      const bool is_input = buffer.access == loops::Access::kIn;
      const int64_t promised = std::max<int64_t>(1, buffer.align_bytes);
      if (is_input && reinterpret_cast<uintptr_t>(given) % static_cast<size_t>(promised) == 0) {
        operands_.push_back(given);
        continue;
      }
      const int64_t bytes = loops::BufferBytes(buffer, {params.begin(), params.end()});
      auto& held = outputs_.emplace_back(Output{id, operands_.size(), bytes}).held;
      held.resize(static_cast<size_t>(bytes) + 3 * kZone, std::byte{kPattern});
      const auto address = reinterpret_cast<uintptr_t>(held.data());
      std::byte* own = held.data() + kZone + (kZone - address % kZone) % kZone;
      if (bytes > 0 && buffer.access != loops::Access::kOut)
        std::memcpy(own, given, static_cast<size_t>(bytes));
      if (bytes > 0 && buffer.access == loops::Access::kOut)
        std::memset(given, kPattern, static_cast<size_t>(bytes));
      operands_.push_back(own);
    }
  }

  std::span<void* const> operands() const { return operands_; }

  // Against the operands that another run wrote.
  Status Compare(const loops::LoopNest& nest, std::span<void* const> others) const {
    for (const Output& o : outputs_) {
      const loops::Buffer& buffer = nest[o.id];
      const auto* own = static_cast<const std::byte*>(operands_[o.place]);
      const int64_t at = FirstDifference(buffer.dtype, o.bytes, others[o.place], own);
      if (at >= 0)
        return Internal(fmt::format("the nest and what runs for it differ in element {} of {}", at,
                                    PrintName(buffer.name)));
      const auto intact = [](std::byte b) { return b == std::byte{kPattern}; };
      const std::byte *begin = o.held.data(), *end = begin + o.held.size();
      if (!std::all_of(begin, own, intact) || !std::all_of(own + o.bytes, end, intact))
        return Internal(
            fmt::format("what runs for the nest writes outside {}", PrintName(buffer.name)));
    }
    return {};
  }

 private:
  static constexpr size_t kZone = loops::kOperandAlign;
  struct Output {
    loops::BufferId id;
    size_t place;  // among the operands
    int64_t bytes;
    std::vector<std::byte> held;
  };
  std::vector<Output> outputs_;
  std::vector<void*> operands_;
};

}  // namespace

Status Agree(const loops::LoopNest& nest, std::span<void* const> operands,
             std::span<const int64_t> params, KernelFault* fault, const RunNest& other) {
  const OwnOutputs own(nest, operands, params);
  WEFT_TRY(Interpret(nest, operands, params, fault));
  KernelFault found{};
  WEFT_TRY(other(own.operands(), &found));
  const std::string where = "kernel " + PrintString(nest.name);
  if (found.code != fault->code || (found.code != 0 && found.operand != fault->operand))
    return Internal(fmt::format("fault {} of operand {} is reported, by the nest {} of {}",
                                found.code, found.operand, fault->code, fault->operand))
        .At(where);
  Status same = own.Compare(nest, operands);
  if (!same.ok()) return std::move(same).At(where);
  return {};
}

}  // namespace weft::codegen
