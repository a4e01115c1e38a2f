// Catalog: the definitions of a store.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// Checks that the definition is valid and complete. The key of a permutation and the size of a pool
// may only be missing before it is stored.
[[nodiscard]] Result<void> check_stored(const Definition& definition);

struct CatalogEntry {
  std::string name{};
  Result<Definition> definition{};
};

struct Defined {
  Definition definition{};  // that is there now
  // This call wrote it, or may have: an attempt whose answer was lost may have been applied, and
  // what is there is what it wrote.
  bool made = false;

  friend bool operator==(const Defined& there, const Definition& wanted) {
    return there.definition == wanted;
  }
};

// Any thread may call any method at any time. Errors as in CounterStore. There is no remove: a name
// is never used again.
class Catalog {
 public:
  // Writes the definition unless its name has one already, in one atomic, durable step. Returns the
  // one that is there now, which may be another's; the caller must compare. kInvalidArgument: not
  // valid, or not complete (check_stored()).
  [[nodiscard]] IDMINT_EXPORT Result<Defined> define(const Definition& definition);

  // Replaces `old` by `updated` in one atomic, durable step, if `old` is what is there. Returns the
  // definition that is there now.
  // - kNotFound: no such name.
  // - kInvalidArgument: different names, or one of the two is not valid or not complete
  //   (check_stored()).
  [[nodiscard]] Result<Defined> replace(const Definition& old, const Definition& updated);

  // kNotFound: no such name.
  [[nodiscard]] Result<Definition> find(std::string_view name,
                                        SteadyTime until = SteadyTime::max()) {
    return do_find(name, until);
  }
  // Sorted by name. A definition that is damaged or from a newer idmint has its error in its entry.
  // Read in parts, each within the deadline of a call, and other calls come between them.
  // kUnavailable: the definitions were not read by `until`.
  [[nodiscard]] Result<std::vector<CatalogEntry>> list(SteadyTime until = SteadyTime::max());
  // The entries whose names come after `after`: the next page of a list, of `most` entries unless
  // it is the last one. A store that cannot read a part of its catalog returns all the rest. Two
  // pages are not of one moment. REQUIRES: most > 0.
  [[nodiscard]] Result<std::vector<CatalogEntry>> list_after(std::string_view after,
                                                             std::size_t most, SteadyTime until) {
    return do_list_after(after, most, until);
  }

 protected:
  ~Catalog() = default;

 private:
  // The methods above, with checked arguments.
  virtual Result<Defined> do_define(const Definition& definition) = 0;
  virtual Result<Defined> do_replace(const Definition& old, const Definition& updated) = 0;
  virtual Result<Definition> do_find(std::string_view name, SteadyTime until) = 0;
  virtual Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                          SteadyTime until) = 0;
};

}  // namespace idmint
