#include "restore/minted.h"

#include <algorithm>
#include <optional>

#include "base/shell.h"
#include "idmint/catalog.h"
#include "restore/state.h"

namespace idmint::restore {
namespace {

constexpr const char* kDefinitions = "idmint.definitions";

// With a value to be filled in: what was granted before the mistake is known to production alone.
std::string command_for(const Definition& definition, const std::string& store) {
  const std::string name = shell_word(definition.name);
  switch (definition.strategy) {
    case Strategy::kPool:
      return "idmint workers raise " + name + " --past TIME --store " + store;
    case Strategy::kRandom:
      return {};
    default:
      return "idmint raise " + name + " --past N --store " + store;
  }
}

}  // namespace

std::string with_database(std::string_view uri, std::string_view database) {
  const std::size_t scheme = uri.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(uri.find_first_of("/?", begin), uri.size());
  const std::size_t options = std::min(uri.find('?', end), uri.size());
  return std::string(uri.substr(0, end)) + "/" + std::string(database) +
         std::string(uri.substr(options));
}

Result<std::vector<Minted>> find_minted(Server& server, const NamespaceFilter& filter) {
  std::vector<Minted> found;
  const Result<std::vector<std::string>> databases = list_databases(server);
  if (!databases) return std::unexpected(databases.error());
  for (const std::string& database : *databases) {
    if (!filter.includes_database(database)) continue;
    const std::string store = shell_word(with_database(server.shown_uri(), database));
    const Result<void> read =
        for_each_document(server, database, kDefinitions, [&](Document document) -> Result<void> {
          bson_iter_t at;
          Minted each{.database = database};
          if (document.find("_id", &at)) each.name = as_text(at);
          const Result<Definition> definition =
              definition_from_json(document.find("json", &at) ? as_text(at) : std::string_view{});
          if (definition && definition->retired) return {};
          if (definition) {
            each.strategy = idmint::name(definition->strategy);
            each.command = command_for(*definition, store);
          }
          found.push_back(std::move(each));
          return {};
        });
    if (!read) return std::unexpected(read.error());
  }
  return found;
}

void print_minted(Output& out, const std::vector<Minted>& minted) {
  if (minted.empty()) return;
  out.write(
      "\nWARNING: counters and pools of idmint went back to where they were. Before clients\n"
      "return, raise each past everything that production has handed out: N is the largest\n"
      "value in use there, TIME a minute after the last program stopped minting.\n");
  for (const Minted& each : minted) {
    if (!each.command.empty()) {
      out.write("  " + each.command + "\n");
    } else if (each.strategy.empty()) {
      out.write("  " + each.database + ": " + each.name +
                " cannot be read: see idmint list with the idmint that made it\n");
    } else {
      out.write("  " + each.database + ": " + each.name + " is " + each.strategy +
                " and cannot be raised: retire it, and go on with another\n");
    }
  }
}

}  // namespace idmint::restore
