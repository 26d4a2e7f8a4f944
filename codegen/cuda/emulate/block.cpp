#include "codegen/cuda/emulate/block.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <span>
#include <utility>

namespace weft::codegen::cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFrameBytes = 256 << 10;  // temporaries of a text that is not optimized

}  // namespace

Result<std::unique_ptr<Block>> Block::Make(ThreadState& state, ThreadState::Dim threads,
                                           int64_t stack_bytes) {
  std::unique_ptr<Block> block(new Block(state, threads, stack_bytes));
  // Pages that no thread touches take no memory.
  void* stacks = mmap(nullptr, block->stack_bytes_ * block->Threads(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED)
    return Limit(fmt::format("no memory for the stacks of {} threads, of {} bytes each",
                             block->Threads(), block->stack_bytes_));
  block->stacks_ = static_cast<std::byte*>(stacks);
  return block;
}

Block::Block(ThreadState& state, ThreadState::Dim threads, int64_t stack_bytes)
    : state_(state),
      threads_(threads),
      stack_bytes_((static_cast<size_t>(stack_bytes) + kFrameBytes) / kPage * kPage + kPage) {
  state_.block_dim = threads;
  state_.barrier = Barrier;
  state_.cluster_barrier = ClusterBarrier;
  state_.exchange = Exchange;
}

Block::~Block() {
  if (stacks_ != nullptr) munmap(stacks_, stack_bytes_ * Threads());
}

void Block::Start(KernelEntry* kernel, void* const* arguments) {
  kernel_ = kernel;
  arguments_ = arguments;
  next_ = 0;
}

Result<int32_t> Block::GoOn() {
  state_.block = this;
  bool others_came = !waiting_.empty();
  while (next_ < Threads()) Resume(IdleFiber());
  while (!waiting_.empty()) {
    std::vector<Fiber*> ready = ReadyWarps();
    if (ready.empty()) {
      WEFT_TRY(CheckBarrier());
      if (waiting_[0]->cluster && !std::exchange(others_came, false)) return waiting_[0]->line;
      std::swap(ready, waiting_);
    }
    for (Fiber* fiber : ready) Resume(*fiber);
  }
  return 0;
}

std::vector<Block::Fiber*> Block::ReadyWarps() {
  constexpr uint32_t kWarp = 32;
  constexpr int32_t kReady = -1;
  std::vector<Fiber*> by_thread(Threads()), ready;
  for (Fiber* fiber : waiting_) by_thread[fiber->thread] = fiber;
  for (uint32_t first = 0; first + kWarp <= Threads(); first += kWarp) {
    const std::span warp(by_thread.data() + first, kWarp);
    const auto meets = [&](const Fiber* f) {
      return f != nullptr && f->across != 0 && f->line == warp[0]->line;
    };
    if (!std::ranges::all_of(warp, meets)) continue;
    std::array<uint64_t, kWarp> words{};
    for (uint32_t t = 0; t < kWarp; ++t) words[t] = warp[t ^ uint32_t(warp[t]->across)]->word;
    for (uint32_t t = 0; t < kWarp; ++t) warp[t]->word = words[t], warp[t]->line = kReady;
    ready.insert(ready.end(), warp.begin(), warp.end());
  }
  std::erase_if(waiting_, [](const Fiber* f) { return f->line == kReady; });
  return ready;
}

Status Block::CheckBarrier() const {
  const auto exchanging =
      std::ranges::find_if(waiting_, [](const Fiber* f) { return f->across != 0; });
  if (exchanging != waiting_.end())
    return Internal(fmt::format("an exchange that not all threads of a warp reach, at line {}",
                                (*exchanging)->line));
  const auto [first, last] = std::ranges::minmax(waiting_, {}, &Fiber::line);
  if (waiting_.size() == Threads() && first->line == last->line) return {};
  return Internal(fmt::format("a barrier that not all reach: {} of {} threads wait, at line {}{}",
                              waiting_.size(), Threads(), first->line,
                              first->line == last->line ? "" : fmt::format(" and {}", last->line)));
}

Block::Fiber& Block::IdleFiber() {
  if (idle_.empty()) AddFiber();
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void Block::AddFiber() {
  std::byte* stack = stacks_ + fibers_.size() * stack_bytes_;
  mprotect(stack, kPage, PROT_NONE);  // what runs over its end shall not reach a neighbour's
  idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>()).get());
  ucontext_t& context = idle_.back()->context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = stack_bytes_;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(Enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Block::Resume(Fiber& fiber) {
  current_ = &fiber;
  Name(fiber.thread);
  swapcontext(&main_, &fiber.context);
}

void Block::Enter(unsigned high, unsigned low) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): makecontext hands on nothing but ints
  reinterpret_cast<Block*>(uintptr_t{high} << 32 | low)->Work();
}

// Takes thread after thread; returns to Run when none is left to begin, or from within a barrier.
void Block::Work() {
  Fiber& self = *current_;
  for (;;) {
    while (next_ < Threads()) {
      self.thread = next_++;
      Name(self.thread);
      kernel_(arguments_);
    }
    idle_.push_back(&self);
    swapcontext(&self.context, &main_);
  }
}

void Block::Barrier(void* block, int32_t line) {
  Block& b = *static_cast<Block*>(block);
  Fiber& self = *b.current_;
  self.line = line, self.across = 0, self.cluster = false;
  b.Wait(self);
}

void Block::ClusterBarrier(void* block, int32_t line) {
  Block& b = *static_cast<Block*>(block);
  Fiber& self = *b.current_;
  self.line = line, self.across = 0, self.cluster = true;
  b.Wait(self);
}

uint64_t Block::Exchange(void* block, int32_t line, uint64_t word, int32_t across) {
  Block& b = *static_cast<Block*>(block);
  Fiber& self = *b.current_;
  self.line = line, self.across = across, self.word = word;
  b.Wait(self);
  return self.word;
}

void Block::Wait(Fiber& self) {
  waiting_.push_back(&self);
  swapcontext(&self.context, &main_);
}

void Block::Name(uint32_t thread) {
  state_.thread_index = {thread % threads_.x, thread / threads_.x % threads_.y,
                         thread / threads_.x / threads_.y};
}

}  // namespace weft::codegen::cuda
