// RedisSession: a client that speaks the protocol of Redis. Any client of Redis is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/definition.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "server/access.h"
#include "server/connection.h"
#include "server/loop.h"
#include "server/resp.h"
#include "server/service.h"

namespace idmint::server {

// Replies come in the order of the commands. Commands that take values are submitted as they come,
// so that those of one pipeline, and of all connections, share rounds to the store. A command that
// looks at a store or changes it is a barrier: it waits for the answers before it, and those after
// it wait for its own.
class RedisSession final : public Conversation {
 public:
  // Commands of a connection that wait for their answers at a time.
  static constexpr std::size_t kMostPending = 1024;
  // Ids that they ask for by COUNT.
  static constexpr std::size_t kMostPendingIds = 16'384;
  // Bytes of replies that are ready and wait for one before them.
  static constexpr std::size_t kMostWaitingText = std::size_t{256} * 1024;
  // Of a pattern of names, and stars in it: matching takes longer the longer it is, and far longer
  // with many stars.
  static constexpr std::size_t kLongestPattern = 256;
  static constexpr std::ptrdiff_t kMostStars = 8;
  // Of the name that a client gives itself.
  static constexpr std::size_t kLongestClientName = 128;
  // Commands between MULTI and EXEC, and their bytes.
  static constexpr std::size_t kMostQueued = 1024;
  static constexpr std::size_t kMostQueuedBytes = std::size_t{256} * 1024;

  // Both outlive it.
  RedisSession(Connection& connection, Service& service);
  ~RedisSession() override;

  [[nodiscard]] std::size_t take(std::string_view input) override;
  [[nodiscard]] bool held() const noexcept override;
  [[nodiscard]] bool waits() const noexcept override;
  [[nodiscard]] bool is_known() const override;
  void too_slow() override;
  void settle() override;

  // One row of the table of commands.
  struct Command {
    std::string_view name;  // upper case, as are those of the rest
    int least = 1;          // words, the name among them
    int most = 1;           // 0: any number
    void (RedisSession::*run)(Words words) = nullptr;
    enum Kind : std::uint8_t {
      kPlain,    // answered from memory, or submitted
      kBarrier,  // looks at a store, or changes it
      kAtOnce,   // not queued by MULTI
    } kind = kPlain;
    std::string_view summary{};
    int first_key = 0;        // the position of its first source among the words; 0: it has none
    int last_key = 0;         // -1: the last word
    Verb verb = Verb::kPeek;  // what is done with them
    bool open = false;        // for those, too, who have not said who they are

    // What it is counted as. Nothing: it looks at no source.
    [[nodiscard]] constexpr std::optional<Verb> counted_as() const noexcept {
      return first_key != 0 || kind == kBarrier ? std::optional(verb) : std::nullopt;
    }
  };

 private:
  // A reply that waits for its answer, or for those before it.
  struct Reply final : Awaited {
    enum Kind : std::uint8_t {
      kText,     // as it is
      kInteger,  // the value
      kId,       // the value as its source prints it
      kIds,      // all of the values, so
      kLast,     // the last of the range
      kRange,    // its first and its last
    };

    void answered() override { session->answered(*this); }

