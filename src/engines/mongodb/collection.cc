#include "engines/mongodb/collection.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

// The checks before documents are sent can be given up without a loss.
constexpr milliseconds kLongestLook = std::chrono::seconds{5};

// The text as a string literal of mongosh.
std::string mongosh_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return quoted + "\"";
}

std::string in_mongosh(const std::string& collection) {
  return "db.getCollection(" + mongosh_text(collection) + ")";
}

std::string make_index_command(const std::string& collection, const std::string& field,
                               bool unique) {
  return in_mongosh(collection) + ".createIndex({" + mongosh_text(field) +
         (unique ? ": 1}, {unique: true})" : ": 1})");
}

// The repeated key that prevents a unique index: { account: 1 }.
std::string repeated_key(std::string_view message) {
  constexpr std::string_view kKey = "dup key: ";
  constexpr std::size_t kMost = 200;
  const std::size_t at = message.find(kKey);
  if (at == std::string_view::npos) return "what the server does not say";
  std::string_view key = message.substr(at + kKey.size());
  const auto in_character = [](char byte) { return (byte & 0xC0) == 0x80; };
  std::size_t end = std::min(key.size(), kMost);
  while (end < key.size() && end > 0 && in_character(key[end])) --end;
  return std::string(key.substr(0, end));
}

}  // namespace

// The parser accepts an array as a document, and stops after the first of several documents.
// Wrapped in an array of our own, there must be exactly one.
Result<std::vector<std::byte>> from_json(std::string_view json) {
  if (Result<void> loaded = mongo::load_driver(); !loaded) return std::unexpected(loaded.error());
  bson_error_t error{};
  bson_t array;
  const std::string wrapped = "[" + std::string(json) + "]";
  if (!bson_init_from_json(&array, wrapped.data(), std::ssize(wrapped), &error)) {
    bson_t alone;  // for its message, which counts characters from the first one
    const std::string text(json);
    if (!bson_init_from_json(&alone, text.data(), std::ssize(text), &error))
      return refuse("not JSON: " + std::string(error.message));
    bson_destroy(&alone);
    return refuse("not one document: there is something after it");
  }
  const Bson parsed = Bson::taken_from(&array);
  std::vector<std::byte> document;
  int elements = 0;
  parsed.view().each_field([&](const char*, bson_iter_t* at) {
    if (++elements > 1 || bson_iter_type(at) != BSON_TYPE_DOCUMENT) return;
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    bson_iter_document(at, &size, &data);
    const auto bytes = std::as_bytes(std::span(data, size));
    document.assign(bytes.begin(), bytes.end());
  });
  if (elements > 1) return refuse("not one document: there is something after it");
  if (elements == 0) return refuse("it is empty: a document is {} at least");
  if (document.empty()) return refuse("not a document: it begins with { and has fields");
  return document;
}

Result<Bson> Target::run(Bson command, Kind kind, std::string_view doing, Terms terms) {
  if (!connected_.servers->owned())
    return std::unexpected(
        Error{Code::kFailedPrecondition, "the handle of " + name_ +
                                             " was inherited through fork(); open "
                                             "collections after the fork, not before"});
  terms.sharded = true;
  const milliseconds deadline =
      kind == Kind::kPlain ? std::min(connected_.deadline, kLongestLook) : connected_.deadline;
  return connected_.servers->run(std::move(command), kind,
                                 std::chrono::steady_clock::now() + deadline,
                                 std::string(doing) + " " + collection_ + " in", terms);
}

Result<Bson> Target::write(Bson command, std::string_view doing, Terms terms) {
  return run(std::move(command), Kind::kWrite, doing, std::move(terms));
}

Result<Bson> Target::read(Bson command, std::string_view doing, const std::string& database) {
  return run(std::move(command), Kind::kReadMany, doing, Terms{.database = database});
}

// listIndexes takes only read concern local. It marks indexes that are being built only on request.
Result<Bson> Target::indexes(const std::string& collection) {
  Bson command;
  command.add("listIndexes", std::string_view(collection))
      .add("cursor", Bson().add("batchSize", 1000))
      .add("includeBuildUUIDs", true);
  Result<Bson> reply = run(std::move(command), Kind::kPlain, "read the indexes of", {});
  if (!reply && reply.error().code == Code::kNotFound) return Bson();
  return reply;
}

