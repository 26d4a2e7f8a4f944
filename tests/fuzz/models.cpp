#include "tests/fuzz/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "base/dtype.h"
#include "base/tensor.h"
#include "graph/schema.h"

namespace weft::fuzz {
namespace {

constexpr NodeRow kRows[] = {
#define WEFT_NODE(op, operands, results, attributes) {op, operands, results, attributes},
#include "tests/fuzz/nodes.def"
#undef WEFT_NODE
};

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <typename Number>
Number NumberOf(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "f32[2,_]": an element type and extents, -1 where one is open.
struct Type {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> extents;
};
Type TypeOf(std::string_view text) {
  const size_t bracket = text.find('[');
  Type type{.dtype = ParseDtype(text.substr(0, bracket)).value()};
  for (std::string_view extent : SplitAt(text.substr(bracket + 1, text.size() - bracket - 2), ','))
    type.extents.push_back(extent == "_" ? -1 : NumberOf<int64_t>(extent));
  return type;
}

// Of a constant, in which what is open is 2.
size_t Elements(const Type& type) {
  size_t count = 1;
  for (int64_t extent : type.extents) count *= static_cast<size_t>(extent < 0 ? 2 : extent);
  return count;
}

void SetTensorType(onnx::TypeProto& proto, std::string_view text) {
  const Type type = TypeOf(text);
  auto& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(DtypeToOnnx(type.dtype));
  tensor.mutable_shape();
  for (int64_t extent : type.extents) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (extent >= 0) dim.set_dim_value(extent);
  }
}

constexpr std::string_view kElement = "f32[2,3,4]";  // of sequences and optionals

onnx::ValueInfoProto InfoOf(const std::string& name, std::string_view type) {
  onnx::ValueInfoProto info;
  info.set_name(name);
  onnx::TypeProto& proto = *info.mutable_type();
  if (type == "seq")
    SetTensorType(*proto.mutable_sequence_type()->mutable_elem_type(), kElement);
  else if (type == "opt")
    SetTensorType(*proto.mutable_optional_type()->mutable_elem_type(), kElement);
  else
    SetTensorType(proto, type);
  return info;
}

// The type of a value as nodes.def would say it; empty where it can't, or where a constant of it
// would not be small.
std::string TextOf(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return type.has_sequence_type() ? "seq" : "";
  const auto dtype = DtypeFromOnnx(type.tensor_type().elem_type());
  if (!dtype) return "";
  int64_t elems = 1;
  std::string text(DtypeName(*dtype));
  for (const auto& dim : type.tensor_type().shape().dim()) {
    const int64_t extent = dim.has_dim_value() ? dim.dim_value() : 2;
    if (extent < 0 || extent > 4096) return "";
    elems *= extent;
    if (elems > 4096) return "";
    text += text.find('[') == std::string::npos ? "[" : ",";
    text += dim.has_dim_value() ? std::to_string(dim.dim_value()) : "_";
  }
  return text + (text.find('[') == std::string::npos ? "[]" : "]");
}

onnx::TensorProto TensorOf(const Type& type, const std::string& name,
                           std::span<const double> values) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(DtypeToOnnx(type.dtype));
  Shape shape;
  for (int64_t extent : type.extents) {
    shape.push_back(extent < 0 ? 2 : extent);
    proto.add_dims(shape.back());
  }
  if (type.dtype == Dtype::kString) {
    for (double value : values) proto.add_string_data(fmt::format("a{}b,", value));
    return proto;
  }
  Tensor tensor(type.dtype, shape);
  for (int64_t i = 0; i < tensor.elems(); ++i)
    if (IsCode(type.dtype))
      static_cast<uint8_t*>(tensor.mutable_data())[i] = static_cast<uint8_t>(values[i]) & 3;
    else if (IsFloat(type.dtype))
      SetElem(tensor, i, values[i]);
    else
      SetElemInt(tensor, i, static_cast<int64_t>(values[i]));
  proto.set_raw_data(tensor.data(), static_cast<size_t>(tensor.bytes()));
  return proto;
}

// `i64[2]=1,2`; those that it does not say are 0.
onnx::TensorProto ConstantOf(std::string_view text, const std::string& name) {
  const size_t equals = text.find('=');
  std::vector<double> values;
  for (std::string_view value : SplitAt(text.substr(equals + 1), ','))
    values.push_back(NumberOf<double>(value));
  const Type type = TypeOf(text.substr(0, equals));
  values.resize(Elements(type));
  return TensorOf(type, name, values);
}

// A graph that grows, with the types of the values that its nodes may read.
class Grower {
 public:
  Grower(Random& random, onnx::GraphProto& graph, const Grower* outer = nullptr)
      : random_(random), graph_(graph), outer_(outer) {
    if (outer) values_ = outer->values_;
    std::map<std::string, std::string> types;
    for (const auto& input : graph.input()) types[input.name()] = TextOf(input.type());
    for (const auto& info : graph.value_info()) types[info.name()] = TextOf(info.type());
    for (const auto& [name, type] : types)
      if (!type.empty()) values_.push_back({name, type});
  }

