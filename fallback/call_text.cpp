// The text form of a library call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "base/text.h"
#include "fallback/call.h"

namespace weft::fallback {
namespace {

constexpr int64_t kInPlace = 16;  // elements of a tensor that print where it stands

std::string FloatText(float value) { return PrintFloat(value); }

// Text holds neither the payload of a NaN, nor the upper half of u64, nor a bool that is neither 0
// nor 1.
bool HasText(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (IsFloat(tensor.dtype()) && std::isnan(ElemAsDouble(tensor, i))) return false;
    if (tensor.dtype() == Dtype::kU64 && tensor.as<uint64_t>()[i] > INT64_MAX) return false;
    if (tensor.dtype() == Dtype::kBool && tensor.as<uint8_t>()[i] > 1) return false;
  }
  return true;
}

std::string ElemText(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == Dtype::kString)
    return PrintString(tensor.strings()[static_cast<size_t>(i)]);
  if (tensor.dtype() == Dtype::kF64) return PrintFloat(tensor.as<double>()[i]);
  if (IsFloat(tensor.dtype())) return FloatText(static_cast<float>(ElemAsDouble(tensor, i)));
  return fmt::format("{}", ElemAsInt(tensor, i));
}

std::string TensorText(const Tensor& tensor, BlobStore& blobs) {
  std::string out = fmt::format("{}{} ", DtypeName(tensor.dtype()), weft::Print(tensor.shape()));
  const bool text = tensor.dtype() == Dtype::kString;
  if (!text && tensor.elems() > 0 && (tensor.elems() > kInPlace || !HasText(tensor))) {
    return out + fmt::format("blob({}, {} bytes)", blobs.Put(tensor), tensor.bytes());
  }
  out += "const(";
  for (int64_t i = 0; i < tensor.elems(); ++i) out += (i > 0 ? ", " : "") + ElemText(tensor, i);
  return out + ")";
}

template <typename T, typename Print>
std::string ListText(const std::vector<T>& items, std::string_view if_empty, Print print) {
  std::string out(items.empty() ? if_empty : "");
  out += "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? ", " : "") + print(items[i]);
  return out + "]";
}

struct AttributePrinter {
  BlobStore& blobs;
  std::string operator()(int64_t i) const { return fmt::format("{}", i); }
  std::string operator()(float f) const { return FloatText(f); }
  std::string operator()(const std::string& s) const { return PrintString(s); }
  std::string operator()(const Tensor& t) const { return TensorText(t, blobs); }
  std::string operator()(const std::vector<int64_t>& v) const { return ListText(v, "", *this); }
  std::string operator()(const std::vector<float>& v) const { return ListText(v, "f32", *this); }
  std::string operator()(const std::vector<std::string>& v) const {
    return ListText(v, "string", *this);
  }
};

std::string OperandText(const CallOperand& operand) {
  std::string out = PrintName(operand.role) + " = ";
  if (operand.value.empty()) return out + "_";
  out += fmt::format("{}: {}[", PrintName(operand.value), DtypeName(operand.dtype));
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    out += i > 0 ? ", " : "";
    out += operand.shape[i] < 0 ? "?" : fmt::format("{}", operand.shape[i]);
  }
  out += "] " + (operand.any_layout ? "any" : Print(operand.layout));
  return out + (operand.constant ? " const" : "");
}

std::string OperandsText(const std::vector<CallOperand>& operands) {
  std::string out = "(";
  for (size_t i = 0; i < operands.size(); ++i)
    out += (i > 0 ? ", " : "") + OperandText(operands[i]);
  return out + ")";
}

bool IsZero(float f) { return f == 0 && !std::signbit(f); }

std::string PostText(const PostOp& post) {
  std::string out = PrintName(post.kind);
  if (IsZero(post.alpha) && IsZero(post.beta)) return out;
  return out + fmt::format("({}, {})", FloatText(post.alpha), FloatText(post.beta));
}

