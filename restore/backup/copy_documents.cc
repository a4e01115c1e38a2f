#include "restore/backup/copy_documents.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "restore/backup/base.h"
#include "restore/handover.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

// The attempts to read a collection that is renamed, or rolls over, meanwhile.
constexpr int kReadings = 100;
// The batches between two looks at the oplog's oldest entry: about 1 GB.
constexpr int kLookAgainAfter = 256;

struct Packed {
  Block block;
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
};

// A batch of a collection: as the reply has it, or packed. Neither: the end of the collection.
struct Piece {
  std::size_t collection = 0;
  Bson reply = Bson::none();
  Document batch{};  // in the reply
  std::future<Result<Packed>> packed{};
};

// Whether the collection still exists after the server closed its cursor. Renames and rollbacks
// close cursors too.
Result<bool> is_there_still(Member& member, const CollectionFacts& collection) {
  const std::string name = data_name(collection);
  bool there = false;
  const Bson list = listing_of_collections();
  const Result<bool> listed =
      member.documents(collection.database, list, [&](Document row) -> Result<void> {
        const CollectionFacts facts = facts_of(collection.database, row);
        there =
            there || (collection.uuid.empty() ? facts.name == name : facts.uuid == collection.uuid);
        return {};
      });
  if (!listed) return error_in(listed);
  return there;
}

Bson find_in(const CollectionFacts& collection, const IdRange& range) {
  Bson find;
  if (collection.uuid.empty()) {
    find.append("find", data_name(collection));
  } else {
    const std::string uuid = unhex(collection.uuid);
    bson_append_binary(find.get(), "find", -1, BSON_SUBTYPE_UUID,
                       reinterpret_cast<const std::uint8_t*>(uuid.data()),
                       static_cast<std::uint32_t>(uuid.size()));
  }
  if (range.min || range.max) find.append("hint", Bson("_id", 1));
  if (range.min) find.append("min", range.min);
  if (range.max) find.append("max", range.max);
  find.append("batchSize", 1000);
  find.append("noCursorTimeout", true);
  find.append("readConcern", Bson("level", "local"));
  return find;
}

// A capped collection that rolls over is read again too. It yields no duplicates, because the
// position of its cursor, and everything before, was deleted.
Result<void> read_range(Member& member, const CollectionFacts& collection, const IdRange& range,
                        const Member::TakeBatch& take) {
  const Bson find = find_in(collection, range);
  const std::string ns = collection.ns();
  std::optional<Error> refused;  // by `take`
  for (int reading = 0; reading < kReadings; ++reading) {
    const Result<bool> read =
        member.batches(collection.database, find, [&](Bson reply, Document batch) {
          Result<void> taken = take(std::move(reply), batch);
          if (!taken) refused = taken.error();
          return taken;
        });
    if (refused) return std::unexpected(*std::move(refused));
    if (!read && read.error().code == Code::kOutOfRange) continue;  // rolled over
    if (!read) return error_in(read);
    if (*read) return {};
    const Result<bool> there = is_there_still(member, collection);
    if (!there) return error_in(there);
    if (!*there) return {};
  }
  return fail(Code::kUnavailable, ns + " is renamed, or rolls over, faster than " + member.host() +
                                      " reads it: make the backup again while less is written, or "
                                      "leave it out with --exclude " +
                                      ns);
}

std::vector<Document> documents_in(Document batch) {
  std::vector<Document> documents;
  for (const Field& field : Fields(batch)) documents.push_back(field.document());
  return documents;
}

Packed count(std::span<const Document> documents) {
  Packed packed{.block = {}, .documents = std::ssize(documents)};
  for (const Document each : documents) packed.bytes += std::ssize(each.bytes());
  return packed;
}

Result<Packed> pack(const BackupWriter& writer, std::size_t of, Document batch) {
  const std::vector<Document> documents = documents_in(batch);
  Packed packed = count(documents);
  Result<Block> block = writer.pack(of, documents);
  if (!block) return error_in(block);
  packed.block = *std::move(block);
  return packed;
}

Result<void> write(BackupWriter& writer, Piece piece, const TakeCopied& take) {
  if (piece.packed.valid()) {
    const Result<Packed> packed = piece.packed.get();
    if (!packed) return error_in(packed);
    Result<void> done = writer.add(piece.collection, packed->block);
    return done ? take(packed->documents, packed->bytes) : done;
  }
  const std::vector<Document> documents = documents_in(piece.batch);
  Result<void> done = writer.put(piece.collection, documents);
  const Packed counted = count(documents);
  return done ? take(counted.documents, counted.bytes) : done;
}

