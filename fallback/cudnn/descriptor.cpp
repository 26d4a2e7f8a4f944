#include "fallback/cudnn/descriptor.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::fallback::cudnn {

Status Check(const Library& library, int code, const char* what) {
  if (code == kOk) return {};
  char said[1024] = {};
  library.last_error(said, sizeof said);
  constexpr int kNotSupported = 3000,
                kOfOneKind = 1000;  // CUDNN_STATUS_NOT_SUPPORTED and its kinds
  std::string text = fmt::format("cuDNN: {}: {}", what, library.error_string(code));
  if (said[0]) text += fmt::format(" ({})", said);
  const bool unsupported = code >= kNotSupported && code < kNotSupported + kOfOneKind;
  return unsupported ? Unsupported(std::move(text)) : Internal(std::move(text));
}

Result<Descriptor> Descriptor::New(const Library& library, Kind kind) {
  Handle handle = nullptr;
  WEFT_TRY(Check(library, library.new_descriptor(kind, &handle), "a descriptor"));
  return Descriptor(library, handle);
}

Status Descriptor::Set(Name name, Type type, int64_t count, const void* values) {
  return Check(*library_, library_->set(get(), name, type, count, values), "a descriptor");
}

Status Descriptor::SetInts(Name name, std::span<const int64_t> values) {
  return Set(name, kTypeInt64, static_cast<int64_t>(values.size()), values.data());
}

Status Descriptor::SetDescriptor(Name name, const Descriptor& other) {
  return SetDescriptors(name, std::span(&other, 1));
}

Status Descriptor::SetDescriptors(Name name, std::span<const Descriptor> others) {
  std::vector<Handle> handles;
  for (const Descriptor& other : others) handles.push_back(other.get());
  return SetHandles(name, kTypeDescriptor, handles);
}

Status Descriptor::Finalize() {
  return Check(*library_, library_->finalize(get()), "a descriptor");
}

Result<int64_t> Descriptor::Count(Name name, Type type) const {
  int64_t count = 0;
  WEFT_TRY(Check(*library_, library_->get(get(), name, type, 0, &count, nullptr), "a descriptor"));
  return count;
}

Result<int64_t> Descriptor::Get(Name name, Type type, int64_t most, void* values) const {
  int64_t count = 0;
  WEFT_TRY(
      Check(*library_, library_->get(get(), name, type, most, &count, values), "a descriptor"));
  return std::min(count, most);
}

Result<int64_t> Descriptor::GetDescriptors(Name name, std::span<const Descriptor> others) const {
  std::vector<Handle> handles;
  for (const Descriptor& other : others) handles.push_back(other.get());
  return Get(name, kTypeDescriptor, std::ssize(handles), static_cast<void*>(handles.data()));
}

}  // namespace weft::fallback::cudnn