class Parser {
 public:
  Parser(Lexer& lex, const BlobStore& blobs) : lex_(lex), blobs_(blobs) {}

  Result<LibraryCall> Call() {
    WEFT_TRY(Head());
    WEFT_TRY(Operands(call_.inputs));
    WEFT_TRY(lex_.Expect("->"));
    WEFT_TRY(Operands(call_.outputs));
    if (lex_.Accept("{")) WEFT_TRY(Braces());
    return std::move(call_);
  }

 private:
  // "onednn.matmul", which the lexer takes for one name.
  Status Head() {
    const Token at = lex_.Peek();
    WEFT_TRY(const std::string head, lex_.ExpectName());
    const size_t dot = head.find('.');
    for (Library library :
         {Library::kNative, Library::kOnednn, Library::kCudnn, Library::kCublas}) {
      if (dot == head.npos || LibraryName(library) != head.substr(0, dot)) continue;
      call_.library = library;
      call_.op = head.substr(dot + 1);
      return {};
    }
    return lex_.ErrorAt(at, fmt::format("found {}, expected a library and its operation, such as "
                                        "onednn.matmul",
                                        PrintString(head)));
  }

  // Calls item() for each of a list up to `close`, which is consumed.
  template <typename Item>
  Status List(std::string_view close, Item item) {
    for (bool first = true; !lex_.Accept(close); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      WEFT_TRY(item());
    }
    return {};
  }

  Status Operands(std::vector<CallOperand>& out) {
    WEFT_TRY(lex_.Expect("("));
    return List(")", [&]() -> Status {
      CallOperand operand;
      WEFT_TRY(operand.role, lex_.ExpectName());
      WEFT_TRY(lex_.Expect("="));
      if (!lex_.Accept("_")) WEFT_TRY(Typed(operand));
      out.push_back(std::move(operand));
      return {};
    });
  }

  Status Typed(CallOperand& operand) {
    WEFT_TRY(operand.value, lex_.ExpectName());
    WEFT_TRY(lex_.Expect(":"));
    WEFT_TRY(operand.dtype, lex_.ExpectDtype());
    WEFT_TRY(lex_.Expect("["));
    WEFT_TRY(List("]", [&]() -> Status {
      int64_t extent = -1;
      const Token at = lex_.Peek();
      if (!lex_.Accept("?")) {
        WEFT_TRY(extent, lex_.ExpectInt());
        if (extent < 0) return lex_.ErrorAt(at, fmt::format("extent {} is negative", extent));
      }
      operand.shape.push_back(extent);
      return {};
    }));
    WEFT_TRY(OneLayout(operand));
    operand.constant = lex_.Accept("const");
    return {};
  }

  Status OneLayout(CallOperand& operand) {
    operand.any_layout = lex_.Accept("any");
    operand.layout = Layout::Plain(operand.shape.size());
    if (operand.any_layout) return {};
    const Token at = lex_.Peek();
    std::string text;
    if (lex_.Accept("-")) {
      text = "-";
    } else {
      WEFT_TRY(text, lex_.ExpectName());
      if (lex_.Accept("+")) {
        WEFT_TRY(const uint64_t pad, lex_.ExpectUint());
        text += fmt::format("+{}", pad);
      }
    }
    auto layout = ParseLayout(text);
    if (!layout.ok()) return std::move(layout.status()).At(lex_.Where(at));
    operand.layout = *std::move(layout);
    return {};
  }

  Status Braces() {
    std::map<std::string, CallAttributeValue> attributes;
    WEFT_TRY(List("}", [&]() -> Status {
      const Token at = lex_.Peek();
      WEFT_TRY(std::string name, lex_.ExpectName());
      WEFT_TRY(lex_.Expect("="));
      if (name == "post" && at.kind == TokenKind::kName) return Posts();
      if (name == "from" && at.kind == TokenKind::kName) return Origins();
      WEFT_TRY(CallAttributeValue value, Value());
      if (!attributes.emplace(name, std::move(value)).second) {
        return lex_.ErrorAt(at, fmt::format("attribute {} is given twice", PrintString(name)));
      }
      return {};
    }));
    for (auto& [name, value] : attributes) call_.attributes.push_back({name, std::move(value)});
    return {};
  }

