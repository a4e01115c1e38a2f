#include "restore/promote/later.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "base/text.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/live.h"
#include "restore/oplog/member.h"
#include "restore/oplog/source.h"
#include "restore/oplog/transactions.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/mistake.h"
#include "restore/promote/production.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kEntriesAtOnce = 1000;  // between two calls of `progress`

constexpr std::size_t kMostTerms = 60;  // each is a bit of 64

std::string hex_of(std::string_view uuid) { return uuid.empty() ? std::string() : hex(uuid); }

std::string key_of(const Operation& write) {
  const Bson id = only_id_of(id_element(write));
  return id_key(id.view());
}

// Whether a promotion gives collections this name, beside their own.
bool is_of_promotion(std::string_view ns) {
  return ns.contains(kOldSuffix) || ns.contains(kCopySuffix) || ns.contains(kPromotedSuffix);
}

class LaterReader {
 public:
  // `made`: UUIDs of collections that got a wanted name later, and that name.
  LaterReader(const LaterSearch& search, const MistakeForm& form,
              std::map<std::string, std::string> made)
      : search_(search), form_(form), made_(std::move(made)) {}

  Result<void> take(const Entry& entry) {
    const bool mistaken = !search_.mistake_to || entry.at.ts <= *search_.mistake_to;
    return for_each_operation(
        entry, [&](const Operation& operation, std::uint32_t) -> Result<void> {
          return operation.op == Op::kCommand
                     ? take_command(operation, entry.at.ts)
                     : take_write(operation, entry.at.ts, how(operation, mistaken));
        });
  }

  // Takes an entry before the limit: sets bit 0 of documents that are written later, too.
  Result<void> take_before(const Entry& entry) {
    return for_each_operation(entry, [&](const Operation& write, std::uint32_t) -> Result<void> {
      const auto collection = found_.collections.find(write.ns);
      if (collection == found_.collections.end()) return {};
      auto& documents = collection->second.documents;
      const auto document = documents.find(key_of(write));
      if (document != documents.end()) document->second.terms |= 1;
      return {};
    });
  }

  // From now on come parts of transactions that were written before the others.
  void begin_straddling() { straddling_ = true; }

  [[nodiscard]] LaterWrites& found() { return found_; }
  // The rows that `made` lacks.
  [[nodiscard]] const std::map<std::string, std::string>& missed() const { return missed_; }

 private:
  enum class How : std::uint8_t { kLater, kMistaken, kUnlike };
  [[nodiscard]] How how(const Operation& write, bool in_time) const {
    if (!in_time) return How::kLater;
    return !search_.mistake_to || form_.is_like(write) ? How::kMistaken : How::kUnlike;
  }

  Result<void> take_write(const Operation& write, Timestamp ts, How how) {
    if (write.op != Op::kInsert && write.op != Op::kUpdate && write.op != Op::kDelete) return {};
    if (write.ns == kPromoteNamespace) {
      take_record(write, ts);
      return {};
    }
    const std::string uuid = hex_of(write.ui);
    if (write.op == Op::kDelete) take_loss_of_store(write.ns);
    if (const auto later = made_.find(uuid); later != made_.end() && later->second != write.ns) {
      early_[uuid].push_back({.key = key_of(write), .op = write.op, .ts = ts, .how = how});
      if (Result<void> counted = count_documents(); !counted) return counted;
    }
    if (!search_.wanted(write.ns)) return {};
    LaterCollection& collection = at(write.ns);
    if (!collection.at_limit) collection.at_limit = uuid;
    const Result<std::uint64_t> term = term_of(collection, uuid, ts);
    if (!term) return error_in(term);
    return note(collection, key_of(write), write.op, *term, ts, how);
  }

  Result<void> count_documents() {
    if (++found_.documents <= kMostLaterDocuments) return {};
    return fail(Code::kResourceExhausted,
                "more than " + print_count(static_cast<double>(kMostLaterDocuments)) +
                    " documents were written since the limit: name the collections that are to "
                    "be set back with --ns");
  }