// The state that the readers share.
class Reading {
 public:
  Reading(Timestamp start, std::span<const ToCopy> all, unsigned readers,
          const BackupWriter& writer)
      : start_(start), all_(all), writer_(writer), left_(all.size()), handover_(readers + 1) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      left_[i] = std::max<std::size_t>(all[i].ranges.size(), 1);
      for (const IdRange& range : all[i].ranges) parts_.push_back({i, &range});
      if (all[i].ranges.empty()) parts_.push_back({i, nullptr});
    }
    readers_ = std::clamp<std::size_t>(readers, 1, std::max<std::size_t>(parts_.size(), 1));
    if (parts_.empty()) readers_ = 0;
  }

  [[nodiscard]] std::size_t readers() const { return readers_; }
  Handover<Piece>& handover() { return handover_; }

  // Reads parts until there are no more; the last reader to end closes the handover.
  void read(Member& member) { leave(read_parts(member)); }
  void read_as_another(const Member& member) {
    Result<Member> own = member.another();
    leave(own ? read_parts(*own) : error_in(own));
  }

  // Once all readers have ended.
  Result<std::vector<OpTime>> ends() {
    if (failed_) return std::unexpected(*failed_);
    std::ranges::sort(ends_, {}, [](const OpTime& at) { return std::pair(at.ts, at.term); });
    const auto [first, last] = std::ranges::unique(ends_);
    ends_.erase(first, last);
    return ends_;
  }

 private:
  struct Part {
    std::size_t collection;
    const IdRange* range;  // null: of a view
  };

  Result<void> read_parts(Member& member) {
    for (std::size_t i = next_++; i < parts_.size(); i = next_++) {
      const Part& part = parts_[i];
      if (part.range != nullptr) {
        Result<void> read =
            read_range(member, *all_[part.collection].collection, *part.range,
                       [&, batches = 0](Bson reply, Document batch) mutable {
                         return take(member, part.collection, std::move(reply), batch, ++batches);
                       });
        if (!read) return read;
      }
      const Result<OpTime> end = member.newest();
      if (!end) return error_in(end);
      if (Result<void> has = member.still_has(start_); !has) return has;
      {
        const std::lock_guard lock(mutex_);
        ends_.push_back(*end);
      }
      if (--left_[part.collection] == 0) handover_.give({.collection = part.collection});
    }
    return {};
  }

  // Compression goes on beside the reading and the writing.
  Result<void> take(Member& member, std::size_t of, Bson reply, Document batch, int batches) {
    Piece piece{.collection = of};
    if (writer_.compresses()) {
      piece.packed =
          std::async(std::launch::async, [this, of, reply = std::move(reply), batch]() mutable {
            Result<Packed> done = pack(writer_, of, batch);
            reply = Bson::none();
            return done;
          });
    } else {
      piece.reply = std::move(reply);
      piece.batch = batch;
    }
    if (!handover_.give(std::move(piece))) return fail(Code::kUnavailable, "stopped");
    return batches % kLookAgainAfter == 0 ? member.still_has(start_) : Result<void>{};
  }

  void leave(Result<void> read) {
    const std::lock_guard lock(mutex_);
    if (!read && !failed_) failed_ = std::move(read.error());
    if (++ended_ == readers_ || failed_) handover_.close();
  }

  const Timestamp start_;
  const std::span<const ToCopy> all_;
  const BackupWriter& writer_;
  std::vector<Part> parts_;
  std::size_t readers_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::vector<std::atomic<std::size_t>> left_;  // the parts of each collection
  Handover<Piece> handover_;                    // from the readers to the writer
  std::mutex mutex_;
  std::vector<OpTime> ends_;  // under mutex_, as are the next
  std::size_t ended_ = 0;
  std::optional<Error> failed_;
};

}  // namespace

Result<std::vector<OpTime>> copy_documents(Member& member, Timestamp start,
                                           std::span<const ToCopy> all, unsigned readers,
                                           BackupWriter& writer, const TakeCopied& take) {
  Reading reading(start, all, readers, writer);
  if (reading.readers() == 0) return std::vector<OpTime>{};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { reading.read(member); });
  while (threads.size() < reading.readers())
    threads.emplace_back([&] { reading.read_as_another(member); });

  Result<void> done;
  std::set<std::size_t> open;
  while (done) {
    std::optional<Piece> piece = reading.handover().take();
    if (!piece) break;
    if (open.insert(piece->collection).second) done = writer.begin(piece->collection);
    if (!done) break;
    done = piece->packed.valid() || piece->batch ? write(writer, *std::move(piece), take)
                                                 : writer.end(piece->collection);
  }
  reading.handover().close();
  threads.clear();
  if (!done) return error_in(done);
  return reading.ends();
}

}  // namespace idmint::restore
