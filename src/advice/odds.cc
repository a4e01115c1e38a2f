#include "advice/odds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace idmint::advice {

namespace {

// Up to here the sums are computed term by term; beyond it by the Euler-Maclaurin formula.
constexpr double kTermByTerm = 10'000;
// Below it, the closed forms lose digits to cancellation, and a power series needs few terms.
constexpr double kSmall = 0.1;

// u^2/2 + u^3/6 + u^4/12 + ... = (1 - u) log(1 - u) + u
double log_integral(double u) noexcept {
  if (u >= 1) return 1;
  if (u >= kSmall) return (1 - u) * std::log1p(-u) + u;
  double sum = 0;
  double power = u * u;
  for (int k = 2; power > 0 && k < 40; ++k, power *= u) sum += power / (k * (k - 1.0));
  return sum;
}

// u^2/2 + u^3/3 + u^4/4 + ... = -log(1 - u) - u
double redraw_integral(double u) noexcept {
  if (u >= kSmall) return -std::log1p(-u) - u;
  double sum = 0;
  double power = u * u;
  for (int k = 2; power > 0 && k < 40; ++k, power *= u) sum += power / k;
  return sum;
}

}  // namespace

double log_all_different(double count, double space) noexcept {
  if (count <= 1) return 0;
  if (count > space) return -std::numeric_limits<double>::infinity();
  const double m = count - 1;
  // From the end, since the last terms are the large ones.
  double sum = 0;
  const double head = std::min(m, kTermByTerm);
  for (double i = 0; i < head; ++i) sum += std::log1p(-(m - i) / space);
  const double rest = m - head;
  if (rest <= 0) return sum;
  // f(0) + ... + f(rest) for f(x) = log(1 - x / space): its integral, half of both ends, and a
  // twelfth of the slopes' difference. space - rest > kTermByTerm, so the error is below 1e-14.
  const double u = rest / space;
  const double slopes = -1 / (space - rest) + 1 / space;
  return sum - space * log_integral(u) + std::log1p(-u) / 2 + slopes / 12;
}

double odds_of_a_repeat(double count, double space) noexcept {
  return 0 - std::expm1(log_all_different(count, space));  // not -0.0
}

double odds_that_the_last_collides(double count, double space) noexcept {
  return count <= 1 ? 0 : std::min(1.0, (count - 1) / space);
}

double expected_redraws(double count, double space) noexcept {
  if (count > space) return std::numeric_limits<double>::infinity();
  if (count <= 1) return 0;
  const double m = count - 1;
  double sum = 0;
  const double head = std::min(m, kTermByTerm);
  for (double i = 0; i < head; ++i) sum += (m - i) / (space - (m - i));
  const double rest = m - head;
  if (rest <= 0) return sum;
  // As above, for f(x) = x / (space - x) = space / (space - x) - 1.
  const double u = rest / space;
  const double gap = space - rest;
  const double slopes = space / (gap * gap) - 1 / space;
  return sum + space * redraw_integral(u) + rest / gap / 2 + slopes / 12;
}

}  // namespace idmint::advice
