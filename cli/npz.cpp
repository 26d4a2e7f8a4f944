#include "cli/npz.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <set>

#include "base/cache/file_cache.h"
#include "base/nibbles.h"
#include "base/text.h"
#include "base/utf8.h"

namespace weft::cli {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 34;
constexpr std::string_view kMagic("\x93NUMPY", 6);

struct NpyType {
  std::string_view name;  // without the byte order
  Dtype dtype;
};
constexpr NpyType kTypes[] = {{"b1", Dtype::kBool}, {"i1", Dtype::kI8},  {"u1", Dtype::kU8},
                              {"i2", Dtype::kI16},  {"u2", Dtype::kU16}, {"i4", Dtype::kI32},
                              {"u4", Dtype::kU32},  {"i8", Dtype::kI64}, {"u8", Dtype::kU64},
                              {"f2", Dtype::kF16},  {"f4", Dtype::kF32}, {"f8", Dtype::kF64},
                              {"V2", Dtype::kBF16}};  // as ml_dtypes saves it

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

// The header is a Python dict literal of three known keys; only that much of Python is read.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool Parse(Header& header) {
    std::set<std::string> keys;
    if (!Accept('{')) return false;
    while (!Accept('}')) {
      std::string key;
      if (!String(key) || !Accept(':') || !keys.insert(key).second) return false;
      const bool read = key == "descr"           ? String(header.descr)
                        : key == "fortran_order" ? Bool(header.fortran)
                        : key == "shape"         ? Tuple(header.shape)
                                                 : false;
      if (!read || (!Accept(',') && Peek() != '}')) return false;
    }
    return keys.size() == 3 && Peek() == '\0' && at_ == text_.size();
  }

 private:
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool String(std::string& out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool Bool(bool& out) {
    Peek();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      out = value;
      return true;
    }
    return false;
  }
  bool Tuple(Shape& shape) {
    if (!Accept('(')) return false;
    while (!Accept(')')) {
      int64_t extent = 0;
      int digits = 0;
      for (char c = Peek(); c >= '0' && c <= '9' && digits < 18; ++digits, ++at_, c = Peek())
        extent = extent * 10 + (c - '0');
      if (digits == 0 || shape.size() > 64) return false;
      shape.push_back(extent);
      if (!Accept(',') && Peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void SwapBytes(Tensor& t) {
  const auto size = static_cast<size_t>(SizeBytes(t.dtype()));
  auto* bytes = static_cast<std::byte*>(t.mutable_data());
  for (int64_t i = 0; i < t.elems(); ++i)
    std::reverse(bytes + static_cast<size_t>(i) * size, bytes + static_cast<size_t>(i + 1) * size);
}

// Column-major elements in row-major order.
Result<Tensor> FromFortran(Tensor t) {
  WEFT_TRY(Tensor out, Tensor::Allocate(t.dtype(), t.shape()));
  const bool text = t.dtype() == Dtype::kString;
  const auto size = static_cast<size_t>(SizeBytes(t.dtype()));
  const auto* from = static_cast<const std::byte*>(t.data());
  auto* to = text ? nullptr : static_cast<std::byte*>(out.mutable_data());
  const Shape& shape = t.shape();
  Shape index(shape.size(), 0);
  for (size_t i = 0; i < static_cast<size_t>(t.elems()); ++i) {
    int64_t row_major = 0;
    for (size_t a = 0; a < shape.size(); ++a) row_major = row_major * shape[a] + index[a];
    const auto at = static_cast<size_t>(row_major);
    if (text)
      out.strings()[at] = std::move(t.strings()[i]);
    else
      std::memcpy(to + at * size, from + i * size, size);
    for (size_t a = 0; a < shape.size() && ++index[a] == shape[a]; ++a) index[a] = 0;
  }
  return out;
}

// NumPy's "U12": elements of so many code points of 32 bits, those at the end that are 0 left out.
// Nothing if it is another type.
std::optional<int64_t> CodePoints(std::string_view descr) {
  if (descr.size() < 3 || descr[1] != 'U' || (descr[0] != '<' && descr[0] != '>')) return {};
  int64_t count = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), count);
  if (error != std::errc() || end != descr.data() + descr.size() || count < 0) return {};
  return count;
}

Result<Tensor> Texts(std::string_view data, int64_t points, bool swapped, const Shape& shape) {
  constexpr int64_t kWidth = 4;
  WEFT_TRY(const int64_t elems, CountElems(shape));
  int64_t all = 0;
  if (__builtin_mul_overflow(elems, points, &all) || all > INT64_MAX / kWidth ||
      all * kWidth != std::ssize(data))
    return Invalid(fmt::format("found {} bytes of data, its shape {} needs {} strings of {}",
                               data.size(), weft::Print(shape), elems, points));
  // Strings of no code points are paid for by no byte.
  constexpr int64_t kMostEmpty = int64_t{1} << 20;
  if (points == 0 && elems > kMostEmpty)
    return Limit(fmt::format("{} empty strings, at most {} are taken", elems, kMostEmpty));
  WEFT_TRY(Tensor tensor, Tensor::Allocate(Dtype::kString, shape));
  for (std::string& text : tensor.strings()) {
    size_t length = static_cast<size_t>(points);
    const auto point = [&](size_t i) {
      uint32_t code = 0;
      std::memcpy(&code, data.data() + i * kWidth, kWidth);
      return swapped ? __builtin_bswap32(code) : code;
    };
    while (length > 0 && point(length - 1) == 0) --length;
    for (size_t i = 0; i < length; ++i)
      if (!AppendUtf8(text, point(i)))
        return Invalid(fmt::format("found U+{:04X}, which is no character", point(i)));
    data.remove_prefix(static_cast<size_t>(points * kWidth));
  }
  return tensor;
}

// The bytes of a .npy array behind its header, and NumPy's name of the type.
Result<std::string> TextData(const Tensor& t, std::string& descr) {
  std::vector<std::u32string> texts;
  size_t points = 1;  // NumPy has no type for fewer
  for (const std::string& text : t.strings()) {
    std::u32string& decoded = texts.emplace_back();
    for (size_t at = 0; at < text.size();) {
      uint32_t code = 0;
      const size_t length = DecodeUtf8(std::string_view(text).substr(at), code);
      if (length == 0) return Unsupported("a string that is no UTF-8, which .npz has no type for");
      decoded += static_cast<char32_t>(code);
      at += length;
    }
    if (decoded.ends_with(U'\0'))
      return Unsupported("a string that ends with U+0000, which .npz has no type for");
    points = std::max(points, decoded.size());
  }
  descr = fmt::format("<U{}", points);
  if (points * 4 > static_cast<size_t>(kMaxFileBytes) / std::max<size_t>(texts.size(), 1))
    return Limit(fmt::format("{} strings of {} characters", texts.size(), points));
  std::string data;
  data.reserve(texts.size() * points * 4);
  for (std::u32string& text : texts) {
    text.resize(points);
    data.append(reinterpret_cast<const char*>(text.data()), points * 4);
  }
  return data;
}

std::string DescrOf(Dtype dtype) {
  std::string_view name = "V";
  for (const NpyType& type : kTypes)
    if (type.dtype == dtype) name = type.name;
  return fmt::format("{}{}", SizeBytes(dtype) == 1 ? "|" : "<", name);
}

std::string NpyHeader(const Tensor& t, const std::string& descr) {
  std::string shape;
  for (int64_t e : t.shape()) shape += fmt::format("{},", e);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  dict.resize((10 + dict.size() + 1 + 63) / 64 * 64 - 11, ' ');
  dict += '\n';
  std::string header(kMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

Result<Tensor> Parsed(std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) return Invalid("not a .npy array");
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[i]));
  };
  if (byte(6) < 1 || byte(6) > 3)
    return Invalid(fmt::format("found version {} of .npy, expected 1 to 3", byte(6)));
  const bool old = byte(6) == 1;
  const size_t length =
      old ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const size_t start = old ? 10 : 12;
  if (length > bytes.size() - start) return Invalid("the header is longer than the file");
  Header header;
  if (!HeaderParser(bytes.substr(start, length)).Parse(header))
    return Invalid("a header that is not understood");
  if (const auto points = CodePoints(header.descr)) {
    auto texts = Texts(bytes.substr(start + length), *points, header.descr[0] == '>', header.shape);
    if (!texts.ok()) return std::move(texts.status());
    return header.fortran && header.shape.size() > 1 ? FromFortran(*std::move(texts)) : texts;
  }
  if (header.descr.size() != 3)
    return Invalid(fmt::format("element type \"{}\" is not taken", header.descr));
  const NpyType* type = nullptr;
  for (const NpyType& t : kTypes)
    if (header.descr.substr(1) == t.name) type = &t;
  if (!type || std::string_view("<>|=").find(header.descr[0]) == std::string_view::npos)
    return Invalid(fmt::format("element type \"{}\" is not taken", header.descr));
  WEFT_TRY(int64_t elems, CountElems(header.shape));
  const std::string_view data = bytes.substr(start + length);
  if (static_cast<uint64_t>(elems) > data.size() ||
      elems * SizeBytes(type->dtype) != std::ssize(data))
    return Invalid(fmt::format("found {} bytes of data, its shape {} needs {} elements of {}",
                               data.size(), weft::Print(header.shape), elems,
                               SizeBytes(type->dtype)));
  WEFT_TRY(Tensor t, Tensor::Allocate(type->dtype, header.shape));
  if (!data.empty()) std::memcpy(t.mutable_data(), data.data(), data.size());
  if (header.descr[0] == '>') SwapBytes(t);
  if (type->dtype == Dtype::kBool)
    for (int64_t i = 0; i < elems; ++i) t.mutable_as<uint8_t>()[i] = t.as<uint8_t>()[i] != 0;
  return header.fortran && header.shape.size() > 1 ? FromFortran(std::move(t))
                                                   : Result<Tensor>(std::move(t));
}

}  // namespace

