// Loads MongoDB's driver before the main() of a test, a benchmark or a fuzz target that reads BSON,
// as idmint-restore does when it begins.
#include <cstdlib>

#include "mongo/driver.h"

namespace {

[[maybe_unused]] const bool loaded = [] {
  ::setenv("MONGOC_DISABLE_SHM", "1", 0);
  if (!idmint::mongo::load_driver()) std::abort();
  return true;
}();

}  // namespace
