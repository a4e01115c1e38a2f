// Sources: what the service mints from, opened when it is first asked for and kept open.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "server/loop.h"

namespace idmint::server {

// An open source. A format fills without waiting. A sequence is asked with submit(). A pool waits
// for its store at times, and so is asked elsewhere.
struct OpenSource {
  std::unique_ptr<Source> source;
  Sequence* sequence = nullptr;        // null: a format or a pool
  CounterSequence* counter = nullptr;  // null: another strategy; its values can be had as a range
  bool is_pool = false;

  [[nodiscard]] bool is_format() const noexcept { return sequence == nullptr && !is_pool; }
  [[nodiscard]] const Declaration& declaration() const noexcept { return source->declaration(); }
};
using SourceHandle = std::shared_ptr<OpenSource>;

// On the loop, but for mint().
class Sources final {
 public:
  // The loop must outlive it. Without a store the mint opens the one of its options.
  Sources(Loop& loop, std::shared_ptr<Store> store, MintOptions options);

  // Null: it is not open.
  [[nodiscard]] SourceHandle find(std::string_view name) const;

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

  // Closes all sequences, which answers their requests, and refuses to open more (kUnavailable).
  // Waits for the calls of stores that are under way.
  void close();

  // May be shared by threads. Its calls may wait.
  [[nodiscard]] Mint& mint() noexcept { return mint_; }
  // For messages, without secrets; empty: the default store.
  [[nodiscard]] const std::string& store() const noexcept { return store_; }

 private:
  struct Entry {
    SourceHandle source;
    std::chrono::steady_clock::time_point opened;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Value>
  using ByName = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  Loop& loop_;
  const std::string store_;
  Mint mint_;
  bool closed_ = false;
  std::vector<std::weak_ptr<OpenSource>> forgotten_;  // requests of them may be under way
  ByName<Entry> open_;
  struct Ended {
    Error why;
    std::chrono::steady_clock::time_point since;
  };
  ByName<Ended> ended_;
  ByName<std::vector<std::function<void(const Result<SourceHandle>&)>>> opening_;
};

}  // namespace idmint::server
