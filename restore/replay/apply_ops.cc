#include "restore/replay/apply_ops.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/errors.h"
#include "restore/oplog/fields.h"
#include "restore/replay/record.h"

namespace idmint::restore {

void Operations::append(std::string_view op, std::string_view ns, Document o, Document o2,
                        bool upsert) {
  bson_t each;
  begin(&each);
  bson_append_utf8(&each, "op", 2, op.data(), static_cast<int>(op.size()));
  bson_append_utf8(&each, "ns", 2, ns.data(), static_cast<int>(ns.size()));
  bson_t view = o.view();
  bson_append_document(&each, "o", 1, &view);
  if (o2) {
    view = o2.view();
    bson_append_document(&each, "o2", 2, &view);
  }
  if (upsert) BSON_APPEND_BOOL(&each, "b", true);
  bson_append_document_end(array_.get(), &each);
}

void Operations::append(Document operation) {
  bson_t each;
  begin(&each);
  const bson_t view = operation.view();
  bson_concat(&each, &view);
  bson_append_document_end(array_.get(), &each);
}

void Operations::begin(bson_t* each) {
  char buffer[16];
  const char* key = nullptr;
  const std::size_t length = bson_uint32_to_string(size(), &key, buffer, sizeof buffer);
  // The type takes the place of the 0 at the end; a 0 ends the key.
  begins_.push_back(array_.get()->len + static_cast<std::uint32_t>(length) + 1);
  bson_append_document_begin(array_.get(), key, static_cast<int>(length), each);
}

Document Operations::operator[](std::size_t index) const {
  const std::span<const std::uint8_t> rest = array_.view().bytes().subspan(begins_[index]);
  std::uint32_t size = 0;
  std::memcpy(&size, rest.data(), sizeof size);
  return Document::of(rest.first(BSON_UINT32_FROM_LE(size)));
}

Answer ask(Server& server, const std::string& database, const Bson& command) {
  bson_t reply;
  bson_error_t error{};
  Answer answer;
  answer.ok = mongoc_client_command_with_opts(server.client(), database.c_str(), command.get(),
                                              nullptr, nullptr, &reply, &error);
  const Document document = Document::of(&reply);
  if (const Document unsafe = document.document("writeConcernError"); answer.ok && unsafe) {
    answer.ok = false;
    answer.unavailable = true;
    answer.message = to_relaxed_json(unsafe);
  } else if (!answer.ok) {
    answer.code = document.number("code");
    answer.why = code_of_repeatable(error);
    answer.unavailable = answer.why == Code::kUnavailable;
    answer.message = error.message;
  }
  for (const Field& each : Fields(document.array("results"))) {
    ++answer.results;
    if (answer.ok && !each.truth()) {  // never seen
      answer.ok = false;
      answer.message = "an operation was not applied";
      break;
    }
  }
  bson_destroy(&reply);
  return answer;
}

Error lost(const Server& server, const Answer& answer) {
  return server.explained(
      {Code::kUnavailable, server.shown_uri() + " was lost, or could not do it: " + answer.message +
                               "; the same command goes on"});
}

std::unexpected<Error> failed(const Server& server, const Answer& answer,
                              const std::string& tried) {
  if (answer.unavailable) return std::unexpected(lost(server, answer));
  return fail(answer.why, tried + ": " + answer.message);
}

namespace {

Answer apply(Server& server, const Operations& operations, const Operations& then, bool durable,
             bool atomic, std::int32_t max_time) {
  Bson command = Bson(bson_sized_new(operations.bytes() + then.bytes() + 1024));
  bson_t array;
  BSON_APPEND_ARRAY_BEGIN(command.get(), "applyOps", &array);
  const bson_t first = operations.view().view();
  bson_concat(&array, &first);
  std::uint32_t key = operations.size();
  for (const Field& each : Fields(then.view()))
    append_field_as(&array, std::to_string(key++), each);
  bson_append_array_end(command.get(), &array);
  command.append("allowAtomic", atomic, "alwaysUpsert", false, "bypassDocumentValidation", true);
  if (max_time != 0) command.add("maxTimeMS", max_time);
  return ask(server, "admin", with_concern(std::move(command), server, durable));
}

}  // namespace

Answer apply_ops(Server& server, const Operations& operations, const Operations& then, bool durable,
                 std::int32_t max_time) {
  return apply(server, operations, then, durable, true, max_time);
}

Answer apply_command(Server& server, std::string_view database, const Bson& command) {
  Operations operations;
  operations.append("c", std::string(database) + ".$cmd", command.view(), {});
  return apply_ops(server, operations, {}, false);
}

Answer apply_one_by_one(Server& server, const Operations& operations) {
  return apply(server, operations, {}, false, false, 0);
}

}  // namespace idmint::restore
