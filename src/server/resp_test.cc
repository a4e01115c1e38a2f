#include "server/resp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace idmint::server {
namespace {

using State = RespReader::State;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words_of(const RespReader& reader) {
  return {reader.words().begin(), reader.words().end()};
}

std::vector<std::string> read_one(std::string_view input) {
  RespReader reader;
  EXPECT_EQ(reader.read(input), State::kCommand);
  EXPECT_EQ(reader.consumed(), input.size());
  return words_of(reader);
}

std::string problem_of(std::string_view input) {
  RespReader reader;
  return reader.read(input) == State::kBroken ? std::string(reader.problem()) : "none";
}

TEST(RespReader, ReadsAnArrayOfBulkStrings) {
  EXPECT_THAT(read_one("*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n"), ElementsAre("INCR", "orders"));
  EXPECT_THAT(read_one("*1\r\n$0\r\n\r\n"), ElementsAre(""));
  EXPECT_THAT(read_one("*1\r\n$4\r\na\r\nb\r\n"), ElementsAre("a\r\nb"));
}

TEST(RespReader, AnArrayOfNothingIsNoCommand) {
  EXPECT_THAT(read_one("*0\r\n"), ElementsAre());
  EXPECT_THAT(read_one("*-1\r\n"), ElementsAre());
}

TEST(RespReader, ReadsInlineCommands) {
  EXPECT_THAT(read_one("INCR orders\r\n"), ElementsAre("INCR", "orders"));
  EXPECT_THAT(read_one("  ping \n"), ElementsAre("ping"));
  EXPECT_THAT(read_one("\r\n"), ElementsAre());
  EXPECT_THAT(read_one("echo \"a \\x41\\n\\\"b\" 'c \\' d'\r\n"),
              ElementsAre("echo", "a A\n\"b", "c ' d"));
}

TEST(RespReader, ReadsOneCommandAfterTheOther) {
  const std::string input = "PING\r\n*1\r\n$4\r\nINFO\r\nQUIT\r\n";
  RespReader reader;
  std::string_view rest = input;
  std::vector<std::string> names;
  while (!rest.empty()) {
    ASSERT_EQ(reader.read(rest), State::kCommand);
    names.push_back(words_of(reader).at(0));
    rest.remove_prefix(reader.consumed());
  }
  EXPECT_THAT(names, ElementsAre("PING", "INFO", "QUIT"));
}

TEST(RespReader, SaysWhatIsWrong) {
  EXPECT_THAT(problem_of("*x\r\n"), HasSubstr("invalid multibulk length"));
  EXPECT_THAT(problem_of("*5000\r\n"), HasSubstr("invalid multibulk length"));
  EXPECT_THAT(problem_of("*1\r\n:1\r\n"), HasSubstr("expected '$'"));
  EXPECT_THAT(problem_of("*1\r\n$1073741824\r\n"), HasSubstr("invalid bulk length"));
  EXPECT_THAT(problem_of("*1\r\n$-1\r\n"), HasSubstr("invalid bulk length"));
  EXPECT_THAT(problem_of("*1\r\n$01\r\na\r\n"), HasSubstr("invalid bulk length"));
  EXPECT_THAT(problem_of("*1\r\n$1\r\nabc"), HasSubstr("does not end"));
  EXPECT_THAT(problem_of("*" + std::string(100, '1')), HasSubstr("too big"));
  EXPECT_THAT(problem_of("echo \"a\r\n"), HasSubstr("unbalanced quotes"));
  EXPECT_THAT(problem_of("echo 'a'b\r\n"), HasSubstr("unbalanced quotes"));
  EXPECT_THAT(problem_of(std::string(RespReader::kMostWordBytes + 1, 'a')),
              HasSubstr("too big inline request"));
}

TEST(RespReader, ACommandHasABoundedLength) {
  const std::string word = "$65536\r\n" + std::string(65536, 'a') + "\r\n";
  std::string input = "*5\r\n";
  for (int i = 0; i < 5; ++i) input += word;
  EXPECT_THAT(problem_of(input), HasSubstr("too long"));
}

TEST(RespReader, TakesLittleOfASenderWhoIsNotKnown) {
  const auto read = [](const std::string& input) {
    RespReader reader;
    reader.restrain(true);
    return reader.read(input);
  };
  const std::size_t words = RespReader::kMostWordsOfUnknown;
  EXPECT_EQ(read("*" + std::to_string(words) + "\r\n"), RespReader::State::kIncomplete);
  EXPECT_EQ(read("*" + std::to_string(words + 1) + "\r\n"), RespReader::State::kBroken);
  const std::size_t bytes = RespReader::kMostBytesOfUnknown;
  EXPECT_EQ(read("*1\r\n$" + std::to_string(bytes) + "\r\n"), RespReader::State::kBroken);
  EXPECT_EQ(read(std::string(bytes + 1, 'x')), RespReader::State::kBroken);
  EXPECT_EQ(read("*1\r\n$4\r\nPING\r\n"), RespReader::State::kCommand);
}

TEST(RespReader, GivesBackTheMemoryOfALongCommand) {
  RespReader reader;
  std::string command = "*2000\r\n";
  for (int i = 0; i < 2000; ++i) command += "$1\r\nx\r\n";
  ASSERT_EQ(reader.read(command), RespReader::State::kCommand);
  const std::size_t kept = reader.kept();
  // A session looks for a further command before it trims.
  EXPECT_EQ(reader.read(""), RespReader::State::kIncomplete);
  reader.trim();
  EXPECT_LT(reader.kept(), kept / 8);
  ASSERT_EQ(reader.read(command), RespReader::State::kCommand);
  EXPECT_EQ(reader.words().size(), 2000U);
}

TEST(RespReader, ACommandThatHasBegunIsNotTrimmed) {
  RespReader reader;
  std::string command = "*2000\r\n";
  for (int i = 0; i < 2000; ++i) command += "$1\r\nx\r\n";
  ASSERT_EQ(reader.read(command.substr(0, command.size() - 3)), RespReader::State::kIncomplete);
  reader.trim();
  ASSERT_EQ(reader.read(command), RespReader::State::kCommand);
  EXPECT_EQ(reader.words().size(), 2000U);
}

// However the stream is cut, the commands are the same.
RC_GTEST_PROP(RespReader, CutsDoNotMatter, ()) {
  const auto commands = *rc::gen::container<std::vector<std::vector<std::string>>>(
      rc::gen::nonEmpty<std::vector<std::string>>());
  std::string input;
  for (const auto& command : commands) {
    put_array(input, command.size());
    for (const std::string& word : command) put_bulk(input, word);
  }
  RespReader reader;
  std::vector<std::vector<std::string>> read;
  std::string at_hand;
  std::size_t came = 0;
  while (came < input.size()) {
    const std::size_t more = *rc::gen::inRange<std::size_t>(1, input.size() - came + 1);
    at_hand += input.substr(came, more);
    came += more;
    while (!at_hand.empty()) {
      const State state = reader.read(at_hand);
      RC_ASSERT(state != State::kBroken);
      if (state == State::kIncomplete) break;
      read.push_back(words_of(reader));
      at_hand.erase(0, reader.consumed());
    }
  }
  RC_ASSERT(at_hand.empty());
  RC_ASSERT(read == commands);
}

template <class Put, class... Values>
std::string put(Put function, Values... values) {
  std::string out;
  function(out, values...);
  return out;
}

TEST(RespReplies, AreWrittenInBothVersions) {
  EXPECT_EQ(put(put_integer, std::numeric_limits<std::int64_t>::min()),
            ":-9223372036854775808\r\n");
  EXPECT_EQ(put(put_unsigned, std::numeric_limits<std::uint64_t>::max()),
            "$20\r\n18446744073709551615\r\n");
  EXPECT_EQ(put(put_simple, "OK"), "+OK\r\n");
  EXPECT_EQ(put(put_bulk, "a\r\n"), "$3\r\na\r\n\r\n");
  EXPECT_EQ(put(put_error, "ERR", "a\r\nb"), "-ERR a  b\r\n");
  EXPECT_EQ(put(put_null, Resp::k2), "$-1\r\n");
  EXPECT_EQ(put(put_null, Resp::k3), "_\r\n");
  EXPECT_EQ(put(put_null_array, Resp::k2), "*-1\r\n");
  EXPECT_EQ(put(put_map, Resp::k2, std::size_t{2}), "*4\r\n");
  EXPECT_EQ(put(put_map, Resp::k3, std::size_t{2}), "%2\r\n");
  EXPECT_EQ(put(put_set, Resp::k3, std::size_t{1}), "~1\r\n");
}

}  // namespace
}  // namespace idmint::server
