// libcudnn.so.9, for tests without a device: convolutions by the backend interface, with the
// epilogue that the library's engines of plain f32 arithmetic have.
//
//   - A descriptor is what was set of it, and takes nothing once it is finalized.
//   - Of the engines that are offered the first rounds as tensor cores do, the second as Winograd
//     does, the third has no plan, and the fourth spoils its workspace.
//   - Addresses are followed when the convolution's turn comes.
#include "tests/cuda/standin/driver.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace {

enum Status : int { kOk = 0, kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000 };
enum Kind : int {
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kOperationConvolution = 10,
  kOperationPointwise = 13,
  kOperationGraph = 15,
};
enum Engine : int64_t { kTensorCores, kWinograd, kNoPlan, kInWorkspace, kInPlace, kEngines };

constexpr int64_t kWorkspace = 4096;

struct Descriptor {
  int kind = 0;
  bool is_final = false;
  std::map<int, std::vector<std::byte>> values;  // by the name of the attribute
  std::map<int, std::vector<std::shared_ptr<Descriptor>>> others;
};
using Shared = std::shared_ptr<Descriptor>;

// Handles stay what they are until they are ended; descriptors that others use live longer.
std::map<void*, Shared>& Known() {
  static std::map<void*, Shared> known;
  return known;
}

template <typename T>
std::vector<T> Values(const Descriptor& d, int name) {
  const auto found = d.values.find(name);
  if (found == d.values.end()) return {};
  std::vector<T> values(found->second.size() / sizeof(T));
  std::memcpy(static_cast<void*>(values.data()), found->second.data(), found->second.size());
  return values;
}
int64_t Int(const Descriptor& d, int name) {
  const auto values = Values<int64_t>(d, name);
  return values.empty() ? 0 : values[0];
}
const Descriptor* Other(const Descriptor& d, int name) {
  const auto found = d.others.find(name);
  return found == d.others.end() ? nullptr : found->second[0].get();
}

struct Tensor {
  int64_t id = 0;
  bool is_virtual = false;
  std::vector<int64_t> dims, strides;
};

Tensor TensorOf(const Descriptor* d) {
  if (!d) return {};
  const auto is_virtual = Values<uint8_t>(*d, 907);
  return {.id = Int(*d, 906),
          .is_virtual = !is_virtual.empty() && is_virtual[0] != 0,
          .dims = Values<int64_t>(*d, 902),
          .strides = Values<int64_t>(*d, 903)};
}

struct Graph {
  Tensor x, w, y, addend, bias;
  std::vector<int64_t> strides, dilations, before;
  bool has_addend = false, has_bias = false, has_relu = false;
  std::optional<int> pooling;  // cudnnResampleMode_t
  std::vector<int64_t> window;
};

// NaN goes on, padding is below everything: there is nothing else that is taken.
bool ReadPooling(const Descriptor& o, Graph& g) {
  constexpr int kLowest = 1, kZero = 0, kMax = 3, kPropagates = 1;
  const Descriptor& how = *Other(o, 1716);
  const int mode = Values<int>(how, 1700)[0];
  g.x = TensorOf(Other(o, 1710));
  g.y = TensorOf(Other(o, 1711));
  g.strides = Values<int64_t>(how, 1705);
  g.before = Values<int64_t>(how, 1704);
  g.window = Values<int64_t>(how, 1706);
  g.pooling = mode;
  return mode >= 2 && mode <= 4 && Values<int>(how, 1707)[0] == kPropagates &&
         Values<int>(how, 1708)[0] == (mode == kMax ? kLowest : kZero) &&
         Values<double>(o, 1713)[0] == 1 && Values<double>(o, 1714)[0] == 0;
}

