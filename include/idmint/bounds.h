// The ids of one instant, for range queries by time on a column of ids.
#pragma once

namespace idmint {

// Both ends belong to it: smallest <= id <= largest for every id of that instant's time unit.
template <class T>
struct Bounds {
  T smallest;
  T largest;

  friend constexpr bool operator==(const Bounds&, const Bounds&) = default;
};

}  // namespace idmint
