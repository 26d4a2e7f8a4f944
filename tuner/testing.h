// What the tests of this folder share. Not for use outside of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/tensor.h"
#include "codegen/reference/interpret.h"
#include "plan/pack.h"
#include "polyhedral/loops/loop_nest.h"
#include "tc_lang/bind.h"

namespace weft::tuner::testing {

// A def of known extents from its text, which must be right.
inline tc::Program Parsed(const std::string& text) {
  const auto defs = tc::ParseDefs(text, "test.tc");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

// The outputs of a nest for the program, in plain order, by the interpreter, on inputs that are the
// same each time.
inline std::vector<double> Interpreted(const tc::Program& program, const loops::LoopNest& nest) {
  std::vector<Tensor> operands;
  std::vector<void*> pointers;
  size_t place = 0;
  for (const auto& ids : {tc::Inputs(program), tc::Outputs(program)})
    for (const tc::TensorId id : ids) {
      Tensor plain(program[id].dtype, *tc::StaticExtents(program[id]));
      for (int64_t i = 0; i < plain.elems(); ++i)
        SetElem(plain, i,
                static_cast<double>((i * 37 + static_cast<int64_t>(place) * 11) % 17) / 8 - 1);
      operands.push_back(plan::Pack(plain, nest.buffers[place++].layout));
    }
  for (Tensor& t : operands) pointers.push_back(t.mutable_data());
  KernelFault fault{};
  const Status status = codegen::Interpret(nest, pointers, {}, &fault);
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<double> values;
  for (size_t k = tc::Inputs(program).size(); k < operands.size(); ++k) {
    const tc::TensorDecl& decl = program[tc::Outputs(program)[k - tc::Inputs(program).size()]];
    const Tensor plain =
        plan::Unpack(operands[k], nest.buffers[k].layout, *tc::StaticExtents(decl));
    for (int64_t i = 0; i < plain.elems(); ++i) values.push_back(ElemAsDouble(plain, i));
  }
  return values;
}

}  // namespace weft::tuner::testing
