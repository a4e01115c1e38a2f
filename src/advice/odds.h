// Odds of repeated ids, as exact as a double allows: neither 1e-30 nor a nearly full space is lost
// to rounding.
#pragma once

namespace idmint::advice {

// The natural logarithm of the odds that `count` values, drawn at random from `space`, are all
// different: the sum of log(1 - i / space) for i = 1 to count - 1. Minus infinity if count > space.
// The odds of all different are exp() of it (use near 1), those of a repeat -expm1() of it (use
// near 0). REQUIRES (here and below): whole numbers; space >= 1.
[[nodiscard]] double log_all_different(double count, double space) noexcept;

// The odds of any repeat among `count` values (the birthday problem).
[[nodiscard]] double odds_of_a_repeat(double count, double space) noexcept;

// The odds that a draw equals one of the `count - 1` different values that exist already.
[[nodiscard]] double odds_that_the_last_collides(double count, double space) noexcept;

// The expected draws in vain until `count` different values exist: the sum of i / (space - i) for i
// = 0 to count - 1. Infinity if count > space.
[[nodiscard]] double expected_redraws(double count, double space) noexcept;

}  // namespace idmint::advice
