#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "plan/plan.h"

namespace weft::plan {
namespace {

constexpr std::string_view kBufferKinds[] = {"input",   "output",  "weight", "arena",
                                             "bounded", "dynamic", "alias"};
constexpr std::string_view kControls[] = {"stage", "branch", "repeat"};

class Parser {
 public:
  Parser(Lexer lexer, std::string file, const BlobStore& blobs)
      : lexer_(std::move(lexer)), file_(std::move(file)), blobs_(blobs) {}

  Result<Plan> Run() {
    WEFT_TRY(lexer_.Expect("plan"));
    WEFT_TRY(plan_.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect("for"));
    const Token at = lexer_.Peek();
    WEFT_TRY(std::string text, lexer_.ExpectString());
    auto target = ParseTarget(text);
    if (!target.ok()) return lexer_.ErrorAt(at, target.status().what());
    plan_.target = *target;
    WEFT_TRY(lexer_.Expect("{"));
    WEFT_TRY(Provenance());
    while (lexer_.Accept("kernel")) WEFT_TRY(OneKernel());
    while (lexer_.Accept("specialization")) WEFT_TRY(OneSpecialization());
    WEFT_TRY(lexer_.Expect("}"));
    if (!lexer_.AtEnd()) return lexer_.Error("expected the end of the text");
    plan_.blobs = blobs_;
    return std::move(plan_);
  }

 private:
  Status Provenance() {
    WEFT_TRY(lexer_.Expect("model"));
    WEFT_TRY(plan_.model_hash, lexer_.ExpectString());
    WEFT_TRY(lexer_.Expect("versions"));
    WEFT_TRY(plan_.weft, lexer_.ExpectString());
    WEFT_TRY(plan_.codegen, lexer_.ExpectString());
    WEFT_TRY(plan_.libraries, lexer_.ExpectString());
    WEFT_TRY(lexer_.Expect("prices"));
    return Measured(plan_.measured);
  }

  Status Measured(bool& measured) {
    measured = lexer_.Accept("measured");
    return measured ? Status() : lexer_.Expect("estimated");
  }

  Result<int64_t> Count() {
    const Token at = lexer_.Peek();
    WEFT_TRY(int64_t n, lexer_.ExpectInt());
    if (n < 0)
      return lexer_.ErrorAt(at, fmt::format("found {}, expected a number that is not negative", n));
    return n;
  }

  // blob(HASH, N bytes); hashes may begin with a digit, so they are quoted when printed as names.
  Status Blob(std::string& hash, int64_t& bytes) {
    WEFT_TRY(lexer_.Expect("blob"));
    WEFT_TRY(lexer_.Expect("("));
    WEFT_TRY(hash, lexer_.ExpectString());
    WEFT_TRY(lexer_.Expect(","));
    WEFT_TRY(bytes, Count());
    WEFT_TRY(lexer_.Expect("bytes"));
    return lexer_.Expect(")");
  }

  // A text that lies among the blobs, however often it is named.
  Result<std::shared_ptr<const std::string>> Text() {
    std::string hash;
    int64_t bytes = 0;
    WEFT_TRY(Blob(hash, bytes));
    WEFT_TRY(Tensor blob, blobs_.Get(hash, Dtype::kU8, {bytes}));
    std::shared_ptr<const std::string>& text = texts_[hash];
    if (!text)
      text = std::make_shared<const std::string>(blob.as<char>(), static_cast<size_t>(bytes));
    return text;
  }

  Status Scratch(Kernel& k) {
    WEFT_TRY(lexer_.Expect("rank_scratch"));
    WEFT_TRY(k.rank_scratch_bytes, Count());
    WEFT_TRY(lexer_.Expect("team_scratch"));
    WEFT_TRY(k.team_scratch_bytes, Count());
    return {};
  }

  Status Extents(std::array<int64_t, 3>& extents) {
    for (size_t i = 0; i < extents.size(); ++i) {
      WEFT_TRY(lexer_.Expect(i == 0 ? "[" : ","));
      WEFT_TRY(extents[i], Count());
    }
    return lexer_.Expect("]");
  }

