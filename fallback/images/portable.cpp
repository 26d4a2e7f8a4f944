// The portable formats of Netpbm (its manual pages pbm(5), pgm(5), ppm(5), pam(5)).
#include <cctype>
#include <optional>
#include <string_view>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

class Reader {
 public:
  explicit Reader(Bytes bytes) : b_(bytes) {}

  Result<Image> Run() {
    const int kind = b_[1] - '0';
    at_ = 2;
    WEFT_TRY(kind == 7 ? Lines() : Numbers(kind));
    WEFT_TRY(CheckSize(height_, width_));
    if (most_ < 1 || most_ > 65535) return Invalid(fmt::format("the largest value is {}", most_));
    if (depth_ < 1 || depth_ > 4) return Invalid(fmt::format("found {} channels", depth_));
    const bool bits = kind == 1 || kind == 4, text = kind <= 3;
    const int64_t wide = most_ > 255 ? 2 : 1, count = height_ * width_ * depth_;
    // Every number takes a byte at least, but packed bits.
    const int64_t needed = kind == 4 ? (width_ + 7) / 8 * height_ : text ? count : count * wide;
    if (static_cast<int64_t>(b_.size() - at_) < needed) return Invalid("the pixels end too early");
    const int64_t channels = depth_ < 3 ? 1 : 3;
    Image image{.height = height_, .width = width_, .channels = channels, .pixels = {}};
    image.pixels.reserve(static_cast<size_t>(height_ * width_ * channels));
    for (int64_t y = 0; y < height_; ++y) {
      for (int64_t x = 0; x < width_; ++x) {
        for (int64_t c = 0; c < depth_; ++c) {
          const int64_t value = kind == 4   ? Bit(y, x)
                                : kind == 1 ? Digit()
                                : text      ? Number()
                                            : Raw(wide);
          if (value < 0 || value > most_)
            return Invalid(fmt::format("pixel {}, {} is damaged", y, x));
          if (c >= channels) continue;  // opacity
          image.pixels.push_back(
              Clamp8(bits ? (1 - value) * 255 : (value * 255 + most_ / 2) / most_));
        }
      }
    }
    return image;
  }

 private:
  bool Space() const { return at_ < b_.size() && std::isspace(b_[at_]) != 0; }

  void SkipSpace() {
    while (Space() || (at_ < b_.size() && b_[at_] == '#')) {
      if (b_[at_] == '#')
        while (at_ < b_.size() && b_[at_] != '\n') ++at_;
      else
        ++at_;
    }
  }

  int64_t Number() {  // -1 if there is none
    SkipSpace();
    int64_t value = -1;
    for (; at_ < b_.size() && std::isdigit(b_[at_]) != 0; ++at_)
      value = std::min<int64_t>(std::max<int64_t>(value, 0) * 10 + (b_[at_] - '0'), INT32_MAX);
    return value;
  }

  int64_t Digit() {  // of a bitmap, where they may touch
    SkipSpace();
    return at_ < b_.size() && (b_[at_] == '0' || b_[at_] == '1') ? b_[at_++] - '0' : -1;
  }

  int64_t Raw(int64_t wide) {
    int64_t value = b_[at_++];
    if (wide == 2) value = value << 8 | b_[at_++];
    return value;
  }

  int64_t Bit(int64_t y, int64_t x) const {
    return b_[at_ + static_cast<size_t>(y * ((width_ + 7) / 8) + x / 8)] >> (7 - x % 8) & 1;
  }

  Status Numbers(int kind) {
    width_ = Number();
    height_ = Number();
    most_ = kind == 1 || kind == 4 ? 1 : Number();
    depth_ = kind == 3 || kind == 6 ? 3 : 1;
    if (!Space()) return Invalid("the header ends too early");
    ++at_;
    return {};
  }

  // NAME VALUE on each line, up to ENDHDR.
  Status Lines() {
    while (at_ < b_.size()) {
      SkipSpace();
      const size_t begin = at_;
      while (at_ < b_.size() && b_[at_] != '\n' && b_[at_] != ' ') ++at_;
      const std::string_view name(reinterpret_cast<const char*>(b_.data()) + begin, at_ - begin);
      if (name == "ENDHDR") {
        if (!Space()) break;
        ++at_;
        return {};
      }
      if (name == "WIDTH") width_ = Number();
      if (name == "HEIGHT") height_ = Number();
      if (name == "DEPTH") depth_ = Number();
      if (name == "MAXVAL") most_ = Number();
      while (at_ < b_.size() && b_[at_] != '\n') ++at_;
    }
    return Invalid("the header ends too early");
  }

  Bytes b_;
  size_t at_ = 0;
  int64_t height_ = 0, width_ = 0, most_ = 0, depth_ = 0;
};

}  // namespace

Result<Image> DecodePortable(Bytes bytes) { return Reader(bytes).Run(); }

}  // namespace weft::fallback::images
