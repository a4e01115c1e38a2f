// A file that a command writes for people or other commands: a picture, a page, a list.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// Written beside its path and renamed to it when it is whole, so that an older file is replaced or
// stays as it was. No symbolic link is followed. A path in /dev is written in place.
class ReportFile {
 public:
  // Makes PATH.partial, so that a path that cannot be written is known at once. kAlreadyExists: the
  // path is a symbolic link, or PATH.partial is there. kFailedPrecondition, kPermissionDenied,
  // kResourceExhausted: it cannot be made.
  [[nodiscard]] static Result<ReportFile> open(std::string path);
  ~ReportFile();
  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&&) = delete;

  // All of its content. Called once. kResourceExhausted: the disk is full. kUnavailable: any other
  // failure.
  [[nodiscard]] Result<void> finish(std::string_view content);

 private:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::string partial_;  // empty: written in place, or finished
  int fd_ = -1;
};

}  // namespace idmint
