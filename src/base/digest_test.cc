#include "base/digest.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(Digest digest, std::string_view first, std::string_view second = "") {
  const Result<DigestBytes> bytes = digest_of(digest, {bytes_of(first), bytes_of(second)});
  if (!bytes) return bytes.error().message();
  std::string text;
  const std::size_t size = digest == Digest::kMd5 ? 16 : digest == Digest::kSha1 ? 20 : 32;
  for (std::size_t i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", (*bytes)[i]);
    text += digits;
  }
  return text;
}

// RFC 1321 A.5 and FIPS 180 (the NIST's example messages).
TEST(Digest, VectorsOfTheStandards) {
  EXPECT_EQ(hex(Digest::kMd5, ""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex(Digest::kMd5, "message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hex(Digest::kSha1, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex(Digest::kSha1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(Digest::kSha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, PiecesCountAsOneText) {
  for (const Digest digest : {Digest::kMd5, Digest::kSha1, Digest::kSha256}) {
    EXPECT_EQ(hex(digest, "message ", "digest"), hex(digest, "message digest"));
  }
}

TEST(Digest, WhatOpenSslDoesNotOfferIsSaid) {
  fakes::in_child([] {
    ASSERT_EQ(EVP_set_default_properties(nullptr, "fips=yes"), 1);
    EXPECT_EQ(fakes::code_of(digest_of(Digest::kMd5, {})), Code::kUnimplemented);
  });
}

}  // namespace
}  // namespace idmint
