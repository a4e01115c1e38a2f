#include "restore/keep/keep.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/shell.h"
#include "restore/backup/base.h"
#include "restore/backup/dump.h"
#include "restore/collections.h"
#include "restore/oplog/follow.h"
#include "restore/oplog/reader.h"
#include "restore/output_file.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr std::uint32_t kRestAfterFailure = 60;  // seconds
constexpr const char* kRemoving = ".removing-";
constexpr const char* kPartial = ".partial";

// "20261128-101500"; with a number behind it where the folder has that already.
std::string path_of_base(const std::string& folder, Timestamp at) {
  std::string name = print_seconds(at);
  std::erase_if(name, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
  std::ranges::replace(name, 'T', '-');
  const std::string plain = std::string(folder).append("/").append(name);
  std::string path = plain;
  std::error_code failed;
  for (int number = 2; fs::exists(path, failed); ++number)
    path = std::string(plain).append("-").append(std::to_string(number));
  return path;
}

// Does one long work at a time in a thread of its own. Its result is a sentence to tell.
class Work {
 public:
  using Do = std::function<Result<std::string>(const std::atomic<bool>& stop)>;

  Work() = default;
  ~Work() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  [[nodiscard]] bool is_busy() const { return thread_.joinable(); }
  void start(Do work) {
    thread_ = std::thread([this, work = std::move(work)] {
      Result<std::string> done = work(stop_);
      const std::lock_guard lock(mutex_);
      done_.emplace(std::move(done));
      ended_.notify_all();
    });
  }
  // nullopt: nothing has ended since.
  [[nodiscard]] std::optional<Result<std::string>> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!done_) return std::nullopt;
    }
    thread_.join();
    return std::exchange(done_, std::nullopt);
  }
  void stop() { stop_ = true; }
  // The same, after a while if need be.
  [[nodiscard]] std::optional<Result<std::string>> take_within(std::chrono::milliseconds most) {
    {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, most, [this] { return done_.has_value(); });
    }
    return take();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<std::string>> done_{};  // under mutex_
  std::thread thread_;
};

// For long reads and dumps.
Result<void> unless(const std::atomic<bool>& stop) {
  if (!stop) return {};
  return fail(Code::kUnavailable, "stopped");
}

Result<std::string> make_base(const KeepOptions& options, const std::string& path,
                              const std::atomic<bool>& stop) {
  Result<Server> server = Server::connect(options.uri, options.connect);
  if (!server) return error_in(server);
  const Result<DumpFacts> made =
      dump(*std::move(server),
           {.path = path,
            .form = BackupForm::kFolder,
            .gzip = options.gzip,
            .excluded = options.excluded},
           [&](std::int64_t, std::int64_t) { return unless(stop); }, {.readers = options.readers});
  if (!made) return error_in(made);
  std::string told = "made a base of " + print_seconds(made->last) + ", with " +
                     print_count(static_cast<std::uint64_t>(made->documents), "document");
  for (const std::string& note : made->notes) told += "; " + note;
  return told;
}

Result<void> remove_all(const std::string& path) {
  const fs::path from = path;
  const fs::path to = from.parent_path() / (kRemoving + from.filename().string());
  std::error_code failed;
  if (!fs::exists(from, failed)) return {};
  fs::rename(from, to, failed);
  if (!failed) fs::remove_all(to, failed);
  if (!failed) return {};
  return fail(Code::kUnavailable, "cannot remove " + shell_word(path) + ": " + failed.message());
}

// Gives it a name under which nothing is used.
Result<void> set_aside(const std::string& path) {
  std::error_code failed;
  fs::rename(path, path + ".damaged", failed);
  if (!failed) return {};
  return fail(Code::kUnavailable, "cannot rename " + shell_word(path) + ": " + failed.message());
}