  Result<void> note(LaterCollection& collection, const std::string& key, Op op, std::uint64_t term,
                    Timestamp ts, How how) {
    LaterDocument& document = collection.documents[key];
    if (document.writes == 0)
      if (Result<void> counted = count_documents(); !counted) return counted;
    ++document.writes;
    document.last = op;
    document.terms |= term;
    document.deleted = op == Op::kDelete ? document.deleted | term : document.deleted & ~term;
    if (how == How::kUnlike && document.mistaken == 0) document.is_unlike = true;
    if (how == How::kMistaken) document.is_unlike = false;
    if (how == How::kLater || (how == How::kUnlike && search_.alike)) return {};
    ++document.by_mistake;
    if (document.mistaken == 0) document.first_mistaken = ts;
    document.mistaken |= term;
    return {};
  }

  // idmint deletes nothing of its stores, so a delete by others has taken something away.
  void take_loss_of_store(std::string_view ns) {
    const std::size_t dot = ns.find('.');
    if (dot != std::string_view::npos && ns.substr(dot + 1).starts_with("idmint."))
      found_.robbed.emplace(ns.substr(0, dot));
  }

  // The bit of the term in which the collection with this UUID has the name.
  Result<std::uint64_t> term_of(LaterCollection& collection, const std::string& uuid,
                                Timestamp ts) const {
    std::vector<Term>& terms = collection.terms;
    const auto is_held = [&](const Term& term) {
      return collection.holders[term.holder].uuid == uuid;
    };
    if (straddling_) {
      const auto first = std::ranges::find_if(terms, is_held);
      if (first != terms.end()) return std::uint64_t{2} << (first - terms.begin());
    }
    if (terms.empty() || std::exchange(collection.is_cut, false) || !is_held(terms.back())) {
      if (terms.size() == kMostTerms)
        return fail(Code::kResourceExhausted,
                    "one name went from collection to collection " + std::to_string(kMostTerms) +
                        " times since the limit: leave it out with --exclude");
      auto holder = std::ranges::find(collection.holders, uuid, &Holder::uuid);
      if (holder == collection.holders.end())
        holder = collection.holders.insert(holder, {.uuid = uuid});
      terms.push_back(
          {.holder = static_cast<std::uint8_t>(holder - collection.holders.begin()), .begin = ts});
    }
    return std::uint64_t{1} << terms.size();
  }

  // A record that is replaced is logged as a whole; what a run notes of itself in it is not.
  void take_record(const Operation& write, Timestamp ts) {
    std::optional<PromoteState> state = promote_state_of(write.o);
    if (!state) return;
    auto known = std::ranges::find(found_.promotions, state->id,
                                   [](const PastPromotion& each) { return each.state.id; });
    if (known == found_.promotions.end()) known = found_.promotions.insert(known, PastPromotion{});
    if (state->step <= PromoteStep::kSwap || known->at == Timestamp{}) known->at = ts;
    known->state = *std::move(state);
  }

  Result<void> take_command(const Operation& command, Timestamp ts) {
    const std::string_view what = command.command();
    if (what == "commitTransaction" || what == "abortTransaction" || what == "dropDatabase")
      return {};  // the drops of its collections come first
    const std::string ns = namespace_of(command);
    const std::string uuid = hex_of(command.ui);
    const std::string to = what == "renameCollection" ? new_namespace_of(command) : std::string();
    if (what == "drop") {
      found_.drops[uuid] = ts;
      take_loss_of_store(ns);
    }
    if (what == "create") created_.insert(uuid);
    if (!ns.empty() && search_.wanted(ns)) {
      LaterCollection& collection = at(ns);
      ++collection.commands;
      if (!collection.at_limit) collection.at_limit = what == "create" ? std::string() : uuid;
      if (what == "drop" || what == "create" || !to.empty()) collection.is_cut = true;
      // It may come back, with what is written to it under the other name.
      if (!to.empty() && to != ns && !is_of_promotion(to) && !made_.contains(uuid))
        missed_[uuid] = ns;
      // Renamed away: the name belongs to another collection from now on.
      if (what == "drop" || what == "emptycapped" || (!to.empty() && !is_of_promotion(to)))
        collection.dropped = true;
      if (what == "emptycapped" && collection.at_limit == uuid) collection.at_limit = std::string();
    }
    if (to.empty() || !search_.wanted(to)) return {};
    LaterCollection& collection = at(to);
    ++collection.commands;
    collection.is_cut = true;
    const std::optional<Field> target = find_field(command.o, "dropTarget");
    const std::string replaced = target ? hex_of(target->binary()) : std::string();
    if (!replaced.empty()) found_.drops[replaced] = ts;
    if (!collection.at_limit) collection.at_limit = replaced;
    if (is_of_promotion(ns)) return {};
    collection.dropped = true;
    return take_renamed(collection, ns, to, uuid, ts);
  }

