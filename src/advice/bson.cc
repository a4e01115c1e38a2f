#include "advice/bson.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <variant>

namespace idmint::advice {

namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kUuidBase64Chars = 24;  // with two characters of padding

std::string base64(std::span<const std::uint8_t> bytes) {
  std::string text;
  std::uint32_t pending = 0;
  int bits = 0;
  for (const std::uint8_t byte : bytes) {
    pending = (pending << 8 | byte) & 0xffff;
    for (bits += 8; bits >= 6; bits -= 6) text += kBase64[pending >> (bits - 6) & 63];
  }
  if (bits != 0) text += kBase64[pending << (6 - bits) & 63];
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

constexpr std::string_view kBinaryStart = R"({"$binary":{"base64":")";
constexpr std::string_view kBinaryEnd = R"(","subType":"04"}})";
constexpr std::string_view kOidStart = R"({"$oid":")";
constexpr std::string_view kOidEnd = R"("})";
constexpr std::string_view kLongStart = R"({"$numberLong":")";

std::optional<std::string_view> between(std::string_view text, std::string_view start,
                                        std::string_view end) {
  if (text.size() < start.size() + end.size() || !text.starts_with(start) || !text.ends_with(end)) {
    return std::nullopt;
  }
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

std::string binary(std::span<const std::uint8_t> bytes) {
  return std::string(kBinaryStart) + base64(bytes) + std::string(kBinaryEnd);
}

std::string oid(const ObjectId::Bytes& bytes) {
  return std::string(kOidStart) + ObjectId{bytes}.to_string() + std::string(kOidEnd);
}

struct ToBson {
  using Bson = std::optional<std::string>;
  Bson operator()(const Uuid& id) const { return binary(id.bytes()); }
  Bson operator()(const Ulid& id) const { return binary(id.bytes()); }
  Bson operator()(const ObjectId& id) const { return oid(id.bytes()); }
  Bson operator()(const Xid& id) const { return oid(id.bytes()); }
  Bson operator()(std::int64_t value) const {
    return std::string(kLongStart) + std::to_string(value) + std::string(kOidEnd);
  }
  Bson operator()(const auto& id) const
    requires std::same_as<decltype(id.value()), std::uint64_t>
  {
    const auto value = static_cast<std::int64_t>(id.value());
    return value < 0 ? Bson{} : (*this)(value);
  }
  Bson operator()(const auto&) const { return std::nullopt; }
};

template <class T>
Result<Id> id_of_bson(const Result<T>& parsed) {
  if (!parsed) return std::unexpected(parsed.error());
  return Id{*parsed};
}

}  // namespace

std::optional<std::string> bson(const Id& id) { return std::visit(ToBson{}, id); }

Result<Id> id_from_bson(std::string_view text) {
  std::string dense(text);
  std::erase_if(dense, [](char c) { return c == ' ' || c == '\t'; });
  if (const auto oid = between(dense, kOidStart, kOidEnd)) return id_of_bson(ObjectId::parse(*oid));
  if (const auto number = between(dense, kLongStart, kOidEnd)) {
    return id_of_bson(Snowflake::parse(*number));
  }
  const auto binary = between(dense, kBinaryStart, kBinaryEnd);
  if (!binary || binary->size() != kUuidBase64Chars) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              R"(expected {"$binary":{"base64":"...","subType":"04"}}, {"$oid":"..."} or )"
              R"({"$numberLong":"..."})"});
  }
  Uuid::Bytes bytes{};
  std::uint32_t pending = 0;
  int bits = 0;
  std::size_t at = 0;
  for (const char c : binary->substr(0, 22)) {
    const std::size_t digit = kBase64.find(c);
    if (digit == std::string_view::npos)
      return std::unexpected(Error{Code::kInvalidArgument, "a character is not one of base64"});
    pending = (pending << 6 | static_cast<std::uint32_t>(digit)) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = static_cast<std::uint8_t>(pending >> bits);
  }
  const Uuid uuid{bytes};
  if (base64(uuid.bytes()) != *binary)
    return std::unexpected(Error{Code::kInvalidArgument, "it is not the base64 of 16 bytes"});
  return Id{uuid};
}

}  // namespace idmint::advice
