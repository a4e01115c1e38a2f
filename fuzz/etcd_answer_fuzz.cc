// Reads answers of a server that calls itself etcd. An answer that is read has what was asked for,
// and a value of a key that is read is written again as one that reads as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "engines/etcd/messages.h"
#include "engines/etcd/records.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  namespace etcd = idmint::stores::etcd;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const etcd::Transaction asked{.then = {etcd::get("a"), etcd::nested({.then = {etcd::get("b")}})},
                                .otherwise = {etcd::get("c")}};
  if (const auto answer = etcd::read_answer(text, asked)) {
    require(!answer->header.cluster.empty() && answer->header.revision > 0);
    require(answer->found.size() == (answer->succeeded ? 2U : 1U));
    for (const etcd::Found& found : answer->found)
      for (const etcd::Entry& entry : found.entries)
        require(!entry.key.empty() && entry.changed > 0);
  }
  if (const auto status = etcd::read_status(text)) require(status->log > 0);
  static_cast<void>(etcd::read_token(text));
  for (const long http : {400L, 404L, 503L}) {
    const idmint::stores::Failure refused = etcd::read_refusal(http, text, true);
    require(refused.error.code != idmint::Code{0});
  }
  if (const auto record = etcd::read_store(text); record && record->schema == etcd::kSchemaVersion)
    require(etcd::read_store(etcd::text_of(*record)) == record);
  if (const auto counter = etcd::read_counter("c", text)) {
    require(counter->left() >= 0);
    require(etcd::read_counter("c", etcd::text_of(*counter)) == counter);
  }
  if (const auto row = etcd::read_worker(1, text)) {
    const auto again = etcd::read_worker(1, etcd::text_of(*row));
    require(again && again->row == row->row);
  }
  if (const auto bytes = idmint::from_base64(text)) require(idmint::to_base64(*bytes) == text);
  return 0;
}
