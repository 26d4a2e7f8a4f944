// Between weft's layouts and the library's memory descriptors.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "base/layout.h"
#include "base/tensor.h"
#include "fallback/call.h"

namespace weft::fallback::onednn {

// An operand as the library is told of it: strides for each axis, or a blocked format. Blocked
// operands keep their axes; only strided ones can be transposed, grouped or flattened.
struct View {
  dnnl::memory::dims dims, strides;
  std::optional<dnnl::memory::format_tag> tag;
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;

  dnnl::memory::desc Desc() const;
  // Let the library choose.
  dnnl::memory::desc Any() const { return {dims, type, dnnl::memory::format_tag::any}; }
};

// kUnsupported for layouts that the library can't be told of.
Result<View> ViewOf(const CallOperand& operand);
// The layout of a tensor of this shape, if weft can write it down.
std::optional<Layout> LayoutOf(const dnnl::memory::desc& desc);

// Whether elements lie at the same places, whatever the strides of axes of one element.
bool SamePlaces(const dnnl::memory::desc& a, const dnnl::memory::desc& b);

void Swap(View& view, size_t a, size_t b);
void AlignRight(View& view, size_t rank);    // ones in front
void SplitFirst(View& view, int64_t parts);  // [p * n, …] -> [p, n, …]
void MergeFirst(View& view, size_t count);   // [a, b, c, …] -> [a * b, c, …], of a plain one

}  // namespace weft::fallback::onednn
