// Commands that remove collections or their contents: drop, dropDatabase, emptycapped, and renames,
// including those of $out and convertToCapped.
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
  // A write to the database: it separates the drops before it from those after it.
  void write(std::string_view database) {
    if (!sequences_.empty()) end_sequence(database);
  }
  // An insert into a collection with a generated name.
  void inserted(std::string_view ns);
  // The next entry that changes anything; completes the drops of the entry before.
  void next_entry(Timestamp at);
  // At the end: notes whether the dropped or renamed collection was created again.
  void weigh(Suspect& suspect) const;

 private:
  // Consecutive drops in one database, with no other operation on it between them.
  struct Sequence {
    Suspect first;
    Timestamp last{};
    std::uint64_t collections = 0;
    std::uint64_t documents = 0;
    bool documents_known = true;  // for all collections
    bool temporary = true;        // whether all collections are
    bool wanted = false;          // whether at least one drop is
    std::string names;
  };

  // A collection created in this oplog.
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
  BoundedTable<Timestamp> gone_{std::size_t{1} << 10};      // when it was dropped; likewise
  BoundedTable<Timestamp> anew_{std::size_t{1} << 10};      // when it was created again
  std::vector<std::string> begun_;  // databases whose sequences began in the entry before
};

}  // namespace idmint::restore
