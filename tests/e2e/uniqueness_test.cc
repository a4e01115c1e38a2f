// Two processes of four threads each mint one format into files; then everything that the files
// hold is sorted outside memory and looked through for a repeat. IDMINT_UNIQUENESS_IDS sets how
// many ids a format mints in all (a million unless set), IDMINT_UNIQUENESS_SECONDS how long
// Snowflake mints at its cap (one second unless set). scripts/test --slow asks for 10^8 and 60.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idmint/object_id.h"
#include "idmint/snowflake.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

constexpr int kProcesses = 2;
constexpr int kThreads = 4;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Everything a thread of a child process does; false when an id was refused or out of order.
template <class T, class Generator>
bool mint(Generator& generator, std::uint64_t count, bool ordered, const fs::path& file) {
  std::ofstream out(file, std::ios::binary);
  std::vector<T> ids(1000);
  T previous{};
  bool fine = true;
  for (std::uint64_t minted = 0; minted < count && fine;) {
    const std::size_t size = std::min<std::uint64_t>(ids.size(), count - minted);
    const std::span<T> batch = std::span(ids).first(size);
    // Every other batch one by one: both ways share the generator's state.
    if (minted / ids.size() % 2 == 0) {
      if constexpr (std::is_void_v<decltype(generator.next(batch))>) {
        generator.next(batch);
      } else {
        fine = generator.next(batch).has_value();
      }
    } else {
      for (T& id : batch) {
        if constexpr (std::is_same_v<decltype(generator.next()), T>) {
          id = generator.next();
        } else {
          const Result<T> next = generator.next();
          if (!next) return false;
          id = *next;
        }
      }
    }
    if (ordered) {
      fine = fine && previous < batch.front() &&
             std::adjacent_find(batch.begin(), batch.end(), std::greater_equal<>{}) == batch.end();
      previous = batch.back();
    }
    out.write(reinterpret_cast<const char*>(batch.data()),
              static_cast<std::streamsize>(size * sizeof(T)));
    minted += size;
  }
  out.close();
  return fine && out.good();
}

// Runs `process` in a child for each number; true when all of them returned true.
bool in_processes(const std::function<bool(int)>& process) {
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(process(p) ? 0 : 1);
    children.push_back(child);
  }
  bool fine = true;
  for (const pid_t child : children) {
    int status = 1;
    fine = ::waitpid(child, &status, 0) == child && status == 0 && fine;
  }
  return fine;
}

bool in_threads(const std::function<bool(int)>& thread) {
  std::atomic<bool> fine{true};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        if (!thread(t)) fine = false;
      });
    }
  }
  return fine;
}

struct Verdict {
  std::uint64_t ids = 0;
  std::uint64_t repeats = 0;
};

// An external sort: the ids are dealt out to one file for each value of their most random byte, and
// the files are sorted one after the other.
template <class T>
Verdict look_for_repeats(const fs::path& folder, std::size_t random_byte) {
  using Bytes = std::array<unsigned char, sizeof(T)>;
  std::array<std::unique_ptr<std::ofstream>, 256> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] =
        std::make_unique<std::ofstream>(folder / ("part." + std::to_string(i)), std::ios::binary);
  }
  Verdict verdict;
  std::vector<Bytes> block(1 << 16);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".ids") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    while (in) {
      in.read(reinterpret_cast<char*>(block.data()),
              static_cast<std::streamsize>(block.size() * sizeof(Bytes)));
      const auto got = static_cast<std::size_t>(in.gcount()) / sizeof(Bytes);
      verdict.ids += got;
      for (std::size_t i = 0; i < got; ++i) {
        parts[block[i][random_byte]]->write(reinterpret_cast<const char*>(&block[i]),
                                            sizeof(Bytes));
      }
    }
    in.close();
    fs::remove(entry.path());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i]->close();
    EXPECT_TRUE(parts[i]->good());
    const fs::path file = folder / ("part." + std::to_string(i));
    std::vector<Bytes> ids(fs::file_size(file) / sizeof(Bytes));
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char*>(ids.data()),
            static_cast<std::streamsize>(ids.size() * sizeof(Bytes)));
    std::sort(ids.begin(), ids.end());
    for (std::size_t k = 1; k < ids.size(); ++k)
      if (ids[k] == ids[k - 1]) ++verdict.repeats;
    fs::remove(file);
  }
  return verdict;
}

