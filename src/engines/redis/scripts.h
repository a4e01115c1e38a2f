// The keys of a store in a database of Redis, the store's own record, and the first lines of its
// scripts.
//
// Version 1. Every key begins with {idmint}: (kStoreKey), which would put them into one slot of a
// cluster:
//
//   store            a hash: id, schema (1)
//                    replid: the replication id of the server that the store is known to be
//                    complete on
//                    replicas: 1 if the server was ever seen with a replica, or in doubt
//                    settled: Store::settle_count(); missing: 0
//                    gone_back: what a process saw that the store has forgotten; missing as a rule
//                    port: where that server listens; missing: not known yet
//                    database: the number of the database; missing: not known yet
//                    doubted: a doubt that the server may not show later: "copied", "elsewhere",
//                    "unread" or "unlogged" (record.h); missing as a rule
//   counters         the names of all counters: a sorted set, all with the score 0
//   counter:NAME     a hash: first, last, stride, next, closed (0, 1)
//                    adopted: the text of the record of another program that has the value, see
//                    adoption.h; and taken: the largest value that idmint took from it, or raised
//                    it to, or found there. `next` of an adopted one is not used
//   definitions      a hash: name -> json (to_json)
//   spaces           a hash: name -> closed (0, 1)
//   claims:NAME      a set of numbers
//   pools            a hash: name -> number of worker ids
//   worker:NAME:N    a hash: token (empty: no owner), holder, generation, minted_until, taken_from,
//                    held_until (ms since 1970, by the server's clock), nonce (of the latest
//                    extension)
//   free:NAME        the worker ids without an owner, the next one first: a sorted set, all with
//                    the score 0, of minted_until in 19 digits, a colon and the worker id in 5
//   owners:NAME      the others: a sorted set by held_until
//   tokens:NAME      a hash: token of an owner -> worker id
//
// Names may be any bytes. `next` is what the next advance hands out.
//
// Numbers of Lua are doubles, exact up to 2^53 only. So those of 64 bits stay texts in a script:
// Redis adds (HINCRBY), and above() compares two that are 0 or more, in plain decimal.
//
// A server has a new replication id when it was started again, when a replica of it was promoted,
// or when it had no replica for repl-backlog-ttl. INFO tells only after a promotion what the server
// was a replica of. Data that it had not received is missing, and nothing else tells. So each
// script that hands something out compares, in the same atomic step, the replication id of its
// server with that of the record. If the store never saw a replica, an id that follows nothing is
// that of a restart, which has all that was acknowledged, and takes the place of the old one; but
// not on another port, where a copy is served, and not where the append-only file was switched on
// since the start, which has read a dump. Every other new id is doubt. So is another database of
// the same server (COPY, MOVE, SWAPDB): no script can ask for its number, so the caller says it.
#pragma once

#include <string_view>

namespace idmint::stores::redis {

inline constexpr std::string_view kStoreKey = "{idmint}:store";
inline constexpr std::int64_t kSchemaVersion = 1;

// KEYS[1] is kStoreKey. A server may become a replica while a connection is open.
#define IDMINT_LUA_BEGIN                                                   \
  "local store, call = KEYS[1], redis.call "                               \
  "local function key(kind, name) return '{idmint}:' .. kind .. name end " \
  "local info = call('INFO', 'replication') "                              \
  "local function says(name)"                                              \
  " return string.match(info, name .. ':([^\\r\\n]*)') end "               \
  "if says('role') ~= 'master' then"                                       \
  " return redis.error_reply('READONLY the server is a replica') end "     \
  "local function above(a, b) return #a > #b or #a == #b and a > b end "

// judged(): whether the store is complete on this server: "same", "restarted" or, in doubt,
// "promoted", "renewed", "copied", "elsewhere" or "unread". `here` is the number of the database.
// seen(): whether the server has a replica, or had one of late. listens(): its port.
#define IDMINT_LUA_JUDGE                                                                      \
  "local function listens()"                                                                  \
  " return string.match(call('INFO', 'server'), 'tcp_port:(%d+)') or '' end "                 \
  "local function judged(replid, replicas, port, database, here)"                             \
  " if database and database ~= here then return 'elsewhere' end"                             \
  " if says('master_replid') == replid then return 'same' end"                                \
  " if string.find(says('master_replid2'), '[^0]') then return 'promoted' end"                \
  " if replicas == '1' then return 'renewed' end"                                             \
  " if port and port ~= listens() then return 'copied' end"                                   \
  " if not string.find(call('INFO', 'persistence'), 'aof_last_rewrite_time_sec:-1', 1, true)" \
  " and string.find(call('INFO', 'commandstats'), 'cmdstat_config|set:', 1, true)"            \
  " then return 'unread' end"                                                                 \
  " return 'restarted' end "                                                                  \
  "local function seen()"                                                                     \
  " return says('connected_slaves') ~= '0' or says('repl_backlog_active') ~= '0' end "

// ARGV[1] is the id of the store, the settle count that the caller read and the number of the
// database, separated by blanks. The outcome "other": another store took its place, or none.
#define IDMINT_LUA_WRITE                                                  \
  IDMINT_LUA_BEGIN                                                        \
  "local id, known, here = string.match(ARGV[1], '^(%S+) (%d+) (%d+)$') " \
  "if call('HGET', store, 'id') ~= id then return {'other'} end "

// The same for scripts that hand something out. The outcome "doubt": the store is in doubt. It
// stays so when the server, which forgets what it was a replica of, is started again. "settled": it
// has another settle count.
#define IDMINT_LUA_HAND_OUT                                                                   \
  IDMINT_LUA_WRITE IDMINT_LUA_JUDGE                                                           \
      "do local its = call('HMGET', store, 'replid', 'replicas', 'settled', 'gone_back',"     \
      " 'doubted', 'port', 'database') "                                                      \
      "if (its[3] or '0') ~= known then return {'settled'} end "                              \
      "local how = judged(its[1], its[2], its[6], its[7], here) "                             \
      "local doubt = how == 'promoted' or how == 'renewed' "                                  \
      "if its[2] ~= '1' and (doubt or seen()) then call('HSET', store, 'replicas', '1') end " \
      "if not its[5] and (how == 'copied' or how == 'elsewhere' or how == 'unread') then"     \
      " its[5] = how call('HSET', store, 'doubted', how) end "                                \
      "if doubt or its[4] or its[5] then return {'doubt'} end "                               \
      "if how == 'restarted' or not its[6] or not its[7] then"                                \
      " call('HSET', store, 'replid', says('master_replid'), 'port', listens(),"              \
      " 'database', here) end end "

}  // namespace idmint::stores::redis
