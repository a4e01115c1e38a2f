// The entries of an oplog: of a dump, or of a running member of a replica set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/live.h"

namespace idmint::restore {

// Whether it is a mongodb:// or mongodb+srv:// URI and not a path.
[[nodiscard]] bool is_uri(std::string_view where);

// For one thread.
class OplogSource {
 public:
  virtual ~OplogSource() = default;
  OplogSource(const OplogSource&) = delete;
  OplogSource& operator=(const OplogSource&) = delete;

  // Valid until the next call. nullopt: the end. Errors: those of OplogReader and LiveOplog.
  [[nodiscard]] virtual Result<std::optional<Entry>> next() = 0;
  // After an error of next(): whether only this document is no entry, and next() goes on behind it.
  [[nodiscard]] virtual bool goes_on() const = 0;
  // The file, or the URI without its password.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // The offset of the last entry in its file; nullopt: not a file.
  [[nodiscard]] virtual std::optional<std::uint64_t> offset() const = 0;

  // For Progress: the unit, the amount read, and the total.
  [[nodiscard]] virtual std::string_view unit() const = 0;
  [[nodiscard]] virtual std::int64_t done() const = 0;
  [[nodiscard]] virtual std::int64_t total() const = 0;
  // The limits of the result, a sentence; empty: none.
  [[nodiscard]] virtual std::string notice() const { return {}; }

 protected:
  OplogSource() = default;
};

// Parses --since and --until. An empty text is no limit. A time as `until` ends the span with the
// last entry before it.
[[nodiscard]] Result<OplogSpan> parse_span(std::string_view since, std::string_view until);

// Opens a file, a folder (find_oplog_files()), or the servers of a URI. Entries that a server
// writes from now on are left out. If a live oplog begins after span.from, reads from its
// beginning, and notice() says so. Does not check the order of a file.
[[nodiscard]] Result<std::unique_ptr<OplogSource>> open_oplog(const std::string& where,
                                                              OplogSpan span = {},
                                                              const ConnectOptions& options = {});

}  // namespace idmint::restore
