#include "engines/sql/mariadb/driver.h"

#include <dlfcn.h>

#include <string>

namespace idmint::stores::mariadb {

// A name that is declared cannot stand in parentheses, and these are libmariadb's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DEFINE(name) decltype(&::name) name = nullptr;
IDMINT_LIBMARIADB(IDMINT_DEFINE)
#undef IDMINT_DEFINE

Result<void> load_libmariadb() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [] {
      const char* const why = dlerror();
      return std::unexpected(
          Error{Code::kUnimplemented,
                std::string("libmariadb, MariaDB's C library, could not be loaded (") +
                    (why != nullptr ? why : "unknown") + "); install the package libmariadb3"});
    };
    void* const library = dlopen("libmariadb.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent();
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent();
    IDMINT_LIBMARIADB(IDMINT_LOAD)
#undef IDMINT_LOAD
    // Once, as it is not made for threads.
    if (mysql_server_init(0, nullptr, nullptr) != 0)
      return std::unexpected(Error{Code::kResourceExhausted, "libmariadb could not be set up"});
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

}  // namespace idmint::stores::mariadb
