#include "ids/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

// The next results of the disk. The functions below come before the C library's in this program.
namespace {

std::atomic<int> fdatasync_calls{0};
std::atomic<int> fdatasync_error{0};
std::atomic<bool> sync_for_nothing{false};  // for tests of what is read back only
std::atomic<int> pwrite_error{0};
std::atomic<int> pwrites_before_error{0};
std::atomic<std::size_t> pwrite_most{0};  // bytes that one call writes; 0: all
std::atomic<long> file_system{0};         // 0: what it is

}  // namespace

extern "C" int fdatasync(int fd) {
  ++fdatasync_calls;
  if (const int error = fdatasync_error.load(); error != 0) {
    errno = error;
    return -1;
  }
  return sync_for_nothing ? 0 : static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  if (const int error = pwrite_error.load(); error != 0 && pwrites_before_error-- <= 0) {
    errno = error;
    return -1;
  }
  if (const std::size_t most = pwrite_most.load(); most != 0) size = std::min(size, most);
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}

extern "C" int fstatfs(int fd, struct statfs* out) noexcept {
  const int result = static_cast<int>(::syscall(SYS_fstatfs, fd, out));
  if (const long type = file_system.load(); type != 0) out->f_type = type;
  return result;
}

namespace idmint {
namespace {

namespace fs = std::filesystem;
using fakes::code_of;
using fakes::in_child;
using testing::HasSubstr;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFileSize = 4 * kPage;
constexpr std::size_t kRecord = 336;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// In place where the size is the same: a file that is truncated costs a flush when it is closed.
void write_all(const fs::path& path, const std::string& content) {
  std::error_code missing;
  const bool same_size = fs::file_size(path, missing) == content.size();
  std::ofstream(path, std::ios::binary | (same_size ? std::ios::in : std::ios::trunc)) << content;
}

class StateFileTest : public testing::Test {
 protected:
  StateFileTest() {
    std::string pattern = (fs::temp_directory_path() / "idmint-state-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    options_ = {.path = folder_ / "worker-5", .id_space = "layout A, worker 5", .window = 1000};
    fdatasync_calls = 0;
  }
  ~StateFileTest() override {
    fdatasync_error = 0;
    sync_for_nothing = false;
    pwrite_error = 0;
    pwrite_most = 0;
    file_system = 0;
    fs::remove_all(folder_);
  }

  Result<std::unique_ptr<StateFile>> open() { return StateFile::open(options_, entropy_); }

  // A file whose last acknowledged bound is the result.
  std::int64_t used_up_to(std::int64_t tick) { return (*open())->extend(tick).value(); }

  fs::path folder_;
  StateFileOptions options_;
  fakes::ScriptedEntropy entropy_;
};

TEST_F(StateFileTest, IsMadeOnFirstUseForItsOwnerOnly) {
  const auto file = open();
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE((*file)->made());
  EXPECT_EQ((*file)->minted_until(), 0);
  EXPECT_EQ(fs::file_size(options_.path), kFileSize);
  struct stat status{};
  ASSERT_EQ(::stat(options_.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(StateFileTest, KeepsTheBound) {
  const std::int64_t bound = used_up_to(100);
  EXPECT_EQ(bound, 101);
  const auto again = open();
  ASSERT_TRUE(again);
  EXPECT_FALSE((*again)->made());
  EXPECT_EQ((*again)->minted_until(), bound);
}

TEST_F(StateFileTest, ReachesTwiceAsFarEachTimeUpToTheWindow) {
  const auto file = open();
  std::int64_t tick = 10;
  for (const std::int64_t reach : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}) {
    const auto bound = (*file)->extend(tick);
    ASSERT_TRUE(bound);
    EXPECT_EQ(*bound, tick + reach);
    tick = *bound;
  }
  EXPECT_EQ(fdatasync_calls, 12);
}

TEST_F(StateFileTest, IsReadWhileAnotherHoldsIt) {
  const auto file = open();
  ASSERT_TRUE(file);
  EXPECT_EQ(read_state_file(options_.path)->minted_until, 0);
  const std::int64_t bound = (*file)->extend(1000).value();
  const auto content = read_state_file(options_.path);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->minted_until, bound);
  EXPECT_EQ(content->id_space, options_.id_space);
  EXPECT_EQ(read_state_file(folder_ / "none").error().code, Code::kFailedPrecondition);
  std::ofstream(folder_ / "text") << "no state file";
  EXPECT_EQ(read_state_file(folder_ / "text").error().code, Code::kDataLoss);
}

TEST_F(StateFileTest, ItsErrorsSayWhatItIsOf) {
  std::ofstream(options_.path) << "no state file";
  const auto of = [&](std::string_view owner) {
    options_.owner = owner;
    return open().error().message();
  };
  EXPECT_NE(of("worker id").find("use a worker id that was never used before"), std::string::npos);
  EXPECT_NE(of("node").find("every id minted for this node"), std::string::npos);
  EXPECT_EQ(of("local id").find("worker id"), std::string::npos);
}

TEST_F(StateFileTest, WordsThatWereSetAreWrittenWithTheNextBound) {
  const auto file = open();
  file.value()->set_words({42, 7});
  ASSERT_TRUE((*file)->extend(1000));
  EXPECT_EQ(read_state_file(options_.path)->words, (OwnersWords{42, 7}));
}

TEST_F(StateFileTest, ABoundNeverFalls) {
  const auto file = open();
  std::int64_t highest = 0;
  for (const std::int64_t tick : {500, 20, 501, 1, 0}) {
    const auto bound = (*file)->extend(tick);
    ASSERT_TRUE(bound);
    EXPECT_GT(*bound, tick);
    EXPECT_GE(*bound, highest);
    highest = *bound;
  }
}

TEST_F(StateFileTest, GivesNothingBelowTheBoundItFound) {
  used_up_to(100);
  const auto file = open();
  EXPECT_EQ((*file)->extend(100).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*file)->extend(101), 102);
}

TEST_F(StateFileTest, KeepsTheOwnersWords) {
  options_.words = {7, 8};
  {
    ASSERT_TRUE(open());
  }
  options_.words = {9, 10};  // nobody has used the file yet
  {
    const auto file = open();
    EXPECT_TRUE((*file)->made());
    EXPECT_EQ((*file)->words(), (OwnersWords{9, 10}));
    ASSERT_TRUE((*file)->extend(100));
  }
  options_.words = {11, 12};
  const auto file = open();
  EXPECT_EQ((*file)->words(), (OwnersWords{9, 10}));
  ASSERT_TRUE((*file)->extend(101));
}

TEST_F(StateFileTest, OtherWordsBeginABoundOfTheirOwn) {
  used_up_to(100);
  {
    const auto file = open();
    EXPECT_EQ((*file)->set_apart({1, 2}, 50), 51);
    EXPECT_EQ((*file)->words(), (OwnersWords{1, 2}));
    EXPECT_EQ((*file)->extend(51), 53);
  }
  const auto file = open();
  EXPECT_EQ((*file)->words(), (OwnersWords{1, 2}));
  EXPECT_EQ((*file)->minted_until(), 53);
  EXPECT_EQ((*file)->extend(52).error().code, Code::kInvalidArgument);
}

TEST_F(StateFileTest, OtherWordsAreSyncedBeforeTheyAreAnswered) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(100));
  const int before = fdatasync_calls;
  ASSERT_TRUE((*file)->set_apart({1, 2}, 50));
  EXPECT_EQ(fdatasync_calls, before + 1);
  fdatasync_error = EIO;
  EXPECT_EQ((*file)->set_apart({1, 3}, 20).error().code, Code::kUnknown);
  EXPECT_EQ((*file)->words(), (OwnersWords{1, 2}));
  fdatasync_error = 0;
  EXPECT_EQ((*file)->set_apart({1, 3}, 20).error().code, Code::kUnavailable);
}

TEST_F(StateFileTest, OtherWordsThatFailedLeaveTheOldOnes) {
  const auto file = open();
  const std::int64_t bound = (*file)->extend(100).value();
  for (const int written : {0, 1}) {
    pwrites_before_error = written;
    pwrite_error = ENOSPC;
    EXPECT_EQ((*file)->set_apart({1, 2}, 50).error().code, Code::kResourceExhausted);
    pwrite_error = 0;
    EXPECT_EQ((*file)->words(), OwnersWords{});
  }
  EXPECT_GT((*file)->extend(bound).value(), bound);
  const std::string whole = read_all(options_.path);
  ASSERT_TRUE((*file)->set_apart({1, 2}, 50));
  EXPECT_EQ((*file)->words(), (OwnersWords{1, 2}));
  write_all(options_.path, whole);
  EXPECT_EQ((*file)->set_apart({1, 3}, 20).error().code, Code::kDataLoss);
  EXPECT_EQ(in_child([&] { return code_of((*file)->set_apart({1, 3}, 20)); }),
            Code::kFailedPrecondition);
}

// As the one below for a bound that grows, for a bound that falls: what is read is the one or the
// other as a whole.
TEST_F(StateFileTest, OtherWordsCutAtAnyByteAreTheOldOnesOrTheNew) {
  const std::int64_t acknowledged = used_up_to(100);
  const std::string before = read_all(options_.path);
  const std::int64_t fresh = (*open())->set_apart({1, 2}, 50).value();
  const std::string after = read_all(options_.path);
  int kept = 0;
  int taken = 0;
  for (std::size_t page = 0; page < 4; ++page) {
    if (before.compare(page * kPage, kPage, after, page * kPage, kPage) == 0) continue;
    for (std::size_t cut = 0; cut <= kRecord; ++cut) {
      std::string content = before;
      content.replace(page * kPage, cut, after, page * kPage, cut);
      write_all(options_.path, content);
      const auto file = open();
      ASSERT_TRUE(file) << cut << ": " << file.error().message();
      const bool old = (*file)->words() == OwnersWords{};
      ASSERT_EQ((*file)->words(), old ? OwnersWords{} : (OwnersWords{1, 2})) << cut;
      ASSERT_EQ((*file)->minted_until(), old ? acknowledged : fresh) << cut;
      ++(old ? kept : taken);
    }
  }
  EXPECT_GT(kept, 600);
  EXPECT_EQ(taken, 2);
}

TEST_F(StateFileTest, SyncsBeforeItAnswers) {
  const auto file = open();
  const int before = fdatasync_calls;
  ASSERT_TRUE((*file)->extend(1));
  EXPECT_EQ(fdatasync_calls, before + 1);
}

TEST_F(StateFileTest, ASecondHolderIsRefused) {
  const auto first = open();
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr(options_.path.string()));
}

