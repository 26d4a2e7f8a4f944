#include "tests/fuzz/mutator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "graph/schema.h"

// Of libFuzzer; cmake/fuzz_replay.cpp has one of its own.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace weft::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A field of a message, set or not.
struct Place {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
};

// All that a model holds.
struct Inventory {
  std::vector<Place> set, unset;
  std::vector<std::string> strings;
};

void Collect(Message& message, Inventory& all) {
  const Reflection& r = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool is_string = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (field->is_repeated()) {
      const int size = r.FieldSize(message, field);
      (size > 0 ? all.set : all.unset).push_back({&message, field});
      for (int k = 0; k < size; ++k) {
        if (is_message) Collect(*r.MutableRepeatedMessage(&message, field, k), all);
        if (is_string) all.strings.push_back(r.GetRepeatedString(message, field, k));
      }
    } else if (r.HasField(message, field)) {
      all.set.push_back({&message, field});
      if (is_message) Collect(*r.MutableMessage(&message, field), all);
      if (is_string) all.strings.push_back(r.GetString(message, field));
    } else {
      all.unset.push_back({&message, field});
    }
  }
}

int64_t OtherInt(Random& random, int64_t old) {
  static constexpr int64_t kExtreme[] = {0,
                                         1,
                                         -1,
                                         2,
                                         INT32_MAX,
                                         INT32_MIN,
                                         int64_t{1} << 31,
                                         int64_t{1} << 32,
                                         INT64_MAX,
                                         INT64_MIN,
                                         1 << 16,
                                         1'000'000,
                                         int64_t{1} << 62};
  switch (random.Below(5)) {
    case 0:
      return random.Pick(kExtreme);
    case 1:
      return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
    case 2:
      return static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
    case 3:
      return static_cast<int64_t>(-static_cast<uint64_t>(old));
    default:
      return static_cast<int64_t>(random.Below(32)) - 4;
  }
}

double OtherFloat(Random& random, double old) {
  static constexpr double kExtreme[] = {0,     -0.0,  1,        -1,        1e38,
                                        -1e38, 1e-45, INFINITY, -INFINITY, NAN};
  return random.Chance(60) ? random.Pick(kExtreme) : random.Chance(50) ? -old : old * 2;
}

std::string OtherBytes(Random& random, std::string old) {
  switch (random.Below(4)) {
    case 0:
      return old.substr(0, random.Below(old.size() + 1));
    case 1:
      return old + std::string(1 + random.Below(8), '\1');
    case 2:
      return old + old;
    default:
      if (!old.empty()) old[random.Below(old.size())] = static_cast<char>(random.Below(256));
      return old;
  }
}

// Another of the model's strings most of the time: that is how an edge goes elsewhere.
std::string OtherString(Random& random, const FieldDescriptor& field, const std::string& old,
                        const Inventory& all) {
  if (field.type() == FieldDescriptor::TYPE_BYTES) return OtherBytes(random, old);
  static constexpr std::string_view kOdd[] = {"", "a\xFF", "-1", "..", "\t\x1B[1m"};
  if (field.name() == "op_type" && random.Chance(80)) {
    const std::string_view op = random.Pick(NodeRows()).op;
    return std::string(op.substr(op.find("::") == std::string_view::npos ? 0 : op.find("::") + 2));
  }
  if (random.Chance(85) && !all.strings.empty()) return random.Pick(all.strings);
  return random.Chance(50) ? std::string(random.Pick(kOdd)) : OtherBytes(random, old);
}

