#include "restore/oplog/reader.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace idmint::restore {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSliceEnd = ".bson";

// The slices in the folder, in order. Empty: it has none.
std::vector<std::string> slices_in(const fs::path& folder) {
  std::error_code failed;
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (first_of_slice(at->path().filename().string())) found.push_back(at->path().string());
  std::ranges::sort(found);
  return found;
}

Timestamp begin_of(const std::string& path) {
  return first_of_slice(fs::path(path).filename().string()).value_or(Timestamp{});
}

// Leaves the slices that have a part of the span.
void narrow(std::vector<std::string>& slices, const OplogSpan& span) {
  std::erase_if(slices, [&](const std::string& each) { return begin_of(each) > span.to; });
  while (slices.size() > 1 && begin_of(slices[1]) <= span.from) slices.erase(slices.begin());
}

}  // namespace

std::string slice_name(Timestamp first) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%010u-%010u", first.seconds, first.ordinal);
  return std::string(name.data()).append(kSliceEnd);
}

std::optional<Timestamp> first_of_slice(std::string_view file_name) {
  if (!file_name.ends_with(kSliceEnd)) return std::nullopt;
  std::string text(file_name.substr(0, file_name.size() - kSliceEnd.size()));
  std::ranges::replace(text, '-', ':');
  const Result<Timestamp> first = parse_timestamp(text);
  return first && slice_name(*first) == file_name ? std::optional(*first) : std::nullopt;
}

Result<std::vector<std::string>> find_oplog_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector{path};
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "oplog"}) {
    std::vector<std::string> slices = slices_in(folder);
    if (!slices.empty()) return slices;
  }
  std::vector<std::string> found;
  for (const char* const name :
       {"oplog.bson", "oplog.bson.gz", "oplog.rs.bson", "oplog.rs.bson.gz", "local/oplog.rs.bson",
        "local/oplog.rs.bson.gz", "local/oplog.bson"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, error)) found.push_back(file.string());
  }
  if (found.empty())
    return fail(Code::kNotFound,
                "no oplog in " + path + ": neither oplog.bson nor local/oplog.rs.bson is there");
  if (found.size() > 1)
    return fail(Code::kFailedPrecondition,
                "two oplogs in " + path + ": name " + found[0] + " or " + found[1]);
  return found;
}

Result<OplogReader> OplogReader::open(const std::string& path, const OplogReadOptions& options) {
  Result<std::vector<std::string>> files = find_oplog_files(path);
  if (!files) return error_in(files);
  const bool is_sliced =
      *files != std::vector{path} && first_of_slice(fs::path(files->front()).filename().string());
  if (is_sliced) narrow(*files, options.span);
  if (files->empty())
    return fail(Code::kOutOfRange,
                "no slice in " + path + " begins before " + print_timestamp(options.span.to));
  std::uint64_t size = 0;
  std::error_code failed;
  for (const std::string& each : *files)
    if (const std::uintmax_t bytes = fs::file_size(each, failed); !failed) size += bytes;
  std::ranges::reverse(*files);
  Result<DocumentReader> reader = DocumentReader::open(files->back());
  if (!reader) return error_in(reader);
  files->pop_back();
  OplogReader oplog(std::move(*reader), *std::move(files), options);
  oplog.size_ = size;
  oplog.is_sliced_ = is_sliced;
  if (Result<void> begun = oplog.begin_file(); !begun) return error_in(begun);
  return oplog;
}

Result<void> OplogReader::begin_file() {
  sum_ = options_.sum;
  if (options_.compare) {
    Result<std::optional<FileSum>> known = sum_of_oplog_dump(reader_.path());
    if (!known) return error_in(known);
    sum_ = *std::move(known);
  }
  // A copy may have newer checksums than the slice that it was made of.
  if (sum_ && is_newest() && sum_->bytes > reader_.size()) {
    lacking_ = sum_->bytes - reader_.size();
    sum_.reset();
  }
  if (sum_) reader_.hash_first(sum_->bytes);
  return {};
}

Result<void> OplogReader::end_file() {
  has_checksums_ = has_checksums_ && sum_.has_value();
  if (!sum_) return {};
  const FileSum is{.bytes = std::min(reader_.size(), sum_->bytes), .sha256 = reader_.sha256()};
  if (Result<void> same = check_sum(reader_.path(), is, *sum_); !same) return same;
  unchecked_ += reader_.size() - sum_->bytes;
  return {};
}

Result<bool> OplogReader::next_file() {
  if (Result<void> ended = end_file(); !ended) return error_in(ended);
  sum_.reset();
  if (rest_.empty()) return false;
  before_ += reader_.size();
  Result<DocumentReader> next = DocumentReader::open(rest_.back());
  if (!next) return error_in(next);
  rest_.pop_back();
  reader_ = std::move(*next);
  overlaps_ = true;
  if (Result<void> begun = begin_file(); !begun) return error_in(begun);
  return true;
}

bool OplogReader::may_end_here() const {
  return is_newest() && reader_.is_cut() && (!sum_ || reader_.position() >= sum_->bytes);
}

Result<std::optional<Entry>> OplogReader::next() {
  const auto with_last = [this](Error error) {
    add_outcome(error, last_ == Timestamp{} ? "no entry before it is good"
                                            : "the last good entry is " + print_timestamp(last_));
    return error;
  };
  const Result<std::optional<Document>> read = reader_.next();
  goes_on_ = read.has_value();
  if (!read) {
    Error error = read.error();
    if (error.code == Code::kDataLoss && may_end_here()) {
      if (Result<void> ended = end_file(); !ended) return error_in(ended);
      return std::nullopt;
    }
    if (error.code == Code::kDataLoss) error = with_last(std::move(error));
    return std::unexpected(std::move(error));
  }
  const std::optional<Document>& document = *read;
  if (!document) {
    const Result<bool> more = next_file();
    if (!more) return error_in(more);
    return *more ? next() : std::optional<Entry>();
  }
  Result<Entry> entry = parse_entry(*document);
  if (!entry)
    return std::unexpected(
        with_last(at_place(reader_.path() + ", byte " + std::to_string(offset()), entry.error())));
  if (std::exchange(overlaps_, false) && last_ != Timestamp{}) {
    if (entry->at.ts == last_) return next();
    if (!options_.over_holes)
      return fail(Code::kOutOfRange, "entries are missing between " + print_timestamp(last_) +
                                         " and " + print_timestamp(entry->at.ts) + ", where " +
                                         reader_.path() +
                                         " begins: only what is before, or after, can be restored");
  }
  last_ = entry->at.ts;
  return *std::move(entry);
}

}  // namespace idmint::restore