TEST_F(StateFileTest, TheLockIsWaitedForUntilTheCallHasToEnd) {
  const auto first = open();
  options_.lock_wait = std::chrono::hours{1};
  options_.until = std::chrono::steady_clock::now() + std::chrono::milliseconds{20};
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now(), options_.until) << "not before that";
}

TEST_F(StateFileTest, ASecondHolderGetsItWhenTheFirstLetsGo) {
  auto first = open();
  options_.lock_wait = std::chrono::seconds{60};
  std::atomic<bool> let_go{false};
  std::thread waiter([&] {
    const auto second = open();
    EXPECT_TRUE(second);
    EXPECT_TRUE(let_go);
  });
  let_go = true;
  first->reset();
  waiter.join();
}

TEST_F(StateFileTest, ThoseWhoMakeItAtOnceAgreeOnOneFile) {
  options_.lock_wait = std::chrono::seconds{60};
  for (int round = 0; round < 20; ++round) {
    fs::remove(options_.path);
    constexpr int starters = 4;
    std::barrier at_once(starters);
    std::atomic<int> makers{0};
    std::vector<std::int64_t> bounds(starters);
    std::vector<std::thread> threads;
    for (int i = 0; i < starters; ++i) {
      threads.emplace_back([&, i] {
        at_once.arrive_and_wait();
        const auto file = open();
        ASSERT_TRUE(file) << file.error().message();
        makers += (*file)->made() ? 1 : 0;
        bounds[static_cast<std::size_t>(i)] = (*file)->extend((*file)->minted_until()).value();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(makers, 1);
    std::ranges::sort(bounds);
    EXPECT_EQ(bounds, (std::vector<std::int64_t>{1, 2, 3, 4}));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  }
}

TEST_F(StateFileTest, AnotherIdSpaceIsRefused) {
  used_up_to(100);
  const std::string before = read_all(options_.path);
  options_.id_space = "layout A, worker 6";
  const auto file = open();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(file.error().message(), HasSubstr("layout A, worker 5"));
  EXPECT_EQ(read_all(options_.path), before);
}

TEST_F(StateFileTest, NetworkFileSystemsAreRefused) {
  for (const long type : {0x6969L, 0x517bL, 0xff534d42L, 0xfe534d42L, 0x65735546L}) {
    file_system = type;
    EXPECT_EQ(open().error().code, Code::kFailedPrecondition);
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

TEST_F(StateFileTest, AFileWithASecondNameIsRefused) {
  ASSERT_TRUE(open().has_value());
  fs::create_hard_link(options_.path, folder_ / "link");
  const auto refused = open();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("another name"));
  EXPECT_EQ(read_state_file(options_.path).error().code, Code::kFailedPrecondition);
  fs::remove(folder_ / "link");
  EXPECT_TRUE(open().has_value());
}

TEST_F(StateFileTest, AMissingFolderIsNamed) {
  options_.path = folder_ / "none" / "worker-5";
  const auto file = open();
  EXPECT_EQ(file.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(file.error().message(), HasSubstr(options_.path.string()));
}

TEST_F(StateFileTest, OtherFilesAreRefusedAndLeftAlone) {
  for (const std::string& content :
       {std::string(), std::string("notes"), std::string(kFileSize, 'x'),
        std::string(2 * kFileSize, '\0')}) {
    write_all(options_.path, content);
    EXPECT_EQ(open().error().code, Code::kDataLoss);
    EXPECT_EQ(read_all(options_.path), content);
  }
}

TEST_F(StateFileTest, ANamedPipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(options_.path.c_str(), 0600), 0);
  EXPECT_EQ(open().error().code, Code::kFailedPrecondition);
  const auto read = read_state_file(options_.path, "worker id");
  EXPECT_EQ(read.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(read.error().message(), HasSubstr("no plain file"));
}

TEST_F(StateFileTest, ARemovedFileStopsIt) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(1));
  fs::remove(options_.path);
  EXPECT_EQ((*file)->extend(2).error().code, Code::kDataLoss);
  used_up_to(1);
  EXPECT_EQ((*file)->extend(2).error().code, Code::kDataLoss);
}

TEST_F(StateFileTest, AReplacedFileStopsIt) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(1));
  fs::copy_file(options_.path, folder_ / "copy");
  fs::rename(folder_ / "copy", options_.path);
  EXPECT_EQ((*file)->extend(2).error().code, Code::kDataLoss);
}

TEST_F(StateFileTest, AForeignWriteStopsItForGood) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(1));
  const std::string before = read_all(options_.path);
  ASSERT_TRUE((*file)->extend(2));
  const std::string after = read_all(options_.path);
  write_all(options_.path, before);  // a restored backup, under the same inode
  EXPECT_EQ((*file)->extend(4).error().code, Code::kDataLoss);
  write_all(options_.path, after);
  EXPECT_EQ((*file)->extend(4).error().code, Code::kDataLoss);
}

