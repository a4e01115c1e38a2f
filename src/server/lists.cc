#include "server/lists.h"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "advice/status_json.h"
#include "idmint/definition.h"
#include "idmint/mint.h"
#include "mint/formats.h"

namespace idmint::server {

namespace {

Error too_long(std::size_t most) {
  return {Code::kResourceExhausted,
          "the list has more than " + std::to_string(most) +
              " bytes: ask for parts of it, over HTTP with GET /v1/sources?limit=1000"};
}

}  // namespace

bool matches(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

Result<std::vector<std::string>> names(const AuthorizedView& view, const std::string& pattern,
                                       SteadyTime until, std::size_t most) {
  std::vector<std::string> all;
  std::size_t bytes = 0;
  const auto add = [&](const std::string& name) {
    if (!matches(pattern, name)) return true;
    constexpr std::size_t around = 8;  // in a reply
    bytes += name.size() + around;
    if (bytes > most) return false;
    all.push_back(name);
    return true;
  };
  for (const Declaration& format : Mint::formats()) {
    if (view.rights.sees(format.name)) add(format.name);
  }
  const Result<void> read =
      view.each({.counters = false}, std::nullopt, until, [&](const SequenceStatus& status) {
        return is_retired(status.definition) || add(name(status.definition));
      });
  if (!read) return std::unexpected(read.error());
  if (bytes > most) return std::unexpected(too_long(most));
  std::ranges::sort(all);
  return all;
}

Result<std::string> names_reply(const AuthorizedView& view, const std::string& pattern,
                                SteadyTime until, std::size_t most) {
  const Result<std::vector<std::string>> all = names(view, pattern, until, most);
  if (!all) return std::unexpected(all.error());
  std::string reply;
  put_array(reply, all->size());
  for (const std::string& name : *all) put_bulk(reply, name);
  return reply;
}

Result<std::string> states_reply(const AuthorizedView& view, Resp version, Integers integers,
                                 SteadyTime until, std::size_t most) {
  std::string states;
  std::size_t count = 0;
  const Result<void> read = view.each({}, Verb::kPeek, until, [&](const SequenceStatus& status) {
    put_status(states, status, version, integers);
    ++count;
    return states.size() <= most;
  });
  if (!read) return std::unexpected(read.error());
  if (states.size() > most) return std::unexpected(too_long(most));
  std::string reply;
  put_array(reply, count);
  return reply + states;
}

void put_status(std::string& out, const SequenceStatus& status, Resp version, Integers integers) {
  const auto json = advice::status_json(status, advice::StatusKeys::kRedis, false);
  put_map(out, version, json.size());
  for (const auto& [key, value] : json.items()) {
    put_bulk(out, key);
    if (value.is_null()) {
      put_null(out, version);
    } else if (value.is_number()) {
      put_number(out, value.get<std::int64_t>(), integers);
    } else {
      put_bulk(out, value.get_ref<const std::string&>());
    }
  }
}

void put_number(std::string& out, std::int64_t value, Integers integers) {
  if (integers == Integers::kWhole || is_exact(value)) return put_integer(out, value);
  put_bulk(out, std::to_string(value));
}

}  // namespace idmint::server
