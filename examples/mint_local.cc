// One id of each format. Nothing here needs a database or a network.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "idmint/object_id.h"
#include "idmint/snowflake.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"

namespace {

// A program of its own would pass the error on; here it ends the example.
template <class T>
T need(idmint::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << name(result.error().code) << ": " << result.error().message() << '\n';
  std::exit(1);
}

}  // namespace

int main() {
  // Make each generator once, and share it between all threads.
  idmint::Uuid4Generator uuid4;
  idmint::Uuid7Generator uuid7;
  idmint::UlidGenerator ulid;
  idmint::ObjectIdGenerator object_id;

  std::cout << "uuid4      " << uuid4.next().to_string() << '\n'
            << "uuid7      " << need(uuid7.next()).to_string() << '\n'
            << "ulid       " << need(ulid.next()).to_string() << '\n'
            << "object-id  " << need(object_id.next()).to_string() << '\n';

  // A Snowflake generator needs a worker id that nobody else uses. The state file carries what was
  // minted over restarts and over clocks that are set back.
  idmint::SnowflakeOptions options;
  options.layout = need(idmint::snowflake_layout("sequence-generator"));
  options.worker = 5;
  options.state_file = "worker-5.state";
  const auto snowflake = need(idmint::SnowflakeGenerator::open(options));

  const idmint::Snowflake id = need(snowflake->next());
  const idmint::SnowflakeParts parts = need(options.layout.decode(id));
  std::cout << "snowflake  " << id.to_string() << " (worker " << parts.worker << ")\n";

  // Many at once is faster, and still in order.
  std::array<idmint::Uuid, 1000> many;
  if (const idmint::Result<void> filled = uuid7.next(many); !filled) {
    std::cerr << filled.error().message() << '\n';
    return 1;
  }
  if (!std::ranges::is_sorted(many)) return 1;
  std::cout << "and " << many.size() << " more uuid7, in order\n";
}
