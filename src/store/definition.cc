#include "idmint/definition.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "idmint/snowflake.h"
#include "ids/form_width.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

using Json = nlohmann::ordered_json;

// The name of a strategy, its promises, and its own field of a definition.
struct Row {
  Strategy strategy;
  std::string_view name;
  Guarantee guarantee;
  Order order;
  std::string_view field;
};
constexpr std::array kStrategies = {
    Row{Strategy::kCounter, "counter", Guarantee::kLinearizable, Order::kAll, ""},
    Row{Strategy::kStriped, "striped", Guarantee::kUnique, Order::kNone, "stripes"},
    Row{Strategy::kInterleaved, "interleaved", Guarantee::kUnique, Order::kNone, "stripes"},
    Row{Strategy::kCached, "cached", Guarantee::kUnique, Order::kPerThread, "step"},
    Row{Strategy::kRandom, "random", Guarantee::kUnique, Order::kNone, ""},
    Row{Strategy::kPermuted, "permuted", Guarantee::kUnique, Order::kNone, "key"},
    Row{Strategy::kGapless, "gapless", Guarantee::kGapless, Order::kAll, ""},
};

// A pool is stored like a sequence of its worker ids.
constexpr std::string_view kPool = "pool";

const Row& row_of(Strategy strategy) noexcept {
  static constexpr Row kNone{Strategy{}, "?", Guarantee::kPractical, Order::kNone, ""};
  const auto* const row = std::ranges::find(kStrategies, strategy, &Row::strategy);
  return row != kStrategies.end() ? *row : kNone;
}

constexpr std::array<std::string_view, 22> kFields = {
    "name",   "strategy", "first",  "last",   "stripes",    "step",    "key",     "largest_count",
    "prefix", "encoding", "check",  "digits", "width",      "retired", "adopted", "layout",
    "stride", "over",     "stripe", "move",   "move_store", "move_url"};

struct StageName {
  Move::Stage stage;
  std::string_view name;
};
constexpr std::array kStages = {StageName{Move::Stage::kLeaving, "leaving"},
                                StageName{Move::Stage::kGone, "gone"},
                                StageName{Move::Stage::kArriving, "arriving"}};

std::unexpected<Error> damaged(std::string why) {
  return std::unexpected(stores::damaged_definition(std::move(why)));
}

std::unexpected<Error> newer(std::string what) {
  return std::unexpected(
      Error{Code::kUnimplemented, "a stored definition has " + std::move(what) +
                                      ", which this idmint does not know; use a newer idmint"});
}

std::unexpected<Error> wrong_type(const Json& object) {
  return damaged("a field is missing or of the wrong type: " + stores::shown(object.dump()));
}

