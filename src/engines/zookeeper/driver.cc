#include "engines/zookeeper/driver.h"

#include <dlfcn.h>

#include <string>

namespace idmint::stores::zookeeper {

// A name that is declared cannot stand in parentheses, and these are libzookeeper's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DEFINE(name) decltype(&::name) name = nullptr;
IDMINT_LIBZOOKEEPER(IDMINT_DEFINE)
#undef IDMINT_DEFINE

Result<void> load_libzookeeper() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [](std::string_view advice) {
      const char* const why = dlerror();
      return std::unexpected(
          Error{Code::kUnimplemented,
                std::string("libzookeeper_mt, version 3.8 or later, could not be loaded (") +
                    (why != nullptr ? why : "unknown") + "); " + std::string(advice)});
    };
    void* const library = dlopen("libzookeeper_mt.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent("install the package libzookeeper-mt2");
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent("the one that is installed is too old");
    IDMINT_LIBZOOKEEPER(IDMINT_LOAD)
#undef IDMINT_LOAD
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

}  // namespace idmint::stores::zookeeper
