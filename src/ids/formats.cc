// The list of formats. Each is described beside its own code.
#include <algorithm>
#include <array>
#include <variant>

#include "ids/format.h"

namespace idmint {

extern const Format kDigitsFormat, kIntegerKind, kKsuidFormat, kNanoidFormat, kObjectIdFormat,
    kClassicObjectIdFormat, kSnowflakeFormat, kTsidFormat, kTypeIdFormat, kUlidFormat, kUuid1Format,
    kUuid2Format, kUuid4Format, kUuid6Format, kUuid7Format, kUuidKind, kXidFormat;

namespace {

constexpr std::array kMintable = {
    &kUuid1Format, &kUuid2Format, &kUuid4Format,  &kUuid6Format,     &kUuid7Format,
    &kUlidFormat,  &kKsuidFormat, &kTypeIdFormat, &kObjectIdFormat,  &kClassicObjectIdFormat,
    &kXidFormat,   &kTsidFormat,  &kNanoidFormat, &kSnowflakeFormat, &kDigitsFormat,
};

constexpr std::array<const Format*, std::variant_size_v<Id>> kKinds = {
    &kIntegerKind, &kSnowflakeFormat, &kUuidKind,     &kUlidFormat, &kObjectIdFormat,
    &kKsuidFormat, &kXidFormat,       &kDigitsFormat, &kTsidFormat, &kNanoidFormat,
};

const Format* named(std::span<const Format* const> rows, std::string_view name) noexcept {
  const auto found = std::ranges::find(rows, name, &Format::name);
  return found == rows.end() ? nullptr : *found;
}

}  // namespace

std::span<const Format* const> formats() noexcept { return kMintable; }

std::span<const Format* const> kinds() noexcept { return kKinds; }

const Format* find_format(std::string_view name) noexcept { return named(kMintable, name); }

const Format* find_kind(std::string_view name) noexcept { return named(kKinds, name); }

std::string_view format_of(const Id& id) noexcept { return kind_of(id).name; }

}  // namespace idmint
