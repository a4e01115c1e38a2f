// RedisSession: the conversation with a client of the Redis protocol, RESP2 or RESP3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/definition.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "server/access.h"
#include "server/connection.h"
#include "server/integers.h"
#include "server/loop.h"
#include "server/resp.h"
#include "server/service.h"

namespace idmint::server {

// Replies are in the order of the commands. Commands that take values are submitted as they are
// read, so those of one pipeline and of all connections share rounds to the store. Consecutive
// commands of a pipeline that each take one value of the same counter are one request, submitted
// with the last of them. A command
// that reads or changes a store is a barrier: it waits for the answers to earlier commands, and
// later commands wait for its answer.
class RedisSession final : public Conversation {
 public:
  // The most commands of a connection that wait for answers.
  static constexpr std::size_t kMostPending = 1024;
  // The most ids that those commands request with COUNT or in a batch, in total.
  static constexpr std::size_t kMostPendingIds = 16'384;
  // The most commands between MULTI and EXEC, and their bytes.
  static constexpr std::size_t kMostQueued = 1024;
  static constexpr std::size_t kMostQueuedBytes = std::size_t{256} * 1024;
  // The most bytes of a pattern, and of a name from CLIENT SETNAME.
  static constexpr std::size_t kLongestPattern = 256;
  static constexpr std::size_t kLongestName = 128;

  // Both must outlive it.
  RedisSession(Connection& connection, Service& service);
  ~RedisSession() override;

  [[nodiscard]] std::size_t take(std::string_view input) override;
  [[nodiscard]] bool held() const noexcept override;
  [[nodiscard]] bool waits() const noexcept override;
  [[nodiscard]] bool is_known() const override;
  [[nodiscard]] bool is_streaming() const noexcept override { return !list_.empty(); }
  void too_slow() override;
  void settle() override;

  // One row of the table of commands.
  struct Command {
    std::string_view name;  // in upper case
    int least = 1;          // the number of words, including its name
    int most = 1;           // 0: any number
    void (RedisSession::*run)(Words words) = nullptr;
    enum Kind : std::uint8_t {
      kPlain,     // answered from memory, or submitted
      kBarrier,   // reads a store, or changes it
      kAtOnce,    // runs at once between MULTI and EXEC
      kIdentity,  // the same, and changes the caller, so it waits for all answers before it
    } kind = kPlain;
    std::string_view summary{};
    int first_key = 0;        // the index of its first source among the words; 0: none
    int last_key = 0;         // -1: the last word
    Verb verb = Verb::kPeek;  // the right that it needs on its sources
    bool open = false;        // needs no token

    [[nodiscard]] constexpr bool is_queued() const noexcept {
      return kind == kPlain || kind == kBarrier;
    }
    // Whether it waits for earlier answers. `queueing`: it is between MULTI and EXEC.
    [[nodiscard]] constexpr bool waits(bool queueing) const noexcept {
      return kind == kIdentity || (kind == kBarrier && !queueing);
    }
    // The verb under which it is counted; without one it is counted as "other".
    [[nodiscard]] constexpr std::optional<Verb> counted_as() const noexcept {
      return first_key != 0 || kind == kBarrier ? std::optional(verb) : std::nullopt;
    }
  };

 private:
  // A reply that waits for its answer, or for earlier replies.
  struct Reply final : Awaited {
    enum Kind : std::uint8_t {
      kText,     // unchanged
      kInteger,  // the value; or one reply for each of `calls` commands
      kId,       // the same, as printed by the source
      kIds,      // all values, as printed by the source
      kLast,     // the last value of the range
      kRange,    // the first and the last value of the range
    };

    void answered() override { session->answered(*this); }

    RedisSession* session = nullptr;
    Kind kind = kText;
    bool ready = true;
    std::uint32_t counted = 0;               // bytes counted in behind_
    std::uint32_t calls = 1;                 // kInteger, kId: the number of commands answered
    std::uint32_t served = 0;                // of those: the number that got a value
    Integers integers = Integers::kUnknown;  // of the client, when its command was read
    std::int64_t value = 0;                  // kInteger, kId of one command
    SourceHandle source{};
    SteadyTime begun{};  // when its command was read
    std::unique_ptr<Error> error{};
    // Members that most replies do not need. They are separate so that waiting replies are small.
    struct Rest {
      std::vector<std::int64_t> values{};  // kIds; kInteger and kId of several commands
      Range range{};                       // kLast, kRange; only its count before the answer
      std::string text{};                  // kText
    };
    std::unique_ptr<Rest> rest{};  // null: kInteger and kId of one command

