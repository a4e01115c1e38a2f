// A document is an entry of an oplog, whose parts are within it, or refused.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "restore/oplog/entry.h"

namespace {

using namespace idmint;
using fuzz::require;

struct Bytes {
  const std::uint8_t* begin;
  const std::uint8_t* end;

  [[nodiscard]] bool have(const void* data, std::size_t size) const {
    const auto* const first = static_cast<const std::uint8_t*>(data);
    return size == 0 ||
           (std::less_equal<>{}(begin, first) && std::less_equal<>{}(first + size, end));
  }
};

void check(const restore::Operation& operation, const Bytes& bytes) {
  for (const std::string_view text : {operation.op_name, operation.ns, operation.ui})
    require(bytes.have(text.data(), text.size()));
  for (const restore::Document part : {operation.o, operation.o2})
    require(bytes.have(part.bytes().data(), part.bytes().size()));
  require(operation.database().size() <= operation.ns.size());
  require(operation.collection().size() <= operation.ns.size());
  static_cast<void>(operation.command());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  // Its length and its last byte are those of a document, as a reader of files has made sure.
  std::vector<std::uint8_t> input(data, data + size);
  const auto length = static_cast<std::uint32_t>(size);
  std::memcpy(input.data(), &length, sizeof length);
  input.back() = 0;
  const restore::Document document = restore::Document::of(input);
  require(static_cast<bool>(document));
  const Bytes bytes{.begin = input.data(), .end = input.data() + size};
  const Result<restore::Entry> entry = restore::parse_entry(document);
  require(entry || entry.error().code == Code::kDataLoss);
  if (entry) {
    check(entry->operation, bytes);
    require(entry->at.ts != restore::Timestamp{});
    require(bytes.have(entry->lsid.bytes().data(), entry->lsid.bytes().size()));
    static_cast<void>(entry->in_transaction());
  }
  const Result<restore::Operation> operation = restore::parse_operation(document);
  require(operation || operation.error().code == Code::kDataLoss);
  if (operation) check(*operation, bytes);
  return 0;
}
