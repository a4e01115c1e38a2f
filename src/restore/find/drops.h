// Commands that remove collections or what is in them: drop, dropDatabase, emptycapped, renames,
// and what $out and convertToCapped do by renames.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/bounded_table.h"
#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Before a dropDatabase, MongoDB logs the drop of each collection. The suspect begins with the
// first of these drops, even if the filter rejects some of them.
class Drops {
 public:
  explicit Drops(Suspects& suspects) : suspects_(suspects) {}

  // Any command. `wanted`: the filter accepts it, and it is in the span.
  void command(const Operation& operation, const Place& place, bool wanted);
  // A write: drops in its database before and after it do not belong together.
  void write(std::string_view database) {
    if (!sequences_.empty()) end_sequence(database);
  }
  // An insert into a collection with a generated name.
  void inserted(std::string_view ns);
  // The next entry that changes anything, for the drops of the one before.
  void next_entry(Timestamp at);
  // At the end: says of a drop or rename that the collection was made anew.
  void weigh(Suspect& suspect) const;

 private:
  // Drops in one database with nothing else in it between them.
  struct Sequence {
    Suspect first;
    Timestamp last{};
    std::uint64_t collections = 0;
    std::uint64_t documents = 0;
    bool documents_known = true;  // of all collections
    bool temporary = true;        // all collections
    bool wanted = false;          // at least one drop
    std::string names;
  };

  // A collection that was made in this oplog.
  struct Life {
    Timestamp born{};
    std::uint64_t documents = 0;  // inserted, if the name is generated
  };

  void dropped(const Operation& drop, const Place& place, bool wanted);
  void dropped_database(const Operation& drop, const Place& place, bool wanted);
  void emptied(const Operation& command, const Place& place);
  void renamed(const Operation& rename, const Place& place, bool wanted);
  void renamed_over(const Operation& rename, const std::string& from, const std::string& to,
                    const Place& place);
  void created(const std::string& ns, Timestamp at);
  void gone(const std::string& ns, Timestamp at);
  void end_sequence(std::string_view database);

  Suspects& suspects_;
  std::map<std::string, Sequence, std::less<>> sequences_;  // by database
  BoundedTable<Life> lives_{std::size_t{1} << 12};          // by a hash of the namespace
  BoundedTable<Timestamp> gone_{std::size_t{1} << 10};      // likewise: when it was dropped
  BoundedTable<Timestamp> anew_{std::size_t{1} << 10};      // when it was made again, by `gone`
  std::vector<std::string> begun_;  // databases of the sequences that began in the entry before
};

}  // namespace idmint::restore