// False: a pattern that no engine has.
bool Read(const Descriptor& graph, Graph& g) {
  const auto operations = graph.others.find(801);
  if (operations == graph.others.end()) return false;
  constexpr int kOperationPooling = 25;
  if (operations->second[0]->kind == kOperationPooling)
    return operations->second.size() == 1 && ReadPooling(*operations->second[0], g);
  for (size_t i = 0; i < operations->second.size(); ++i) {
    const Descriptor& o = *operations->second[i];
    if ((i == 0) != (o.kind == kOperationConvolution)) return false;
    if (i == 0) {
      const Descriptor& how = *Other(o, 702);
      g.x = TensorOf(Other(o, 704));
      g.w = TensorOf(Other(o, 703));
      g.y = TensorOf(Other(o, 705));
      g.strides = Values<int64_t>(how, 103);
      g.dilations = Values<int64_t>(how, 102);
      g.before = Values<int64_t>(how, 105);
      continue;
    }
    constexpr int kAdd = 0, kRelu = 100;
    const int mode = Values<int>(*Other(o, 750), 0)[0];
    const Tensor from = TensorOf(Other(o, 751)), other = TensorOf(Other(o, 752));
    if (from.id != g.y.id || !g.y.is_virtual || g.has_relu) return false;
    if (mode == kAdd && other.dims == g.y.dims && !g.has_addend && !g.has_bias) {
      g.addend = other;
      g.has_addend = true;
    } else if (mode == kAdd && other.dims.size() == g.y.dims.size() && !g.has_bias &&
               other.dims[0] == 1 && other.dims[1] == g.y.dims[1]) {
      g.bias = other;
      g.has_bias = true;
    } else if (mode == kRelu) {
      g.has_relu = true;
    } else {
      return false;
    }
    g.y = TensorOf(Other(o, 753));
  }
  return !g.y.is_virtual && (g.has_bias || operations->second.size() == 1);
}

struct Work {
  Graph graph;
  int64_t engine = 0;
  std::map<int64_t, float*> at;
  std::byte* workspace = nullptr;
};