// False: the field has another type. A missing field leaves `out` unchanged.
bool read(const Json& object, std::string_view field, std::int64_t& out) {
  const auto at = object.find(field);
  if (at == object.end()) return true;
  if (!at->is_number_integer()) return false;
  if (at->is_number_unsigned() &&
      at->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return false;
  out = at->get<std::int64_t>();
  return true;
}

bool read(const Json& object, std::string_view field, std::string& out) {
  const auto at = object.find(field);
  if (at == object.end()) return true;
  if (!at->is_string()) return false;
  out = at->get<std::string>();
  return true;
}

bool read(const Json& object, std::string_view field, bool& out) {
  const auto at = object.find(field);
  if (at == object.end()) return true;
  if (!at->is_boolean()) return false;
  out = at->get<bool>();
  return true;
}

Result<void> validate_name(const std::string& name) {
  constexpr std::size_t kLongest = 120;
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto allowed = [&](char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; };
  if (name.empty()) return refuse("the name of a sequence is empty: give it one, such as orders");
  if (name.size() > kLongest)
    return refuse("the name " + stores::shown(name) + " has " + std::to_string(name.size()) +
                  " characters: use 120 at most");
  if (!std::ranges::all_of(name, allowed) || !alphanumeric(name.front()))
    return refuse("the name " + stores::shown(name) +
                  " is not allowed: use A-Z a-z 0-9 . _ - and begin with a letter or digit");
  return {};
}

std::string titled(const SequenceDefinition& sequence) { return "sequence " + sequence.name; }
std::string titled(const PoolDefinition& pool) { return "pool " + pool.name; }

// The value after the last one of each counter must be storable. REQUIRES: strategy and stride are
// valid.
std::int64_t largest_end(const SequenceDefinition& definition) {
  return largest_last(definition.strategy == Strategy::kInterleaved
                          ? definition.stride * definition.stripes
                          : definition.stride);
}

Result<void> validate_values(const SequenceDefinition& definition) {
  const std::string sequence = titled(definition);
  if (definition.first < 0)
    return refuse(sequence + " would begin at " + std::to_string(definition.first) +
                  ": begin at 0 or above");
  const std::int64_t largest = largest_end(definition);
  if (definition.last > largest)
    return refuse(sequence + " would end at " + std::to_string(definition.last) + ": end at " +
                  std::to_string(largest) + " or below");
  if (definition.first > definition.last)
    return refuse(sequence + " would begin at " + std::to_string(definition.first) +
                  ", above its end at " + std::to_string(definition.last) +
                  ": give a larger end or a smaller beginning");
  if (definition.stripes > definition.size())
    return refuse(sequence + " would have " + std::to_string(definition.stripes) +
                  " stripes and fewer values: give a larger end or fewer stripes");
  return {};
}

// Each field is valid for the strategy, or has its default if the strategy does not use it.
Result<void> validate_strategy(const SequenceDefinition& definition) {
  constexpr std::size_t kKeyDigits = 32;
  const std::string sequence = titled(definition);
  const auto* const row = std::ranges::find(kStrategies, definition.strategy, &Row::strategy);
  if (row == kStrategies.end()) return refuse(sequence + " has no strategy: give it one");
  const auto unused = [&](std::string_view field) {
    return refuse(sequence + " is " + std::string(row->name) + ", which does not use " +
                  std::string(field) + ": leave it out, or choose another strategy");
  };
  const bool stripes = row->field == "stripes";
  if (!stripes && definition.stripes != 1) return unused("stripes");
  if (stripes && definition.stripes == 1)
    return refuse(sequence + " is " + std::string(row->name) +
                      ": give the number of its stripes, 2 to " +
                      std::to_string(SequenceDefinition::kMaxStripes),
                  {.remedy = Remedy::kSetOption, .values = {"stripes"}});
  if (stripes && (definition.stripes < 2 || definition.stripes > SequenceDefinition::kMaxStripes))
    return refuse(sequence + " would have " + std::to_string(definition.stripes) +
                  " stripes: give 2 to " + std::to_string(SequenceDefinition::kMaxStripes));
  if (row->field != "step" && definition.step != 0) return unused("a step");
  if (definition.step < 0)
    return refuse(sequence + " would take ranges of " + std::to_string(definition.step) +
                  " values: give a step of 1 or more, or none to let it adapt");
  if (row->field != "key" && !definition.key.empty()) return unused("a key");
  if (!definition.key.empty() &&
      (definition.key.size() != kKeyDigits ||
       definition.key.find_first_not_of("0123456789abcdef") != std::string::npos))
    return refuse(sequence +
                  " has a key that is not 32 digits out of 0-9 a-f: give such a one, "
                  "or none to have it drawn");
  return {};
}

Result<void> validate_largest_count(const Definition& definition, std::int64_t largest_count) {
  if (largest_count >= 0) return {};
  const auto title = [](const auto& its) { return titled(its); };
  return refuse(std::visit(title, definition) + " would hand out " + std::to_string(largest_count) +
                " values at most in one call: give 1 or more, or 0 for no limit");
}

Result<void> validate_stride(const SequenceDefinition& definition) {
  if (definition.stride == 1) return {};
  const std::string sequence = titled(definition);
  if (definition.stride < 1 || definition.stride > SequenceDefinition::kMaxStride)
    return refuse(sequence + " would have a stride of " + std::to_string(definition.stride) +
                      ": give 1 to " + std::to_string(SequenceDefinition::kMaxStride),
                  {.remedy = Remedy::kSetOption, .values = {"stride"}});
  if (definition.strategy == Strategy::kGapless)
    return refuse(sequence +
                  " is gapless, and a stride leaves numbers out: leave it out, or choose another "
                  "strategy");
  return {};
}

// The worker ids must fit the layout.
Result<void> validate_workers(const PoolDefinition& pool) {
  if (Result<void> ok = pool.layout.validate(); !ok) return refused(titled(pool), ok.error());
  const std::int64_t most =
      std::min<std::int64_t>(pool.layout.max_worker(), LeaseTable::kMaxWorkers - 1) + 1;
  if (pool.workers < 0 || pool.workers > most)
    return refuse(titled(pool) + " would have " + std::to_string(pool.workers) +
                  " worker ids: its layout, " + to_string(pool.layout) + ", has room for " +
                  std::to_string(std::int64_t{pool.layout.max_worker()} + 1) + ", and a pool for " +
                  std::to_string(LeaseTable::kMaxWorkers));
  return {};
}

// A counter in an adopted record hands out its values unchanged. The store checks the rest: the
// text is in its syntax, and is copied into commands, messages and files.
Result<void> validate_adopted(const SequenceDefinition& definition) {
  constexpr std::size_t kLongest = 1000;
  const std::string& adopted = definition.adopted;
  const std::string sequence = titled(definition);
  if (adopted.empty() && definition.make_adopted)
    return refuse(sequence + " adopts nothing that could be made: name it");
  if (adopted.empty()) return {};
  if (definition.strategy != Strategy::kStriped && definition.strategy != Strategy::kCounter &&
      definition.strategy != Strategy::kCached && !definition.is_multi_store())
    return refuse(sequence + " is " + std::string(row_of(definition.strategy).name) +
                  ", and other programs take the values of an adopted record as they come: "
                  "adopt it as counter, cached or striped, or over several stores");
  if (adopted.size() > kLongest || escaped(adopted) != adopted)
    return refuse(sequence + " cannot adopt " + stores::shown(adopted) +
                  ": a record is named in 1000 bytes of UTF-8 at most, all of which can be seen");
  return {};
}

// The URL goes into messages and commands.
Result<void> validate_move(const SequenceDefinition& definition) {
  constexpr std::size_t kLongest = 1000;
  if (!definition.move) return {};
  const Move& move = *definition.move;
  const std::string sequence = titled(definition);
  if (definition.is_multi_store())
    return refuse(sequence + " is over several stores, and such a sequence is not moved");
  if (move.url.empty() || move.url.size() > kLongest || escaped(move.url) != move.url)
    return refuse(sequence + " cannot move to or from " + stores::shown(move.url) +
                  ": the URL of a store has 1 to 1000 bytes of UTF-8, all of which can be seen");
  if (move.store == Uuid{})
    return refuse(sequence + " moves to or from a store without an id: give one that has an id");
  if ((move.stage == Move::Stage::kGone) != definition.retired)
    return refuse(sequence +
                  " is retired, or moved to another store, but not both: a sequence that was "
                  "moved is retired where it was");
  return {};
}

Result<void> validate_over(const SequenceDefinition& definition) {
  constexpr std::size_t kMostBytes = 2500;  // of the URLs, so that the definition stays short
  const std::vector<StoreOfStripe>& over = definition.over;
  const std::string sequence = titled(definition);
  if (over.empty()) {
    if (definition.stripe == 0) return {};
    return refuse(sequence + " has a stripe of its own and names no stores");
  }
  if (definition.strategy != Strategy::kInterleaved)
    return refuse(sequence + " is " + std::string(row_of(definition.strategy).name) +
                      ", and only an interleaved sequence is kept over several stores",
                  {.remedy = Remedy::kSetOption, .values = {"strategy"}});
  if (over.size() < 2 || over.size() > SequenceDefinition::kMaxStores)
    return refuse(sequence + " would be over " + std::to_string(over.size()) +
                  " stores: give 2 to " + std::to_string(SequenceDefinition::kMaxStores));
  if (std::cmp_not_equal(over.size(), definition.stripes) || definition.stripe < 0 ||
      definition.stripe >= definition.stripes)
    return refuse(sequence + " is over " + std::to_string(over.size()) + " stores, and has " +
                  std::to_string(definition.stripes) + " stripes, of which this is " +
                  std::to_string(definition.stripe) + ": each store has one stripe");
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < over.size(); ++k) {
    const StoreOfStripe& store = over[k];
    const auto same = std::ranges::find(over, store.id, &StoreOfStripe::id);
    if (store.id == Uuid{}) return refuse(sequence + " names a store without its id");
    if (same != over.begin() + static_cast<std::ptrdiff_t>(k))
      return refuse(sequence + " names one store twice, as " + same->url + " and as " + store.url +
                    ": give each store once");
    if (escaped(store.url) != store.url)
      return refuse(sequence + " names " + stores::shown(store.url) +
                    ", of which not all can be seen: give another URL");
    bytes += store.url.size();
    bytes += static_cast<std::size_t>(std::ranges::count_if(
        store.url, [](char c) { return c == '"' || c == '\\'; }));  // JSON escapes them
  }
  if (bytes > kMostBytes)
    return refuse(sequence + " names stores with URLs of " + std::to_string(bytes) +
                  " bytes in all: give shorter ones, of " + std::to_string(kMostBytes));
  return {};
}