TEST_F(StateFileTest, AnotherOwnerWhoBrokeTheLockStopsIt) {
  const auto first = open();
  ASSERT_TRUE((*first)->extend(1));
  const fs::path moved = folder_ / "moved";
  fs::copy_file(options_.path, moved);
  StateFileOptions other = options_;
  other.path = moved;
  ASSERT_TRUE((*StateFile::open(other, entropy_))->extend(50));
  write_all(options_.path, read_all(moved));
  EXPECT_EQ((*first)->extend(60).error().code, Code::kDataLoss);
}

// Every way in which the last write may have been cut short: in one or both of the pages, in either
// order, with the old or random bytes behind the cut.
TEST_F(StateFileTest, AWriteCutAtAnyByteNeverTakesTheBoundBack) {
  std::int64_t acknowledged = 0;
  {
    const auto file = open();
    for (int i = 0; i < 4; ++i) acknowledged = (*file)->extend(acknowledged).value();
  }
  const std::string before = read_all(options_.path);
  const std::int64_t unacknowledged = used_up_to(acknowledged);
  const std::string after = read_all(options_.path);
  std::vector<std::size_t> pages;
  for (std::size_t page = 0; page < 4; ++page) {
    if (before.compare(page * kPage, kPage, after, page * kPage, kPage) != 0) pages.push_back(page);
  }
  ASSERT_EQ(pages.size(), 2U);
  ASSERT_EQ(pages[1] - pages[0], 2U) << "the copies of a slot must not be neighbours";
  int recovered = 0;
  sync_for_nothing = true;
  for (std::size_t cut = 0; cut <= kRecord + 1; ++cut) {
    for (const auto& [torn, whole] : {std::pair{0, 1}, std::pair{1, 0}}) {
      for (const bool other_written : {false, true}) {
        for (const bool garbage : {false, true}) {
          std::string content = before;
          const std::size_t at = pages[static_cast<std::size_t>(torn)] * kPage;
          content.replace(at, cut, after, at, cut);
          if (garbage) {
            for (std::size_t i = cut; i < kPage; ++i) content[at + i] = static_cast<char>(i * 37);
          }
          if (other_written) {
            const std::size_t other = pages[static_cast<std::size_t>(whole)] * kPage;
            content.replace(other, kPage, after, other, kPage);
          }
          write_all(options_.path, content);
          const auto file = open();
          ASSERT_TRUE(file) << cut << ": " << file.error().message();
          const std::int64_t bound = (*file)->minted_until();
          ASSERT_TRUE(bound == acknowledged || bound == unacknowledged) << cut << ": " << bound;
          ASSERT_TRUE((*file)->extend(bound));
          ++recovered;
        }
      }
    }
  }
  EXPECT_GT(recovered, 2000);
}