// Sets a scalar: a singular field, or element `at` of a repeated one.
void SetScalar(Random& random, const Place& place, int at, const Inventory& all) {
  Message* m = place.message;
  const FieldDescriptor* f = place.field;
  const Reflection& r = *m->GetReflection();
  const bool many = f->is_repeated();
#define WEFT_SET(Kind, change)                                                   \
  {                                                                              \
    const auto old = many ? r.GetRepeated##Kind(*m, f, at) : r.Get##Kind(*m, f); \
    const auto changed = static_cast<std::decay_t<decltype(old)>>(change);       \
    many ? r.SetRepeated##Kind(m, f, at, changed) : r.Set##Kind(m, f, changed);  \
    return;                                                                      \
  }
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      WEFT_SET(Int32, OtherInt(random, old))
    case FieldDescriptor::CPPTYPE_INT64:
      WEFT_SET(Int64, OtherInt(random, old))
    case FieldDescriptor::CPPTYPE_UINT32:
      WEFT_SET(UInt32, OtherInt(random, old))
    case FieldDescriptor::CPPTYPE_UINT64:
      WEFT_SET(UInt64, OtherInt(random, static_cast<int64_t>(old)))
    case FieldDescriptor::CPPTYPE_FLOAT:
      WEFT_SET(Float, OtherFloat(random, old))
    case FieldDescriptor::CPPTYPE_DOUBLE:
      WEFT_SET(Double, OtherFloat(random, old))
    case FieldDescriptor::CPPTYPE_BOOL:
      WEFT_SET(Bool, !old)
    case FieldDescriptor::CPPTYPE_STRING:
      WEFT_SET(String, OtherString(random, *f, old, all))
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value =
          f->enum_type()->value(static_cast<int>(random.Below(f->enum_type()->value_count())));
      many ? r.SetRepeatedEnum(m, f, at, value) : r.SetEnum(m, f, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
#undef WEFT_SET
}

void AddElement(const Place& place) {
  Message* m = place.message;
  const FieldDescriptor* f = place.field;
  const Reflection& r = *m->GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r.AddInt32(m, f, 0);
    case FieldDescriptor::CPPTYPE_INT64:
      return r.AddInt64(m, f, 0);
    case FieldDescriptor::CPPTYPE_UINT32:
      return r.AddUInt32(m, f, 0);
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.AddUInt64(m, f, 0);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return r.AddFloat(m, f, 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.AddDouble(m, f, 0);
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.AddBool(m, f, false);
    case FieldDescriptor::CPPTYPE_STRING:
      return r.AddString(m, f, "");
    case FieldDescriptor::CPPTYPE_ENUM:
      return r.AddEnum(m, f, f->enum_type()->value(0));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      r.AddMessage(m, f);
      return;
  }
}

// A copy of a message of the same type from anywhere in the model; null if there is none. What is
// changed with it may hold the original.
std::unique_ptr<Message> Another(Random& random, const Place& place, const Inventory& all) {
  std::vector<const Message*> found;
  for (const Place& other : all.set) {
    if (other.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        other.field->message_type() != place.field->message_type())
      continue;
    const Reflection& r = *other.message->GetReflection();
    if (!other.field->is_repeated()) {
      found.push_back(&r.GetMessage(*other.message, other.field));
    } else {
      for (int i = 0; i < r.FieldSize(*other.message, other.field); ++i)
        found.push_back(&r.GetRepeatedMessage(*other.message, other.field, i));
    }
  }
  if (found.empty()) return nullptr;
  const Message* picked = random.Pick(found);
  std::unique_ptr<Message> copy(picked->New());
  copy->CopyFrom(*picked);
  return copy;
}

void ChangeList(Random& random, const Place& place, const Inventory& all) {
  Message* m = place.message;
  const FieldDescriptor* f = place.field;
  const Reflection& r = *m->GetReflection();
  const bool messages = f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const int size = r.FieldSize(*m, f);
  const int at = static_cast<int>(random.Below(static_cast<size_t>(size)));
  const size_t way = size == 0 ? 3 : random.Below(5);
  if (way == 0) {  // drop
    for (int i = at; i + 1 < size; ++i) r.SwapElements(m, f, i, i + 1);
    r.RemoveLast(m, f);
  } else if (way == 1) {
    r.SwapElements(m, f, at, static_cast<int>(random.Below(static_cast<size_t>(size))));
  } else if (way == 2 && messages) {  // from elsewhere in the model
    if (const auto other = Another(random, place, all))
      r.MutableRepeatedMessage(m, f, at)->CopyFrom(*other);
  } else if (way == 3) {  // one more
    const auto other = messages ? Another(random, place, all) : nullptr;
    AddElement(place);
    if (other) r.MutableRepeatedMessage(m, f, size)->CopyFrom(*other);
    if (!messages) SetScalar(random, place, size, all);
    r.SwapElements(m, f, size, at);
  } else if (!messages) {
    SetScalar(random, place, at, all);
  }
}

void ChangeField(Random& random, const Place& place, const Inventory& all) {
  const Reflection& r = *place.message->GetReflection();
  if (place.field->is_repeated()) return ChangeList(random, place, all);
  const bool message = place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (r.HasField(*place.message, place.field) && random.Chance(message ? 40 : 10))
    return r.ClearField(place.message, place.field);
  if (!message) return SetScalar(random, place, 0, all);
  if (const auto other = Another(random, place, all))
    r.MutableMessage(place.message, place.field)->CopyFrom(*other);
}

std::vector<onnx::GraphProto*> Graphs(onnx::GraphProto& graph) {
  std::vector<onnx::GraphProto*> found = {&graph};
  for (auto& node : *graph.mutable_node())
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g())
        for (onnx::GraphProto* inner : Graphs(*attribute.mutable_g())) found.push_back(inner);
  return found;
}

