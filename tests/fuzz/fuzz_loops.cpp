// Nests of kernels from strangers. What verifies must print as a text that reads back the same, and
// must not touch anything outside of its buffers, whatever its inputs hold: the interpreter, which
// checks every access, runs it for a while.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "codegen/reference/interpret.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace weft::codegen {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kSteps = 20000;

bool IsForDevice(const loops::LoopNest& nest) {
  return std::ranges::any_of(nest.stmts,
                             [](const loops::Stmt& s) { return loops::IsGrid(s.loop); });
}

bool IsLarge(const loops::LoopNest& nest, const std::vector<int64_t>& params) {
  int64_t bytes = 0;
  for (const loops::Buffer& b : nest.buffers) {
    const int64_t more = loops::BufferBytes(b, params);
    if (more < 0 || more > kMostBytes - bytes) return true;
    bytes += more;
  }
  return false;
}

void Run(const loops::LoopNest& nest, uint64_t seed) {
  const std::vector<int64_t> params(static_cast<size_t>(nest.params), 3);
  if (IsForDevice(nest) || IsLarge(nest, params)) return;
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> operands;
  for (loops::BufferId id : loops::Operands(nest)) {
    memory.emplace_back(static_cast<size_t>(loops::BufferBytes(nest[id], params)));
    // Small integers among them are indices.
    for (std::byte& byte : memory.back()) byte = std::byte(random() % 4 == 0 ? random() % 5 : 0);
    operands.push_back(memory.back().data());
  }
  KernelFault fault{};
  const Status status =
      Interpret(nest, operands, params, &fault, {.team_size = 3, .max_steps = kSteps});
  // Races, and what was never written, no text can be shown to be free of.
  WEFT_CHECK(status.what().find("lies outside") == std::string::npos, "{}\n{}", status.ToString(),
             loops::Print(nest));
}

void Read(std::string_view text) {
  const auto nest = loops::Read(text, "fuzz");
  if (!nest.ok()) return;
  const std::string printed = loops::Print(*nest);
  const auto again = loops::Parse(printed, "again");
  WEFT_CHECK(again.ok() && loops::Equal(*nest, *again), "{}", printed);
  Run(*nest, text.size());
}

// Where a number stands in a text.
std::vector<std::pair<size_t, size_t>> Numbers(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) continue;
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])))
      found.emplace_back(i, end - i);
    i = end;
  }
  return found;
}

}  // namespace
}  // namespace weft::codegen

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::codegen::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Other numbers, or a piece of the text in another place; else other bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static constexpr std::array kNumbers = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "4",
                                          "7",
                                          "8",
                                          "16",
                                          "63",
                                          "64",
                                          "65",
                                          "255",
                                          "256",
                                          "2147483647",
                                          "4294967296",
                                          "1099511627776",
                                          "4611686018427387904",
                                          "9223372036854775807"};
  static constexpr std::array kPieces = {" + 1",      " - 1",         " + i",
                                         "*2",        "floor((i)/2)", "max(0, i)",
                                         "min(4, i)", " % 3",         "{i >= 1}",
                                         "0:i",       "i:4",          ":2",
                                         "vector",    "unroll",       "parallel",
                                         "for",       "inout",        "cache",
                                         " fold [2]", "reg",          "let q = x[0] in 0:4 of y\n",
                                         "single",    "barrier",      "barrier cluster\n",
                                         "cluster_x", "cluster"};
  std::minstd_rand random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (auto rounds = 1 + random() % 4; rounds > 0 && !text.empty(); --rounds) {
    const auto numbers = weft::codegen::Numbers(text);
    const size_t at = random() % text.size();
    switch (random() % 8) {
      case 0:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 1: {
        const std::string piece = text.substr(random() % text.size(), random() % 40);
        text.insert(at, piece);
        break;
      }
      case 2:
        text.erase(at, random() % 8);
        break;
      case 3:
        return LLVMFuzzerMutate(data, size, max_size);
      default: {
        if (numbers.empty()) break;
        const auto [begin, length] = numbers[random() % numbers.size()];
        text.replace(begin, length, kNumbers[random() % kNumbers.size()]);
      }
    }
  }
  text.resize(std::min(text.size(), max_size));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