TEST_F(StateFileTest, AWriteLeavesTheRecordBeforeItAlone) {
  const auto file = open();
  std::string before = read_all(options_.path);
  for (std::int64_t tick = 1; tick <= 4; ++tick) {
    ASSERT_TRUE((*file)->extend(tick * 10));
    const std::string after = read_all(options_.path);
    for (std::size_t page = 0; page < 4; ++page) {
      const bool written = static_cast<std::int64_t>(page) % 2 == (tick + 1) % 2;
      EXPECT_EQ(before.compare(page * kPage, kPage, after, page * kPage, kPage) != 0, written);
    }
    before = after;
  }
}

TEST_F(StateFileTest, OneRottenPageOrTwoNeighboursLoseNothing) {
  const std::int64_t bound = used_up_to(77);
  const std::string whole = read_all(options_.path);
  for (const std::size_t size : {kPage, 2 * kPage}) {
    for (std::size_t at = 0; at + size <= kFileSize; at += kPage) {
      for (const char fill : {'\0', '\xff'}) {
        write_all(options_.path, std::string(whole).replace(at, size, size, fill));
        const auto file = open();
        ASSERT_TRUE(file) << at << ": " << file.error().message();
        EXPECT_EQ((*file)->minted_until(), bound);
        EXPECT_TRUE((*file)->extend(bound));
      }
    }
  }
}