  Status Launch(CudaLaunch& launch) {
    WEFT_TRY(lexer_.Expect("grid"));
    WEFT_TRY(Extents(launch.grid));
    WEFT_TRY(lexer_.Expect("block"));
    WEFT_TRY(Extents(launch.block));
    WEFT_TRY(lexer_.Expect("shared"));
    WEFT_TRY(launch.shared_bytes, Count());
    WEFT_TRY(lexer_.Expect("scratch"));
    WEFT_TRY(launch.scratch_bytes, Count());
    return {};
  }

  Status Launches(CudaLaunch& launch) {
    WEFT_TRY(Launch(launch));
    while (lexer_.Accept("then")) WEFT_TRY(Launch(launch.then.emplace_back()));
    if (lexer_.Accept("of_grid")) {
      WEFT_TRY(launch.grid_bytes, Count());
    }
    return {};
  }

  Status OneKernel() {
    Kernel k;
    WEFT_TRY(k.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect("key"));
    WEFT_TRY(k.key, lexer_.ExpectString());
    WEFT_TRY(plan_.target.kind == TargetKind::kCuda ? Launches(k.launch.emplace()) : Scratch(k));
    WEFT_TRY(lexer_.Expect("loops"));
    WEFT_TRY(const auto loops, Text());
    if (!nests_.insert(loops.get()).second)  // which has a name of its own
      return lexer_.Error(fmt::format("kernel {} has another one's nest", PrintString(k.name)));
    k.loops = *loops;
    if (!kernels_.emplace(k.name, KernelId(plan_.kernels.size())).second)
      return lexer_.Error(fmt::format("two kernels are called {}", PrintString(k.name)));
    plan_.kernels.push_back(std::move(k));
    return {};
  }

  // Operand lists come before the buffers they name are known, so names are resolved at the end. A
  // bare underscore is an absent operand; a buffer of that name is quoted.
  Result<std::vector<Token>> Names() {
    std::vector<Token> names;
    WEFT_TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!names.empty()) WEFT_TRY(lexer_.Expect(","));
      names.push_back(lexer_.Peek());
      WEFT_TRY(names.back().text, lexer_.ExpectName());
    }
    return names;
  }

  Result<std::vector<BufferId>> Resolve(const std::vector<Token>& names) {
    std::vector<BufferId> ids;
    for (const Token& name : names) {
      const bool absent = name.kind == TokenKind::kName && name.text == "_";
      const auto it = buffers_.find(name.text);
      if (!absent && it == buffers_.end())
        return lexer_.ErrorAt(name, fmt::format("no buffer is called {}", PrintString(name.text)));
      ids.push_back(absent ? BufferId() : it->second);
    }
    return ids;
  }

  Status OneSpecialization() {
    s_ = {};
    buffers_.clear();
    extents_.clear();
    WEFT_TRY(auto inputs, Names());
    WEFT_TRY(lexer_.Expect("->"));
    WEFT_TRY(auto outputs, Names());
    WEFT_TRY(lexer_.Expect("arena"));
    WEFT_TRY(s_.arena_bytes, Count());
    WEFT_TRY(lexer_.Expect("{"));
    while (!lexer_.Accept("}")) {
      if (lexer_.Accept("extent")) {
        WEFT_TRY(std::string name, lexer_.ExpectName());
        if (!extents_.emplace(name, std::ssize(s_.extents)).second)
          return lexer_.Error(fmt::format("two extents are called {}", PrintString(name)));
        s_.extents.push_back(std::move(name));
      } else if (lexer_.Accept("buffer")) {
        WEFT_TRY(OneBuffer());
      } else {
        WEFT_TRY(lexer_.Expect("step"));
        WEFT_TRY(OneStep());
      }
    }
    WEFT_TRY(s_.inputs, Resolve(inputs));
    WEFT_TRY(s_.outputs, Resolve(outputs));
    plan_.specializations.push_back(std::move(s_));
    return {};
  }

