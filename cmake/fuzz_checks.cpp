// An input that fails a check is kept, as one is that crashes.
#include <cstdlib>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  weft::SetCheckHandler([](std::string_view) { std::abort(); });
  return 0;
}
