// Sources: the formats, sequences and pools from which the server mints. Each is opened at its
// first use and stays open.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
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
#include "server/integers.h"
#include "server/log.h"
#include "server/loop.h"

namespace idmint::server {

// An open source. A format makes ids without waiting. A sequence is used with submit(). A pool may
// wait for its store, so it is used on another thread.
struct OpenSource {
  std::shared_ptr<Executor> rounds;  // for the sequence; outlives it
  std::string name;                  // for clients: "NAME", or "STORE/NAME" in a named store
  std::unique_ptr<Source> source;
  Sequence* sequence = nullptr;        // null: a format or a pool
  CounterSequence* counter = nullptr;  // not null: strategy counter, which hands out ranges
  std::shared_ptr<SourceCounts> counts = std::make_shared<SourceCounts>();
  Height height = Height::of_pool();

  [[nodiscard]] bool is_format() const noexcept {
    return declaration().kind == SourceKind::kFormat;
  }
  [[nodiscard]] bool is_pool() const noexcept { return declaration().kind == SourceKind::kPool; }
  [[nodiscard]] const Declaration& declaration() const noexcept { return source->declaration(); }
};
using SourceHandle = std::shared_ptr<OpenSource>;

// The counts of one source since the start, for /metrics.
struct SourceUse {
  std::string_view name;    // for clients; kOthers: all sources without counts of their own
  std::uint64_t calls = 0;  // of SourceCounts
  std::uint64_t ids = 0;
  std::uint64_t errors = 0;
  bool is_sequence = false;  // the members below apply to sequences only
  SequenceStatistics statistics{};
  std::int64_t held = 0;  // values of a cached sequence that are in memory
};

// A store with its sources.
struct ServedStore {
  // The prefix of its sources' names for clients, with a slash. Empty: no prefix.
  std::string name{};
  // An open store; null: `mint` names the store, which is opened at its first use.
  std::shared_ptr<Store> store{};
  MintOptions mint{};
};

// Whether a format has the name.
[[nodiscard]] bool is_format_name(std::string_view name);

// Call everything on the loop, with the exceptions below.
class Sources final {
 public:
  // The loop must outlive it.
  Sources(Loop& loop, std::vector<ServedStore> stores);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

 private:
  struct Entry {
    SourceHandle source;
    std::chrono::steady_clock::time_point opened;
  };

 public:
  // Null: it is not open.
  [[nodiscard]] SourceHandle find(std::string_view name) const;

  // Likewise with a cache of one entry: finding the same source again costs one comparison of
  // names.
  struct Recent {
    const std::pair<const std::string, Entry>* found = nullptr;
    std::uint64_t closings = 0;
  };
  [[nodiscard]] SourceHandle find(std::string_view name, Recent& recent) const;

  // Opens the source and calls `then` on the loop later, never before it returns. Concurrent
  // callers share the opening. Errors: those of Mint::source(); they are not cached, so the next
  // call tries again.
  void open(std::string_view name, std::function<void(const Result<SourceHandle>&)> then);

  // Closes a source after a call failed because it is used up or retired (`why`), so that the next
  // call opens it again: another process may have changed its definition. `of_one`: the call
  // requested one value, so none is left. Then open() answers with `why` for one second, which
  // saves reads of the store. After failed calls for several values, the source is closed at most
  // once a second. Requests in progress get their answers.
  void forget(const SourceHandle& source, const Error& why, bool of_one);

  // Closes a source whose definition this process has changed, so that the next call sees the new
  // one. Requests in progress get their answers.
  void reopen(std::string_view name);

  // Sets what is told of the stores of sequences over several: that one is left out (`why`), or
  // gives values again (null); once for each change. Of a source that is opened again, what has not
  // changed is not told again. On the loop.
  using StoreChanged =
      std::function<void(std::string_view source, std::string_view url, const Error* why)>;
  void on_store_change(StoreChanged act) { store_changed_ = std::move(act); }

  // Asks each store whether it answers and is not in doubt, and later calls `then` on the loop with
  // the first error. Concurrent calls share a check, so probes take one thread at most.
  void look_ready(std::function<void(const Result<void>&)> then);

  // Closes all sequences, which answers their requests, and refuses to open others (kUnavailable).
  // Waits for calls of stores in progress. Logs each range of values that was held and is lost
  // (`given_up`), and the number of values that each sequence has handed out (`closed`).
  void close(Log& log);

