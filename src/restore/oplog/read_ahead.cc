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

class ReadAhead final : public OplogSource {
 public:
  explicit ReadAhead(std::unique_ptr<OplogSource> source) : source_(std::move(source)) {
    for (std::size_t i = 0; i < kBlocks; ++i) spare_.give({});
    thread_ = std::thread([this] { work(); });
  }
  ~ReadAhead() override {
    full_.close();
    spare_.close();
    thread_.join();
  }

  Result<std::optional<Entry>> next() override {
    while (!block_ || at_ == block_->rows.size()) {
      if (block_ && block_->end)
        return block_->goes_on ? *std::exchange(block_->end, std::nullopt) : *block_->end;
      if (block_) spare_.give(*std::move(block_));
      block_ = full_.take();
      at_ = 0;
    }
    return block_->rows[at_++].entry;
  }
  bool goes_on() const override { return block_ && block_->goes_on; }
  const std::string& name() const override { return block_ ? block_->name : first_name_; }
  std::optional<std::uint64_t> offset() const override {
    return at_ == 0 ? std::nullopt : block_->rows[at_ - 1].offset;
  }
  std::string_view unit() const override { return source_->unit(); }
  std::int64_t done() const override { return block_ ? block_->done : 0; }
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
  const std::string first_name_ = source_->name();
  Handover<EntryBlock> full_{kBlocks};
  Handover<EntryBlock> spare_{kBlocks};
  // Each thread writes to its own cache lines.
  alignas(kCacheLine) std::optional<EntryBlock> filling_{};  // the thread's
  alignas(kCacheLine) std::optional<EntryBlock> block_{};    // the caller's
  std::size_t at_ = 0;                                       // the next entry in it
  std::thread thread_;
};

void ReadAhead::work() {
  filling_ = spare_.take();
  while (filling_) {
    const Result<std::optional<Entry>> next = source_->next();
    const bool is_entry = next && *next;
    const std::size_t size = is_entry ? (*next)->document.bytes().size() : 0;
    const bool passes = !filling_->rows.empty() && !filling_->has_room(size, source_->name());
    if (passes && !pass()) return;
    filling_->name = source_->name();
    filling_->done = source_->done();
    if (!is_entry) {
      filling_->end = next;
      filling_->goes_on = !next && source_->goes_on();
      const bool more = filling_->goes_on;
      if (!pass() || !more) return;
    } else if (size > kBlockBytes) {
      filling_->rows.emplace_back(**next, source_->offset());
      if (!pass() || !wait()) return;
    } else {
      filling_->copy(**next, source_->offset());
    }
  }
}

bool ReadAhead::pass() {
  if (!full_.give(*std::move(filling_))) return false;
  filling_ = spare_.take();
  if (filling_) filling_->clear();
  return filling_.has_value();
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
