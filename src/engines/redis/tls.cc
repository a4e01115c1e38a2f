#include "engines/redis/tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/errors.h"
#include "base/text.h"

namespace idmint::stores::redis {
namespace {

// The functions of libcrypto are found through libssl, so that they are of the one that it uses.
#define IDMINT_LIBSSL(F)                \
  F(BIO_clear_flags)                    \
  F(BIO_get_data)                       \
  F(BIO_meth_new)                       \
  F(BIO_meth_set_ctrl)                  \
  F(BIO_meth_set_read)                  \
  F(BIO_meth_set_write)                 \
  F(BIO_new)                            \
  F(BIO_set_data)                       \
  F(BIO_set_flags)                      \
  F(BIO_set_init)                       \
  F(ERR_clear_error)                    \
  F(ERR_peek_last_error)                \
  F(ERR_reason_error_string)            \
  F(SSL_CTX_check_private_key)          \
  F(SSL_CTX_ctrl)                       \
  F(SSL_CTX_free)                       \
  F(SSL_CTX_load_verify_file)           \
  F(SSL_CTX_new)                        \
  F(SSL_CTX_set_default_passwd_cb)      \
  F(SSL_CTX_set_default_verify_paths)   \
  F(SSL_CTX_set_verify)                 \
  F(SSL_CTX_use_PrivateKey_file)        \
  F(SSL_CTX_use_certificate_chain_file) \
  F(SSL_ctrl)                           \
  F(SSL_free)                           \
  F(SSL_get0_param)                     \
  F(SSL_get_error)                      \
  F(SSL_get_verify_result)              \
  F(SSL_new)                            \
  F(SSL_read_ex)                        \
  F(SSL_set1_host)                      \
  F(SSL_set_bio)                        \
  F(SSL_set_connect_state)              \
  F(SSL_write_ex)                       \
  F(TLS_client_method)                  \
  F(X509_VERIFY_PARAM_set1_ip_asc)      \
  F(X509_verify_cert_error_string)

// A name that is declared cannot stand in parentheses, and these are OpenSSL's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
struct Libssl {
#define IDMINT_DECLARE(name) decltype(&::name) name = nullptr;
  IDMINT_LIBSSL(IDMINT_DECLARE)
#undef IDMINT_DECLARE
};

// Never unloaded.
Result<const Libssl*> libssl() {
  static const Result<Libssl> loaded = []() -> Result<Libssl> {
    const auto absent = [] {
      const char* const why = dlerror();
      return fail(Code::kUnimplemented,
                  std::string("libssl, OpenSSL's TLS, could not be loaded (") +
                      (why != nullptr ? why : "unknown") + "); install the package libssl3");
    };
    void* const library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent();
    Libssl all;
#define IDMINT_LOAD(name)                                                 \
  all.name = reinterpret_cast<decltype(all.name)>(dlsym(library, #name)); \
  if (all.name == nullptr) return absent();
    IDMINT_LIBSSL(IDMINT_LOAD)
#undef IDMINT_LOAD
    return all;
  }();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

// REQUIRES: it was loaded.
const Libssl& ssl() {
  static const Libssl* const loaded = libssl().value();
  return *loaded;
}

std::string last_reason() {
  const unsigned long error = ssl().ERR_peek_last_error();
  const char* const said = error != 0 ? ssl().ERR_reason_error_string(error) : nullptr;
  ssl().ERR_clear_error();
  return said != nullptr ? said : "it is not in PEM";
}

std::unexpected<Error> unusable_file(std::string_view what, const std::string& file) {
  return refuse(std::string(what) + " " + shown(file) + " cannot be used: " + last_reason());
}

// OpenSSL's own way to a socket writes so that a closed one ends the program with SIGPIPE.
int socket_of(BIO* bio) { return *static_cast<const int*>(ssl().BIO_get_data(bio)); }

int outcome_of(BIO* bio, ssize_t done, int retry) {
  ssl().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (done < 0 && (errno == EAGAIN || errno == EINTR))
    ssl().BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(done);
}

// Null: no memory.
const BIO_METHOD* quiet_socket() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = ssl().BIO_meth_new(BIO_TYPE_SOURCE_SINK, "idmint");
    if (made == nullptr) return made;
    ssl().BIO_meth_set_write(made, [](BIO* bio, const char* bytes, int size) {
      return outcome_of(bio,
                        ::send(socket_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL),
                        BIO_FLAGS_WRITE);
    });
    ssl().BIO_meth_set_read(made, [](BIO* bio, char* bytes, int size) {
      return outcome_of(bio, ::recv(socket_of(bio), bytes, static_cast<std::size_t>(size), 0),
                        BIO_FLAGS_READ);
    });
    ssl().BIO_meth_set_ctrl(made, [](BIO* /*bio*/, int what, long /*number*/, void* /*pointer*/) {
      return what == BIO_CTRL_FLUSH ? 1L : 0L;
    });
    return made;
  }();
  return method;
}

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

}  // namespace

void TlsStream::FreeContext::operator()(ssl_ctx_st* context) const noexcept {
  ssl().SSL_CTX_free(context);
}
void TlsStream::FreeStream::operator()(ssl_st* stream) const noexcept { ssl().SSL_free(stream); }

Result<std::unique_ptr<TlsStream>> TlsStream::open(int socket, const std::string& host,
                                                   const TlsFiles& files) {
  if (const auto loaded = libssl(); !loaded) return std::unexpected(loaded.error());
  const Libssl& lib = ssl();
  const auto no_tls = [] {
    return fail(Code::kUnimplemented, "OpenSSL has no TLS here: " + last_reason());
  };
  std::unique_ptr<TlsStream> stream(new TlsStream(socket));
  lib.ERR_clear_error();
  stream->context_.reset(lib.SSL_CTX_new(lib.TLS_client_method()));
  SSL_CTX* const context = stream->context_.get();
  if (context == nullptr) return no_tls();
  lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  lib.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
  // Nobody is asked for the password of a key.
  lib.SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  lib.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    if (lib.SSL_CTX_set_default_verify_paths(context) != 1) return no_tls();
  } else if (lib.SSL_CTX_load_verify_file(context, files.ca.c_str()) != 1) {
    return unusable_file("tls_ca", files.ca);
  }
  if (!files.certificate.empty()) {
    if (lib.SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
      return unusable_file("tls_cert", files.certificate);
    if (lib.SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        lib.SSL_CTX_check_private_key(context) != 1)
      return unusable_file("tls_key", files.key);
  }
  stream->stream_.reset(lib.SSL_new(context));
  SSL* const raw = stream->stream_.get();
  if (raw == nullptr || quiet_socket() == nullptr) return no_tls();
  BIO* const bio = lib.BIO_new(quiet_socket());
  if (bio == nullptr) return no_tls();
  lib.BIO_set_data(bio, &stream->socket_);
  lib.BIO_set_init(bio, 1);
  lib.SSL_set_bio(raw, bio, bio);  // it owns it now
  if (is_ip_address(host)) {
    if (lib.X509_VERIFY_PARAM_set1_ip_asc(lib.SSL_get0_param(raw), host.c_str()) != 1)
      return no_tls();
  } else {
    // The name goes to the server too, which may have a certificate for each.
    std::string name = host;
    if (lib.SSL_set1_host(raw, host.c_str()) != 1 ||
        lib.SSL_ctrl(raw, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data()) !=
            1)
      return no_tls();
  }
  lib.SSL_set_connect_state(raw);
  return stream;
}

TlsStream::State TlsStream::state_after(int result) {
  const int error = ssl().SSL_get_error(stream_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return State::kWantsInput;
  if (error == SSL_ERROR_WANT_WRITE) return State::kWantsOutput;
  if (error == SSL_ERROR_ZERO_RETURN) return State::kEnd;
  const long verified = ssl().SSL_get_verify_result(stream_.get());
  distrusted_ = verified != X509_V_OK;
  if (distrusted_) {
    problem_ = std::string("the certificate of the server is not accepted: ") +
               ssl().X509_verify_cert_error_string(verified);
  } else if (const unsigned long code = ssl().ERR_peek_last_error(); code != 0) {
    const char* const said = ssl().ERR_reason_error_string(code);
    problem_ = std::string("TLS failed: ") + (said != nullptr ? said : "unknown");
  } else {
    problem_ = "the connection broke";
  }
  ssl().ERR_clear_error();
  return State::kBroken;
}

TlsStream::Outcome TlsStream::read(std::span<char> into) {
  ssl().ERR_clear_error();
  std::size_t got = 0;
  const int result = ssl().SSL_read_ex(stream_.get(), into.data(), into.size(), &got);
  return result == 1 ? Outcome{State::kDone, got} : Outcome{state_after(result)};
}

TlsStream::Outcome TlsStream::write(std::string_view text) {
  ssl().ERR_clear_error();
  std::size_t took = 0;
  const int result = ssl().SSL_write_ex(stream_.get(), text.data(), text.size(), &took);
  return result == 1 ? Outcome{State::kDone, took} : Outcome{state_after(result)};
}

}  // namespace idmint::stores::redis
