#include "tests/oracle/oracle.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "codegen/reference/interpret.h"
#include "tc_lang/bind.h"
#include "tc_lang/interpret.h"
#include "tests/oracle/machine.h"

namespace weft::oracle {

using namespace polyhedral;  // NOLINT: what is tested

namespace {

std::vector<int64_t> ShapeOf(const loops::Buffer& buffer, const std::vector<int64_t>& params) {
  std::vector<int64_t> shape;
  for (const Affine& e : buffer.shape) shape.push_back(e.Eval(params));
  return shape;
}

// Calls f(logical offset, physical offset) for every element.
template <typename F>
void ForEach(const Layout& layout, const std::vector<int64_t>& shape, F&& f) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  std::vector<int64_t> index(shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t a = shape.size(); a-- > 0;) {
      index[a] = rest % shape[a];
      rest /= shape[a];
    }
    f(i, OffsetOf(layout, shape, index));
  }
}

struct Memory {
  std::vector<Tensor> buffers;  // flat, as the operands lie
  std::vector<void*> pointers;
};

Memory Lay(const Case& c, const loops::LoopNest& nest) {
  Memory memory;
  size_t input = 0;
  for (const loops::BufferId id : loops::Operands(nest)) {
    const loops::Buffer& b = nest[id];
    const std::vector<int64_t> shape = ShapeOf(b, c.params);
    Tensor flat(b.dtype, {AllocElems(b.layout, shape)});
    char* to = static_cast<char*>(flat.mutable_data());
    const int64_t size = SizeBytes(b.dtype);
    std::memset(to, 0x7f, flat.bytes());  // what padding holds must not matter
    if (b.access == loops::Access::kIn) {
      const char* from = static_cast<const char*>(c.inputs[input++].data());
      ForEach(b.layout, shape, [&](int64_t i, int64_t at) {
        if (SharesBytes(b.dtype)) return SetNibble(to, at, NibbleAt(from, i));
        std::memcpy(to + at * size, from + i * size, size);
      });
    }
    memory.buffers.push_back(std::move(flat));
  }
  for (Tensor& t : memory.buffers) memory.pointers.push_back(t.mutable_data());
  return memory;
}

Status CompareOutputs(const Case& c, const loops::LoopNest& nest, const Memory& memory,
                      const std::vector<Tensor>& expected) {
  size_t output = 0, k = 0;
  for (const loops::BufferId id : loops::Operands(nest)) {
    const loops::Buffer& b = nest[id];
    const Tensor& flat = memory.buffers[k++];
    if (b.access == loops::Access::kIn) continue;
    const Tensor& want = expected[output++];
    double largest = 1;
    for (int64_t i = 0; i < want.elems(); ++i) {
      const double v = std::abs(ElemAsDouble(want, i));
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
    Status status;
    ForEach(b.layout, ShapeOf(b, c.params), [&](int64_t i, int64_t at) {
      const double x = ElemAsDouble(flat, at), y = ElemAsDouble(want, i);
      const bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                        std::abs(x - y) <= c.tolerance * (IsFloat(b.dtype) ? largest : 0);
      if (!same && status.ok()) {
        status = Internal(fmt::format("{}[{}] is {}, expected {}", b.name, i, x, y));
      }
    });
    WEFT_TRY(std::move(status));
  }
  return {};
}

}  // namespace

Result<tc::Program> Compile(std::string_view text, const std::map<std::string, int64_t>& sizes,
                            const std::vector<std::string>& params) {
  WEFT_TRY(const std::vector<tc::Def> defs, tc::ParseDefs(text, "oracle.tc"));
  return tc::Bind(defs.at(0), {.values = sizes, .params = params});
}

Status Compare(const Case& c, const polyhedral::ScheduleRequest& request,
               const loops::LoopNest& nest) {
  WEFT_TRY(const std::vector<Tensor> expected, tc::Interpret(*c.program, c.inputs, c.params));
  Memory memory = Lay(c, nest);
  KernelFault fault{};
  WEFT_TRY(c.run ? c.run(memory.pointers, c.params, &fault)
                 : codegen::Interpret(nest, memory.pointers, c.params, &fault, {.team_size = 3}));
  if (fault.code != 0)
    return Internal(fmt::format("fault {} at operand {}", fault.code, fault.operand));
  WEFT_TRY(CompareOutputs(c, nest, memory, expected));
  if (!c.machine || !HostRuns(request.target.isa)) return {};
  WEFT_TRY(const Machine machine, Machine::Make(nest, request.target));
  for (const uint32_t team : {1u, 3u}) {
    Memory native = Lay(c, nest);
    machine.Run(native.pointers.data(), c.params.data(), team);
    for (size_t k = 0; k < memory.buffers.size(); ++k) {
      if (memory.buffers[k] == native.buffers[k]) continue;
      WEFT_TRY(CompareOutputs(c, nest, native, expected));
      return Internal(fmt::format("operand {}: machine code and interpreter differ in bits", k));
    }
  }
  return {};
}

Target Widest() {
  for (const Isa isa : {Isa::kX86V4Amx, Isa::kX86V4Bf16, Isa::kX86V4Vnni, Isa::kX86V4})
    if (HostRuns(isa)) return {.isa = isa, .threads = 2};
  return {.threads = 2};
}

Target Bf16() {
  const bool matrices = HostRuns(Isa::kX86V4Amx);
  return {.isa = matrices ? Isa::kX86V4Amx : Isa::kX86V4Bf16, .threads = 2};
}

Status RunChoice(const tc::Program& program, const std::vector<Tensor>& inputs,
                 const Choice& choice, std::vector<std::string> constants, bool machine) {
  const bool flushes = std::ranges::any_of(choice.clusters, &Cluster::dot_flushes);
  const ScheduleRequest request{.program = &program,
                                .constants = std::move(constants),
                                .target = flushes ? Bf16() : Widest()};
  auto tree = BuildSchedule(request, choice);
  if (!tree.yes())
    return Internal(std::string(ReasonName(tree.refusal().reason)) + ": " + tree.refusal().detail);
  const auto legal = CheckLegal(request, *tree);
  if (!legal.yes()) return Internal(legal.refusal().detail + "\n" + tree->text);
  WEFT_TRY(const loops::LoopNest nest, Lower(request, choice, *tree));
  Status status =
      Compare({.program = &program, .inputs = inputs, .machine = machine}, request, nest);
  if (!status.ok()) return std::move(status).Because(tree->text + loops::Print(nest));
  return {};
}

std::string WhyIllegal(const tc::Program& program, std::string_view choice) {
  const ScheduleRequest request{.program = &program, .target = Widest()};
  const auto choices = ParseChoices(choice, "test");
  if (!choices.ok()) return choices.status().ToString();
  const auto tree = BuildSchedule(request, choices->at(0));
  if (!tree.yes())
    return std::string(ReasonName(tree.refusal().reason)) + " " + tree.refusal().detail;
  const auto legal = CheckLegal(request, *tree);
  return legal.yes()
             ? "legal"
             : std::string(ReasonName(legal.refusal().reason)) + " " + legal.refusal().detail;
}

}  // namespace weft::oracle
