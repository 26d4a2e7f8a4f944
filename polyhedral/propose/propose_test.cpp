// What the first proposal is, where that is what a kind of group depends on for its speed.
#include <fmt/format.h>

#include <set>

#include "polyhedral/propose/testing.h"

namespace weft::polyhedral {
namespace {

// Where channels lie side by side lanes run along them: no block has a part of a vector of them.
TEST(Propose, BlocksOfChannelsAreWholeVectors) {
  const tc::Program program = Parse(
      "def f(float(1, 48, 32, 32) x, float(48, 3, 3) v, float(48, 3, 3) w) -> (y) {"
      " t(n, c, i, j) +=! x(n, c, i + r, j + s) * v(c, r, s) where i in 0:30, j in 0:30"
      " y(n, c, i, j) +=! t(n, c, i + r, j + s) * w(c, r, s) where i in 0:28, j in 0:28 }");
  const std::vector<std::string> constants = {"v", "w"};
  ScheduleRequest request{.program = &program, .constants = constants};
  request.target = {.threads = 1};
  request.target.isa = Isa::kX86V4;
  const auto first = [&] {
    const auto choices = Propose(request, 1);
    return choices.yes() ? Print((*choices)[0]) : std::string("refused");
  };
  EXPECT_NE(first().find("block c 4 "), std::string::npos) << first();
  for (const char* name : {"x", "t", "y"}) request.layouts[name] = *ParseLayout("acdb");
  EXPECT_EQ(first().find("block c 4 "), std::string::npos) << first();
  EXPECT_NE(first().find("vector c"), std::string::npos) << first();
}

// Rows that are a page apart lie in one set of the nearest cache: no more of them than it has ways.
TEST(Propose, RowsAPageApartAreFew) {
  const auto rows = [](int channels, int64_t l1_bytes) {
    const tc::Program program =
        Parse(fmt::format("def f(float(1, 200, {0}) x, float(512, 3, {0}) w) -> (y) {{ y(n, i, k) "
                          "+=! x(n, 2 * i + r, c) * "
                          "w(k, r, c) where i in 0:98 }}",
                          channels));
    const std::vector<std::string> constants = {"w"};
    ScheduleRequest request{.program = &program, .constants = constants};
    request.target = {.threads = 1, .l1_bytes = l1_bytes};
    request.target.isa = Isa::kX86V4;
    const auto choices = Propose(request, 1);
    if (!choices.yes()) return int64_t{0};
    const std::string text = Print((*choices)[0]);
    const size_t end = text.find(',', text.find("tile i "));
    return end == std::string::npos ? int64_t{0}
                                    : int64_t{std::stoi(text.substr(text.rfind(' ', end)))};
  };
  EXPECT_GT(rows(480, 32 << 10), 8);
  EXPECT_GT(rows(512, 32 << 10), 1);
  EXPECT_LE(rows(512, 32 << 10), 8);
  EXPECT_GT(rows(512, 64 << 10), 8);
}

// The weights of a tile's lanes: what the second cache does not hold beside the rest is summed up
// in parts, each of which lies in one piece, while lines of results pass by.
TEST(Propose, WideConvolutionsAreSummedInParts) {
  const auto of = [](int channels, int64_t l2_bytes, Isa isa = Isa::kX86V4) {
    const tc::Program program =
        Parse(fmt::format("def f(float(1, 16, 16, {0}) x, float(512, {0}, 3, 3) w) -> (y) {{ "
                          "y(n, h, v, k) +=! x(n, h + r, v + s, c) * w(k, c, r, s) }}",
                          channels));
    const std::vector<std::string> constants = {"w"};
    ScheduleRequest request{.program = &program, .constants = constants};
    request.target = {.threads = 1, .l1_bytes = 48 << 10, .l2_bytes = l2_bytes};
    request.target.isa = isa;
    const auto choices = Propose(request, 1);
    return choices.yes() ? Print((*choices)[0]) : "refused";
  };
  const std::string wide = of(1024, 1 << 20);
  EXPECT_NE(wide.find("v 14 7, h 14 1, k 48, c 160"), std::string::npos) << wide;
  EXPECT_NE(wide.find("inner c h v r s c"), std::string::npos) << wide;
  EXPECT_NE(wide.find("w ABcd160b48a"), std::string::npos) << wide;
  EXPECT_NE(of(1024, 8 << 20).find("tile v 7, k 48"), std::string::npos) << of(1024, 8 << 20);
  const std::string narrow = of(1024, 1 << 20, Isa::kX86V3);
  EXPECT_EQ(narrow.find("inner c h v r s c"), std::string::npos) << narrow;
  EXPECT_NE(of(128, 1 << 20).find("tile v 14, k 32"), std::string::npos) << of(128, 1 << 20);
}

// Rows of a tile and taps across them read the same lines of an image: written out, each is loaded
// once. Not where the taps of a row are no other row's.
TEST(Propose, TapsAcrossRowsAreWrittenOut) {
  const auto of = [](int stride) {
    return First(fmt::format("def f(float(1, 64, 100, 60) x, float(64, 3, 3) w) -> (y) {{ "
                             "y(n, c, h, v) +=! x(n, c, {} * h + r, v + s) * w(c, r, s) "
                             "where h in 0:32, v in 0:58 }}",
                             stride),
                 {.threads = 1, .l2_bytes = 1 << 20});
  };
  EXPECT_NE(of(1).find("inner s r | unroll h r"), std::string::npos) << of(1);
  EXPECT_NE(of(2).find("inner s r | unroll h r"), std::string::npos) << of(2);
  EXPECT_EQ(of(3).find("inner s r"), std::string::npos) << of(3);
}

// Planes a page apart lie in one set of the nearest cache: a sum over more of them than it has ways
// goes in parts, where eight lanes a register ask for a line every six cycles, and too few results
// use each for a copy.
TEST(Propose, SumsOverPlanesThatCrowdGoInParts) {
  const auto first = [](int64_t size, Isa isa) {
    const std::string text = fmt::format(
        "def f(float(1, 48, {0}, {0}) x, float(8, 48, 3, 3) w) -> (y) {{ y(n, k, h, j) +=! "
        "x(n, c, h + r, j + s) * w(k, c, r, s) where h in 0:{1}, j in 0:{1} }}",
        size, size - 2);
    return First(text, {.threads = 1, .l2_bytes = 1 << 19}, isa, {"w"});
  };
  const std::string crowded = first(32, Isa::kX86V3);
  EXPECT_NE(crowded.find(", c 8 |"), std::string::npos) << crowded;
  EXPECT_NE(crowded.find("order k n h j"), std::string::npos) << crowded;
  for (const std::string& whole : {first(30, Isa::kX86V3), first(32, Isa::kX86V4)})
    EXPECT_EQ(whole.find(", c 8 |"), std::string::npos) << whole;
}

// Where neither operand fits the second cache, a block of rows waits there while all panels pass by
// once, if fewer bytes pass that way.
TEST(Propose, RowsPassInBlocks) {
  const auto first = [](int64_t rows, int64_t sums, int64_t columns) {
    const std::string text = fmt::format(
        "def f(float({0}, {1}) x, float({1}, {2}) w) -> (y) {{ "
        "y(i, j) +=! x(i, k) * w(k, j) }}",
        rows, sums, columns);
    return First(text, {.threads = 1, .l2_bytes = 1 << 19, .l3_bytes = 32 << 20}, Isa::kX86V3,
                 {"w"});
  };
  EXPECT_NE(first(2048, 1024, 1024).find("order i j | tile i 64 4"), std::string::npos);
  EXPECT_NE(first(4096, 3072, 768).find("order i j | tile i 64 4"),
            std::string::npos);  // in memory
  EXPECT_NE(first(128, 3072, 768).find("order j i | tile i 64 4"), std::string::npos);
}

// Sums that wait stay in the second cache: of long lines, blocks do.
TEST(Propose, LongLinesOfCrowdedPlanesGoInBlocks) {
  const auto first = [](int64_t places, int64_t results) {
    const std::string text = fmt::format(
        "def f(float(1, 64, {0}) x, float(16, 64, 5) w) -> (y) {{ y(n, k, j) +=! "
        "j + s < {0} ? x(n, c, j + s) * w(k, c, s) : 0.0 where j in 0:{1}, s in 0:5 }}",
        places, results);
    return First(text, {.threads = 1, .l2_bytes = 1 << 19}, Isa::kX86V3, {"w"});
  };
  EXPECT_NE(first(1024, 1020).find("tile j 1020 6, k 16, c 8 |"), std::string::npos);
  EXPECT_NE(first(4096, 4092).find("tile j 2046 6, k 16, c 8 |"), std::string::npos);
  EXPECT_NE(first(4096, 4096).find("tile j 2052 6, k 16, c 8 |"), std::string::npos);
}

// Between planes, a tile's lanes wait until all rows passed where lines of all lanes would push out
// what rows have begun.
TEST(Propose, LanesOfCrowdedPlanesWaitForRows) {
  const auto first = [](int64_t height, int64_t width) {
    const std::string text = fmt::format(
        "def f(float(1, 3, {0}, {1}) x, float(64, 3, 3, 3) w) -> (y) {{ y(n, k, h, j) +=! "
        "x(n, c, h + r, j + s) * w(k, c, r, s) where h in 0:{2}, j in 0:{3} }}",
        height + 2, width + 2, height, width);
    return First(text, {.threads = 1, .l2_bytes = 1 << 19}, Isa::kX86V3, {"w"});
  };
  EXPECT_NE(first(64, 64).find("order n h k j"), std::string::npos) << first(64, 64);
  EXPECT_NE(first(60, 60).find("order n h j k"), std::string::npos) << first(60, 60);
}

// Rows share what they load for taps where windows overlap, for which few registers are left
// without AVX-512.
TEST(Propose, TapsOfFirstLayersLeaveRegisters) {
  const auto first = [](int64_t taps, Isa isa) {
    const std::string text = fmt::format(
        "def f(float(1, 3, 65, 65) x, float(32, 3, {0}, {0}) w) -> (y) {{ y(n, h, j, k) +=! "
        "x(n, c, 2 * h + r, 2 * j + s) * w(k, c, r, s) where h in 0:32, j in 0:32 }}",
        taps);
    return First(text, {.threads = 1}, isa, {"w"});
  };
  const std::string overlap = first(3, Isa::kX86V3), apart = first(2, Isa::kX86V3),
                    registers = first(3, Isa::kX86V4);
  EXPECT_NE(overlap.find("unroll j |"), std::string::npos) << overlap;
  EXPECT_NE(apart.find("unroll j s r"), std::string::npos) << apart;
  EXPECT_NE(registers.find("unroll j s r |"), std::string::npos) << registers;
}

// Lanes along an axis of which every second element is read, picked from two registers for several
// rows, where results lie along it and would lie crowded in columns.
TEST(Propose, LanesOfStridedImages) {
  const auto of = [](const std::string& read) {
    return First(
        "def f(float(1, 24, 64, 64) x, float(480, 24) w) -> (y) { y(n, k, h, v) +=! "
        "x(n, c, " +
            read + ") * w(k, c) where h in 0:32, v in 0:32 }",
        {.threads = 1, .l1_bytes = 48 << 10, .l2_bytes = 1 << 20}, Isa::kX86V4, {"w"});
  };
  EXPECT_NE(of("2 * h, 2 * v").find("vector v"), std::string::npos) << of("2 * h, 2 * v");
  EXPECT_NE(of("2 * h, h + v").find("vector v"), std::string::npos);
  EXPECT_EQ(of("2 * v, 2 * h").find("vector v"), std::string::npos);  // rows apart
}

// Lines of results that push each other out of the cache are written whole.
TEST(Propose, CrowdedResultsAreWrittenByLines) {
  const auto of = [](int places) {
    return First(
        fmt::format("def f(float(1, 24, 160, 160) x, float(480, 24) w) -> (y) {{ y(n, k, h, v) "
                    "+=! x(n, c, 5 * h, 5 * v) * w(k, c) where h in 0:{0}, v in 0:{0} }}",
                    places),
        {.threads = 1, .l1_bytes = 48 << 10, .l2_bytes = 1 << 20}, Isa::kX86V4, {"w"});
  };
  EXPECT_NE(of(32).find("tile v 16"), std::string::npos) << of(32);
  EXPECT_EQ(of(28).find("tile v 16"), std::string::npos) << of(28);
}

// In the last cache memory is asked for ahead where a row is computed with meanwhile.
TEST(Propose, RowsOfExponentialsAreFetched) {
  const auto fetches = [](const std::string& text) {
    return First(text, {.threads = 1, .l2_bytes = 1 << 20}).find("prefetch x") != std::string::npos;
  };
  const std::string softmax =
      "(float(2048, 512) x) -> (y) { m(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))  "
      "s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i) }";
  const std::string norm =
      "(float(2048, 512) x) -> (y) { m(i) +=! x(i, j)  s(i) +=! (x(i, j) - m(i)) * (x(i, j) - "
      "m(i))  "
      "y(i, j) = (x(i, j) - m(i)) / s(i) }";
  EXPECT_TRUE(fetches("def f" + softmax));
  EXPECT_FALSE(fetches("def f" + norm));
}

// Each channel by itself, in images with channels first: lanes along channels, of a copy in blocks
// of whole vectors that the cache holds.
TEST(Propose, LanesOfChannelsReadACopy) {
  const tc::Program program = Parse(
      "def f(float(1, 96, 60, 60) x, float(96, 1, 5, 5) w) -> (y) {"
      " y(n, c, i, j) +=! x(n, c, 2 * i + r, 2 * j + s) * w(c, 0, r, s) where i in 0:28, j in 0:28 "
      "}");
  const std::vector<std::string> constants = {"w"};
  ScheduleRequest request{.program = &program, .constants = constants};
  request.target = {.threads = 1, .l2_bytes = 1 << 19};
  request.target.isa = Isa::kX86V3;
  const auto choices = Propose(request, 1);
  ASSERT_TRUE(choices.yes());
  const std::string first = Print((*choices)[0]);
  EXPECT_NE(first.find("cluster x_packed | block i1 16"), std::string::npos) << first;
  EXPECT_NE(first.find("vector c"), std::string::npos) << first;
  EXPECT_TRUE(HasKind(request, 1));  // rows of the image where it lies
  const std::string rows = Print(ProposeKind(request, 1)[0]);
  EXPECT_EQ(rows.find("packed"), std::string::npos) << rows;
  // Channels that lie side by side already are loaded as they are.
  request.layouts["x"] = *ParseLayout("acdb");
  const auto last = Propose(request, 1);
  ASSERT_TRUE(last.yes());
  EXPECT_EQ(Print((*last)[0]).find("x_packed"), std::string::npos) << Print((*last)[0]);
  EXPECT_NE(Print((*last)[0]).find("vector c"), std::string::npos) << Print((*last)[0]);
  request.layouts.clear();
  // One vector of channels alone is more than this cache.
  request.target.l2_bytes = 1 << 16;
  const auto few = Propose(request, 1);
  ASSERT_TRUE(few.yes());
  EXPECT_EQ(Print((*few)[0]).find("x_packed"), std::string::npos) << Print((*few)[0]);
}

// Parts of a concatenation go through some rows together, those of an image's pixels at once; where
// the parts are rows themselves, one after another.
TEST(Propose, PartsOfRowsGoTogether) {
  const std::string columns = First(
      "def f(float(2048, 64) a, float(2048, 32) b) -> (y) {"
      " y(i, j) = a(i, j) where i in 0:2048, j in 0:64"
      " y(i, j) = b(i, j - 64) where i in 0:2048, j in 64:96 }",
      {.threads = 2});
  EXPECT_NE(columns.find("cluster y | block i 42 |"), std::string::npos) << columns;
  EXPECT_NE(columns.find("then y_2 | block i 42 |"), std::string::npos) << columns;
  const std::string pixels = First(
      "def f(float(8, 40, 40, 300) a, float(8, 40, 40, 300) b) -> (y) {"
      " y(n, h, w, c) = a(n, h, w, c) where n in 0:8, h in 0:40, w in 0:40, c in 0:300"
      " y(n, h, w, c) = b(n, h, w, c - 300) where n in 0:8, h in 0:40, w in 0:40, c in 300:600 }",
      {.threads = 1});
  EXPECT_NE(pixels.find("then y_2 | block n 1, h 1, w 6 |"), std::string::npos) << pixels;
  const std::string rows = First(
      "def f(float(64, 2048) a, float(32, 2048) b) -> (y) {"
      " y(i, j) = a(i, j) where i in 0:64, j in 0:2048"
      " y(i, j) = b(i - 64, j) where i in 64:96, j in 0:2048 }",
      {.threads = 1});
  EXPECT_EQ(rows.find("block"), std::string::npos) << rows;
  // Few rows are no tile of registers.
  const std::string products = First(
      "def f(float(512, 64) a, float(64, 1024) w, float(512, 1024) b) -> (y) {"
      " y(i, j) +=! a(i, k) * w(k, j) where i in 0:512, j in 0:1024"
      " y(i, j) = b(i, j - 1024) where i in 0:512, j in 1024:2048 }",
      {.threads = 1});
  EXPECT_EQ(products.find("block"), std::string::npos) << products;
  // The second part is made of the first.
  const std::string chain = First(
      "def f(float(2048, 64) a) -> (y) {"
      " y(i, j) = a(i, j) where i in 0:2048, j in 0:64"
      " y(i, j) = y(i, j - 64) where i in 0:2048, j in 64:96 }",
      {.threads = 1});
  EXPECT_EQ(chain.find("block"), std::string::npos) << chain;
}

// Nothing is used again from one matrix of a batch to the next: so many at once as the nearest
// cache holds with what is made of them.
TEST(Propose, BatchesPassThroughTheNearestCache) {
  constexpr char kGram[] =
      "def f(float(2048, 27, 64) x) -> (y) {"
      " t(b, d, i) = x(b, i, d) where b in 0:2048, d in 0:64, i in 0:27"
      " y(b, i, j) +=! x(b, i, d) * t(b, d, j) where b in 0:2048, i in 0:27, j in 0:27, d in 0:64 "
      "}";
  const std::string one = First(kGram, {.threads = 1, .l1_bytes = 32 << 10}, Isa::kX86V4);
  EXPECT_NE(one.find("block b 1 |"), std::string::npos) << one;
  const std::string few = First(kGram, {.threads = 1, .l1_bytes = 128 << 10}, Isa::kX86V4);
  EXPECT_NE(few.find("block b 4 |"), std::string::npos) << few;
}

// A panel that the nearest cache does not keep is read by fewer tiles of more rows.
TEST(Propose, FarPanelsWantRows) {
  const auto conv = [](int channels) {
    const tc::Program program = Parse(fmt::format(
        "def f(float(58, 58, {0}) x, float(3, 3, {0}, 64) w) -> (y) {{"
        " y(i, j, k) +=! x(i + r, j + s, c) * w(r, s, c, k) where i in 0:56, j in 0:56 }}",
        channels));
    const std::vector<std::string> constants = {"w"};
    const ScheduleRequest request{
        .program = &program,
        .constants = constants,
        .target = {.isa = Isa::kX86V4, .threads = 1, .l1_bytes = 48 << 10}};
    const auto choices = Propose(request, 1);
    return choices.yes() ? Print((*choices)[0]) : "refused";
  };
  EXPECT_NE(conv(8).find("tile j 4, k 64"), std::string::npos) << conv(8);
  EXPECT_NE(conv(64).find("tile j 14, k 32"), std::string::npos) << conv(64);
}

// A row of what is looked up passes by and is in the cache; a table is not.
TEST(Propose, LookUpsInARowAreNotFetched) {
  const auto fetches = [](const std::string& text) {
    return First(text, {.threads = 1, .l2_bytes = 1 << 20}).find("prefetch x") != std::string::npos;
  };
  EXPECT_FALSE(
      fetches("def f(float(2048, 729) x, int64(351) at) -> (y) { y(i, j) = x(i, at(j)) where i in "
              "0:2048 }"));
  EXPECT_TRUE(fetches(
      "def f(float(20480, 64) x, int64(351) at) -> (y) { y(i, j) = x(at(i), j) where j in 0:64 }"));
}

// Groups of eight channels in images with channels last: lanes of one group, which all read the
// same element, or of two groups.
TEST(Propose, TilesComeInKinds) {
  const tc::Program program = Parse(
      "def f(float(64, 14, 14) x, float(64, 8, 3, 3) w) -> (y) {"
      " y(k, i, j) +=! x(8 * (k / 8) + c, i + r, j + s) * w(k, c, r, s) where i in 0:12, j in 0:12 "
      "}");
  const ScheduleRequest request{.program = &program,
                                .layouts = {{"x", *ParseLayout("bca")}, {"y", *ParseLayout("bca")}},
                                .constants = {"w"},
                                .target = {.isa = Isa::kX86V4, .threads = 1}};
  std::set<std::string> kinds;
  const auto kind = [](const Choice& choice) {
    const Cluster& cluster = choice.clusters[0];
    return cluster.unroll[0] + " " + cluster.lanes[0].axis +
           (cluster.lanes[0].sizes[0] > 8 ? " wide" : "");
  };
  const auto first = Propose(request);
  ASSERT_TRUE(first.yes());
  kinds.insert(kind(first->front()));
  for (const int k : {1, 2, 3}) kinds.insert(kind(ProposeKind(request, k).back()));
  EXPECT_TRUE(kinds.contains("j k")) << testing::PrintToString(kinds);
  EXPECT_TRUE(kinds.contains("j k wide")) << testing::PrintToString(kinds);
}

// A window over planes sums up channels, which a copy has side by side; not where they lie so
// already, where there is little to do with a place or at all, or without a window.
TEST(Propose, WindowsOverPlanesReadChannelsFromACopy) {
  const auto conv = [](int channels, int results, int size, int taps, Isa isa = Isa::kX86V3) {
    const tc::Program program = Parse(fmt::format(
        "def f(float(1, {0}, {1}, {1}) x, float({2}, {0}, {3}, {3}) w) -> (y) {{ "
        "y(n, k, i, j) +=! x(n, c, i + r, j + s) * w(k, c, r, s) where r in 0:{3}, s in 0:{3} }}",
        channels, size + taps - 1, results, taps));
    ScheduleRequest request{
        .program = &program, .constants = {"w"}, .target = {.isa = isa, .threads = 1}};
    const auto first = Propose(request, 1);
    return first.yes() ? Print(first->front()) : first.refusal().detail;
  };
  EXPECT_NE(conv(64, 64, 56, 3).find("pack x acdb"), std::string::npos) << conv(64, 64, 56, 3);
  EXPECT_EQ(conv(64, 64, 56, 1).find("pack x"), std::string::npos) << conv(64, 64, 56, 1);
  EXPECT_EQ(conv(8, 64, 56, 3).find("pack x"), std::string::npos) << conv(8, 64, 56, 3);
  EXPECT_EQ(conv(64, 8, 56, 3).find("pack x"), std::string::npos) << conv(64, 8, 56, 3);
  EXPECT_EQ(conv(16, 32, 14, 3).find("pack x"), std::string::npos) << conv(16, 32, 14, 3);
  EXPECT_EQ(conv(64, 64, 56, 3, Isa::kX86V4).find("pack x"), std::string::npos);
}

// What is read again in the group stays near.
TEST(Propose, ResultsThatAreReadAreCached) {
  const std::string read = First(
      "def f(float(1000, 1024) x) -> (e, y) { e(i, j) = exp(x(i, j))  s(i) +=! e(i, j)"
      "  y(i, j) = e(i, j) / s(i) }",
      {.threads = 1, .l3_bytes = 4 << 20});
  EXPECT_NE(read.find("| stream y\n"), std::string::npos) << read;
}

// Pairs of taps and channels of an image's row, which lie side by side.
TEST(Propose, TapsSideBySideAreMultipliedInPairs) {
  const auto rows = [](int64_t taps) {
    return First(fmt::format("def f(int16(64, 256) x, int8({0}, 16) w) -> (y) {{ y(h, i, k) +=! "
                             "int32(x(h, 6 * i + e)) * int32(w(e, k)) where i in 0:32 }}",
                             taps),
                 {.threads = 1});
  };
  EXPECT_NE(rows(22).find("dot e"), std::string::npos) << rows(22);
  EXPECT_EQ(rows(21).find("dot"), std::string::npos) << rows(21);
}

// A temporary lies along the lanes of those who read it: of images with channels last, channels.
TEST(Propose, TemporariesLieAsTheirReadersDo) {
  const tc::Program program = Parse(
      "def f(float(1, 32, 16, 16) x) -> (y) {"
      " t(n, c, h, j) = 0.5 * x(n, c, h / 2, j) where h in 0:32, j in 0:16"
      " y(n, c, h, w) = t(n, c, h, w / 2) + t(n, c, h, (w + 1) / 2)"
      "   where h in 0:32, w in 0:31 }");
  const Layout last = Layout::Permuted(std::vector<int32_t>{0, 2, 3, 1});
  const auto vectors = [&](std::map<std::string, Layout> layouts) {
    const auto choices =
        Propose({.program = &program, .layouts = std::move(layouts), .target = {.threads = 1}}, 1);
    EXPECT_TRUE(choices.yes());
    std::string lanes;
    for (const Cluster& cluster : (*choices)[0].clusters) lanes += cluster.lanes[0].axis;
    return lanes;
  };
  EXPECT_EQ(vectors({{"x", last}, {"y", last}}), "cc");
  EXPECT_EQ(vectors({}), "jw");
  EXPECT_EQ(vectors({{"x", last}}), "jw");
}

// Twelve steps, each of which reads the one before it five times: as many walks as there are reads,
// not as there are ways back.
TEST(Propose, LongChainsTakeNoLongerThanTheirText) {
  std::string text = "def f(float(64, 64) t0) -> (t12) {";
  for (int k = 1; k <= 12; ++k) {
    const std::string before = "t" + std::to_string(k - 1) + "(i, j)";
    text += " t" + std::to_string(k) + "(i, j) = " + before + " * (" + before + " + " + before +
            ") / (" + before + " + " + before + ")";
  }
  const std::string chain = First(text + " }", {.threads = 1});
  EXPECT_NE(chain.find("vector"), std::string::npos) << chain;
}

// A large operand is taken from memory once: what only the small one moves along goes round inside,
// where a tile of the large one lies in the cache.
TEST(Propose, SmallOperandsGoRoundInside) {
  const auto product = [](const std::string& c1) {
    return First("def f(float(4, " + c1 +
                     ", 8, 784) x, float(4, 8, 2, 784) y) -> (o) {"
                     " o(n, a, c, h) +=! x(n, a, b, h) * y(n, b, c, h) }",
                 {.threads = 1, .l2_bytes = 1 << 20}, Isa::kX86V4);
  };
  EXPECT_NE(product("512").find("order n a c h"), std::string::npos) << product("512");
  EXPECT_NE(product("16").find("order n c a h"), std::string::npos) << product("16");
}

// Where registers hold both, the sum of a product's blocks goes on over the loop that makes them.
TEST(Propose, SumsOfBlocksGoOnWhereRegistersHoldThem) {
  const auto in_blocks = [](const std::string& rows) {
    return First("def f(float(" + rows +
                     ", 512) x, float(512, 64) w, float(16, 64) s) -> (y) {"
                     " t(i, b, n) +=! x(i, 32*b + j) * w(32*b + j, n) where b in 0:16, j in 0:32 "
                     " y(i, n) +=! t(i, b, n) * s(b, n) }",
                 {.threads = 1}, Isa::kX86V4);
  };
  EXPECT_NE(in_blocks("1").find("b | tile"), std::string::npos) << in_blocks("1");
  EXPECT_NE(in_blocks("1").find("inner j"), std::string::npos) << in_blocks("1");
  EXPECT_NE(in_blocks("64").find("inner b j"), std::string::npos) << in_blocks("64");
}

TEST(Propose, NarrowLanesAreNoMoreThanALoopTakes) {
  const std::string scan = First(
      "def f(uint8(64, 512) x) -> (y) {"
      " y(t, j) = x(t, j) where t in 0:1"
      " y(t, j) = uint8(y(t - 1, j) + x(t, j)) where t in 1:64 }",
      {.threads = 1});
  EXPECT_TRUE(ParseChoices(scan, "test").ok()) << scan;
}

TEST(Propose, BlocksHoldEveryContraction) {
  const auto in_blocks = [](const std::string& text) {
    const tc::Program program = Parse(text);
    const Target target{.isa = Isa::kX86V3, .threads = 1, .l2_bytes = 1 << 19};
    return RunsInBlocks({.program = &program, .target = target});
  };
  EXPECT_TRUE(in_blocks(
      "def f(float(4, 512, 64) q, float(4, 512, 64) k, float(4, 512, 64) v) -> (o) {"
      " s(h, i, j) +=! q(h, i, d) * k(h, j, d)  o(h, i, d) +=! s(h, i, j) * v(h, j, d) }"));
  // Windows overlap, whether or not the statement that has them is a product of two reads.
  for (const std::string value : {"s(i + r, j)", "(s(i + r, j) - z(j))"})
    EXPECT_FALSE(
        in_blocks("def f(float(514, 64) a, float(64, 64) b, float(64) z, float(3, 64) w) -> (o) {"
                  " s(i, j) +=! a(i, k) * b(k, j)"
                  " o(i, j) +=! " +
                  value + " * w(r, j) where i in 0:512 }"))
        << value;
}

// Of what may not stay in the last cache together, blocks may; sooner one that is all that the
// second holds.
TEST(Propose, BlocksMayBeForTheLastCache) {
  const auto blocks = [](int64_t l3_bytes, int64_t l2_bytes = 1 << 16) {
    const std::string choice = First(
        "def f(float(512, 2) x, float(2, 8192) w, float(8192, 2) v) -> (y) {"
        " s(i, j) +=! x(i, k) * w(k, j) y(i, l) +=! s(i, j) * v(j, l) }",
        {.threads = 1, .l2_bytes = l2_bytes, .l3_bytes = l3_bytes});
    return choice.find("block i ") != std::string::npos;
  };
  EXPECT_TRUE(blocks(4 << 20));
  EXPECT_FALSE(blocks(64 << 20));
  EXPECT_TRUE(blocks(64 << 20, 320 << 10));
}

// One block says nothing, but tiles would have to divide it: 49 rows need not come by sevens.
TEST(Propose, OneBlockIsNone) {
  const std::string chain = First(
      "def f(float(49, 768) x, float(192, 768) v, float(768, 192) w) -> (y) {"
      " s(i, k) +=! x(i, c) * v(k, c)  y(i, k) +=! s(i, c) * w(k, c) }",
      {.threads = 1, .l2_bytes = 1 << 19}, Isa::kX86V3, {"v", "w"});
  EXPECT_EQ(chain.find("block i"), std::string::npos) << chain;
  EXPECT_EQ(chain.find("tile i 7"), std::string::npos) << chain;
}

// What an epilogue reads besides the sums is computed beside them, wherever its statements stand;
// what has another shape or reader, or lies across, before.
TEST(Propose, OperandsOfAnEpilogueAreMadeThere) {
  const auto clusters = [](std::string_view operands, std::string_view sum) {
    return First("def f(float(64, 64) x, float(64, 64) w, uint8(64, 64) r, float s) -> (y) { " +
                     std::string(operands) +
                     " z(i, j) +=! x(i, k) * w(k, j) y(i, j) = max(z(i, j) + " + std::string(sum) +
                     ", 0.0) }",
                 {.threads = 1, .l2_bytes = 1 << 20});
  };
  const auto starts = [](const std::string& choice, std::string_view clusters) {
    EXPECT_EQ(choice.rfind("f: cluster " + std::string(clusters) + " |", 0), 0u) << choice;
  };
  starts(clusters("d(i, j) = float(r(i, j)) e(i, j) = d(i, j) * s", "e(i, j)"), "z d e y");
  const std::string row = clusters("d(j) = float(r(0, j)) * s", "d(j)");
  starts(row, "d");
  EXPECT_NE(row.find("cluster z y |"), std::string::npos) << row;
  starts(clusters("d(i, j) = float(r(j, i))", "d(i, j)"), "d");
  starts(clusters("d(i, j) = float(r(i, j)) e(i) +=! d(i, j)", "d(i, j) * e(i)"), "d e");
}

// Bytes are multiplied as matrices where the processor has them: tiles of 16 rows and 16 lanes, of
// weights in panels of as many; what follows the sums takes a row at a time, unless the results lie
// across.
TEST(Propose, BytesAreMultipliedAsMatrices) {
  const auto first = [](std::string_view x, std::string_view shape, const char* layout, Isa isa) {
    const tc::Program program = Parse(fmt::format(
        "def f({}({}, 256) x, int8(256, 128) w, float(128) s) -> (y) {{"
        " z(i, j) +=! int32(x(i, k)) * int32(w(k, j)) y(i, j) = float(z(i, j)) * s(j) }}",
        x, shape));
    const ScheduleRequest request{.program = &program,
                                  .layouts = {{"y", *ParseLayout(layout)}},
                                  .constants = {"w"},
                                  .target = {.isa = isa, .threads = 1}};
    const auto choices = Propose(request, 1);
    return choices.yes() ? Print((*choices)[0]) : std::string();
  };
  const auto says = [](const std::string& choice, std::string_view what) {
    return choice.find(what) != std::string::npos;
  };
  for (const char* type : {"uint8", "int8"}) {
    const std::string many = first(type, "128", "ab", Isa::kX86V4Amx);
    EXPECT_TRUE(says(many, "tile i 32, j 32, k 4") && says(many, "dot k")) << many;
    EXPECT_TRUE(says(many, "together i") && says(many, "pack w BA16b4a")) << many;
    EXPECT_TRUE(says(many, "prefetch w")) << many;
  }
  const std::string few = first("uint8", "14", "ab", Isa::kX86V4Amx);
  EXPECT_TRUE(says(few, "tile i 14, j 64, k 4") && !says(few, "prefetch")) << few;
  EXPECT_FALSE(says(first("uint8", "128", "ba", Isa::kX86V4Amx), "together"));
  const std::string lanes = first("uint8", "128", "ab", Isa::kX86V4Vnni);
  EXPECT_TRUE(says(lanes, "dot k") && !says(lanes, "together")) << lanes;
  EXPECT_FALSE(says(first("int16", "128", "ab", Isa::kX86V4Amx), "together"));
}

// Squares of a row are added up behind the tiles that make it: taken from a tile at once they would
// leave it without columns.
TEST(Propose, SumsOfRowsLeaveTilesTheirColumns) {
  const std::string choice = First(
      "def f(float(64, 256) x, float(256, 128) w) -> (y) {"
      " a(i, j) +=! x(i, k) * w(k, j) q(i) +=! a(i, j) * a(i, j) y(i, j) = a(i, j) * q(i) }",
      {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(choice.find("cluster a | order"), std::string::npos) << choice;
  EXPECT_NE(choice.find("| vector j"), std::string::npos) << choice;
}

// Where each point of an image is looked up, lanes are along its channels, which share the lookup,
// if these lie side by side or all in the first cache: in loops apart from those that make the
// places. Otherwise each lane looks up a point of its own.
TEST(Propose, LookupsAreSharedByLanes) {
  const auto sample = [](std::string_view image, std::string_view read) {
    return First(fmt::format("def f(float({}) x, float(1000) g) -> (y) {{"
                             " p(i) = int32(floor(g(i) * 2.0))"
                             " y(c, i) = x({}) * g(i) where i in 0:1000 }}",
                             image, read),
                 {.threads = 1}, Isa::kX86V4);
  };
  const std::string places = "within(p(i), 0, 20), within(p(i) + 1, 0, 20)";
  const std::string many = sample("20, 20, 32", places + ", c"),
                    few = sample("20, 20, 3", places + ", c"),
                    planes = sample("32, 100, 100", "c, " + places),
                    small = sample("16, 20, 20", "c, " + places);
  EXPECT_NE(many.find("cluster y | order i | tile i 8 | parallel i | inner i c | unroll i"),
            std::string::npos)
      << many;
  EXPECT_NE(many.find("vector c 32"), std::string::npos) << many;
  EXPECT_EQ(few.find("vector c"), std::string::npos) << few;
  EXPECT_EQ(planes.find("vector c"), std::string::npos) << planes;
  EXPECT_NE(small.find("vector c 16"), std::string::npos) << small;
  const std::string rows =
      First("def f(float(90, 40) t, int32(50) i) -> (y) { y(d, l) = t(within(i(l), 0, 90), d) }",
            {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(rows.find("vector d"), std::string::npos) << rows;
}

// Of an image whose pixels are looked up twice or more there is a copy with its channels side by
// side, and no block of channels looks all of them up again.
TEST(Propose, SampledImagesHaveChannelsSideBySide) {
  const auto sample = [](int points) {
    return First(fmt::format("def f(float(64, 90, 90) x, float({0}) g) -> (y) {{"
                             " p(i) = int32(floor(g(i) * 2.0))"
                             " y(c, i) = x(c, within(p(i), 0, 90), within(p(i) + 1, 0, 90)) * g(i)"
                             " where i in 0:{0} }}",
                             points),
                 {.threads = 1, .l2_bytes = 1 << 19});
  };
  const std::string many = sample(20000), few = sample(5000);
  EXPECT_NE(many.find("inner i c | unroll i | vector c 32"), std::string::npos) << many;
  EXPECT_NE(many.find("pack x bca"), std::string::npos) << many;
  EXPECT_EQ(many.find("block c"), std::string::npos) << many;
  EXPECT_EQ(few.find("packed"), std::string::npos) << few;
}

// Where results have their channels side by side, temporaries on the way to them do: lanes are
// along channels in the sums over pictures, too. What shares loops with such sums is near, the
// chain that goes through all of a picture has loops of its own.
TEST(Propose, TemporariesLieAlongTheirReaders) {
  const tc::Program program = Parse(
      "def f(float(1, 64, 56, 56) x) -> (y) { t(n, c, i, j) = x(n, c, i, j) * 2.0"
      " s(n, c) +=! t(n, c, i, j) * t(n, c, i, j) q(n, c) = sqrt(s(n, c)) m(n) +=! q(n, c)"
      " u(n, c, i, j) = t(n, c, i, j) * q(n, c) v(n, c, i, j) = u(n, c, i, j) * m(n)"
      " y(n, c, i, j) = v(n, c, i, j) + x(n, c, i, j) }");
  ScheduleRequest request{.program = &program};
  request.target = {.threads = 1, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20};
  const auto first = [&] {
    const auto choices = Propose(request, 1);
    return choices.yes() ? Print((*choices)[0]) : std::string("refused");
  };
  EXPECT_NE(first().find("vector j"), std::string::npos) << first();
  EXPECT_NE(first().find("cluster u v y |"), std::string::npos) << first();
  for (const char* name : {"x", "y"}) request.layouts[name] = *ParseLayout("acdb");
  EXPECT_NE(first().find("vector c"), std::string::npos) << first();
  EXPECT_EQ(first().find("vector j"), std::string::npos) << first();
  EXPECT_NE(first().find("cluster u v y |"), std::string::npos) << first();
}

// So do what a depthwise convolution reads and what it makes for a pointwise one: the first has its
// lanes along them, the second adds up along them.
TEST(Propose, OperandsOfConvolutionsLieAlongChannels) {
  const tc::Program program = Parse(
      "def f(float(1, 64, 30, 30) x, float(64, 3, 3) w, float(96, 64) v) -> (y) {"
      " t(n, c, i, j) = max(x(n, c, i, j), 0.0)"
      " d(n, c, i, j) +=! t(n, c, i + r, j + s) * w(c, r, s) where i in 0:28, j in 0:28"
      " y(n, k, i, j) +=! d(n, c, i, j) * v(k, c) }");
  const std::vector<std::string> constants = {"v", "w"};
  ScheduleRequest request{.program = &program, .constants = constants};
  request.target = {.threads = 1};
  for (const char* name : {"x", "y"}) request.layouts[name] = *ParseLayout("acdb");
  const auto choices = Propose(request, 1);
  ASSERT_TRUE(choices.yes());
  const std::string choice = Print((*choices)[0]);
  EXPECT_NE(choice.find("vector c"), std::string::npos) << choice;
  EXPECT_NE(choice.find("vector k"), std::string::npos) << choice;
  EXPECT_EQ(choice.find("vector j"), std::string::npos) << choice;
}

// What has more bytes than what it is made from is made where it is read.
TEST(Propose, WhatWidensWaitsForItsReader) {
  const std::string choice = First(
      "def f(float(64, 64) x, float(64, 64) w, float(64, 64) v) -> (y) {"
      " a(i, j) +=! x(i, k) * w(k, j) b(i, j) = uint8(a(i, j)) c(i, j) = float(b(i, j))"
      " d(i, j) +=! x(i, k) * v(k, j) y(i, j) = d(i, j) + c(i, j) }",
      {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_EQ(choice.rfind("f: cluster a b |", 0), 0u) << choice;
  EXPECT_NE(choice.find(" d c y |"), std::string::npos) << choice;
}

// What waits for one reader and is made over its iterations shares its loops, where there is no
// group yet that takes it.
TEST(Propose, WhatWaitsBeginsAGroup) {
  const std::string gate = First(
      "def f(float(64, 64) a, float(64, 64) b, float(64) c) -> (y) { d(j) = exp(c(j))"
      " s(i, j) = sigmoid(a(i, j)) t(i, j) = tanh(b(i, j)) y(i, j) = s(i, j) * t(i, j) + d(j) }",
      {.threads = 1});
  EXPECT_EQ(gate.rfind("f: cluster d |", 0), 0u) << gate;
  EXPECT_NE(gate.find("| cluster s t y |"), std::string::npos) << gate;
}

// What waits comes before whoever reads it, and behind what it reads: every proposal is legal.
TEST(Propose, WhatWaitsComesInOrder) {
  for (const char* text :
       {"def f(float(24, 64) a, float(64, 40) b) -> (r) { s(i, j) +=! a(i, k) * b(k, j)"
        " z(i, j) = uint8(s(i, j)) w(j) = float(z(0, j)) r(i, j) = float(z(i, j)) + w(j) }",
        "def f(float(8, 64) a, float(64, 32) b, float(32) h0) -> (h) {"
        " s(i, j) +=! a(i, k) * b(k, j) z(i, j) = uint8(s(i, j)) w(i, j) = float(z(i, j))"
        " g(t, j) = (t > 0 ? h(t - 1, j) : h0(j)) * 0.5 where t in 0:8"
        " h(t, j) = g(t, j) + w(t, j) }",
        "def f(uint8(8, 32) x, float(32) h0) -> (h) { w(i, j) = float(x(i, j))"
        " g(t, j) = (t > 0 ? h(t - 1, j) : h0(j)) * 0.5 where t in 0:8"
        " h(t, j) = g(t, j) + w(t, j) }"}) {
    const tc::Program program = Parse(text);
    const ScheduleRequest request{.program = &program, .target = {.threads = 2}};
    const auto choices = Propose(request, 6);
    ASSERT_TRUE(choices.yes());
    for (const Choice& choice : *choices) {
      const auto tree = BuildSchedule(request, choice);
      ASSERT_TRUE(tree.yes()) << Print(choice);
      const auto legal = CheckLegal(request, *tree);
      EXPECT_TRUE(legal.yes()) << Print(choice) << legal.refusal().detail;
    }
  }
}

}  // namespace
}  // namespace weft::polyhedral
