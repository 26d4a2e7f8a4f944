#include "fallback/onednn/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft::fallback::onednn {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;

// Channels in blocks of 8 or 16, everything else in order: the only blocked formats for
// activations.
std::optional<Tag> BlockedTag(const Layout& layout) {
  constexpr struct {
    const char* layout;
    Tag tag;
  } kTags[] = {{"aBc8b", Tag::aBc8b},   {"aBcd8b", Tag::aBcd8b},   {"aBcde8b", Tag::aBcde8b},
               {"aBc16b", Tag::aBc16b}, {"aBcd16b", Tag::aBcd16b}, {"aBcde16b", Tag::aBcde16b}};
  const std::string text = Print(layout);
  for (const auto& entry : kTags) {
    if (text == entry.layout) return entry.tag;
  }
  return std::nullopt;
}

memory::data_type TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16:
      return memory::data_type::bf16;
    case Dtype::kU8:
      return memory::data_type::u8;
    case Dtype::kI8:
      return memory::data_type::s8;
    case Dtype::kI32:
      return memory::data_type::s32;
    default:
      return memory::data_type::f32;
  }
}

}  // namespace

memory::desc View::Desc() const {
  if (tag) return {dims, type, *tag};
  return {dims, type, strides};
}

Result<View> ViewOf(const CallOperand& operand) {
  View view{.dims = operand.shape};
  view.type = TypeOf(operand.dtype);
  if (operand.layout.axes.size() != operand.shape.size()) {
    view.tag = BlockedTag(operand.layout);
    if (view.tag) return view;
    return Unsupported(fmt::format("onednn takes no operand in layout {}", Print(operand.layout)));
  }
  const std::vector<int64_t> places = PhysicalStrides(operand.layout, operand.shape);
  view.strides.resize(places.size());
  for (size_t p = 0; p < places.size(); ++p) view.strides[operand.layout.axes[p].axis] = places[p];
  if (view.dims.empty()) view = {.dims = {1}, .strides = {1}, .tag = {}, .type = view.type};
  return view;
}

std::optional<Layout> LayoutOf(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked || desc.get_submemory_offset() != 0)
    return std::nullopt;
  const memory::dims dims = desc.get_dims(), padded = desc.get_padded_dims(),
                     strides = desc.get_strides();
  const memory::dims blocks = desc.get_inner_blks(), idxs = desc.get_inner_idxs();
  std::vector<int32_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return strides[a] > strides[b]; });
  Layout layout = Layout::Permuted(order);
  memory::dims extents = padded;  // of the outer parts
  for (size_t k = 0; k < idxs.size(); ++k) {
    const auto axis = static_cast<int32_t>(idxs[k]);
    if (std::ranges::count(idxs, idxs[k]) != 1) return std::nullopt;
    layout.axes.push_back({.axis = axis, .block = blocks[k]});
    extents[axis] /= blocks[k];
  }
  const std::vector<int64_t> places = PhysicalStrides(layout, dims);
  for (size_t p = 0; p < dims.size(); ++p) {
    const int32_t axis = layout.axes[p].axis;
    if (extents[axis] > 1 && strides[axis] != places[p]) return std::nullopt;
    const int64_t block = padded[axis] / std::max<int64_t>(extents[axis], 1);
    if (padded[axis] != (dims[axis] + block - 1) / block * block) return std::nullopt;
  }
  return layout;
}

bool SamePlaces(const memory::desc& a, const memory::desc& b) {
  if (a == b) return true;
  const auto strided = [](const memory::desc& desc) {
    return desc.get_format_kind() == memory::format_kind::blocked && desc.get_inner_nblks() == 0;
  };
  const memory::dims dims = a.get_dims();
  if (dims != b.get_dims() || !strided(a) || !strided(b)) return false;
  const memory::dims p = a.get_strides(), q = b.get_strides();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] > 1 && p[d] != q[d]) return false;
  }
  return true;
}

void Swap(View& view, size_t a, size_t b) {
  std::swap(view.dims[a], view.dims[b]);
  std::swap(view.strides[a], view.strides[b]);
}

void AlignRight(View& view, size_t rank) {
  if (view.dims.size() >= rank) return;
  const size_t missing = rank - view.dims.size();
  const int64_t all = view.strides.empty() ? 1 : view.dims[0] * view.strides[0];
  view.dims.insert(view.dims.begin(), missing, 1);
  view.strides.insert(view.strides.begin(), missing, all);
}

void SplitFirst(View& view, int64_t parts) {
  const int64_t each = view.dims[0] / parts, stride = view.strides[0];
  view.dims[0] = each;
  view.dims.insert(view.dims.begin(), parts);
  view.strides.insert(view.strides.begin(), each * stride);
}

void MergeFirst(View& view, size_t count) {
  for (; count > 1; --count) {
    view.dims[1] *= view.dims[0];
    view.dims.erase(view.dims.begin());
    view.strides.erase(view.strides.begin());
  }
}

}  // namespace weft::fallback::onednn