// A value that does not fit the form would print like another value.
Result<void> validate_form(const SequenceDefinition& definition) {
  const std::string sequence = titled(definition);
  if (Result<void> ok = idmint::validate(definition.form, "integer"); !ok)
    return refused(sequence, ok.error());
  if (definition.last > largest_integer(definition.form)) {
    return refuse(sequence + " would end at " + std::to_string(definition.last) + ", and its " +
                  room_of(definition.form) + ": end there or below, or give " +
                  (definition.form.width != 0 ? "a larger width" : "more digits"));
  }
  return {};
}

}  // namespace

Error stores::damaged_database(std::string_view where, std::string_view why) {
  return at_place(where, {Code::kDataLoss,
                          "it is damaged: " + std::string(why) +
                              "; look at it before you restore anything, and go on with sequences "
                              "that begin past every value in use"});
}

Error stores::damaged_definition(std::string why) {
  return {Code::kDataLoss, "a stored definition is damaged: " + std::move(why) +
                               "; restore the store from a backup"};
}

std::string_view name(Strategy strategy) noexcept { return row_of(strategy).name; }
std::string_view name(Guarantee guarantee) noexcept {
  switch (guarantee) {
    case Guarantee::kPractical:
      return "practical";
    case Guarantee::kUniqueIfConfigured:
      return "unique if configured so";
    case Guarantee::kUnique:
      return "unique";
    case Guarantee::kLinearizable:
      return "linearizable";
    case Guarantee::kGapless:
      return "gapless";
  }
  return "unknown";
}