TEST_F(StateFileTest, EveryFlippedBitOfARecordIsNoticed) {
  const std::int64_t bound = used_up_to(77);
  const std::string whole = read_all(options_.path);
  // Both copies of slot 1, which holds the newest record: nothing that is left may be trusted.
  for (std::size_t bit = 0; bit < kRecord * 8; ++bit) {
    std::string content = whole;
    for (const std::size_t page : {1U, 3U}) {
      content[page * kPage + bit / 8] =
          static_cast<char>(content[page * kPage + bit / 8] ^ (1 << (bit % 8)));
    }
    write_all(options_.path, content);
    ASSERT_EQ(open().error().code, Code::kDataLoss) << bit;
  }
  write_all(options_.path, whole);
  EXPECT_EQ((*open())->minted_until(), bound);
}

TEST_F(StateFileTest, BothCopiesOfASlotDamagedIsDataLoss) {
  used_up_to(77);
  const std::string whole = read_all(options_.path);
  for (const std::size_t slot : {0U, 1U}) {
    std::string content = whole;
    content.replace(slot * kPage, kPage, kPage, 'x');
    content.replace((slot + 2) * kPage, kPage, kPage, 'x');
    write_all(options_.path, content);
    EXPECT_EQ(open().error().code, Code::kDataLoss);
  }
}

