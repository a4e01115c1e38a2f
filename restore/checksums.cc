#include "restore/checksums.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/shell.h"
#include "idmint/clock.h"
#include "restore/input_file.h"
#include "restore/output_file.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMark = "idmint_checksums";
constexpr std::size_t kLongest = std::size_t{64} << 20;

Error damaged(const std::string& path, const std::string& why) {
  return {Code::kDataLoss, "the checksums " + shell_word(path) + " are damaged: " + why +
                               "; take another copy of the dump"};
}

Timestamp moment_of(const Json& json, const char* key) {
  const auto at = json.find(key);
  if (at == json.end() || !at->is_string()) return {};
  const Result<Timestamp> moment = parse_timestamp(at->get<std::string>());
  return moment ? *moment : Timestamp{};
}

}  // namespace

std::string checksums_beside(const std::string& path) { return path + ".checksums.json"; }

Result<void> write_checksums(const std::string& path, const Checksums& checksums) {
  Json json = {{kMark, 1},
               {"tool", "idmint-restore " IDMINT_VERSION},
               {"made", format_exact_time(system_clock().now())},
               {"oplog",
                {{"first", print_timestamp(checksums.first)},
                 {"last", print_timestamp(checksums.last)},
                 {"entries", checksums.entries}}},
               {"excluded", checksums.excluded},
               {"files", Json::object()}};
  for (const auto& [name, sum] : checksums.files)
    json["files"][name] = {{"bytes", sum.bytes}, {"sha256", sum.sha256}};
  return replace_file(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<std::optional<Checksums>> read_checksums(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const Result<std::string> text = read_text(path, kLongest);
  if (!text) return error_in(text);
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains(kMark) || json[kMark] != 1 || !json.contains("files") ||
      !json["files"].is_object())
    return std::unexpected(damaged(path, "it is no file of checksums"));
  Checksums all;
  for (const auto& [name, sum] : json["files"].items()) {
    if (!sum.is_object() || !sum.contains("bytes") || !sum["bytes"].is_number_unsigned() ||
        !sum.contains("sha256") || !sum["sha256"].is_string())
      return std::unexpected(damaged(path, shell_word(name) + " has no sum"));
    all.files[name] = {.bytes = sum["bytes"], .sha256 = sum["sha256"]};
  }
  if (json.contains("oplog") && json["oplog"].is_object()) {
    const Json& oplog = json["oplog"];
    all.first = moment_of(oplog, "first");
    all.last = moment_of(oplog, "last");
    if (oplog.contains("entries") && oplog["entries"].is_number_integer())
      all.entries = oplog["entries"];
  }
  if (json.contains("excluded") && json["excluded"].is_array()) {
    for (const Json& pattern : json["excluded"])
      if (pattern.is_string()) all.excluded.push_back(pattern);
  }
  return all;
}

Result<void> check_sum(const std::string& path, const FileSum& is, const FileSum& should_be) {
  if (is.bytes == should_be.bytes && is.sha256 == should_be.sha256) return {};
  const std::string why = is.bytes == should_be.bytes
                              ? std::string("its bytes were changed")
                              : "it has " + std::to_string(is.bytes) + " bytes, and had " +
                                    std::to_string(should_be.bytes);
  return fail(Code::kDataLoss, path + " is not as it was written, by its checksum: " + why +
                                   "; take another copy of the dump");
}

Result<std::optional<FileSum>> sum_of_oplog_dump(const std::string& path) {
  const Result<std::optional<Checksums>> read = read_checksums(checksums_beside(path));
  if (!read) return error_in(read);
  const std::optional<Checksums>& sums = *read;
  if (!sums || sums->files.empty()) return std::nullopt;
  return sums->files.begin()->second;
}

Result<void> check_oplog_dump(const std::string& path) {
  const Result<std::optional<FileSum>> read = sum_of_oplog_dump(path);
  if (!read) return error_in(read);
  const std::optional<FileSum>& should_be = *read;
  if (!should_be) return {};
  const Result<FileSum> is = sum_of_beginning(path, should_be->bytes);
  return is ? check_sum(path, *is, *should_be) : error_in(is);
}

Result<FileSum> sum_of_file(const std::string& path) {
  return sum_of_beginning(path, std::numeric_limits<std::uint64_t>::max());
}

Result<FileSum> sum_of_beginning(const std::string& path, std::uint64_t bytes) {
  const Result<std::unique_ptr<InputFile>> file = InputFile::open(path, InputFile::As::kStored);
  if (!file) return error_in(file);
  (*file)->hash_first(bytes);
  std::vector<std::uint8_t> block(std::size_t{1} << 20);
  while ((*file)->consumed() < bytes) {
    const InputFile::Read read = (*file)->read(block);
    if (read.error != 0) return unreadable(path, read.error);
    if (read.size == 0) break;
  }
  return FileSum{.bytes = std::min((*file)->consumed(), bytes), .sha256 = (*file)->sha256()};
}

}  // namespace idmint::restore
