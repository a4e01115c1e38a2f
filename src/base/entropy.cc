#include "idmint/entropy.h"

#include <openssl/evp.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fork_wiped.h"
#include "base/moment.h"
#include "base/posix_clock.h"

namespace idmint {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFew = 256;     // getrandom() returns this many at once, in spite of signals
constexpr std::size_t kDirect = 512;  // requests of this size bypass the buffer
constexpr std::size_t kKeyLife = std::size_t{1} << 20;  // bytes

// A copy of the process (a VM snapshot, a container checkpoint) has the key and the buffered bytes
// of each thread, so both are short-lived. A key lives for 10 ms of either clock. A thread that
// used less than a buffer in 10 ms gets only a few bytes in advance.
constexpr std::int64_t kKeyAge = 10'000'000;  // ns

[[noreturn]] void die(const char* why) noexcept {
  std::fprintf(stderr,
               "idmint: %s; without randomness ids would repeat, so this process ends here\n", why);
  std::abort();
}

void from_kernel(std::byte* out, std::size_t size) noexcept {
  while (size != 0) {
    const ssize_t got = ::getrandom(out, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      die("the kernel gave no randomness (getrandom failed); run Linux 3.17 or later, and allow "
          "getrandom in the sandbox");
    }
    out += got;
    size -= static_cast<std::size_t>(got);
  }
}

// The kernel's bytes, mixed with values that a copied machine does not share, because its kernel
// may have the same randomness. The bytes stay uniform and secret, since the added values do not
// depend on them.
void draw_fresh(std::byte* out, std::size_t size) noexcept {
  from_kernel(out, size);
  auto [first, step] = digest_of(this_moment());
  for (; size != 0; first += step | 1) {
    const std::uint64_t mask = scatter(first);
    const std::size_t piece = std::min(size, sizeof mask);
    std::uint64_t word = 0;
    std::memcpy(&word, out, piece);
    word ^= mask;
    std::memcpy(out, &word, piece);
    out += piece;
    size -= piece;
  }
}

// Two clocks, a few ns each and at most one kernel tick (4 ms) stale. The wall clock shows pauses
// that the monotonic clock of a restored machine does not.
struct ClockReading {
  std::int64_t steady;
  std::int64_t wall;
};

ClockReading read_clocks() noexcept {
  return {.steady = read_ns(CLOCK_MONOTONIC_COARSE), .wall = read_ns(CLOCK_REALTIME_COARSE)};
}

bool is_old(const ClockReading& then, const ClockReading& now) noexcept {
  return std::abs(now.steady - then.steady) > kKeyAge || std::abs(now.wall - then.wall) > kKeyAge;
}

// The random bytes of one thread, on a page that is zero in a child of fork(): no bytes and no key.
// Bytes that were handed out stay until the next refill overwrites them.
struct Stream {
  std::uint32_t remaining;  // at the end of the buffer
  bool begun;               // the first bytes, which need no key, were drawn
  bool keyed;
  std::uint64_t key_left;  // bytes this key may still give
  ClockReading keyed_at;
  ClockReading filled_at;
  std::byte buffer[kPage - 48];
};
static_assert(sizeof(Stream) == kPage);

constinit Stream no_stream{};  // never written; has no bytes

struct Thread {
  Stream* stream = &no_stream;
  EVP_CIPHER_CTX* cipher = nullptr;
  bool over = false;  // the thread is ending and must keep nothing
};

// Trivially destructible, so that it is usable to the very end of the thread. Initial-exec: a
// single load, in the shared library too.
[[gnu::tls_model("initial-exec")]] constinit thread_local Thread thread;

struct Pages {
  Pages() { thread.stream = &*stream; }
  ~Pages() {
    EVP_CIPHER_CTX_free(thread.cipher);  // wipes the key
    thread = {.over = true};
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  ForkWiped<Stream> stream;
};

// AES-128-CTR, looked up once in a process; null while another thread does so. Nobody waits: in a
// child of fork() that thread may not exist, and the kernel's bytes serve as well.
EVP_CIPHER* aes() noexcept {
  static std::atomic<EVP_CIPHER*> found{nullptr};
  static std::atomic<bool> looking{false};
  EVP_CIPHER* cipher = found.load(std::memory_order_acquire);
  if (cipher != nullptr || looking.exchange(true)) return cipher;
  cipher = EVP_CIPHER_fetch(nullptr, "AES-128-CTR", nullptr);
  if (cipher == nullptr) die("OpenSSL has no AES-128-CTR; look at its configuration");
  found.store(cipher, std::memory_order_release);
  return cipher;
}

bool key(Stream& stream, const ClockReading& now) noexcept {
  EVP_CIPHER* cipher = aes();
  if (cipher == nullptr) return false;
  if (thread.cipher == nullptr) thread.cipher = EVP_CIPHER_CTX_new();
  unsigned char secret[32];  // key and first counter
  draw_fresh(reinterpret_cast<std::byte*>(secret), sizeof secret);
  if (thread.cipher == nullptr ||
      EVP_EncryptInit_ex2(thread.cipher, cipher, secret, secret + 16, nullptr) != 1) {
    die("OpenSSL could not start AES-128-CTR");
  }
  OPENSSL_cleanse(secret, sizeof secret);
  stream.keyed = true;
  stream.key_left = kKeyLife;
  stream.keyed_at = now;
  return true;
}

void generate(Stream& stream, std::byte* out, std::size_t size, const ClockReading& now) noexcept {
  static constexpr unsigned char kZeros[kPage] = {};
  if (is_old(stream.keyed_at, now)) stream.key_left = 0;
  while (size != 0) {
    if ((!stream.keyed || stream.key_left == 0) && !key(stream, now)) return draw_fresh(out, size);
    const std::size_t piece = std::min({size, sizeof kZeros, std::size_t{stream.key_left}});
    int written = 0;
    if (EVP_EncryptUpdate(thread.cipher, reinterpret_cast<unsigned char*>(out), &written, kZeros,
                          static_cast<int>(piece)) != 1 ||
        written != static_cast<int>(piece)) {
      die("OpenSSL stopped giving AES-128-CTR");
    }
    stream.key_left -= piece;
    out += piece;
    size -= piece;
  }
}

// Takes from the buffer. REQUIRES: size <= stream.remaining.
void take(Stream& stream, std::byte* out, std::size_t size) noexcept {
  const std::byte* from = std::end(stream.buffer) - stream.remaining;
  stream.remaining -= static_cast<std::uint32_t>(size);
  std::memcpy(out, from, size);
}

// REQUIRES: wanted < kDirect.
void refill(Stream& stream, std::size_t wanted) noexcept {
  const ClockReading now = read_clocks();
  if (!stream.begun && wanted <= kFew) {
    // Starting the cipher takes longer than a short-lived process lives: 1 to 2 ms.
    stream.begun = true;
    draw_fresh(std::end(stream.buffer) - kFew, kFew);
    stream.remaining = kFew;
  } else {
    const std::size_t size =
        is_old(stream.filled_at, now) ? std::max(kFew, wanted) : sizeof stream.buffer;
    generate(stream, std::end(stream.buffer) - size, size, now);
    stream.remaining = static_cast<std::uint32_t>(size);
  }
  stream.filled_at = now;
}

[[gnu::noinline]] void fill_any(std::span<std::byte> out) noexcept {
  if (thread.over) return draw_fresh(out.data(), out.size());
  if (thread.stream == &no_stream) {
    static thread_local Pages pages;
  }
  Stream& stream = *thread.stream;
  if (out.size() >= kDirect) return generate(stream, out.data(), out.size(), read_clocks());
  if (out.size() > stream.remaining) {
    const std::size_t rest = stream.remaining;
    take(stream, out.data(), rest);
    out = out.subspan(rest);
    refill(stream, out.size());
  }
  if (!out.empty()) take(stream, out.data(), out.size());
}

class SystemEntropy final : public Entropy {
 public:
  void fill(std::span<std::byte> out) noexcept override {
    Stream& stream = *thread.stream;
    // The size of an id, without a call.
    if (out.size() == 16 && stream.remaining >= 16) [[likely]]
      return take(stream, out.data(), 16);
    fill_any(out);
  }

  std::uint64_t draw() noexcept override {
    std::uint64_t value;
    Stream& stream = *thread.stream;
    if (stream.remaining >= sizeof value) [[likely]] {
      take(stream, reinterpret_cast<std::byte*>(&value), sizeof value);
    } else {
      fill_any(std::as_writable_bytes(std::span(&value, 1)));
    }
    return value;
  }
};

}  // namespace

Entropy& system_entropy() noexcept {
  static constinit SystemEntropy entropy;
  return entropy;
}

}  // namespace idmint
