// redacted() prints no secret, wherever one may stand in a URL or in another text, and prints its
// own output unchanged. libFuzzer gives the text around the secret.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/url.h"
#include "fuzz/require.h"

namespace {

using idmint::fuzz::require;

constexpr std::string_view kSecret = "gE.h7eim";

void check(const std::string& url) {
  const std::string shown = idmint::redacted(url);
  require(!shown.contains(kSecret));
  require(idmint::redacted(shown) == shown);
  require(!idmint::without_url("x@" + url).contains(kSecret));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  require(idmint::redacted(idmint::redacted(text)) == idmint::redacted(text));
  static_cast<void>(idmint::without_secrets(text));
  static_cast<void>(idmint::place_of(text));
  // Anything that ends in a secret before the last @ of a URL of servers. A question mark in the
  // password would begin options, and appName=...@... is one.
  const std::string_view before = text.substr(0, text.find('?'));
  const std::string secret(kSecret);
  for (const char* const scheme :
       {"mongodb://", "redis://", "POSTGRES://", "mysql://", "etcd://"}) {
    check(scheme + std::string("u:") + std::string(before) + secret + "@h/d");
    check(scheme + std::string("u:") + secret + std::string(before) + "@h/d");
    check(scheme + std::string("h/d?password=") + secret + std::string(text));
    check(scheme + std::string("h/d?x&sslpassword=") + secret + "&" + std::string(text));
  }
  // A text without a colon and without a path is no URL of a store, and is printed whole.
  const std::string_view word = text.substr(0, text.find(':'));
  if (!word.starts_with("./") && !word.starts_with("../")) check(std::string(word) + secret);
  check(secret + std::string(word) + ":" + secret + "@h");
  return 0;
}