// Both branches of an If do what the node did.
void IntoBranches(Random& random, onnx::GraphProto& graph) {
  if (graph.node_size() == 0) return;
  onnx::NodeProto& node = random.Pick(*graph.mutable_node());
  const onnx::NodeProto inner = node;
  node.Clear();
  node.set_op_type("If");
  node.add_input("condition");
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& branch = *node.add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->set_name(name);
    *branch.mutable_g()->add_node() = inner;
    for (const std::string& output : inner.output()) {
      if (node.output_size() < inner.output_size()) node.add_output(output);
      branch.mutable_g()->add_output()->set_name(output + "'");
    }
    for (std::string& output : *branch.mutable_g()->mutable_node(0)->mutable_output())
      output += "'";
  }
  const bool known = std::ranges::any_of(graph.initializer(),
                                         [](const auto& t) { return t.name() == "condition"; });
  if (!known) *graph.add_initializer() = RandomTensor(random, "bool[]", "condition");
}

}  // namespace

void Mutate(Random& random, onnx::ModelProto& model) {
  const size_t way = random.Below(100);
  std::vector<onnx::GraphProto*> graphs = Graphs(*model.mutable_graph());
  onnx::GraphProto& graph = *random.Pick(graphs);
  if (way < 12) return AddRandomNode(random, graph);
  if (way < 16) return IntoBranches(random, graph);
  if (way < 20 && model.opset_import_size() > 0)
    return model.mutable_opset_import(0)->set_version(
        1 + static_cast<int64_t>(random.Below(graph::kNewestOpset)));
  if (way < 23 && graph.node_size() > 0)  // a dead or unknown end
    return graph.mutable_node()->DeleteSubrange(static_cast<int>(random.Below(graph.node_size())),
                                                1);
  Inventory all;
  Collect(model, all);
  const bool is_set = !all.set.empty() && (random.Chance(85) || all.unset.empty());
  ChangeField(random, random.Pick(is_set ? all.set : all.unset), all);
}

}  // namespace weft::fuzz

// What libFuzzer calls in place of its own mutations, which it still makes one time in ten.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  weft::fuzz::Random random(seed);
  onnx::ModelProto model;
  if (random.Chance(10)) return LLVMFuzzerMutate(data, size, max_size);
  const bool fresh = random.Chance(2) || !model.ParseFromArray(data, static_cast<int>(size));
  if (fresh) model = weft::fuzz::RandomModel(random, 1 + static_cast<int>(random.Below(8)));
  for (size_t n = fresh ? random.Below(2) : 1 + random.Below(3); n > 0; --n)
    weft::fuzz::Mutate(random, model);
  const std::string bytes = model.SerializeAsString();
  if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::ranges::copy(bytes, data);
  return bytes.size();
}

// The nodes and what they name of one model, after those of the other.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other,
                                            size_t other_size, uint8_t* out, size_t max_size,
                                            unsigned) {
  onnx::ModelProto model, more;
  if (!model.ParseFromArray(data, static_cast<int>(size)) ||
      !more.ParseFromArray(other, static_cast<int>(other_size)))
    return 0;
  model.mutable_graph()->MergeFrom(more.graph());
  model.mutable_functions()->MergeFrom(more.functions());
  const std::string bytes = model.SerializeAsString();
  if (bytes.size() > max_size) return 0;
  std::ranges::copy(bytes, out);
  return bytes.size();
}
