#include "base/status.h"

namespace weft {
namespace {

const std::string& Empty() {
  static const std::string empty;
  return empty;
}

}  // namespace

Status& Status::operator=(const Status& other) {
  if (this != &other) detail_ = other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr;
  return *this;
}

const std::string& Status::what() const { return detail_ ? detail_->what : Empty(); }
const std::string& Status::where() const { return detail_ ? detail_->where : Empty(); }
const std::string& Status::hint() const { return detail_ ? detail_->hint : Empty(); }

const std::vector<std::string>& Status::why() const {
  static const std::vector<std::string> none;
  return detail_ ? detail_->why : none;
}

Status&& Status::At(std::string where) && {
  if (detail_ && detail_->where.empty()) detail_->where = std::move(where);
  return std::move(*this);
}

Status&& Status::Try(std::string hint) && {
  if (detail_ && detail_->hint.empty()) detail_->hint = std::move(hint);
  return std::move(*this);
}

Status&& Status::Because(std::string context) && {
  if (detail_) detail_->why.insert(detail_->why.begin(), std::move(context));
  return std::move(*this);
}

std::string Status::ToString() const {
  if (!detail_) return "ok";
  std::string text = detail_->where.empty() ? "" : detail_->where + ": ";
  text += detail_->what;
  for (size_t i = 0; i < detail_->why.size(); ++i) {
    text += (i == 0 ? " (" : "; ") + detail_->why[i];
  }
  if (!detail_->why.empty()) text += ")";
  if (!detail_->hint.empty()) text += "; try: " + detail_->hint;
  return text;
}

}  // namespace weft
