// All JSON that idmint prints, except plans, and the lines of `next` and `inspect`, which are too
// many for a JSON library. Integers that a store holds in 64 bits are strings, and numbers if
// `numbers` (numbers_option.h); other integers are numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "advice/diagnosis.h"
#include "advice/layout_change.h"
#include "cli/applied.h"
#include "cli/measurement.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/source.h"

namespace idmint::cli {

// One line each, without the newline.
[[nodiscard]] std::string json_version(std::string_view version);
[[nodiscard]] std::string json_formats(std::span<const Declaration> formats);
[[nodiscard]] std::string json_layouts(std::span<const SnowflakePreset> presets);
[[nodiscard]] std::string json_sequence(const SequenceStatus& status, std::string_view store,
                                        bool numbers);
[[nodiscard]] std::string json_raised(const Raised& raised, std::string_view store, bool dry_run,
                                      bool numbers);
[[nodiscard]] std::string json_moved(const Moved& moved, std::string_view from, std::string_view to,
                                     bool dry_run, bool numbers);
// `settled`: the store hands out values again.
[[nodiscard]] std::string json_raised_all(std::span<const RaisedSource> sources,
                                          std::string_view store, bool settled, bool dry_run,
                                          bool numbers);
[[nodiscard]] std::string json_created(const Changed& created, std::string_view store,
                                       bool numbers);
[[nodiscard]] std::string json_sequences(std::span<const SequenceStatus> statuses, bool numbers);
// `from`: for a pool, see leased_from().
[[nodiscard]] std::string json_peeked(const SequenceStatus& status, std::string_view store,
                                      std::optional<Instant> from, bool numbers);
// The worker ids of a pool.
struct WorkersListed {
  std::span<const LeaseState> workers;
  std::int64_t owned;           // of all worker ids
  std::int64_t left_out;        // the number of worker ids that `workers` omits
  std::optional<Instant> from;  // see leased_from()
};
[[nodiscard]] std::string json_workers(const PoolDefinition& pool, const WorkersListed& listed,
                                       std::string_view store, bool numbers);
[[nodiscard]] std::string json_released(const PoolDefinition& pool, const LeaseState& was,
                                        bool numbers);
[[nodiscard]] std::string json_pool_raised(const PoolDefinition& pool, std::int64_t floor,
                                           Instant past, bool numbers);
[[nodiscard]] std::string json_measurements(std::span<const Measurement> results);
[[nodiscard]] std::string json_findings(advice::Health worst,
                                        std::span<const advice::Finding> findings);
// `changed`: the changes were made.
[[nodiscard]] std::string json_applied(std::span<const Applied> applied, bool changed);
[[nodiscard]] std::string json_change(const advice::LayoutChange& change, Instant at,
                                      const advice::ChangeAnswer& answer, std::string_view proof);
[[nodiscard]] std::string json_bounds(std::string_view format, std::string_view smallest,
                                      std::string_view largest);
[[nodiscard]] std::string json_converted(std::string_view text, std::string_view result);
// `problem` is empty if there is none.
[[nodiscard]] std::string json_checked(std::string_view text, std::string_view format,
                                       std::string_view problem);
// A string alone, with its quotes.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace idmint::cli