// Removes the older one, once the newer one proves whole. Empty: a restore uses the older one.
Result<std::string> replace_base(const KeptBase& old, const KeptBase& next,
                                 const std::atomic<bool>& stop) {
  const Result<FileLock> lock = lock_to_remove(old);
  if (!lock && lock.error().code == Code::kFailedPrecondition) return std::string();
  if (!lock) return error_in(lock);
  const Result<std::unique_ptr<BaseBackup>> base = open_base(next.path);
  Result<void> whole =
      base ? (*base)->check([&](std::uint64_t) { return unless(stop); }) : error_in(base);
  if (!whole && whole.error().code == Code::kUnavailable) return error_in(whole);
  if (!whole) {
    if (Result<void> aside = set_aside(next.path); !aside) return error_in(aside);
    return fail(Code::kDataLoss,
                "the base of " + print_seconds(next.last) +
                    " is damaged, and those before it stay: " + whole.error().message());
  }
  if (Result<void> removed = remove_all(old.path); !removed) return error_in(removed);
  if (Result<void> removed = remove_all(lock_of_base(old.path)); !removed) return error_in(removed);
  return "removed the base of " + print_seconds(old.last);
}

// The UUID of config.transactions, which each set makes for itself and all members have. Empty: the
// user may not see it, or it is not there yet.
Result<std::string> id_of_set(Server& server) {
  const Bson list = Bson("listCollections", 1, "filter", Bson("name", "transactions"));
  const Result<Bson> reply = server.read("config", list);
  if (!reply && reply.error().code == Code::kPermissionDenied) return std::string();
  if (!reply) return error_in(reply);
  std::string id;
  reply->view().each_found([&](const Document& row) { id = facts_of("config", row).uuid; });
  return id;
}

class Keeping final : public Observer {
 public:
  Keeping(const KeepOptions& options, Kept kept, Observer& observer)
      : options_(options), kept_(std::move(kept)), observer_(observer) {}

  Result<Kept> run() {
    Result<void> done = remove_left();
    if (done) done = follow();
    if (done && options_.once) done = do_what_is_due();
    dump_.reset();
    if (Result<void> read = refresh(); !read && done) done = std::move(read);
    if (done) return std::move(kept_);
    add_outcome(done.error(), kept_.in_words());
    return error_in(done);
  }

  bool stopped() const override { return observer_.stopped(); }
  // A connection is made again.
  void notice(std::string_view what) override {
    if (std::exchange(told_, what) == what) return;
    observer_.notice(std::string(what) + "; " + kept_.in_words());
  }

 private:
  Result<OplogDump*> synced(OplogDump& dump) {
    newest_ = dump.synced().value_or(newest_);
    told_.clear();
    if (is_full(dump))
      if (Result<void> rotated = rotate(); !rotated) return error_in(rotated);
    if (!options_.once)
      if (Result<void> tended = tend(); !tended) return error_in(tended);
    return dump_.get();
  }

  // Follows the oplog until the end or a stop, over what is missing.
  Result<void> follow() {
    for (;;) {
      if (Result<void> opened = open_slice(); !opened) return opened;
      Result<void> followed =
          follow_oplog({.uri = options_.uri,
                        .connect = options_.connect,
                        .follow = !options_.once,
                        .begin = dump_->last() ? std::nullopt : begin_,
                        .synced = [this](OplogDump& dump) { return synced(dump); }},
                       *dump_, *this);
      if (followed || followed.error().code != Code::kOutOfRange || !dump_->last()) return followed;
      if (Result<void> sealed = dump_->seal(); !sealed) return sealed;
      dump_.reset();
      if (Result<void> read = refresh(); !read) return read;
      observer_.notice("entries are missing: " + followed.error().message() + "; " +
                       kept_.in_words() + "; a new base is made at once");
      is_broken_ = true;
    }
  }

  // Goes on with the newest slice, or begins with the newest entry, at first and where entries are
  // missing.
  Result<void> open_slice() {
    if (dump_) return {};
    if (Result<void> read = refresh(); !read) return read;
    std::string path = kept_.slices.empty() ? std::string() : kept_.slices.back().path;
    begin_.reset();
    if (path.empty() || is_broken_) {
      Result<Member> member = connect_to_oplog(options_.uri, options_.connect);
      if (!member) return error_in(member);
      const Result<OplogWindow> window = oplog_window(*member);
      if (!window) return error_in(window);
      begin_ = OplogBegin{.at = window->last};
      path = kept_.oplog_folder() + "/" + slice_name(window->last);
      is_broken_ = false;
    }
    Result<OplogDump> opened = OplogDump::open(path);
    if (!opened && opened.error().code == Code::kDataLoss) {
      // Its entries are read again after the slice before it, if the oplog has them yet.
      if (Result<void> aside = set_aside_slice(path, opened.error().message()); !aside)
        return aside;
      return open_slice();
    }
    if (!opened) return error_in(opened);
    dump_ = std::make_unique<OplogDump>(*std::move(opened));
    return {};
  }
  Result<void> set_aside_slice(const std::string& path, const std::string& why) {
    if (Result<void> aside = set_aside(path); !aside) return aside;
    std::error_code ignored;
    fs::rename(checksums_beside(path), checksums_beside(path) + ".damaged", ignored);
    observer_.notice("a slice is set aside: " + why);
    return {};
  }

