// The counters of a store of MongoDB:
//
//   idmint.counters      {_id: NAME, first, last, stride, next, closed, store}, or as adopted.h
//   says
//
// `next` is the next value to hand out, `store` the id of the store that made it. NAME is a string,
// or binary if it is not UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/mongodb/adopted.h"
#include "engines/mongodb/adoption.h"
#include "engines/mongodb/database.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/protocol/counters.h"

namespace idmint::stores::mongodb {

class CounterTable final : private CounterRows {
 public:
  // Both must outlive it.
  CounterTable(const Database& database, DatabaseEngine& engine)
      : database_(database), counters_(engine, *this) {}

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  const Adoption* adoption() const noexcept override { return &kAdoption; }
  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime until,
                                      std::string_view doing) override;
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override;
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override;
  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override;
  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override;
  Result<void> can_extend(std::span<const std::string> counters, std::int64_t last,
                          SteadyTime until) override;
  Result<std::string> find_record(const SequenceDefinition& definition) override;

  struct Record {
    CounterState state{};
    bool whole = false;                        // intact, as idmint writes it
    std::shared_ptr<const Adopted> adopted{};  // null: a counter of idmint's own
    bool gone = false;                         // the adopted document is missing
    Reading reading{};                         // of the adopted document
    std::optional<Uuid> made_by{};             // the store, if the record has it
  };
  using Records = std::map<std::string, Record>;

  static Record record_of(const Document& document);
  static Record filled(Record record, const Document& document);

  // Reads
  Error set_back(const Record& record, std::string_view counter) const;
  Result<CounterState> checked(const Record& record, std::string_view counter) const;
  Result<CounterState> read_counter(std::string_view counter, SteadyTime until);
  Result<Records> read_records(std::span<const std::string> counters, SteadyTime until);
  Result<Records> find_counters(std::span<const std::string> counters, Kind kind, SteadyTime until);
  Result<void> take_over_others(const Records& records, SteadyTime until);
  Result<void> read_adopted_of(Records& records, SteadyTime until);
  void remember(const Records& records);
  std::shared_ptr<const Adopted> known(std::string_view counter);

  // Makes
  Result<void> make_some(std::span<const NewCounter> counters, CounterStates& states,
                         SteadyTime until, std::string_view doing);
  std::string similar_to(const AdoptedRecord& record, SteadyTime until);
  std::string similar_collections(const std::string& collection, SteadyTime until);
  Result<bool> look_at_collection(const AdoptedRecord& record, SteadyTime until);
  // The counters that are adopted from a document, by its collection and _id, and by name.
  using Sharers = std::map<std::string, std::map<std::string, std::shared_ptr<const Adopted>>>;
  Result<void> adopt(std::span<const std::shared_ptr<const Adopted>> all, bool make,
                     SteadyTime until);
  Result<Sharers> agrees_with_others(std::span<const std::shared_ptr<const Adopted>> all,
                                     SteadyTime until);
  Result<void> begin_floors(const Records& wanted, const Sharers& sharers, SteadyTime until);
  Result<void> guard(const AdoptedRecord& record, SteadyTime until);

  // Changes
  Result<std::optional<Range>> advance_adopted(std::string_view counter, std::int64_t most,
                                               std::int64_t least, SteadyTime until,
                                               std::string_view doing);
  void note_floor(const std::shared_ptr<const Adopted>& adopted, SteadyTime until);

  const Database& database_;
  std::mutex mutex_;  // guards adopted_
  // As last read. Their places never change, and their ends only grow.
  std::map<std::string, std::shared_ptr<const Adopted>, std::less<>> adopted_;
  Counters counters_;
};

// kInvalidArgument: the field of the document is a double, which cannot count to `last`.
[[nodiscard]] Error beyond_a_double(const Adopted& adopted, std::int64_t last);

// kAlreadyExists: the counter is in another place than wanted. nullopt: idmint's own record.
[[nodiscard]] Error other_place(std::string_view counter, const std::optional<AdoptedRecord>& there,
                                const std::optional<AdoptedRecord>& wanted);

}  // namespace idmint::stores::mongodb
