#include "sequences/moved.h"

#include <string>
#include <utility>

#include "base/errors.h"
#include "sequences/life_cycle.h"
#include "sequences/strategies.h"
#include "store/catalog.h"

namespace idmint {

const Move* move_of(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr && sequence->move ? &*sequence->move : nullptr;
}

Error refuse_moved(const Store& store, const SequenceDefinition& moving, const Move& move) {
  const std::string here(store.url());
  const auto under_way = [&](const std::string& what, const std::string& from,
                             const std::string& to) {
    return naming_places(
        error_at(store, Code::kUnavailable, moving,
                 what + "; ask again when that is done, and if it was interrupted finish it",
                 {Remedy::kFinishMove, moving.name, {from, to}}));
  };
  switch (move.stage) {
    case Move::Stage::kLeaving:
      return under_way("it is being moved to " + move.url, here, move.url);
    case Move::Stage::kArriving:
      return under_way("it is being moved here from " + move.url +
                           " (or was to be: to give that up, retire it here)",
                       move.url, here);
    case Move::Stage::kGone:
      break;
  }
  return naming_places(
      error_at(store, Code::kFailedPrecondition, moving,
               "it was moved to " + move.url + "; ask that store, or start the program with it",
               {Remedy::kFollowMove, moving.name, {move.url}}));
}

bool is_arriving(const Definition& definition) {
  const Move* const move = move_of(definition);
  return move != nullptr && move->stage == Move::Stage::kArriving;
}

std::optional<Error> moved_away(const Store& store, const Definition& definition) {
  const Move* const move = move_of(definition);
  if (move == nullptr) return std::nullopt;
  return refuse_moved(store, std::get<SequenceDefinition>(definition), *move);
}

Result<void> send_away(Store& store, const SequenceDefinition& read, const Move& move) {
  if (Result<void> closed = close_values(store, read); !closed) return closed;
  SequenceDefinition sent = read;
  sent.move = move;
  sent.retired = move.stage == Move::Stage::kGone;
  const Result<Defined> now = store.catalog()->replace(read, sent);
  if (!now) return std::unexpected(now.error());
  if (*now == Definition(sent)) return {};
  return std::unexpected(error_at(store, Code::kUnavailable, read,
                                  "others changed its definition meanwhile; try again"));
}

}  // namespace idmint
