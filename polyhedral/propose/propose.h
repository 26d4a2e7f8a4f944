// The pieces of Propose: which statements share a cluster, and how a cluster's loops should look.
//
// Both are models, cheap and explainable; the tuner measures around them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "polyhedral/choice/choice.h"
#include "polyhedral/schedule.h"

namespace weft::polyhedral {

inline constexpr int64_t kLineBytes = 64;  // of a cache

// What a cluster is, seen once: its statements and their axes.
struct ClusterView {
  const ScheduleRequest* request = nullptr;
  std::vector<int32_t> statements;
  std::vector<std::vector<std::string>> axes;  // per statement, per index
  std::vector<std::string> shared;
  size_t anchor = 0;
  std::vector<Tile> blocks;  // what is seen is one of these

  const tc::Program& program() const { return *request->program; }
  const tc::Statement& At(size_t k) const { return program().statements[statements[k]]; }
  // Of a block, or of the first statement that has the axis; 0 if symbolic.
  int64_t Extent(const std::string& axis) const;
  bool IsShared(const std::string& axis) const;
  // Tiles of this size end where the blocks of the axis do, if it has any.
  bool DividesBlock(const std::string& axis, int64_t size) const;
};

ClusterView View(const ScheduleRequest& request, std::vector<int32_t> statements);

// 0 if an extent is symbolic. Extents are a model's: their product need not be an integer's.
double Bytes(const tc::TensorDecl& tensor);

// With layouts of temporaries, which proposals go by and schedules do not: a temporary lies along
// the lanes that run along it (lower/storage.h). Going back from the results, those are along the
// axis that its readers would have contiguous.
ScheduleRequest WithTemporaries(const ScheduleRequest& request);

// Sum of products of two reads, one of which is used again for several results: what is loaded for
// one sum only makes rows to reduce. The second factor may be made of several tensors, read at the
// same place.
struct Contraction {
  tc::ExprId x, w;                     // reads
  std::vector<tc::ExprId> beside_w;    // of other tensors
  std::vector<int32_t> kept, reduced;  // indices of the statement
};
std::optional<Contraction> AsContraction(const tc::Program& program,
                                         const tc::Statement& statement);

// How a tensor lies: as the request says, else plain.
Layout LayoutOf(const ScheduleRequest& request, const tc::TensorDecl& tensor);

// Bytes from one element of a tensor, at these subscripts, to that of the next step of an index of
// the statement; 0 if they differ or are not known.
int64_t BytesBetween(const ScheduleRequest& request, tc::TensorId of,
                     const std::vector<tc::ExprId>& at, int32_t index);

// The axis along which a tensor is contiguous under its layout in the request: the subscript of its
// innermost physical axis, when that moves by one with a single index of the statement; else -1.
int32_t ContiguousIndex(const ScheduleRequest& request, const tc::Statement& statement,
                        tc::TensorId tensor, const std::vector<tc::ExprId>& subscripts);

// Rows of fewer elements are not gone along: across them, what is loaded side by side is permuted.
inline constexpr int64_t kNarrow = 4;

// Whether what a statement reads lies along another axis than what it writes, in rows that are not
// narrow: vectors are transposed, in loops of its own.
bool Turns(const ScheduleRequest& request, const tc::Statement& s);
// Whether it sums up rows, of everything that it reads: each along itself or, but for products,
// some across, with lanes along them.
bool SumsRows(const ScheduleRequest& request, const tc::Statement& s);

// The axis of a read that is this index and nothing else; -1 if there is none.
int32_t AxisOf(const tc::Program& program, tc::ExprId read, int32_t index);
// Whether an index moves a read, be it through a subscript that is loaded.
bool Uses(const tc::Program& program, tc::ExprId read, int32_t index);

// Of a statement whose results lie side by side along an index that moves subscripts which are
// loaded, so that lanes along it would each look up a place of their own: the longest kept index of
// at least `least` elements that moves what is read there and no such subscript, as the channels of
// an image that is sampled at points; -1 if there is none. Elements that lie apart cost more than
// places of their own, unless a place is several lookups and the first-level cache holds them.
int32_t BesideLookups(const ScheduleRequest& request, const tc::Statement& s, int64_t least);
// Of at least a vector of what the statement writes.
int32_t BesideLookups(const ScheduleRequest& request, const tc::Statement& s);

// Indices on which a statement's value is chosen, `i == 0 ? a : b` or `h % 2 == 0 ? a : b`: the
// choice is no work when they are constant, so by axis how many successive values to unroll: all
// of a short axis, or a period.
std::map<std::string, int64_t> Switches(const ClusterView& view);

// The axis of the lanes of a cluster that is no contraction, of so many elements or more; empty if
// there is none.
std::string LaneAxis(const ClusterView& view, const std::map<std::string, int64_t>& switches,
                     int64_t least = 4);

// Statements that share a cluster, in the order in which they run.
struct StatementGroup {
  std::vector<int32_t> statements;
  bool loop = false;  // a recurrence, which runs as it is written
};
// With `fuse` off, as few together as is legal; with `little` on, also those whose shared loops
// give fewer tasks than there are threads, where all of it is less work than barriers between them.
std::vector<StatementGroup> GroupStatements(const ScheduleRequest& request, bool fuse,
                                            bool little = false);

// The loops of a cluster. `variant` 0 is the best guess; larger ones vary tile and order.
std::optional<Cluster> ContractionCluster(const ClusterView& view, int variant, Choice& choice);
// The kinds of register tiles that may be the fastest for its contraction; none if it is none.
struct Kinds {
  int count = 0;
  bool copies = false;  // one of them has lanes along an axis of both operands, over a copy of one
};
Kinds NearKinds(const ClusterView& view);
std::optional<Cluster> DotCluster(const ClusterView& view);
// What DotCluster's loops take for an element of the result, as RankTiles counts cycles; infinity
// if there are none.
double DotCycles(const ClusterView& view);
// The operands that WithCopies takes of contractions which alone read them, whose lanes could run
// along any of their axes, and of what turns rows into columns that go past the caches.
std::vector<std::string> CopyCandidates(const ScheduleRequest& request);
// The blocks in which a copy runs right before the contraction that reads it, whose loops without
// blocks are given: of the copy and of the contraction; none if all of it is copied first.
struct CopyBlocks {
  std::vector<Tile> copy, contraction;
};
CopyBlocks BlocksOfCopy(const ClusterView& copy, const ClusterView& contraction,
                        const Cluster& loops);
// Operands of which places are looked up, some elements twice or more, with the layouts of copies
// in which channels of a place lie side by side, for lanes.
std::map<std::string, Layout> SampledLayouts(const ScheduleRequest& request);
// Planes over which a window moves that sums up their channels, with the layouts of copies in which
// the channels of a place lie side by side: from plane to plane each step of the sum is in another
// line, and often in another page. Without AVX-512, convolutions of planes are 1.0 to 1.5 times as
// fast with the copy.
std::map<std::string, Layout> WindowedLayouts(const ScheduleRequest& request);
// How statements that turn rows into columns read through copies: tiles are read by rows, lie in
// the cache by columns, and become columns of results in whole lines. None if nothing is turned.
struct TurnedCopies {
  struct Copy {
    std::string along;  // the axis of its innermost loop, so that memory is read row by row
    Layout layout;
    std::vector<Tile> blocks;
  };
  std::vector<Copy> copies;
  std::vector<Tile> blocks;  // of the reader
};
std::optional<TurnedCopies> TurnCopies(std::span<const ClusterView> copies,
                                       const ClusterView& reader);
// Where lanes are channels of places that are looked up, and results lie along the places: a few
// of these are unrolled, so that registers transpose what is stored, and all channels of a place
// are inside, so that it is looked up once. Without statements and what is parallel; none
// elsewhere.
std::optional<Cluster> SamplingCluster(const ClusterView& view);
Cluster RowCluster(const ClusterView& view, int variant);
// The clusters of a recurrence, which keeps the order it is written in.
void AddAsWritten(const ScheduleRequest& request, const std::vector<int32_t>& statements,
                  Choice& choice);

// Operands of the cluster that the processor would fetch too late: tables that it looks up rows of,
// and what passes through the caches once.
void AddPrefetches(const ClusterView& view, const Cluster& cluster, Choice& choice);

// Outputs of the cluster that the last cache does not hold until someone reads them: written in
// whole lines past it, they are not fetched from memory before they are stored to it.
void AddStreams(const ClusterView& view, const Cluster& cluster, Choice& choice);
// Whether what a statement writes goes past the caches if it is stored in whole lines: an output
// that they would not hold until it is read. Lines of short rows are stored a few rows at once.
bool PassesCaches(const ClusterView& view, const tc::Statement& s, bool short_rows = false);

// Where rows are moved past the caches, as heads are split off, in an order in which pieces that
// lie side by side are read long after one another: the order in which they lie in the largest
// operand. Rows of 128 bytes and more can be stored anywhere (1.6 to 1.9 times as fast, rows of 64
// bytes 0.93).
void OrderAsRead(const ClusterView& view, const std::string& lane, std::vector<std::string>& order);

// By group the blocks of its cluster, none where they gain nothing; `then` in those of the group
// before. Recurrences and open extents have none, nor has a device, where no cache is a core's own.
struct BlockedCluster {
  std::vector<Tile> blocks;
  bool then = false;
};
std::vector<BlockedCluster> BlockClusters(const ScheduleRequest& request,
                                          const std::vector<StatementGroup>& groups);

// A long sum of floats is one of shorter ones, which rounds less: the loop, of those with these
// extents that are nested from outside inwards, that is cut up, and in how many points, so that
// sums of `most` terms or more fall into those of `terms`; none where they are shorter.
std::optional<std::pair<size_t, int64_t>> ShorterSums(const std::vector<int64_t>& extents,
                                                      int64_t most, int64_t terms);

// The shortest prefix of `order` with tasks enough for the team.
int32_t ParallelPrefix(const ClusterView& view, const Cluster& cluster);

}  // namespace weft::polyhedral
