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
    const auto absent = [](const char* why) {
      return std::unexpected(
          Error{Code::kUnimplemented, std::string("libzookeeper_mt could not be loaded (") +
                                          (why != nullptr ? why : "unknown") +
                                          "); install the package libzookeeper-mt2"});
    };
    void* const library = dlopen("libzookeeper_mt.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent(dlerror());
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent(dlerror());
    IDMINT_LIBZOOKEEPER(IDMINT_LOAD)
#undef IDMINT_LOAD
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

}  // namespace idmint::stores::zookeeper
