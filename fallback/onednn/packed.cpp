#include "fallback/onednn/packed.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::fallback::onednn {
namespace {

using dnnl::memory;

struct Entry {
  Tensor given;  // kept, so that its address stays its name
  memory::desc from, to;
  bool shifts = false;
  Tensor packed;

  bool Is(const Tensor& tensor, const Slot& slot) const {
    return given.data() == tensor.data() && from == slot.given && to == slot.packed &&
           shifts == slot.shifts;
  }
};

class Entries {
 public:
  std::shared_ptr<const Entry> Find(const Tensor& given, const Slot& slot) {
    const std::scoped_lock lock(mutex_);
    for (const std::weak_ptr<const Entry>& weak : entries_)
      if (auto entry = weak.lock(); entry && entry->Is(given, slot)) return entry;
    return nullptr;
  }

  void Add(const std::shared_ptr<const Entry>& entry) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [](const auto& weak) { return weak.expired(); });
    entries_.push_back(entry);
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const Entry>> entries_;
};

Entries& Known() {
  static Entries* const entries = new Entries;  // for calls that live until the process ends
  return *entries;
}

Tensor Less128(const Tensor& bytes) {
  Tensor less(Dtype::kI8, bytes.shape());
  const auto* const from = bytes.as<uint8_t>();
  auto* const to = less.mutable_as<int8_t>();
  for (int64_t i = 0; i < less.elems(); ++i) to[i] = static_cast<int8_t>(from[i] - 128);
  return less;
}

}  // namespace

Result<Tensor> Packed(const Tensor& given, const Slot& slot) {
  if (!slot.shifts && slot.given == slot.packed) return given;
  std::shared_ptr<const Entry> entry = Known().Find(given, slot);
  if (!entry) {
    auto made = std::make_shared<Entry>(
        Entry{.given = given, .from = slot.given, .to = slot.packed, .shifts = slot.shifts});
    made->packed = slot.shifts ? Less128(given) : given;
    if (slot.given != slot.packed) {
      WEFT_TRY(Tensor packed,
               Tensor::Allocate(Dtype::kU8, {static_cast<int64_t>(slot.packed.get_size())}));
      dnnl::stream stream(Engine());
      memory from(slot.given, Engine(), const_cast<void*>(made->packed.data()));
      memory to(slot.packed, Engine(), packed.mutable_data());
      dnnl::reorder(from, to).execute(stream, from, to);
      stream.wait();
      made->packed = std::move(packed);
    }
    entry = std::move(made);
    Known().Add(entry);
  }
  return Tensor::Borrow(entry->packed.dtype(), entry->packed.shape(), entry, entry->packed.data());
}

}  // namespace weft::fallback::onednn