  Status Posts() {
    WEFT_TRY(lex_.Expect("["));
    return List("]", [&]() -> Status {
      PostOp post;
      WEFT_TRY(post.kind, lex_.ExpectName());
      if (lex_.Accept("(")) {
        WEFT_TRY(const double alpha, lex_.ExpectFloat());
        WEFT_TRY(lex_.Expect(","));
        WEFT_TRY(const double beta, lex_.ExpectFloat());
        WEFT_TRY(lex_.Expect(")"));
        post.alpha = static_cast<float>(alpha);
        post.beta = static_cast<float>(beta);
      }
      call_.post_ops.push_back(std::move(post));
      return {};
    });
  }

  Status Origins() {
    WEFT_TRY(lex_.Expect("["));
    return List("]", [&]() -> Status {
      WEFT_TRY(std::string origin, lex_.ExpectString());
      call_.origins.push_back(std::move(origin));
      return {};
    });
  }

  // An integer unless it has a point, an exponent or is called nan or inf.
  bool IsFloatNext() const {
    const Token& token = lex_.Peek(lex_.Is("-") ? 1 : 0);
    return token.kind == TokenKind::kFloat ||
           (token.kind == TokenKind::kName && (token.text == "nan" || token.text == "inf"));
  }

  Result<float> Float() {
    WEFT_TRY(const double value, lex_.ExpectFloat());
    return static_cast<float>(value);
  }

  Result<CallAttributeValue> Value() {
    if (lex_.Accept("[")) return Values();
    const Token& at = lex_.Peek();
    if (at.kind == TokenKind::kString) return CallAttributeValue(lex_.Next().text);
    if (IsFloatNext()) {
      WEFT_TRY(const float value, Float());
      return CallAttributeValue(value);
    }
    if (at.kind == TokenKind::kInt || lex_.Is("-")) {
      WEFT_TRY(const int64_t value, lex_.ExpectInt());
      return CallAttributeValue(value);
    }
    WEFT_TRY(const Dtype dtype, lex_.ExpectDtype());
    WEFT_TRY(Shape shape, lex_.ExpectShape());
    if (!lex_.Is("const") && !lex_.Is("blob") && shape.empty()) {  // f32[]: a list without elements
      if (dtype == Dtype::kString) return CallAttributeValue(std::vector<std::string>());
      return CallAttributeValue(std::vector<float>());
    }
    WEFT_TRY(Tensor tensor, TensorOf(dtype, std::move(shape)));
    return CallAttributeValue(std::move(tensor));
  }

  // Behind the bracket of a list, whose first element tells its type.
  Result<CallAttributeValue> Values() {
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> texts;
    const bool is_text = lex_.Peek().kind == TokenKind::kString, is_float = IsFloatNext();
    WEFT_TRY(List("]", [&]() -> Status {
      if (is_text) {
        WEFT_TRY(texts.emplace_back(), lex_.ExpectString());
      } else if (is_float) {
        WEFT_TRY(floats.emplace_back(), Float());
      } else {
        WEFT_TRY(ints.emplace_back(), lex_.ExpectInt());
      }
      return {};
    }));
    if (is_text) return CallAttributeValue(std::move(texts));
    if (is_float) return CallAttributeValue(std::move(floats));
    return CallAttributeValue(std::move(ints));
  }

