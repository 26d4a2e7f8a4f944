// What a nest asks for ahead of its loads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// Printed, of a comprehension whose second operand is a constant.
std::string NestOf(const char* text, const std::string& choice, const char* constant) {
  const auto program = Compile(text);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  const auto choices = ParseChoices(choice, "test");
  const ScheduleRequest request{.program = &*program, .constants = {constant}, .target = Widest()};
  const auto scheduled = Schedule(request, &choices->at(0));
  return scheduled.ok() ? loops::Print(scheduled->nest) : scheduled.status().ToString();
}

// What is fetched ahead is the panel after this one, a piece in each turn of the rows; by the last
// of three itself, since no page may follow the operand.
TEST(Contractions, PrefetchTheNextPanel) {
  const auto nest = [](const std::string& tile) {
    return NestOf(R"(def gemm(float(48, 64) a, float(64, 48) b) -> (y) {
      @contraction y(i, j) +=! a(i, k) * b(k, j)
    })",
                  "gemm: cluster y | order j i | tile i " + tile +
                      ", j 16 | parallel j | unroll i | vector j 16 | pack b Ba16b | prefetch b",
                  "b");
  };
  // 8 turns of 64 steps for a panel of 1024 elements, then 24: each piece is fetched by one.
  EXPECT_NE(nest("6").find("prefetch b at 1024*j0 + 128*i0 + 2*k - 1024*floor((j0 + 1)/3) + 1024"),
            std::string::npos)
      << nest("6");
  EXPECT_NE(nest("2").find("prefetch b at 1024*j0 + 64*i0 + k - 1024*floor((j0 + 1)/3) + 1024"),
            std::string::npos)
      << nest("2");
}

// A panel of 512 bytes is over before the next one has come: the one 4 KiB later is fetched. One
// row walks over it once.
TEST(Contractions, PrefetchFarAheadOfSmallPanels) {
  const std::string nest = NestOf(
      R"(def gemv(float(1, 128) x, float(128, 32) W, float(16, 32) S) -> (y) {
    @contraction t(i, b, n) +=! x(i, 8*b + j) * W(8*b + j, n) where i in 0:1, b in 0:16, j in 0:8
    @reduction y(i, n) +=! t(i, b, n) * S(b, n)
  })",
      "gemv: cluster t y | order i n | tile n 16 | parallel i n | inner b j | vector n 16 | "
      "pack W Ba16b | prefetch W",
      "W");
  EXPECT_NE(nest.find("prefetch W at 2048*n0 + 128*b + 16*j + 1024"), std::string::npos) << nest;
}

// Two panels of 32 KiB may be more than the cache holds: where one row walks over them, it is what
// comes 16 KiB later.
TEST(Contractions, PrefetchNearInLargePanels) {
  const std::string nest = NestOf(
      R"(def gemv(float(1, 512) x, float(512, 64) W) -> (y) {
    @contraction y(i, n) +=! x(i, k) * W(k, n)
  })",
      "gemv: cluster y | order i n | tile n 16 | parallel i n | inner k | vector n 16 | "
      "pack W Ba16b | prefetch W",
      "W");
  EXPECT_NE(nest.find("prefetch W at 8192*n0 + 16*k + 4096"), std::string::npos) << nest;
}

std::string Proposed(const char* text) {
  const auto program = Compile(text);
  const ScheduleRequest request{.program = &*program, .target = {.isa = Isa::kX86V4}};
  const auto scheduled = Schedule(request);
  return scheduled.ok() ? loops::Print(scheduled->nest) : scheduled.status().ToString();
}

// What passes through the caches once, be it no constant: while one tile of the result takes its
// panel, that of the next is fetched, evenly.
TEST(Contractions, PrefetchWhatIsPassedOnce) {
  const auto nest = Proposed;
  // 6 rows of 1024 in 64 steps of 16 lanes.
  const std::string product = nest(R"(def gemv(float(16384, 1024) a, float(1024) x) -> (y) {
    y(i) +=! a(i, k) * x(k)
  })");
  EXPECT_NE(product.find("prefetch a at 6144*i0 + 96*k0_1 - 6144*floor((3*i0 + 3)/8192) + 6224"),
            std::string::npos)
      << product;
  const std::string shared = nest(R"(def gemm(float(16384, 1024) a, float(1024, 128) x) -> (y) {
    y(i, j) +=! a(i, k) * x(k, j)
  })");
  EXPECT_EQ(shared.find("prefetch"), std::string::npos) << shared;
  const std::string rows = nest(R"(def sum(float(16384, 1024) a) -> (y) { y(i) +=! a(i, k) })");
  EXPECT_NE(rows.find("prefetch a at 1024*i + 64*k0 - 1024*floor((i + 1)/16384) + 1072"),
            std::string::npos)
      << rows;
  const std::string columns = nest(R"(def sum(float(16384, 1024) a) -> (y) { y(k) +=! a(i, k) })");
  EXPECT_EQ(columns.find("prefetch"), std::string::npos) << columns;
}

