// Conversion: an id in another spelling, encoding or format of the same bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "advice/words.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint {
struct Format;
}

namespace idmint::advice {

// As given; empty: not given.
struct ConversionTexts {
  std::string to{};  // an encoding, a format, or a spelling of a UUID: "base58", "ulid", "urn"
  std::optional<std::string> prefix{};
  std::string check{};
  std::optional<std::string> width{};
};

struct ConversionTarget;

class Conversion final {
 public:
  // kInvalidArgument, in these words: no such target, or it does not take the other options.
  [[nodiscard]] static Result<Conversion> make(const ConversionTexts& given, Words words);

  // `text` is the text of the id; a TypeID keeps its prefix. kInvalidArgument: ids of that format
  // have no such text.
  [[nodiscard]] Result<std::string> operator()(std::string_view text, const Id& id) const;

 private:
  const Format* kind_ = nullptr;              // to print it as; null:
  const ConversionTarget* target_ = nullptr;  // null: the encoding of the form
  Form form_{};
  bool keep_prefix_ = false;  // keep the prefix of the TypeID
  Words words_ = Words::kOptions;
};

}  // namespace idmint::advice
