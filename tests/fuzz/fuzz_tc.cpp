// Comprehension text from strangers: whatever binds also verifies, reads back as itself and runs
// within its limits.
#include <string>
#include <string_view>

#include "base/check.h"
#include "tc_lang/bind.h"
#include "tc_lang/interpret.h"

namespace weft::tc {
namespace {

// Every size that has a name, small and different.
Sizes SmallSizes(const Def& def) {
  Sizes sizes;
  int64_t next = 2;
  for (const SyntaxParam& param : def.params) {
    if (param.is_size) sizes.values[param.name] = next++;
    for (const SyntaxExprPtr& dim : param.dims) {
      if (dim->kind == SyntaxKind::kName && sizes.values.emplace(dim->text, next).second) ++next;
    }
  }
  return sizes;
}

void Try(const Def& def, std::span<const Def> defs) {
  const Result<Program> program = Bind(def, SmallSizes(def), defs);
  if (!program.ok()) {
    WEFT_CHECK(program.status().code() != Code::kInternal, "{}", program.status().ToString());
    return;
  }
  const Status verified = Verify(*program);
  WEFT_CHECK(verified.ok(), "{}\n{}", verified.ToString(), Print(*program));
  const Result<Program> again = Parse(Print(*program), "printed");
  WEFT_CHECK(again.ok(), "{}\n{}", again.status().ToString(), Print(*program));
  WEFT_CHECK(Equal(*program, *again), "reads back different:\n{}\n{}", Print(*program),
             Print(*again));
  std::vector<Tensor> inputs;
  for (TensorId id : Inputs(*program)) {
    const std::optional<Shape> shape = StaticExtents((*program)[id]);
    const Result<int64_t> count = shape ? CountElems(*shape) : Result<int64_t>(int64_t{1} << 40);
    if (!count.ok() || *count > (1 << 16)) return;
    inputs.emplace_back((*program)[id].dtype, *shape);
  }
  const auto out = Interpret(*program, inputs, {}, {.max_instances = 100000, .max_bytes = 1 << 22});
  WEFT_CHECK(out.ok() || out.status().code() != Code::kInternal, "{}", out.status().ToString());
}

}  // namespace
}  // namespace weft::tc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto defs = weft::tc::ParseDefs(text, "fuzz.tc");
  if (!defs.ok()) return 0;
  for (const weft::tc::Def& def : *defs) weft::tc::Try(def, *defs);
  return 0;
}