Guarantee guarantee(Strategy strategy) noexcept { return row_of(strategy).guarantee; }
Order order(Strategy strategy) noexcept { return row_of(strategy).order; }

Result<Strategy> strategy_named(std::string_view name) {
  const auto* const row = std::ranges::find(kStrategies, name, &Row::name);
  if (row != kStrategies.end()) return row->strategy;
  std::string message = "no strategy is called " + stores::shown(name) + ": choose";
  for (const Row& each : kStrategies) {
    if (&each != kStrategies.data()) message += &each == &kStrategies.back() ? " or" : ",";
    message += " " + std::string(each.name);
  }
  return refuse(std::move(message));
}

const std::string& name(const Definition& definition) noexcept {
  return std::visit([](const auto& its) -> const std::string& { return its.name; }, definition);
}

const Form& form(const Definition& definition) noexcept {
  return std::visit([](const auto& its) -> const Form& { return its.form; }, definition);
}

bool is_retired(const Definition& definition) noexcept {
  return std::visit([](const auto& its) { return its.retired; }, definition);
}

std::string_view strategy_name(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr ? name(sequence->strategy) : kPool;
}

Guarantee guarantee(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr ? guarantee(sequence->strategy) : Guarantee::kUnique;
}

Order order(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr ? order(sequence->strategy) : Order::kPerProcess;
}