  // The values that the node gives.
  std::vector<std::string> Add(const NodeRow& row) {
    std::optional<std::string> star;  // the shape that * is
    onnx::NodeProto node;
    const size_t colon = row.op.find("::");
    node.set_op_type(std::string(colon == std::string::npos ? row.op : row.op.substr(colon + 2)));
    if (colon != std::string::npos) node.set_domain(std::string(row.op.substr(0, colon)));
    for (std::string_view operand : SplitAt(row.operands, ' ')) {
      if (operand.ends_with('*') && !star) star = AnyShape(operand.substr(0, operand.size() - 1));
      node.add_input(Operand(Typed(operand, star)));
    }
    for (std::string_view attribute : SplitAt(row.attributes, ' ')) SetAttribute(node, attribute);
    std::vector<std::string> names;
    std::vector<Named> results;
    const auto all = SplitAt(row.results, ' ');
    const graph::Schema* schema = node.domain().empty() ? graph::FindSchema(row.op) : nullptr;
    size_t least = all.size();
    if (schema && schema->max_outputs >= 0) least = std::max(schema->min_outputs, 1);
    const size_t count = least + random_.Below(all.size() - least + 1);
    for (size_t i = 0; i < count; ++i) {
      names.push_back(Fresh("v"));
      node.add_output(names.back());
      results.push_back({names.back(), Typed(all[i], star)});
    }
    *graph_.add_node() = node;
    for (Named& result : results) {
      *graph_.add_value_info() = InfoOf(result.name, result.type);
      values_.push_back(std::move(result));
    }
    return names;
  }

  void AddAny() { Add(random_.Pick(kRows)); }

  // Some of what nobody reads, and at least one value.
  void End() {
    std::vector<const Named*> free;
    for (const Named& value : values_) {
      bool read = false;
      for (const auto& node : graph_.node())
        read |= std::ranges::find(node.input(), value.name) != node.input().end();
      for (const auto& input : graph_.input()) read |= input.name() == value.name;
      if (!read) free.push_back(&value);
    }
    for (const Named* value : free)
      if (graph_.output().empty() || random_.Chance(80))
        *graph_.add_output() = InfoOf(value->name, value->type);
  }

 private:
  struct Named {
    std::string name, type;
  };

  // Other than any that a scope around has, as good as surely.
  std::string Fresh(std::string_view stem) {
    return fmt::format("{}{:x}", stem, random_.Below(size_t{1} << 32));
  }

  static std::string Typed(std::string_view text, const std::optional<std::string>& star) {
    return text.ends_with('*') ? fmt::format("{}{}", text.substr(0, text.size() - 1), *star)
                               : std::string(text);
  }

