// weft._weft: what python/weft/__init__.py is made of. Checks and conversions that read better in
// Python are there; here are calls without the interpreter's lock, and errors with their parts.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>

#include "base/cache/file_cache.h"
#include "base/nibbles.h"
#include "driver/build.h"
#include "driver/options.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "driver/target.h"
#include "executor/executor.h"
#include "fallback/execute.h"
#include "graph/infer.h"
#include "graph/sequences.h"
#include "plan/file.h"
#include "python/common.h"
#include "python/interrupt.h"

namespace weft::python {

void Raise(const Status& status) {
  const nb::object type = nb::module_::import_("weft").attr("Error");
  const nb::object error = type(static_cast<int>(status.code()), status.what(), status.where(),
                                status.hint(), status.ToString());
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

std::optional<FileCache> OpenCache(const std::optional<std::string>& directory) {
  if (directory) return ValueOrRaise(FileCache::Open(*directory));
  const auto standard = FileCache::DefaultDirectory();
  if (!standard.ok()) return std::nullopt;
  auto cache = FileCache::Open(*standard);  // works without one
  return cache.ok() ? std::optional<FileCache>(*std::move(cache)) : std::nullopt;
}

namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;
// (extents, elements in row-major order): strings, as their bytes.
using Texts = std::pair<Shape, std::vector<nb::bytes>>;
using Shapes = std::vector<std::pair<std::string, Shape>>;
// (name, element type, elements): of four bits one in a byte.
using NamedValue = std::tuple<std::string, std::string, Input>;
// (name, "absent", "tensor" or "sequence", (element type, shape) of each part)
using NamedForm = std::tuple<std::string, std::string, std::vector<std::pair<std::string, Shape>>>;

// A plan that runs; its machine code is in the cache, or was compiled when it was loaded.
struct Loaded {
  std::unique_ptr<executor::Executor> executor;
  std::map<std::string, std::string> why_native;  // by step: no kernel of weft's own; not in a file
  const plan::Plan& plan() const { return executor->plan(); }
};

struct BuildRequest {
  std::string path, target;
  int32_t threads;
  Shapes shapes;
  std::map<std::string, int64_t> dims;
  std::vector<NamedForm> forms;
  std::vector<NamedValue> values;
  double budget;
  std::optional<std::string> force, cache_dir;
  std::string specialize;
};

driver::Specialize WhenToSpecialize(const std::string& text) {
  if (text == "background") return driver::Specialize::kBackground;
  if (text == "never") return driver::Specialize::kNever;
  if (text != "now") Raise(Usage("specialize: expected now, background or never"));
  return driver::Specialize::kNow;
}

Result<Dtype> ElementType(const std::string& text, const std::string& input) {
  if (const auto dtype = ParseDtype(text)) return *dtype;
  return Usage("unknown element type " + text).At("input \"" + input + "\"");
}

std::map<std::string, graph::InputForm> FormsFrom(const std::vector<NamedForm>& named) {
  using Kind = graph::InputForm::Kind;
  std::map<std::string, graph::InputForm> forms;
  for (const auto& [name, kind, parts] : named) {
    graph::InputForm& form = forms[name];
    form.kind = kind == "sequence" ? Kind::kSequence
                : kind == "tensor" ? Kind::kTensor
                                   : Kind::kAbsent;
    for (const auto& [type, shape] : parts)
      form.parts.push_back({ValueOrRaise(ElementType(type, name)), shape});
  }
  return forms;
}

// In memory of its own.
Result<Tensor> Copied(const Tensor& view) {
  WEFT_TRY(Tensor copy, Tensor::Allocate(view.dtype(), view.shape()));
  if (view.bytes() > 0) std::memcpy(copy.mutable_data(), view.data(), view.raw().size());
  return copy;
}

Tensor TensorFrom(const NamedValue& value) {
  const auto& [name, type, array] = value;
  const Dtype dtype = ValueOrRaise(ElementType(type, name));
  const Dtype wide = WidenedType(dtype);
  const Tensor view = Tensor::Borrow(
      wide, Shape(array.shape_ptr(), array.shape_ptr() + array.ndim()), nullptr, array.data());
  if (view.bytes() != static_cast<int64_t>(array.nbytes()))
    Raise(Usage("its elements are no " + type).At("input \"" + name + "\""));
  return ValueOrRaise(SharesBytes(dtype) ? Narrowed(view, dtype) : Copied(view));
}

Loaded Build(const BuildRequest& request) {
  driver::BuildOptions options;
  options.target = ValueOrRaise(driver::TargetHere(request.target));
  if (request.threads > 0) options.target.threads = request.threads;
  options.shapes = request.shapes;
  options.symbols = request.dims;
  options.forms = FormsFrom(request.forms);
  for (const NamedValue& value : request.values)
    options.values.insert_or_assign(std::get<0>(value), TensorFrom(value));
  options.budget_s = request.budget;
  options.open_inputs = true;
  options.specialize = WhenToSpecialize(request.specialize);
  using Force = partition::PartitionOptions::Force;
  if (request.force == "own")
    options.partition.force = Force::kOwn;
  else if (request.force == "vendor")
    options.partition.ForceVendor();
  else if (request.force == "calls")
    options.partition.force = Force::kCalls;
  else if (request.force)
    Raise(Usage("force: expected own, vendor or calls"));
  options.partition.vendor = !fallback::LibraryVersions(options.target.kind).empty();
  const auto cache = OpenCache(request.cache_dir);
  options.cache = cache ? &*cache : nullptr;
  std::unique_ptr<TuningDb> tuning;
  if (cache)
    if (auto db = TuningDb::Open(TuningDb::PathIn(cache->directory())); db.ok())
      tuning = *std::move(db);
  options.tuning = tuning.get();
  return Unlocked([&]() -> Result<Loaded> {
    WEFT_TRY(driver::Built built, driver::Build(request.path, options));
    Loaded loaded;
    for (const driver::Module& module : built.modules)
      for (const partition::Group& group : module.grouping.groups)
        if (group.implementation == partition::Implementation::kNative)
          loaded.why_native.emplace(group.name, driver::WhyNative(module, group));
    WEFT_TRY(loaded.executor,
             driver::MakeExecutor(std::move(built.plan), options, request.threads));
    return loaded;
  });
}

// Names of the inputs that decide extents, once these shapes are bound.
std::vector<std::string> ShapeInputs(const std::string& path, const Shapes& shapes,
                                     const std::vector<NamedForm>& named) {
  const auto forms = FormsFrom(named);
  return Unlocked([&]() -> Result<std::vector<std::string>> {
    WEFT_TRY(graph::Graph graph, driver::Import(path));
    for (const auto& [input, form] : forms) WEFT_TRY(graph::BindForm(graph, input, form));
    for (const auto& [input, shape] : shapes) WEFT_TRY(graph::BindShape(graph, input, shape));
    WEFT_TRY(const auto ids, graph::ShapeInputs(graph));
    std::vector<std::string> names;
    for (graph::ValueId id : ids) names.push_back(graph[id].name);
    return names;
  });
}

Loaded Load(const std::string& path, int32_t threads, const std::optional<std::string>& cache_dir,
            const std::string& specialize) {
  const auto cache = OpenCache(cache_dir);
  driver::BuildOptions options;
  options.specialize = WhenToSpecialize(specialize);
  options.cache = cache ? &*cache : nullptr;
  return Unlocked([&]() -> Result<Loaded> {
    WEFT_TRY(plan::Plan plan, plan::ReadPlan(path));
    options.partition.vendor = !fallback::LibraryVersions(plan.target.kind).empty();
    Loaded loaded;
    WEFT_TRY(loaded.executor, driver::MakeExecutor(std::move(plan), options, threads));
    return loaded;
  });
}

void Save(const Loaded& loaded, const std::string& path) {
  Unlocked([&]() -> Result<bool> {
    WEFT_TRY(plan::WritePlan(loaded.plan(), path));
    return true;
  });
}

// (name, dtype, shape) of each; dtype as numpy says it, but bf16, which numpy does not know. The
// shape is None where only a run makes it.
nb::list Describe(const Loaded& loaded, size_t index, bool inputs) {
  const plan::Specialization& s = loaded.plan().specializations.at(index);
  nb::list list;
  for (plan::BufferId id : inputs ? s.inputs : s.outputs) {
    const plan::Buffer& b = s.buffers[id.index];
    const nb::object shape = b.kind == plan::BufferKind::kDynamic
                                 ? nb::object(nb::none())
                                 : nb::object(nb::tuple(nb::cast(b.shape)));
    list.append(nb::make_tuple(b.name, std::string(DtypeName(b.dtype)), shape));
  }
  return list;
}

// (kind, name, the library's operator, ONNX nodes, why no kernel of weft's own) of each.
nb::list Steps(const Loaded& loaded, size_t index) {
  nb::list list;
  for (const plan::Step& step : loaded.plan().specializations.at(index).steps) {
    const auto why = loaded.why_native.find(step.name);
    list.append(nb::make_tuple(std::string(plan::StepKindName(step.kind)), step.name, step.call.op,
                               step.nodes,
                               why == loaded.why_native.end() ? std::string() : why->second));
  }
  return list;
}

size_t Select(const Loaded& loaded, const std::vector<Shape>& shapes) {
  return ValueOrRaise(loaded.executor->Select(shapes));
}

// Runs on arrays that have a byte for each element of four bits; gives what the run itself makes,
// by output.
Result<std::vector<Tensor>> RunWidened(const Loaded& loaded, size_t index,
                                       std::vector<Tensor> given, std::vector<void*> out) {
  const plan::Specialization& s = loaded.plan().specializations.at(index);
  executor::OpenOperands open{.inputs = std::move(given)};  // alive until the run ends
  std::vector<const void*> in;
  for (size_t i = 0; i < open.inputs.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.inputs[i].index];
    Tensor& input = open.inputs[i];
    if (SharesBytes(b.dtype)) {
      auto small = Narrowed(input, b.dtype);
      if (!small.ok()) return std::move(small.status()).At("input \"" + b.name + "\"");
      input = *std::move(small);
    }
    in.push_back(input.data());
  }
  std::vector<std::pair<Tensor, void*>> packed;
  for (size_t i = 0; i < out.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.outputs[i].index];
    if (!SharesBytes(b.dtype) || IsHeld(b)) continue;
    WEFT_TRY(Tensor small, Tensor::Allocate(b.dtype, b.shape));
    packed.emplace_back(std::move(small), out[i]);
    out[i] = packed.back().first.mutable_data();
  }
  WEFT_TRY(loaded.executor->Run(index, in, out, nullptr, nullptr, &open));
  for (const auto& [small, array] : packed) {
    const Tensor wide = Widened(small);
    if (wide.bytes() == 0) continue;
    std::memcpy(array, wide.data(), static_cast<size_t>(wide.bytes()));
  }
  for (Tensor& tensor : open.outputs)
    if (SharesBytes(tensor.dtype())) tensor = Widened(tensor);
  return std::move(open.outputs);
}

