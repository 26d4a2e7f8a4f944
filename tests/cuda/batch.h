// Comprehensions, mapped one by one and judged together: the nest of each has the meaning of its
// comprehension in the interpreter, and its text computes the same bits. All texts are compiled at
// once, which takes little longer than one.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"
#include "polyhedral/cuda/map.h"
#include "tc_lang/program.h"
#include "tests/cuda/run.h"

namespace weft::cuda_test {

class Batch {
 public:
  // `name` is what a failure is reported with. The mapping that was taken, or why there is none.
  // Layouts and constants are the request's.
  Result<polyhedral::CudaMapping> Add(std::string name, tc::Program program,
                                      std::vector<Tensor> inputs,
                                      polyhedral::ScheduleRequest request = {});
  // The same, mapped as wanted; false if its nest has no such mapping.
  Result<bool> AddAs(std::string name, const tc::Program& program, std::vector<Tensor> inputs,
                     const polyhedral::GridMap& wanted);
  void AddMapped(std::string name, tc::Program program, std::vector<Tensor> inputs,
                 loops::LoopNest nest);
  void ExpectRight();
  void ExpectCompiles(size_t every) const;  // every so many of them, by NVRTC
  size_t size() const { return members_.size(); }

 private:
  struct Member {
    std::string name;
    tc::Program program;
    std::vector<Tensor> inputs;
    loops::LoopNest nest;
    std::string Text() const { return name + "\n" + tc::Print(program) + loops::Print(nest); }
  };
  std::vector<Member> members_;
};

}  // namespace weft::cuda_test
