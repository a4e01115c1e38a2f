#include "terminal/advice.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"

namespace idmint {
namespace {

// Options whose names differ from the members of the library's structs.
struct OptionOf {
  std::string_view member;
  std::string_view option;
};
constexpr std::array kOptions = {
    OptionOf{"first", "--start"},
    OptionOf{"form", "--prefix, --encoding, --check"},
    OptionOf{"last", "--max"},
    OptionOf{"make_adopted", "--make"},
    OptionOf{"make_index", "--create-index"},
    OptionOf{"store", "--store or IDMINT_STORE"},
    OptionOf{"type", "--prefix"},
    OptionOf{"worker", "--worker or IDMINT_WORKER"},
};

std::string option_of(std::string_view member) {
  const auto* const row = std::ranges::find(kOptions, member, &OptionOf::member);
  if (row != kOptions.end()) return std::string(row->option);
  std::string option = "--" + std::string(member);
  std::ranges::replace(option, '_', '-');
  return option;
}

}  // namespace

std::string in_words(const Advice& advice, std::string_view store) {
  const std::string name = advice.subject.empty() ? "NAME" : shell_word(advice.subject);
  const auto value = [&](std::size_t at, std::string_view placeholder) {
    return at < advice.values.size() ? shell_word(advice.values[at]) : std::string(placeholder);
  };
  const std::string there = store.empty() ? "" : " --store " + shell_word(store);
  const std::string of_subject = advice.subject.empty() ? there : " --store " + name;
  switch (advice.remedy) {
    case Remedy::kNone:
    case Remedy::kMendDocument:  // the command names the line itself
      return "";
    case Remedy::kCreateSequence:
      return ": idmint create " + name +
             (advice.values.empty() ? "" : " --strategy " + value(0, "")) + there;
    case Remedy::kCreateAbove:
      return ": idmint create NAME --strategy " + value(0, "STRATEGY") + " --start N" + there;
    case Remedy::kCreatePool:
      return ": idmint create " + name + " --kind pool" + there;
    case Remedy::kCreateSource:
      return ": idmint create " + name + there +
             "; or, for Snowflake ids under worker ids that are leased: idmint create " + name +
             " --kind pool" + there;
    case Remedy::kCreateStore:
      return ": idmint create NAME" + of_subject;
    case Remedy::kAlterSequence:
      return ": idmint alter " + name + " --max " + value(0, "N") + there;
    case Remedy::kRetireSequence:
      return ": idmint retire " + name + there;
    case Remedy::kRaiseSequence:
      return ": idmint raise " + name + " --past " + value(0, "N") + there;
    case Remedy::kRaiseEach:
      return ": idmint raise " + name + " --past-each " + value(0, "V,V,...") + there;
    case Remedy::kRaisePastField:
      return ": idmint raise " + name + " --from-collection " + value(0, "COLLECTION") +
             " --field " + value(1, "FIELD") + there;
    case Remedy::kRaisePool:
      return ": idmint workers raise " + name + " --past " + value(0, "TIME") + there;
    case Remedy::kRaiseStore: {
      const std::string raise = "idmint raise --all" + of_subject;
      return ": " + raise + " --past N (or --past-from URL)" +
             (advice.values.empty()
                  ? ""
                  : "; if nothing was handed out since it was moved: " + raise + " --moved");
    }
    case Remedy::kInsertDocuments:
      return ": idmint insert COLLECTION --from " + name + there;
    case Remedy::kCompare:
      return ": idmint peek " + name + there;
    case Remedy::kFollowMove:
      return ": --also " + value(0, "URL");
    case Remedy::kFinishMove:
      return ": idmint move " + name + " --from " + value(0, "URL") + " --to " + value(1, "URL");
    case Remedy::kListWorkers:
      return ": idmint workers list " + name + there;
    case Remedy::kPlanPool:
      return ": idmint plan-change";
    case Remedy::kListSources:
      return ": idmint formats, idmint list" + there;
    case Remedy::kListSequences:
      return ": idmint list" + there;
    case Remedy::kListFormats:
      return ": idmint formats";
    case Remedy::kNameUuid:
      return ": idmint name NAMESPACE TEXT --version " + value(0, "5");
    case Remedy::kMintSnowflake:
      return ": idmint next snowflake --layout " + value(0, "LAYOUT") + " --worker W";
    case Remedy::kInspect:
      return ": idmint inspect";
    case Remedy::kSetOption: {
      std::string options;
      for (const std::string_view each : advice.values) {
        const std::size_t equals = each.find('=');
        const bool has_value = equals != std::string_view::npos;
        options += options.empty() ? " (" : has_value ? " " : ", ";
        options += option_of(each.substr(0, equals));
        if (has_value) options += " " + shell_word(each.substr(equals + 1));
      }
      if (options.empty()) return "";
      // If a worker id is missing, the subject has the other choice.
      const bool lacks_worker = !advice.subject.empty() && advice.values.front() == "worker";
      const std::string pool = ": idmint create web --kind pool" + there + ", then idmint next web";
      return (lacks_worker ? pool + there : "") + advice.subject + options + ")";
    }
  }
  return "";
}

Error worded(Error error, std::string_view store) {
  end_of(error) += in_words(std::exchange(error.advice, {}), store);
  return error;
}

}  // namespace idmint
