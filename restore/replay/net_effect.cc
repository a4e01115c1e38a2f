#include "restore/replay/net_effect.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kMostChanges = 64;
constexpr int kDeepestDiff = 32;
// The first diff may have this many times the bytes of the second, and so many more.
constexpr std::size_t kMostTimes = 4;
constexpr std::size_t kMostMore = 1024;

// The change of a diff to a field of a document, or to an element of an array.
struct Change {
  char how = 0;           // d: delete, u: update, i: insert, s: apply the diff that is its value
  std::string_view name;  // of the field; the decimal index of the element
  Field field;            // of the diff: of its section d, u or i, or s and the name
};
using Changes = std::vector<Change>;

const Change* find_change(const Changes& changes, std::string_view name) {
  const auto at = std::ranges::find(changes, name, &Change::name);
  return at == changes.end() ? nullptr : &*at;
}

// A document that is written element by element.
class Writer {
 public:
  explicit Writer(std::size_t size) { bytes_.reserve(size); }

  void put(const Field& field) { append(field.element()); }
  void put_all(std::string_view section, const std::vector<Field>& fields) {
    if (fields.empty()) return;
    const std::size_t begun = begin(section);
    for (const Field& field : fields) put(field);
    end(begun);
  }
  // Returns the argument of end().
  std::size_t begin() {
    bytes_.resize(bytes_.size() + 4);
    return bytes_.size() - 4;
  }
  std::size_t begin(std::string_view key) {
    bytes_.push_back(BSON_TYPE_DOCUMENT);
    bytes_.insert(bytes_.end(), key.begin(), key.end());
    bytes_.push_back(0);
    return begin();
  }
  void end(std::size_t begun) {
    bytes_.push_back(0);
    const std::uint32_t size = BSON_UINT32_TO_LE(static_cast<std::uint32_t>(bytes_.size() - begun));
    std::memcpy(bytes_.data() + begun, &size, sizeof size);
  }
  [[nodiscard]] std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  void append(std::span<const std::uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::uint8_t> bytes_;
};

bool add_change(Changes& changes, const Change& change) {
  if (changes.size() == kMostChanges || find_change(changes, change.name) != nullptr) return false;
  changes.push_back(change);
  return true;
}

// The changes of a document diff. False: a server refuses it, or it has too many.
bool read_changes(Document diff, Changes& changes) {
  constexpr std::string_view order = "duis";
  std::size_t least = 0;
  Fields sections(diff);
  Field section;
  while (sections.next(section)) {
    if (section.key.empty() || section.type != BSON_TYPE_DOCUMENT) return false;
    const char how = section.key.front();
    const std::size_t place = order.find(how, least);
    if (place == std::string_view::npos) return false;
    if (how == 's') {
      least = place;
      if (!add_change(changes, {how, section.key.substr(1), section})) return false;
      continue;
    }
    least = place + 1;
    if (section.key.size() != 1 || !section.document()) return false;
    Fields fields(section.document());
    Field field;
    while (fields.next(field)) {
      if (!add_change(changes, {how, field.key, field})) return false;
    }
    if (fields.damaged()) return false;
  }
  return !sections.damaged() && !changes.empty();
}

// Compares two decimal indexes.
bool is_less(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool is_index(std::string_view text) {
  return !text.empty() && text.size() < 10 && (text == "0" || text.front() != '0') &&
         std::ranges::all_of(text, [](char each) { return each >= '0' && each <= '9'; });
}

bool is_array_diff(Document diff) { return diff.first_key() == "a"; }

// The changes of an array diff that sets no length. False: as read_changes().
bool read_array_changes(Document diff, Changes& changes) {
  Fields fields(diff);
  Field field;
  if (!fields.next(field) || !field.truth()) return false;
  while (fields.next(field)) {
    if (field.key.empty() || changes.size() == kMostChanges) return false;
    const char how = field.key.front();
    const std::string_view index = field.key.substr(1);
    if ((how != 'u' && how != 's') || !is_index(index)) return false;
    if (how == 's' && field.type != BSON_TYPE_DOCUMENT) return false;
    if (!changes.empty() && !is_less(changes.back().name, index)) return false;
    changes.push_back({how, index, field});
  }
  return !fields.damaged();
}

bool merge(Document first, Document second, int depth, Writer& to);

bool merge_under(const Field& first, const Field& second, int depth, Writer& to) {
  const std::size_t begun = to.begin(first.key);
  if (!merge(first.document(), second.document(), depth + 1, to)) return false;
  to.end(begun);
  return true;
}

// The server pads with null what an array lacks, and puts null where it finds another type than the
// diff's. Neither is of the type of a diff: so two diffs of an element leave null as one does.
bool merge_arrays(Document first, Document second, int depth, Writer& to) {
  Changes a;
  Changes b;
  if (!read_array_changes(first, a) || !read_array_changes(second, b)) return false;
  Fields header(first);
  Field is_array;
  if (header.next(is_array)) to.put(is_array);
  auto before = a.begin();
  for (const Change& then : b) {
    for (; before != a.end() && is_less(before->name, then.name); ++before) to.put(before->field);
    const bool both = before != a.end() && before->name == then.name;
    if (!both || then.how == 'u') {
      to.put(then.field);
    } else if (before->how == 'u' || !merge_under(before->field, then.field, depth, to)) {
      return false;
    }
    if (both) ++before;
  }
  for (; before != a.end(); ++before) to.put(before->field);
  return true;
}

// A server goes through the fields of the document: it leaves out those of d and i, sets those of u
// in their place and applies those of s. Then it appends those of u that were missing, then all of
// i.
bool merge_documents(Document first, Document second, int depth, Writer& to) {
  Changes a;
  Changes b;
  if (!read_changes(first, a) || !read_changes(second, b)) return false;
  if (depth == 0 && (find_change(a, "_id") != nullptr || find_change(b, "_id") != nullptr))
    return false;
  std::vector<Field> deletes;
  std::vector<Field> updates;
  std::vector<Field> inserts;
  std::vector<std::pair<Field, Field>> inside;  // the second one may be none
  // The fields whose place `first` decides: in the document, or at its end.
  for (const Change& before : a) {
    const Change* const then = find_change(b, before.name);
    const char how = then == nullptr ? before.how : then->how;
    const Field& field = then == nullptr ? before.field : then->field;
    if (then != nullptr && how == 's') {
      if (before.how == 'd') deletes.push_back(before.field);
      if (before.how == 's') inside.emplace_back(before.field, then->field);
      if (before.how == 'u' || before.how == 'i') return false;
    } else if (how == 'd') {
      deletes.push_back(field);
    } else if (before.how == 'u' && how == 'u') {
      updates.push_back(field);
    } else if (before.how == 'i' && (then == nullptr || how == 'u')) {
      inserts.push_back(field);
    } else if (then == nullptr) {
      inside.emplace_back(field, Field{});
    }
  }
  // The fields whose place `second` decides.
  for (const Change& then : b) {
    const Change* const before = find_change(a, then.name);
    const char had = before == nullptr ? '-' : before->how;
    if (then.how == 'i' || (then.how == 'u' && had == 'd')) {
      inserts.push_back(then.field);
    } else if (then.how == 'u' && (had == '-' || had == 's')) {
      // If it is missing it comes after these.
      if (!inserts.empty()) return false;
      updates.push_back(then.field);
    } else if (then.how == 'd' && had == '-') {
      deletes.push_back(then.field);
    } else if (then.how == 's' && had == '-') {
      inside.emplace_back(then.field, Field{});
    }
  }
  to.put_all("d", deletes);
  to.put_all("u", updates);
  to.put_all("i", inserts);
  for (const auto& [before, then] : inside) {
    if (then.key.empty()) {
      to.put(before);
    } else if (!merge_under(before, then, depth, to)) {
      return false;
    }
  }
  return true;
}

// Appends the fields of the diff that does what both do. False: see net_effect().
// NOLINTNEXTLINE(misc-no-recursion): kDeepestDiff
bool merge(Document first, Document second, int depth, Writer& to) {
  if (!first || !second || depth == kDeepestDiff) return false;
  if (is_array_diff(first) != is_array_diff(second)) return false;
  return is_array_diff(first) ? merge_arrays(first, second, depth, to)
                              : merge_documents(first, second, depth, to);
}

// The diff of an update. No document: it is none.
Document diff_of(Document update) {
  Fields fields(update);
  Field version;
  Field diff;
  Field more;
  const bool two = fields.next(version) && fields.next(diff) && !fields.next(more);
  if (!two || fields.damaged() || !version.is("$v") || version.integer() != 2 || !diff.is("diff") ||
      diff.type != BSON_TYPE_DOCUMENT)
    return {};
  return diff.document();
}

}  // namespace

std::optional<std::vector<std::uint8_t>> net_effect(Document first, Document second) {
  if (first.bytes().size() > kMostTimes * second.bytes().size() + kMostMore) return std::nullopt;
  const Document before = diff_of(first);
  const Document then = diff_of(second);
  if (!before || !then || is_array_diff(before)) return std::nullopt;
  Writer to(first.bytes().size() + second.bytes().size());
  const std::size_t begun = to.begin();
  Fields fields(first);
  Field version;
  if (fields.next(version)) to.put(version);
  const std::size_t diff = to.begin("diff");
  if (!merge(before, then, 0, to)) return std::nullopt;
  to.end(diff);
  to.end(begun);
  return to.take();
}

}  // namespace idmint::restore
