// A program of somebody else's: mints a UUID and takes from a durable sequence in the file that is
// named by its argument. Prints the UUID and the value.
#include <idmint/sequence.h>
#include <idmint/store.h>
#include <idmint/uuid.h>

#include <cstdio>
#include <string>

namespace {

int fail(const idmint::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  idmint::Uuid7Generator uuids;
  const auto uuid = uuids.next();
  if (!uuid) return fail(uuid.error());

  const auto store = idmint::Store::open("sqlite:" + std::string(argv[1]));
  if (!store) return fail(store.error());
  const idmint::SequenceDefinition orders{.name = "orders", .first = 1000};
  if (const auto made = idmint::create_sequence(**store, orders); !made) return fail(made.error());
  const auto sequence = idmint::CounterSequence::open(**store, "orders");
  if (!sequence) return fail(sequence.error());
  const auto range = (*sequence)->take(1);
  if (!range) return fail(range.error());

  std::printf("%s %lld\n", uuid->to_string().c_str(), static_cast<long long>(range->first));
}
