#include "tuner/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

namespace weft::tuner {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kWantedWidth = 0.01;
constexpr auto kWarmFor = std::chrono::microseconds(100);  // a thread that sleeps is awake by then
constexpr auto kShort = std::chrono::microseconds(1000);   // longer runs wake threads themselves
constexpr int64_t kMinRounds = 10, kMaxRounds = 100'000;
constexpr int kResamples = 400;

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool Settled(const std::vector<std::vector<double>>& samples) {
  for (std::vector<double> arm : samples) {
    const Summary s = Summarize(arm);
    if (s.high - s.low > kWantedWidth * s.p50) return false;
  }
  return true;
}

}  // namespace

double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<size_t>(at);
  const double part = at - static_cast<double>(i);
  return i + 1 < sorted.size() ? sorted[i] * (1 - part) + sorted[i + 1] * part : sorted[i];
}

Summary Summarize(std::vector<double>& samples) {
  Summary s;
  s.samples = std::ssize(samples);
  if (samples.empty()) return s;
  std::sort(samples.begin(), samples.end());
  s.min = samples.front();
  s.p50 = Quantile(samples, 0.5);
  s.p90 = Quantile(samples, 0.9);
  s.p95 = Quantile(samples, 0.95);
  s.p99 = Quantile(samples, 0.99);
  s.mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  // Ranks n/2 -+ 1.96 sqrt(n)/2 enclose the median with 95 % (normal approximation of the
  // binomial).
  const auto n = static_cast<double>(samples.size());
  const double reach = 0.98 * std::sqrt(n);
  const auto clamp = [&](double rank) {
    return samples[static_cast<size_t>(std::clamp(rank, 0.0, n - 1))];
  };
  s.low = clamp(std::floor(n / 2 - reach));
  s.high = clamp(std::ceil(n / 2 + reach));
  return s;
}

Arm TimedArm(std::string name, std::function<Status()> run, bool warm) {
  Arm arm{std::move(name), [run = std::move(run)]() -> Result<double> {
            const auto start = Clock::now();
            WEFT_TRY(run());
            return SecondsSince(start) * 1e6;
          }};
  return warm ? Warmed(std::move(arm)) : arm;
}

Arm Warmed(Arm arm) {
  arm.run = [run = std::move(arm.run)]() -> Result<double> {
    const auto begin = Clock::now();
    const auto passed = [&begin] { return Clock::now() - begin; };
    for (int runs = 0; passed() <= kWarmFor || (runs < 2 && passed() <= kShort); ++runs)
      WEFT_TRY(run());
    return run();
  };
  return arm;
}

Result<std::vector<std::vector<double>>> Interleave(std::span<const Arm> arms,
                                                    const MeasureOptions& options) {
  std::vector<std::vector<double>> samples(arms.size());
  std::vector<size_t> order(arms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(options.seed);
  const auto begin = Clock::now();
  int64_t settled_at = 2 * kMinRounds;
  for (int64_t round = -options.warmup; round < (options.runs ? options.runs : kMaxRounds);
       ++round) {
    // Fisher-Yates by hand: std::shuffle may differ between libraries.
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (size_t arm : order) {
      WEFT_TRY(const double us, arms[arm].run());
      if (round >= 0) samples[arm].push_back(us);
    }
    if (options.stop && *options.stop && round >= 0) break;
    if (options.runs || round + 1 < kMinRounds) continue;
    if (SecondsSince(begin) > options.seconds) break;
    if (round + 1 >= settled_at) {
      if (Settled(samples)) break;
      settled_at *= 2;
    }
  }
  return samples;
}

Ratio CompareMedians(std::span<const double> a, std::span<const double> b, uint64_t seed) {
  std::vector<double> x(a.begin(), a.end()), y(b.begin(), b.end());
  if (x.empty() || y.empty()) return {};
  Ratio ratio{.mid = Median(x) / Median(y)};
  std::mt19937_64 random(seed);
  std::vector<double> ratios;
  for (int i = 0; i < kResamples; ++i) {
    for (double& v : x) v = a[random() % a.size()];
    for (double& v : y) v = b[random() % b.size()];
    ratios.push_back(Median(x) / Median(y));
  }
  std::sort(ratios.begin(), ratios.end());
  ratio.low = Quantile(ratios, 0.025);
  ratio.high = Quantile(ratios, 0.975);
  return ratio;
}

}  // namespace weft::tuner