template <class T, class Generator>
void expect_no_repeat(bool ordered, std::size_t random_byte) {
  const std::uint64_t each = setting("IDMINT_UNIQUENESS_IDS", 1'000'000) / kProcesses / kThreads;
  const fakes::TempFolder folder;
  ASSERT_TRUE(in_processes([&](int process) {
    Generator generator;
    return in_threads([&](int thread) {
      return mint<T>(
          generator, each, ordered,
          folder.folder() / (std::to_string(process) + "-" + std::to_string(thread) + ".ids"));
    });
  }));
  const Verdict verdict = look_for_repeats<T>(folder.folder(), random_byte);
  EXPECT_EQ(verdict.ids, each * kProcesses * kThreads);
  EXPECT_EQ(verdict.repeats, 0U);
  std::printf("%llu ids, %llu repeats\n", static_cast<unsigned long long>(verdict.ids),
              static_cast<unsigned long long>(verdict.repeats));
}

TEST(Uniqueness, Uuid4) { expect_no_repeat<Uuid, Uuid4Generator>(false, 15); }
TEST(Uniqueness, Uuid7) { expect_no_repeat<Uuid, Uuid7Generator>(true, 15); }
TEST(Uniqueness, Ulid) { expect_no_repeat<Ulid, UlidGenerator>(true, 15); }
TEST(Uniqueness, ObjectId) { expect_no_repeat<ObjectId, ObjectIdGenerator>(false, 11); }

// The two processes have two worker ids. Each thread mints until the time is up, and its process
// has minted enough, however slow the machine is or however long it stood still.
TEST(Uniqueness, SnowflakeAtItsCap) {
  const std::uint64_t seconds = setting("IDMINT_UNIQUENESS_SECONDS", 1);
  const SnowflakeLayout layout = *snowflake_layout("sequence-generator");
  const std::uint64_t cap = seconds * 1000 * (layout.max_sequence() + 1) * kProcesses;
  const std::uint64_t enough = cap / 8;
  const fakes::TempFolder folder;
  ASSERT_TRUE(in_processes([&](int process) {
    SnowflakeOptions options{.layout = layout, .worker = static_cast<std::uint32_t>(process)};
    options.state_file = folder.folder() / ("worker-" + std::to_string(process) + ".state");
    auto generator = SnowflakeGenerator::open(options);
    if (!generator) return false;
    const Instant end = system_clock().now() + std::chrono::seconds{seconds};
    const Instant latest_end = end + std::chrono::minutes{1};
    std::atomic<std::uint64_t> minted{0};
    const auto goes_on = [&](Instant now) {
      return now < end || (minted < enough / kProcesses && now < latest_end);
    };
    return in_threads([&](int thread) {
      std::ofstream out(
          folder.folder() / (std::to_string(process) + "-" + std::to_string(thread) + ".ids"),
          std::ios::binary);
      std::vector<Snowflake> ids(256);
      Snowflake previous;
      while (goes_on(system_clock().now())) {
        if (!(*generator)->next(ids) || !(previous < ids.front())) return false;
        if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>{}) != ids.end())
          return false;
        previous = ids.back();
        minted += ids.size();
        out.write(reinterpret_cast<const char*>(ids.data()),
                  static_cast<std::streamsize>(ids.size() * sizeof(Snowflake)));
      }
      out.close();
      return out.good();
    });
  }));
  for (int p = 0; p < kProcesses; ++p) {
    fs::remove(folder.folder() / ("worker-" + std::to_string(p) + ".state"));
  }
  const Verdict verdict = look_for_repeats<Snowflake>(folder.folder(), 0);
  EXPECT_EQ(verdict.repeats, 0U);
  EXPECT_GE(verdict.ids, enough) << "too little load for the result to mean anything";
  EXPECT_LE(verdict.ids, cap + cap / 50 + 100'000) << "more ids than the layout has";
  std::printf("%llu ids, %llu repeats, %.1f %% of the cap\n",
              static_cast<unsigned long long>(verdict.ids),
              static_cast<unsigned long long>(verdict.repeats),
              100.0 * static_cast<double>(verdict.ids) / static_cast<double>(cap));
}

}  // namespace
}  // namespace idmint
