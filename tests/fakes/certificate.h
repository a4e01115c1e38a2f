// A key and a certificate that signs itself, for tests of TLS.
#pragma once

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace idmint::fakes {

// In files of PEM, NAME.pem and NAME.key of the folder.
class Certificate {
 public:
  Certificate(const TempFolder& folder, const std::string& name)
      : certificate_(folder.path(name + ".pem")), key_(folder.path(name + ".key")) {
    const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key(::EVP_EC_gen("P-256"),
                                                                    &::EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&::X509_free)> made(::X509_new(), &::X509_free);
    ::X509_set_version(made.get(), 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), 3600);
    ::X509_set_pubkey(made.get(), key.get());
    X509_NAME* const subject = ::X509_get_subject_name(made.get());
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    ::X509_set_issuer_name(made.get(), subject);
    EXPECT_NE(::X509_sign(made.get(), key.get(), ::EVP_sha256()), 0);
    const std::unique_ptr<FILE, decltype(&std::fclose)> pem(std::fopen(certificate_.c_str(), "w"),
                                                            &std::fclose);
    const std::unique_ptr<FILE, decltype(&std::fclose)> secret(std::fopen(key_.c_str(), "w"),
                                                               &std::fclose);
    EXPECT_EQ(::PEM_write_X509(pem.get(), made.get()), 1);
    EXPECT_EQ(
        ::PEM_write_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  }
  [[nodiscard]] const std::string& certificate() const { return certificate_; }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  std::string certificate_;
  std::string key_;
};

}  // namespace idmint::fakes
