#include "base/data_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/local_disk.h"

namespace idmint {

namespace fs = std::filesystem;

Result<fs::path> data_folder() {
  // The specification says to ignore a relative path in XDG_DATA_HOME.
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/') {
    return fs::path(data) / "idmint";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return fs::path(home) / ".local" / "share" / "idmint";
  }
  return fail(Code::kFailedPrecondition,
              "there is no data folder, because neither XDG_DATA_HOME nor HOME holds an absolute "
              "path: set one, or name the store",
              {.remedy = Remedy::kSetOption, .values = {"store"}});
}

Result<void> can_keep_files(const fs::path& folder) {
  const auto refuse = [&](const fs::path& where, int why) {
    return fail(why == ENOSPC || why == EDQUOT   ? Code::kResourceExhausted
                : why == ENOTDIR || why == ELOOP ? Code::kFailedPrecondition
                                                 : Code::kPermissionDenied,
                "no files can be kept in the data folder " + folder.string() + ": " +
                    (where == folder ? "" : where.string() + ": ") +
                    std::generic_category().message(why) +
                    "; mend that, or choose another folder with XDG_DATA_HOME");
  };
  fs::path at = folder;
  struct stat info{};
  while (::stat(at.c_str(), &info) != 0) {
    if (errno != ENOENT) return refuse(at, errno);
    if (::lstat(at.c_str(), &info) == 0) return refuse(at, ENOENT);  // a link to nothing
    if (!at.has_relative_path()) return refuse(at, ENOENT);
    at = at.parent_path();
  }
  if (!S_ISDIR(info.st_mode)) return refuse(at, ENOTDIR);
  if (::faccessat(AT_FDCWD, at.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0)
    return refuse(at, errno);
  struct statvfs space{};
  if (::statvfs(at.c_str(), &space) == 0) {
    const bool is_root = ::geteuid() == 0;
    const auto blocks = is_root ? space.f_bfree : space.f_bavail;
    const auto files = is_root ? space.f_ffree : space.f_favail;
    if ((space.f_blocks > 0 && blocks == 0) || (space.f_files > 0 && files == 0))
      return refuse(at, ENOSPC);
  }
  return {};
}

Result<void> make_folder(const fs::path& folder) {
  fs::path made;
  for (const fs::path& part : folder) {
    made /= part;
    int why = ::mkdir(made.c_str(), 0700) == 0 ? 0 : errno;
    struct stat info{};
    if (why != 0 && ::stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    // Synced while it is empty, so that later acknowledged data is not lost with its folder.
    if (why == 0) why = sync_folder_of(made.string());
    if (why == 0) continue;
    return fail(why == EACCES || why == EPERM || why == EROFS ? Code::kPermissionDenied
                : why == ENOSPC || why == EDQUOT              ? Code::kResourceExhausted
                                                              : Code::kFailedPrecondition,
                "cannot make the data folder " + made.string() + " (" +
                    std::generic_category().message(why) +
                    "): mend that, choose another place with XDG_DATA_HOME, or name the store",
                {.remedy = Remedy::kSetOption, .values = {"store"}});
  }
  return {};
}

}  // namespace idmint
