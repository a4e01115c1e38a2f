// The entries of an oplog, wherever it is: a dump, or a running member of a replica set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/live.h"

namespace idmint::restore {

// mongodb:// or mongodb+srv://, and no path.
[[nodiscard]] bool is_uri(std::string_view where);

// For one thread.
class OplogSource {
 public:
  virtual ~OplogSource() = default;
  OplogSource(const OplogSource&) = delete;
  OplogSource& operator=(const OplogSource&) = delete;

  // Valid until the next call. Nothing: the end. Errors as OplogReader and LiveOplog.
  [[nodiscard]] virtual Result<std::optional<Entry>> next() = 0;
  // The file, or the URI without its password.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Of the last entry in a file.
  [[nodiscard]] virtual std::optional<std::uint64_t> offset() const = 0;

  // For Progress: what is counted, how much was read, and how much there is.
  [[nodiscard]] virtual std::string_view unit() const = 0;
  [[nodiscard]] virtual std::int64_t done() const = 0;
  [[nodiscard]] virtual std::int64_t total() const = 0;
  // What limits it, a sentence; empty: nothing.
  [[nodiscard]] virtual std::string notice() const { return {}; }

 protected:
  OplogSource() = default;
};

// Of --since and --until; an empty text is no limit. A time as `until` ends with the last entry
// before it.
[[nodiscard]] Result<OplogSpan> parse_span(std::string_view since, std::string_view until);

// Of a file, or the folder it is in as find_oplog_file() looks for it, or the servers of a URI,
// where what is written from now on is left out. A live oplog that begins after span.from is read
// from where it begins, and notice() says so. The order of a file is not checked here.
[[nodiscard]] Result<std::unique_ptr<OplogSource>> open_oplog(const std::string& where,
                                                              OplogSpan span = {},
                                                              const ConnectOptions& options = {});

}  // namespace idmint::restore
