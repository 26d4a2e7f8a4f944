// Proposals for pointwise chains and reductions.
#include <fmt/format.h>

#include "polyhedral/propose/testing.h"

namespace weft::polyhedral {
namespace {

constexpr char kColumns[] =
    "def f(float(8, 1000, 1024) x) -> (y) { y(i, j) +=! x(i, k, j) where k in 0:1000 }";

TEST(Propose, ALongWalkTakesWholeRows) {
  const std::string far = First(kColumns, {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(far.find("tile j 1024 | parallel i j | inner k j"), std::string::npos) << far;
  const std::string near = First(kColumns, {.threads = 1, .l2_bytes = 64 << 20});
  EXPECT_NE(near.find("tile j 32"), std::string::npos) << near;
  EXPECT_EQ(near.find("inner"), std::string::npos) << near;
}

// What is added to a lane one by one: thousands of terms at most, then sums of sums. Lanes along a
// row, short sums and what does not round stay as they are.
TEST(Propose, LongSumsFromRowToRowAreSumsOfShorterOnes) {
  const auto first = [](std::string_view dtype, std::string_view sum, int rows, int columns) {
    return First(fmt::format("def f({0}({2}, 16, {3}) x) -> (y) {{ y(j) {1} x(i, k, j) where "
                             "i in 0:{2}, k in 0:16 }}",
                             dtype, sum, rows, columns),
                 {.threads = 1, .l2_bytes = 64 << 20});
  };
  const std::string cut = first("float", "+=!", 600, 8);
  EXPECT_NE(cut.find("tile j 8, i 60 | parallel j | inner i i"), std::string::npos) << cut;
  // A step around 1100 terms goes with no other: they are cut up themselves.
  const std::string inner = First(
      "def f(float(600, 1100, 17) x) -> (y) { y(j) +=! x(i, k, j) where i in 0:600, k in 0:1100 }",
      {.threads = 1, .l2_bytes = 64 << 20});
  EXPECT_NE(inner.find("k 220 | parallel j | inner i k k"), std::string::npos) << inner;
  for (const std::string& whole : {first("float", "+=!", 200, 8), first("float", "max=!", 600, 8),
                                   first("int32", "+=!", 600, 8)})
    EXPECT_EQ(whole.find("inner"), std::string::npos) << whole;
  // A statement that keeps the axis would go over it in parts too.
  const std::string kept =
      First("def f(float(9000, 8) x) -> (y) { s(j) +=! x(i, j)  y(i, j) = x(i, j) / s(j) }",
            {.threads = 1, .l2_bytes = 64 << 20});
  EXPECT_EQ(kept.find("inner"), std::string::npos) << kept;
  const std::string far = First(kColumns, {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(far.find("inner k j"), std::string::npos) << far;
}

// Also where each walk is short, but there are many. A window's columns lie along the lanes.
TEST(Propose, WindowsInMemoryTakeWholeRows) {
  constexpr char kWindows[] =
      "def f(float(64, 256, 257) x) -> (y) { y(c, h, w) max=! x(c, 2 * h + r, 2 * w + s)"
      " where h in 0:127, w in 0:128, r in 0:2, s in 0:3 }";
  const std::string far = First(kWindows, {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(far.find("tile w 128 | parallel c | inner r w"), std::string::npos) << far;
  const std::string near = First(kWindows, {.threads = 1, .l2_bytes = 64 << 20});
  EXPECT_EQ(near.find("inner"), std::string::npos) << near;
}

// A plane of rows that one window leaves for another stays in the second cache; where it does not,
// or planes are few for a team, strips do.
TEST(Propose, WindowsAfterWindowsGoByRows) {
  const auto text = [](int planes, int columns) {
    return fmt::format(
        "def f(float({0}, 260, {2}) x) -> (y) {{"
        "  t(c, i, w) max=! x(c, i, w + s) where i in 0:260, w in 0:{1}, s in 0:5"
        "  y(c, h, w) max=! t(c, h + r, w) where h in 0:256, w in 0:{1}, r in 0:5 }}",
        planes, columns, columns + 4);
  };
  const Target one{.threads = 1, .l2_bytes = 1 << 20};
  for (const int planes : {4, 64}) {
    const std::string rows = First(text(planes, 256), one);
    EXPECT_NE(rows.find("order c h | parallel c | vector w 32"), std::string::npos) << rows;
  }
  const std::string wide = First(text(64, 4096), one);
  EXPECT_NE(wide.find("order c w | tile w 32"), std::string::npos) << wide;
  Target many = one;
  many.threads = 32;
  EXPECT_NE(First(text(64, 256), many).find("order c w | tile w 32"), std::string::npos);
}

TEST(Propose, ALongWalkLeavesWorkForTheTeam) {
  const std::string wide = First(kColumns, {.threads = 16, .l2_bytes = 1 << 20});
  EXPECT_NE(wide.find("tile j 128"), std::string::npos) << wide;
}

TEST(Propose, RowsOfATeamShareALoop) {
  const std::string softmax = First(
      "def f(float(1000, 1024) x) -> (y) { m(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))"
      "  s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i) }",
      {.threads = 8});
  EXPECT_NE(softmax.find("cluster m e s y |"), std::string::npos) << softmax;
  const std::string norm = First(
      "def f(float(1000, 1024) x) -> (y) { s(i) +=! x(i, j)"
      "  r(i) = s(i) / 1024.0  y(i, j) = x(i, j) - r(i) }",
      {.threads = 8});
  EXPECT_NE(norm.find("cluster s r y |"), std::string::npos) << norm;
}

// Where rows are summed up, the columns by whole vectors.
TEST(Propose, ColumnsOfATeamShareALoop) {
  const std::string softmax =
      "def f(float(64, 512) x) -> (y) { m(j) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(j))"
      "  s(j) +=! e(i, j)  y(i, j) = e(i, j) / s(j) }";
  const std::string few = First(softmax, {.threads = 8});
  EXPECT_NE(few.find("cluster m e s y |"), std::string::npos) << few;
  const std::string many = First(softmax, {.threads = 16});
  EXPECT_EQ(many.find("cluster m e s y |"), std::string::npos) << many;
}

// A window that skips elements is nothing to have lanes along.
TEST(Propose, LanesFollowTheResultOfAWindow) {
  const std::string depthwise = First(
      "def f(float(72, 61, 61) x, float(72, 5, 5) w) -> (t, y) {"
      " t(c, i, j) +=! x(c, 2 * i + r, 2 * j + s) * w(c, r, s) where i in 0:28, j in 0:28"
      " y(c, i, j) = max(t(c, i, j), 0.0) where i in 0:28, j in 0:28 }",
      {.threads = 1});
  EXPECT_NE(depthwise.find("vector j 28"), std::string::npos) << depthwise;
}

TEST(Propose, SeveralPassesKeepTheirWalkNear) {
  const std::string softmax = First(
      "def f(float(8, 1000, 1024) x) -> (y) {"
      " m(i, j) max=! x(i, k, j) where k in 0:1000"
      " s(i, j) +=! exp(x(i, k, j) - m(i, j)) where k in 0:1000"
      " y(i, k, j) = exp(x(i, k, j) - m(i, j)) / s(i, j) }",
      {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(softmax.find("tile j 64"), std::string::npos) << softmax;
}

// What is read along another axis than it is written is transposed in registers, a tile at once.
TEST(Propose, RowsThatLieAcrossAreUnrolled) {
  const std::string across =
      First("def f(float(512, 64) x) -> (y) { y(i, j) = x(j, i) }", {.threads = 1});
  EXPECT_NE(across.find("tile i 16, j 8 | parallel i j | unroll i | vector j 8"), std::string::npos)
      << across;
  const std::string along =
      First("def f(float(512, 64) x) -> (y) { y(i, j) = x(i, j) }", {.threads = 1});
  EXPECT_EQ(along.find("unroll"), std::string::npos) << along;
  const std::string scaled = First(
      "def f(float(512, 64) x, float(512) s) -> (y) { y(i, j) = x(i, j) * s(i) }", {.threads = 1});
  EXPECT_EQ(scaled.find("unroll"), std::string::npos) << scaled;
}

// A window along rows that another statement makes wants rows ahead of its own: what follows, whose
// rows are those of the image that both read, has loops of its own.
TEST(Propose, ReadersOfWindowsAreApart) {
  const std::string pool = First(
      "def f(float(64, 28, 28) x) -> (y) {"
      " a(c, i, w) +=! w + s < 28 ? x(c, i, w + s) : 0.0 where c in 0:64, i in 0:28, w in 0:28, s "
      "in 0:3"
      " b(c, h, w) +=! h + r < 28 ? a(c, h + r, w) : 0.0 where c in 0:64, h in 0:28, w in 0:28, r "
      "in 0:3"
      " y(c, i, j) = b(c, i, j) - x(c, i, j) where c in 0:64, i in 0:28, j in 0:28 }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_EQ(pool.rfind("f: cluster a b | order c h | ", 0), 0u) << pool;
  EXPECT_NE(pool.find("| cluster y | order c i j"), std::string::npos) << pool;
}

// Of lines that come from memory four side by side are read one after the other.
TEST(Propose, RowsFromMemoryAreReadSideBySide) {
  const auto turned = [](int64_t l3_bytes) {
    return First("def f(float(4096, 1024) x) -> (y) { s() max=! x(i, j)  y(i, j) = x(j, i) - s() }",
                 {.threads = 1, .l3_bytes = l3_bytes}, Isa::kX86V4);
  };
  const std::string far = turned(4 << 20), near = turned(64 << 20);
  EXPECT_NE(far.find("order i j | tile i 64 16, j 16 | parallel i | inner i | unroll i | vector j"),
            std::string::npos)
      << far;
  EXPECT_NE(near.find("tile i 16, j 16 |"), std::string::npos) << near;
}

// Of narrow elements a line at once, where the nearest cache holds few of them.
TEST(Propose, LinesOfNarrowElementsAreReadWhole) {
  const auto turned = [](int64_t side) {
    return First(fmt::format("def f(uint8({0}, {0}) x) -> (y) {{ y(i, j) = x(j, i) }}", side),
                 {.threads = 1, .l1_bytes = 32 << 10});
  };
  EXPECT_NE(turned(512).find("tile i 64 16, j 32 | parallel i j | inner i | unroll i"),
            std::string::npos)
      << turned(512);
  EXPECT_NE(turned(96).find("tile i 16, j 32"), std::string::npos) << turned(96);
}

// What is turned and passes the caches is read by rows, a tile at a time, and stored by columns.
TEST(Propose, TurnedRowsPassTheCachesThroughACopy) {
  const Target target{.threads = 1, .l2_bytes = 512 << 10, .l3_bytes = 4 << 20};
  const auto first = [&](const std::string& body) {
    return First("def f(float(2048, 4096) x, float(2048, 4096) z) -> (y) { " + body + " }", target);
  };
  const std::string alone = first("y(i, j) = x(j, i)");
  EXPECT_EQ(alone.rfind("f: cluster x_packed | block i0 128, i1 256 | order i0 i1 |", 0), 0u)
      << alone;
  EXPECT_NE(alone.find("then y | block j 128, i 256"), std::string::npos) << alone;
  EXPECT_NE(alone.find("pack x ba | stream y"), std::string::npos) << alone;
  // The statements around it take part, and all that they read across.
  const std::string chain = first("a(j, i) = max(x(j, i), z(j, i))  y(i, j) = 2.0 * a(j, i)");
  EXPECT_NE(chain.find("then z_packed | block i0 64, i1 256"), std::string::npos) << chain;
  EXPECT_NE(chain.find("then a y | block j 64, i 256"), std::string::npos) << chain;
  EXPECT_NE(chain.find("stream y"), std::string::npos) << chain;
  // What is read along its rows too lies for one of both.
  const std::string both =
      First("def f(float(4096, 4096) x) -> (y) { y(i, j) = x(j, i) + x(i, j) }", target);
  EXPECT_EQ(both.find("packed"), std::string::npos) << both;
  const std::string summed = first("s(i) +=! x(j, i)  y(i, j) = x(j, i) - s(i)");
  EXPECT_EQ(summed.find("packed"), std::string::npos) << summed;
  const std::string near = First("def f(float(512, 512) x) -> (y) { y(i, j) = x(j, i) }", target);
  EXPECT_EQ(near.find("packed"), std::string::npos) << near;
}

// An image's colours are interleaved in registers.
TEST(Propose, ColoursAreUnrolledInsideTheLanes) {
  const auto turned = [](int colours) {
    return First(fmt::format("def f(float({}, 50000) x) -> (y) {{ y(i, c) = x(c, i) }}", colours),
                 {.threads = 1});
  };
  EXPECT_NE(turned(3).find("order i | tile i 8 | parallel i | unroll c | vector i 8"),
            std::string::npos)
      << turned(3);
  EXPECT_EQ(turned(24).find("unroll c"), std::string::npos) << turned(24);
  // What no cache holds is written past them, in whole lines.
  const auto far = [](int64_t places) {
    return First(
        fmt::format("def f(float(2, 3, {}) x) -> (y) {{ y(n, i, c) = x(n, c, i) }}", places),
        {.threads = 1, .l3_bytes = 1 << 20});
  };
  EXPECT_NE(far(50000).find("unroll c | vector i 8 | stream y"), std::string::npos) << far(50000);
  EXPECT_EQ(far(50001).find("stream"), std::string::npos) << far(50001);
}

// Below two vectors a row, lanes take a row each; above, they go along it.
TEST(Propose, LanesGoAcrossShortRows) {
  const auto softmax = [](int64_t columns) {
    return First("def f(float(1000, " + std::to_string(columns) +
                     ") x) -> (y) { m(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))"
                     "  s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i) }",
                 {.threads = 1});
  };
  for (const int64_t columns : {2, 7, 15}) {
    const std::string across = softmax(columns);
    EXPECT_NE(across.find("tile i 8 | parallel i | unroll j | vector i 8"), std::string::npos)
        << across;
  }
  EXPECT_NE(softmax(16).find("vector j 16"), std::string::npos) << softmax(16);
}

// Three colours side by side are no lanes; what is read side by side is.
TEST(Propose, AFewElementsAreWrittenApart) {
  const std::string first =
      First("def f(float(3, 4096) x) -> (y) { y(i, c) = sqrt(x(c, i)) }", {.threads = 1});
  EXPECT_NE(first.find("vector i"), std::string::npos) << first;
}

// Two to four short rows at a time, as many as lie in half of the registers, since a row's sum is a
// chain; long rows are a chain's length by themselves.
TEST(Propose, ShortRowsGoTogether) {
  const auto norm = [](int64_t columns) {
    return First(fmt::format("def f(float(1000, {}) x) -> (y) {{ s(i) +=! x(i, j)"
                             "  y(i, j) = x(i, j) - s(i) }}",
                             columns),
                 {.threads = 1}, Isa::kX86V4);
  };
  EXPECT_NE(norm(64).find("tile i 4 | parallel i | inner i j | unroll i | vector j 64"),
            std::string::npos)
      << norm(64);
  EXPECT_NE(norm(100).find("tile i 2 | parallel i | inner i j | unroll i | vector j 64"),
            std::string::npos)
      << norm(100);
  EXPECT_EQ(norm(200).find("unroll"), std::string::npos) << norm(200);
}

constexpr char kTurnedNorm[] =
    "def f(float(96, 1024) x) -> (y) { s(i) +=! x(i, j)  t(i, j) = x(i, j) * s(i)"
    "  y(j, i) = t(i, j) }";

// What a norm makes of rows lies along them, and is turned around in loops of its own, some rows at
// a time: summed up across the rows, all of them would be read with gaps.
TEST(Propose, RowsAreTurnedBehindTheirSums) {
  const std::string turned = First(kTurnedNorm, {.threads = 1}, Isa::kX86V4);
  EXPECT_EQ(turned.rfind("f: cluster s t | block i 16 | order i | vector j 64", 0), 0u) << turned;
  EXPECT_NE(
      turned.find("| then y | block i 16 | order j i | tile j 16, i 16 | unroll j | vector i 16"),
      std::string::npos)
      << turned;
  // So are rows that are summed up behind it.
  const std::string before = First(
      "def f(float(1024, 96) x) -> (y) { r(i, j) = x(j, i)  s(i) +=! r(i, j)"
      "  y(i, j) = r(i, j) * s(i) }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_EQ(before.rfind("f: cluster r | block i 16 | order i j | tile i 16, j 16", 0), 0u)
      << before;
  EXPECT_NE(before.find("| then s y | block i 16 | order i | vector j 64"), std::string::npos)
      << before;
  // Where the rows lie across from the start, nothing is turned.
  const std::string across = First(
      "def f(float(1024, 96) x) -> (y) { r(i, j) = x(j, i)  s(i) +=! r(i, j)"
      "  t(i, j) = r(i, j) * s(i)  y(j, i) = t(i, j) }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(across.find("cluster r s t y |"), std::string::npos) << across;
}

// What passes from parts to what reads them whole goes by in blocks of rows, once it is more than
// the second cache holds; not along an inner axis, where a block would lie in pieces.
TEST(Propose, PartsAreReadWhileTheyAreNear) {
  const auto gate = [](int64_t rows, const char* axes) {
    return First(fmt::format("def f(float({0}, 64) a, float({0}, 64) b) -> (y) {{"
                             " t({1}) = a(i, j) where i in 0:{0}, j in 0:64"
                             " t({2}) = b(i, j) where i in 0:{0}, j in 0:64"
                             " y(k, l) = t(k, l) * sigmoid(t(k, l)) }}",
                             rows, axes, std::string(axes) == "i, j" ? "i, j + 64" : "j + 64, i"),
                 {.threads = 1, .l2_bytes = 1 << 20});
  };
  EXPECT_NE(gate(4096, "i, j").find("| then y | block k 32 |"), std::string::npos)
      << gate(4096, "i, j");
  EXPECT_EQ(gate(1024, "i, j").find("then y"), std::string::npos) << gate(1024, "i, j");
  EXPECT_EQ(gate(4096, "j, i").find("then y"), std::string::npos) << gate(4096, "j, i");
}

// Parts of four planes and what turns them around are no one loop over places: lanes go along rows.
TEST(Propose, TurnedPartsHaveLoopsOfTheirOwn) {
  const std::string turned = First(
      "def f(float(1576, 2, 192) a) -> (y) {"
      " t(i, c, j) = a(i, c, j) where i in 0:1576, c in 0:2, j in 0:192"
      " t(i, c, j) = a(i, c - 2, j) where i in 0:1576, c in 2:4, j in 0:192"
      " y(i, j, c) = t(i, c, j) }",
      {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(turned.find("vector j"), std::string::npos) << turned;
  EXPECT_EQ(turned.find("cluster t t_2 y"), std::string::npos) << turned;
}

// Pairs that lie side by side are written by lanes along the axis around them; colours of pixels,
// which lie beside one another, apart.
TEST(Propose, LanesGoAroundPairs) {
  const std::string pairs = First(
      "def f(float(2, 128, 784) x) -> (y) { y(p, c, g) = x(g, c, p)"
      " where p in 0:784, c in 0:128, g in 0:2 }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(pairs.find("order p c | tile p 16, c 16 | parallel p | unroll p g | vector c 16"),
            std::string::npos)
      << pairs;
  const std::string threes = First(
      "def f(float(3, 128, 784) x) -> (y) { y(p, c, g) = x(g, c, p)"
      " where p in 0:784, c in 0:128, g in 0:3 }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(threes.find("unroll p | vector c 16"), std::string::npos) << threes;
}

// Planes that lie in few sets of the cache are written by lines, and not by a pair of each.
TEST(Propose, CrowdedPlanesAreWrittenByLines) {
  const auto first = [](int64_t size) {
    return First(fmt::format("def f(float({1}, {0}, 48) t, float({1}, {0}, 48) u) -> (y) {{"
                             " y(k, h, v) = v % 2 == 0 ? t(h, v / 2, k) : u(h, v / 2, k)"
                             " where k in 0:48, h in 0:{1}, v in 0:{1} }}",
                             size / 2, size),
                 {.threads = 1}, Isa::kX86V4);
  };
  EXPECT_NE(first(64).find("order h k v | tile v 2, k 16"), std::string::npos) << first(64);
  EXPECT_NE(first(60).find("order h v k | tile v 2, k 16"), std::string::npos) << first(60);
}

// Three colours in one subscript with the places that have them: lanes along these, which lie side
// by side in what is read, and not along the rows around both.
TEST(Propose, RowsThatHoldTheirColoursGoAlongPlaces) {
  const std::string rows = First(
      "def f(uint8(3, 224, 224) x) -> (y) { y(h, 3 * w + c) = int16(x(c, h, w))"
      " where h in 0:224, w in 0:224, c in 0:3 }",
      {.threads = 1});
  EXPECT_NE(rows.find("| vector w"), std::string::npos) << rows;
}

// Lanes along what is read, be it summed up across; who wants the sums in another order turns them
// around once.
TEST(Propose, SumsAcrossRowsKeepTheirLanes) {
  const std::string columns = First(
      "def f(float(96, 28, 32) x) -> (y) { s(c, w) +=! x(c, h, w)  y(w, c) = s(c, w) / 28.0 }",
      {.threads = 1});
  EXPECT_NE(columns.find("vector w 32 | cluster y |"), std::string::npos) << columns;
  const std::string windows = First(
      "def f(float(128, 216) x) -> (y) { s(c, w) +=! x(c, w + r) where w in 0:192, r in 0:25"
      "  y(w, c) = s(c, w) / 25.0 }",
      {.threads = 1});
  EXPECT_NE(windows.find("vector w 32 | "), std::string::npos) << windows;
  EXPECT_EQ(windows.find("cluster s y"), std::string::npos) << windows;
  // As wanted already, and values that are by column only.
  const std::string scaled = First(
      "def f(float(96, 28, 32) x, float(96, 1) g) -> (y) {"
      " s(c, w) +=! x(c, h, w)  y(c, w) = s(c, w) * g(c, 0) }",
      {.threads = 1});
  EXPECT_NE(scaled.find("cluster s y |"), std::string::npos) << scaled;
}

// What is made of several tensors along rows is turned around behind that, not in front.
TEST(Propose, RowsThatMeetAreTurnedOnce) {
  const auto text = [](const char* other, const char* at) {
    return fmt::format(
        "def f(float(28, 64, 96) x, float({}) b) -> (y) {{"
        " s(i, j) +=! x(k, i, j)  t(i, j) = s(i, j) + b({})  y(j, i) = t(i, j) }}",
        other, at);
  };
  const std::string rows = First(text("64, 96", "i, j"), {.threads = 1});
  EXPECT_NE(rows.find("cluster s t |"), std::string::npos) << rows;
  const std::string across = First(text("96, 64", "j, i"), {.threads = 1});
  EXPECT_EQ(across.find("cluster s t |"), std::string::npos) << across;
}

// Parts of an image with channels last go through its rows, with lanes along channels.
TEST(Propose, PartsGoThroughMemoryAsItLies) {
  const tc::Program program = Parse(
      "def f(float(1, 64, 96, 96) x) -> (y) {"
      " y(n, c, h, w) = x(n, c, h, 1) where n in 0:1, c in 0:64, h in 0:96, w in 0:1"
      " y(n, c, h, w) = x(n, c, h, w - 1) where n in 0:1, c in 0:64, h in 0:96, w in 1:97 }");
  ScheduleRequest request{.program = &program, .target = {.isa = Isa::kX86V3, .threads = 1}};
  request.layouts = {{"x", *ParseLayout("acdb")}, {"y", *ParseLayout("acdb")}};
  const auto choices = Propose(request, 1);
  ASSERT_TRUE(choices.yes());
  const std::string first = Print((*choices)[0]);
  EXPECT_NE(first.find("block n 1, h 1 | order n h w c | tile c 32 | vector c 32"),
            std::string::npos)
      << first;
}

// Lanes of half a line are written two at a time where rows of the result share few sets of the
// nearest cache: after all rows the line would have to come again.
TEST(Propose, LinesOfShortLanesAreWrittenWhole) {
  const auto turned = [](int columns) {
    return First(fmt::format("def f(float(8, {0}, 60) x) -> (y) {{ y(i, j, k) = x(k, j, i) where "
                             "i in 0:60, j in 0:{0}, k in 0:8 }}",
                             columns),
                 {.threads = 1, .l2_bytes = 1 << 20});
  };
  EXPECT_NE(turned(512).find("order i j k | tile j 2, i 16, k 8"), std::string::npos)
      << turned(512);
  EXPECT_NE(turned(520).find("order j i k | tile i 16, k 8"), std::string::npos) << turned(520);
}

// Both passes over a channel come before the next one where more than one statement wants the
// channels of a group together, and these are more than the cache holds.
constexpr char kChannelsOfGroups[] =
    "def f(float(2, 32, {0}) x) -> (y) {{ a(n, c) +=! x(n, c, k)"
    " b(n, c) +=! (x(n, c, k) - a(n, c)) * (x(n, c, k) - a(n, c))"
    " s(n, g) +=! b(n, 4 * g + e) where n in 0:2, g in 0:8, e in 0:4"
    " y(n, c, k) = x(n, c, k) * s(n, c / 4) }}";

TEST(Propose, PassesComeBackWhileTheirChannelIsNear) {
  const auto norm = [](int64_t places) {
    return First(fmt::format(fmt::runtime(kChannelsOfGroups), places),
                 {.threads = 1, .l2_bytes = 1 << 19});
  };
  EXPECT_EQ(norm(1024).rfind("f: cluster a b s y | order n |", 0), 0u) << norm(1024);
  EXPECT_EQ(norm(32768).rfind("f: cluster a b | order n c |", 0), 0u) << norm(32768);
}

// Of columns that are far four lines of each row come together.
TEST(Propose, PassesOverFarRowsTakeFourLines) {
  const auto softmax = [](int64_t rows, int64_t columns) {
    return First(fmt::format("def f(float({}, {}) x) -> (y) {{ m(j) max=! x(i, j)"
                             " e(i, j) = exp(x(i, j) - m(j))  s(j) +=! e(i, j)"
                             " y(i, j) = e(i, j) / s(j) }}",
                             rows, columns),
                 {.threads = 1, .l2_bytes = 1 << 19});
  };
  EXPECT_NE(softmax(256, 4096).find("tile j 64"), std::string::npos) << softmax(256, 4096);
  EXPECT_NE(softmax(96, 4000).find("tile j 32"), std::string::npos) << softmax(96, 4000);
  EXPECT_NE(softmax(16, 400000).find("tile j 32"), std::string::npos) << softmax(16, 400000);
}

// What is less work than a barrier is done by one thread.
TEST(Propose, LittleIsLeftToOneThread) {
  const auto softmax = [](int64_t columns) {
    return First(fmt::format("def f(float(1, {}) x) -> (y) {{ m(i) max=! x(i, j)"
                             " e(i, j) = exp(x(i, j) - m(i))  s(i) +=! e(i, j)"
                             " y(i, j) = e(i, j) / s(i) }}",
                             columns),
                 {.threads = 2});
  };
  EXPECT_EQ(softmax(100).rfind("f: cluster m e s y | order i |", 0), 0u) << softmax(100);
  EXPECT_EQ(softmax(100000).rfind("f: cluster m |", 0), 0u) << softmax(100000);
}

// Many elements are read for each that is written: lanes lie along these.
TEST(Propose, LanesOfSumsFollowWhatTheyRead) {
  const tc::Program program =
      Parse("def f(float(1, 64, 40, 50) x) -> (y) { y(n, c, h) +=! x(n, c, h, w) }");
  ScheduleRequest request{.program = &program, .target = {.isa = Isa::kX86V3, .threads = 1}};
  request.layouts["x"] = Layout::Permuted(std::array{0, 2, 3, 1});
  const std::string sums = Print((*Propose(request, 1))[0]);
  EXPECT_NE(sums.find("vector c 32"), std::string::npos) << sums;
}

// What the last cache does not hold until it is read goes past it, in whole lines.
TEST(Propose, LargeResultsBypassTheCaches) {
  const auto text = [](int64_t columns) {
    return "def f(float(1000, " + std::to_string(columns) +
           ") x) -> (y, m) { m(i) max=! x(i, j)  y(i, j) = x(i, j) - m(i) }";
  };
  const Target small{.threads = 1, .l3_bytes = 4 << 20}, large{.threads = 1, .l3_bytes = 32 << 20};
  const std::string far = First(text(1024), small);
  EXPECT_NE(far.find("| stream y\n"), std::string::npos) << far;
  EXPECT_EQ(First(text(1024), large).find("stream"), std::string::npos);
  EXPECT_EQ(First(text(1023), small).find("stream"), std::string::npos);  // rows share lines
}

// Heads are split off in the order in which tokens lie, where they go past the caches: rows are
// stored anywhere, but read well only one after another, or in a few places at once.
TEST(Propose, RowsGoPastTheCachesAsTheyAreRead) {
  const auto first = [](const std::string& read, const std::string& written, int64_t l3) {
    return First(
        fmt::format("def f(float(4, {}, 32) x) -> (y) {{ y(b, {}, d) = max(x(b, {}, d), 0) }}",
                    read, written, written == "h, s" ? "s, h" : "h, s"),
        {.threads = 1, .l3_bytes = l3});
  };
  EXPECT_NE(first("512, 12", "h, s", 4 << 20).find("order b s h d"), std::string::npos);
  EXPECT_NE(first("512, 12", "h, s", 64 << 20).find("order b h s d"), std::string::npos);  // near
  EXPECT_NE(first("12, 512", "s, h", 4 << 20).find("order b s h d"), std::string::npos);
  EXPECT_NE(first("24, 512", "s, h", 4 << 20).find("order b h s d"), std::string::npos);
}

}  // namespace
}  // namespace weft::polyhedral