Result<Tensor> ParseNpy(std::string_view bytes, const std::string& where) {
  auto tensor = Parsed(bytes);
  if (!tensor.ok()) return std::move(tensor.status()).At(where);
  return tensor;
}

Result<Tensor> ReadNpy(const std::string& path) {
  WEFT_TRY(std::string bytes, ReadFile(path, kMaxFileBytes));
  return ParseNpy(bytes, path);
}

namespace {

Result<Tensor> ReadEntry(zip_t* zip, const zip_stat_t& stat) {
  zip_file_t* file = zip_fopen_index(zip, stat.index, 0);
  if (!file) return Invalid("it does not open");
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> closer(file, zip_fclose);
  try {
    // Grown as data comes, since the declared size may lie.
    std::string bytes;
    char chunk[1 << 16];
    zip_int64_t n = 0;
    while ((n = zip_fread(file, chunk, sizeof chunk)) > 0 && bytes.size() <= stat.size)
      bytes.append(chunk, static_cast<size_t>(n));
    if (n != 0 || bytes.size() != stat.size) return Invalid("it is damaged");
    return Parsed(bytes);
  } catch (const std::bad_alloc&) {
    return Limit(fmt::format("no memory for its {} bytes", stat.size));
  }
}

}  // namespace

Result<std::map<std::string, Tensor>> ReadNpz(
    const std::string& path, const std::function<Status(const std::string&)>& wanted) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (!zip) return Invalid("not a readable .npz archive").At(path);
  const std::unique_ptr<zip_t, void (*)(zip_t*)> closer(zip, zip_discard);
  std::error_code error;
  zip_uint64_t left = std::filesystem::file_size(path, error);
  if (error) return Invalid(error.message()).At(path);
  std::map<std::string, Tensor> arrays;
  int64_t total = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip, static_cast<zip_uint64_t>(i), 0, &stat) != 0 || !stat.name)
      return Invalid("a damaged entry").At(path);
    std::string name = stat.name;
    const auto refused = [&](Status status) {
      return std::move(status).Because(fmt::format("entry {}", PrintString(name))).At(path);
    };
    if (!name.ends_with(".npy")) return refused(Invalid("it is no .npy array"));
    name.resize(name.size() - 4);
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
      return refused(Invalid(fmt::format("found method {} of compression, expected {} or {}",
                                         stat.comp_method, ZIP_CM_STORE, ZIP_CM_DEFLATE)));
    // Entries that share bytes would unpack them again and again.
    if (stat.comp_size > left) return refused(Invalid("the entries are larger than the file"));
    left -= stat.comp_size;
    if (stat.size > static_cast<zip_uint64_t>(kMaxFileBytes - total))
      return refused(Limit(fmt::format("it unpacks to {} bytes", stat.size)));
    total += static_cast<int64_t>(stat.size);
    if (arrays.contains(name)) return refused(Invalid("it occurs twice"));
    if (stat.comp_method != ZIP_CM_STORE) {
      if (Status status = wanted(name); !status.ok()) return std::move(status).At(path);
    }
    auto array = ReadEntry(zip, stat);
    if (!array.ok()) return refused(std::move(array.status()));
    arrays.emplace(std::move(name), *std::move(array));
  }
  return arrays;
}

