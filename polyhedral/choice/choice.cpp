#include "polyhedral/choice/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"

namespace weft::polyhedral {
namespace {

std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += " " + PrintName(name);
  return text;
}

void PrintTiles(std::string_view word, const std::vector<Tile>& tiles, std::string& text) {
  for (size_t i = 0; i < tiles.size(); ++i) {
    text += (i == 0 ? fmt::format(" | {} ", word) : ", ") + PrintName(tiles[i].axis);
    for (const int64_t size : tiles[i].sizes) text += fmt::format(" {}", size);
  }
}

void PrintCluster(const Cluster& cluster, std::string& text) {
  text += (cluster.then ? " then" : " cluster") + Names(cluster.statements);
  PrintTiles("block", cluster.blocks, text);
  if (!cluster.order.empty()) text += " | order" + Names(cluster.order);
  PrintTiles("tile", cluster.tiles, text);
  if (cluster.parallel > 0) {
    const auto end =
        cluster.order.begin() + std::min<size_t>(cluster.parallel, cluster.order.size());
    text += " | parallel" + Names({cluster.order.begin(), end});
  }
  if (!cluster.inner.empty()) text += " | inner" + Names(cluster.inner);
  if (!cluster.shares.empty()) text += " | share" + Names(cluster.shares);
  if (!cluster.turns.empty()) text += " | turn" + Names(cluster.turns);
  if (!cluster.together.empty()) text += " | together " + PrintName(cluster.together);
  if (!cluster.unroll.empty()) text += " | unroll" + Names(cluster.unroll);
  PrintTiles("vector", cluster.lanes, text);
  if (!cluster.dot_axis.empty()) text += " | dot " + PrintName(cluster.dot_axis);
  if (cluster.dot_flushes) text += " flush";
}

class Parser {
 public:
  explicit Parser(Lexer lexer) : lexer_(std::move(lexer)) {}

  Result<std::vector<Choice>> Run() {
    std::vector<Choice> choices;
    while (!lexer_.AtEnd()) {
      Choice choice;
      WEFT_TRY(choice.group, lexer_.ExpectName());
      WEFT_TRY(lexer_.Expect(":"));
      if (lexer_.Peek(1).text != ":" && !lexer_.AtEnd()) {
        do {
          WEFT_TRY(Section(choice));
        } while (lexer_.Accept("|"));
      }
      choices.push_back(std::move(choice));
    }
    return choices;
  }

 private:
  // A name that does not open the next group.
  bool AtName() const {
    const TokenKind kind = lexer_.Peek().kind;
    return (kind == TokenKind::kName || kind == TokenKind::kString) && lexer_.Peek(1).text != ":";
  }

  Result<std::vector<std::string>> NameList() {
    std::vector<std::string> names;
    while (AtName()) {
      WEFT_TRY(names.emplace_back(), lexer_.ExpectName());
    }
    return names;
  }

  Status Section(Choice& choice) {
    const Token at = lexer_.Peek();
    WEFT_TRY(const std::string word, lexer_.ExpectName());
    if (word == "pack") return Packs(choice);
    if (word == "prefetch") {
      WEFT_TRY(choice.prefetches, NameList());
      return {};
    }
    if (word == "stream") {
      WEFT_TRY(choice.streams, NameList());
      return {};
    }
    if (word == "map") return Map(choice.map);
    if (word == "cluster" || (word == "then" && !choice.clusters.empty())) {
      choice.clusters.push_back({.then = word == "then"});
      WEFT_TRY(choice.clusters.back().statements, NameList());
      return {};
    }
    if (choice.clusters.empty()) return lexer_.ErrorAt(at, "found " + word + ", expected cluster");
    Cluster& cluster = choice.clusters.back();
    if (word == "block") return Blocks(cluster);
    if (word == "tile") return Tiles(cluster.tiles);
    if (word == "vector") return Lanes(cluster);
    if (word == "together") {
      WEFT_TRY(cluster.together, lexer_.ExpectName());
      return {};
    }
    if (word == "dot") {
      WEFT_TRY(cluster.dot_axis, lexer_.ExpectName());
      cluster.dot_flushes = AtName() && lexer_.Accept("flush");
      return {};
    }
    WEFT_TRY(std::vector<std::string> names, NameList());
    if (word == "order") {
      cluster.order = std::move(names);
    } else if (word == "inner") {
      cluster.inner = std::move(names);
    } else if (word == "share") {
      cluster.shares = std::move(names);
    } else if (word == "turn") {
      cluster.turns = std::move(names);
    } else if (word == "unroll") {
      cluster.unroll = std::move(names);
    } else if (word == "parallel") {
      const bool prefix = names.size() <= cluster.order.size() &&
                          std::equal(names.begin(), names.end(), cluster.order.begin());
      if (!prefix) return lexer_.ErrorAt(at, "parallel must name the first axes of order");
      cluster.parallel = static_cast<int32_t>(names.size());
    } else {
      return lexer_.ErrorAt(
          at,
          fmt::format("found {}, expected cluster, then, block, order, tile, parallel, inner, "
                      "share, turn, together, unroll, vector, dot, pack, prefetch, stream or map",
                      word));
    }
    return {};
  }