  // The number of sources with counts of their own. Later ones share one count.
  static constexpr std::size_t kMostCounted = 500;
  static constexpr std::string_view kOthers = "(others)";
  // All sources ever opened. Valid until the next call of any method.
  [[nodiscard]] std::vector<SourceUse> uses();
  [[nodiscard]] std::size_t open_count() const noexcept { return open_.size(); }
  // Open pools of a store, by their names in it.
  [[nodiscard]] std::vector<std::string> open_pools(std::string_view store) const;

  // ---- Any thread may call the methods below. Those that use a mint may wait.

  // Calls `act` with the source's mint and its name there, and returns the Result. kNotFound: there
  // is no such store.
  template <class Act>
  [[nodiscard]] std::invoke_result_t<Act, Mint&, const std::string&> at(std::string_view source,
                                                                        Act act) const {
    const Result<Place> place = this->place(source);
    if (!place) return std::unexpected(place.error());
    return act(place->mint, place->name);
  }
  // Mint::peek(). The result has the name for clients.
  [[nodiscard]] Result<SequenceStatus> peek(std::string_view source, SteadyTime until) const;
  // at(), with the status that `act` returns under the name for clients.
  [[nodiscard]] Result<Changed> change(
      std::string_view source,
      const std::function<Result<Changed>(Mint&, const std::string&)>& act) const;
  // Calls `act` with each source in the stores of these names, by name in each store; names are
  // those for clients, `options.after` too, and `options.most` is ignored. If `act` returns false,
  // that store has no more. The stores are read in parts, of which one is in memory. Ends by
  // `until`. An error names the failed store.
  using Act = std::function<bool(const SequenceStatus& status)>;
  [[nodiscard]] Result<void> each(std::span<const std::string> stores, const ListOptions& options,
                                  SteadyTime until, const Act& act) const;
  // The stores and their mints. Any thread may use them during the lifetime of this object.
  struct NamedMint {
    std::string_view store;  // empty: its sources have no prefix
    Mint& mint;
  };
  [[nodiscard]] std::vector<NamedMint> mints() const;
  // The names of all stores; "" for the one without a name.
  [[nodiscard]] std::vector<std::string> store_names() const;
  // Whether a store has this name.
  [[nodiscard]] bool is_store(std::string_view name) const noexcept;
  // The error of a call that found its sequence moved becomes kUnavailable if the next call finds
  // it in a store that is known here (MintOptions::also). Any other error stays as it is.
  [[nodiscard]] Error followed(Error error, std::string_view source) const;
  // The error of a call for the source, worded for a terminal. An empty `source` stands for all.
  [[nodiscard]] Error for_client(Error error, std::string_view source = {}) const;

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
    const std::string store;              // for messages
    const std::vector<std::string> also;  // where its sequences may have been moved
    std::unique_ptr<Mint> mint;
  };
  [[nodiscard]] const Served* served(std::string_view source) const noexcept;
  // A mint, and the source's name in it.
  struct Place {
    Mint& mint;
    std::string name;
  };
  [[nodiscard]] Result<Place> place(std::string_view source) const;
  [[nodiscard]] Result<void> ready(SteadyTime until) const;
  [[nodiscard]] std::shared_ptr<SourceCounts> counts_of(std::string_view name);
  void note_store(const std::string& source, const std::string& url,
                  const std::optional<Error>& why);

  // By which sequences tell of their stores. They may do so after this has gone, as an executor may
  // still read a counter for them.
  struct Teller {
    std::mutex mutex;
    Loop* loop;  // null: nobody is told any more
  };

  Loop& loop_;
  const std::shared_ptr<Executor> rounds_;
  const std::shared_ptr<Teller> teller_;
  std::vector<Served> stores_;
  bool closed_ = false;
  std::vector<std::weak_ptr<OpenSource>> forgotten_;  // closed ones with requests in progress
  ByName<Entry> open_;
  std::uint64_t closings_ = 0;  // entries erased from open_
  struct Ended {
    Error why;
    std::chrono::steady_clock::time_point since;
  };
  ByName<Ended> ended_;
  struct Opening {
    std::vector<std::function<void(const Result<SourceHandle>&)>> waiting{};
    bool is_stale = false;  // its definition was changed meanwhile
    // Callers since the change; it is opened again for them.
    std::vector<std::function<void(const Result<SourceHandle>&)>> later{};
  };
  ByName<Opening> opening_;
  std::vector<std::function<void(const Result<void>&)>> asking_ready_;
  StoreChanged store_changed_{};
  std::set<std::pair<std::string, std::string>> stores_left_out_{};  // source, URL
  ByName<std::shared_ptr<SourceCounts>> counts_;
  const std::shared_ptr<SourceCounts> others_ = std::make_shared<SourceCounts>();
};

}  // namespace idmint::server