  // A collection gets the name that has documents already, as $out renames one.
  Result<void> take_renamed(LaterCollection& collection, const std::string& from,
                            const std::string& to, const std::string& uuid, Timestamp ts) {
    const auto made = made_.find(uuid);
    if (made == made_.end()) {
      if (created_.contains(uuid)) {
        missed_[uuid] = to;
      } else if (!missed_.contains(uuid) && uuid != collection.at_limit) {
        collection.renamed_from = from;
      }
      return {};
    }
    if (made->second != to) {  // it goes from name to name
      collection.renamed_from = from;
      return {};
    }
    const Result<std::uint64_t> term = term_of(collection, uuid, ts);
    if (!term) return error_in(term);
    for (const Early& each : early_[uuid]) {
      Result<void> noted = note(collection, each.key, each.op, *term, each.ts, each.how);
      if (!noted) return noted;
    }
    early_.erase(uuid);
    return {};
  }

  LaterCollection& at(std::string_view ns) {
    const auto there = found_.collections.find(ns);
    return there != found_.collections.end() ? there->second : found_.collections[std::string(ns)];
  }

  // A write to a collection that has not got the name yet.
  struct Early {
    std::string key;
    Op op = Op::kUnknown;
    Timestamp ts{};
    How how = How::kLater;
  };

  const LaterSearch& search_;
  const MistakeForm& form_;
  const std::map<std::string, std::string> made_;
  std::map<std::string, std::string> missed_;
  std::map<std::string, std::vector<Early>> early_;  // by UUID
  std::set<std::string> created_;                    // UUIDs, since the limit
  bool straddling_ = false;
  LaterWrites found_;
};

// Identifies the transaction of an entry.
std::string transaction_of(const Entry& entry) {
  return std::string(entry.lsid.raw()) + " " + std::to_string(entry.txn_number.value_or(0));
}

using TakeEntry = std::function<Result<void>(const Entry&)>;

Result<void> read_entries(const std::string& where, OplogSpan span, const TakeProgress& progress,
                          const TakeEntry& take) {
  Result<std::unique_ptr<OplogSource>> opened = open_oplog(where, span);
  if (!opened) return error_in(opened);
  OplogSource& oplog = **opened;
  for (std::uint64_t entries = 1;; ++entries) {
    const Result<std::optional<Entry>> next = oplog.next();
    if (!next) return error_in(next);
    const std::optional<Entry>& entry = *next;
    if (!entry) return {};
    if (Result<void> taken = take(*entry); !taken) return taken;
    if (entries % kEntriesAtOnce != 0 || !progress) continue;
    if (Result<void> told = progress(entries); !told) return told;
  }
}

// Waits until a majority has all that the primary has now. Returns its newest entry.
Result<Timestamp> await_majority(const std::string& production) {
  Result<Member> primary = connect_to_oplog(production);
  if (!primary) return error_in(primary);
  const Result<OpTime> newest = primary->newest();
  if (!newest) return error_in(newest);
  const Result<Bson> entry = primary->entry_of_majority(newest->ts);
  if (!entry) return error_in(entry);
  return newest->ts;
}