  [[nodiscard]] bool is_full(const OplogDump& dump) const {
    const Timestamp first = dump.first().value_or(Timestamp{});
    const Timestamp last = dump.synced().value_or(first);
    std::error_code failed;
    const std::uintmax_t bytes = fs::file_size(dump.path(), failed);
    return first != last && (std::int64_t{last.seconds} - first.seconds >= options_.slice.count() ||
                             (!failed && bytes >= options_.slice_bytes));
  }

  // Begins the next slice with the last entry of this one.
  Result<void> rotate() {
    const Timestamp last = dump_->last().value_or(Timestamp{});
    const std::vector<std::uint8_t> entry = dump_->last_entry();
    if (Result<void> sealed = dump_->seal(); !sealed) return sealed;
    Result<OplogDump> next = OplogDump::open(kept_.oplog_folder() + "/" + slice_name(last));
    if (!next) return error_in(next);
    if (Result<void> added = next->append(last, Document::of(entry)); !added) return added;
    if (Result<void> synced = next->sync(); !synced) return synced;
    dump_ = std::make_unique<OplogDump>(*std::move(next));
    return refresh();
  }

  // The moment from which on no entry is missing.
  [[nodiscard]] Timestamp unbroken() const {
    const std::vector<Hole> holes = kept_.holes();
    if (!holes.empty()) return holes.back().before;
    return kept_.slices.empty() ? Timestamp{} : kept_.slices.front().first;
  }
  // Nothing that comes now can be restored.
  [[nodiscard]] bool lacks_base() const {
    return kept_.bases.empty() || kept_.bases.back().last < unbroken();
  }
  // The clock of the set says when.
  [[nodiscard]] bool is_base_due() const {
    return lacks_base() || std::int64_t{newest_.seconds} - kept_.bases.back().last.seconds >=
                               options_.every.count();
  }
  // Both clocks say so: one that is wrong removes nothing.
  [[nodiscard]] bool is_one_too_many() const {
    const std::int64_t now = std::min(
        std::int64_t{newest_.seconds},
        std::int64_t{
            std::chrono::floor<seconds>(options_.clock->now()).time_since_epoch().count()});
    return kept_.bases.size() > 1 && kept_.bases[1].last.seconds < now - options_.keep.count() &&
           std::ranges::any_of(kept_.reaches(), [](const Reach& each) { return each.base == 1; });
  }

  // False: nothing is due. Bases and removals take turns, so that neither waits for the other.
  [[nodiscard]] bool start_what_is_due() {
    const bool removes =
        !lacks_base() && is_one_too_many() && newest_.seconds >= no_removal_before_;
    const bool makes = is_base_due() && newest_.seconds >= no_base_before_;
    if (!removes && !makes) return false;
    is_removal_ = removes && (!makes || !is_removal_);
    if (is_removal_) {
      work_.start([old = kept_.bases[0], next = kept_.bases[1]](const std::atomic<bool>& stop) {
        return replace_base(old, next, stop);
      });
      return true;
    }
    work_.start([this, path = path_of_base(kept_.bases_folder(), newest_)](
                    const std::atomic<bool>& stop) -> Result<std::string> {
      Result<std::string> made = make_base(options_, path, stop);
      if (!made) made.error() = in_context("no base was made", std::move(made.error()));
      return made;
    });
    return true;
  }

