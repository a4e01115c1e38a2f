#include "restore/find/runs.h"

#include <algorithm>
#include <bit>

#include "base/figures.h"
#include "base/text.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kMass = 20;          // operations that make a run
constexpr std::int64_t kTight = 25;          // milliseconds between operations of one command
constexpr std::uint64_t kTightChanges = 64;  // operations of others between them

std::string span_text(Timestamp first, Timestamp last) {
  const std::uint32_t seconds = last.seconds - first.seconds;
  return seconds == 0 ? "within a second" : "within " + print_duration(seconds + 1);
}

}  // namespace

void Runs::deleted(const Operation& operation, const Place& place) {
  const std::uint64_t key = hash_of(operation.ns, 3);
  const std::uint64_t document = hash_of(document_id(operation).value, key);
  add(key, Reason::kMassDelete, operation, document, 0, {}, place);
}

void Runs::updated(const Operation& operation, std::uint64_t document, const UpdateShape& shape,
                   const Place& place) {
  const std::span<const std::uint8_t> o = operation.o.bytes();
  const std::uint64_t content = hash_of(o.first(std::min<std::size_t>(o.size(), 256)), 2);
  add(shape.hash(), shape.reason(), operation, document, content, shape.fields(), place);
}

void Runs::add(std::uint64_t key, Reason reason, const Operation& operation, std::uint64_t document,
               std::uint64_t content, std::string_view fields, const Place& place) {
  auto& slot = runs_.take(key, [this](auto& old) { end(old.key, old.value); });
  slot.uses = static_cast<std::uint32_t>(place.changes);
  Run& run = slot.value;
  const bool tight =
      place.wall - run.seen <= kTight && place.changes - run.seen_at <= kTightChanges;
  run.seen = place.wall;
  run.seen_at = place.changes;
  if (run.count != 0 && !tight) {
    if (run.mass && place.wall - run.wall <= kPause) return;  // perhaps of another client
    if (run.mass || run.unbroken < 2 || place.wall - run.begun.wall > kPause) {
      end(key, run);
    } else {  // perhaps it paused at its beginning
      run.ahead = run.count;
      run.unbroken = 0;
    }
  }
  if (!place.in_span) {
    run.count = 0;
    return;
  }
  if (run.count == 0) {
    run.reason = reason;
    run.ns = operation.ns;
    run.fields = fields;
    run.begun = place;
    run.after.reset();
    run.first.set(operation);
    run.unbroken = 0;
    run.ahead = 0;
    run.mass = false;
    run.same = 0;
    run.documents = {};
    begun_.emplace_back(&run, place.changes_before_entry);
  } else if (content == run.content) {
    ++run.same;
  }
  run.content = content;
  run.documents.add(document);
  ++run.count;
  run.mass = ++run.unbroken >= kMass || run.mass;
  run.last = place.at;
  run.wall = place.wall;
}

void Runs::next_entry(Timestamp at) {
  for (const auto& [run, changes_before] : begun_) {
    if (run->count != 0 && run->begun.changes_before_entry == changes_before) run->after = at;
  }
  begun_.clear();
}

void Runs::end(std::uint64_t key, Run& run) {
  const std::uint64_t count = std::exchange(run.count, 0);
  if (!run.mass) {
    run.recent.add(run.wall, count);
    return;
  }
  // A run changes many documents, not the same few again and again.
  if (run.documents.estimate() < static_cast<double>(count) / 2) return;
  std::uint32_t& size = run.sizes[static_cast<std::size_t>(std::bit_width(count) - 1)];
  ++size;
  Suspect found = suspect_at(run.begun, run.reason, run.ns, run.first);
  found.last = run.last;
  found.after = run.after;
  found.operations = count;
  found.key = key | 1;
  if (run.reason == Reason::kMassDelete) {
    found.score = log_score(60, 6, count, 88);
  } else {
    const bool same = run.same + 1 >= count - count / 10;
    found.score = run.reason == Reason::kUnsetWave ? log_score(55, 6, count, 85)
                                                   : log_score(35, 6, count, 70) + (same ? 8 : 0);
    found.why =
        (same ? ", all in the same way: " : ", in the same fields: ") + shortened(run.fields);
  }
  const std::uint64_t others = run.recent.at(run.begun.wall);
  if (run.ahead != 0) {
    found.why += "; the first " + print_count(static_cast<double>(run.ahead)) +
                 " came a while before the others: look whether they are of it";
  } else if (others != 0) {
    found.why += "; " + print_count(static_cast<double>(others)) +
                 " more on it in the seconds before: look whether they are of it";
  }
  if (!suspects_.keep_now(std::move(found))) --size;
}

void Runs::end() {
  for (auto& slot : runs_.slots()) {
    if (slot.key != 0) end(slot.key, slot.value);
  }
}

void Runs::weigh(Suspect& run) {
  run.why = plural(run.operations, "document") +
            (run.reason == Reason::kMassDelete ? " deleted " : " changed ") +
            span_text(run.limit, run.last) + run.why;
  const auto* const slot = runs_.find(run.key);
  if (slot == nullptr) return weigh_repeats(run, suspects_.repeats(run.key));
  const auto size = static_cast<std::size_t>(std::bit_width(run.operations) - 1);
  std::uint64_t similar = 0;  // runs of at least a quarter of the size
  for (std::size_t i = size < 2 ? 0 : size - 2; i < slot->value.sizes.size(); ++i)
    similar += slot->value.sizes[i];
  weigh_repeats(run, similar);
}

}  // namespace idmint::restore
