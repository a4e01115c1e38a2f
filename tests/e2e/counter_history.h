// Judges whether one counter can have given the answers that many processes got. It knows nothing
// but the notes of the callers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace idmint::e2e {

enum class Outcome : std::int32_t {
  kTaken,    // values first, first + 1, ...: `count` of them
  kUnknown,  // it may have taken `count` values, or not, then or later
  kRefused,  // it certainly took none
  kWrong,    // an answer that no fault explains
};

// One call. Times in nanoseconds, of a clock that all callers share.
struct Note {
  std::int64_t invoked;
  std::int64_t answered;
  std::int64_t longest;  // it was to take no longer
  std::int64_t first;
  std::int64_t count;
  Outcome outcome;
  std::int32_t caller;
  std::int32_t item = 0;  // which counter, or which document of the caller, where there are several
};

// The promise to be checked.
enum class Promise : std::uint8_t {
  kLinearizable,
  kUnique,  // none comes twice; they come in any order, and some are never given
};

struct Verdict {
  std::vector<std::string> wrong{};  // at most a few of each kind
  std::int64_t values = 0;
  std::int64_t missing = 0;  // between `start` and the last value: nobody got them
  std::int64_t unknown = 0;  // so many may have been taken by calls of unknown outcome
  int taken = 0;
  int unknowns = 0;
  int refused = 0;
  std::int64_t longest = 0;
};

// The history is linearizable, and no value is lost, exactly when: no value is there twice; each
// call gets larger values than all calls that were answered before it began; and what nobody got is
// no more than what calls of unknown outcome asked for that had begun by then: before a call was
// answered that got larger values. The last call is to begin after all others were answered: if it
// gets larger values, nothing that was acknowledged is lost.
inline Verdict judge(const std::vector<Note>& notes, std::int64_t start,
                     Promise promise = Promise::kLinearizable) {
  constexpr std::size_t kFew = 5;
  Verdict verdict;
  const auto wrong = [&](const std::string& what, const Note& note) {
    if (verdict.wrong.size() < kFew * 4)
      verdict.wrong.push_back(what + ": caller " + std::to_string(note.caller) + ", values " +
                              std::to_string(note.first) + " to " +
                              std::to_string(note.first + note.count - 1));
  };
  std::vector<Note> taken;
  std::vector<Note> unknown;
  for (const Note& note : notes) {
    verdict.longest = std::max(verdict.longest, note.answered - note.invoked);
    if (note.answered - note.invoked > note.longest) wrong("answered too late", note);
    if (note.outcome == Outcome::kWrong) wrong("an answer that no fault explains", note);
    if (note.outcome == Outcome::kUnknown) {
      ++verdict.unknowns;
      verdict.unknown += note.count;
      unknown.push_back(note);
    }
    if (note.outcome == Outcome::kRefused) ++verdict.refused;
    if (note.outcome == Outcome::kTaken) taken.push_back(note);
  }
  verdict.taken = static_cast<int>(taken.size());

  std::ranges::sort(taken, {}, &Note::first);
  std::int64_t next = start;
  for (const Note& note : taken) {
    if (note.first < next) wrong("handed out twice", note);
    verdict.missing += std::max(note.first - next, std::int64_t{0});
    verdict.values += note.count;
    next = std::max(next, note.first + note.count);
  }
  if (promise == Promise::kUnique) return verdict;
  // `taken` is sorted by its values here. From its end on: by when what is missing below a call had
  // been taken, as it or a call with larger values was answered then.
  std::vector<std::int64_t> taken_by(taken.size());
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = taken.size(); i-- > 0;)
    taken_by[i] = earliest = std::min(earliest, taken[i].answered);
  std::ranges::sort(unknown, {}, &Note::invoked);
  next = start;
  std::int64_t missing = 0;
  std::int64_t asked_for = 0;  // by calls of unknown outcome that had begun
  auto begun = unknown.begin();
  for (std::size_t i = 0; i < taken.size(); ++i) {
    missing += std::max(taken[i].first - next, std::int64_t{0});
    next = std::max(next, taken[i].first + taken[i].count);
    for (; begun != unknown.end() && begun->invoked <= taken_by[i]; ++begun)
      asked_for += begun->count;
    if (missing > asked_for)
      wrong(std::to_string(missing) + " values below are missing, and calls of unknown fate had " +
                "asked for " + std::to_string(asked_for),
            taken[i]);
  }

  std::vector<Note> by_answer = taken;
  std::ranges::sort(by_answer, {}, &Note::answered);
  std::ranges::sort(taken, {}, &Note::invoked);
  std::int64_t largest = start - 1;  // of those answered before the call began
  auto before = by_answer.begin();
  for (const Note& note : taken) {
    for (; before != by_answer.end() && before->answered < note.invoked; ++before)
      largest = std::max(largest, before->first + before->count - 1);
    if (note.first <= largest)
      wrong("below " + std::to_string(largest) + ", which was answered before it was asked", note);
  }
  return verdict;
}

}  // namespace idmint::e2e