    RedisSession* session = nullptr;
    Kind kind = kText;
    bool ready = true;
    std::int64_t value = 0;  // kInteger, kId
    SourceHandle source{};
    SteadyTime begun{};  // when its command was read
    std::unique_ptr<Error> error{};
    // What most replies have not, so that many of them wait in little memory.
    struct Rest {
      std::vector<std::int64_t> values{};  // kIds
      Range range{};                       // kLast, kRange
      std::string text{};                  // kText
      std::size_t counted = 0;             // of the text, in waiting_text_
    };
    std::unique_ptr<Rest> rest{};  // null: kInteger, kId
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
  void id_list(Words words);
  void multi(Words words);
  void exec(Words words);
  void discard(Words words);
  void watch(Words words);
  void unwatch(Words words);
  void hello(Words words);
  void auth(Words words);
  // Whether the token is known; if not, the reply says so.
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
  // Whether it must wait until all before it have their answers: it looks at a store, or changes
  // who asks.
  [[nodiscard]] bool is_barrier(const Command& command) const noexcept {
    return command.open || (command.kind == Command::kBarrier && !queueing_);
  }
  // Whether another command may be taken now.
  [[nodiscard]] bool has_room();
  // For a barrier: nothing is taken until all before it have their answers.
  void wait_for_answers();
  void queue(Words words);
  // Whether the caller may give the command; if not, the reply says so.
  [[nodiscard]] bool may(const Command& command, Words words);
  void refuse_unauthenticated();
  // Whether it may take so many ids now; if not, the reply says so.
  [[nodiscard]] bool charge(std::int64_t count);
  void refuse_unknown(Words words);
  void put_command(const Command& command);

  // ---- replies
  // Where the reply of the command at hand goes: behind those before it.
  [[nodiscard]] std::string& reply();
  void fail(const Error& error);
  void fail(std::string_view message);  // ERR
  [[nodiscard]] Reply& add_pending(Reply::Kind kind, SourceHandle source);
  void wait_for(Reply& reply, Result<void> submitted);
  // When the commands of this turn were read, as of the first that waits: one look at the clock for
  // all of them.
  [[nodiscard]] SteadyTime begun();
  void answered(Reply& reply);
  void finish(Reply& reply, std::string& out);
  // Counts and logs values of a sequence that the client is given.
  void count_taken(const OpenSource& source, std::int64_t first, std::int64_t last,
                   std::size_t count);

  // Finds the source, or opens it and runs the command again. Null: that, or it failed.
  [[nodiscard]] SourceHandle source_of(Words words, std::string_view name);
  void take_values(SourceHandle source, std::int64_t count, bool as_integer, bool as_array);
  void take_range(Words words, bool whole);
  // Runs `work` elsewhere, and `then` with its result, before any other command. `work` gets the
  // time by which it must have answered: the deadline began when the command came.
  template <class Work, class Then>
  void elsewhere(Work work, Then then);
  void hold();
  void go_on();
  void put_status(std::string& out, const SequenceStatus& status);

  Connection& connection_;
  Service& service_;
  RespReader reader_;
  Resp version_ = Resp::k2;
  const std::uint64_t number_;
  std::string name_;                // CLIENT SETNAME
  std::shared_ptr<Caller> caller_;  // null: it has not said who it is
  // What the command before this one named, as most name it again.
  const Command* last_command_ = nullptr;
  Sources::Recent last_source_{};

  std::deque<Reply> replies_;  // in order; those that are ready and have none before them are gone
  std::size_t pending_ = 0;
  std::size_t pending_ids_ = 0;
  std::size_t waiting_text_ = 0;      // as of the last command
  bool held_ = false;                 // a command is carried out elsewhere
  SteadyTime held_since_{};           // the epoch: no command was held, or it waits on otherwise
  std::optional<Verb> held_as_{};     // what it is counted as
  std::optional<Verb> counted_as_{};  // the command at hand
  SteadyTime begun_{};                // the epoch: none of this turn has waited yet
  bool barrier_ = false;              // a command waits for the answers before it
  std::optional<SteadyTime> barrier_due_{};  // when that command must have its own answer
  bool settling_ = false;                    // it is in the list of those that have new answers
  bool ended_ = false;                       // QUIT, or the stream cannot be read on

  bool queueing_ = false;  // between MULTI and EXEC
  bool queue_broken_ = false;
  std::size_t queued_bytes_ = 0;
  std::deque<Owned> queued_;
  std::deque<Owned> replay_;  // of EXEC, to be run before anything that came after it
  std::optional<Result<SourceHandle>> opened_;  // for the command that is run again

  // While something waits for an answer, its connection stays.
  std::shared_ptr<Connection> kept_;
};

}  // namespace idmint::server
