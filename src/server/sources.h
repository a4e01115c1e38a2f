// Sources: what the service mints from, opened when it is first asked for and kept open.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "server/counts.h"
#include "server/log.h"
#include "server/loop.h"

namespace idmint::server {

// An open source. A format fills without waiting. A sequence is asked with submit(). A pool waits
// for its store at times, and so is asked elsewhere.
struct OpenSource {
  std::shared_ptr<Executor> rounds;  // of the sequence; outlives it
  std::string name;  // as clients call it: with the name of its store, if that has one
  std::unique_ptr<Source> source;
  Sequence* sequence = nullptr;        // null: a format or a pool
  CounterSequence* counter = nullptr;  // null: another strategy; its values can be had as a range
  bool is_pool = false;
  std::shared_ptr<SourceCounts> counts = std::make_shared<SourceCounts>();

  [[nodiscard]] bool is_format() const noexcept { return sequence == nullptr && !is_pool; }
  [[nodiscard]] const Declaration& declaration() const noexcept { return source->declaration(); }
};
using SourceHandle = std::shared_ptr<OpenSource>;

// What is counted of one source since the start, for /metrics.
struct SourceUse {
  std::string_view name;    // as clients call it; Sources::kOthers: all that have none of their own
  std::uint64_t calls = 0;  // as SourceCounts has them
  std::uint64_t ids = 0;
  std::uint64_t errors = 0;
  bool is_sequence = false;  // it has what follows
  SequenceStatistics statistics{};
  std::int64_t held = 0;  // values of a cached sequence that are in memory now
};

// A store whose sources are served.
struct ServedStore {
  // What stands before the names of its sources and a slash; empty: nothing does.
  std::string name{};
  // A store that is open already; null: the one that `mint` says, opened when it is needed.
  std::shared_ptr<Store> store{};
  MintOptions mint{};
};

// On the loop, but for what says otherwise.
class Sources final {
 public:
  // The loop must outlive it.
  Sources(Loop& loop, std::vector<ServedStore> stores);

 private:
  struct Entry {
    SourceHandle source;
    std::chrono::steady_clock::time_point opened;
  };

 public:
  // Null: it is not open.
  [[nodiscard]] SourceHandle find(std::string_view name) const;

  // The same for one who mostly asks for the source that it asked for before, which costs a
  // comparison of names then.
  struct Recent {
    const std::pair<const std::string, Entry>* found = nullptr;
    std::uint64_t closings = 0;
  };
  [[nodiscard]] SourceHandle find(std::string_view name, Recent& recent) const;

  // Opens it, once for all who ask meanwhile, and calls `then` on the loop later. Errors are those
  // of Mint::source(); a name that could not be opened is looked for anew the next time.
  void open(std::string_view name, std::function<void(const Result<SourceHandle>&)> then);

  // What to do when a call of the source has failed because it is used up or retired (`why`), which
  // another process may have changed since: it is opened anew when it is asked for next. `of_one`:
  // the call was for one value, so that none is left. Then, of one that is used up, `why` is the
  // answer to all who ask within a second: that costs no read for each call, and one that is
  // extended loses no value to callers who know the old end. If more were asked for, it is
  // forgotten once in a second at most. Requests that are under way get their answers.
  void forget(const SourceHandle& source, const Error& why, bool of_one);

  // What to do when the definition of the source was changed through this process: who asks next
  // meets the new one. Requests that are under way get their answers.
  void reopen(std::string_view name);

  // Closes all sequences, which answers their requests, and refuses to open more (kUnavailable).
  // Waits for the calls of stores that are under way. Logs each range of values that was held, and
  // that nobody gets now (`given_up`), and what each sequence handed out in all (`closed`).
  void close(Log& log);

  // So many sources are counted by themselves, those that are opened first, and the rest together.
  static constexpr std::size_t kMostCounted = 500;
  static constexpr std::string_view kOthers = "(others)";
  // All that were ever open. Valid until the next call of any method.
  [[nodiscard]] std::vector<SourceUse> uses();
  [[nodiscard]] std::size_t open_count() const noexcept { return open_.size(); }
  // Open pools of a store, by the names that they have there.
  [[nodiscard]] std::vector<std::string> open_pools(std::string_view store) const;

  // ---- Any thread may call these. Those that ask a mint may wait.

  // What `act` returns, a Result, of the mint that has the source and the name that it has there;
  // an error in the words of told(). kNotFound: no such store.
  template <class Act>
  [[nodiscard]] std::invoke_result_t<Act, Mint&, const std::string&> at(std::string_view source,
                                                                        Act act) const {
    const Result<Place> place = this->place(source);
    if (!place) return std::unexpected(place.error());
    auto result = act(place->mint, place->name);
    if (!result) return std::unexpected(told(std::move(result.error()), source));
    return result;
  }
  // Mint::peek() and Mint::list() of all stores, with the names that clients use. They have
  // answered by `until`.
  [[nodiscard]] Result<SequenceStatus> peek(std::string_view source, SteadyTime until) const;
  [[nodiscard]] Result<std::vector<SequenceStatus>> list(SteadyTime until) const;
  // The stores, and what mints from them; any thread may use the mint as long as this is there.
  struct NamedMint {
    std::string_view store;  // empty: sources of it have no store before their names
    Mint& mint;
  };
  [[nodiscard]] std::vector<NamedMint> mints() const;
  // Whether a name that begins with this and a slash is one of a store.
  [[nodiscard]] bool is_store(std::string_view name) const noexcept;
  // The error in the words of a terminal, of a call for the source; empty: for any.
  [[nodiscard]] Error told(Error error, std::string_view source = {}) const;
  // Whether what was created can be read. An error of a store says no.
  [[nodiscard]] Result<void> ready(SteadyTime until) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Value>
  using ByName = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  struct Served {
    const std::string name;
    const std::string store;  // for messages
    std::unique_ptr<Mint> mint;
  };
  [[nodiscard]] const Served* served(std::string_view source) const noexcept;
  // Where a source is: a mint, and the name that it has there.
  struct Place {
    Mint& mint;
    std::string name;
  };
  [[nodiscard]] Result<Place> place(std::string_view source) const;
  [[nodiscard]] std::shared_ptr<SourceCounts> counts_of(std::string_view name);

  Loop& loop_;
  const std::shared_ptr<Executor> rounds_;
  std::vector<Served> stores_;
  bool closed_ = false;
  std::vector<std::weak_ptr<OpenSource>> forgotten_;  // requests of them may be under way
  ByName<Entry> open_;
  std::uint64_t closings_ = 0;  // entries that were taken out of open_
  struct Ended {
    Error why;
    std::chrono::steady_clock::time_point since;
  };
  ByName<Ended> ended_;
  ByName<std::vector<std::function<void(const Result<SourceHandle>&)>>> opening_;
  ByName<std::shared_ptr<SourceCounts>> counts_;
  const std::shared_ptr<SourceCounts> others_ = std::make_shared<SourceCounts>();
};

}  // namespace idmint::server