    // Whether each of its commands gets one value; then, the values.
    [[nodiscard]] bool is_of_ones() const noexcept { return kind == kInteger || kind == kId; }
    [[nodiscard]] std::span<std::int64_t> ones() noexcept {
      return calls > 1 ? std::span(rest->values) : std::span(&value, 1);
    }
    // The number of requested ids of each of its commands.
    [[nodiscard]] std::int64_t wanted() const noexcept {
      if (kind == kIds) return std::ssize(rest->values);
      return kind == kLast || kind == kRange ? rest->range.count : 1;
    }
    // The last of the values that came; 0: none did.
    [[nodiscard]] std::int64_t highest() noexcept;
  };
  using Owned = std::vector<std::string>;

  // ---- commands; see the table in redis_commands.cc
  void incr(Words words);
  void incrby(Words words);
  void get(Words words);
  void mget(Words words);
  void exists(Words words);
  void type(Words words);
  void dbsize(Words words);
  void time(Words words);
  void keys(Words words);
  void scan(Words words);
  void id_next(Words words);
  void id_range(Words words);
  void id_inspect(Words words);
  void id_peek(Words words);
  void id_raise(Words words);
  void id_lease(Words words);
  void id_extend(Words words);
  void id_release(Words words);
  void id_list(Words words);
  void multi(Words words);
  void exec(Words words);
  void discard(Words words);
  void watch(Words words);
  void unwatch(Words words);
  void hello(Words words);
  void auth(Words words);
  // Takes nothing more, and ends the connection when all is sent.
  void end();
  // Whether the token is known; if not, replies with the error.
  [[nodiscard]] bool let_in(std::string_view token);
  void ping(Words words);
  void echo(Words words);
  void info(Words words);
  void command(Words words);
  void config(Words words);
  void client(Words words);
  void select(Words words);
  void quit(Words words);
  void reset(Words words);
  friend struct RedisCommands;

  // The row of the command; null: there is no such command.
  [[nodiscard]] const Command* command_of(Words words);
  void run(const Command* command, Words words);
  // Takes no further command until all earlier ones have their answers.
  void wait_for_answers();
  void queue(Words words);
  // Whether the caller has the right; if not, replies with the error.
  [[nodiscard]] bool may(const Command& command, Words words);
  void refuse_unauthenticated();
  // Whether the caller may take so many ids now; if not, replies with the error.
  [[nodiscard]] bool charge(std::int64_t count);
  // Whether one more call may wait for its store; if not, replies with the error.
  [[nodiscard]] bool admit();
  void refuse_unknown(Words words);
  void put_command(const Command& command);

  // ---- replies
  // The string for the reply of the current command, behind earlier replies.
  [[nodiscard]] std::string& reply();
  void fail(
      const Error& error);  // an error of a source must go through Service::for_client() first
  void fail(std::string_view message);  // ERR
  // Reports the bytes that wait in replies_ to the connection.
  void count_behind();
  [[nodiscard]] Reply& add_pending(Reply::Kind kind, SourceHandle source);
  // Takes one value of a counter for the current command, in a batch with the command before it if
  // that did the same.
  void take_one(Reply::Kind kind, SourceHandle source);
  void submit_batch();
  void wait_for(Reply& reply, Result<void> submitted);
  // The time at which this turn's commands were read; reads the clock once for all.
  [[nodiscard]] SteadyTime begun();
  void answered(Reply& reply);
  void finish(Reply& reply, std::string& out);
  void put_failure(const Reply& reply, std::string& out);
  // Counts and logs values of a sequence that the client receives.
  void count_taken(const OpenSource& source, std::int64_t first, std::int64_t last,
                   std::size_t count);

