// One connection to a member of an etcd cluster: requests over HTTP, answered within a deadline,
// and what a failure says of what was done.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "engines/etcd/address.h"
#include "engines/etcd/driver.h"
#include "engines/etcd/messages.h"
#include "idmint/clock.h"

namespace idmint::stores::etcd {

// Used by one thread at a time. The socket is opened with the first request, and once only: what
// was learned of the cluster at its other end is true as long as it lasts. No request is sent
// twice.
class Connection {
 public:
  // `server`: one of address.servers. The address must outlive the connection.
  static std::expected<std::unique_ptr<Connection>, Failure> open(const Address& address,
                                                                  const std::string& server);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Logs in first, where the address has a user, and again where the token is not accepted any
  // more. Looking a host name up takes as long as the resolver takes; all else ends by `until`.
  std::expected<Answer, Failure> run(const Transaction& transaction, SteadyTime until);
  std::expected<Status, Failure> status(SteadyTime until);

  // False: the last request has no answer, and one that comes late must not meet another.
  [[nodiscard]] bool is_usable() const { return usable_; }
  // Later requests have no answer after that time.
  void answer_by(SteadyTime by) noexcept { answer_by_ = by; }
  // It is not to be used any more.
  void give_up() noexcept { usable_ = false; }

 private:
  static curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  Connection(const Address& address, const std::string& server, CURL* curl)
      : address_(address), server_(server), curl_(curl) {}
  std::expected<void, Failure> set_up();
  std::expected<std::string, Failure> post(std::string_view path, std::string_view body,
                                           bool writes, SteadyTime until);
  std::expected<void, Failure> log_in(SteadyTime until);

  const Address& address_;
  const std::string server_;
  CURL* curl_;
  std::string token_{};
  SteadyTime answer_by_ = SteadyTime::max();
  bool answered_ = false;
  bool usable_ = true;
};

}  // namespace idmint::stores::etcd