Result<SequenceDefinition> with_offset(SequenceDefinition sequence, std::int64_t stride,
                                       std::int64_t offset) {
  sequence.stride = stride;
  if (Result<void> ok = validate_strategy(sequence); !ok) return std::unexpected(ok.error());
  if (Result<void> ok = validate_stride(sequence); !ok) return std::unexpected(ok.error());
  sequence.last = std::min(sequence.last, largest_end(sequence));
  if (offset < 1 || offset > stride)
    return refuse(titled(sequence) + " would have the offset " + std::to_string(offset) +
                      ": give 1 to " + std::to_string(stride) + ", its stride",
                  {.remedy = Remedy::kSetOption, .values = {"offset"}});
  if (sequence.first < 0 || sequence.first > sequence.last) return sequence;
  const std::int64_t up = (stride + offset % stride - sequence.first % stride) % stride;
  if (up > sequence.last - sequence.first)
    return refuse(titled(sequence) + " has no value from " + std::to_string(sequence.first) +
                  " to " + std::to_string(sequence.last) + " with the stride " +
                  std::to_string(stride) + " and the offset " + std::to_string(offset) +
                  ": give a larger end");
  sequence.first += up;
  return sequence;
}

Result<void> validate(const SequenceDefinition& sequence) {
  if (Result<void> ok = validate_name(sequence.name); !ok) return ok;
  if (Result<void> ok = validate_strategy(sequence); !ok) return ok;
  if (Result<void> ok = validate_stride(sequence); !ok) return ok;
  if (Result<void> ok = validate_largest_count(sequence, sequence.largest_count); !ok) return ok;
  if (Result<void> ok = validate_values(sequence); !ok) return ok;
  if (Result<void> ok = validate_adopted(sequence); !ok) return ok;
  if (Result<void> ok = validate_over(sequence); !ok) return ok;
  if (Result<void> ok = validate_move(sequence); !ok) return ok;
  return validate_form(sequence);
}

Result<void> validate(const PoolDefinition& pool) {
  if (Result<void> ok = validate_name(pool.name); !ok) return ok;
  if (Result<void> ok = validate_workers(pool); !ok) return ok;
  if (Result<void> ok = validate_largest_count(pool, pool.largest_count); !ok) return ok;
  if (Result<void> ok = validate(pool.form, "snowflake"); !ok)
    return refused(titled(pool), ok.error());
  return {};
}

Result<void> validate(const Definition& definition) {
  return std::visit([](const auto& its) { return validate(its); }, definition);
}