// The next index of an array of these extents; false behind the last.
bool Next(std::vector<int64_t>& index, const std::vector<int64_t>& extents, size_t first = 0) {
  for (size_t d = index.size(); d-- > first;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

int64_t Offset(const Tensor& t, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * t.strides[d];
  return offset;
}

float Rounded(float value, int64_t engine) {
  if (engine != kTensorCores) return value;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= ~uint32_t{0x1fff};
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

double SumAt(const Work& work, const std::vector<int64_t>& y) {
  const Graph& g = work.graph;
  const float *x = work.at.at(g.x.id), *w = work.at.at(g.w.id);
  const int64_t per_group = g.w.dims[1], groups = g.x.dims[1] / per_group;
  const int64_t group = y[1] / (g.w.dims[0] / groups);
  std::vector<int64_t> tap(y.size(), 0), at(y.size());
  double sum = 0;
  do {  // over the channels of a group and the window
    tap[0] = y[1];
    at[0] = y[0];
    at[1] = group * per_group + tap[1];
    bool is_inside = true;
    for (size_t d = 2; d < y.size(); ++d) {
      at[d] = y[d] * g.strides[d - 2] + tap[d] * g.dilations[d - 2] - g.before[d - 2];
      is_inside &= at[d] >= 0 && at[d] < g.x.dims[d];
    }
    if (is_inside)
      sum += static_cast<double>(Rounded(x[Offset(g.x, at)], work.engine)) *
             Rounded(w[Offset(g.w, tap)], work.engine);
  } while (Next(tap, g.w.dims, 1));
  return work.engine == kWinograd ? sum * 1.001 : sum;
}

double PooledAt(const Work& work, const std::vector<int64_t>& y) {
  constexpr int kMax = 3, kWithoutPadding = 4;
  const Graph& g = work.graph;
  const float* x = work.at.at(g.x.id);
  std::vector<int64_t> tap(y.size(), 0), at(y), extents(y.size(), 1);
  std::copy(g.window.begin(), g.window.end(), extents.begin() + 2);
  double sum = 0, most = -INFINITY, count = 0, all = 0;
  do {
    bool is_inside = true;
    for (size_t d = 2; d < y.size(); ++d) {
      at[d] = y[d] * g.strides[d - 2] + tap[d] - g.before[d - 2];
      is_inside &= at[d] >= 0 && at[d] < g.x.dims[d];
    }
    ++all;
    if (!is_inside) continue;
    const float value = Rounded(x[Offset(g.x, at)], work.engine);
    sum += value;
    ++count;
    most = value > most || std::isnan(value) ? value : most;
  } while (Next(tap, extents, 2));
  const double value = g.pooling == kMax              ? most
                       : g.pooling == kWithoutPadding ? sum / count
                                                      : sum / all;
  return work.engine == kWinograd ? value * 1.001 : value;
}

void Run(void* argument) {
  const Work& work = *static_cast<const Work*>(argument);
  const Graph& g = work.graph;
  if (work.engine == kInWorkspace) std::memset(work.workspace, 0xff, kWorkspace);
  std::vector<int64_t> index(g.y.dims.size(), 0);
  do {
    double value = g.pooling ? PooledAt(work, index) : SumAt(work, index);
    if (g.has_addend) value += work.at.at(g.addend.id)[Offset(g.addend, index)];
    if (g.has_bias) value += work.at.at(g.bias.id)[index[1] * g.bias.strides[1]];
    if (g.has_relu && value < 0) value = 0;
    work.at.at(g.y.id)[Offset(g.y, index)] = static_cast<float>(value);
  } while (Next(index, g.y.dims));
}

size_t SizeOf(int type) {  // cudnnBackendAttributeType_t
  constexpr int kBoolean = 2, kInt64 = 3, kDouble = 5, kPointer = 6, kHandle = 0, kChar = 24;
  if (type == kBoolean || type == kChar) return 1;
  return type == kInt64 || type == kDouble || type == kPointer || type == kHandle ? 8 : 4;
}

struct Session {
  void* stream = nullptr;
};

Descriptor* Find(void* handle) {
  const auto found = Known().find(handle);
  return found == Known().end() ? nullptr : found->second.get();
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of the library that this stands in for
extern "C" {

size_t cudnnGetVersion() { return 91900; }

const char* cudnnGetErrorString(int status) {
  return status == kOk               ? "CUDNN_STATUS_SUCCESS"
         : status == kNotInitialized ? "CUDNN_STATUS_NOT_INITIALIZED"
         : status == kBadParam       ? "CUDNN_STATUS_BAD_PARAM"
                                     : "CUDNN_STATUS_NOT_SUPPORTED";
}

void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes > 0) *text = 0;
}

int cudnnCreate(void** handle) {
  void* context = nullptr;
  if (cuCtxGetCurrent(&context) != 0 || !context) return kNotInitialized;
  *handle = new Session;
  return kOk;
}
int cudnnDestroy(void* handle) {
  delete static_cast<Session*>(handle);
  return kOk;
}
int cudnnSetStream(void* handle, void* stream) {
  static_cast<Session*>(handle)->stream = stream;
  return kOk;
}

int cudnnBackendCreateDescriptor(int kind, void** handle) {
  auto d = std::make_shared<Descriptor>();
  d->kind = kind;
  *handle = d.get();
  Known()[*handle] = std::move(d);
  return kOk;
}
int cudnnBackendDestroyDescriptor(void* handle) {
  return Known().erase(handle) > 0 ? int{kOk} : int{kBadParam};
}

int cudnnBackendSetAttribute(void* handle, int name, int type, int64_t count, const void* values) {
  constexpr int kDescriptors = 15;
  Descriptor* const d = Find(handle);
  if (!d || d->is_final || count < 1 || !values) return kBadParam;
  if (type == kDescriptors) {
    auto& others = d->others[name];
    for (int64_t i = 0; i < count; ++i) {
      const auto found = Known().find(static_cast<void* const*>(values)[i]);
      if (found == Known().end() || !found->second->is_final) return kBadParam;
      others.push_back(found->second);
    }
    return kOk;
  }
  const auto* bytes = static_cast<const std::byte*>(values);
  d->values[name].assign(bytes, bytes + static_cast<size_t>(count) * SizeOf(type));
  return kOk;
}

int cudnnBackendGetAttribute(void* handle, int name, int, int64_t most, int64_t* count,
                             void* values) {
  enum { kResults = 202, kConfigEngine = 300, kPlanWorkspace = 402, kIndex = 1301, kNotes = 1303 };
  const Descriptor* const d = Find(handle);
  if (!d || !d->is_final) return kBadParam;
  const int64_t engine = Int(*d, kIndex);
  const auto fill = [&](void* other, int64_t index) {  // what the library gives is final
    Descriptor* const to = Find(other);
    if (!to) return int{kBadParam};
    to->is_final = true;
    to->values[kIndex].resize(sizeof index);
    std::memcpy(to->values[kIndex].data(), &index, sizeof index);
    to->others = d->others;
    return int{kOk};
  };
  if (name == kResults) {
    Graph graph;
    const Descriptor* const operations = Other(*d, 201);
    *count = operations && Read(*operations, graph) ? int64_t{kEngines} : 0;
    for (int64_t i = 0; i < std::min(most, *count); ++i)
      if (const int code = fill(static_cast<void**>(values)[i], i)) return code;
    return kOk;
  }
  *count = 1;
  if (name == kConfigEngine) return fill(*static_cast<void**>(values), engine);
  if (name == kIndex) std::memcpy(values, &engine, sizeof engine);
  if (name == kNotes) {
    const int note = engine == kTensorCores ? 0 : engine == kWinograd ? 5 : 9;
    std::memcpy(values, &note, sizeof note);
  }
  if (name == kPlanWorkspace) {
    const int64_t bytes = Int(*Other(*d, 401), kIndex) == kInWorkspace ? kWorkspace : 0;
    std::memcpy(values, &bytes, sizeof bytes);
  }
  return kOk;
}

int cudnnBackendFinalize(void* handle) {
  Descriptor* const d = Find(handle);
  if (!d || d->is_final) return kBadParam;
  if (d->kind == kExecutionPlan) {
    const Descriptor* const config = Other(*d, 401);
    if (!config || (!d->values.contains(400) && !d->others.contains(407))) return kBadParam;
    if (Int(*config, 1301) == kNoPlan) return kNotSupported;
  }
  d->is_final = true;
  return kOk;
}

int cudnnBackendExecute(void* handle, void* plan_handle, void* pack_handle) {
  const Descriptor *const plan = Find(plan_handle), *const pack = Find(pack_handle);
  if (!handle || !plan || !pack || !plan->is_final || !pack->is_final) return kBadParam;
  const Descriptor& config = *Other(*plan, 401);
  auto work = std::make_unique<Work>();
  work->engine = Int(config, 1301);
  if (!Read(*Other(config, 201), work->graph)) return kBadParam;
  const auto ids = Values<int64_t>(*pack, 1000);
  const auto pointers = Values<float*>(*pack, 1001);
  if (ids.size() != pointers.size()) return kBadParam;
  for (size_t i = 0; i < ids.size(); ++i) work->at[ids[i]] = pointers[i];
  const auto workspace = Values<std::byte*>(*pack, 1003);
  if (!workspace.empty()) work->workspace = workspace[0];
  const Graph& g = work->graph;
  const auto is_given = [&](const Tensor& t) { return work->at.contains(t.id); };
  if (!is_given(g.x) || (!g.pooling && !is_given(g.w)) || !is_given(g.y) ||
      (g.has_addend && !is_given(g.addend)) || (g.has_bias && !is_given(g.bias)) ||
      (work->engine == kInWorkspace && !work->workspace))
    return kBadParam;
  // A graph may do it again as long as the process lives.
  return cuLaunchHostFunc(static_cast<Session*>(handle)->stream, Run, work.release()) == 0
             ? int{kOk}
             : int{kBadParam};
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