Tensor TensorOf(const plan::Buffer& b, const std::variant<Input, Texts>& given) {
  if (const Input* array = std::get_if<Input>(&given)) {
    if (b.dtype == Dtype::kString)
      Raise(Usage("found an array, expected strings").At("input \"" + b.name + "\""));
    return Tensor::Borrow(WidenedType(b.dtype),
                          Shape(array->shape_ptr(), array->shape_ptr() + array->ndim()), nullptr,
                          array->data());
  }
  const auto& [shape, texts] = std::get<Texts>(given);
  if (b.dtype != Dtype::kString || ValueOrRaise(CountElems(shape)) != std::ssize(texts))
    Raise(Usage("found strings that do not fit").At("input \"" + b.name + "\""));
  Tensor tensor = ValueOrRaise(Tensor::Allocate(Dtype::kString, shape));
  for (size_t i = 0; i < texts.size(); ++i)
    tensor.strings()[i].assign(texts[i].c_str(), texts[i].size());
  return tensor;
}

// The bytes of a tensor, which they keep alive; of strings a list of the bytes of each.
nb::object BytesOf(const Tensor& tensor) {
  if (tensor.dtype() == Dtype::kString) {
    nb::list texts;
    for (const std::string& text : tensor.strings())
      texts.append(nb::bytes(text.data(), text.size()));
    return texts;
  }
  auto kept = std::make_unique<Tensor>(tensor);
  auto* bytes = const_cast<uint8_t*>(static_cast<const uint8_t*>(kept->data()));
  const nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const size_t count = tensor.raw().size();
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(bytes, {count}, owner));
}

