#include "driver/trials.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/blob.h"
#include "base/file.h"
#include "base/text.h"
#include "driver/accuracy.h"
#include "driver/agreement.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/pipeline.h"
#include "executor/bound_run.h"
#include "tuner/measure.h"

namespace weft::driver {
namespace {

using polyhedral::Choice;
using tuner::Outcome;
using tuner::Timing;

constexpr std::string_view kOpen = "open ", kTime = "time ";
constexpr double kFirstAnswerSeconds =
    120;  // to a request: what comes before it took at most so long
constexpr double kPatienceSeconds = 10,
                 kPatience = 10;  // afterwards: seconds, and times the longest

constexpr std::pair<Outcome, std::string_view> kOutcomes[] = {{Outcome::kTimed, "timed"},
                                                              {Outcome::kRefused, "refused"},
                                                              {Outcome::kWrong, "wrong"},
                                                              {Outcome::kFailed, "failed"}};

// One line, whatever the text holds.
std::string Line(const Timing& timing) {
  std::string line;
  for (const auto& [outcome, word] : kOutcomes)
    if (outcome == timing.outcome) line = word;
  for (const double us : timing.us) line += fmt::format(" {}", us);
  if (!timing.why.empty()) line += " " + Printable(timing.why);
  return line + "\n";
}

std::optional<Timing> ParseLine(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  Timing timing;
  const auto it = std::ranges::find(kOutcomes, word, [](const auto& o) { return o.second; });
  if (it == std::end(kOutcomes)) return std::nullopt;
  timing.outcome = it->first;
  if (timing.outcome != Outcome::kTimed) {
    std::getline(in >> std::ws, timing.why);
    return timing;
  }
  for (double us = 0; in >> us;) {
    if (!std::isfinite(us) || us < 0) return std::nullopt;
    timing.us.push_back(us);
  }
  if (!in.eof() || timing.us.empty()) return std::nullopt;
  return timing;
}

class Server {
 public:
  std::string Answer(std::string_view request) {
    if (request.starts_with(kOpen)) {
      const Status status = Open(std::string(request.substr(kOpen.size())));
      return status.ok() ? "" : status.ToString();
    }
    if (request.starts_with(kTime)) return Time(request.substr(kTime.size()));
    return "not a request";
  }

 private:
  struct Trial {
    Choice choice;
    std::unique_ptr<executor::Executor> executor;
    std::unique_ptr<executor::BoundRun> run;
  };

  Status Open(const std::string& path) {
    trials_.clear();
    start_.clear();
    WEFT_TRY(const std::string text, ReadFile(path));
    WEFT_TRY(const BlobStore blobs, BlobStore::Load(text, path + ".blobs"));
    WEFT_TRY(module_, ParseModule(text, path, blobs));
    WEFT_TRY(inputs_, GenerateInputs(module_.graph, 0));
    const auto& groups = module_.grouping.groups;
    const auto it = std::ranges::find(groups, module_.grouping.name, &partition::Group::name);
    if (module_.form != Form::kGroups || it == groups.end()) return Invalid("not a group").At(path);
    step_ = static_cast<size_t>(it - groups.begin());
    referee_.emplace(module_.graph, inputs_);
    return {};
  }

  std::string Time(std::string_view request) {
    const size_t end = std::min(request.find('\n'), request.size());
    const std::string count(request.substr(0, end));
    const int64_t rounds = std::atoll(count.c_str());
    if (rounds < 1) return "not a request";
    const auto choices = polyhedral::ParseChoices(request.substr(end), "choices");
    if (!choices.ok()) return choices.status().ToString();
    // Of those before, only what is asked for again is kept.
    std::erase_if(trials_, [&](const Trial& t) { return !std::ranges::count(*choices, t.choice); });
    std::vector<Timing> timings;
    for (const Choice& choice : *choices) timings.push_back(Prepare(choice));
    std::vector<size_t> timed;
    std::vector<tuner::Arm> arms;
    for (size_t i = 0; i < timings.size(); ++i) {
      if (timings[i].outcome != Outcome::kTimed) continue;
      timed.push_back(i);
      arms.push_back(
          {"choice", [this, run = Find((*choices)[i])->run.get()] { return TimeStep(*run); }});
    }
    const auto samples =
        tuner::Interleave(arms, {.seconds = kFirstAnswerSeconds, .runs = rounds, .warmup = 1});
    for (size_t k = 0; k < timed.size(); ++k)
      timings[timed[k]] =
          samples.ok() ? Timing{.us = (*samples)[k]}
                       : Timing{.outcome = Outcome::kFailed, .why = samples.status().ToString()};
    std::string answer;
    for (const Timing& timing : timings) answer += Line(timing);
    return answer;
  }

  Trial* Find(const Choice& choice) {
    const auto it = std::ranges::find(trials_, choice, &Trial::choice);
    return it == trials_.end() ? nullptr : &*it;
  }

