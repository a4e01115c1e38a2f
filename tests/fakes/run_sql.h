// Statements run with SQLite itself, past the store, as another program would.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>

namespace idmint::fakes {

// The first column of the last row; empty where there is none or it is NULL.
inline std::string run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  std::string last;
  EXPECT_EQ(sqlite3_exec(
                db, sql.c_str(),
                [](void* to, int, char** values, char**) {
                  *static_cast<std::string*>(to) = values[0] != nullptr ? values[0] : "";
                  return 0;
                },
                &last, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  return last;
}

}  // namespace idmint::fakes
