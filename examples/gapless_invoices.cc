// Invoices whose numbers have no hole. Documents come as BSON; here they are made by hand, so that
// the program needs no library but idmint.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "idmint/gapless.h"
#include "idmint/sequence.h"
#include "idmint/store.h"

using namespace idmint;

// {"customer": NAME}
std::vector<std::byte> invoice_for(const std::string& name) {
  std::string bson("\0\0\0\0\2customer\0", 14);
  const auto append = [&bson](std::size_t number) {
    for (int i = 0; i < 4; ++i) bson += static_cast<char>((number >> (8 * i)) & 0xff);
  };
  append(name.size() + 1);
  bson += name + '\0' + '\0';
  bson[0] = static_cast<char>(bson.size());  // REQUIRES: below 128 bytes
  std::vector<std::byte> bytes(bson.size());
  std::memcpy(bytes.data(), bson.data(), bson.size());
  return bytes;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: gapless_invoices mongodb://HOSTS/DATABASE?replicaSet=SET NAME...\n");
    return 2;
  }
  const std::string url = argv[1];
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  };
  const auto store = Store::open(url);
  if (!store) return fail(store.error());
  const auto created =
      create_sequence(**store, {.name = "invoices", .strategy = Strategy::kGapless});
  if (!created) return fail(created.error());
  auto inserter = GaplessInserter::open(**store, "invoices", "app.invoices", "number");
  if (!inserter) return fail(inserter.error());
  for (int i = 2; i < argc; ++i) {
    const std::vector<std::byte> document = invoice_for(argv[i]);
    const Result<std::int64_t> number = (*inserter)->insert(document);
    if (!number) return fail(number.error());
    std::printf("%lld %s\n", static_cast<long long>(*number), argv[i]);
  }
}
