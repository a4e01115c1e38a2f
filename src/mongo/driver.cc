#include "mongo/driver.h"

#include <dlfcn.h>

#include <string>

namespace idmint::mongo {

// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared cannot stand in parentheses.
#define IDMINT_DEFINE(name) decltype(&::name) name = nullptr;
IDMINT_DRIVER(IDMINT_DEFINE)
#undef IDMINT_DEFINE

Result<void> load_driver() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [](std::string_view advice) {
      const char* const why = dlerror();
      return std::unexpected(Error{
          Code::kUnimplemented,
          std::string("MongoDB's C driver, version 1.23 or a later 1.x, could not be loaded (") +
              (why != nullptr ? why : "unknown") + "); " + std::string(advice)});
    };
    constexpr const char* kLibrary = "libmongoc-1.0.so.0";
    void* const before = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent("install the package libmongoc-1.0-0");
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent("the one that is installed is too old");
    IDMINT_DRIVER(IDMINT_LOAD)
#undef IDMINT_LOAD
    mongoc_init();
    // The driver logs to standard output, which is for ids. A program that uses the driver too
    // keeps its own log handler.
    if (before == nullptr) mongoc_log_set_handler(nullptr, nullptr);
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace idmint::mongo
