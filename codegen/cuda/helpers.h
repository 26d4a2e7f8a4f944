// Device functions that give primitives their exact meaning (base/scalar.def) where CUDA C++ has
// none. A kernel's text holds those it uses, in a fixed order.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace weft::codegen::cuda {

class Helpers {
 public:
  std::string_view Use(std::string_view name);  // and what it needs; gives the name back
  std::string Text() const;

 private:
  std::set<size_t> used_;
};

}  // namespace weft::codegen::cuda
