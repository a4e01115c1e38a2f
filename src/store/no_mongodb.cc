// The functions of idmint/mongodb.h in a build without MongoDB.
#include "idmint/mongodb.h"

namespace idmint::mongodb {

namespace {

Error left_out() {
  return {Code::kUnimplemented,
          "this build of idmint left out MongoDB; configure it with -DIDMINT_MONGODB=ON"};
}

}  // namespace

struct Collection::State {};

Result<Collection> Collection::open(std::string_view, std::string_view, const CollectionOptions&) {
  return std::unexpected(left_out());
}

Collection::Collection(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Collection::~Collection() = default;
Collection::Collection(Collection&&) noexcept = default;
Collection& Collection::operator=(Collection&&) noexcept = default;

const std::string& Collection::name() const noexcept {
  static const std::string kNone;
  return kNone;
}

std::expected<Inserted, NotInserted> insert_with_id(Collection&, Source&, std::span<const Bytes>,
                                                    const InsertOptions&, Clock&) {
  return std::unexpected(NotInserted{left_out()});
}

Result<std::vector<std::byte>> document_from_json(std::string_view) {
  return std::unexpected(left_out());
}

Result<Swept> sweep(Collection&, const SweepOptions&, Clock&) {
  return std::unexpected(left_out());
}

}  // namespace idmint::mongodb
