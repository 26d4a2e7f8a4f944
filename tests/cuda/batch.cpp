#include "tests/cuda/batch.h"

#include "tests/oracle/oracle.h"

namespace weft::cuda_test {

using polyhedral::ScheduleRequest;

Result<polyhedral::CudaMapping> Batch::Add(std::string name, tc::Program program,
                                           std::vector<Tensor> inputs, ScheduleRequest request) {
  request.program = &program;
  request.target = Sm90();
  WEFT_TRY(auto scheduled, polyhedral::MapToCuda(request));
  AddMapped(std::move(name), std::move(program), std::move(inputs),
            std::move(scheduled.mapped.nest));
  return scheduled.mapped.mapping;
}

Result<bool> Batch::AddAs(std::string name, const tc::Program& program, std::vector<Tensor> inputs,
                          const polyhedral::GridMap& wanted) {
  const ScheduleRequest request{.program = &program, .target = Sm90()};
  WEFT_TRY(const auto scheduled, polyhedral::MapToCuda(request));
  WEFT_TRY(const loops::LoopNest nest,
           polyhedral::Lower(request, scheduled.choice, scheduled.tree));
  auto mapped = polyhedral::MapNest(nest, Sm90(), wanted);
  if (mapped.status().code() == Code::kUnsupported) return false;
  if (!mapped.ok()) return std::move(mapped.status());
  AddMapped(std::move(name), program, std::move(inputs), std::move(mapped->nest));
  return true;
}

void Batch::AddMapped(std::string name, tc::Program program, std::vector<Tensor> inputs,
                      loops::LoopNest nest) {
  members_.push_back({std::move(name), std::move(program), std::move(inputs), std::move(nest)});
}

void Batch::ExpectRight() {
  std::vector<codegen::CudaText> texts;
  for (const Member& m : members_) {
    auto text = codegen::EmitCudaText(m.nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString() << "\n" << m.Text();
    texts.push_back(*std::move(text));
  }
  auto kernels = codegen::EmulatedKernels::Compile(std::move(texts));
  ASSERT_TRUE(kernels.ok()) << kernels.status().ToString();
  for (size_t k = 0; k < members_.size(); ++k) {
    const Member& m = members_[k];
    const auto run = [&](std::span<void* const> operands, std::span<const int64_t> params,
                         KernelFault* fault) {
      return kernels->Check(k, m.nest, operands, params, fault);
    };
    const Status same =
        oracle::Compare({.program = &m.program, .inputs = m.inputs, .machine = false, .run = run},
                        {.program = &m.program, .target = Sm90()}, m.nest);
    EXPECT_TRUE(same.ok()) << same.ToString() << "\n" << m.Text();
  }
}

void Batch::ExpectCompiles(size_t every) const {
  for (size_t k = 0; k < members_.size(); k += every) {
    SCOPED_TRACE(members_[k].name);
    cuda_test::ExpectCompiles(members_[k].nest);
  }
}

}  // namespace weft::cuda_test