Status WriteNpz(const std::string& path,
                const std::vector<std::pair<std::string, Tensor>>& arrays) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* sink = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_t* zip = sink ? zip_open_from_source(sink, ZIP_TRUNCATE, &error) : nullptr;
  if (!zip) return Limit("no memory for an archive").At(path);
  zip_source_keep(sink);
  std::vector<std::string> members;  // alive until the archive is closed
  members.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    if (array.dtype() == Dtype::kString) {
      std::string descr;
      auto data = TextData(array, descr);
      if (!data.ok()) {
        zip_discard(zip);
        return std::move(data.status()).Because(fmt::format("entry \"{}\"", name)).At(path);
      }
      members.push_back(NpyHeader(array, descr) + *data);
    } else {
      const Tensor tensor = Widened(array);
      members.push_back(NpyHeader(tensor, DescrOf(tensor.dtype())));
      members.back().append(static_cast<const char*>(tensor.data()),
                            static_cast<size_t>(tensor.bytes()));
    }
    zip_source_t* source = zip_source_buffer(zip, members.back().data(), members.back().size(), 0);
    const zip_int64_t at = zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (at < 0) {
      zip_source_free(source);
      zip_discard(zip);
      return Invalid(fmt::format("\"{}\" cannot be an entry of an archive", name)).At(path);
    }
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(at), ZIP_CM_STORE, 0);
    zip_file_set_mtime(zip, static_cast<zip_uint64_t>(at), 315619200,
                       0);  // 1980: same bytes every time
  }
  if (zip_close(zip) != 0) return Limit("the archive could not be made").At(path);
  zip_source_open(sink);
  zip_source_seek(sink, 0, SEEK_END);
  std::string bytes(static_cast<size_t>(zip_source_tell(sink)), '\0');
  zip_source_seek(sink, 0, SEEK_SET);
  zip_source_read(sink, bytes.data(), bytes.size());
  zip_source_close(sink);
  zip_source_free(sink);
  return WriteFileAtomically(path, bytes);
}

}  // namespace weft::cli