  Result<double> TimeStep(executor::BoundRun& run) const {
    std::vector<executor::StepTime> times;
    WEFT_TRY(run(&times));
    return times.at(step_).us;
  }

  // Compiled, run once, and held against the first that ran, or else the reference; or why not.
  Timing Prepare(const Choice& choice) {
    if (Find(choice)) return {};
    auto trial = Compile(choice);
    if (!trial.ok()) return {.outcome = Outcome::kRefused, .why = trial.status().ToString()};
    if (const Status ran = (*trial->run)(); !ran.ok())
      return {.outcome = Outcome::kFailed, .why = ran.ToString()};
    const auto given = trial->run->Outputs();
    if (!given.ok()) return {.outcome = Outcome::kFailed, .why = given.status().ToString()};
    const std::span<const Tensor> outputs = *given;
    if (start_.empty()) {
      for (Tensor output : outputs) {
        output.mutable_data();  // the next run writes to what these share
        start_.push_back(std::move(output));
      }
    } else if (!CompareOutputs(outputs, start_, AgreementOf(module_.graph)).within) {
      const auto fault = referee_->FaultOf(outputs);
      if (!fault.ok()) return {.outcome = Outcome::kFailed, .why = fault.status().ToString()};
      if (!fault->empty())
        return {.outcome = Outcome::kWrong, .why = "it leaves the reference " + *fault};
    }
    trials_.push_back(*std::move(trial));
    return {};
  }

  Result<Trial> Compile(const Choice& choice) const {
    BuildOptions options;
    options.target = module_.target;
    options.forced_choices[module_.grouping.name] = choice;
    Module module = module_;
    WEFT_TRY(Advance(module, Form::kPlan, options));
    Trial trial{.choice = choice};
    WEFT_TRY(trial.executor, MakeExecutor(std::move(module.plan), options, options.target.threads));
    WEFT_TRY(trial.run, executor::BoundRun::Open(*trial.executor, 0, inputs_));
    return trial;
  }

  Module module_;
  size_t step_ = 0;
  std::vector<Tensor> inputs_, start_;
  std::optional<Referee> referee_;
  std::vector<Trial> trials_;
};

}  // namespace

Status ServeTrials() {
  Server server;
  const bool whole = tuner::Serve(STDIN_FILENO, STDOUT_FILENO,
                                  [&](std::string_view request) { return server.Answer(request); });
  if (!whole) return Invalid("not a request for trials").At("standard input");
  return {};
}

Result<std::unique_ptr<TrialMeasurer>> TrialMeasurer::Open(const Module& one_group,
                                                           std::vector<std::string> worker,
                                                           const std::atomic<bool>* stop) {
  std::unique_ptr<TrialMeasurer> measurer(new TrialMeasurer(std::move(worker), stop));
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / "weft-trials-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr)
    return Limit("no place for a group that is tried").At(pattern);
  measurer->directory_ = pattern;
  BlobStore blobs;
  const std::string text = Print(one_group, blobs);
  WEFT_TRY(WriteFileAtomically(pattern + "/group", text));
  if (blobs.size() > 0) WEFT_TRY(blobs.Save(pattern + "/group.blobs"));
  return measurer;
}

TrialMeasurer::~TrialMeasurer() {
  worker_.reset();
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<std::string> TrialMeasurer::Ask(const std::string& request) {
  if (!worker_) {
    WEFT_TRY(worker_, tuner::Worker::Start(command_));
    WEFT_TRY(const std::string said, worker_->Ask(fmt::format("{}{}/group", kOpen, directory_),
                                                  kFirstAnswerSeconds, stop_));
    if (!said.empty()) return Internal(fmt::format("a group can't be tried: {}", said));
  }
  const auto begin = std::chrono::steady_clock::now();
  const double limit =
      longest_s_ == 0 ? kFirstAnswerSeconds : kPatienceSeconds + kPatience * longest_s_;
  auto answer = worker_->Ask(request, limit, stop_);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (answer.ok())
    longest_s_ = std::max(longest_s_, taken.count());
  else
    worker_.reset();
  return answer;
}

Result<std::vector<Timing>> TrialMeasurer::Measure(std::span<const Choice> choices,
                                                   int64_t rounds) {
  std::string request = fmt::format("{}{}\n", kTime, rounds);
  for (const Choice& choice : choices) request += polyhedral::Print(choice) + "\n";
  const auto answer = Ask(request);
  std::vector<Timing> timings(choices.size());
  if (!answer.ok()) {
    if (answer.status().code() == Code::kInterrupted) return answer.status();
    // The first was run before.
    timings.back() = {.outcome = Outcome::kFailed, .why = answer.status().ToString()};
    return timings;
  }
  std::istringstream lines(*answer);
  std::string line;
  for (Timing& timing : timings) {
    std::getline(lines, line);
    auto parsed = ParseLine(line);
    if (!parsed) return Internal(fmt::format("a worker answers: {}", *answer));
    timing = *std::move(parsed);
  }
  return timings;
}

}  // namespace weft::driver