// Arrays that Python has checked: type, shape, order. Gives (shape, bytes) of each output that the
// run makes itself, None for the others.
nb::list Run(Loaded& loaded, size_t index, const std::vector<std::variant<Input, Texts>>& inputs,
             const std::vector<Output>& outputs) {
  const plan::Specialization& s = loaded.plan().specializations.at(index);
  if (inputs.size() != s.inputs.size() || outputs.size() != s.outputs.size())
    Raise(Usage("found " + std::to_string(inputs.size()) + " inputs, expected " +
                std::to_string(s.inputs.size())));
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i)
    given.push_back(TensorOf(s.buffers[s.inputs[i].index], inputs[i]));
  std::vector<void*> out;
  for (const Output& array : outputs) out.push_back(array.data());
  auto run = [&] {
    const nb::gil_scoped_release release;
    const CancelOnInterrupt cancel(*loaded.executor);
    return RunWidened(loaded, index, std::move(given), std::move(out));
  }();
  if (PyErr_CheckSignals() != 0) throw nb::python_error();  // KeyboardInterrupt, usually
  const std::vector<Tensor> made = ValueOrRaise(std::move(run));
  nb::list list;
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    if (IsHeld(s.buffers[s.outputs[i].index]))
      list.append(nb::make_tuple(nb::tuple(nb::cast(made[i].shape())), BytesOf(made[i])));
    else
      list.append(nb::none());
  }
  return list;
}

}  // namespace
}  // namespace weft::python

