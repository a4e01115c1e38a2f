#include "restore/oplog/transactions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

// Servers nest one level.
constexpr int kDeepestTransaction = 8;

// Whether an applyOps upserts. That is its default, which a server applies on each member.
bool upserts(Document command) {
  const std::optional<Field> field = find_field(command, "alwaysUpsert");
  return !field || (field->type == BSON_TYPE_BOOL ? field->truth() : field->integer() != 0);
}

// `by_hand`: the entry is of no transaction.
Result<void> unwrap(const Operation& operation, std::uint32_t& index, int depth, bool by_hand,
                    const TakeOperation& take) {
  if (operation.op != Op::kCommand || operation.command() != "applyOps")
    return take(operation, index++);
  if (depth == kDeepestTransaction)
    return fail(Code::kDataLoss, "no entry of an oplog: its applyOps are nested too deep");
  const Document list = operation.o.array("applyOps");
  if (!list) return fail(Code::kDataLoss, "no entry of an oplog: its applyOps is no array");
  for (const Field& field : Fields(list)) {
    const Document inner = field.document();
    if (field.type != BSON_TYPE_DOCUMENT || !inner)
      return fail(Code::kDataLoss, "no entry of an oplog: what its applyOps has is no document");
    Result<Operation> parsed = parse_operation(inner);
    if (!parsed) return error_in(parsed);
    parsed->by_hand = by_hand;
    parsed->upsert =
        parsed->upsert || (by_hand && parsed->op == Op::kUpdate && upserts(operation.o));
    if (Result<void> taken = unwrap(*parsed, index, depth + 1, by_hand, take); !taken) return taken;
  }
  return {};
}

bool says(Document document, const char* field) { return document.boolean(field).value_or(false); }

std::unexpected<Error> no_room(const char* what) {
  return fail(Code::kResourceExhausted, std::string("cannot ") + what +
                                            " a file for a large transaction in $TMPDIR: " +
                                            std::generic_category().message(errno) +
                                            "; set TMPDIR to a folder with more room");
}

}  // namespace

Result<void> for_each_operation(const Entry& entry, const TakeOperation& take) {
  std::uint32_t index = 0;
  return unwrap(entry.operation, index, 0, !entry.in_transaction() && entry.multi_op_type != 1,
                take);
}

// Stores entries: first in memory, then in an unlinked file.
class Transactions::Store {
 public:
  struct Piece {
    std::vector<std::uint8_t> bytes{};  // empty: in the file
    std::uint64_t offset = 0;
    std::size_t size = 0;
  };

  explicit Store(std::size_t memory) : memory_(memory) {}
  ~Store() {
    if (fd_ >= 0) ::close(fd_);
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Result<Piece> put(Document document) {
    const auto bytes = document.bytes();
    Piece piece{.size = bytes.size()};
    if (used_ + bytes.size() <= memory_) {
      used_ += bytes.size();
      piece.bytes.assign(bytes.begin(), bytes.end());
      return piece;
    }
    if (fd_ < 0 && !open()) return no_room("make");
    piece.offset = end_;
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t wrote =
          ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(end_ + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return no_room("write");
      done += static_cast<std::size_t>(wrote);
    }
    end_ += bytes.size();
    ++in_file_;
    return piece;
  }

  // Valid until the next call.
  Result<Document> get(const Piece& piece) {
    if (!piece.bytes.empty()) return Document::of(piece.bytes);
    buffer_.resize(piece.size);
    for (std::size_t done = 0; done < piece.size;) {
      const ssize_t read = ::pread(fd_, buffer_.data() + done, piece.size - done,
                                   static_cast<off_t>(piece.offset + done));
      if (read < 0 && errno == EINTR) continue;
      if (read <= 0) return no_room("read");
      done += static_cast<std::size_t>(read);
    }
    return Document::of(buffer_);
  }

  void drop(const Piece& piece) {
    if (!piece.bytes.empty()) {
      used_ -= piece.size;
    } else if (--in_file_ == 0) {
      end_ = 0;
      static_cast<void>(::ftruncate(fd_, 0));  // a failure wastes space only
    }
  }

 private:
  bool open() {
    const char* const folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/idmint-restore-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ >= 0) ::unlink(name.c_str());
    return fd_ >= 0;
  }