TEST_F(StateFileTest, AFailedSyncPoisonsIt) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(1));
  fdatasync_error = EIO;
  EXPECT_EQ((*file)->extend(2).error().code, Code::kUnknown);
  fdatasync_error = 0;
  const int calls = fdatasync_calls;
  EXPECT_EQ((*file)->extend(2).error().code, Code::kUnavailable);
  EXPECT_EQ((*file)->extend(2).error().code, Code::kUnavailable);
  EXPECT_EQ(fdatasync_calls, calls);
}

TEST_F(StateFileTest, AFullDiskIsSurvived) {
  const auto file = open();
  std::int64_t bound = (*file)->extend(1).value();
  for (const int written : {0, 1}) {
    pwrites_before_error = written;
    pwrite_error = ENOSPC;
    EXPECT_EQ((*file)->extend(bound).error().code, Code::kResourceExhausted);
    pwrite_error = 0;
    const auto extended = (*file)->extend(bound);
    ASSERT_TRUE(extended) << extended.error().message();
    bound = *extended;
  }
}

TEST_F(StateFileTest, AnUnwritableDiskPoisonsIt) {
  const auto file = open();
  pwrite_error = EIO;
  EXPECT_EQ((*file)->extend(1).error().code, Code::kUnknown);
  pwrite_error = 0;
  EXPECT_EQ((*file)->extend(1).error().code, Code::kUnavailable);
}

TEST_F(StateFileTest, ShortWritesAreFinished) {
  pwrite_most = 100;
  const std::int64_t bound = used_up_to(9);
  EXPECT_EQ((*open())->minted_until(), bound);
}

TEST_F(StateFileTest, NoHalfFileIsLeftWhereTheDiskIsFull) {
  std::signal(SIGXFSZ, SIG_IGN);
  in_child([&] {
    const struct rlimit limit{kPage, kPage};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(code_of(open()), Code::kResourceExhausted);
  });
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(StateFileTest, AChildOfForkCannotUseIt) {
  const auto file = open();
  ASSERT_TRUE((*file)->extend(1));
  EXPECT_EQ(in_child([&] { return code_of((*file)->extend(2)); }), Code::kFailedPrecondition);
  EXPECT_EQ((*file)->extend(2), 4);
}

TEST_F(StateFileTest, DestroyedInAChildItKeepsTheParentsLock) {
  auto file = open();
  in_child([&] { file->reset(); });
  EXPECT_EQ(open().error().code, Code::kUnavailable);
}

TEST_F(StateFileTest, AChildThatLivesOnDoesNotKeepAClosedFileLocked) {
  auto file = open();
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  fakes::Child child([&] {
    ::close(gate[1]);
    char byte;
    EXPECT_EQ(::read(gate[0], &byte, 1), 0);  // until the parent closes its end
  });
  ::close(gate[0]);
  file->reset();
  EXPECT_TRUE(open());
  ::close(gate[1]);
  child.get();
}

TEST_F(StateFileTest, OptionsOutOfRangeAreRefused) {
  StateFileOptions bad = options_;
  bad.id_space = "";
  EXPECT_EQ(StateFile::open(bad, entropy_).error().code, Code::kInvalidArgument);
  bad.id_space = std::string(257, 'x');
  EXPECT_EQ(StateFile::open(bad, entropy_).error().code, Code::kInvalidArgument);
  bad = options_;
  bad.window = 0;
  EXPECT_EQ(StateFile::open(bad, entropy_).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace idmint