// The entries from a timestamp to the end: those of the file, and then production's.
Result<void> read_to_end(const LaterSearch& search, Timestamp from, const TakeProgress& progress,
                         const TakeEntry& take) {
  const std::string production = for_promotion(search.production);
  Timestamp last{};
  const TakeEntry noting = [&](const Entry& entry) {
    last = entry.at.ts;
    return take(entry);
  };
  if (!search.oplog.empty()) {
    Result<void> read = read_entries(search.oplog, {.from = from}, progress, noting);
    if (!read) return read;
    if (last != Timestamp{}) from = last;
  }
  const Result<Timestamp> newest = await_majority(production);
  if (!newest) return error_in(newest);
  const Timestamp of_file = last;
  bool is_joined = of_file == Timestamp{};
  Result<void> read =
      read_entries(production, {.from = from}, progress, [&](const Entry& entry) -> Result<void> {
        if (is_joined) return noting(entry);
        is_joined = entry.at.ts == of_file;
        if (is_joined) return {};
        return fail(Code::kOutOfRange, "production's oplog begins at " +
                                           print_timestamp(entry.at.ts) + ", after the end of " +
                                           search.oplog + " at " + print_timestamp(of_file) +
                                           ": give --oplog a copy that is as new as that");
      });
  if (read && last < *newest)
    return fail(Code::kUnavailable, "the oplog of production ended before " +
                                        print_timestamp(*newest) +
                                        ", which its primary had: the same command goes on");
  return read;
}

// The entries of a span before the end of the file or of production's oplog.
Result<void> read_span(const LaterSearch& search, OplogSpan span, const TakeProgress& progress,
                       const TakeEntry& take) {
  return read_entries(search.oplog.empty() ? for_promotion(search.production) : search.oplog, span,
                      progress, take);
}

}  // namespace

std::string_view in_words(Loss loss) {
  constexpr std::array<std::string_view, 7> words = {"merged",
                                                     "not merged",
                                                     "in the mistake",
                                                     "the restored collection has this _id",
                                                     "a version in another collection is later",
                                                     "its collection is dropped",
                                                     "the restored collection refuses it"};
  return words.at(static_cast<std::size_t>(loss));
}

std::uint64_t LaterCollection::lost() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      documents, [](const auto& each) { return each.second.loss != Loss::kNone; }));
}

std::uint64_t LaterCollection::lost_of_mistake() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(documents, [](const auto& each) {
    const LaterDocument& document = each.second;
    return document.loss != Loss::kNone && document.writes == document.by_mistake;
  }));
}

std::uint64_t LaterCollection::terms_of(std::size_t holder) const {
  std::uint64_t bits = 0;
  for (std::size_t term = 0; term < terms.size(); ++term)
    if (terms[term].holder == holder) bits |= std::uint64_t{2} << term;
  return bits;
}

