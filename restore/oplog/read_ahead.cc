#include "restore/oplog/read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "restore/handover.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kBlocks = 8;
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::size_t kBlockEntries = 1024;

// The memory is fetched so far ahead of the writing.
constexpr std::size_t kBytesAhead = 1024;
constexpr std::size_t kRowsAhead = 2;
constexpr std::size_t kCacheLine = 64;

// Entries of one file.
struct EntryBlock {
  struct Row {
    Entry entry;
    std::optional<std::uint64_t> offset;
  };

  EntryBlock() : bytes(kBlockBytes + kBytesAhead) { rows.reserve(kBlockEntries + kRowsAhead + 1); }

  std::vector<std::uint8_t> bytes;  // of the entries
  std::size_t used = 0;
  std::vector<Row> rows{};
  std::string name{};     // of the source at the last entry
  std::int64_t done = 0;  // likewise
  // The end, or an error, after the entries. nullopt: another block follows.
  std::optional<Result<std::optional<Entry>>> end{};
  bool goes_on = false;  // after the error

  [[nodiscard]] bool has_room(std::size_t size, const std::string& of) const {
    return used + size <= kBlockBytes && rows.size() < kBlockEntries && name == of;
  }
  // Fetches what the next ones will overwrite, because the core of the other thread used it last:
  // where the two cores share no cache, waiting for each line would take most of the time. Without
  // the attribute the instruction would be the one to fetch for reading, which saves nothing.
#ifdef __x86_64__
  [[gnu::target("prfchw")]]
#endif
  void copy(const Entry& entry, std::optional<std::uint64_t> offset) {
    const std::span<const std::uint8_t> from = entry.document.bytes();
    std::uint8_t* const to = bytes.data() + used;
    for (std::size_t at = 0; at < from.size(); at += kCacheLine)
      __builtin_prefetch(to + kBytesAhead + at, 1);
    const auto* const row =
        reinterpret_cast<const std::uint8_t*>(rows.data() + rows.size() + kRowsAhead);
    for (std::size_t at = 0; at < sizeof(Row); at += kCacheLine) __builtin_prefetch(row + at, 1);
    std::ranges::copy(from, to);
    used += from.size();
    rebase(rows.emplace_back(entry, offset).entry, to);
  }
  void clear() {
    used = 0;
    rows.clear();
    end.reset();
  }
};

// Null: the end, or an error.
const Entry* entry_of(const Result<std::optional<Entry>>& next) {
  if (!next) return nullptr;
  const std::optional<Entry>& entry = *next;
  return entry ? &*entry : nullptr;
}

class ReadAhead final : public OplogSource {
 public:
  explicit ReadAhead(std::unique_ptr<OplogSource> source) : source_(std::move(source)) {
    block_.name = source_->name();
    // The others are filling_ and block_.
    for (std::size_t i = 2; i < kBlocks; ++i) spare_.give({});
    thread_ = std::thread([this] { work(); });
  }
  ~ReadAhead() override {
    full_.close();
    spare_.close();
    thread_.join();
  }

  Result<std::optional<Entry>> next() override {
    while (at_ == block_.rows.size()) {
      if (block_.end) {
        Result<std::optional<Entry>> end = *block_.end;
        if (block_.goes_on) block_.end.reset();
        return end;
      }
      spare_.give(std::move(block_));
      at_ = 0;
      std::optional<EntryBlock> next = full_.take();
      if (!next) return std::nullopt;
      block_ = *std::move(next);
    }
    return block_.rows[at_++].entry;
  }
  bool goes_on() const override { return block_.goes_on; }
  const std::string& name() const override { return block_.name; }
  std::optional<std::uint64_t> offset() const override {
    return at_ == 0 ? std::nullopt : block_.rows[at_ - 1].offset;
  }
  std::string_view unit() const override { return source_->unit(); }
  std::int64_t done() const override { return block_.done; }
  std::int64_t total() const override { return source_->total(); }
  std::string notice() const override { return source_->notice(); }

 private:
  // For the thread: reads until the end.
  void work();
  // Passes on the block and begins another one. False: the caller has stopped.
  bool pass();
  // Waits until the caller is done with all blocks. False: it has stopped.
  bool wait();

  const std::unique_ptr<OplogSource> source_;
  Handover<EntryBlock> full_{kBlocks};
  Handover<EntryBlock> spare_{kBlocks};
  // Each thread writes to its own cache lines.
  alignas(kCacheLine) EntryBlock filling_{};  // the thread's
  alignas(kCacheLine) EntryBlock block_{};    // the caller's
  std::size_t at_ = 0;                        // the next entry in it
  std::thread thread_;
};

void ReadAhead::work() {
  for (;;) {
    const Result<std::optional<Entry>> next = source_->next();
    const Entry* const entry = entry_of(next);
    const std::size_t size = entry != nullptr ? entry->document.bytes().size() : 0;
    if (!filling_.rows.empty() && !filling_.has_room(size, source_->name()) && !pass()) return;
    filling_.name = source_->name();
    filling_.done = source_->done();
    if (entry == nullptr) {
      const bool more = !next && source_->goes_on();
      filling_.end = next;
      filling_.goes_on = more;
      if (!pass() || !more) return;
    } else if (size > kBlockBytes) {
      filling_.rows.emplace_back(*entry, source_->offset());
      if (!pass() || !wait()) return;
    } else {
      filling_.copy(*entry, source_->offset());
    }
  }
}

bool ReadAhead::pass() {
  if (!full_.give(std::move(filling_))) return false;
  std::optional<EntryBlock> spare = spare_.take();
  if (!spare) return false;
  filling_ = *std::move(spare);
  filling_.clear();
  return true;
}

bool ReadAhead::wait() {
  std::vector<EntryBlock> others;
  while (others.size() + 1 < kBlocks) {
    std::optional<EntryBlock> block = spare_.take();
    if (!block) return false;
    others.push_back(*std::move(block));
  }
  for (EntryBlock& block : others) spare_.give(std::move(block));
  return true;
}

}  // namespace

std::unique_ptr<OplogSource> read_ahead(std::unique_ptr<OplogSource> source) {
  return std::make_unique<ReadAhead>(std::move(source));
}

}  // namespace idmint::restore
