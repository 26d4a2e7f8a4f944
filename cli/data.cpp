#include "cli/data.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/npz.h"

namespace weft::cli {

Result<std::map<std::string, Tensor>> LoadNamedInputs(const Flags& flags) {
  std::map<std::string, Tensor> given;
  if (!flags.inputs.empty()) {
    WEFT_TRY(given, ReadNpz(flags.inputs));
  }
  for (const std::string& text : flags.input) {
    const size_t equals = text.find('=');
    if (equals == text.npos) return Usage(fmt::format("--input {}: expected NAME=F.npy", text));
    WEFT_TRY(given[text.substr(0, equals)], ReadNpy(text.substr(equals + 1)));
  }
  return given;
}

Result<std::vector<Tensor>> GatherInputs(const Flags& flags, const std::vector<InputSpec>& specs,
                                         const std::map<std::string, Tensor>& given,
                                         const std::vector<Tensor>& generated) {
  for (const auto& [name, tensor] : given)
    if (std::none_of(specs.begin(), specs.end(), [&](const InputSpec& s) { return s.name == name; }))
      return Usage(fmt::format("the network has no input \"{}\"", name));
  std::vector<Tensor> inputs;
  std::string made;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto it = given.find(specs[i].name);
    if (it == given.end()) {
      inputs.push_back(generated.at(i));
      made += (made.empty() ? "" : ", ") + specs[i].name;
      continue;
    }
    if (it->second.dtype() != specs[i].dtype || it->second.shape() != specs[i].shape)
      return Usage(fmt::format("found {}{}, expected {}{}", DtypeName(it->second.dtype()),
                               weft::Print(it->second.shape()), DtypeName(specs[i].dtype),
                               weft::Print(specs[i].shape)))
          .At(fmt::format("input \"{}\"", specs[i].name));
    inputs.push_back(it->second);
  }
  if (!made.empty()) Progress(flags, fmt::format("weft: generated from seed {}: {}", flags.seed, made));
  return inputs;
}

}  // namespace weft::cli