Result<Bson> Target::hello() {
  return run(std::move(Bson().add("hello", 1)), Kind::kPlain, "look at", {});
}

Result<void> Target::check_proxy(const std::string& proxy) const {
  if (Result<void> ok = check_collection(proxy); !ok) return ok;
  if (proxy == collection_)
    return refuse("the proxy collection is the collection itself: give it a name of its own");
  const std::string database = database_ + ".";
  if (proxy.starts_with(database))
    return refuse("the proxy collection is always in the database of the collection, and " +
                  shown(proxy) + " begins with its name: write " +
                  shown(proxy.substr(database.size())));
  return {};
}

Result<UniqueIndexCheck> Target::judge_index(const std::string& collection,
                                             const std::string& field) {
  const Result<Bson> hello = this->hello();
  if (!hello) return std::unexpected(hello.error());
  std::optional<Bson> sharding;
  if (hello->view().bytes("msg") == "isdbgrid") {
    Bson command;
    command.add("find", "collections")
        .add("filter", Bson().add("_id", std::string_view(database_ + "." + collection)))
        .add("limit", 1)
        .add("singleBatch", true);
    Result<Bson> reply = read(std::move(command), "find the shard key of", "config");
    if (!reply) {
      add_outcome(reply.error(), "idmint needs to read config.collections");
      return std::unexpected(std::move(reply.error()));
    }
    sharding = *std::move(reply);
  }
  const Result<Bson> list = indexes(collection);
  if (!list) return std::unexpected(list.error());
  return judge(field, *list, sharding ? &*sharding : nullptr);
}

bool Target::known(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return known_.contains(key);
}

// With the default quorum, one member that is down would prevent the index.
Result<void> Target::make_index(const std::string& field, bool unique) {
  const Result<Bson> hello = this->hello();
  if (!hello) return std::unexpected(hello.error());
  Bson index;
  index.add("key", Bson().add(field.c_str(), 1)).add("name", std::string_view(field + "_1"));
  if (unique) index.add("unique", true);
  Bson command;
  command.add("createIndexes", std::string_view(collection_))
      .add_array("indexes", Bson().add("0", index));
  if (hello->view().has("setName") || hello->view().bytes("msg") == "isdbgrid")
    command.add("commitQuorum", "majority");
  Result<Bson> made = write(std::move(command), "make the index of", {.idempotent = true});
  if (made) return {};
  Error& error = made.error();
  if (error.code == Code::kAlreadyExists) {
    const std::string key = repeated_key(error.message());
    error.what = name_ + " has documents that are alike in " + shown(field) + ", " + key +
                 ", so that no unique index can be made; nothing was inserted; mend them first: " +
                 in_mongosh(collection_) +
                 ".aggregate([{$sortByCount: " + mongosh_text("$" + field) +
                 "}, {$match: {count: {$gt: 1}}}]) in mongosh lists what is there more than once";
    error.outcome.clear();
    if (key.ends_with(": null }"))
      add_outcome(error,
                  "where documents without the field may stay, make the index by hand, with "
                  "{unique: true, sparse: true}");
  }
  if (error.code == Code::kFailedPrecondition)
    add_outcome(error,
                "an index that is there is in its way, and does not keep values apart: drop it "
                "first, " +
                    in_mongosh(collection_) + ".dropIndex(NAME) in mongosh, and insert again");
  if (error.code == Code::kDeadlineExceeded)
    add_outcome(error,
                "nothing was inserted; an index is made when a majority of the members has built "
                "it, which takes its time where there is much: make it in mongosh, " +
                    make_index_command(collection_, field, unique) + ", and then insert");
  return std::unexpected(std::move(made.error()));
}

