#include "affine/set.h"

#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/ilp.h>
#include <isl/local_space.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#include <cstdlib>
#include <utility>

namespace weft::affine {
namespace {

isl_val* Val(isl_ctx* ctx, int64_t value) { return isl_val_int_from_si(ctx, value); }

isl_aff* ToIsl(isl_local_space* space, const Affine& e) {
  isl_ctx* ctx = isl_local_space_get_ctx(space);
  isl_aff* sum = isl_aff_zero_on_domain(isl_local_space_copy(space));
  sum = isl_aff_set_constant_val(sum, Val(ctx, e.constant()));
  for (const Affine::Term& term : e.terms()) {
    if (!term.dividend) {
      sum = isl_aff_add_coefficient_val(sum, isl_dim_in, term.var, Val(ctx, term.coefficient));
      continue;
    }
    isl_aff* floor = isl_aff_scale_down_val(ToIsl(space, *term.dividend), Val(ctx, term.divisor));
    sum = isl_aff_add(sum, isl_aff_scale_val(isl_aff_floor(floor), Val(ctx, term.coefficient)));
  }
  return sum;
}

isl_aff* OnSet(isl_set* set, const Affine& e) {
  isl_local_space* space = isl_local_space_from_space(isl_set_get_space(set));
  isl_aff* aff = ToIsl(space, e);
  isl_local_space_free(space);
  return aff;
}

std::optional<bool> Answer(isl_bool value) {
  if (value == isl_bool_error) return std::nullopt;
  return value == isl_bool_true;
}

// A count that was stopped half way comes back as a number: only a healthy context is believed.
std::optional<int64_t> Answer(isl_val* value) {
  std::optional<int64_t> result;
  if (value && isl_val_is_int(value) == isl_bool_true) {
    isl_ctx* ctx = isl_val_get_ctx(value);
    const bool healthy = isl_ctx_last_error(ctx) == isl_error_none && !isl_ctx_aborted(ctx);
    if (healthy) result = isl_val_get_num_si(value);
  }
  isl_val_free(value);
  return result;
}

}  // namespace

Set Set::Universe(const Session& session, int32_t rank) {
  return {isl_set_universe(isl_space_set_alloc(session.ctx(), 0, static_cast<unsigned>(rank))),
          rank};
}

Set Set::Box(const Session& session, std::span<const Interval> ranges) {
  Set set = Universe(session, static_cast<int32_t>(ranges.size()));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto dim = static_cast<unsigned>(i);
    set.set_ = isl_set_lower_bound_si(set.set_, isl_dim_set, dim, static_cast<int>(ranges[i].lo));
    set.set_ = isl_set_upper_bound_si(set.set_, isl_dim_set, dim, static_cast<int>(ranges[i].hi));
  }
  return set;
}

Set::Set(const Set& other) : set_(isl_set_copy(other.set_)), rank_(other.rank_) {}
Set::Set(Set&& other) noexcept : set_(std::exchange(other.set_, nullptr)), rank_(other.rank_) {}
Set& Set::operator=(Set other) noexcept {
  std::swap(set_, other.set_);
  std::swap(rank_, other.rank_);
  return *this;
}
Set::~Set() { isl_set_free(set_); }

Set Set::Where(const Affine& e) const {
  if (!set_) return *this;
  isl_set* half = isl_pw_aff_nonneg_set(isl_pw_aff_from_aff(OnSet(set_, e)));
  return {isl_set_intersect(isl_set_copy(set_), half), rank_};
}

Set Set::WhereZero(const Affine& e) const {
  if (!set_) return *this;
  isl_set* plane = isl_set_from_basic_set(isl_aff_zero_basic_set(OnSet(set_, e)));
  return {isl_set_intersect(isl_set_copy(set_), plane), rank_};
}

Set Set::WhereNot(const Affine& e) const { return Where(e - 1).Unite(Where(-e - 1)); }

Set Set::Intersect(const Set& other) const {
  return {isl_set_intersect(isl_set_copy(set_), isl_set_copy(other.set_)), rank_};
}
Set Set::Unite(const Set& other) const {
  return {isl_set_union(isl_set_copy(set_), isl_set_copy(other.set_)), rank_};
}
Set Set::Minus(const Set& other) const {
  return {isl_set_subtract(isl_set_copy(set_), isl_set_copy(other.set_)), rank_};
}

std::optional<bool> Set::IsEmpty() const { return Answer(isl_set_is_empty(set_)); }
std::optional<bool> Set::IsSubsetOf(const Set& other) const {
  return Answer(isl_set_is_subset(set_, other.set_));
}

std::optional<int64_t> Set::Min(const Affine& e) const {
  if (!set_) return std::nullopt;
  isl_aff* objective = OnSet(set_, e);
  isl_val* least = isl_set_min_val(set_, objective);
  isl_aff_free(objective);
  return Answer(least);
}

std::optional<int64_t> Set::Max(const Affine& e) const {
  const auto least = Min(-e);
  return least ? std::optional(-*least) : std::nullopt;
}

std::optional<int64_t> Set::Count() const { return Answer(isl_set_count_val(set_)); }

std::optional<std::vector<int64_t>> Set::Sample() const {
  if (isl_set_is_empty(set_) != isl_bool_false) return std::nullopt;
  isl_point* point = isl_set_sample_point(isl_set_copy(set_));
  std::vector<int64_t> result;
  for (int32_t i = 0; i < rank_; ++i) {
    const auto value = Answer(isl_point_get_coordinate_val(point, isl_dim_set, i));
    if (value) result.push_back(*value);
  }
  isl_point_free(point);
  if (result.size() != static_cast<size_t>(rank_)) return std::nullopt;
  return result;
}

std::string Set::ToString() const {
  char* text = isl_set_to_str(set_);
  std::string result = text ? text : "?";
  std::free(text);
  return result;
}

}  // namespace weft::affine
