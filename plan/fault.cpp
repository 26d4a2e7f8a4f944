#include "plan/fault.h"

#include <fmt/format.h>

#include "base/text.h"

namespace weft::plan {
namespace {

std::string Describe(const KernelFault& fault, const std::string& name, const std::string& what) {
  if (fault.code == 1) return fmt::format("index {} is outside of {}{}", fault.found, name, what);
  return fmt::format("found {} by {}, expected {} to {}", fault.found, name, fault.lo,
                     fault.hi - 1);
}

}  // namespace

std::string DescribeFault(const KernelFault& fault, const std::string& name, Dtype dtype,
                          const Shape& shape) {
  return Describe(fault, PrintString(name),
                  fmt::format(", which is {}{}", DtypeName(dtype), weft::Print(shape)));
}

std::string DescribeFault(const KernelFault& fault) {
  return Describe(fault, fmt::format("operand {}", fault.operand), "");
}

}  // namespace weft::plan
