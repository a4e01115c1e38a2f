#include "cli/adopted.h"

#include <string>
#include <variant>

#include "base/errors.h"
#include "cli/store_option.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "sequences/strategies.h"
#include "terminal/output.h"

namespace idmint::cli {

void tell_of_adopted(const Mint& mint, const SequenceStatus& status, bool make, bool json) {
  if (status.error) return;
  const auto& definition = std::get<SequenceDefinition>(status.definition);
  const std::string& name = definition.name;
  if (make && status.left == definition.size())
    return report_notice(name + " begins at " + std::to_string(definition.first) +
                             ": what it takes from, in " + status.adopted_from + ", was made in " +
                             mint.store_url().value_or("the store") +
                             ", or had counted nothing yet",
                         json);
  if (status.left != 0) return;
  const Onward onward = onward_from(definition);
  report_notice(name + " is used up already: what it takes from, in " + status.adopted_from +
                    ", has reached " + std::to_string(definition.last) +
                    ", its last value; go on with " + onward.words + in_words(onward.advice),
                json);
}

}  // namespace idmint::cli
