#include <iostream>

#include "idmint/idmint.h"

idmint::Result<void> greet() {
  idmint::Uuid7Generator ids;
  const idmint::Result<idmint::Uuid> id = ids.next();
  if (!id) return std::unexpected(id.error());
  std::cout << id->to_string() << '\n';

  auto store = idmint::Store::open("sqlite:hello.db");
  if (!store) return std::unexpected(store.error());
  if (auto created = idmint::create_sequence(**store, {.name = "greetings"}); !created)
    return std::unexpected(created.error());
  auto greetings = idmint::CounterSequence::open(**store, "greetings");
  if (!greetings) return std::unexpected(greetings.error());
  const idmint::Result<idmint::Range> number = (*greetings)->take(1);
  if (!number) return std::unexpected(number.error());
  std::cout << "greeting " << number->first << '\n';
  return {};
}

int main() {
  const idmint::Result<void> greeted = greet();
  if (greeted) return 0;
  std::cerr << greeted.error().message() << '\n';
  return 1;
}
