#include "engines/sql/postgresql/driver.h"

#include <dlfcn.h>

#include <string>

namespace idmint::stores::postgresql {

// A name that is declared cannot stand in parentheses, and these are libpq's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DEFINE(name) decltype(&::name) name = nullptr;
IDMINT_LIBPQ(IDMINT_DEFINE)
#undef IDMINT_DEFINE

Result<void> load_libpq() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [] {
      const char* const why = dlerror();
      return std::unexpected(
          Error{Code::kUnimplemented,
                std::string("libpq, PostgreSQL's C library, could not be loaded (") +
                    (why != nullptr ? why : "unknown") + "); install the package libpq5"});
    };
    void* const library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent();
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent();
    IDMINT_LIBPQ(IDMINT_LOAD)
#undef IDMINT_LOAD
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

}  // namespace idmint::stores::postgresql
