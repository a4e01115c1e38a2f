// A file that a command writes for users or other commands: a picture, a page, a list.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// Written beside its path and renamed to it when complete, so an older file is replaced or stays as
// it was. Follows no symbolic link. A path in /dev is written in place.
class ReportFile {
 public:
  // Creates PATH.partial, so that an unwritable path is detected at once.
  // - kAlreadyExists: the path is a symbolic link, or PATH.partial exists.
  // - kFailedPrecondition, kPermissionDenied, kResourceExhausted: it cannot be created.
  [[nodiscard]] static Result<ReportFile> open(std::string path);
  ~ReportFile();
  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&&) = delete;

  // Writes the whole content. Called once. kResourceExhausted: the disk is full. kUnavailable: any
  // other failure.
  [[nodiscard]] Result<void> finish(std::string_view content);

 private:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::string partial_;  // empty: written in place, or finished
  int fd_ = -1;
};

}  // namespace idmint
