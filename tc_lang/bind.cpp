#include "tc_lang/bind.h"

#include <fmt/format.h>

#include <set>

#include "base/check.h"
#include "tc_lang/bind_def.h"
#include "tc_lang/program.h"

namespace weft::tc {

Result<Program> Bind(const Def& def, const Sizes& sizes, std::span<const Def> defs) {
  DefBinder binder(def, sizes, defs);
  WEFT_TRY(binder.Run());
  return std::move(binder.program());
}

Result<Inference> Infer(const Def& def, const Sizes& sizes, std::span<const Def> defs) {
  DefBinder binder(def, sizes, defs);
  WEFT_TRY(binder.Run());
  std::map<std::string, int> uses;
  for (const auto& statement : binder.ranges()) {
    for (const IndexRange& index : statement) ++uses[index.name];
  }
  Inference out;
  out.preconditions = binder.preconditions();
  for (size_t k = 0; k < binder.ranges().size(); ++k) {
    for (const IndexRange& index : binder.ranges()[k]) {
      if (!index.range->lo.IsConstant() || !index.range->hi.IsConstant())
        continue;  // a size left open
      const std::string name =
          uses[index.name] > 1 ? fmt::format("{}@{}", index.name, k + 1) : index.name;
      out.ranges.emplace_back(name,
                              Interval{index.range->lo.constant(), index.range->hi.constant() - 1});
    }
  }
  return out;
}

Result<Sizes> SizesFromShapes(const Def& def, const std::map<std::string, Shape>& shapes,
                              const std::map<std::string, int64_t>& size_params) {
  Sizes out;
  out.values = size_params;
  std::map<std::string, std::string> sources;  // of each size: for messages
  for (const auto& [name, value] : size_params) sources[name] = "a size parameter";
  std::set<std::string> inputs;
  for (const SyntaxParam& param : def.params) {
    if (param.is_size) continue;
    inputs.insert(param.name);
    const auto shape = shapes.find(param.name);
    if (shape == shapes.end()) continue;
    if (!param.strides.empty()) {  // it is the memory that is given, which says nothing of extents
      if (shape->second.size() == 1) continue;
      return Usage(fmt::format("found rank {} for '{}', expected its memory, of rank 1",
                               shape->second.size(), param.name));
    }
    if (shape->second.size() != param.dims.size()) {
      return Usage(fmt::format("found rank {} for '{}', expected {}", shape->second.size(),
                               param.name, param.dims.size()));
    }
    for (size_t d = 0; d < param.dims.size(); ++d) {
      const SyntaxExpr& dim = *param.dims[d];
      const int64_t extent = shape->second[d];
      const std::string here = fmt::format("extent {} of '{}'", d, param.name);
      if (dim.kind == SyntaxKind::kInt) {
        if (dim.text != std::to_string(extent)) {
          return Usage(
              fmt::format("found {} for {}, expected {}", extent, here, dim.text.substr(0, 40)));
        }
        continue;
      }
      const auto [known, inserted] = out.values.emplace(dim.text, extent);
      if (!inserted && known->second != extent) {
        return Usage(fmt::format("the size '{}' is {} by {} and {} by {}", dim.text, known->second,
                                 sources[dim.text], extent, here));
      }
      sources.emplace(dim.text, here);
    }
  }
  for (const auto& [name, shape] : shapes) {
    if (!inputs.contains(name))
      return Usage(fmt::format("'{}' is no input of '{}'", name, def.name));
  }
  for (const SyntaxParam& param : def.params) {
    if (param.is_size && !out.values.contains(param.name)) {
      return Usage(fmt::format("the size parameter '{}' is not given", param.name))
          .Try(fmt::format("--size {}=V", param.name));
    }
  }
  return out;
}

Result<Program> Parse(std::string_view text, const std::string& file) {
  WEFT_TRY(const std::vector<Def> defs, ParseDefs(text, file));
  if (defs.size() != 1)
    return Invalid(fmt::format("found {} defs, expected one", defs.size())).At(file);
  Sizes sizes;  // in canonical form, every size that has a name is a param
  for (const SyntaxParam& param : defs[0].params) {
    if (param.is_size) sizes.params.push_back(param.name);
    for (const SyntaxExprPtr& dim : param.dims) {
      if (dim->kind == SyntaxKind::kName) sizes.params.push_back(dim->text);
    }
  }
  return Bind(defs[0], sizes);
}

}  // namespace weft::tc