  Result<Shape> SymbolicShape() {
    Shape shape;
    WEFT_TRY(lexer_.Expect("["));
    while (!lexer_.Accept("]")) {
      if (!shape.empty()) WEFT_TRY(lexer_.Expect(","));
      if (lexer_.Peek().kind == TokenKind::kInt) {
        WEFT_TRY(int64_t extent, Count());
        shape.push_back(extent);
        continue;
      }
      WEFT_TRY(std::string name, lexer_.ExpectName());
      const auto it = extents_.find(name);
      if (it == extents_.end())
        return lexer_.Error(fmt::format("no extent is called {}", PrintString(name)));
      shape.push_back(-1 - it->second);
    }
    if (shape.size() > Layout::kMaxRank)
      return lexer_.Error(fmt::format("a rank of {}", shape.size()));
    return shape;
  }

  Status OneBuffer() {
    Buffer b;
    WEFT_TRY(b.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect(":"));
    WEFT_TRY(b.dtype, lexer_.ExpectDtype());
    if (!lexer_.Is("dynamic")) {
      WEFT_TRY(b.shape, SymbolicShape());
    }
    b.layout = Layout::Plain(b.shape.size());
    if (lexer_.Accept("layout")) {
      WEFT_TRY(std::string text, lexer_.ExpectString());
      WEFT_TRY(b.layout, ParseLayout(text));
    }
    WEFT_TRY(std::string kind, lexer_.ExpectName());
    size_t k = 0;
    while (k < std::size(kBufferKinds) && kBufferKinds[k] != kind) ++k;
    if (k == std::size(kBufferKinds))
      return lexer_.Error(fmt::format("unknown kind of buffer {}", PrintString(kind)));
    b.kind = static_cast<BufferKind>(k);
    if (b.kind == BufferKind::kDynamic && !b.shape.empty())
      return lexer_.Error("found a shape of a dynamic buffer, expected none");
    int64_t blob_bytes = -1;
    WEFT_TRY(BufferPlace(b, blob_bytes));
    WEFT_TRY(lexer_.Expect("live"));
    WEFT_TRY(int64_t first, Count());
    WEFT_TRY(lexer_.Expect(":"));
    WEFT_TRY(int64_t last, Count());
    if (first > INT32_MAX || last > INT32_MAX)
      return lexer_.Error("a lifetime is longer than any plan");
    b.first_step = static_cast<int32_t>(first);
    b.last_step = static_cast<int32_t>(last);
    WEFT_TRY(b.bytes, BufferBytes(b));
    if (blob_bytes >= 0 && blob_bytes != b.bytes)
      return lexer_.Error(
          fmt::format("a blob of {} bytes for {} of {}", blob_bytes, PrintString(b.name), b.bytes));
    if (!buffers_.emplace(b.name, BufferId(s_.buffers.size())).second)
      return lexer_.Error(fmt::format("two buffers are called {}", PrintString(b.name)));
    s_.buffers.push_back(std::move(b));
    return {};
  }

  Status BufferPlace(Buffer& b, int64_t& blob_bytes) {
    if (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded) {
      WEFT_TRY(lexer_.Expect("at"));
      WEFT_TRY(b.offset, Count());
    } else if (b.kind == BufferKind::kWeight && lexer_.Is("blob")) {
      WEFT_TRY(Blob(b.blob, blob_bytes));
    } else if (b.kind == BufferKind::kAlias) {
      WEFT_TRY(lexer_.Expect("of"));
      WEFT_TRY(std::string name, lexer_.ExpectName());
      const auto it = buffers_.find(name);
      if (it == buffers_.end())
        return lexer_.Error(fmt::format("no earlier buffer is called {}", PrintString(name)));
      b.alias = it->second;
    }
    return {};
  }

