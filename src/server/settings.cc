#include "server/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <variant>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"
#include "idmint/uuid.h"
#include "mint/toml.h"

namespace idmint::server {

namespace {

using Texts = std::vector<std::string>;
using Into = std::variant<std::string*, Texts*, std::optional<std::int64_t>*, LogSettings::Level*,
                          LogSettings::Format*, bool*>;

// One key, wherever it comes from.
struct Key {
  std::string_view name;  // "store", "tls.key"
  Into into;
};

constexpr std::size_t kKeys = 16;

std::array<Key, kKeys> keys_of(Settings& s) {
  return {Key{"store", &s.store.url},
          Key{"also", &s.also.urls},
          Key{"over", &s.over.urls},
          Key{"redis", &s.redis},
          Key{"http", &s.http},
          Key{"max_connections", &s.max_connections},
          Key{"drain_seconds", &s.drain_seconds},
          Key{"integers", &s.all_hold_64_bits},
          Key{"max_sources", &s.max_sources},
          Key{"max_stripes", &s.max_stripes},
          Key{"max_leases", &s.max_leases},
          Key{"tls.certificate", &s.tls.certificate},
          Key{"tls.key", &s.tls.key},
          Key{"tls.client_ca", &s.tls.client_ca},
          Key{"log.level", &s.log.level},
          Key{"log.format", &s.log.format}};
}

// The member that keeps, for messages, where the value of the key was given. Null: none does.
std::string* origin_of(std::string_view key, Settings& settings) {
  if (key == "store") return &settings.store.origin;
  if (key == "also") return &settings.also.origin;
  return key == "over" ? &settings.over.origin : nullptr;
}

// The variables that override the file, with the keys that they stand for.
struct Variable {
  const char* name;
  std::string_view key;
  char between = ',';  // the elements of a list
};
constexpr std::array kVariables{
    Variable{"IDMINT_STORE", "store"},
    Variable{"IDMINT_ALSO", "also", ' '},
    Variable{"IDMINT_OVER", "over", ' '},
    Variable{"IDMINTD_REDIS", "redis"},
    Variable{"IDMINTD_HTTP", "http"},
    Variable{"IDMINTD_MAX_CONNECTIONS", "max_connections"},
    Variable{"IDMINTD_DRAIN_SECONDS", "drain_seconds"},
    Variable{"IDMINTD_INTEGERS", "integers"},
    Variable{"IDMINTD_MAX_SOURCES", "max_sources"},
    Variable{"IDMINTD_MAX_STRIPES", "max_stripes"},
    Variable{"IDMINTD_MAX_LEASES", "max_leases"},
    Variable{"IDMINTD_TLS_CERTIFICATE", "tls.certificate"},
    Variable{"IDMINTD_TLS_KEY", "tls.key"},
    Variable{"IDMINTD_TLS_CLIENT_CA", "tls.client_ca"},
    Variable{"IDMINTD_LOG_LEVEL", "log.level"},
    Variable{"IDMINTD_LOG_FORMAT", "log.format"},
};

// ---- values

Result<void> set(const Key& key, std::string_view text) {
  if (auto* const* const into = std::get_if<std::string*>(&key.into)) {
    **into = text;
  } else if (auto* const* const level = std::get_if<LogSettings::Level*>(&key.into)) {
    const auto named = level_named(text);
    if (!named) return refuse(std::string(key.name) + ": " + named.error().message());
    **level = *named;
  } else if (auto* const* const format = std::get_if<LogSettings::Format*>(&key.into)) {
    if (text != "text" && text != "json")
      return refuse(std::string(key.name) + " is neither text nor json");
    **format = text == "json" ? LogSettings::Format::kJson : LogSettings::Format::kText;
  } else if (auto* const* const whole = std::get_if<bool*>(&key.into)) {
    if (text != "64-bit" && text != "by-client")
      return refuse(std::string(key.name) + " is neither 64-bit nor by-client");
    **whole = text == "64-bit";
  } else {
    const std::string name(key.name);
    if (!std::holds_alternative<Texts*>(key.into))
      return refuse(name + " takes a whole number, without quotes");
    const std::string_view first = name == "redis" || name == "http" ? text : std::string_view();
    return refuse(name + " is a list: write " + name + " = [" +
                  quoted_key(first.empty() ? redacted(text) : without_url(first)) + "]");
  }
  return {};
}

Result<void> set(const Key& key, std::int64_t value) {
  auto* const* const into = std::get_if<std::optional<std::int64_t>*>(&key.into);
  if (into == nullptr) return refuse(std::string(key.name) + " takes no number");
  constexpr std::int64_t most = 1'000'000;
  if (value < 1 || value > most)
    return refuse(std::string(key.name) + " takes a whole number from 1 to " +
                  std::to_string(most));
  **into = value;
  return {};
}

Result<void> set(const Key& key, Texts texts) {
  auto* const* const into = std::get_if<Texts*>(&key.into);
  if (into == nullptr)
    return refuse(std::string(key.name) + " is no list: write its value without brackets");
  **into = std::move(texts);
  return {};
}

// The elements of a list, all of them texts.
std::optional<Texts> texts_of(const toml::node& node) {
  const toml::array* const array = node.as_array();
  if (array == nullptr) return std::nullopt;
  Texts texts;
  for (const toml::node& each : *array) {
    const auto* const text = each.as_string();
    if (text == nullptr) return std::nullopt;
    texts.push_back(text->get());
  }
  return texts;
}

// Reads a file, and keeps all that is wrong in it.
class Reader {
 public:
  Reader(std::string_view path, Settings& settings)
      : path_(path), settings_(settings), keys_(keys_of(settings)) {}