  // Tells the result of the work. A failed one is tried again after a rest.
  Result<void> end_work(const Result<std::string>& done) {
    if (done && !done->empty()) observer_.notice(*done);
    if (!done && !stopped()) {
      failed_ = done.error();
      observer_.notice(failed_->message() + "; it is tried again in a minute; " + kept_.in_words());
    }
    if (Result<void> read = refresh(); !read) return read;
    // A base of a member that is behind may not be of use yet.
    const bool rests = !done || done->empty() || (!is_removal_ && lacks_base());
    (is_removal_ ? no_removal_before_ : no_base_before_) =
        rests ? newest_.seconds + kRestAfterFailure : 0;
    return remove_slices();
  }

  // While it follows.
  Result<void> tend() {
    if (const std::optional<Result<std::string>> done = work_.take())
      if (Result<void> ended = end_work(*done); !ended) return ended;
    if (!work_.is_busy()) static_cast<void>(start_what_is_due());
    return {};
  }

  // After it has followed once. It follows while it makes a base, too.
  Result<void> do_what_is_due() {
    for (;;) {
      if (Result<void> read = refresh(); !read) return read;
      if (!start_what_is_due()) return failed_ ? std::unexpected(*failed_) : Result<void>{};
      std::optional<Result<std::string>> done;
      while (!done) {
        done = work_.take_within(std::chrono::seconds{1});
        if (stopped()) work_.stop();
        if (Result<void> followed = stopped() ? Result<void>{} : follow(); !followed)
          return followed;
      }
      if (Result<void> ended = end_work(*done); !ended || stopped()) return ended;
    }
  }

  Result<void> refresh() {
    Result<Kept> now = read_kept(options_.folder);
    if (!now) return error_in(now);
    kept_ = *std::move(now);
    return {};
  }

  // Removes the slices that no base needs.
  Result<void> remove_slices() {
    while (!kept_.bases.empty() && kept_.slices.size() > 1 &&
           kept_.slices.front().last < kept_.bases.front().last) {
      const std::string& path = kept_.slices.front().path;
      if (Result<void> removed = remove_all(path); !removed) return removed;
      if (Result<void> removed = remove_all(checksums_beside(path)); !removed) return removed;
      kept_.slices.erase(kept_.slices.begin());
    }
    return {};
  }

  // Removes what a killed run has left behind.
  Result<void> remove_left() {
    std::error_code failed;
    for (const std::string& folder : {kept_.bases_folder(), kept_.oplog_folder()}) {
      std::vector<fs::path> left;
      for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
           at.increment(failed)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with(kRemoving) || name.contains(kPartial)) left.push_back(at->path());
      }
      for (const fs::path& each : left) fs::remove_all(each, failed);
    }
    for (const std::string& each : kept_.damaged)
      if (Result<void> aside =
              set_aside_slice(each, each + " is no oplog from the entry that its name says");
          !aside)
        return aside;
    for (const std::string& each : kept_.begun) {
      if (Result<void> removed = remove_all(each); !removed) return removed;
      if (Result<void> removed = remove_all(checksums_beside(each)); !removed) return removed;
    }
    return {};
  }

  const KeepOptions& options_;
  Kept kept_;
  Observer& observer_;
  std::unique_ptr<OplogDump> dump_{};
  std::optional<OplogBegin> begin_{};
  bool is_broken_ = false;
  Timestamp newest_{};                // entry on disk
  bool is_removal_ = false;           // the present work, or the last one
  std::uint32_t no_base_before_ = 0;  // by the clock of the set
  std::uint32_t no_removal_before_ = 0;
  std::optional<Error> failed_{};  // the last failure of the work
  std::string told_{};             // of the present loss of the connection
  Work work_{};                    // destroyed first
};

}  // namespace

Result<Kept> keep_backups(const KeepOptions& options, Observer& observer) {
  Result<Server> server = Server::connect(options.uri, options.connect);
  if (!server) return error_in(server);
  if (server->set_name().empty())
    return fail(Code::kFailedPrecondition,
                server->shown_uri() + " is no replica set, and has no oplog to keep");
  const Result<std::string> id = id_of_set(*server);
  if (!id) return error_in(id);
  if (Result<void> made = make_kept_folder(options.folder); !made) return error_in(made);
  const Result<FileLock> lock = lock_to_keep(options.folder);
  if (!lock) return error_in(lock);
  Result<Kept> kept = make_kept(options.folder, server->set_name(), *id);
  if (!kept) return error_in(kept);
  return Keeping(options, *std::move(kept), observer).run();
}

}  // namespace idmint::restore
