#include "terminal/confirm.h"

#include <unistd.h>

#include <iostream>
#include <string>

namespace idmint {

Result<void> confirm(Output& out, bool json, const Question& question) {
  if (json || ::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              question.undone + ": " +
                  (json ? "--json asks nothing; " : "there is no terminal to ask on; ") +
                  question.otherwise});
  out.write(question.text + " [y/N] ");
  out.flush();
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return std::unexpected(Error{Code::kFailedPrecondition, question.undone});
}

}  // namespace idmint
