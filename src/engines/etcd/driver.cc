#include "engines/etcd/driver.h"

#include <dlfcn.h>

#include <string>

namespace idmint::stores::etcd {

// A name that is declared cannot stand in parentheses, and these are libcurl's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DEFINE(name) decltype(&::name) name = nullptr;
IDMINT_LIBCURL(IDMINT_DEFINE)
#undef IDMINT_DEFINE

Result<void> load_libcurl() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [](const char* why) {
      return std::unexpected(
          Error{Code::kUnimplemented, std::string("libcurl could not be loaded (") +
                                          (why != nullptr ? why : "unknown") +
                                          "); install the package libcurl4"});
    };
    void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent(dlerror());
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent(dlerror());
    IDMINT_LIBCURL(IDMINT_LOAD)
#undef IDMINT_LOAD
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return absent("it does not start");
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

}  // namespace idmint::stores::etcd
