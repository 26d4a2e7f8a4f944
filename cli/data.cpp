#include "cli/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/nibbles.h"
#include "cli/image.h"
#include "cli/npz.h"
#include "driver/pipeline.h"
#include "graph/onnx/tensor_file.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

// The files PREFIX_K.pb of a test_data_set, by K.
Result<std::map<size_t, std::string>> NumberedFiles(const std::string& folder,
                                                    std::string_view prefix) {
  std::map<size_t, std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".pb")) continue;
    const char *first = name.data() + prefix.size(), *last = name.data() + name.size() - 3;
    size_t k = 0;
    if (auto [stop, code] = std::from_chars(first, last, k); code != std::errc() || stop != last)
      return Invalid(fmt::format("found {}, expected a number behind {}", name, prefix)).At(folder);
    files[k] = it->path().string();
  }
  if (error) return Invalid(error.message()).At(folder);
  return files;
}

// In the model's order, which is what a test_data_set counts by.
Result<std::vector<std::string>> InputNames(const std::string& path) {
  std::vector<std::string> names;
  if (IsPlanFile(path)) {
    WEFT_TRY(const plan::Plan plan, plan::ReadPlan(path));
    const plan::Specialization& s = plan.specializations.at(0);
    for (plan::BufferId id : s.inputs) names.push_back(s.buffers[id.index].name);
  } else {
    WEFT_TRY(const graph::Graph graph, driver::Import(path));
    for (graph::ValueId v : graph.inputs) names.push_back(graph[v].name);
  }
  return names;
}

Status LoadDataInputs(const Flags& flags, std::map<std::string, Tensor>& given) {
  WEFT_TRY(const auto files, NumberedFiles(flags.data, "input_"));
  WEFT_TRY(const auto names, InputNames(flags.model));
  for (const auto& [k, file] : files) {
    if (k >= names.size())
      return Usage(fmt::format("found input {}, the network has {}", k, names.size())).At(file);
    WEFT_TRY(given[names[k]], graph::ReadOnnxTensor(file));
  }
  return {};
}

Result<Tensor> ReadInputFile(const Flags& flags, const std::string& file) {
  if (!IsImageName(file)) return ReadNpy(file);
  WEFT_TRY(const fallback::Image pixels, ReadImage(file));
  return ImageTensor(pixels, flags.image);
}

// Numbers of any precision can be compared; everything else must be of the output's own type.
Status CheckComparable(const TensorSpec& output, const Tensor& expected) {
  const Dtype type = WidenedType(output.dtype);  // as .npz has it
  if (type == expected.dtype() || output.dtype == expected.dtype() ||
      (IsFloat(output.dtype) && IsFloat(expected.dtype())))
    return {};
  return Usage(fmt::format("found {}, the output is {}", DtypeName(expected.dtype()),
                           DtypeName(output.dtype)))
      .At(fmt::format("expected values of \"{}\"", output.name));
}

Status NoInput(const std::string& name) {
  return Usage(fmt::format("the network has no input \"{}\"", name));
}

}  // namespace

Result<std::map<std::string, Tensor>> LoadNamedInputs(const Flags& flags) {
  std::optional<std::vector<std::string>> names;
  return LoadNamedInputs(flags, [&](const std::string& name) -> Status {
    if (!names) {
      WEFT_TRY(names, InputNames(flags.model));
    }
    if (std::ranges::find(*names, name) != names->end()) return {};
    return NoInput(name);
  });
}

Result<std::map<std::string, Tensor>> LoadNamedInputs(
    const Flags& flags, const std::function<Status(const std::string&)>& wanted) {
  std::map<std::string, Tensor> given;
  if (!flags.data.empty()) WEFT_TRY(LoadDataInputs(flags, given));
  if (!flags.inputs.empty()) {
    WEFT_TRY(auto arrays, ReadNpz(flags.inputs, wanted));
    for (auto& [name, tensor] : arrays) given[name] = std::move(tensor);
  }
  for (const std::string& text : flags.input) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0)
      return Usage(fmt::format("--input {}: expected NAME=F.npy, NAME=F.png or NAME=F.jpg", text));
    WEFT_TRY(given[text.substr(0, equals)], ReadInputFile(flags, text.substr(equals + 1)));
  }
  return given;
}

Result<std::vector<Tensor>> GatherInputs(const Flags& flags, const std::vector<TensorSpec>& specs,
                                         const std::map<std::string, Tensor>& given,
                                         const std::vector<Tensor>& generated) {
  for (const auto& [name, tensor] : given)
    if (std::none_of(specs.begin(), specs.end(),
                     [&](const TensorSpec& s) { return s.name == name; }))
      return NoInput(name);
  std::vector<Tensor> inputs;
  std::string made;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto it = given.find(specs[i].name);
    if (it == given.end()) {
      inputs.push_back(generated.at(i));
      made += (made.empty() ? "" : ", ") + specs[i].name;
      continue;
    }
    const Dtype wanted = specs[i].dtype;
    if (SharesBytes(wanted) && it->second.dtype() == WidenedType(wanted) &&
        it->second.shape() == specs[i].shape) {
      auto small = Narrowed(it->second, wanted);
      if (!small.ok())
        return std::move(small.status()).At(fmt::format("input \"{}\"", specs[i].name));
      inputs.push_back(*std::move(small));
      continue;
    }
    if (it->second.dtype() != specs[i].dtype || it->second.shape() != specs[i].shape)
      return Usage(fmt::format("found {}{}, expected {}{}", DtypeName(it->second.dtype()),
                               weft::Print(it->second.shape()), DtypeName(specs[i].dtype),
                               weft::Print(specs[i].shape)))
          .At(fmt::format("input \"{}\"", specs[i].name));
    inputs.push_back(it->second);
  }
  if (!made.empty())
    Progress(flags, fmt::format("weft: generated from seed {}: {}", flags.seed, made));
  return inputs;
}

Result<Expected> LoadExpected(const Flags& flags, const std::vector<TensorSpec>& outputs) {
  Expected expected;
  if (!flags.data.empty()) {
    WEFT_TRY(const auto files, NumberedFiles(flags.data, "output_"));
    if (!files.empty()) expected.resize(outputs.size());
    for (const auto& [k, file] : files) {
      if (k >= outputs.size())
        return Usage(fmt::format("found output {}, the network has {}", k, outputs.size()))
            .At(file);
      WEFT_TRY(expected[k], graph::ReadOnnxTensor(file));
    }
  }
  if (!flags.expected.empty()) {
    const auto no_output = [](const std::string& name) {
      return Usage(fmt::format("the network has no output \"{}\"", name));
    };
    WEFT_TRY(auto arrays, ReadNpz(flags.expected, [&](const std::string& name) {
               return std::ranges::find(outputs, name, &TensorSpec::name) == outputs.end()
                          ? no_output(name)
                          : Status();
             }));
    expected.resize(outputs.size());
    for (auto& [name, tensor] : arrays) {
      const auto it = std::ranges::find(outputs, name, &TensorSpec::name);
      if (it == outputs.end()) return no_output(name).At(flags.expected);
      expected[static_cast<size_t>(it - outputs.begin())] = std::move(tensor);
    }
  }
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i]) WEFT_TRY(CheckComparable(outputs[i], *expected[i]));
  return expected;
}

driver::Tolerance ToleranceOf(const Flags& flags) {
  return {flags.tolerance, flags.rtol, flags.atol};
}

}  // namespace weft::cli