  std::string AnyShape(std::string_view dtype) {
    std::vector<std::string_view> shapes = {"[2,3,4]", "[4]", "[1,4,6,6]", "[4,4]", "[]", "[0,4]"};
    for (const Named& value : values_)
      if (value.type.starts_with(fmt::format("{}[", dtype)) &&
          value.type.find('_') == std::string::npos)
        shapes.push_back(std::string_view(value.type).substr(dtype.size()));
    return std::string(
        shapes[shapes.size() - 1 - random_.Below(std::min<size_t>(shapes.size(), 8))]);
  }

  std::string Operand(const std::string& type) {
    if (type == "_") return "";
    if (type.find('=') != std::string::npos) {
      *graph_.add_initializer() = ConstantOf(type, Fresh("c"));
      return graph_.initializer().rbegin()->name();
    }
    std::vector<const Named*> fit;
    for (const Named& value : values_)
      if (value.type == type) fit.push_back(&value);
    if (!fit.empty() && random_.Chance(85)) return random_.Pick(fit)->name;
    if (type == "seq" || type == "opt")
      return Add(RowOf(type == "seq" ? "SequenceConstruct" : "Optional"))[0];
    if (outer_ == nullptr && (random_.Chance(40) || type.find('_') != std::string::npos)) {
      *graph_.add_input() = InfoOf(Fresh("x"), type);
      values_.push_back({graph_.input().rbegin()->name(), type});
    } else {
      *graph_.add_initializer() = RandomTensor(random_, type, Fresh("c"));
      values_.push_back({graph_.initializer().rbegin()->name(), type});
    }
    return values_.back().name;
  }

  static const NodeRow& RowOf(std::string_view op) {
    return *std::ranges::find(kRows, op, &NodeRow::op);
  }

  // Reads a value of this type, and gives one of it.
  std::string Chain(const std::string& type) {
    std::string from = Operand(type);
    for (size_t steps = 1 + random_.Below(2); steps > 0; --steps) {
      static constexpr std::string_view kOps[] = {"Relu",  "Neg",      "Abs",
                                                  "Floor", "Identity", "Round"};
      onnx::NodeProto& node = *graph_.add_node();
      node.set_op_type(std::string(random_.Pick(kOps)));
      node.add_input(from);
      from = Fresh("v");
      node.add_output(from);
      *graph_.add_value_info() = InfoOf(from, type);
    }
    return from;
  }

  void Body(std::string_view op, const std::string& name, onnx::GraphProto& body) {
    body.set_name(name);
    Grower in(random_, body, this);
    const auto input = [&](const std::string& type) {
      *body.add_input() = InfoOf(in.Fresh("x"), type);
      in.values_.push_back({body.input().rbegin()->name(), type});
      return in.values_.back().name;
    };
    const auto output = [&](const std::string& value, const std::string& type) {
      *body.add_output() = InfoOf(value, type);
    };
    const std::string part = op == "Scan" ? "f32[3,4]" : std::string(kElement);
    if (op == "Loop") {
      input("i64[]");
      input("bool[]");
    }
    if (op != "If") input(part);
    if (op == "Scan") input(part);
    if (op == "Loop") {
      onnx::NodeProto& same = *body.add_node();
      same.set_op_type("Identity");
      same.add_input(body.input(1).name());
      same.add_output(in.Fresh("v"));
      output(same.output(0), "bool[]");
    }
    output(in.Chain(part), part);
    if (op == "Loop" || op == "Scan") output(in.Chain(part), part);
  }

