#include "server/lists.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "idmint/definition.h"
#include "idmint/mint.h"
#include "mint/formats.h"
#include "mint/sequence_facts.h"

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

Result<std::vector<std::string>> names(const Sight& sight, const std::string& pattern,
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
    if (sight.rights.sees(format.name)) add(format.name);
  }
  const Result<void> read =
      sight.each({.counters = false}, std::nullopt, until, [&](const SequenceStatus& status) {
        return is_retired(status.definition) || add(name(status.definition));
      });
  if (!read) return std::unexpected(read.error());
  if (bytes > most) return std::unexpected(too_long(most));
  std::ranges::sort(all);
  return all;
}

Result<std::string> names_reply(const Sight& sight, const std::string& pattern, SteadyTime until,
                                std::size_t most) {
  const Result<std::vector<std::string>> all = names(sight, pattern, until, most);
  if (!all) return std::unexpected(all.error());
  std::string reply;
  put_array(reply, all->size());
  for (const std::string& name : *all) put_bulk(reply, name);
  return reply;
}

Result<std::string> states_reply(const Sight& sight, Resp version, Integers integers,
                                 SteadyTime until, std::size_t most) {
  std::string states;
  std::size_t count = 0;
  const Result<void> read = sight.each({}, Verb::kPeek, until, [&](const SequenceStatus& status) {
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
  const Definition& definition = status.definition;
  const auto [first, last] = ends_of(definition);
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  const bool has_stride = sequence != nullptr && sequence->stride != 1;
  put_map(out, version, has_stride ? 10 : 8);
  put_bulk(out, "name");
  put_bulk(out, name(definition));
  put_bulk(out, "strategy");
  put_bulk(out, strategy_name(definition));
  put_bulk(out, "guarantee");
  put_bulk(out, name(guarantee(definition)));
  put_bulk(out, "first");
  put_number(out, first, integers);
  put_bulk(out, "last");
  put_number(out, last, integers);
  if (has_stride) {
    put_bulk(out, "stride");
    put_integer(out, sequence->stride);
    put_bulk(out, "offset");
    put_integer(out, sequence->offset());
  }
  put_bulk(out, "next");
  if (const std::optional<std::int64_t> next = next_value(status)) {
    put_number(out, *next, integers);
  } else {
    put_null(out, version);
  }
  put_bulk(out, "left");
  put_number(out, status.left, integers);
  put_bulk(out, "state");
  put_bulk(out, state_name(status));
}

void put_number(std::string& out, std::int64_t value, Integers integers) {
  if (integers == Integers::kWhole || is_exact(value)) return put_integer(out, value);
  put_bulk(out, std::to_string(value));
}

}  // namespace idmint::server
