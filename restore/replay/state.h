// The state of a server: its collections with their options, indexes and documents; and how it
// differs from the expected state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/document.h"
#include "restore/collections.h"
#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/server.h"

namespace idmint::restore {

// Documents of one collection in the order of their _id. A missing collection has none.
[[nodiscard]] Result<void> for_each_document(Server& server, const std::string& database,
                                             const std::string& name,
                                             const std::function<Result<void>(Document)>& take);
// Counts the documents by reading each, because the server's own count is wrong after a kill.
[[nodiscard]] Result<std::uint64_t> count_documents(Server& server, const std::string& ns);

// A text that is equal for documents that mean the same: the order of top-level fields and the type
// of whole numbers do not matter. The order in nested documents does.
[[nodiscard]] std::string comparable(Document document);

struct CollectionState {
  std::string type;
  std::string options;                           // comparable()
  std::map<std::string, std::string> indexes{};  // by name, comparable()
  // nullopt: a view.
  std::optional<std::uint64_t> count{};
  // SHA-256, in hex, over the bytes of all documents in the simple order of their _id. Empty:
  // unknown.
  std::string sha256{};
};
using State = std::map<std::string, CollectionState>;  // by namespace

struct HowToRead {
  bool hashes = true;  // false: only counts documents
  bool users = false;  // users and roles, too
  std::function<bool(std::string_view ns)> wanted{};
  TakeProgress progress{};  // of documents read
};
[[nodiscard]] Result<State> read_state(Server& server, const HowToRead& how);

// JSON: {"expected": {DATABASE: {"collections": {NAME: {"type", "count", "sha256_sorted_by_id",
// "options", "indexes"}}}}}; other fields are ignored. kDataLoss: the file is not of this form.
[[nodiscard]] Result<State> read_state_file(const std::string& path);
[[nodiscard]] std::string state_file(const State& state);

struct Difference {
  std::string ns;
  std::string what;  // "documents", "indexes", ...
  std::string is;
  std::string should_be;
};
[[nodiscard]] std::vector<Difference> differences(const State& is, const State& should);

}  // namespace idmint::restore