// What a window reads for the first time 8 KiB farther on, once for all that it reads of a row; of
// windows beside channels only if no cache holds what they move over.
TEST(Windows, FetchRowsAhead) {
  const std::string rows = Proposed(R"(def pool(float(64, 257, 258) x) -> (y) {
    y(c, h, w) max=! x(c, 2 * h + r, 2 * w + s) where h in 0:128, w in 0:128, r in 0:3, s in 0:3
  })");
  // 4 steps of two rows, from the third that is read on.
  EXPECT_NE(rows.find("prefetch near x at 66306*c + 516*h + 2322\n"), std::string::npos) << rows;
  EXPECT_NE(rows.find("prefetch near x at 66306*c + 516*h + 2580\n"), std::string::npos) << rows;
  const std::string apart = Proposed(R"(def pool(float(64, 256, 256) x) -> (y) {
    y(c, h, w) max=! x(c, 2 * h + r, 2 * w + s) where h in 0:128, w in 0:128, r in 0:2, s in 0:2
  })");
  EXPECT_EQ(apart.find("prefetch"), std::string::npos) << apart;
  const auto channels = [](int images) {
    return Proposed(fmt::format(R"(def pool(float({}, 57, 57, 64) x) -> (y) {{
      y(n, h, w, c) max=! x(n, 2 * h + r, 2 * w + s, c) where h in 0:28, w in 0:28, r in 0:3, s in 0:3
    }})",
                                images)
                        .c_str());
  };
  // Where the rest of a place is looked up, or rows are long, nothing is.
  const std::string looked_up = Proposed(R"(def pool(float(2000, 2002) x, int64(64) at) -> (y) {
    y(i, w) max=! x(at(i), w + s) where i in 0:64, w in 0:2000, s in 0:3
  })");
  EXPECT_NE(looked_up.find("max("), std::string::npos) << looked_up;
  EXPECT_EQ(looked_up.find("prefetch near x at 2002*i"), std::string::npos) << looked_up;
  const std::string lengthy = Proposed(R"(def pool(float(12, 1000002) x) -> (y) {
    y(i, w) max=! x(i, w + s) where i in 0:12, w in 0:1000000, s in 0:3
  })");
  EXPECT_EQ(lengthy.find("prefetch"), std::string::npos) << lengthy;
  EXPECT_EQ(channels(4).find("prefetch"), std::string::npos) << channels(4);
  EXPECT_NE(channels(16).find("prefetch near x at "), std::string::npos) << channels(16);
}

// Of several passes over one panel the one that computes most fetches the next, rather one that
// stores no result.
TEST(Passes, TheLongestFetches) {
  const auto fetching = [](const std::string& nest, std::string_view made) {
    size_t count = 0;
    for (size_t at = 0; (at = nest.find("prefetch a at", at)) != std::string::npos; ++at) ++count;
    const size_t first = nest.find("prefetch a at"), store = nest.find("] = ", first);
    const size_t line = nest.rfind('\n', store) + 1;
    EXPECT_NE(nest.substr(line, store - line).find(made), std::string::npos) << nest;
    return count;
  };
  const std::string rows = Proposed(R"(def softmax(float(16384, 1024) a) -> (y) {
    m(i) max=! a(i, k)  e(i, k) = exp(a(i, k) - m(i))  s(i) +=! e(i, k)  y(i, k) = e(i, k) / s(i)
  })");
  EXPECT_EQ(fetching(rows, "e["), 4u) << rows;  // lines of a vector
  const std::string again = Proposed(R"(def softmax(float(16384, 1024) a) -> (y) {
    m(i) max=! a(i, k)  s(i) +=! exp(a(i, k) - m(i))  y(i, k) = exp(a(i, k) - m(i)) / s(i)
  })");
  EXPECT_EQ(fetching(again, "s_acc["), 4u) << again;
}

// Strips of a matrix, too: each row of one is continued by that of the next.
TEST(Passes, StripsAreFetchedByRows) {
  const std::string strips = Proposed(R"(def softmax(float(512, 16384) a) -> (y) {
    m(j) max=! a(k, j)  s(j) +=! exp(a(k, j) - m(j))  y(k, j) = exp(a(k, j) - m(j)) / s(j)
  })");
  EXPECT_NE(strips.find("prefetch a at 64*j0 + 16384*k_1 + 64"), std::string::npos) << strips;
}

// Of two passes over a row the one that takes longer asks for the next row: that of the results,
// which go past the caches, unless the other one computes functions.
TEST(Passes, ThatOfStreamsMayBeTheLongest) {
  const auto nest = [](const char* term) {
    const std::string text = fmt::format(
        "def f(float(4096, 768) x) -> (y) {{ s(i) +=! {}  y(i, j) = x(i, j) * s(i) }}", term);
    const auto program = Compile(text.c_str());
    const auto choices = ParseChoices(
        "f: cluster s y | order i | parallel i | vector j 32 | prefetch x | stream y", "test");
    const auto scheduled =
        Schedule({.program = &*program, .target = {.isa = Isa::kX86V3}}, &choices->at(0));
    return scheduled.ok() ? loops::Print(scheduled->nest) : scheduled.status().ToString();
  };
  const std::string squares = nest("x(i, j) * x(i, j)"), functions = nest("exp(x(i, j))");
  const auto is_before_the_sum = [](const std::string& nest) {
    const size_t fetched = nest.find("prefetch x"), summed = nest.find("s[0] = ");
    EXPECT_NE(fetched, std::string::npos) << nest;
    EXPECT_NE(summed, std::string::npos) << nest;
    return fetched < summed;
  };
  EXPECT_FALSE(is_before_the_sum(squares)) << squares;
  EXPECT_TRUE(is_before_the_sum(functions)) << functions;
}

}  // namespace
}  // namespace weft::oracle
