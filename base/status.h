// Errors that the world can cause: a malformed model, a full disk, a missing library.
//
// A function that can fail returns Status, or Result<T> when it has something to give. The code of
// a Status is also the exit code of the command line, so the mapping lives in one place. "No" from
// a heuristic is not an error: see base/verdict.h. Our own defects are WEFT_CHECK: see
// base/check.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

enum class Code : uint8_t {
  kOk = 0,
  kNo = 1,           // well-formed question, the answer is no: a difference, a failed verification
  kUsage = 2,        // the caller asked wrongly
  kInvalid = 3,      // malformed input, with its location
  kUnsupported = 4,  // well-formed, but nothing here can do it
  kLimit = 5,        // memory, time or size
  kMissing = 6,      // a device, driver or library that was asked for is absent
  kInternal = 70,    // a defect of ours
  kInterrupted = 130,
};

// What went wrong, where, why and what to try. Messages are lower case, without a period, and name
// what was found and what was expected.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string what) : detail_(std::make_unique<Detail>()) {
    detail_->code = code;
    detail_->what = std::move(what);
  }
  Status(const Status& other) { *this = other; }
  Status(Status&&) = default;
  Status& operator=(const Status& other);
  Status& operator=(Status&&) = default;

  bool ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::kOk; }
  const std::string& what() const;  // the message
  const std::string& where()
      const;  // "file:line:col", `node "/conv1/Conv"`, "byte 120"; may be empty
  const std::string& hint() const;              // what to try; may be empty
  const std::vector<std::string>& why() const;  // outermost context first

  // Each returns *this so that an error can be built in one expression. A location that is already
  // set is kept: the innermost function knows it best.
  Status&& At(std::string where) &&;
  Status&& Try(std::string hint) &&;
  Status&& Because(std::string context) &&;

  // "where: what (context; context); try: hint", the one line that a user reads.
  std::string ToString() const;

 private:
  struct Detail {
    Code code = Code::kOk;
    std::string what, where, hint;
    std::vector<std::string> why;
  };
  std::unique_ptr<Detail> detail_;
};

inline Status Invalid(std::string what) { return {Code::kInvalid, std::move(what)}; }
inline Status Unsupported(std::string what) { return {Code::kUnsupported, std::move(what)}; }
inline Status Usage(std::string what) { return {Code::kUsage, std::move(what)}; }
inline Status Limit(std::string what) { return {Code::kLimit, std::move(what)}; }
inline Status Missing(std::string what) { return {Code::kMissing, std::move(what)}; }
inline Status Internal(std::string what) { return {Code::kInternal, std::move(what)}; }

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Status& status() { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace internal {
inline Status TakeStatus(Status&& s) { return std::move(s); }
template <typename T>
Status TakeStatus(Result<T>&& r) {
  return std::move(r.status());
}
}  // namespace internal

// WEFT_TRY(F());            returns from the caller when F fails
// WEFT_TRY(auto x, F());    and otherwise binds its value
#define WEFT_CAT2(a, b) a##b
#define WEFT_CAT(a, b) WEFT_CAT2(a, b)
#define WEFT_TRY_1(call)                                         \
  do {                                                           \
    if (auto weft_try_ = (call); !weft_try_.ok())                \
      return ::weft::internal::TakeStatus(std::move(weft_try_)); \
  } while (false)
#define WEFT_TRY_2(decl, call) WEFT_TRY_3(WEFT_CAT(weft_try_, __LINE__), decl, call)
#define WEFT_TRY_3(tmp, decl, call)                                   \
  auto tmp = (call);                                                  \
  if (!tmp.ok()) return ::weft::internal::TakeStatus(std::move(tmp)); \
  decl = *std::move(tmp)
#define WEFT_TRY_PICK(a, b, name, ...) name
#define WEFT_TRY(...) WEFT_TRY_PICK(__VA_ARGS__, WEFT_TRY_2, WEFT_TRY_1, )(__VA_ARGS__)

}  // namespace weft
