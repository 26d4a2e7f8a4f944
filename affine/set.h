// Sets of integer points, given by quasi-affine constraints: a value-typed face over isl.
//
// A set lives in Z^rank. Expressions about it are base/affine.h's, with Var i = dimension i; floors
// are fine. Operations make new sets; a set whose session failed answers nothing (nullopt), and the
// session says why.
//
//   Session session;
//   Set triangle = Set::Box(session, {{0, 9}, {0, 9}}).Where(Affine::OfVar(0) - Affine::OfVar(1));
//   triangle.Count();     // 55
//   triangle.Max(Affine::OfVar(0) - Affine::OfVar(1));   // 9
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "affine/session.h"
#include "base/affine.h"

struct isl_set;

namespace weft::affine {

class Set {
 public:
  static Set Universe(const Session& session, int32_t rank);
  static Set Box(const Session& session, std::span<const Interval> ranges);
  Set(const Set& other);
  Set(Set&& other) noexcept;
  Set& operator=(Set other) noexcept;
  ~Set();

  int32_t rank() const { return rank_; }
  Set Where(const Affine& non_negative) const;  // the points where e >= 0
  Set WhereZero(const Affine& zero) const;      // the points where e = 0
  Set WhereNot(const Affine& zero) const;       // the points where e != 0
  Set Intersect(const Set& other) const;
  Set Unite(const Set& other) const;
  Set Minus(const Set& other) const;

  std::optional<bool> IsEmpty() const;
  std::optional<bool> IsSubsetOf(const Set& other) const;
  // The least and greatest value of e; nullopt when unbounded, empty or not answered.
  std::optional<int64_t> Min(const Affine& e) const;
  std::optional<int64_t> Max(const Affine& e) const;
  // How many points; exact. Boxes and products of triangles are small work; meant for bounded sets.
  std::optional<int64_t> Count() const;
  // A point, if there is one.
  std::optional<std::vector<int64_t>> Sample() const;
  std::string ToString() const;  // isl's notation, for messages

 private:
  Set(isl_set* set, int32_t rank) : set_(set), rank_(rank) {}
  isl_set* set_ = nullptr;
  int32_t rank_ = 0;
};

}  // namespace weft::affine