  Status Blocks(Cluster& cluster) {
    const Token at = lexer_.Peek();
    WEFT_TRY(Tiles(cluster.blocks));
    const auto one = [](const Tile& tile) { return tile.sizes.size() == 1; };
    if (!std::ranges::all_of(cluster.blocks, one))
      return lexer_.ErrorAt(at, "a block has several sizes along an axis, expected one");
    return {};
  }

  Status Tiles(std::vector<Tile>& tiles) {
    do {
      Tile& tile = tiles.emplace_back();
      WEFT_TRY(tile.axis, lexer_.ExpectName());
      do {
        const Token at = lexer_.Peek();
        WEFT_TRY(const int64_t size, lexer_.ExpectInt());
        if (size < 1) return lexer_.ErrorAt(at, "found a tile below 1, expected a positive size");
        tile.sizes.push_back(size);
      } while (lexer_.Peek().kind == TokenKind::kInt);
    } while (lexer_.Accept(","));
    return {};
  }

  Status Lanes(Cluster& cluster) {
    const Token at = lexer_.Peek();
    WEFT_TRY(Tiles(cluster.lanes));
    for (const Tile& lanes : cluster.lanes) {
      if (lanes.sizes.size() > 1)
        return lexer_.ErrorAt(at, "found several numbers of lanes along an axis, expected one");
      if (lanes.sizes[0] > 64)
        return lexer_.ErrorAt(at, fmt::format("found {} lanes, expected 1 to 64", lanes.sizes[0]));
    }
    return {};
  }

  Status Map(GridMap& map) {
    map = {};
    WEFT_TRY(map.mapping, lexer_.ExpectName());
    while (lexer_.Peek().kind == TokenKind::kInt) {
      WEFT_TRY(map.sizes.emplace_back(), lexer_.ExpectInt());
    }
    return {};
  }

  // The layout's `+16` and `-` are punctuation of their own to the lexer.
  Status Packs(Choice& choice) {
    do {
      Pack& pack = choice.packs.emplace_back();
      WEFT_TRY(pack.tensor, lexer_.ExpectName());
      std::string text = lexer_.Next().text;
      if (lexer_.Accept("+")) {
        WEFT_TRY(const int64_t pad, lexer_.ExpectInt());
        text += fmt::format("+{}", pad);
      }
      WEFT_TRY(pack.layout, ParseLayout(text));
    } while (lexer_.Accept(","));
    return {};
  }

  Lexer lexer_;
};

}  // namespace

std::string Print(const Choice& choice) {
  std::string text = PrintName(choice.group) + ":";
  for (size_t i = 0; i < choice.clusters.size(); ++i) {
    if (i > 0) text += " |";
    PrintCluster(choice.clusters[i], text);
  }
  for (size_t i = 0; i < choice.packs.size(); ++i) {
    const Pack& pack = choice.packs[i];
    if (i == 0) text += choice.clusters.empty() ? " pack " : " | pack ";
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", PrintName(pack.tensor), Print(pack.layout));
  }
  if (!choice.prefetches.empty()) text += " | prefetch" + Names(choice.prefetches);
  if (!choice.streams.empty()) text += " | stream" + Names(choice.streams);
  if (!choice.map.mapping.empty()) {
    text += (text.ends_with(':') ? " map " : " | map ") + choice.map.mapping;
    for (const int64_t size : choice.map.sizes) text += fmt::format(" {}", size);
  }
  return text + "\n";
}

Result<std::vector<Choice>> ParseChoices(std::string_view text, const std::string& file) {
  WEFT_TRY(Lexer lexer, Lexer::Open(text, file));
  return Parser(std::move(lexer)).Run();
}

}  // namespace weft::polyhedral