  // The open source. Null: it is being opened and the command will run again, or the error was the
  // reply.
  [[nodiscard]] SourceHandle source_of(Words words, std::string_view name);
  // Runs the command once more, which was held until its source was there.
  void run_again(const Owned& words);
  // Whether the client holds the next `count` values of the source. If not, the error was the reply
  // and nothing was taken; or they are being looked at, and the command will run again.
  [[nodiscard]] bool holds(const SourceHandle& source, std::int64_t count, Words words);
  // The representation of integers beyond kMostExact that this client reads exactly.
  [[nodiscard]] Integers integers() const noexcept {
    return integers_ == Integers::kUnknown && service_.all_hold_64_bits ? Integers::kWhole
                                                                        : integers_;
  }
  // A value of a source that has come, or the error that takes its place, as it would be rounded.
  void put_value(std::string& out, std::int64_t value, Integers integers, const OpenSource& source);
  void take_values(Words words, SourceHandle source, std::int64_t count, bool as_integer,
                   bool as_array);
  void take_range(Words words, bool whole);
  // Runs `work` on another thread and then `then` with its value, before any other command. `work`
  // gets the time by which it must answer; the deadline began when the command arrived. It does not
  // run if the caller's token was revoked meanwhile. `lane` is that of Loop::elsewhere(). `source`
  // is the source in errors; empty: all stores.
  template <class Work, class Then>
  void elsewhere(std::string_view lane, std::string_view source, Work work, Then then);
  void hold();
  void go_on();
  // Replies with a list, which is sent as fast as the client reads.
  void put_list(std::string list);
  void put_part_of_list();

  Connection& connection_;
  Service& service_;
  RespReader reader_;
  Resp version_ = Resp::k2;
  const std::uint64_t number_;
  std::string name_;     // CLIENT SETNAME
  std::string library_;  // CLIENT SETINFO LIB-NAME; stays after RESET, as in Redis
  Integers integers_ = Integers::kUnknown;  // the least of those of the names that it gave
  std::shared_ptr<Caller> caller_;          // null: no token yet
  // The previous command and its source, because most commands repeat them.
  const Command* last_command_ = nullptr;
  Sources::Recent last_source_{};

  // In order, from the first that is not ready. A list, because an empty deque allocates memory,
  // and most connections are idle.
  std::list<Reply> replies_;
  std::size_t behind_ = 0;   // bytes of ready ones in replies_
  Reply* batch_ = nullptr;   // the last of replies_: commands not submitted yet
  std::size_t pending_ = 0;  // commands
  std::size_t pending_ids_ = 0;
  bool held_ = false;                        // a command runs on another thread
  SteadyTime held_since_{};                  // the epoch: none is
  std::optional<Verb> held_as_{};            // the verb under which it is counted
  std::optional<Verb> counted_as_{};         // the verb of the current command
  SteadyTime begun_{};                       // the epoch: no command of this turn waits
  bool barrier_ = false;                     // a command waits for earlier answers
  std::optional<SteadyTime> barrier_due_{};  // the deadline of that command
  bool settling_ = false;                    // it is in Service::settling
  bool ended_ = false;                       // after QUIT, or after invalid input

  bool queueing_ = false;  // between MULTI and EXEC
  bool queue_broken_ = false;
  std::size_t queued_bytes_ = 0;
  std::list<Owned> queued_;
  std::list<Owned> replay_;                     // of EXEC; run before any later input
  std::optional<Result<SourceHandle>> opened_;  // for the command that is run again

  std::string list_;              // put_list(); empty: none is under way
  std::size_t of_list_sent_ = 0;  // bytes of it

  // Not null while something waits for an answer; keeps the connection alive.
  std::shared_ptr<Connection> kept_;
};

template <class Work, class Then>
void RedisSession::elsewhere(std::string_view lane, std::string_view source, Work work, Then then) {
  hold();
  const SteadyTime due = std::exchange(barrier_due_, std::nullopt).value_or(service_.loop.due());
  service_.loop.elsewhere(
      lane, due, unless_revoked(caller_, std::move(work)),
      [this, source = std::string(source), then = std::move(then)](auto result) mutable {
        {
          Then once = std::move(then);  // gone before the next command
          if (result) {
            once(*std::move(result));
          } else {
            fail(service_.told_to(*caller_, std::move(result.error()), source));
          }
        }
        go_on();
      });
}

}  // namespace idmint::server
