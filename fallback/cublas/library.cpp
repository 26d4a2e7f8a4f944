#include "fallback/cublas/library.h"

#include "fallback/cuda_entries.h"

namespace weft::fallback::cublas {
namespace {

Result<Library> Open() {
  constexpr std::string_view kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  WEFT_TRY(CudaEntries entries, CudaEntries::Open("cuBLASLt", kFiles));
  Library l;
  entries.Find(l.version, "cublasLtGetVersion");
  entries.Find(l.status_string, "cublasLtGetStatusString");
  entries.Find(l.create, "cublasLtCreate");
  entries.Find(l.destroy, "cublasLtDestroy");
  entries.Find(l.new_desc, "cublasLtMatmulDescCreate");
  entries.Find(l.set_desc, "cublasLtMatmulDescSetAttribute");
  entries.Find(l.end_desc, "cublasLtMatmulDescDestroy");
  entries.Find(l.new_layout, "cublasLtMatrixLayoutCreate");
  entries.Find(l.set_layout, "cublasLtMatrixLayoutSetAttribute");
  entries.Find(l.end_layout, "cublasLtMatrixLayoutDestroy");
  entries.Find(l.new_preference, "cublasLtMatmulPreferenceCreate");
  entries.Find(l.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  entries.Find(l.end_preference, "cublasLtMatmulPreferenceDestroy");
  entries.Find(l.heuristics, "cublasLtMatmulAlgoGetHeuristic");
  entries.Find(l.matmul, "cublasLtMatmul");
  WEFT_TRY(entries.status());
  return l;
}

}  // namespace

Result<const Library*> Load() {
  WEFT_TRY(CheckShown("cuBLASLt", "WEFT_CUBLAS"));
  static const Result<Library> library = Open();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace weft::fallback::cublas