  Status OneStep() {
    Step step;
    WEFT_TRY(std::string kind, lexer_.ExpectName());
    size_t k = 0;
    while (k < 5 && StepKindName(static_cast<StepKind>(k)) != kind) ++k;
    if (k == 5) return lexer_.Error(fmt::format("unknown kind of step {}", PrintString(kind)));
    step.kind = static_cast<StepKind>(k);
    WEFT_TRY(step.name, lexer_.ExpectName());
    if (step.kind == StepKind::kOwn) {
      WEFT_TRY(lexer_.Expect("kernel"));
      WEFT_TRY(std::string kernel, lexer_.ExpectName());
      const auto it = kernels_.find(kernel);
      if (it == kernels_.end())
        return lexer_.Error(fmt::format("no kernel is called {}", PrintString(kernel)));
      step.kernel = it->second;
    }
    WEFT_TRY(auto inputs, Names());
    WEFT_TRY(step.inputs, Resolve(inputs));
    WEFT_TRY(lexer_.Expect("->"));
    WEFT_TRY(auto outputs, Names());
    WEFT_TRY(step.outputs, Resolve(outputs));
    if (lexer_.Accept("params")) {
      WEFT_TRY(auto params, Names());
      for (Token& param : params) step.params.push_back(std::move(param.text));
    }
    WEFT_TRY(lexer_.Expect("us"));
    WEFT_TRY(step.us, lexer_.ExpectFloat());
    WEFT_TRY(Measured(step.measured));
    if (lexer_.Accept("flops")) {
      WEFT_TRY(step.flops, Count());
      WEFT_TRY(lexer_.Expect("bytes"));
      WEFT_TRY(step.bytes, Count());
    }
    WEFT_TRY(StepNodes(step));
    if (step.kind == StepKind::kVendor || step.kind == StepKind::kNative) {
      WEFT_TRY(lexer_.Expect("call"));
      WEFT_TRY(step.call, fallback::ParseCall(lexer_, blobs_));
    }
    if (step.kind == StepKind::kPlan) WEFT_TRY(OneNested(step.nested));
    s_.steps.push_back(std::move(step));
    return {};
  }

  Status OneNested(Nested& nested) {
    WEFT_TRY(std::string control, lexer_.ExpectName());
    size_t k = 0;
    while (k < std::size(kControls) && kControls[k] != control) ++k;
    if (k == std::size(kControls))
      return lexer_.Error(
          fmt::format("found {}, expected stage, branch or repeat", PrintString(control)));
    nested.control = static_cast<Control>(k);
    if (nested.control == Control::kRepeat) {
      WEFT_TRY(lexer_.Expect("states"));
      WEFT_TRY(nested.states, Count());
    }
    while (lexer_.Is("blob")) {
      WEFT_TRY(nested.graphs.emplace_back(), Text());
    }
    return {};
  }

  Status StepNodes(Step& step) {
    WEFT_TRY(lexer_.Expect("nodes"));
    WEFT_TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!step.nodes.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(std::string node, lexer_.ExpectString());
      step.nodes.push_back(std::move(node));
    }
    return {};
  }

  Lexer lexer_;
  std::string file_;
  const BlobStore& blobs_;
  Plan plan_;
  Specialization s_;
  std::map<std::string, std::shared_ptr<const std::string>> texts_;  // by hash
  std::set<const std::string*> nests_;                               // of kernels
  std::map<std::string, KernelId> kernels_;
  std::map<std::string, BufferId> buffers_;
  std::map<std::string, int64_t> extents_;
};

}  // namespace

std::string KernelKey(const Kernel& kernel, Isa isa, std::string_view codegen) {
  std::string needs = fmt::format("{} {} {}", static_cast<int>(isa), kernel.rank_scratch_bytes,
                                  kernel.team_scratch_bytes);
  if (kernel.launch)
    for (const CudaLaunch* l : kernel.launch->All())
      needs += fmt::format(" {} {} {} {} {}", l->grid, l->block, l->shared_bytes, l->scratch_bytes,
                           l->grid_bytes);
  return Hasher().Add(kernel.loops).Add(needs).Add(codegen).Finish().Hex();
}

Tensor TextBlob(std::string_view text) {
  Tensor blob(Dtype::kU8, {static_cast<int64_t>(text.size())});
  if (!text.empty()) std::memcpy(blob.mutable_data(), text.data(), text.size());
  return blob;
}

Result<Plan> ParsePlan(std::string_view text, const std::string& file, const BlobStore& blobs) {
  WEFT_TRY(Lexer lexer, Lexer::Open(text, file));
  return Parser(std::move(lexer), file, blobs).Run();
}

}  // namespace weft::plan
