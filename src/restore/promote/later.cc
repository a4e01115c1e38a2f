#include "restore/promote/later.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/source.h"
#include "restore/oplog/transactions.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kEntriesAtOnce = 1000;  // between two calls of `progress`

class LaterReader {
 public:
  explicit LaterReader(const LaterSearch& search) : search_(search) {}

  Result<void> take(const Entry& entry) {
    const bool mistaken = !search_.mistake_to || entry.at.ts <= *search_.mistake_to;
    return for_each_operation(
        entry, [&](const Operation& operation, std::uint32_t) -> Result<void> {
          return operation.op == Op::kCommand ? take_command(operation)
                                              : take_write(operation, mistaken);
        });
  }

  [[nodiscard]] LaterWrites& found() { return found_; }

 private:
  Result<void> take_write(const Operation& write, bool mistaken) {
    if (write.op != Op::kInsert && write.op != Op::kUpdate && write.op != Op::kDelete) return {};
    if (!search_.wanted(write.ns)) return {};
    LaterDocument& document = at(write.ns).documents[std::string(id_element(write))];
    if (document.writes == 0 && ++found_.documents > kMostLaterDocuments)
      return fail(Code::kResourceExhausted,
                  "more than " + print_count(static_cast<double>(kMostLaterDocuments)) +
                      " documents were written since the limit: name the collections that are to "
                      "be set back with --ns");
    ++document.writes;
    document.last = write.op;
    document.mistaken = document.mistaken || mistaken;
    return {};
  }

  Result<void> take_command(const Operation& command) {
    const std::string_view what = command.command();
    if (what == "commitTransaction" || what == "abortTransaction" || what == "dropDatabase")
      return {};  // the drops of its collections come first
    const std::string ns = namespace_of(command);
    const std::string to = what == "renameCollection" ? new_namespace_of(command) : std::string();
    for (const std::string& each : {ns, to}) {
      if (each.empty() || !search_.wanted(each)) continue;
      LaterCollection& collection = at(each);
      ++collection.commands;
      // Renamed away, or replaced by a rename: the name now belongs to another collection.
      collection.dropped = collection.dropped || what == "drop" || what == "renameCollection" ||
                           what == "emptycapped";
    }
    return {};
  }

  LaterCollection& at(std::string_view ns) {
    const auto there = found_.collections.find(ns);
    return there != found_.collections.end() ? there->second : found_.collections[std::string(ns)];
  }

  const LaterSearch& search_;
  LaterWrites found_;
};

// Identifies the transaction of an entry.
std::string transaction_of(const Entry& entry) {
  const std::span<const std::uint8_t> lsid = entry.lsid.bytes();
  return std::string(reinterpret_cast<const char*>(lsid.data()), lsid.size()) + " " +
         std::to_string(entry.txn_number.value_or(0));
}

Result<void> read_entries(const LaterSearch& search, OplogSpan span, const TakeProgress& progress,
                          const std::function<Result<void>(const Entry&)>& take) {
  Result<std::unique_ptr<OplogSource>> opened = open_oplog(search.oplog, span);
  if (!opened) return std::unexpected(std::move(opened.error()));
  OplogSource& oplog = **opened;
  for (std::uint64_t entries = 1;; ++entries) {
    const Result<std::optional<Entry>> next = oplog.next();
    if (!next) return std::unexpected(next.error());
    const std::optional<Entry>& entry = *next;
    if (!entry) return {};
    if (Result<void> taken = take(*entry); !taken) return taken;
    if (entries % kEntriesAtOnce != 0 || !progress) continue;
    if (Result<void> told = progress(entries); !told) return told;
  }
}

}  // namespace

std::uint64_t LaterCollection::mistaken() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(documents, [](const auto& each) { return each.second.mistaken; }));
}

Result<LaterWrites> find_later(const LaterSearch& search, const TakeProgress& progress) {
  LaterReader reader(search);
  // Collects transactions that began before the limit and may commit after it.
  std::set<std::string, std::less<>> straddling;
  Timestamp earliest = search.limit;
  Timestamp first{};
  Result<void> read = read_entries(
      search, {.from = search.limit}, progress, [&](const Entry& entry) -> Result<void> {
        if (first == Timestamp{}) first = entry.at.ts;
        reader.found().last = entry.at.ts;
        if (entry.in_transaction() && entry.previous && entry.previous->ts != Timestamp{} &&
            entry.previous->ts < search.limit) {
          straddling.insert(transaction_of(entry));
          earliest = std::min(earliest, entry.previous->ts);
        }
        return reader.take(entry);
      });
  if (!read) return std::unexpected(std::move(read.error()));
  if (first != search.limit)
    return fail(Code::kOutOfRange,
                "the oplog has no entry " + print_timestamp(search.limit) + ", which is the limit" +
                    (first > search.limit ? ", and begins at " + print_timestamp(first) : "") +
                    ": give --oplog FILE, a copy that reaches from there to now");
  if (straddling.empty()) return std::move(reader.found());
  // Each part names only its predecessor, so a whole day is searched for parts.
  constexpr std::uint32_t day = 86'400;
  const OplogSpan before{.from = {.seconds = earliest.seconds > day ? earliest.seconds - day : 1},
                         .to = search.limit};
  read = read_entries(search, before, progress, [&](const Entry& entry) -> Result<void> {
    if (entry.at.ts == search.limit || !entry.in_transaction() ||
        !straddling.contains(transaction_of(entry)))
      return {};
    return reader.take(entry);
  });
  if (!read) return std::unexpected(std::move(read.error()));
  return std::move(reader.found());
}

std::vector<const std::pair<const std::string, LaterDocument>*> in_order_of_id(
    const LaterCollection& collection) {
  using Row = std::pair<const std::string, LaterDocument>;
  // A long double has every integer and every double.
  using Key = std::tuple<std::uint8_t, long double, std::string_view>;
  const auto key_of = [](std::string_view element) -> Key {
    constexpr std::size_t head = 1 + sizeof "_id";  // the type, and the name with its 0
    if (element.size() < head) return {};
    const std::string_view bytes = element.substr(head);
    const Field id{.type = static_cast<std::uint8_t>(element.front()),
                   .key = "_id",
                   .value = {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}};
    constexpr std::uint8_t number = 0;
    if (id.type == BSON_TYPE_DOUBLE)
      return {number, std::isnan(id.real()) ? -HUGE_VALL : id.real(), {}};
    if (id.type == BSON_TYPE_INT32 || id.type == BSON_TYPE_INT64)
      return {number, static_cast<long double>(id.integer().value_or(0)), {}};
    return {id.type, 0, id.type == BSON_TYPE_UTF8 ? id.text() : bytes};
  };
  std::vector<std::pair<Key, const Row*>> keyed;
  keyed.reserve(collection.documents.size());
  for (const Row& row : collection.documents) keyed.emplace_back(key_of(row.first), &row);
  std::ranges::sort(keyed, {}, &std::pair<Key, const Row*>::first);
  std::vector<const Row*> rows;
  rows.reserve(keyed.size());
  for (const auto& [key, row] : keyed) rows.push_back(row);
  return rows;
}

Bson only_id_of(std::string_view element) {
  const auto size = static_cast<std::uint32_t>(sizeof(std::uint32_t) + element.size() + 1);
  const std::uint32_t length = BSON_UINT32_TO_LE(size);
  std::string document(reinterpret_cast<const char*>(&length), sizeof length);
  document += element;
  document += '\0';
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(document.data());
  return Bson::copy_of(Document::of({bytes, document.size()}));
}

}  // namespace idmint::restore