  void read(const toml::table& table) {
    for (const auto& [key, node] : table) {
      const toml::table* const inner = node.as_table();
      if (key == "stores" && inner != nullptr) {
        for (const auto& [name, url] : *inner) read_store(name, url);
      } else if (key == "token" && inner != nullptr) {
        for (const auto& [name, token] : *inner) read_token(name, token);
      } else if ((key == "tls" || key == "log") && inner != nullptr) {
        for (const auto& [name, value] : *inner)
          read_key(std::string(key.str()) + "." + std::string(name.str()), name, value);
      } else {
        read_key(std::string(key.str()), key, node);
      }
    }
  }

  // In the order of their lines, in which toml++ has no tables.
  [[nodiscard]] std::vector<Error> faults() {
    std::ranges::sort(faults_, [](const Fault& a, const Fault& b) {
      return std::pair(a.line, a.number) < std::pair(b.line, b.number);
    });
    std::vector<Error> all;
    for (Fault& fault : faults_) all.push_back(std::move(fault.error));
    return all;
  }

 private:
  struct Fault {
    std::size_t line;
    std::size_t number;  // among all
    Error error;
  };

  // "idmintd.toml: line 3: what".
  [[nodiscard]] std::string in_file(const toml::source_region& where, std::string what) const {
    return path_ + ": " + at_line(where, std::move(what)).error().message();
  }

  void fault(const toml::source_region& where, std::string what) {
    faults_.push_back({where.begin.line,
                       faults_.size(),
                       {Code::kInvalidArgument, in_file(where, std::move(what))}});
  }

  void read_key(const std::string& name, const toml::key& key, const toml::node& node) {
    const auto found = std::ranges::find(keys_, name, &Key::name);
    if (found == keys_.end()) {
      std::string known;
      for (const Key& each : keys_) known += std::string(each.name) + ", ";
      return fault(key.source(), "there is no key " + quoted_key(without_url(name)) +
                                     ": use one of " + known + "[stores] and [token.NAME]");
    }
    Result<void> done = refuse(name +
                               " is neither a text in quotes, nor a whole number, nor a "
                               "list of texts");
    if (const auto* const text = node.as_string()) {
      done = set(*found, std::string_view(text->get()));
    } else if (const auto* const number = node.as_integer()) {
      done = set(*found, number->get());
    } else if (std::optional<Texts> texts = texts_of(node)) {
      done = set(*found, *std::move(texts));
    }
    if (!done) fault(node.source(), done.error().message());
    if (std::string* const origin = origin_of(name, settings_); origin != nullptr)
      *origin = in_file(key.source(), name);
  }

  void read_store(const toml::key& name, const toml::node& node) {
    const auto* const url = node.as_string();
    if (Result<void> valid = check_store_name(name.str()); !valid)
      return fault(name.source(), valid.error().message());
    if (url == nullptr)
      return fault(node.source(), std::string(name.str()) + " is not the URL of a store in quotes");
    settings_.stores.push_back(
        {.name = std::string(name.str()),
         .url = url->get(),
         .origin = in_file(name.source(), "stores." + std::string(name.str()))});
  }

  void read_token(const toml::key& name, const toml::node& node) {
    TokenSettings token{.name = std::string(name.str())};
    const toml::table* const table = node.as_table();
    if (table == nullptr)
      return fault(name.source(), quoted_key(name.str()) +
                                      " is no table: write [token.NAME], as idmintd token does");
    bool has_hash = false;
    bool has_rights = false;
    for (const auto& [key, value] : *table) {
      if (key == "sha256") {
        has_hash = true;
        if (!read_hash(value, token.hash))
          fault(value.source(),
                "sha256 is not 64 hexadecimal digits in quotes, as idmintd token "
                "prints them");
      } else if (key == "allow") {
        has_rights = true;
        read_allow(value, token);
      } else if (auto* const limit = limit_named(key.str(), token)) {
        const auto* const number = value.as_integer();
        if (number == nullptr || number->get() < 1) {
          fault(value.source(), std::string(key.str()) + " is no whole number of 1 or more");
        } else {
          *limit = number->get();
        }
      } else {
        fault(key.source(), "there is no key " + quoted_key(key.str()) +
                                " of a token: use sha256, allow, ids_per_second, ids_per_day, "
                                "largest_count, max_sources, max_stripes or max_leases");
      }
    }
    if (!has_hash)
      fault(name.source(), "sha256 is missing: idmintd token " + std::string(name.str()) +
                               " makes a token and its hash");
    if (!has_rights)
      fault(name.source(), "allow is missing, and so the token may do nothing: write allow = " +
                               std::string(R"(["next *"], or what it needs)"));
    if (std::ranges::any_of(settings_.tokens,
                            [&](const TokenSettings& other) { return other.hash == token.hash; }))
      fault(name.source(), "another token has the same sha256");
    settings_.tokens.push_back(std::move(token));
  }

