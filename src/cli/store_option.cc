#include "cli/store_option.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/words.h"
#include "base/errors.h"
#include "base/shell.h"
#include "base/url.h"
#include "terminal/advice.h"
#include "terminal/credentials.h"

namespace idmint::cli {
namespace {

// The store of the command line belongs to the program, not to a command: every error is worded
// with it, also one that is reported after the work (Program::worded). add_store(), add_over() and
// add_also() bind the options to it.
struct StoreOption {
  std::string url;
  std::string typed;  // the argument of --store; empty: it was not given
  bool from_environment = false;
  bool follows = false;  // the command has --also
  Stays stays = Stays::kYes;
  std::vector<std::string> over{};
  std::vector<std::string> also{};
} store_option;

// The elements of a list that is separated by blanks. In a URL a blank is %20.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    if (end != 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// If the option is not given, takes the list in its variable.
Result<void> settle_list(const CLI::App& command, const char* option, const char* variable,
                         std::vector<std::string>& urls) {
  const CLI::Option* const given = command.get_option_no_throw(option);
  if (given == nullptr || !given->empty()) return {};
  const char* const value = std::getenv(variable);
  for (const std::string& each : words_of(value != nullptr ? value : "")) {
    Result<std::string> url = url_given(variable, each);
    if (!url) return std::unexpected(std::move(url.error()));
    urls.push_back(*std::move(url));
  }
  return {};
}

// Rejects a URL in the place of a source's name, which would be printed.
Result<void> refuse_url_as_name(const CLI::App& command) {
  constexpr std::array<std::string_view, 4> kNames = {"NAME", "SOURCE", "POOL", "FILE"};
  for (const CLI::Option* const option : command.get_options()) {
    const bool names = option->get_positional()
                           ? std::ranges::find(kNames, option->get_name()) != kNames.end()
                           : option->get_type_name() == "SOURCE";
    if (!names) continue;
    for (const std::string& given : option->results()) {
      if (has_secret(given) || given.contains('@'))
        return refuse(
            "there is a URL where a name is taken: give the store with --store, or in "
            "IDMINT_STORE");
    }
  }
  return {};
}

}  // namespace

void add_store(CLI::App& command, Stays stays) {
  store_option.stays = stays;
  command
      .add_option("--store", store_option.url,
                  advice::store_examples() + " (default: ids.db in ~/.local/share/idmint)")
      ->type_name("URL");
}

void add_also(CLI::App& command) {
  command
      .add_option("--also", store_option.also,
                  "A store to which sequences were moved (idmint move); may be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
}

void add_over(CLI::App& command) {
  command
      .add_option("--over", store_option.over,
                  "For a sequence over several stores: replaces a URL of its definition "
                  "that is old or lacks a password; may be repeated")
      ->allow_extra_args(false)
      ->type_name("URL");
}

bool has_store_option() noexcept {
  return !store_option.url.empty() && !store_option.from_environment;
}

Result<void> settle_store(CLI::App& command) {
  const CLI::Option* const given = command.get_option_no_throw("--store");
  const bool takes_url = std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return option->get_type_name() == "URL";
  });
  if (takes_url)
    if (Result<void> named = refuse_url_as_name(command); !named) return named;
  if (given == nullptr) return {};
  auto& [url, typed, from_environment, follows, stays, over, also] = store_option;
  if (given->empty()) {
    const char* const value = std::getenv("IDMINT_STORE");
    url = value != nullptr ? value : "";
    from_environment = !url.empty();
  } else if (url.empty()) {
    return refuse("--store is empty: give a URL such as sqlite:ids.db, or leave it out");
  } else {
    typed = url;
  }
  for (CLI::Option* const option : command.get_options()) {
    if (option == given || option->get_type_name() != "URL") continue;
    if (Result<void> read = read_url(*option); !read) return read;
  }
  follows = command.get_option_no_throw("--also") != nullptr;
  if (Result<void> read = settle_list(command, "--also", "IDMINT_ALSO", also); !read) return read;
  if (Result<void> read = settle_list(command, "--over", "IDMINT_OVER", over); !read) return read;
  Result<std::string> whole = url_given(from_environment ? "IDMINT_STORE" : "--store", url);
  if (!whole) return std::unexpected(std::move(whole.error()));
  url = *std::move(whole);
  const StoreKind* const kind = store_kind(url);
  if (kind == nullptr) return {};  // the error comes from opening it
  const std::string_view place = std::string_view(url).substr(url.find(':') + 1);
  if (kind->is_file && place.starts_with("~/")) {
    return refuse("idmint does not expand ~ in the store " + redacted(url) +
                  (from_environment ? " (from IDMINT_STORE)" : "") + ": write " +
                  std::string(kind->scheme) + ":$HOME" + std::string(place.substr(1)));
  }
  if (!kind->lasts && stays == Stays::kYes)
    return refuse("the store " + redacted(url) +
                  " begins empty and is gone when the command ends: give one that stays, such as "
                  "sqlite:ids.db");
  return {};
}

const std::string& store_given() noexcept { return store_option.url; }

std::string store_in_hints(const std::string& typed, std::string_view url) {
  // These name a place, which is no secret.
  if (typed.starts_with("env:") || typed.starts_with("file:")) return typed;
  const StoreKind* const kind = store_kind(url);
  if (kind == nullptr || kind->lasts) return redacted(typed);
  return std::string(std::ranges::find_if(store_kinds(), [](const StoreKind& each) {
                       return each.lasts;
                     })->example);
}

std::string store_again() {
  const std::string store = store_in_hints(store_option.typed, store_option.url);
  return store.empty() ? "" : " --store " + shell_word(store);
}

std::string in_words(Advice advice) {
  // The store of this command is named as it was given.
  const Result<std::string> own = Mint({.store = store_option.url}).store_url();
  if (own && advice.subject == redacted(*own)) advice.subject.clear();
  if (advice.remedy == Remedy::kFollowMove && !store_option.follows && !advice.values.empty())
    return ": --store " + shell_word(advice.values.front());
  return idmint::in_words(advice, store_in_hints(store_option.typed, store_option.url));
}

Error worded(Error error) {
  static const Advice kOfStore{.remedy = Remedy::kSetOption, .values = {"store"}};
  if (store_option.from_environment && error.advice == kOfStore) {
    end_of(error) += " (the value came from IDMINT_STORE)";
    error.advice = {};
  }
  end_of(error) += in_words(std::exchange(error.advice, {}));
  return error;
}

MintOptions mint_options(const Context& context, Access access) {
  MintOptions options;
  options.store = store_option.url;
  options.over = store_option.over;
  options.also = store_option.also;
  options.store_options.access = access;
  options.notice = [json = context.json](std::string_view text) { report_notice(text, json); };
  return options;
}

Mint open_mint(const Context& context, Access access) {
  return Mint(mint_options(context, access));
}

}  // namespace idmint::cli
