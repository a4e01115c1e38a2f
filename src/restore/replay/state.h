// What a server holds: its collections, their options, indexes and documents; and how that differs
// from what it should hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/collections.h"
#include "restore/observer.h"
#include "restore/server.h"

namespace idmint::restore {

// Documents of one collection, in the order of their _id. None: there is no such collection.
[[nodiscard]] Result<void> for_each_document(Server& server, const std::string& database,
                                             const std::string& name,
                                             const std::function<Result<void>(Document)>& take);
// How many it has, by looking at each: what servers keep count of is wrong after a kill.
[[nodiscard]] Result<std::uint64_t> count_documents(Server& server, const std::string& ns);

// The document as text that is the same where it means the same: the order of its own fields, and
// which type a whole number has, do not matter; the order within what is nested does.
[[nodiscard]] std::string comparable(Document document);

struct CollectionState {
  std::string type;
  std::string options;                           // comparable()
  std::map<std::string, std::string> indexes{};  // by name, comparable()
  // Nothing: of a view.
  std::optional<std::uint64_t> count{};
  // SHA-256 over the documents' bytes, one after the other in the simple order of their _id; hex.
  // Empty: not known.
  std::string sha256{};
};
using State = std::map<std::string, CollectionState>;  // by namespace

struct HowToRead {
  bool hashes = true;  // otherwise documents are counted only
  std::function<bool(std::string_view ns)> wanted{};
  TakeProgress progress{};  // of documents that were read
};
[[nodiscard]] Result<State> read_state(Server& server, const HowToRead& how);

// {"expected": {DATABASE: {"collections": {NAME: {"type", "count", "sha256_sorted_by_id",
// "options", "indexes"}}}}}; other fields are passed over. kDataLoss: it is no such file.
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