namespace {

// Writes only what differs from the default, because an older idmint rejects fields that it does
// not know.
template <class Value>
void write(Json& json, std::string_view field, const Value& value, const Value& usual) {
  if (value != usual) json[std::string(field)] = value;
}

void write_form(Json& json, const Form& form, bool retired) {
  const Form plain;
  write(json, "prefix", form.prefix, plain.prefix);
  write(json, "encoding", name(form.encoding), name(plain.encoding));
  write(json, "check", name(form.check), name(plain.check));
  write(json, "digits", form.digits, plain.digits);
  write(json, "width", form.width, plain.width);
  write(json, "retired", retired, false);
}

Json json_of(const SequenceDefinition& sequence) {
  const SequenceDefinition plain;
  Json json{{"name", sequence.name},
            {"strategy", name(sequence.strategy)},
            {"first", sequence.first},
            {"last", sequence.last}};
  write(json, "stripes", sequence.stripes, plain.stripes);
  write(json, "step", sequence.step, plain.step);
  write(json, "key", sequence.key, plain.key);
  write(json, "largest_count", sequence.largest_count, plain.largest_count);
  write_form(json, sequence.form, sequence.retired);
  write(json, "adopted", sequence.adopted, plain.adopted);
  write(json, "stride", sequence.stride, plain.stride);
  if (sequence.is_multi_store()) {
    Json& over = json["over"] = Json::array();
    for (const StoreOfStripe& each : sequence.over)
      over.push_back({{"id", each.id.to_string()}, {"url", each.url}});
    json["stripe"] = sequence.stripe;
  }
  if (sequence.move) {
    json["move"] = std::ranges::find(kStages, sequence.move->stage, &StageName::stage)->name;
    json["move_store"] = sequence.move->store.to_string();
    json["move_url"] = sequence.move->url;
  }
  return json;
}

Json json_of(const PoolDefinition& pool) {
  Json json{{"name", pool.name},
            {"strategy", kPool},
            {"first", 0},
            {"last", pool.workers == 0 ? kLargestValue : pool.workers - 1}};
  write(json, "largest_count", pool.largest_count, std::int64_t{0});
  write_form(json, pool.form, pool.retired);
  json["layout"] = to_string(pool.layout);
  return json;
}

Result<Form> form_from(const Json& object) {
  Form form;
  std::string encoding(name(form.encoding));
  std::string check(name(form.check));
  std::int64_t digits = 0;
  std::int64_t width = 0;
  if (!read(object, "prefix", form.prefix) || !read(object, "encoding", encoding) ||
      !read(object, "check", check) || !read(object, "digits", digits) ||
      !read(object, "width", width))
    return wrong_type(object);
  const Result<Encoding> known_encoding = encoding_named(encoding);
  if (!known_encoding) return newer("the encoding " + stores::shown(encoding));
  form.encoding = *known_encoding;
  const Result<Check> known_check = check_named(check);
  if (!known_check) return newer("the check " + stores::shown(check));
  form.check = *known_check;
  if (digits != static_cast<int>(digits))
    return damaged("it has " + std::to_string(digits) + " digits");
  form.digits = static_cast<int>(digits);
  if (width != static_cast<int>(width))
    return damaged("it has a width of " + std::to_string(width));
  form.width = static_cast<int>(width);
  return form;
}

// All three fields, or none.
Result<std::optional<Move>> move_from(const Json& object) {
  constexpr std::array<std::string_view, 3> kOfMove = {"move", "move_store", "move_url"};
  const auto there = std::ranges::count_if(
      kOfMove, [&](std::string_view field) { return object.contains(field); });
  if (there == 0) return std::nullopt;
  std::string stage;
  std::string store;
  Move move;
  if (there != std::ssize(kOfMove) || !read(object, "move", stage) ||
      !read(object, "move_store", store) || !read(object, "move_url", move.url))
    return wrong_type(object);
  const auto* const row = std::ranges::find(kStages, stage, &StageName::name);
  if (row == kStages.end()) return newer("the stage of a move " + stores::shown(stage));
  move.stage = row->stage;
  const Result<Uuid> id = Uuid::parse(store);
  if (!id) return damaged("it moves to or from a store with the id " + stores::shown(store));
  move.store = *id;
  return move;
}

// False: `over` has another type.
bool read_over(const Json& object, std::vector<StoreOfStripe>& out) {
  const auto at = object.find("over");
  if (at == object.end()) return true;
  if (!at->is_array() || at->empty()) return false;
  for (const Json& each : *at) {
    std::string id;
    StoreOfStripe store;
    if (!each.is_object() || each.size() != 2 || !read(each, "id", id) ||
        !read(each, "url", store.url))
      return false;
    const Result<Uuid> uuid = Uuid::parse(id);
    if (!uuid) return false;
    store.id = *uuid;
    out.push_back(std::move(store));
  }
  return true;
}

Result<Definition> sequence_from(const Json& object, std::string_view strategy) {
  SequenceDefinition sequence;
  if (!read(object, "name", sequence.name) || !read(object, "first", sequence.first) ||
      !read(object, "last", sequence.last) || !read(object, "stripes", sequence.stripes) ||
      !read(object, "step", sequence.step) || !read(object, "key", sequence.key) ||
      !read(object, "largest_count", sequence.largest_count) ||
      !read(object, "retired", sequence.retired) || !read(object, "adopted", sequence.adopted) ||
      !read(object, "stride", sequence.stride) || !read(object, "stripe", sequence.stripe) ||
      !read_over(object, sequence.over))
    return wrong_type(object);
  const Result<Strategy> known = strategy_named(strategy);
  if (!known) return newer("the strategy " + stores::shown(strategy));
  sequence.strategy = *known;
  if (object.contains("adopted") && sequence.adopted.empty())
    return damaged("the record that it adopts has no name");
  if (object.contains("layout")) return damaged("it is a sequence with a layout");
  Result<std::optional<Move>> move = move_from(object);
  if (!move) return std::unexpected(std::move(move.error()));
  sequence.move = *std::move(move);
  return sequence;
}

Result<Definition> pool_from(const Json& object) {
  PoolDefinition pool;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::string layout;
  if (!read(object, "name", pool.name) || !read(object, "first", first) ||
      !read(object, "last", last) || !read(object, "largest_count", pool.largest_count) ||
      !read(object, "retired", pool.retired) || !read(object, "layout", layout))
    return wrong_type(object);
  for (const std::string_view field : {"stripes", "step", "key", "adopted", "stride", "over",
                                       "stripe", "move", "move_store", "move_url"})
    if (object.contains(field)) return damaged("it is a pool with the field " + std::string(field));
  const Result<SnowflakeLayout> fields = parse_snowflake_layout(layout);
  if (!fields) return damaged(fields.error().message());
  pool.layout = *fields;
  if (first != 0 || last < 0) return damaged("it is a pool that does not begin at 0");
  if (last != kLargestValue) pool.workers = last + 1;
  return pool;
}

}  // namespace

