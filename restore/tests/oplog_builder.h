// Oplogs that tests make: entries in extended JSON, written to a file as mongodump writes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Each entry is one ordinal after the one before, in second 100 and term 1, unless it says more.
class OplogBuilder {
 public:
  // Fields of an entry but ts, t, v and wall: R"("op":"i","ns":"d.c","o":{"_id":1})".
  OplogBuilder& add(const std::string& fields) { return add_at(next(), fields); }
  OplogBuilder& add_at(Timestamp ts, const std::string& fields, std::int64_t term = 1,
                       const std::string& version = R"("v":2)") {
    last_ = ts;
    return add_raw(R"({"ts":)" + json(ts) + R"(,"t":{"$numberLong":")" + std::to_string(term) +
                   R"("})" + (version.empty() ? "" : "," + version) +
                   R"(,"wall":{"$date":"2026-01-01T00:00:00Z"},)" + fields + "}");
  }
  OplogBuilder& add_raw(const std::string& entry) {
    const Result<Bson> document = from_json(entry);
    EXPECT_TRUE(document) << entry << ": " << document.error().message();
    const auto bytes = document->view().bytes();
    offsets_.push_back(bytes_.size());
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  OplogBuilder& noop() { return add(R"("op":"n","ns":"","o":{"msg":"periodic noop"})"); }
  OplogBuilder& insert(const std::string& ns, const std::string& document) {
    return add(R"("op":"i","ns":")" + ns + R"(","o":)" + document);
  }
  OplogBuilder& set(const std::string& ns, const std::string& id, const std::string& fields) {
    return add(R"("op":"u","ns":")" + ns + R"(","o":{"$v":2,"diff":{"u":)" + fields +
               R"(}},"o2":{"_id":)" + id + "}");
  }
  OplogBuilder& remove(const std::string& ns, const std::string& id) {
    return add(R"("op":"d","ns":")" + ns + R"(","o":{"_id":)" + id + "}");
  }
  OplogBuilder& command(const std::string& database, const std::string& o) {
    return add(R"("op":"c","ns":")" + database + R"(.$cmd","o":)" + o);
  }
  OplogBuilder& create(const std::string& ns) {
    const std::size_t dot = ns.find('.');
    return command(ns.substr(0, dot), R"({"create":")" + ns.substr(dot + 1) +
                                          R"(","idIndex":{"v":2,"key":{"_id":1},"name":"_id_"}})");
  }
  // Adds an entry of a transaction of a session; `previous`: its prevOpTime, 0:0 at the beginning.
  OplogBuilder& transaction(int session, int number, Timestamp previous, const std::string& o) {
    return add(in_session(session, number) + R"("prevOpTime":{"ts":)" + json(previous) +
               R"(,"t":{"$numberLong":")" + (previous == Timestamp{} ? "-1" : "1") + R"("}},)" +
               R"("op":"c","ns":"admin.$cmd","o":)" + o);
  }

  // The timestamps of the last entry, and of the one to be added.
  [[nodiscard]] Timestamp last() const { return last_; }
  [[nodiscard]] Timestamp next() const { return {last_.seconds, last_.ordinal + 1}; }
  [[nodiscard]] std::size_t offset(std::size_t entry) const { return offsets_[entry]; }
  [[nodiscard]] std::string& bytes() { return bytes_; }

  // The file it is written to.
  std::string write(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << bytes_;
    return path;
  }

  static std::string json(Timestamp ts) {
    return R"({"$timestamp":{"t":)" + std::to_string(ts.seconds) + R"(,"i":)" +
           std::to_string(ts.ordinal) + "}}";
  }
  static std::string in_session(int session, int number) {
    return R"("lsid":{"id":{"$binary":{"base64":")" + std::string(20, 'A') + "AA" +
           std::to_string(session) + R"(A","subType":"04"}}},"txnNumber":{"$numberLong":")" +
           std::to_string(number) + R"("},)";
  }
  static std::string insert_op(const std::string& ns, const std::string& document) {
    return R"({"op":"i","ns":")" + ns + R"(","o":)" + document + "}";
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> offsets_;
  Timestamp last_{.seconds = 100, .ordinal = 0};
};

}  // namespace idmint::restore