NB_MODULE(_weft, m) {
  using namespace weft::python;
  BindComprehension(m);
  m.attr("version") = WEFT_VERSION;
  nb::class_<Loaded>(m, "Loaded")
      .def_prop_ro("name", [](const Loaded& l) { return l.plan().name; })
      .def_prop_ro("threads", [](const Loaded& l) { return l.executor->threads(); })
      .def_prop_ro("target", [](const Loaded& l) { return weft::Print(l.plan().target); })
      .def_prop_ro("specializations",
                   [](const Loaded& l) { return l.plan().specializations.size(); })
      .def("describe", &Describe)
      .def("steps", &Steps)
      .def("select", &Select)
      .def("run", &Run)
      .def("save", &Save)
      .def("cancel", [](Loaded& l) { l.executor->Cancel(); })
      .def("text", [](const Loaded& l) { return weft::plan::Print(l.plan()); });
  m.def(
      "build",
      [](std::string path, std::string target, int32_t threads, Shapes shapes,
         std::map<std::string, int64_t> dims, std::vector<NamedForm> forms,
         std::vector<NamedValue> values, double budget, std::optional<std::string> force,
         std::optional<std::string> cache_dir, std::string specialize) {
        return Build({std::move(path), std::move(target), threads, std::move(shapes),
                      std::move(dims), std::move(forms), std::move(values), budget,
                      std::move(force), std::move(cache_dir), std::move(specialize)});
      },
      nb::arg("path"), nb::arg("target"), nb::arg("threads"), nb::arg("shapes"), nb::arg("dims"),
      nb::arg("forms"), nb::arg("values"), nb::arg("budget"), nb::arg("force").none(),
      nb::arg("cache_dir").none(), nb::arg("specialize"));
  m.def("shape_inputs", &ShapeInputs, nb::arg("path"), nb::arg("shapes"), nb::arg("forms"));
  m.def("load", &Load, nb::arg("path"), nb::arg("threads"), nb::arg("cache_dir").none(),
        nb::arg("specialize"));
}
