// A network ready to be run again and again: what bench and compare measure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "cli/common.h"
#include "cli/data.h"
#include "cli/interrupt.h"
#include "executor/bound_run.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace weft::cli {

struct Subject {
  std::string name;
  std::unique_ptr<executor::Executor> executor;
  std::unique_ptr<CancelOnInterrupt> cancel;
  size_t specialization = 0;
  graph::Graph graph;  // empty if it came from a plan file
  double build_s = 0, load_us = 0;

  const plan::Specialization& spec() const {
    return executor->plan().specializations[specialization];
  }
};

// A model is built under the session's options, a plan is read. Shapes of `given` arrays bind
// inputs.
Result<Subject> OpenSubject(const std::string& path, const Flags& flags, Session& session,
                            const std::map<std::string, Tensor>& given);
std::vector<TensorSpec> InputsOf(const Subject& subject);
std::vector<TensorSpec> OutputsOf(const Subject& subject);
// Given arrays, and generated ones for the rest.
Result<std::vector<Tensor>> InputsFor(const Subject& subject, const Flags& flags,
                                      const std::map<std::string, Tensor>& given);

}  // namespace weft::cli
