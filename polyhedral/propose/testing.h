// What tests of proposals share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "polyhedral/schedule.h"
#include "tc_lang/bind.h"

namespace weft::polyhedral {

inline tc::Program Parse(const std::string& text) {
  const auto defs = tc::ParseDefs(text, "test.tc");
  EXPECT_TRUE(defs.ok());
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

// The first proposal, printed, or why there is none.
inline std::string First(const std::string& text, Target target, Isa isa = Isa::kX86V3,
                         std::vector<std::string> constants = {}) {
  const tc::Program program = Parse(text);
  target.isa = isa;
  const auto choices =
      Propose({.program = &program, .constants = std::move(constants), .target = target}, 1);
  return choices.yes() ? Print((*choices)[0]) : std::string(ReasonName(choices.refusal().reason));
}

}  // namespace weft::polyhedral
