// From a call to a primitive of the library.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <vector>

#include "fallback/call.h"
#include "fallback/onednn/views.h"

namespace weft::fallback::onednn {

// An operand of the primitive.
struct Slot {
  int arg = 0;                // DNNL_ARG_*
  dnnl::memory::desc given;   // as the caller has it
  dnnl::memory::desc packed;  // as it is made of that: constants once, others in each run
  dnnl::memory::desc wanted;  // as the primitive is told of what is packed
  Layout layout;              // to tell the caller
};

struct Built {
  dnnl::primitive primitive;
  std::string implementation;  // "jit:avx2"; "ref:any" is loops that nobody has made fast
  dnnl::memory::desc scratchpad;
  std::vector<Slot> inputs, outputs;  // in the order of the call
};

const dnnl::engine& Engine();

// With the layouts that the call asks for. Throws dnnl::error where the library refuses.
Result<Built> Build(const LibraryCall& call);
// With reorders around it where those layouts have no fast implementation.
Result<Built> Choose(const LibraryCall& call);

// Collects the views of a call and makes a Built of them.
class Builder {
 public:
  explicit Builder(const LibraryCall& call) : call_(call), inputs_(call.inputs.size()) {}
  Result<Built> Run();

 private:
  Status Views();
  Status CheckShapes() const;
  Dtype TypeOfAll() const;
  Status Convolution();
  Status Deconvolution();
  Status Matmul();
  bool InnerProduct(const dnnl::memory::desc& src, const dnnl::memory::desc& dst);
  Status Pooling();
  Status Softmax();
  Status LayerNorm();
  Status Reorder();
  Status Eltwise();
  Status Binary();

  size_t Index(std::string_view role) const;  // of an input, or npos
  bool Has(std::string_view role) const { return Index(role) < inputs_.size(); }
  View& In(std::string_view role) { return inputs_[Index(role)]; }
  // With the right to choose where the call leaves it to the library.
  dnnl::memory::desc Activation(std::string_view role);
  dnnl::memory::desc Weights();
  void AlignPostOperands(size_t rank);
  Status Attributes(dnnl::primitive_attr& attr);
  template <typename Desc>
  void Finish(const Desc& desc);
  dnnl::memory::dims Ints(std::string_view name) const { return IntsAttr(call_, name); }
  dnnl::memory::dims Pads(bool ends) const;
  dnnl::memory::dims Dilations() const;  // 0 is dense
  bool WindowIsSane(size_t spatial) const;

  const LibraryCall& call_;
  std::vector<View> inputs_;
  View output_;
  dnnl::primitive_attr attr_;
  Built built_;
};

// The library's word for an elementwise kind, with parameters that the kind implies.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha, beta;
};
Result<Eltwise> EltwiseOf(const std::string& kind, float alpha, float beta);
Result<dnnl::algorithm> BinaryOf(const std::string& kind);

}  // namespace weft::fallback::onednn