  void SetAttribute(onnx::NodeProto& node, std::string_view text) {
    onnx::AttributeProto& a = *node.add_attribute();
    const size_t equals = text.find('=');
    a.set_name(std::string(text.substr(0, equals)));
    std::string_view value = text.substr(equals + 1);
    const auto inside = [](std::string_view v) { return v.substr(1, v.size() - 2); };
    if (value == "body") {
      a.set_type(onnx::AttributeProto::GRAPH);
      Body(node.op_type(), a.name(), *a.mutable_g());
    } else if (value.starts_with('[')) {
      for (std::string_view v : SplitAt(inside(value), ',')) {
        if (v.starts_with('\'')) {
          a.set_type(onnx::AttributeProto::STRINGS);
          a.add_strings(std::string(inside(v)));
        } else if (v.find('.') != std::string_view::npos) {
          a.set_type(onnx::AttributeProto::FLOATS);
          a.add_floats(NumberOf<float>(v));
        } else {
          a.set_type(onnx::AttributeProto::INTS);
          a.add_ints(NumberOf<int64_t>(v));
        }
      }
    } else if (value.starts_with('\'')) {
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(std::string(inside(value)));
    } else if (value.find('[') != std::string_view::npos) {
      a.set_type(onnx::AttributeProto::TENSOR);
      *a.mutable_t() = ConstantOf(value, "");
    } else if (value.find('.') != std::string_view::npos) {
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(NumberOf<float>(value));
    } else {
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(NumberOf<int64_t>(value));
    }
  }

  Random& random_;
  onnx::GraphProto& graph_;
  const Grower* outer_;
  std::vector<Named> values_;
};

onnx::ModelProto Empty() {
  onnx::ModelProto model;
  model.set_ir_version(11);
  for (const auto& [domain, version] : std::map<std::string, int64_t>{
           {"", graph::kNewestOpset}, {"ai.onnx.ml", 5}, {"com.microsoft", 1}, {"own", 1}}) {
    onnx::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  }
  model.mutable_graph()->set_name("g");
  return model;
}

// Makes a function of a node, and a call of it in its place.
void Outline(onnx::ModelProto& model, onnx::NodeProto& node) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name(fmt::format("F{}", model.functions_size()));
  function.set_domain("own");
  *function.mutable_opset_import() = model.opset_import();
  onnx::NodeProto& inner = *function.add_node();
  inner = node;
  node.Clear();
  node.set_op_type(function.name());
  node.set_domain("own");
  for (int i = 0; i < inner.input_size(); ++i) {
    node.add_input(inner.input(i));
    function.add_input(fmt::format("a{}", i));
    if (!inner.input(i).empty()) inner.set_input(i, function.input(i));
  }
  for (int i = 0; i < inner.output_size(); ++i) {
    node.add_output(inner.output(i));
    function.add_output(fmt::format("r{}", i));
    inner.set_output(i, function.output(i));
  }
}

bool HasBody(const onnx::NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const auto& a) { return a.has_g(); });
}

}  // namespace

std::span<const NodeRow> NodeRows() { return kRows; }

onnx::TensorProto RandomTensor(Random& random, std::string_view type, const std::string& name) {
  const Type t = TypeOf(type);
  std::vector<double> values;
  static constexpr double kExtreme[] = {-0.0, 1e30, -1e30, 1e-40, INFINITY, NAN};
  const bool extreme = IsFloat(t.dtype) && random.Chance(5);
  for (size_t i = 0; i < Elements(t); ++i)
    values.push_back(extreme && random.Chance(20) ? random.Pick(kExtreme)
                     : IsFloat(t.dtype)           ? (static_cast<double>(random.Below(33)) - 16) / 8
                                                  : static_cast<double>(random.Below(4)));
  return TensorOf(t, name, values);
}

onnx::ModelProto RandomModel(Random& random, int nodes) {
  onnx::ModelProto model = Empty();
  Grower grower(random, *model.mutable_graph());
  for (int i = 0; i < nodes; ++i) grower.AddAny();
  grower.End();
  if (random.Chance(15)) {
    onnx::NodeProto& node = random.Pick(*model.mutable_graph()->mutable_node());
    if (!HasBody(node)) Outline(model, node);
  }
  if (random.Chance(50)) model.mutable_graph()->clear_value_info();
  return model;
}

onnx::ModelProto ModelOfRow(Random& random, const NodeRow& row) {
  onnx::ModelProto model = Empty();
  Grower grower(random, *model.mutable_graph());
  grower.Add(row);
  grower.End();
  return model;
}

void AddRandomNode(Random& random, onnx::GraphProto& graph) { Grower(random, graph).AddAny(); }

}  // namespace weft::fuzz