std::string to_json(const Definition& definition) {
  const Json json = std::visit([](const auto& its) { return json_of(its); }, definition);
  // A name that is not UTF-8 is not valid either; it is made readable instead of throwing.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Definition> definition_from_json(std::string_view json) {
  // Longer than any definition, and too short for its nesting to exhaust the stack.
  constexpr std::size_t kLongest = 4096;
  if (json.size() > kLongest) return damaged("it has " + std::to_string(json.size()) + " bytes");
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return damaged("it is not a JSON object: " + stores::shown(json));
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kFields, key) == kFields.end())
      return newer("the field " + stores::shown(key));
  }
  const auto is_there = [&](std::string_view field) { return object.contains(field); };
  std::string strategy;
  if (!std::ranges::all_of(std::span(kFields).first(4), is_there) ||
      !read(object, "strategy", strategy))
    return wrong_type(object);
  Result<Definition> definition =
      strategy == kPool ? pool_from(object) : sequence_from(object, strategy);
  if (!definition) return definition;
  Result<Form> form = form_from(object);
  if (!form) return std::unexpected(std::move(form.error()));
  std::visit([&](auto& its) { its.form = *std::move(form); }, *definition);
  if (Result<void> ok = check_stored(*definition); !ok) return damaged(ok.error().message());
  return definition;
}

}  // namespace idmint