  const std::size_t memory_;
  std::size_t used_ = 0;
  int fd_ = -1;
  std::uint64_t end_ = 0;
  std::size_t in_file_ = 0;
  std::vector<std::uint8_t> buffer_;
};

struct Transactions::Pending {
  std::int64_t number = 0;
  Timestamp first{};
  OpTime last{};
  bool prepared = false;
  bool incomplete = false;  // an earlier entry was not added
  std::uint64_t operations = 0;
  std::vector<Store::Piece> pieces{};
};

Transactions::Transactions(std::size_t memory) : store_(std::make_unique<Store>(memory)) {}
Transactions::~Transactions() = default;

Result<void> Transactions::keep(Pending& pending, const Entry& entry) {
  if (entry.operation.command() != "applyOps") return {};
  const Result<void> counted =
      for_each_operation(entry, [&](const Operation&, std::uint32_t) -> Result<void> {
        ++pending.operations;
        return {};
      });
  if (!counted) return counted;
  Result<Store::Piece> piece = store_->put(entry.document);
  if (!piece) return error_in(piece);
  pending.pieces.push_back(*std::move(piece));
  return {};
}

Result<void> Transactions::give(const Pending& pending, const TakeOperation& take) {
  std::uint32_t index = 0;
  for (const Store::Piece& piece : pending.pieces) {
    const Result<Document> document = store_->get(piece);
    if (!document) return error_in(document);
    const Result<Entry> entry = parse_entry(*document);
    if (!entry) return error_in(entry);
    if (Result<void> taken = unwrap(entry->operation, index, 0, false, take); !taken) return taken;
  }
  return {};
}

Result<void> Transactions::add(const Entry& entry, const TakeOperation& take) {
  const auto forget = [this](auto at) {
    for (const Store::Piece& piece : at->second.pieces) store_->drop(piece);
    pending_.erase(at);
  };
  const std::string session = std::string(entry.lsid.raw());
  const std::int64_t number = entry.txn_number.value_or(0);
  auto at = pending_.find(session);
  if (at != pending_.end()) {
    const Pending& known = at->second;
    if (number < known.number || entry.at.ts <= known.last.ts) return {};
    if (number > known.number) {  // the new one ended it
      forget(at);
      at = pending_.end();
    }
  }
  if (at == pending_.end()) {
    at = pending_
             .emplace(session, Pending{.number = number,
                                       .first = entry.at.ts,
                                       .incomplete = entry.previous.has_value() &&
                                                     entry.previous->ts != Timestamp{}})
             .first;
  } else if (entry.previous != at->second.last) {
    at->second.incomplete = true;
  }
  Pending& pending = at->second;
  const OpTime before = entry.previous.value_or(OpTime{});
  pending.last = entry.at;

  const std::string_view command = entry.operation.command();
  if (command == "abortTransaction") {
    forget(at);
    return {};
  }
  if (Result<void> kept = keep(pending, entry); !kept) return kept;
  if (command == "applyOps") {
    if (says(entry.operation.o, "prepare")) pending.prepared = true;
    if (pending.prepared || says(entry.operation.o, "partialTxn")) return {};
  } else if (pending.pieces.empty()) {
    pending.incomplete = true;  // a commit without operations
  }
  Result<void> result{};
  if (take) {
    result = pending.incomplete
                 ? fail(Code::kOutOfRange,
                        "a transaction commits of which the entry " + print_timestamp(before.ts) +
                            " or one before is missing: the oplog begins within it; take one that "
                            "reaches further back")
                 : give(pending, take);
  }
  forget(at);
  return result;
}

std::vector<OpenTransaction> Transactions::open() const {
  std::vector<OpenTransaction> open;
  for (const auto& [session, pending] : pending_) {
    if (pending.incomplete) continue;
    open.push_back({.first = pending.first,
                    .last = pending.last.ts,
                    .prepared = pending.prepared,
                    .operations = pending.operations});
  }
  std::ranges::sort(open, {}, &OpenTransaction::first);
  return open;
}

}  // namespace idmint::restore
