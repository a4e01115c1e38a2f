// Catalog: the definitions of a store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// Valid, and complete: the key of a permutation and the end of a pool may be missing before it is
// stored, not after.
[[nodiscard]] Result<void> check_stored(const Definition& definition);

struct CatalogEntry {
  std::string name{};
  Result<Definition> definition{};
};

// Any thread may call any method at any time. Errors as in CounterStore.
// There is no remove: a name, once given, is never given again.
class Catalog {
 public:
  // Writes the definition unless its name has one already, in one atomic, durable step; returns the
  // one that is now there, which may be another's. It is for the caller to compare.
  [[nodiscard]] IDMINT_EXPORT Result<Definition> define(const Definition& definition);

  // Puts `updated` in the place of `old`, in one atomic, durable step, if that is what is there;
  // returns the definition that is now there. kNotFound: no such name. kInvalidArgument: not the
  // same name. Of both: not valid, or not complete: only before it is stored may the key of a
  // permutation and the end of a pool be missing.
  [[nodiscard]] Result<Definition> replace(const Definition& old, const Definition& updated);

  // kNotFound: no such name.
  [[nodiscard]] Result<Definition> find(std::string_view name,
                                        SteadyTime until = SteadyTime::max()) {
    return do_find(name, until);
  }
  // By name. One that is damaged, or of a newer idmint, has its error in its entry.
  [[nodiscard]] Result<std::vector<CatalogEntry>> list(SteadyTime until = SteadyTime::max()) {
    return do_list(until);
  }

 protected:
  ~Catalog() = default;

 private:
  // The methods above, whose arguments have been checked.
  virtual Result<Definition> do_define(const Definition& definition) = 0;
  virtual Result<Definition> do_replace(const Definition& old, const Definition& updated) = 0;
  virtual Result<Definition> do_find(std::string_view name, SteadyTime until) = 0;
  virtual Result<std::vector<CatalogEntry>> do_list(SteadyTime until) = 0;
};

}  // namespace idmint
