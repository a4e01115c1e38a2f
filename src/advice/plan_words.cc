#include "advice/plan_words.h"

namespace idmint::advice {

std::string command_of(const Steps& steps) {
  if (steps.verb == Steps::Verb::kNone) return {};
  std::string text = steps.verb == Steps::Verb::kCreate
                         ? "idmint create NAME"
                         : "idmint next " + std::string(steps.format);
  for (const auto& [name, value] : steps.options)
    text.append(" --").append(name).append(" ").append(value);
  return text;
}

std::string note_of(const Needs& needs, const Choice& choice) {
  switch (choice.then) {
    case Then::kNothing:
      break;
    case Then::kMintFromPool:
      return std::string("and then ") + (needs.hosts > 1 ? "on each host " : "") +
             "idmint next NAME, or SnowflakeGenerator::open(): each process leases a worker id";
    case Then::kInsertWithIt:
      return "and then idmint insert COLLECTION --from NAME, or a GaplessInserter, in a replica "
             "set: next mints none of it";
  }
  return choice.note;
}

std::string condition_of(const WorkerTerms& terms) {
  const std::string command = command_of(terms.steps);
  return terms.condition + (command.empty() ? "" : ": " + command);
}

}  // namespace idmint::advice
