// From a call to a primitive of the library.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <string_view>
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
  bool widens = false;        // a zero point: a byte, of which the primitive wants 32 bits
  bool shifts = false;        // unsigned weights, which the primitive wants less 128
};

// What the primitive reads of the call itself: zero points, factors.
struct Extra {
  int arg = 0;
  dnnl::memory::desc desc;
  Tensor value;
};

struct Built {
  dnnl::primitive_desc_base desc;
  dnnl::primitive primitive;   // of what was chosen only: its code takes time to make
  std::string implementation;  // "jit:avx2"; "ref:any" is loops that nobody has made fast
  dnnl::memory::desc scratchpad;
  std::vector<Slot> inputs, outputs;  // in the order of the call
  std::vector<Extra> extras;
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
  bool Takes(const CallOperand& operand) const;
  bool OfBytes() const;
  Status ZeroPoints(dnnl::primitive_attr& attr);
  Status AppendFactors(dnnl::post_ops& post_ops);
  template <typename Desc>
  void SkipInexact(Desc& desc) const;
  Status Convolution();
  Status Deconvolution();
  Status Matmul();
  Result<bool> InnerProduct(const dnnl::memory::desc& src, const dnnl::memory::desc& dst);
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
  Status Finish(const Desc& desc);
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

// Whether a kernel sums products of bytes exactly, by its name. Those for AVX2 and AVX-512 without
// VNNI add pairs of products in 16 bits and saturate, wherever they run. `wide`: sums may be larger
// than f32 holds exactly, and so zero points have to come off before they are f32.
bool SumsExactly(std::string_view implementation, bool wide);

// The library's word for an elementwise kind, with parameters that the kind implies.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha, beta;
};
Result<Eltwise> EltwiseOf(const std::string& kind, float alpha, float beta);
Result<dnnl::algorithm> BinaryOf(const std::string& kind);

}  // namespace weft::fallback::onednn
