// The commands of the Redis protocol: those that there are, and those of Redis that are refused.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "server/redis_commands.h"

namespace idmint::server {

struct RedisCommands {
  using S = RedisSession;
  using C = S::Command;

  static constexpr int kMostPatterns = 32;
  // Each is a read of its own.
  static constexpr int kMostNames = 100;

  // By name, in upper case.
  static constexpr std::array kTable = {
      C{"AUTH", 2, 3, &S::auth, C::kIdentity, "Says by a token who asks", 0, 0, {}, true},
      C{"CLIENT", 2, 4, &S::client, C::kPlain, "SETNAME, GETNAME, SETINFO, ID, INFO"},
      C{"COMMAND", 1, 0, &S::command, C::kPlain, "The commands: COUNT, DOCS, INFO"},
      C{"CONFIG", 2, 2 + kMostPatterns, &S::config, C::kPlain,
        "GET: settings that clients ask for"},
      C{"DBSIZE", 1, 1, &S::dbsize, C::kBarrier, "How many sources there are"},
      C{"DISCARD", 1, 1, &S::discard, C::kAtOnce, "Forgets the commands since MULTI"},
      C{"ECHO", 2, 2, &S::echo, C::kPlain, "Returns its argument"},
      C{"EXEC", 1, 1, &S::exec, C::kAtOnce, "Runs the commands since MULTI; not atomic"},
      C{"EXISTS", 2, kMostNames + 1, &S::exists, C::kBarrier, "How many of the names are sources",
        1, -1},
      C{"GET", 2, 2, &S::get, C::kBarrier,
        "The value before the next one of a sequence, read from its store", 1, 1},
      C{"HELLO",
        1,
        0,
        &S::hello,
        C::kIdentity,
        "Chooses version 2 or 3 of the protocol",
        0,
        0,
        {},
        true},
      C{"ID.EXTEND", 10, 12, &S::id_extend, C::kBarrier,
        "Extends a lease of a worker id, by all that the latest answer said of it", 1, 1,
        Verb::kLease},
      C{"ID.INSPECT", 2, 2, &S::id_inspect, C::kPlain, "What an id says: every way to read it"},
      C{"ID.LEASE", 2, 9, &S::id_lease, C::kBarrier,
        "Leases a worker id of a pool to a program that makes ids by itself", 1, 1, Verb::kLease},
      C{"ID.LIST", 1, 1, &S::id_list, C::kBarrier, "The sequences and pools, with their state"},
      C{"ID.NEXT", 2, 4, &S::id_next, C::kPlain,
        "The next id of a source, or with COUNT n the next n, as it prints them", 1, 1,
        Verb::kNext},
      C{"ID.PEEK", 2, 2, &S::id_peek, C::kBarrier, "The state of a sequence or a pool", 1, 1},
      C{"ID.RAISE", 3, 3, &S::id_raise, C::kBarrier,
        "Skips the values up to the one given; returns the one that comes next", 1, 1,
        Verb::kRaise},
      C{"ID.RANGE", 3, 3, &S::id_range, C::kPlain,
        "The next n values of a sequence: the first and the last of them", 1, 1, Verb::kNext},
      C{"ID.RELEASE", 5, 5, &S::id_release, C::kBarrier, "Gives a leased worker id back", 1, 1,
        Verb::kLease},
      C{"INCR", 2, 2, &S::incr, C::kPlain, "The next value of a sequence", 1, 1, Verb::kNext},
      C{"INCRBY", 3, 3, &S::incrby, C::kPlain,
        "Takes the next n values of a sequence; returns the last of them", 1, 1, Verb::kNext},
      C{"INFO", 1, 0, &S::info, C::kPlain, "The server and what it has done"},
      C{"KEYS", 2, 2, &S::keys, C::kBarrier, "The names of sources that match a pattern"},
      C{"MGET", 2, kMostNames + 1, &S::mget, C::kBarrier,
        "As GET for each name; null where there is no value", 1, -1},
      C{"MULTI", 1, 1, &S::multi, C::kAtOnce, "Queues commands until EXEC"},
      C{"PING", 1, 2, &S::ping, C::kPlain, "PONG, or its argument"},
      C{"QUIT", 1, 1, &S::quit, C::kAtOnce, "Closes the connection", 0, 0, {}, true},
      C{"RESET", 1, 1, &S::reset, C::kIdentity, "Makes the connection as new", 0, 0, {}, true},
      C{"SCAN", 2, 0, &S::scan, C::kBarrier, "The names of sources, a part at a time"},
      C{"SELECT", 2, 2, &S::select, C::kPlain, "Database 0, the only one"},
      C{"TIME", 1, 1, &S::time, C::kPlain, "The time of the server: seconds and microseconds"},
      C{"TYPE", 2, 2, &S::type, C::kBarrier, "string, or none if there is no such source", 1, 1},
      C{"UNWATCH", 1, 1, &S::unwatch, C::kPlain, "Does nothing, as WATCH is refused"},
      C{"WATCH", 2, 0, &S::watch, C::kAtOnce, "Refused: nothing is read and written on condition"},
  };
  static_assert(std::ranges::is_sorted(kTable, {}, &C::name));
};

const RedisSession::Command* command_named(std::string_view name) noexcept {
  constexpr auto& table = RedisCommands::kTable;
  std::array<char, 16> upper;
  if (name.size() > upper.size()) return nullptr;
  char* end = upper.data();
  for (const char c : name) *end++ = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  const std::string_view wanted(upper.data(), end);
  const auto* const found =
      std::ranges::lower_bound(table, wanted, {}, &RedisSession::Command::name);
  return found != table.end() && found->name == wanted ? found : nullptr;
}

std::span<const RedisSession::Command> all_commands() noexcept { return RedisCommands::kTable; }

namespace {

// Commands of Redis that are refused for a reason that its users should know.
struct Refused {
  std::string_view name;
  std::string_view reason;
};
constexpr std::string_view kNeverDown = "a counter never goes down, or values would come twice";
constexpr std::string_view kNeverForgotten =
    "a name that was used stays, or its values would come twice: idmint retire ends a sequence";
constexpr std::array kRefused = {
    Refused{"APPEND", kNeverDown},
    Refused{"BITFIELD", kNeverDown},
    Refused{"BITOP", kNeverDown},
    Refused{"COPY", kNeverDown},
    Refused{"DECR", kNeverDown},
    Refused{"DECRBY", kNeverDown},
    Refused{"DEL", kNeverForgotten},
    Refused{"EXPIRE", kNeverForgotten},
    Refused{"EXPIREAT", kNeverForgotten},
    Refused{"FLUSHALL", kNeverForgotten},
    Refused{"FLUSHDB", kNeverForgotten},
    Refused{"GETDEL", kNeverForgotten},
    Refused{"GETEX", kNeverForgotten},
    Refused{"GETSET", kNeverDown},
    Refused{"INCRBYFLOAT", "values are integers"},
    Refused{"MOVE", kNeverForgotten},
    Refused{"MSET", kNeverDown},
    Refused{"MSETNX", "a sequence is made with its definition: idmint create"},
    Refused{"PERSIST", kNeverForgotten},
    Refused{"PEXPIRE", kNeverForgotten},
    Refused{"PEXPIREAT", kNeverForgotten},
    Refused{"PSETEX", kNeverForgotten},
    Refused{"RENAME", kNeverForgotten},
    Refused{"RENAMENX", kNeverForgotten},
    Refused{"RESTORE", kNeverDown},
    Refused{"SET", "a counter never goes down, or values would come twice: ID.RAISE moves it up"},
    Refused{"SETBIT", kNeverDown},
    Refused{"SETEX", kNeverForgotten},
    Refused{"SETNX", "a sequence is made with its definition: idmint create"},
    Refused{"SETRANGE", kNeverDown},
    Refused{"SWAPDB", kNeverForgotten},
    Refused{"UNLINK", kNeverForgotten},
};
static_assert(std::ranges::is_sorted(kRefused, {}, &Refused::name));

}  // namespace

void RedisSession::refuse_unknown(Words words) {
  constexpr std::size_t longest = 64;
  const std::string name = upper_case(words.front().substr(0, longest));
  const auto* const found =
      std::ranges::lower_bound(kRefused, std::string_view(name), {}, &Refused::name);
  if (found != kRefused.end() && found->name == name)
    return fail(name + " is refused: " + std::string(found->reason));
  std::string shown;
  for (const char c : words.front().substr(0, longest)) shown += c >= ' ' && c <= '~' ? c : '?';
  fail("unknown command '" + shown + "': COMMAND DOCS lists those that there are");
}

}  // namespace idmint::server
