#include "server/resp.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

#include "idmint/uuid.h"

namespace idmint::server {
namespace {

// A decimal number of a header line, without sign and leading zeros.
std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return value;
}

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

}  // namespace

RespReader::State RespReader::broken(std::string_view problem) {
  problem_ = problem;
  return State::kBroken;
}

void RespReader::trim() {
  constexpr std::size_t usual = 64;
  const bool begun = !done_ && (in_array_ || is_inline_);
  if (begun || kept() <= usual * usual) return;
  // By swap: an assignment of {} keeps the memory.
  std::vector<Piece>().swap(pieces_);
  std::vector<std::string_view>().swap(words_);
  std::string().swap(inline_text_);
}

RespReader::State RespReader::read(std::string_view input) {
  if (done_) {
    pieces_.clear();
    at_ = searched_ = words_left_ = 0;
    in_array_ = is_inline_ = done_ = false;
  }
  if (input.size() > at_ && !in_array_ && input.front() != '*') is_inline_ = true;
  if (is_inline_) return read_inline(input);
  // One header line, "*N" or "$N", and after the latter a word.
  while (!in_array_ || words_left_ != 0) {
    searched_ = std::max(searched_, at_);
    const std::size_t end = input.find('\n', searched_);
    constexpr std::size_t longest_header = 32;
    if (end == std::string_view::npos) {
      searched_ = input.size();
      if (input.size() - at_ > longest_header)
        return broken("Protocol error: too big count string");
      return State::kIncomplete;
    }
    std::string_view header = input.substr(at_, end - at_);
    if (header.ends_with('\r')) header.remove_suffix(1);
    if (header.size() > longest_header || header.empty())
      return broken("Protocol error: invalid count");
    const std::optional<std::size_t> count = number(header.substr(1));
    if (!in_array_) {
      // Redis takes an array of no or of -1 words for no command.
      const bool none = header == "*-1";
      if (!none && (!count || *count > most_words()))
        return broken("Protocol error: invalid multibulk length");
      in_array_ = true;
      words_left_ = none ? 0 : *count;
      at_ = end + 1;
      continue;
    }
    if (header.front() != '$') return broken("Protocol error: expected '$'");
    if (!count || *count > most_word_bytes()) return broken("Protocol error: invalid bulk length");
    const std::size_t begin = end + 1;
    if (begin + *count + 2 > most_bytes()) return broken("Protocol error: the command is too long");
    if (input.size() < begin + *count + 2) return State::kIncomplete;  // the header is read again
    if (input.substr(begin + *count, 2) != "\r\n")
      return broken("Protocol error: a bulk string does not end where its length says");
    pieces_.push_back({begin, *count});
    at_ = begin + *count + 2;
    --words_left_;
  }
  words_.clear();
  for (const Piece& piece : pieces_) words_.push_back(input.substr(piece.offset, piece.size));
  done_ = true;
  return State::kCommand;
}

