#include "server/redis_commands.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/moment.h"
#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/id.h"
#include "idmint/sequence.h"
#include "mint/formats.h"
#include "mint/sequence_facts.h"
#include "server/lists.h"

namespace idmint::server {

std::optional<std::int64_t> whole(std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    return std::nullopt;
  return value;
}

namespace {

// The answer to GET: the value before the next one, or nothing before the first use.
Result<std::optional<std::int64_t>> value_before_next(const Sources& sources, std::string_view name,
                                                      SteadyTime until) {
  const Result<SequenceStatus> status = sources.peek(name, until);
  if (!status) return std::unexpected(status.error());
  const auto* const sequence = std::get_if<SequenceDefinition>(&status->definition);
  const std::optional<std::int64_t> next = status->next;
  if (sequence == nullptr || !next || sequence->strategy == Strategy::kPermuted ||
      sequence->is_multi_store())
    return refuse(std::string(name) + " is " +
                  (sequence == nullptr ? "a pool"
                                       : "a sequence of strategy " +
                                             std::string(strategy_name(status->definition))) +
                  ", which has no one value that was taken last: ID.PEEK " + std::string(name));
  if (const std::optional<Error>& error = status->error) return std::unexpected(*error);
  if (*next == sequence->first) return std::nullopt;
  return *next - sequence->stride;
}

// Whether it is a format, or a sequence or pool that is not retired.
Result<bool> is_source(const Sources& sources, std::string_view name, SteadyTime until) {
  if (is_format_name(name)) return true;
  const Result<SequenceStatus> status = sources.peek(name, until);
  if (status) return !is_retired(status->definition);
  if (status.error().code == Code::kNotFound || status.error().code == Code::kInvalidArgument)
    return false;
  return std::unexpected(status.error());
}

// The error of a command that reads names one by one, after its deadline.
Error too_late(std::size_t read, std::size_t of) {
  return {Code::kUnavailable, "the store is slow: " + std::to_string(read) + " of " +
                                  std::to_string(of) +
                                  " names were read in time; ask again, or for fewer names"};
}

// The lane of calls that ask for each of these sources.
std::string_view lane_of_all(const Service& service, Words sources) {
  const std::string_view first = service.bulkhead_of(sources.front());
  const bool same = std::ranges::all_of(
      sources, [&](std::string_view source) { return service.bulkhead_of(source) == first; });
  return same ? first : Loop::kAllStores;
}

constexpr std::string_view kPatternTooLong = "a pattern has at most 256 characters and 8 stars";
static_assert(RedisSession::kLongestPattern == 256);

// Matching takes longer the longer the pattern is, and far longer with many stars.
bool takes_long(std::string_view pattern) {
  return pattern.size() > RedisSession::kLongestPattern || std::ranges::count(pattern, '*') > 8;
}

}  // namespace

// ---- values

void RedisSession::incr(Words words) {
  SourceHandle source = source_of(words, words[1]);
  if (source == nullptr) return;
  if (source->is_format() && source->declaration().format != "snowflake") {
    return fail(std::string(words[1]) + " gives no integers: ID.NEXT " + std::string(words[1]));
  }
  take_values(words, std::move(source), 1, true, false);
}

// Clients send INCRBY with 1 for INCR.
void RedisSession::incrby(Words words) { words[2] == "1" ? incr(words) : take_range(words, false); }
void RedisSession::id_range(Words words) { take_range(words, true); }

void RedisSession::take_range(Words words, bool whole_range) {
  const std::optional<std::int64_t> count = whole(words[2], 1);
  if (!count) {
    return fail(whole(words[2], std::numeric_limits<std::int64_t>::min())
                    ? "the increment must be 1 or more: a counter never goes down"
                    : "value is not an integer or out of range");
  }
  SourceHandle source = source_of(words, words[1]);
  if (source == nullptr) return;
  if (source->counter == nullptr) {
    const std::string name(words[1]);
    return fail(name + " is no sequence of strategy counter, so that many values of it are not " +
                "consecutive: ID.NEXT " + name + " COUNT " + std::to_string(*count));
  }
  if (const std::int64_t stride = source->counter->definition().stride;
      stride != 1 && *count != 1) {
    const std::string name(words[1]);
    return fail(name + " has a stride of " + std::to_string(stride) + ", so that many values of " +
                "it are not consecutive: ID.NEXT " + name + " COUNT " + std::to_string(*count));
  }
  if (!holds(source, *count, words) || !admit() || !charge(*count)) return;
  CounterSequence& counter = *source->counter;
  source->height.ask(*count);
  Reply& reply = add_pending(whole_range ? Reply::kRange : Reply::kLast, std::move(source));
  reply.rest->range.count = *count;
  wait_for(reply, counter.submit(*count, [&reply](Result<Range> range) {
    if (range) {
      reply.rest->range = *range;
    } else {
      reply.error = std::make_unique<Error>(std::move(range.error()));
    }
    reply.session->service_.loop.deliver(reply);
  }));
}

void RedisSession::id_next(Words words) {
  std::int64_t count = 1;
  if (words.size() != 2) {
    const std::optional<std::int64_t> given =
        words.size() == 4 && upper_case(words[2]) == "COUNT" ? whole(words[3], 1) : std::nullopt;
    if (!given) return fail("syntax error: ID.NEXT source [COUNT n], n 1 or more");
    count = *given;
    if (count > kMostIds)
      return fail("COUNT is at most " + std::to_string(kMostIds) +
                  " here: send ID.NEXT again, or ask over HTTP, which streams");
  }
  SourceHandle source = source_of(words, words[1]);
  if (source == nullptr) return;
  take_values(words, std::move(source), count, false, words.size() == 4);
}

// ---- looking at sources, and raising

void RedisSession::get(Words words) {
  elsewhere(
      service_.bulkhead_of(words[1]), words[1],
      [&sources = service_.sources, name = std::string(words[1])](SteadyTime until) {
        return value_before_next(sources, name, until);
      },
      [this](std::optional<std::int64_t> value) {
        if (value) {
          put_bulk(reply(), std::to_string(*value));
        } else {
          put_null(reply(), version_);
        }
      });
}

void RedisSession::mget(Words words) {
  using Values = std::vector<std::optional<std::int64_t>>;
  elsewhere(
      lane_of_all(service_, words.subspan(1)), words[1],
      [&sources = service_.sources, &loop = service_.loop,
       names = Owned(words.begin() + 1, words.end())](SteadyTime until) -> Result<Values> {
        Values values;
        for (const std::string& name : names) {
          if (loop.now() >= until) return std::unexpected(too_late(values.size(), names.size()));
          // As in Redis: what has no value is null, whatever the reason. That the store does not
          // answer is none.
          const auto value = value_before_next(sources, name, until);
          if (!value && value.error().code != Code::kNotFound &&
              value.error().code != Code::kInvalidArgument)
            return std::unexpected(value.error());
          values.push_back(value.value_or(std::nullopt));
        }
        return values;
      },
      [this](const Values& values) {
        put_array(reply(), values.size());
        for (const auto& value : values) {
          if (value) {
            put_bulk(reply(), std::to_string(*value));
          } else {
            put_null(reply(), version_);
          }
        }
      });
}

void RedisSession::exists(Words words) {
  elsewhere(
      lane_of_all(service_, words.subspan(1)), words[1],
      [&sources = service_.sources, &loop = service_.loop,
       names = Owned(words.begin() + 1, words.end())](SteadyTime until) -> Result<std::int64_t> {
        std::int64_t count = 0;
        std::size_t looked_at = 0;
        for (const std::string& name : names) {
          if (loop.now() >= until) return std::unexpected(too_late(looked_at, names.size()));
          ++looked_at;
          const Result<bool> there = is_source(sources, name, until);
          if (!there) return std::unexpected(there.error());
          if (*there) ++count;
        }
        return count;
      },
      [this](std::int64_t count) { put_integer(reply(), count); });
}

void RedisSession::type(Words words) {
  elsewhere(
      service_.bulkhead_of(words[1]), words[1],
      [&sources = service_.sources, name = std::string(words[1])](SteadyTime until) {
        return is_source(sources, name, until);
      },
      [this](bool there) { put_simple(reply(), there ? "string" : "none"); });
}

void RedisSession::dbsize(Words /*words*/) {
  elsewhere(
      Loop::kAllStores, "",
      [view = service_.view_of(*caller_)](SteadyTime until) { return names(view, "*", until); },
      [this](const std::vector<std::string>& all) { put_integer(reply(), std::ssize(all)); });
}

void RedisSession::time(Words /*words*/) {
  const auto since = system_clock().now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::floor<std::chrono::microseconds>(since - seconds);
  put_array(reply(), 2);
  put_bulk(reply(), std::to_string(seconds.count()));
  put_bulk(reply(), std::to_string(rest.count()));
}

void RedisSession::keys(Words words) {
  if (takes_long(words[1])) return fail(kPatternTooLong);
  elsewhere(
      Loop::kAllStores, "",
      [view = service_.view_of(*caller_), pattern = std::string(words[1])](SteadyTime until) {
        return names_reply(view, pattern, until);
      },
      [this](std::string list) { put_list(std::move(list)); });
}

// The cursor is a position in the list of the names that the caller sees, which is read anew each
// time: it tells nothing of the others. A name that stays is returned once or more often, unless
// others before it are retired meanwhile.
void RedisSession::scan(Words words) {
  const std::optional<std::int64_t> cursor = whole(words[1], 0);
  if (!cursor) return fail("invalid cursor");
  std::string pattern = "*";
  bool other_type = false;
  constexpr std::int64_t fewest = 1000;
  std::int64_t count = fewest;
  for (std::size_t i = 2; i < words.size(); i += 2) {
    const std::string option = upper_case(words[i]);
    if (i + 1 == words.size()) return fail("syntax error");
    if (option == "MATCH") {
      if (takes_long(words[i + 1])) return fail(kPatternTooLong);
      pattern = words[i + 1];
    } else if (option == "TYPE") {
      other_type = lower_case(words[i + 1]) != "string";
    } else if (option == "COUNT") {
      const std::optional<std::int64_t> given = whole(words[i + 1], 1);
      if (!given) return fail("value is not an integer or out of range");
      count = std::clamp(*given, fewest, kMostIds);
    } else {
      return fail("syntax error");
    }
  }
  struct Part {
    std::string cursor;
    std::vector<std::string> names{};
  };
  elsewhere(
      Loop::kAllStores, "",
      [view = service_.view_of(*caller_), pattern, other_type,
       begin = static_cast<std::size_t>(*cursor),
       size = static_cast<std::size_t>(count)](SteadyTime until) -> Result<Part> {
        Result<std::vector<std::string>> all = names(view, "*", until);
        if (!all) return std::unexpected(std::move(all.error()));
        const std::size_t end =
            begin < all->size() ? std::min(all->size(), begin + size) : all->size();
        Part part{.cursor = end < all->size() ? std::to_string(end) : "0"};
        for (std::size_t i = begin; i < end && !other_type; ++i) {
          if (matches(pattern, (*all)[i])) part.names.push_back(std::move((*all)[i]));
        }
        return part;
      },
      [this](const Part& part) {
        std::string& out = reply();
        put_array(out, 2);
        put_bulk(out, part.cursor);
        put_array(out, part.names.size());
        for (const std::string& name : part.names) put_bulk(out, name);
      });
}

void RedisSession::id_peek(Words words) {
  elsewhere(
      service_.bulkhead_of(words[1]), words[1],
      [&sources = service_.sources, name = std::string(words[1])](SteadyTime until) {
        return sources.peek(name, until);
      },
      [this](const SequenceStatus& status) { put_status(reply(), status, version_, integers()); });
}

void RedisSession::id_list(Words /*words*/) {
  elsewhere(
      Loop::kAllStores, "",
      [view = service_.view_of(*caller_), version = version_, of = integers()](SteadyTime until) {
        return states_reply(view, version, of, until);
      },
      [this](std::string list) { put_list(std::move(list)); });
}

void RedisSession::id_raise(Words words) {
  const std::optional<std::int64_t> past = whole(words[2], 0);
  if (!past) return fail("value is not an integer or out of range");
  elsewhere(
      service_.bulkhead_of(words[1]), words[1],
      [&sources = service_.sources, name = std::string(words[1]), past = *past](SteadyTime until) {
        return sources.at(name, [&](Mint& mint, const std::string& own) {
          return mint.raise(own, past, RaiseMode::kCarryOut, until);
        });
      },
      [this, name = std::string(words[1])](const Raised& raised) {
        if (const SourceHandle source = service_.sources.find(name))
          source->height.got(0, raised.next - 1);
        put_number(reply(), raised.next, integers());
      });
}

void RedisSession::id_inspect(Words words) {
  constexpr std::size_t longest = 1024;
  if (words[1].size() > longest) return fail("an id has at most 1024 characters");
  const std::vector<Reading> readings = inspect(words[1], system_clock().now());
  std::string& out = reply();
  put_array(out, readings.size());
  for (const Reading& reading : readings) {
    put_map(out, version_, 4);
    put_bulk(out, "format");
    put_bulk(out, reading.format);
    put_bulk(out, "canonical");
    put_bulk(out, reading.canonical);
    put_bulk(out, "time");
    if (reading.time) {
      put_bulk(out, format_exact_time(*reading.time));
    } else {
      put_null(out, version_);
    }
    put_bulk(out, "fields");
    put_map(out, version_, reading.fields.size());
    for (const Field& field : reading.fields) {
      put_bulk(out, field.name);
      put_bulk(out, field.value);
    }
  }
}

// ---- the connection

namespace {

// CLIENT INFO prints it within a line.
bool is_client_name(std::string_view name) {
  return name.size() <= RedisSession::kLongestName &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}
constexpr std::string_view kNoClientName =
    "Client names have at most 128 characters, and no spaces, newlines or special characters.";
static_assert(RedisSession::kLongestName == 128);

}  // namespace

void RedisSession::watch(Words /*words*/) {
  fail("WATCH is refused: nothing here is read and then written on condition; take ids instead");
}

void RedisSession::unwatch(Words /*words*/) { put_simple(reply(), "OK"); }

void RedisSession::hello(Words words) {
  Resp version = version_;
  std::size_t next = 1;
  if (words.size() > 1) {
    if (words[1] == "2") {
      version = Resp::k2;
    } else if (words[1] == "3") {
      version = Resp::k3;
    } else {
      service_.count_error(Code::kInvalidArgument);
      return put_error(reply(), "NOPROTO", "unsupported protocol version");
    }
    next = 2;
  }
  std::optional<std::string_view> its_name;
  std::optional<std::string_view> token;
  while (next < words.size()) {
    const std::string option = upper_case(words[next]);
    if (option == "AUTH" && next + 2 < words.size()) {
      token = words[next + 2];
      next += 3;
    } else if (option == "SETNAME" && next + 1 < words.size()) {
      its_name = words[next + 1];
      next += 2;
    } else {
      return fail("Syntax error in HELLO option '" + std::string(words[next]) + "'");
    }
  }
  if (its_name && !is_client_name(*its_name)) return fail(kNoClientName);
  if (token && !let_in(*token)) return;
  if (caller_ == nullptr) {
    service_.count_error(Code::kUnauthenticated);
    return put_error(
        reply(), "NOAUTH",
        "HELLO must be called with the client already authenticated, otherwise the "
        "HELLO <proto> AUTH <user> <pass> option can be used: any user, and the token");
  }
  if (its_name) name_ = *its_name;
  version_ = version;
  std::string& out = reply();
  put_map(out, version_, 7);
  put_bulk(out, "server");
  put_bulk(out, "idmintd");
  put_bulk(out, "version");
  put_bulk(out, service_.version);
  put_bulk(out, "proto");
  put_integer(out, static_cast<int>(version_));
  put_bulk(out, "id");
  put_integer(out, static_cast<std::int64_t>(number_));
  put_bulk(out, "mode");
  put_bulk(out, "standalone");
  put_bulk(out, "role");
  put_bulk(out, "master");
  put_bulk(out, "modules");
  put_array(out, 0);
}

// AUTH token, or AUTH user token with any user.
void RedisSession::auth(Words words) {
  if (let_in(words.back())) put_simple(reply(), "OK");
}

bool RedisSession::let_in(std::string_view token) {
  if (service_.access.is_open()) {
    fail("AUTH was sent, but this server asks for no password: leave it out");
    return false;
  }
  std::shared_ptr<Caller> caller = service_.access.find(token);
  if (caller == nullptr) {
    service_.note_guess(connection_);
    put_error(reply(), "WRONGPASS", "invalid username-password pair or user is disabled.");
    if (connection_.pause_after_guess()) end();
    return false;
  }
  caller_ = std::move(caller);
  return true;
}

void RedisSession::ping(Words words) {
  if (words.size() == 1) {
    put_simple(reply(), "PONG");
  } else {
    put_bulk(reply(), words[1]);
  }
}

void RedisSession::echo(Words words) { put_bulk(reply(), words[1]); }

void RedisSession::info(Words /*words*/) {
  using std::chrono::seconds;
  const auto up =
      std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - service_.started);
  const auto line = [](std::string_view name, auto value) {
    return std::string(name) + ":" + std::to_string(value) + "\r\n";
  };
  // The names that clients of Redis look for; what has no meaning here is left out.
  put_bulk(reply(), "# Server\r\nserver_name:idmintd\r\nidmint_version:" + service_.version +
                        "\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n" +
                        line("uptime_in_seconds", up.count()) + "\r\n# Clients\r\n" +
                        line("connected_clients", service_.open_connections) +
                        line("maxclients", service_.most_connections) +
                        "\r\n# Persistence\r\nloading:0\r\n\r\n# Stats\r\n" +
                        line("total_connections_received", service_.connections) +
                        line("rejected_connections", service_.connections_refused) +
                        line("total_commands_processed", service_.requests) +
                        line("total_error_replies", service_.errors) +
                        line("total_ids", service_.ids) +
                        "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

void RedisSession::put_command(const Command& command) {
  std::string& out = reply();
  put_array(out, 6);
  put_bulk(out, lower_case(command.name));
  const bool fixed = command.most == command.least;
  put_integer(out, fixed ? command.least : -command.least);
  put_set(out, version_, 1);
  const bool writes = command.first_key != 0 && command.verb != Verb::kPeek;
  put_simple(out, writes ? "write" : "readonly");
  put_integer(out, command.first_key);
  put_integer(out, command.last_key);
  put_integer(out, command.first_key != 0 ? 1 : 0);
}

void RedisSession::command(Words words) {
  const std::string which = words.size() > 1 ? upper_case(words[1]) : "";
  if (which == "COUNT") {
    put_integer(reply(), std::ssize(all_commands()));
    return;
  }
  if (which == "DOCS") {
    std::vector<const Command*> wanted;
    for (const std::string_view name : words.subspan(2)) {
      if (const Command* const found = command_named(name)) wanted.push_back(found);
    }
    if (words.size() == 2) {
      for (const Command& row : all_commands()) wanted.push_back(&row);
    }
    std::string& out = reply();
    put_map(out, version_, wanted.size());
    for (const Command* const row : wanted) {
      put_bulk(out, lower_case(row->name));
      put_map(out, version_, 2);
      put_bulk(out, "summary");
      put_bulk(out, row->summary);
      put_bulk(out, "group");
      put_bulk(out, row->first_key != 0 ? "string" : "connection");
    }
    return;
  }
  if (which == "INFO" && words.size() > 2) {
    put_array(reply(), words.size() - 2);
    for (const std::string_view name : words.subspan(2)) {
      if (const Command* const found = command_named(name)) {
        put_command(*found);
      } else {
        put_null_array(reply(), version_);
      }
    }
    return;
  }
  if (!which.empty() && which != "INFO")
    return fail("unknown subcommand '" + std::string(words[1]) + "'. Try COMMAND, COMMAND COUNT, " +
                "COMMAND DOCS or COMMAND INFO.");
  put_array(reply(), all_commands().size());
  for (const Command& row : all_commands()) put_command(row);
}

void RedisSession::config(Words words) {
  if (upper_case(words[1]) != "GET" || words.size() < 3)
    return fail("only CONFIG GET is there: the server is set up by its options");
  const std::array settings = {
      std::pair<std::string, std::string>{"appendfsync", "always"},
      std::pair<std::string, std::string>{"appendonly", "yes"},
      std::pair<std::string, std::string>{"databases", "1"},
      std::pair<std::string, std::string>{"maxclients", std::to_string(service_.most_connections)},
      std::pair<std::string, std::string>{"maxmemory", "0"},
      std::pair<std::string, std::string>{"maxmemory-policy", "noeviction"},
      std::pair<std::string, std::string>{"save", ""},
  };
  std::vector<const std::pair<std::string, std::string>*> found;
  if (std::ranges::any_of(words.subspan(2),
                          [](std::string_view pattern) { return takes_long(pattern); }))
    return fail(kPatternTooLong);
  for (const auto& setting : settings) {
    if (std::ranges::any_of(words.subspan(2), [&](std::string_view pattern) {
          return matches(lower_case(pattern), setting.first);
        }))
      found.push_back(&setting);
  }
  std::string& out = reply();
  put_map(out, version_, found.size());
  for (const auto* const setting : found) {
    put_bulk(out, setting->first);
    put_bulk(out, setting->second);
  }
}

void RedisSession::client(Words words) {
  const std::string which = upper_case(words[1]);
  if (which == "SETNAME" && words.size() == 3) {
    if (!is_client_name(words[2])) return fail(kNoClientName);
    name_ = words[2];
    put_simple(reply(), "OK");
  } else if (which == "GETNAME" && words.size() == 2) {
    if (name_.empty()) {
      put_null(reply(), version_);
    } else {
      put_bulk(reply(), name_);
    }
  } else if (which == "SETINFO" && words.size() == 4) {
    if (!is_client_name(words[3])) return fail(kNoClientName);
    if (upper_case(words[2]) == "LIB-NAME") {
      const Integers of_it = integers_of(words[3]);
      // A connection with two names is one that several clients share.
      integers_ = library_.empty() ? of_it : std::min(integers_, of_it);
      library_ = words[3];
    }
    put_simple(reply(), "OK");
  } else if (which == "ID" && words.size() == 2) {
    put_integer(reply(), static_cast<std::int64_t>(number_));
  } else if (which == "INFO" && words.size() == 2) {
    put_bulk(reply(), "id=" + std::to_string(number_) + " addr=" + connection_.peer() +
                          " name=" + name_ + " lib-name=" + library_ +
                          " db=0 resp=" + std::to_string(static_cast<int>(version_)) + "\n");
  } else {
    fail("unknown subcommand or wrong number of arguments for '" + std::string(words[1]) +
         "': CLIENT SETNAME, GETNAME, SETINFO, ID or INFO");
  }
}

void RedisSession::select(Words words) {
  if (words[1] != "0") return fail("DB index is out of range: there is one database, 0");
  put_simple(reply(), "OK");
}

void RedisSession::quit(Words /*words*/) {
  put_simple(reply(), "OK");
  end();
}

void RedisSession::end() {
  ended_ = true;
  connection_.close_when_sent();
}

void RedisSession::reset(Words /*words*/) {
  queueing_ = queue_broken_ = false;
  queued_.clear();
  queued_bytes_ = 0;
  connection_.set_queued(0);
  version_ = Resp::k2;
  name_.clear();
  caller_ = service_.access.anybody();
  put_simple(reply(), "RESET");
}

}  // namespace idmint::server
