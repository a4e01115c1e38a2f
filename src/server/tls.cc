#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "server/settings_file.h"

namespace idmint::server {

namespace {

// The error of OpenSSL's last call that failed: the first in its queue is the cause of the others.
std::string reason() {
  std::string text = "it is not in PEM";
  if (const unsigned long error = ::ERR_peek_error(); error != 0) {
    const char* const said = ::ERR_reason_error_string(error);
    if (said != nullptr) text = said;
  }
  ::ERR_clear_error();
  return text;
}

std::unexpected<Error> unusable(std::string_view what, const std::string& file) {
  return refuse("the " + std::string(what) + " " + shown(file) + " cannot be used: " + reason());
}

// OpenSSL opens its files itself, and would wait for a pipe.
Result<void> readable(std::string_view what, const std::string& file) {
  const Result<std::string> text = read_plain_file(file, 1);
  if (!text) return refuse("the " + std::string(what) + " " + text.error().message());
  return text->empty() ? refuse("the " + std::string(what) + " " + shown(file) + " is empty")
                       : Result<void>();
}

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const noexcept { ::SSL_CTX_free(context); }

Result<std::shared_ptr<const TlsContext>> TlsContext::open(const TlsSettings& settings) {
  auto context = std::make_shared<TlsContext>();
  context->context_.reset(::SSL_CTX_new(::TLS_server_method()));
  SSL_CTX* const raw = context->context_.get();
  if (raw == nullptr) return fail(Code::kUnimplemented, "OpenSSL has no TLS here: " + reason());
  ::SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  // A client may not make the server compute for nothing.
  ::SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  ::SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
  // Nobody is asked for the password of a key: a daemon has no terminal.
  ::SSL_CTX_set_default_passwd_cb(raw, [](char*, int, int, void*) { return 0; });
  ::ERR_clear_error();
  for (const auto& [what, file] :
       {std::pair("certificate", &settings.certificate), std::pair("key", &settings.key),
        std::pair("client_ca", &settings.client_ca)}) {
    if (file->empty()) continue;
    if (Result<void> there = readable(what, *file); !there)
      return std::unexpected(std::move(there.error()));
  }
  if (::SSL_CTX_use_certificate_chain_file(raw, settings.certificate.c_str()) != 1)
    return unusable("certificate", settings.certificate);
  if (::SSL_CTX_use_PrivateKey_file(raw, settings.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return unusable("key", settings.key);
  if (::SSL_CTX_check_private_key(raw) != 1) return unusable("key", settings.key);
  if (!settings.client_ca.empty()) {
    if (::SSL_CTX_load_verify_locations(raw, settings.client_ca.c_str(), nullptr) != 1)
      return unusable("client_ca", settings.client_ca);
    STACK_OF(X509_NAME)* const names = ::SSL_load_client_CA_file(settings.client_ca.c_str());
    if (names == nullptr) return unusable("client_ca", settings.client_ca);
    ::SSL_CTX_set_client_CA_list(raw, names);  // it owns them now
    ::SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // Sessions are resumed within this server only.
    constexpr std::string_view id = "idmintd";
    ::SSL_CTX_set_session_id_context(raw, reinterpret_cast<const unsigned char*>(id.data()),
                                     static_cast<unsigned>(id.size()));
  }
  return context;
}

void TlsStream::Free::operator()(ssl_st* stream) const noexcept { ::SSL_free(stream); }

std::unique_ptr<TlsStream> TlsStream::open(const TlsContext& context, int socket) {
  auto stream = std::make_unique<TlsStream>();
  stream->stream_.reset(::SSL_new(context.context_.get()));
  if (stream->stream_ == nullptr || ::SSL_set_fd(stream->stream_.get(), socket) != 1) {
    ::ERR_clear_error();
    return nullptr;
  }
  ::SSL_set_accept_state(stream->stream_.get());
  return stream;
}

TlsStream::State TlsStream::state_after(int result) noexcept {
  const int error = ::SSL_get_error(stream_.get(), result);
  ::ERR_clear_error();
  switch (error) {
    case SSL_ERROR_WANT_READ:
      return State::kWantsInput;
    case SSL_ERROR_WANT_WRITE:
      return State::kWantsOutput;
    case SSL_ERROR_ZERO_RETURN:
      return State::kEnd;
    default:
      broken_ = true;
      return State::kBroken;
  }
}

TlsStream::Outcome TlsStream::read(std::span<char> into) {
  if (broken_) return {State::kBroken};
  ::ERR_clear_error();
  std::size_t got = 0;
  const int result = ::SSL_read_ex(stream_.get(), into.data(), into.size(), &got);
  if (result == 1) return {State::kDone, got};
  return {state_after(result)};
}

TlsStream::Outcome TlsStream::write(std::string_view text) {
  if (broken_) return {State::kBroken};
  ::ERR_clear_error();
  std::size_t took = 0;
  const int result = ::SSL_write_ex(stream_.get(), text.data(), text.size(), &took);
  if (result == 1) return {State::kDone, took};
  return {state_after(result)};
}

bool TlsStream::has_pending() const noexcept { return ::SSL_pending(stream_.get()) > 0; }

bool TlsStream::is_established() const noexcept {
  return ::SSL_is_init_finished(stream_.get()) == 1;
}

void TlsStream::end() noexcept {
  if (broken_ || !is_established()) return;
  ::SSL_shutdown(stream_.get());
  ::ERR_clear_error();
}

}  // namespace idmint::server
