// Odds that ids repeat, as exact as a double can hold: neither 1e-30 nor a space that is nearly
// full is lost to rounding.
#pragma once

namespace idmint::advice {

// The natural logarithm of the odds that `count` values, drawn at random from `space`, are all
// different: the sum of log(1 - i / space) over i = 1 to count - 1. Minus infinity when count >
// space. The odds of all different are exp() of it, those of a repeat -expm1() of it: near 1 take
// the former, near 0 the latter. REQUIRES (here and below): whole numbers; space >= 1.
[[nodiscard]] double log_all_different(double count, double space) noexcept;

// The odds of any repeat among `count` values (the birthday problem).
[[nodiscard]] double odds_of_a_repeat(double count, double space) noexcept;

// The odds that a draw meets one of the `count - 1` different values that are there already.
[[nodiscard]] double odds_that_the_last_collides(double count, double space) noexcept;

// How many draws in vain are expected until `count` different values are there: the sum of
// i / (space - i) over i = 0 to count - 1. Infinity when count > space.
[[nodiscard]] double expected_redraws(double count, double space) noexcept;

}  // namespace idmint::advice