  Result<Tensor> TensorOf(Dtype dtype, Shape shape) {
    const Token at = lex_.Peek();
    if (lex_.Accept("blob")) {
      WEFT_TRY(lex_.Expect("("));
      WEFT_TRY(const std::string hash, lex_.ExpectName());
      WEFT_TRY(lex_.Expect(","));
      WEFT_TRY(lex_.ExpectUint());
      WEFT_TRY(lex_.Expect("bytes"));
      WEFT_TRY(lex_.Expect(")"));
      auto tensor = blobs_.Get(hash, dtype, std::move(shape));
      if (!tensor.ok()) return std::move(tensor.status()).At(lex_.Where(at));
      return tensor;
    }
    WEFT_TRY(lex_.Expect("const"));
    WEFT_TRY(lex_.Expect("("));
    // Elements first: nothing is allocated that the text has not spelled out.
    std::vector<double> reals;
    std::vector<int64_t> ints;
    std::vector<std::string> texts;
    WEFT_TRY(List(")", [&]() -> Status {
      if (dtype == Dtype::kString) {
        WEFT_TRY(texts.emplace_back(), lex_.ExpectString());
      } else if (IsFloat(dtype)) {
        WEFT_TRY(reals.emplace_back(), lex_.ExpectFloat());
      } else {
        WEFT_TRY(ints.emplace_back(), lex_.ExpectInt());
      }
      return {};
    }));
    const auto count = static_cast<int64_t>(reals.size() + ints.size() + texts.size());
    auto elems = CountElems(shape);
    if (!elems.ok()) return std::move(elems.status()).At(lex_.Where(at));
    if (*elems != count) {
      return lex_.ErrorAt(at, fmt::format("found {} elements, expected {}", count, *elems));
    }
    Tensor tensor(dtype, std::move(shape));
    for (size_t i = 0; i < reals.size(); ++i) SetElem(tensor, static_cast<int64_t>(i), reals[i]);
    for (size_t i = 0; i < ints.size(); ++i) SetElemInt(tensor, static_cast<int64_t>(i), ints[i]);
    tensor.strings() = std::move(texts);
    return tensor;
  }

  Lexer& lex_;
  const BlobStore& blobs_;
  LibraryCall call_;
};

}  // namespace

std::string Print(const LibraryCall& call, BlobStore& blobs) {
  std::string out = PrintName(fmt::format("{}.{}", LibraryName(call.library), call.op));
  out += OperandsText(call.inputs) + " -> " + OperandsText(call.outputs);
  std::vector<std::string> braces;
  for (const CallAttribute& attribute : call.attributes) {
    const bool taken = attribute.name == "post" || attribute.name == "from";
    braces.push_back((taken ? PrintString(attribute.name) : PrintName(attribute.name)) + " = " +
                     std::visit(AttributePrinter{blobs}, attribute.value));
  }
  if (!call.post_ops.empty()) braces.push_back("post = " + ListText(call.post_ops, "", PostText));
  if (!call.origins.empty()) braces.push_back("from = " + ListText(call.origins, "", PrintString));
  if (!braces.empty()) out += fmt::format(" {{{}}}", fmt::join(braces, ", "));
  return out;
}

Result<LibraryCall> ParseCall(Lexer& lex, const BlobStore& blobs) {
  const Token at = lex.Peek();
  WEFT_TRY(LibraryCall call, Parser(lex, blobs).Call());
  if (Status status = Verify(call); !status.ok()) return lex.ErrorAt(at, status.ToString());
  return call;
}

Result<LibraryCall> ParseCall(std::string_view text, const std::string& file,
                              const BlobStore& blobs) {
  WEFT_TRY(Lexer lex, Lexer::Open(text, file));
  WEFT_TRY(LibraryCall call, ParseCall(lex, blobs));
  if (!lex.AtEnd()) return lex.Error("expected the end of the text");
  return call;
}

std::string CanonicalText(const LibraryCall& call) {
  LibraryCall copy = call;
  copy.origins.clear();
  std::map<std::string, std::string> places;  // by first appearance: x * x differs from x * y
  for (auto* list : {&copy.inputs, &copy.outputs}) {
    for (CallOperand& operand : *list) {
      if (operand.value.empty()) continue;
      operand.value =
          places.emplace(operand.value, fmt::format("v{}", places.size())).first->second;
    }
  }
  BlobStore blobs;
  return Print(copy, blobs);
}

}  // namespace weft::fallback
