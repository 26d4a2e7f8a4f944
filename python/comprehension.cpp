// weft._weft.Comprehension: a call costs little over its kernels, so its arguments are read here.
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/nibbles.h"
#include "driver/comprehension.h"
#include "driver/tune_comprehension.h"
#include "python/common.h"

namespace weft::python {
namespace {

using Given = nb::ndarray<nb::ro, nb::device::cpu>;
using Taken = nb::ndarray<nb::device::cpu>;
using driver::Operand;
using driver::Parameter;

nb::dlpack::dtype TypeOf(Dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Float;
  if (dtype == Dtype::kBF16) code = Code::UInt;  // NumPy has no bfloat16: its bits
  if (KindOf(dtype) == DtypeKind::kBool) code = Code::Bool;
  if (KindOf(dtype) == DtypeKind::kUnsigned) code = Code::UInt;
  if (KindOf(dtype) == DtypeKind::kSigned) code = Code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * SizeBytes(dtype)), 1};
}

bool Has(const nb::dlpack::dtype& found, Dtype expected) {
  const nb::dlpack::dtype bfloat16{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
  return found == TypeOf(expected) || (expected == Dtype::kBF16 && found == bfloat16);
}

template <typename A>
Shape ShapeOf(const A& array) {
  Shape shape;
  for (size_t d = 0; d < array.ndim(); ++d) shape.push_back(static_cast<int64_t>(array.shape(d)));
  return shape;
}

template <typename A>
bool IsContiguous(const A& array) {
  int64_t stride = 1;
  bool is_contiguous = true;
  for (size_t d = array.ndim(); d-- > 0;) {
    const auto extent = static_cast<int64_t>(array.shape(d));
    if (extent == 0) return true;
    is_contiguous = is_contiguous && (extent == 1 || array.stride(d) == stride);
    stride *= extent;
  }
  return is_contiguous;
}

template <typename A>
bool IsAligned(const A& array) {
  return reinterpret_cast<uintptr_t>(array.data()) % (array.dtype().bits / 8) == 0;
}

// Elements in row-major order, whatever the strides are.
void CopyAxis(const Given& array, size_t axis, size_t size, const std::byte* from, std::byte*& to) {
  if (axis == array.ndim()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  const auto step = array.stride(axis) * static_cast<int64_t>(size);
  for (size_t i = 0; i < array.shape(axis); ++i, from += step)
    CopyAxis(array, axis + 1, size, from, to);
}

// One argument of a call: the array, which keeps its memory, or a copy of one with strides.
struct Argument {
  Given array;
  Tensor copy;
  const void* data = nullptr;
};

class Callable {
 public:
  Callable(std::unique_ptr<driver::Comprehension> def, std::string source)
      : def_(std::move(def)), source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  const std::string& name() const { return def_->def().name; }

  nb::object Call(const nb::args& args, const nb::kwargs& kwargs) {
    nb::object out;
    const std::vector<nb::handle> values = Order(args, kwargs, &out);
    std::vector<Argument> arguments;
    const std::vector<int64_t> sizes = Read(values, arguments);
    const std::vector<Taken> taken = out.is_valid() ? OutputsOf(out) : std::vector<Taken>();
    std::vector<Tensor> made;
    const auto sized = Unlocked([&]() -> Result<std::shared_ptr<driver::Specialized>> {
      WEFT_TRY(auto specialized, def_->At(sizes));
      WEFT_TRY(Run(*specialized, arguments, out.is_valid() ? &taken : nullptr, made));
      return specialized;
    });
    if (out.is_valid()) return out;
    nb::list results;
    for (Tensor& tensor : made) results.append(ToNumpy(Widened(std::move(tensor))));
    if (made.size() == 1) return results[0];
    return nb::tuple(results);
  }

  nb::dict Infer(const nb::args& args, const nb::kwargs& kwargs) const {
    std::map<std::string, Shape> shapes;
    std::map<std::string, int64_t> size_params;
    const std::vector<nb::handle> values = Order(args, kwargs, nullptr);
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& p = def_->parameters()[i];
      if (!values[i].is_valid()) continue;
      if (p.is_size)
        size_params[p.name] = SizeOf(p, values[i]);
      else
        shapes[p.name] = ExtentsOf(p, values[i]);
    }
    const auto found = Unlocked([&] { return def_->Infer(shapes, size_params); });
    nb::dict ranges, outputs, answer;
    for (const auto& [name, range] : found.inference.ranges)
      ranges[name.c_str()] = nb::make_tuple(range.lo, range.hi + 1);
    for (const Operand& o : found.outputs)
      outputs[o.name.c_str()] =
          nb::make_tuple(std::string(DtypeName(o.dtype)), nb::tuple(nb::cast(o.shape)));
    answer["def"] = name();
    answer["ranges"] = ranges;
    answer["outputs"] = outputs;
    answer["preconditions"] = nb::cast(found.inference.preconditions);
    return answer;
  }

  // (group, choice, µs of the best, µs of the first) each.
  nb::list Tune(const nb::args& args, const nb::kwargs& kwargs) {
    double budget_s = 5;
    nb::dict named;
    for (const auto& [key, value] : kwargs)
      if (nb::cast<std::string>(key) == "budget")
        budget_s = nb::cast<double>(value);
      else
        named[key] = value;
    std::vector<Argument> arguments;
    const std::vector<int64_t> sizes =
        Read(Order(args, nb::borrow<nb::kwargs>(named), nullptr), arguments);
    std::vector<const void*> in;
    for (const Argument& a : arguments) in.push_back(a.data);
    const auto tuned =
        Unlocked([&] { return driver::TuneComprehension(*def_, sizes, in, budget_s); });
    nb::list list;
    for (const driver::TunedGroup& g : tuned)
      list.append(nb::make_tuple(g.name, g.choice, g.trials, g.best_us, g.start_us));
    return list;
  }

  nb::list Parameters() const {
    nb::list list;
    for (const Parameter& p : def_->parameters())
      list.append(
          nb::make_tuple(p.name, p.is_size ? "size" : std::string(DtypeName(p.dtype)),
                         p.is_size ? nb::object(nb::none()) : nb::object(nb::cast(p.rank))));
    return list;
  }

 private:
  Status Wrong(const Parameter& p, const std::string& found, const std::string& expected) const {
    return Usage("found " + found + " for '" + p.name + "', expected " + expected).At(p.where);
  }

  static std::string TypeNameOf(nb::handle value) {
    return nb::cast<std::string>(nb::object(value.type().attr("__name__")));
  }

  // By parameter: positional, then named. Without `out` (inference) some may be missing.
  std::vector<nb::handle> Order(const nb::args& args, const nb::kwargs& kwargs,
                                nb::object* out) const {
    const std::vector<Parameter>& parameters = def_->parameters();
    if (args.size() > parameters.size())
      Raise(Usage("found " + std::to_string(args.size()) + " arguments, '" + name() + "' takes " +
                  std::to_string(parameters.size()))
                .At(def_->where()));
    std::vector<nb::handle> values(parameters.size());
    for (size_t i = 0; i < args.size(); ++i) values[i] = args[i];
    for (const auto& [key, value] : kwargs) {
      const auto given = nb::cast<std::string>(key);
      if (out && given == "out") {
        if (!value.is_none()) *out = nb::borrow(value);
        continue;
      }
      const auto it = std::ranges::find(parameters, given, &Parameter::name);
      if (it == parameters.end())
        Raise(Usage("'" + name() + "' has no parameter '" + given + "'").At(def_->where()));
      nb::handle& slot = values[static_cast<size_t>(it - parameters.begin())];
      if (slot.is_valid())
        Raise(Usage("the parameter '" + given + "' is given twice").At(it->where));
      slot = value;
    }
    return values;
  }

  int64_t SizeOf(const Parameter& p, nb::handle value) const {
    int64_t size = 0;
    if (!nb::try_cast(value, size)) Raise(Wrong(p, TypeNameOf(value), "an integer"));
    return size;
  }

  Shape ExtentsOf(const Parameter& p, nb::handle value) const {
    Shape shape;
    const nb::object extents =
        nb::hasattr(value, "shape") ? nb::object(value.attr("shape")) : nb::borrow(value);
    if (!nb::try_cast(extents, shape)) Raise(Wrong(p, TypeNameOf(value), "a shape or an array"));
    return shape;
  }

  // The extents of tensors and the values of sizes, and the tensors.
  std::vector<int64_t> Read(const std::vector<nb::handle>& values,
                            std::vector<Argument>& arguments) const {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& p = def_->parameters()[i];
      if (!values[i].is_valid())
        Raise(Usage(std::string("the ") + (p.is_size ? "size" : "input") + " '" + p.name +
                    "' is not given")
                  .At(p.where));
      if (p.is_size) {
        sizes.push_back(SizeOf(p, values[i]));
        continue;
      }
      arguments.push_back(ArgumentOf(p, values[i]));
      const Given& array = arguments.back().array;
      for (size_t d = 0; d < array.ndim(); ++d)
        sizes.push_back(static_cast<int64_t>(array.shape(d)));
    }
    return sizes;
  }

  Argument ArgumentOf(const Parameter& p, nb::handle value) const {
    Argument argument;
    if (!nb::try_cast(value, argument.array)) {
      // Numbers, NumPy's scalars, other byte orders, bfloat16 of ml_dtypes.
      const nb::object converted = nb::module_::import_("weft._comprehension")
                                       .attr("native")(value, std::string(DtypeName(p.dtype)));
      const std::string type(DtypeName(p.dtype));
      if (converted.is_none() &&
          (nb::isinstance<nb::int_>(value) || nb::isinstance<nb::float_>(value)))
        Raise(Wrong(p, nb::cast<std::string>(nb::str(value)), "a number of " + type));
      if (converted.is_none() || !nb::try_cast(converted, argument.array))
        Raise(Wrong(p, TypeNameOf(value), "an array of " + type + " in host memory"));
    }
    const Given& array = argument.array;
    if (!Has(array.dtype(), p.dtype))
      Raise(Wrong(p, "elements of " + NameOf(array.dtype()), std::string(DtypeName(p.dtype))));
    if (array.ndim() != p.rank)
      Raise(Wrong(p, "rank " + std::to_string(array.ndim()), std::to_string(p.rank)));
    argument.data = array.data();
    if (SharesBytes(p.dtype)) {  // a byte each in NumPy
      Tensor wide = ValueOrRaise(Tensor::Allocate(WidenedType(p.dtype), ShapeOf(array)));
      auto* to = static_cast<std::byte*>(wide.mutable_data());
      CopyAxis(array, 0, 1, static_cast<const std::byte*>(array.data()), to);
      auto small = Narrowed(wide, p.dtype);
      if (!small.ok()) Raise(std::move(small.status()).At(p.where));
      argument.copy = *std::move(small);
      argument.data = argument.copy.data();
      return argument;
    }
    if (!IsContiguous(array) || !IsAligned(array)) {
      argument.copy = ValueOrRaise(Tensor::Allocate(p.dtype, ShapeOf(array)));
      auto* to = static_cast<std::byte*>(argument.copy.mutable_data());
      CopyAxis(array, 0, static_cast<size_t>(SizeBytes(p.dtype)),
               static_cast<const std::byte*>(array.data()), to);
      argument.data = argument.copy.data();
    }
    return argument;
  }

  static std::string NameOf(const nb::dlpack::dtype& type) {
    constexpr const char* kNames[] = {"i", "u", "f", "?", "bf", "c", "bool"};
    const std::string bits = type.code == 6 ? "" : std::to_string(type.bits);
    return (type.code < std::size(kNames) ? kNames[type.code] : "?") + bits;
  }

  std::vector<Taken> OutputsOf(const nb::object& out) const {
    std::vector<Taken> taken;
    const auto add = [&](nb::handle value) {
      Taken array;
      if (!nb::try_cast(value, array))
        Raise(Usage("found " + TypeNameOf(value) + " for out, expected arrays that can be written")
                  .At(def_->where()));
      taken.push_back(std::move(array));
    };
    if (nb::isinstance<nb::tuple>(out) || nb::isinstance<nb::list>(out))
      for (const nb::handle value : out) add(value);
    else
      add(out);
    return taken;
  }

  // Checks the outputs that are given, or makes them, and runs.
  Status Run(driver::Specialized& specialized, const std::vector<Argument>& arguments,
             const std::vector<Taken>* taken, std::vector<Tensor>& made) const {
    const std::vector<Operand>& outputs = specialized.outputs();
    if (taken && taken->size() != outputs.size())
      return Usage("found " + std::to_string(taken->size()) + " arrays for out, expected " +
                   std::to_string(outputs.size()))
          .At(def_->where());
    std::vector<const void*> in;
    for (const Argument& a : arguments) in.push_back(a.data);
    std::vector<void*> out;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Operand& o = outputs[i];
      if (!taken) {
        WEFT_TRY(Tensor tensor, Tensor::AllocateUnset(o.dtype, o.shape));
        made.push_back(std::move(tensor));
        out.push_back(made.back().mutable_data());
        continue;
      }
      if (SharesBytes(o.dtype))
        return Unsupported("out for '" + o.name + "', whose elements have four bits")
            .At(def_->where());
      const Taken& array = (*taken)[i];
      const Shape shape = ShapeOf(array);
      const bool is_plain = IsContiguous(array) && IsAligned(array);
      if (!Has(array.dtype(), o.dtype) || shape != o.shape || !is_plain)
        return Usage("found " + NameOf(array.dtype()) + weft::Print(shape) +
                     (is_plain ? "" : " with strides or out of line") + " for the output '" +
                     o.name + "', expected " + std::string(DtypeName(o.dtype)) +
                     weft::Print(o.shape))
            .At(def_->where());
      out.push_back(array.data());
    }
    return specialized.Run(in, out);
  }

  static nb::object ToNumpy(Tensor tensor) {
    auto owner = std::make_unique<Tensor>(std::move(tensor));
    const nb::dlpack::dtype type = TypeOf(owner->dtype());
    std::vector<size_t> shape(owner->shape().begin(), owner->shape().end());
    void* data = owner->mutable_data();  // no copy: nobody shares it
    const nb::capsule capsule(owner.get(),
                              [](void* p) noexcept { delete static_cast<Tensor*>(p); });
    (void)owner.release();  // is the capsule's
    return nb::cast(
        nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), capsule, nullptr, type));
  }

  std::unique_ptr<driver::Comprehension> def_;
  std::string source_;
};

