// The ids of one day, for a WHERE clause: a column of version 7 UUIDs, ULIDs or ObjectIds is its
// own index by time.
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "idmint/object_id.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"

namespace {

template <class T>
T need(const idmint::Result<T>& result) {
  if (result) return *result;
  std::cerr << name(result.error().code) << ": " << result.error().message() << '\n';
  std::exit(1);
}

}  // namespace

int main() {
  using namespace std::chrono;
  const idmint::Instant from = sys_days{2026y / November / 21};
  const idmint::Instant to = from + days{1};  // not included

  // Every id of the day lies from the smallest of its first instant up to, but not including, the
  // smallest of the next day.
  std::cout << "WHERE id >= '" << need(idmint::uuid7_bounds(from)).smallest.to_string() << "'\n"
            << "  AND id <  '" << need(idmint::uuid7_bounds(to)).smallest.to_string() << "'\n";

  std::cout << "WHERE id >= '" << need(idmint::ulid_bounds(from)).smallest.to_string() << "'\n"
            << "  AND id <  '" << need(idmint::ulid_bounds(to)).smallest.to_string() << "'\n";

  std::cout << "{_id: {$gte: ObjectId('"
            << need(idmint::object_id_bounds(from)).smallest.to_string() << "'),\n"
            << "       $lt:  ObjectId('" << need(idmint::object_id_bounds(to)).smallest.to_string()
            << "')}}\n";

  const idmint::Uuid id = need(idmint::Uuid::parse("01a1fcf9-ed00-7cc3-98c4-dc0c0c07398f"));
  const bool inside = id >= need(idmint::uuid7_bounds(from)).smallest &&
                      id < need(idmint::uuid7_bounds(to)).smallest;
  std::cout << id.to_string() << (inside ? " is of that day\n" : " is of another day\n");
  return inside ? 0 : 1;
}
