// Typed indices into flat arrays: a NodeId can't be passed where a ValueId is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

// Tag makes the type distinct; it is never completed. The default Id is "none".
template <typename Tag>
struct Id {
  int32_t index = -1;

  constexpr Id() = default;
  constexpr explicit Id(size_t i) : index(static_cast<int32_t>(i)) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace weft

template <typename Tag>
struct std::hash<weft::Id<Tag>> {
  size_t operator()(weft::Id<Tag> id) const { return static_cast<size_t>(id.index); }
};