Result<void> Target::need_unique(const std::string& field, bool make) {
  if (known(field)) return {};
  const Result<UniqueIndexCheck> found = judge_index(collection_, field);
  if (!found) return std::unexpected(found.error());
  if (found->guard == IndexState::kProxy)
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 name_ + " can have no unique index on " + shown(field) +
                                     " alone: " + found->why +
                                     "; claim the ids in a proxy collection first",
                                 {.remedy = Remedy::kSetOption, .values = {"proxy"}}});
  if (found->guard == IndexState::kMissing && !make)
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              name_ + " has no unique index on exactly " + shown(field) + ": " + found->why +
                  "; without one the same id can be there twice; make it in mongosh: " +
                  make_index_command(collection_, field, true) + ", or let the insert make it",
              {.remedy = Remedy::kSetOption, .values = {"make_index"}}});
  if (found->guard == IndexState::kMissing)
    if (Result<void> made = make_index(field, true); !made) return made;
  const std::lock_guard lock(mutex_);
  known_.insert(field);
  return {};
}

Result<void> Target::need_look_up(const std::string& field, bool make) {
  const std::string key = field + ".";  // no field has a dot
  if (known(key)) return {};
  const Result<Bson> indexes = this->indexes(collection_);
  if (!indexes) return std::unexpected(indexes.error());
  const bool will_be = field == "_id" && !is_there(*indexes);
  if (!will_be && !can_look_up(field.c_str(), *indexes)) {
    if (!make)
      return std::unexpected(
          Error{Code::kFailedPrecondition,
                name_ + " has no index that begins with " + shown(field) +
                    ", so that a sweep would read all of it for each claim; make one, unique or "
                    "not, in mongosh: " +
                    make_index_command(collection_, field, false) + ", or let an insert make it",
                {.remedy = Remedy::kSetOption, .values = {"make_index"}}});
    if (Result<void> made = make_index(field, false); !made) return made;
  }
  const std::lock_guard lock(mutex_);
  known_.insert(key);
  return {};
}

Result<void> Target::need_proxy(const std::string& proxy) {
  const std::string key = "." + proxy;
  if (known(key)) return {};
  const Result<UniqueIndexCheck> found = judge_index(proxy, "_id");
  if (!found) return std::unexpected(found.error());
  if (found->guard != IndexState::kUnique)
    return std::unexpected(
        Error{Code::kFailedPrecondition, "the proxy collection " + shown(proxy) +
                                             " cannot keep ids apart: " + found->why +
                                             "; shard it by _id, or not at all"});
  // Marks nothing, before anything is inserted, to check the permission.
  Bson none;
  none.add("_id", Bson().add_array("$in", Bson()));
  if (const Result<std::int64_t> marked = mark(proxy, none, "used"); !marked)
    return std::unexpected(marked.error());
  const std::lock_guard lock(mutex_);
  known_.insert(key);
  return {};
}

Result<std::int64_t> Target::mark(const std::string& proxy, const Bson& query, const char* state) {
  Bson update;
  update.add("q", query)
      .add("u", Bson().add("$set", Bson().add("state", state)))
      .add("multi", true);
  Bson command;
  command.add("update", std::string_view(proxy)).add_array("updates", Bson().add("0", update));
  const Result<Bson> reply =
      write(std::move(command), "mark claims in the proxy of", {.idempotent = true});
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("nModified");
}

}  // namespace idmint::stores::mongodb

namespace idmint::mongodb {

Result<Collection> Collection::open(std::string_view url, std::string_view name,
                                    const CollectionOptions& options) {
  namespace at = stores::mongodb;
  const std::size_t dot = name.find('.');
  const std::string_view database = dot == std::string_view::npos ? "" : name.substr(0, dot);
  const std::string_view collection = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (Result<void> loaded = mongo::load_driver(); !loaded) return std::unexpected(loaded.error());
  if (dot == 0 || collection.empty())
    return std::unexpected(Error{
        Code::kInvalidArgument, stores::shown(name) + " is not the name of a collection: give "
                                                      "DATABASE.COLLECTION, such as app.accounts"});
  if (Result<void> ok = stores::check_collection(collection); !ok)
    return std::unexpected(ok.error());
  Result<at::Connected> connected = at::connect(url, options.deadline, {.database = database});
  if (!connected) return std::unexpected(std::move(connected.error()));
  std::string in = connected->database;
  return Collection(
      std::make_unique<State>(*std::move(connected), std::move(in), std::string(collection)));
}

Collection::Collection(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Collection::~Collection() = default;
Collection::Collection(Collection&&) noexcept = default;
Collection& Collection::operator=(Collection&&) noexcept = default;

const std::string& Collection::name() const noexcept { return state_->name(); }

}  // namespace idmint::mongodb
