#include "restore/oplog/retention.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "restore/oplog/entry.h"

namespace idmint::restore {

Result<OplogRetention> oplog_retention(Member& member, const OplogWindow& window) {
  OplogRetention room;
  const Result<Bson> told = member.command("local", Bson("collStats", "oplog.rs"));
  if (!told) return error_in(told);
  room.bytes = static_cast<double>(told->view().number("size"));
  room.most_bytes = static_cast<double>(told->view().number("maxSize"));

  constexpr std::int32_t sample = 5000;
  const Bson newest = Bson("find", "oplog.rs", "sort", Bson("$natural", -1), "limit", sample,
                           "batchSize", sample, "singleBatch", true);
  const Result<Bson> found = member.command("local", newest);
  if (!found) return error_in(found);
  double bytes = 0;
  Timestamp oldest = window.last;
  found->view().each_found([&](const Document& document) {
    bytes += static_cast<double>(document.bytes().size());
    if (const Result<Entry> entry = parse_entry(document)) oldest = std::min(oldest, entry->at.ts);
  });
  room.bytes_per_second = bytes / std::max<double>(1, window.last.seconds - oldest.seconds);
  return room;
}

double seconds_left(const OplogRetention& room, const OplogWindow& window, Timestamp at) {
  if (!(room.bytes_per_second > 0)) return std::numeric_limits<double>::infinity();
  const double all = std::max<double>(1, window.last.seconds - window.first.seconds);
  const double before = room.bytes * (at.seconds - window.first.seconds) / all;
  const double free = std::max(0.0, room.most_bytes - room.bytes);
  return (free + before) / room.bytes_per_second;
}

}  // namespace idmint::restore