namespace {

// The parts of transactions that began before the limit and may commit after it. Each part names
// only its predecessor, so a whole day is searched.
Result<void> read_straddling(const LaterSearch& search, Timestamp earliest,
                             const std::set<std::string, std::less<>>& straddling,
                             LaterReader& reader, const TakeProgress& progress) {
  constexpr std::uint32_t day = 86'400;
  reader.begin_straddling();
  const OplogSpan before{.from = {.seconds = earliest.seconds > day ? earliest.seconds - day : 1},
                         .to = search.limit};
  return read_span(search, before, progress, [&](const Entry& entry) -> Result<void> {
    if (entry.at.ts == search.limit || !entry.in_transaction() ||
        !straddling.contains(transaction_of(entry)))
      return {};
    return reader.take(entry);
  });
}

Error lacks_limit(const LaterSearch& search, Timestamp first) {
  return {Code::kOutOfRange,
          "the oplog has no entry " + print_timestamp(search.limit) + ", which is the limit" +
              (first > search.limit ? ", and begins at " + print_timestamp(first) : "") +
              ": give --oplog FILE, a copy that reaches from there to now"};
}

// A promotion that was restored to an earlier moment lacks what was written between that and the
// limit: marks it in the documents that were written later, too.
Result<void> read_before(const LaterSearch& search, LaterReader& reader,
                         const TakeProgress& progress) {
  Timestamp earliest = search.limit;
  for (const PastPromotion& each : reader.found().promotions)
    earliest = std::min(earliest, each.state.limit);
  if (earliest == search.limit) return {};
  std::optional<Timestamp> first;
  Result<void> read = read_span(search, {.from = earliest, .to = search.limit}, progress,
                                [&](const Entry& entry) -> Result<void> {
                                  if (!first) first = entry.at.ts;
                                  if (entry.at.ts == search.limit) return {};
                                  return reader.take_before(entry);
                                });
  if (!read) return read;
  if (first == earliest) return {};
  for (auto& [ns, collection] : reader.found().collections)  // unknown: any may have been
    for (auto& [id, document] : collection.documents) document.terms |= 1;
  return {};
}

Result<MistakeForm> form_of(const LaterSearch& search) {
  MistakeForm form;
  if (!search.mistake_to) return form;
  for (const Timestamp end : {search.limit, *search.mistake_to}) {
    bool changes = false;
    Result<void> read =
        read_span(search, {.from = end, .to = end}, {}, [&](const Entry& entry) -> Result<void> {
          return for_each_operation(entry,
                                    [&](const Operation& operation, std::uint32_t) -> Result<void> {
                                      changes = changes || operation.op != Op::kNoop;
                                      form.add(operation);
                                      return {};
                                    });
        });
    if (!read) return error_in(read);
    if (!changes && search.alike)
      return fail(Code::kInvalidArgument,
                  "the entry " + print_timestamp(end) +
                      " changes nothing, so that it tells nothing of the mistake: with "
                      "--mistake-alike give --limit and --mistake-to as find prints them");
  }
  return form;
}

// nullopt: collections that got their names by a rename are to be followed from their creation on;
// `made` has them.
Result<std::optional<LaterWrites>> read_later(const LaterSearch& search,
                                              std::map<std::string, std::string>& made,
                                              const TakeProgress& progress) {
  const Result<MistakeForm> form = form_of(search);
  if (!form) return error_in(form);
  LaterReader reader(search, *form, made);
  std::set<std::string, std::less<>> straddling;
  Timestamp earliest = search.limit;
  Timestamp first{};
  Result<void> read =
      read_to_end(search, search.limit, progress, [&](const Entry& entry) -> Result<void> {
        if (first == Timestamp{}) first = entry.at.ts;
        if (first != search.limit) return std::unexpected(lacks_limit(search, first));
        reader.found().last = entry.at.ts;
        if (entry.in_transaction() && entry.previous && entry.previous->ts != Timestamp{} &&
            entry.previous->ts < search.limit) {
          straddling.insert(transaction_of(entry));
          earliest = std::min(earliest, entry.previous->ts);
        }
        return reader.take(entry);
      });
  if (!read) return error_in(read);
  if (first == Timestamp{}) return std::unexpected(lacks_limit(search, first));
  if (!reader.missed().empty()) {
    made.insert(reader.missed().begin(), reader.missed().end());
    return std::optional<LaterWrites>();
  }
  if (!straddling.empty()) read = read_straddling(search, earliest, straddling, reader, progress);
  if (read) read = read_before(search, reader, progress);
  if (!read) return error_in(read);
  reader.found().mistake = form->in_words();
  return std::optional(std::move(reader.found()));
}

}  // namespace

Result<LaterWrites> find_later(const LaterSearch& search, const TakeProgress& progress) {
  std::map<std::string, std::string> made;
  for (;;) {
    Result<std::optional<LaterWrites>> found = read_later(search, made, progress);
    if (!found) return error_in(found);
    if (std::optional<LaterWrites>& later = *found) return *std::move(later);
  }
}

Result<void> each_delete_since(
    const std::string& production, Timestamp after,
    const std::function<Result<void>(std::string_view id, const std::string& uuid)>& take) {
  Timestamp first{};
  Result<void> read = read_entries(
      for_promotion(production), {.from = after}, {}, [&](const Entry& entry) -> Result<void> {
        if (first == Timestamp{}) first = entry.at.ts;
        if (entry.at.ts <= after) return {};
        return for_each_operation(entry,
                                  [&](const Operation& write, std::uint32_t) -> Result<void> {
                                    if (write.op != Op::kDelete) return {};
                                    return take(key_of(write), hex_of(write.ui));
                                  });
      });
  if (!read) return read;
  if (first != after)
    return fail(Code::kOutOfRange, "the oplog does not reach back to " + print_timestamp(after));
  return {};
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
