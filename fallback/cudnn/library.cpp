#include "fallback/cudnn/library.h"

#include "fallback/cuda_entries.h"

namespace weft::fallback::cudnn {
namespace {

Result<Library> Open() {
  constexpr std::string_view kFiles[] = {"libcudnn.so.9"};
  WEFT_TRY(CudaEntries entries, CudaEntries::Open("cuDNN", kFiles));
  Library l;
  entries.Find(l.version, "cudnnGetVersion");
  entries.Find(l.error_string, "cudnnGetErrorString");
  entries.Find(l.last_error, "cudnnGetLastErrorString");
  entries.Find(l.create, "cudnnCreate");
  entries.Find(l.destroy, "cudnnDestroy");
  entries.Find(l.set_stream, "cudnnSetStream");
  entries.Find(l.new_descriptor, "cudnnBackendCreateDescriptor");
  entries.Find(l.end_descriptor, "cudnnBackendDestroyDescriptor");
  entries.Find(l.set, "cudnnBackendSetAttribute");
  entries.Find(l.get, "cudnnBackendGetAttribute");
  entries.Find(l.finalize, "cudnnBackendFinalize");
  entries.Find(l.execute, "cudnnBackendExecute");
  WEFT_TRY(entries.status());
  return l;
}

}  // namespace

Result<const Library*> Load() {
  WEFT_TRY(CheckShown("cuDNN", "WEFT_CUDNN"));
  static const Result<Library> library = Open();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace weft::fallback::cudnn