  static std::optional<std::int64_t>* limit_named(std::string_view name, TokenSettings& token) {
    if (name == "ids_per_second") return &token.ids_per_second;
    if (name == "ids_per_day") return &token.ids_per_day;
    if (name == "largest_count") return &token.largest_count;
    if (name == "max_sources") return &token.max_sources;
    if (name == "max_stripes") return &token.max_stripes;
    return name == "max_leases" ? &token.max_leases : nullptr;
  }

  static bool read_hash(const toml::node& node, TokenSettings::Hash& hash) {
    const auto* const text = node.as_string();
    if (text == nullptr || text->get().size() != 2 * hash.size()) return false;
    for (std::size_t i = 0; i < hash.size(); ++i) {
      const int high = detail::hex_digit(text->get()[2 * i]);
      const int low = detail::hex_digit(text->get()[2 * i + 1]);
      if (high < 0 || low < 0) return false;
      hash[i] = static_cast<unsigned char>(high * 16 + low);
    }
    return true;
  }

  void read_allow(const toml::node& node, TokenSettings& token) {
    const std::optional<Texts> texts = texts_of(node);
    if (!texts)
      return fault(node.source(),
                   R"(allow is no list of texts, such as ["next orders*", "peek *"])");
    for (const std::string& text : *texts) {
      Result<Scope> scope = scope_of(text);
      if (!scope) {
        fault(node.source(), scope.error().message());
      } else {
        token.allow.push_back(*std::move(scope));
      }
    }
  }

  const std::string path_;
  Settings& settings_;
  const std::array<Key, kKeys> keys_;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Error> read_toml(std::string_view path, std::string_view text, Settings& settings) {
  if (text.size() > kLongestSettings)
    return {Error{Code::kInvalidArgument, std::string(path) + ": the file has more than " +
                                              std::to_string(kLongestSettings) +
                                              " bytes, the most that there may be"}};
  const Result<toml::table> table =
      parse_toml(text, "a key stands before an equals sign, and no key here is so long");
  if (!table)
    return {Error{table.error().code, std::string(path) + ": " + table.error().message()}};
  Reader reader(path, settings);
  reader.read(*table);
  return reader.faults();
}

std::vector<Error> read_environment(const std::function<const char*(const char* name)>& value_of,
                                    Settings& settings) {
  std::vector<Error> faults;
  const auto keys = keys_of(settings);
  for (const Variable& variable : kVariables) {
    const char* const given = value_of(variable.name);
    if (given == nullptr || *given == '\0') continue;
    const std::string_view text = given;
    const auto found = std::ranges::find(keys, variable.key, &Key::name);
    Result<void> done;
    if (std::holds_alternative<Texts*>(found->into)) {
      Texts texts;
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(variable.between, begin), text.size());
        if (end > begin) texts.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
      done = set(*found, std::move(texts));
    } else if (std::holds_alternative<std::optional<std::int64_t>*>(found->into)) {
      std::int64_t value = 0;
      const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
      done = failed == std::errc{} && end == text.data() + text.size()
                 ? set(*found, value)
                 : Result<void>(refuse(std::string(variable.key) + " takes a whole number"));
    } else {
      done = set(*found, text);
    }
    if (std::string* const origin = origin_of(variable.key, settings); origin != nullptr)
      *origin = variable.name;
    if (!done)
      faults.push_back(
          {Code::kInvalidArgument, std::string(variable.name) + ": " + done.error().message()});
  }
  return faults;
}

Result<void> check_store_name(std::string_view name) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  constexpr std::size_t longest = 60;
  if (!name.empty() && name.size() <= longest &&
      name.find_first_not_of(allowed) == std::string_view::npos)
    return {};
  return refuse("a store cannot have the name " + quoted_key(without_url(name)) +
                ": give it 1 to 60 characters out of A-Z a-z 0-9 . _ -");
}

std::string to_toml(std::string_view name, const TokenSettings::Hash& hash,
                    const std::vector<std::string>& allow) {
  std::string text = "[token." + std::string(name) + "]\nsha256 = \"" +
                     hex({reinterpret_cast<const char*>(hash.data()), hash.size()}) +
                     "\"\nallow = [";
  for (std::size_t i = 0; i < allow.size(); ++i) text += (i == 0 ? "\"" : ", \"") + allow[i] + "\"";
  return text + "]\n";
}

}  // namespace idmint::server