std::unique_ptr<Callable> Open(const std::string& text, const std::string& file,
                               const std::string& entry, const std::string& target, int32_t threads,
                               const std::optional<std::string>& choices,
                               const std::optional<std::string>& cache_dir) {
  driver::ComprehensionOptions options;
  if (Status status = driver::SetTarget(target, options); !status.ok()) Raise(status);
  if (threads < 0 || threads > 4096)
    Raise(Usage("threads: found " + std::to_string(threads) + ", expected 1 to 4096"));
  if (threads > 0) options.target.threads = threads;
  options.cache = OpenCache(cache_dir);
  if (choices)
    for (auto& choice : ValueOrRaise(polyhedral::ParseChoices(*choices, "choices")))
      options.choices[choice.group] = std::move(choice);
  auto def = ValueOrRaise(driver::Comprehension::Open(text, file, entry, std::move(options)));
  return std::make_unique<Callable>(std::move(def), text);
}

}  // namespace

void BindComprehension(nb::module_& m) {
  nb::class_<Callable>(m, "Comprehension")
      .def_prop_ro("source", &Callable::source)
      .def_prop_ro("name", &Callable::name)
      .def("parameters", &Callable::Parameters)
      .def("__call__", &Callable::Call)
      .def("infer", &Callable::Infer)
      .def("tune", &Callable::Tune);
  m.def("open_comprehension", &Open, nb::arg("text"), nb::arg("file"), nb::arg("entry"),
        nb::arg("target"), nb::arg("threads"), nb::arg("choices").none(),
        nb::arg("cache_dir").none());
}

}  // namespace weft::python
