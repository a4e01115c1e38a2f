#include "engines/redis/reply.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

namespace idmint::stores::redis {
namespace {

constexpr std::string_view kEnd = "\r\n";

// -1 or more, up to `most`.
std::optional<std::int64_t> length_in(std::string_view text, std::size_t most) {
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc{} || end != text.data() + text.size() || length < -1 ||
      length > static_cast<std::int64_t>(most))
    return std::nullopt;
  return length;
}

}  // namespace

void append_command(std::string* request, std::span<const std::string_view> words) {
  const auto line = [&](char kind, std::size_t length) {
    *request += kind;
    *request += std::to_string(length);
    *request += kEnd;
  };
  line('*', words.size());
  for (const std::string_view word : words) {
    line('$', word.size());
    *request += word;
    *request += kEnd;
  }
}

// One that is no array, or the beginning of one, with the number of its items.
ReplyReader::State ReplyReader::read_one(Reply* reply, std::size_t* items) {
  const std::string_view input = std::string_view(input_).substr(at_);
  constexpr std::size_t kLongestLine = std::size_t{64} * 1024;
  const std::size_t end = input.substr(0, kLongestLine).find(kEnd);
  if (end == std::string_view::npos)
    return input.size() < kLongestLine ? State::kIncomplete : State::kBroken;
  if (end == 0) return State::kBroken;
  const std::string_view line = input.substr(1, end - 1);
  std::size_t consumed = end + kEnd.size();
  switch (input.front()) {
    case '+':
    case '-':
    case ':':
      reply->kind = input.front() == '+'   ? Reply::Kind::kText
                    : input.front() == '-' ? Reply::Kind::kError
                                           : Reply::Kind::kInteger;
      reply->text = line;
      break;
    case '$': {
      const std::optional<std::int64_t> length = length_in(line, kMostBytes);
      if (!length) return State::kBroken;
      if (*length < 0) break;
      const auto size = static_cast<std::size_t>(*length);
      if (input.size() < consumed + size + kEnd.size()) return State::kIncomplete;
      if (input.substr(consumed + size, kEnd.size()) != kEnd) return State::kBroken;
      reply->kind = Reply::Kind::kText;
      reply->text = input.substr(consumed, size);
      consumed += size + kEnd.size();
      break;
    }
    case '*': {
      const std::optional<std::int64_t> length = length_in(line, kMostItems);
      if (!length) return State::kBroken;
      if (*length < 0) break;
      reply->kind = Reply::Kind::kArray;
      *items = static_cast<std::size_t>(*length);
      break;
    }
    default:
      return State::kBroken;
  }
  at_ += consumed;
  return State::kReply;
}

ReplyReader::State ReplyReader::read() {
  for (;;) {
    Reply reply;
    std::size_t items = 0;
    if (const State state = read_one(&reply, &items); state != State::kReply) return state;
    if (items > 0) {
      if (open_.size() == kDeepest) return State::kBroken;
      open_.push_back({std::move(reply), items});
      continue;
    }
    reply_ = std::move(reply);
    while (!open_.empty()) {
      Open& around = open_.back();
      around.array.items.push_back(std::move(reply_));
      if (--around.missing > 0) break;
      reply_ = std::move(around.array);
      open_.pop_back();
    }
    if (!open_.empty()) continue;
    input_.erase(0, at_);
    at_ = 0;
    return State::kReply;
  }
}

}  // namespace idmint::stores::redis
