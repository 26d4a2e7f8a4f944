#include "tuner/search.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "base/log.h"
#include "tuner/measure.h"

namespace weft::tuner {
namespace {

using polyhedral::Choice;

constexpr int64_t kGlance = 3, kLook = 15, kStare = 41;  // rounds: first, second, of the winner
constexpr double kFarBehind = 1.25;                      // after a glance, by the fastest of each
constexpr double kGain = 1.02;  // the start stays unless another is faster by more
constexpr size_t kParents = 4;  // the best so many
constexpr int kMostMoves = 3;   // of one mutation
constexpr int kTries = 64;      // at another legal choice, before the space counts as searched

class Searcher {
 public:
  Searcher(const Space& space, const Choice& start, Measurer& measurer,
           const SearchOptions& options)
      : space_(space),
        start_(start),
        measurer_(measurer),
        options_(options),
        random_(options.seed) {
    seen_.insert(polyhedral::Print(start));
  }

  Result<SearchResult> Run() {
    WEFT_TRY(const auto first, measurer_.Measure(std::span(&start_, 1), kGlance));
    if (first.empty() || first[0].outcome != Outcome::kTimed || first[0].us.empty())
      return Internal(fmt::format("the choice to start from is not timed: {}",
                                  first.empty() ? "" : first[0].why));
    std::vector<double> samples = first[0].us;
    result_.start_us = result_.best_us = Summarize(samples).p50;
    result_.best = start_;
    elite_.push_back({start_, 1});
    for (const Choice& choice : space_.Constructions(options_.constructions)) {
      if (IsOver()) break;
      WEFT_TRY(Try(choice));
    }
    while (!IsOver()) {
      const auto child = Child();
      if (!child) break;
      WEFT_TRY(Try(*child));
    }
    WEFT_TRY(Confirm());
    return std::move(result_);
  }

 private:
  struct Scored {
    Choice choice;
    double ratio = 1;  // its time by the start's
  };

  bool IsOver() {
    if (options_.stop && *options_.stop)
      result_.stopped = Stopped::kInterrupted;
    else if (Seconds() > options_.seconds)
      result_.stopped = Stopped::kBudget;
    return result_.stopped != Stopped::kDone || refused_ > 2 * options_.most_trials ||
           std::ssize(result_.trials) >= options_.most_trials;
  }

  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // Both, or nothing was measured.
  static bool AreTimed(std::span<const Timing> pair) {
    return pair.size() == 2 && !pair[0].us.empty() && !pair[1].us.empty();
  }

  // Nothing if it is interrupted.
  Result<std::vector<Timing>> Measure(std::span<const Choice> pair, int64_t rounds) {
    auto turns = measurer_.Measure(pair, rounds);
    if (turns.ok() || turns.status().code() != Code::kInterrupted) return turns;
    result_.stopped = Stopped::kInterrupted;
    return std::vector<Timing>();
  }

  // The fastest so far is the first of the elite.
  Status Try(const Choice& choice) {
    if (!seen_.insert(polyhedral::Print(choice)).second) return {};
    const Scored& best = elite_.front();
    const std::vector<Choice> pair = {best.choice, choice};
    WEFT_TRY(auto turns, Measure(pair, kGlance));
    if (AreTimed(turns) &&
        std::ranges::min(turns[1].us) < kFarBehind * std::ranges::min(turns[0].us)) {
      WEFT_TRY(turns, Measure(pair, kLook));
    }
    if (result_.stopped == Stopped::kInterrupted) return {};
    // Of the two the one that is not timed says why neither counts.
    const Timing& timing = turns[turns[1].outcome == Outcome::kTimed ? 0 : 1];
    Trial trial{.choice = choice, .outcome = timing.outcome, .why = timing.why};
    if (AreTimed(turns)) {
      const Ratio ratio = CompareMedians(turns[1].us, turns[0].us, options_.seed);
      const double unit = best.ratio * result_.start_us;
      trial.us = unit * ratio.mid;
      trial.low_us = unit * ratio.low;
      trial.high_us = unit * ratio.high;
      trial.samples = std::ssize(turns[1].us);
      Keep({choice, best.ratio * ratio.mid}, ratio.high < 1);
    } else if (trial.outcome == Outcome::kRefused) {
      ++refused_;  // nothing was compiled
      return {};
    }
    result_.trials.push_back(std::move(trial));
    return {};
  }

  // Ordered by ratio, but for the first, which only gives way outside the noise.
  void Keep(Scored scored, bool is_faster) {
    const auto behind = [&](const Scored& s) { return s.ratio > scored.ratio; };
    const auto place =
        is_faster ? elite_.begin() : std::find_if(elite_.begin() + 1, elite_.end(), behind);
    elite_.insert(place, std::move(scored));
    if (elite_.size() > kParents) elite_.pop_back();
  }

  // One that was not tried yet.
  std::optional<Choice> Child() {
    for (int tries = 0; tries < kTries; ++tries) {
      const Choice& parent = elite_[std::min(Below(elite_.size()), Below(elite_.size()))].choice;
      std::optional<Choice> child;
      if (elite_.size() > 1 && Below(4) == 0)
        child = space_.Cross(parent, elite_[Below(elite_.size())].choice, random_);
      else
        child = Mutant(parent);
      if (child && !seen_.contains(polyhedral::Print(*child))) return child;
    }
    return std::nullopt;
  }

  // Mostly one move away.
  std::optional<Choice> Mutant(const Choice& parent) {
    std::optional<Choice> mutant;
    for (int moves = 0; moves < kMostMoves; ++moves) {
      if (auto moved = space_.Mutate(mutant ? *mutant : parent, random_)) mutant = std::move(moved);
      if (mutant && Below(2) == 0) break;
    }
    return mutant;
  }

  // What won many comparisons won some of them by chance.
  Status Confirm() {
    const Choice& best = elite_.front().choice;
    if (best == start_ || result_.stopped == Stopped::kInterrupted) return {};
    const std::vector<Choice> pair = {start_, best};
    WEFT_TRY(const auto turns, Measure(pair, kStare));
    if (!AreTimed(turns)) return {};
    const Ratio gain = CompareMedians(turns[0].us, turns[1].us, options_.seed);
    if (gain.low <= 1 || gain.mid < kGain) return {};
    result_.best = best;
    result_.best_us = result_.start_us / gain.mid;
    return {};
  }

  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  const Space& space_;
  const Choice& start_;
  Measurer& measurer_;
  const SearchOptions options_;
  Random random_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::set<std::string> seen_;  // texts of choices
  std::vector<Scored> elite_;
  SearchResult result_;
  int refused_ = 0;
};

}  // namespace

Result<SearchResult> Search(const Space& space, const Choice& start, Measurer& measurer,
                            const SearchOptions& options) {
  return Searcher(space, start, measurer, options).Run();
}

}  // namespace weft::tuner
