// Accounts with numbers of four digits, in MongoDB: insert_with_id URL, such as
// mongodb://127.0.0.1/app. Numbers that are taken are drawn again, for those documents only.
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "idmint/mongodb.h"

namespace {

template <class T>
T need(idmint::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << name(result.error().code) << ": " << result.error().message() << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  namespace mongodb = idmint::mongodb;
  if (argc != 2) {
    std::cerr << "usage: insert_with_id mongodb://HOST/DATABASE\n";
    return 2;
  }
  auto accounts = need(mongodb::Collection::open(argv[1], "accounts"));
  idmint::Mint mint;
  auto numbers = need(mint.source("digits", {.digits = idmint::DigitsLayout{.digits = 4}}));

  // Documents are raw BSON: of your driver, or of JSON.
  std::vector<std::vector<std::byte>> documents;
  for (int i = 0; i < 2000; ++i)
    documents.push_back(need(mongodb::document_from_json(R"({"balance": 0})")));
  const std::vector<mongodb::Bytes> views(documents.begin(), documents.end());

  const auto inserted =
      mongodb::insert_with_id(accounts, *numbers, views, {.field = "account", .make_index = true});
  if (!inserted) {
    const mongodb::NotInserted& not_all = inserted.error();
    std::cerr << name(not_all.error.code) << ": " << not_all.error.message() << '\n';
    for (const mongodb::Outcome& outcome : not_all.outcomes)
      if (outcome.fate == mongodb::Outcome::Fate::kUnknown)
        std::cerr << "perhaps " << to_string(outcome.id) << '\n';
    return 1;
  }
  const std::set<idmint::Id> different(inserted->ids.begin(), inserted->ids.end());
  std::cout << inserted->ids.size() << " accounts, " << different.size() << " numbers, "
            << inserted->collisions << " drawn again; the first is "
            << to_string(inserted->ids.front()) << '\n';
  return different.size() == inserted->ids.size() ? 0 : 1;
}
