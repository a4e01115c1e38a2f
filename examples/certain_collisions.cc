// What is rare, made certain: the second order number collides, and the clock steps back an hour.
// A test of your own looks like this; it needs no luck and does not wait.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <utility>

#include "idmint/digits.h"
#include "idmint/snowflake.h"
#include "idmint/testing.h"
#include "idmint/uuid.h"

namespace {

// ---- the code under test: yours

// Order numbers of six digits. A set stands for the database and its unique key.
class Orders {
 public:
  explicit Orders(idmint::DigitsGenerator& numbers) : numbers_(numbers) {}

  // The number of a new order. A number that is taken is drawn again, up to five times.
  std::optional<idmint::Digits> place() {
    for (int attempt = 0; attempt < 5; ++attempt) {
      const idmint::Digits number = numbers_.next();
      if (taken_.insert(number).second) return number;
      ++collisions_;
    }
    return std::nullopt;
  }

  int collisions() const { return collisions_; }

 private:
  idmint::DigitsGenerator& numbers_;
  std::set<idmint::Digits> taken_;
  int collisions_ = 0;
};

// ---- the test

template <class T>
T need(idmint::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << name(result.error().code) << ": " << result.error().message() << '\n';
  std::exit(1);
}

void expect(bool holds, const char* what) {
  std::cout << (holds ? "ok    " : "FAIL  ") << what << '\n';
  if (!holds) std::exit(1);
}

void second_draw_collides() {
  idmint::ScriptedEntropy entropy;
  entropy.repeat(1, 0);  // draws are counted from 0: the second one gives what the first one gave
  idmint::DigitsGenerator numbers({.digits = 6}, entropy);
  Orders orders(numbers);

  const auto first = orders.place();
  const auto second = orders.place();
  expect(orders.collisions() == 1, "the second draw collides with the first");
  expect(entropy.calls() == 3, "so a third one is made");
  expect(first && second && *first != *second, "and both orders have a number of their own");
}

void every_draw_collides() {
  idmint::ScriptedEntropy entropy;
  for (std::size_t draw = 1; draw <= 5; ++draw) entropy.repeat(draw, 0);
  idmint::DigitsGenerator numbers({.digits = 6}, entropy);
  Orders orders(numbers);

  const auto first = orders.place();
  const auto second = orders.place();
  expect(first && !second, "five collisions in a row: the order is refused, not given twice");
}

void clock_steps_back_under_uuid7() {
  using namespace std::chrono_literals;
  idmint::ScriptedEntropy entropy;
  idmint::ManualClock clock(
      idmint::Instant{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}});

  idmint::Uuid7Generator ids({}, clock, entropy);
  const idmint::Uuid before = need(ids.next());
  clock.advance(-10s);
  const idmint::Uuid a_little_back = need(ids.next());
  clock.advance(-1h);
  const idmint::Uuid far_back = need(ids.next());
  const idmint::Uuid next = need(ids.next());
  expect(before < a_little_back, "uuid7, 10 s back: the next id is larger still");
  expect(far_back < before, "uuid7, an hour back: order is lost once");
  expect(far_back < next && far_back != before, "... and goes on from there, with no repeat");
}

void clock_steps_back_under_strict_uuid7() {
  using namespace std::chrono_literals;
  idmint::ScriptedEntropy entropy;
  idmint::ManualClock clock(
      idmint::Instant{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}});

  idmint::Uuid7Generator ids({.strict = true}, clock, entropy);
  const idmint::Uuid before = need(ids.next());
  clock.advance(-1h);
  const auto refused = ids.next();
  expect(!refused && refused.error().code == idmint::Code::kUnavailable,
         "uuid7, strict, an hour back: refused, so that order is never lost");
  clock.advance(1h);
  expect(before < need(ids.next()), "... until the clock has caught up");
}

void clock_steps_back_under_snowflake() {
  using namespace std::chrono_literals;
  idmint::ScriptedEntropy entropy;
  idmint::ManualClock clock(
      idmint::Instant{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}});
  std::filesystem::remove("certain-collisions.state");  // of the run before

  idmint::SnowflakeOptions options;
  options.layout = need(idmint::snowflake_layout("sequence-generator"));
  options.worker = 5;
  options.state_file = "certain-collisions.state";
  auto ids = need(idmint::SnowflakeGenerator::open(options, clock, entropy));
  const idmint::Snowflake before = need(ids->next());
  clock.advance(-1h);
  const auto refused = ids->next();
  expect(!refused && refused.error().code == idmint::Code::kUnavailable,
         "snowflake, an hour back: refused, because it would repeat ids");

  ids.reset();  // a restart does not forget
  const auto reopened = idmint::SnowflakeGenerator::open(options, clock, entropy);
  expect(!reopened && reopened.error().code == idmint::Code::kUnavailable,
         "... after a restart too");
  clock.advance(1h);
  ids = need(idmint::SnowflakeGenerator::open(options, clock, entropy));
  expect(before < need(ids->next()), "... until the clock has caught up");
}

}  // namespace

int main() {
  second_draw_collides();
  every_draw_collides();
  clock_steps_back_under_uuid7();
  clock_steps_back_under_strict_uuid7();
  clock_steps_back_under_snowflake();
}