// As Redis splits the line that a person types: blanks part words; "..." with escapes, '...' with
// \' alone.
RespReader::State RespReader::read_inline(std::string_view input) {
  const std::size_t end = input.find('\n', searched_);
  if (end == std::string_view::npos) {
    searched_ = input.size();
    if (input.size() > most_word_bytes()) return broken("Protocol error: too big inline request");
    return State::kIncomplete;
  }
  if (end > most_word_bytes()) return broken("Protocol error: too big inline request");
  std::string_view line = input.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  constexpr std::string_view unbalanced = "Protocol error: unbalanced quotes in request";
  inline_text_.clear();
  inline_text_.reserve(line.size());
  std::size_t i = 0;
  while (true) {
    while (i < line.size() && is_blank(line[i])) ++i;
    if (i == line.size()) break;
    if (pieces_.size() == most_words()) return broken("Protocol error: too many words");
    const std::size_t begin = inline_text_.size();
    const char quote = line[i] == '"' || line[i] == '\'' ? line[i] : '\0';
    if (quote != '\0') ++i;
    bool closed = quote == '\0';
    while (i < line.size()) {
      const char c = line[i];
      if (quote == '\0') {
        if (is_blank(c)) break;
        inline_text_ += c;
        ++i;
        continue;
      }
      if (c == quote) {
        closed = true;
        ++i;
        break;
      }
      if (c == '\\' && i + 1 < line.size() && (quote == '"' || line[i + 1] == '\'')) {
        const char escape = line[i + 1];
        const auto hex = [&](std::size_t at) {
          return at < line.size() ? detail::hex_digit(line[at]) : -1;
        };
        if (quote == '"' && escape == 'x' && hex(i + 2) >= 0 && hex(i + 3) >= 0) {
          inline_text_ += static_cast<char>(hex(i + 2) * 16 + hex(i + 3));
          i += 4;
          continue;
        }
        constexpr std::string_view escapes = "nrtba";
        constexpr std::string_view meanings = "\n\r\t\b\a";
        const std::size_t at = escapes.find(escape);
        inline_text_ += quote == '"' && at != std::string_view::npos ? meanings[at] : escape;
        i += 2;
        continue;
      }
      inline_text_ += c;
      ++i;
    }
    if (!closed || (quote != '\0' && i < line.size() && !is_blank(line[i])))
      return broken(unbalanced);
    pieces_.push_back({begin, inline_text_.size() - begin});
  }
  words_.clear();
  for (const Piece& piece : pieces_)
    words_.push_back(std::string_view(inline_text_).substr(piece.offset, piece.size));
  at_ = end + 1;
  done_ = true;
  return State::kCommand;
}

// ---- replies

namespace {

void put_number(std::string& out, char kind, std::int64_t value) {
  std::array<char, 24> text;
  char* at = text.data();
  *at++ = kind;
  at = std::to_chars(at, text.data() + text.size() - 2, value).ptr;
  *at++ = '\r';
  *at++ = '\n';
  out.append(text.data(), at);
}

}  // namespace

void put_integer(std::string& out, std::int64_t value) { put_number(out, ':', value); }

void put_unsigned(std::string& out, std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    put_integer(out, static_cast<std::int64_t>(value));
  } else {
    put_bulk(out, std::to_string(value));
  }
}

void put_simple(std::string& out, std::string_view text) {
  out += '+';
  out += text;
  out += "\r\n";
}

void put_bulk(std::string& out, std::string_view text) {
  put_number(out, '$', static_cast<std::int64_t>(text.size()));
  out += text;
  out += "\r\n";
}

void put_error(std::string& out, std::string_view prefix, std::string_view message) {
  out += '-';
  out += prefix;
  out += ' ';
  for (const char c : message) out += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  out += "\r\n";
}

void put_null(std::string& out, Resp version) { out += version == Resp::k2 ? "$-1\r\n" : "_\r\n"; }

void put_null_array(std::string& out, Resp version) {
  out += version == Resp::k2 ? "*-1\r\n" : "_\r\n";
}

void put_array(std::string& out, std::size_t size) {
  put_number(out, '*', static_cast<std::int64_t>(size));
}

void put_map(std::string& out, Resp version, std::size_t pairs) {
  if (version == Resp::k2) {
    put_array(out, 2 * pairs);
  } else {
    put_number(out, '%', static_cast<std::int64_t>(pairs));
  }
}

void put_set(std::string& out, Resp version, std::size_t size) {
  if (version == Resp::k2) {
    put_array(out, size);
  } else {
    put_number(out, '~', static_cast<std::int64_t>(size));
  }
}

std::string_view resp_prefix(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument:
      return "ERR";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kDeadlineExceeded:
      return "DEADLINEEXCEEDED";
    case Code::kNotFound:
      return "NOTFOUND";
    case Code::kAlreadyExists:
      return "ALREADYEXISTS";
    case Code::kPermissionDenied:
      return "NOPERM";
    case Code::kResourceExhausted:
      return "RESOURCEEXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILEDPRECONDITION";
    case Code::kOutOfRange:
      return "OUTOFRANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDataLoss:
      return "DATALOSS";
    case Code::kUnauthenticated:
      return "NOAUTH";
  }
  return "ERR";
}

}  // namespace idmint::server
