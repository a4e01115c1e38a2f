// Every kind of entry that a replica set of MongoDB 6.0 writes to its oplog.
#pragma once

#include <string>

#include "restore/tests/production.h"

namespace idmint::restore {

// Collections that are there when a base is taken.
inline void work_before_base(Production& production) {
  production.run("shop", R"({"create":"orders","validator":{"total":{"$gte":0}}})");
  production.insert("shop.orders", R"({"_id":1,"total":1,"key":"a"},{"_id":2,"total":2,"key":"b"},
                                      {"_id":3,"total":3,"key":"c"})");
  production.run("shop", R"({"createIndexes":"orders","indexes":[
      {"key":{"key":1},"name":"key","unique":true},
      {"key":{"total":1},"name":"total"},{"key":{"gone":1},"name":"gone"}]})");
  production.insert("shop.renamed", R"({"_id":1},{"_id":2})");
  production.run("shop", R"({"createIndexes":"renamed","indexes":[{"key":{"a":1},"name":"a"}]})");
  production.insert("shop.target", R"({"_id":"target"})");
  production.insert("shop.summary", R"({"_id":"old"})");
  production.insert("old.one", R"({"_id":1})");
  production.insert("old.two", R"({"_id":1})");
  production.insert("old.system.js", R"({"_id":"one","value":{"$code":"function() {}"}})");
  production.run("shop", R"({"create":"log","capped":true,"size":4096,"max":5})");
  for (int i = 0; i < 7; ++i) production.insert("shop.log", R"({"n":)" + std::to_string(i) + "}");
  production.run("shop", R"({"create":"rates","timeseries":
      {"timeField":"t","metaField":"m","granularity":"seconds"}})");
  production.insert("shop.rates", R"({"t":{"$date":"2026-01-01T00:00:00Z"},"m":1,"x":1})");
}

// One collection of each kind for a base, with indexes of each kind.
inline void collections_of_every_kind(Production& production) {
  Production& p = production;
  p.run("kinds", R"({"create":"folded","collation":{"locale":"de","strength":1}})");
  p.insert("kinds.folded", R"({"_id":"a","x":1},{"_id":"b","x":2})");
  p.run("kinds", R"({"createIndexes":"folded","indexes":[{"key":{"x":1},"name":"x"},
      {"key":{"x":-1},"name":"plain","collation":{"locale":"simple"}}]})");
  p.run("kinds", R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})");
  p.insert("kinds.clustered", R"({"_id":2},{"_id":1})");
  p.run("kinds", R"({"create":"capped","capped":true,"size":8192,"max":4})");
  for (int i = 0; i < 6; ++i) p.insert("kinds.capped", R"({"n":)" + std::to_string(i) + "}");
  p.run("kinds", R"({"create":"view","viewOn":"folded","pipeline":[{"$match":{"x":1}}]})");
  p.run("kinds", R"({"create":"series","timeseries":{"timeField":"t","metaField":"m"}})");
  p.insert("kinds.series", R"({"t":{"$date":"2026-01-01T00:00:00Z"},"m":{"a":1},"x":1},
                              {"t":{"$date":"2026-01-02T00:00:00Z"},"m":{"a":1},"x":2})");
  p.run("kinds", R"({"createIndexes":"series","indexes":[{"key":{"m.a":1},"name":"a"}]})");
  p.run("kinds", R"({"create":"odd %2F/ name","validator":{"a":{"$type":"int"}}})");
  p.run("kinds", R"({"insert":"odd %2F/ name","documents":[{"_id":1,"a":"no int"}],
                     "bypassDocumentValidation":true})");
  p.insert("kinds." + std::string(230, 'n'), R"({"_id":1})");
  p.insert("kinds.indexed", R"({"_id":1,"w":{"a":1},"p":{"type":"Point","coordinates":[1,2]}})");
  p.run("kinds", R"({"createIndexes":"indexed","indexes":[
      {"key":{"w.$**":1},"name":"wild"},{"key":{"p":"2dsphere"},"name":"sphere"},
      {"key":{"t":"text"},"name":"text"},{"key":{"h":"hashed"},"name":"hashed"},
      {"key":{"at":1},"name":"ttl","expireAfterSeconds":1},
      {"key":{"u":1},"name":"unique","unique":true,"partialFilterExpression":{"u":{"$gt":1}}},
      {"key":{"b":1,"a":-1},"name":"two","sparse":true,"hidden":true}]})");
  p.run("kinds", R"({"create":"empty"})");
  p.insert("kinds.system.js",
           R"({"_id":"twice","value":{"$code":"function twice(x) { return 2 * x; }"}})");
  // An insert would put the time there.
  p.run("kinds", R"({"create":"capped zeros","capped":true,"size":8192})");
  for (const char* const name : {"zeros", "capped zeros"}) {
    for (const char* const id : {"1", "2", "3"})
      p.insert(std::string("kinds.") + name, R"({"_id":)" + std::string(id) + R"(,"at":7})");
    p.run("kinds", R"({"update":")" + std::string(name) + R"(","updates":[
        {"q":{"_id":2},"u":{"$set":{"at":{"$timestamp":{"t":0,"i":0}}}}}]})");
  }
  p.insert("kinds.series",
           R"({"t":{"$date":"2026-01-02T00:00:00Z"},"m":{"$timestamp":{"t":0,"i":0}}})");
}

// `tag` keeps the collections of one call from those of another.
inline void work_of_every_kind(Production& production, const std::string& tag = {}) {
  Production& p = production;
  // Documents: inserts, diffs, replacements, deletes, retryable writes, ids of every type.
  p.insert("shop.orders", R"({"_id":4,"total":4,"key":"d","list":[1,2,3]})");
  p.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":1},"u":{"$inc":{"total":10},"$set":{"nested.deep":1}}},
      {"q":{"_id":4},"u":{"$push":{"list":4},"$unset":{"none":1}}},
      {"q":{"_id":2},"u":{"_id":2,"total":5,"key":"e"}},
      {"q":{"_id":9},"u":{"$set":{"total":9,"key":"i"}},"upsert":true}]})");
  p.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":1},"u":[{"$set":{"sum":{"$add":["$total",1]}}}]}]})");
  p.run("shop", R"({"findAndModify":"orders","query":{"_id":3},"update":{"$inc":{"total":1}}})");
  p.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":9},"limit":1}]})");
  // The key goes from one document to another.
  p.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":4},"limit":1}]})");
  p.insert("shop.orders", R"({"_id":5,"total":5,"key":"d"})");
  p.run("shop", R"({"insert":"orders","documents":[{"_id":6,"total":-6,"key":"f"}],
                    "bypassDocumentValidation":true})");
  p.insert("ids.of_all_types", R"({"_id":null},{"_id":1.5},{"_id":{"a":1,"b":[1]}},{"_id":true},
      {"_id":{"$oid":"0123456789abcdef01234567"}},{"_id":{"$date":"2026-01-01T00:00:00Z"}},
      {"_id":{"$binary":{"base64":"AAEC","subType":"04"}}},{"_id":{"$minKey":1}},
      {"_id":{"$numberDecimal":"2.5"}},{"_id":{"$timestamp":{"t":1,"i":1}}},{"_id":"text"})");
  p.run("ids",
        R"({"update":"of_all_types","updates":[{"q":{},"u":{"$set":{"x":1}},"multi":true}]})");
  // Collections with options, and indexes of each kind, on empty and other ones.
  p.run("made", R"({"create":"plain"})");
  p.run("made", R"({"create":"capped","capped":true,"size":8192,"max":4})");
  for (int i = 0; i < 6; ++i) p.insert("made.capped", R"({"n":)" + std::to_string(i) + "}");
  p.run("made", R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})");
  p.insert("made.clustered", R"({"_id":1},{"_id":2})");
  p.run("made", R"({"create":"german","collation":{"locale":"de","strength":1}})");
  p.insert("made.german", R"({"_id":"a","v":1},{"_id":"b","v":2})");
  p.run("made", R"({"createIndexes":"german","indexes":[{"key":{"v":1},"name":"inherited"},
      {"key":{"v":-1},"name":"simple","collation":{"locale":"simple"}}]})");
  p.run("made", R"({"create":"checked","validator":{"$jsonSchema":{"required":["a"]}},
      "validationLevel":"moderate","validationAction":"warn"})");
  p.run("made", R"({"create":"images","changeStreamPreAndPostImages":{"enabled":true}})");
  p.insert("made.images", R"({"_id":1,"a":1})");
  p.run("made", R"({"update":"images","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]})");
  p.run("made", R"({"createIndexes":"plain","indexes":[{"key":{"a":1},"name":"empty"}]})");
  p.insert("made.plain", R"({"_id":1,"a":1,"text":"some words","place":[1,2]},{"_id":2,"a":2})");
  p.run("made", R"({"createIndexes":"plain","indexes":[
      {"key":{"text":"text"},"name":"words","weights":{"text":3}},
      {"key":{"place":"2dsphere"},"name":"place"},{"key":{"h":"hashed"},"name":"hashed"},
      {"key":{"$**":1},"name":"all"},{"key":{"s":1},"name":"sparse","sparse":true},
      {"key":{"p":1},"name":"partial","partialFilterExpression":{"p":{"$gt":1}}},
      {"key":{"at":1},"name":"ttl","expireAfterSeconds":1000000}]})");
  p.run("made", R"({"createIndexes":"plain","indexes":[{"key":{"q":1},"name":"q"},
      {"key":{"r":1},"name":"r"},{"key":{"u":1},"name":"u"}]})");
  p.run("made", R"({"dropIndexes":"plain","index":"q"})");
  p.run("made", R"({"dropIndexes":"plain","index":{"r":1}})");
  p.run("shop", R"({"dropIndexes":"orders","index":"gone"})");
  p.run("made", R"({"collMod":"plain","index":{"name":"ttl","expireAfterSeconds":2000000}})");
  p.run("made", R"({"collMod":"plain","index":{"keyPattern":{"s":1},"hidden":true}})");
  p.run("made", R"({"update":"plain","updates":[{"q":{"_id":1},"u":{"$set":{"u":1}}},
                                                 {"q":{"_id":2},"u":{"$set":{"u":2}}}]})");
  p.run("made", R"({"collMod":"plain","index":{"name":"u","prepareUnique":true}})");
  p.run("made", R"({"collMod":"plain","index":{"name":"u","unique":true}})");
  p.run("shop",
        R"({"collMod":"orders","validator":{"total":{"$gte":1}},"validationLevel":"strict"})");
  p.run("made", R"({"create":"bare"})");
  p.run(
      "made",
      R"({"createIndexes":"bare","indexes":[{"key":{"a":1},"name":"a"},{"key":{"b":1},"name":"b"}]})");
  p.run("made", R"({"dropIndexes":"bare","index":"*"})");
  // Views and time-series.
  p.run("shop",
        R"({"create":"cheap","viewOn":"orders","pipeline":[{"$match":{"total":{"$lt":9}}}]})");
  p.run("shop",
        R"({"collMod":"cheap","viewOn":"orders","pipeline":[{"$match":{"total":{"$lt":8}}}]})");
  p.run("shop", R"({"create":"brief","viewOn":"orders","pipeline":[]})");
  p.run("shop", R"({"drop":"brief"})");
  p.insert("shop.rates", R"({"t":{"$date":"2026-01-01T00:00:01Z"},"m":1,"x":2},
                            {"t":{"$date":"2026-01-01T00:00:02Z"},"m":2,"x":3})");
  p.run("shop", R"({"createIndexes":"rates","indexes":[{"key":{"m":1,"t":1},"name":"by_m"}]})");
  p.run("shop", R"({"collMod":"rates","timeseries":{"granularity":"minutes"}})");
  p.run("made", R"({"create":"weather","timeseries":{"timeField":"t","metaField":"m"},
                    "expireAfterSeconds":100000000})");
  p.insert("made.weather", R"({"t":{"$date":"2026-01-01T00:00:00Z"},"m":"x","x":1})");
  p.run("made", R"({"delete":"weather","deletes":[{"q":{"m":"y"},"limit":0}]})");
  p.run("made", R"({"create":"passing","timeseries":{"timeField":"t"}})");
  p.run("made", R"({"drop":"passing"})");
  // Renames: to a new name, over a target, to another database; with indexes made before.
  p.run("admin", R"({"renameCollection":"shop.renamed","to":"shop.renamed_once"})");
  p.insert("shop.renamed_once", R"({"_id":3})");
  p.run("admin",
        R"({"renameCollection":"shop.renamed_once","to":"shop.target","dropTarget":true})");
  p.run("shop", R"({"update":"target","updates":[{"q":{"_id":1},"u":{"$set":{"a":1}}}]})");
  p.insert("made.moving", R"({"_id":1},{"_id":2})");
  p.run("made", R"({"createIndexes":"moving","indexes":[{"key":{"a":1},"name":"a"}]})");
  p.run("admin", R"({"renameCollection":"made.moving","to":"shop.moved"})");
  // $out to a new one and over one, $merge, convertToCapped.
  p.run("shop", R"({"aggregate":"orders","pipeline":[{"$out":"copied"}],"cursor":{}})");
  p.run("shop", R"({"aggregate":"orders","pipeline":[{"$out":"summary"}],"cursor":{}})");
  p.run("shop", R"({"aggregate":"orders","pipeline":[{"$merge":{"into":"merged"}}],"cursor":{}})");
  p.run("shop", R"({"aggregate":"orders","pipeline":[{"$match":{"_id":1}},{"$set":{"again":1}},
                    {"$merge":{"into":"merged"}}],"cursor":{}})");
  p.insert("made.to_cap", R"({"_id":1},{"_id":2})");
  p.run("made", R"({"convertToCapped":"to_cap","size":100000})");
  // Marks what it copies as if it were migrated between shards.
  p.run("shop", R"({"cloneCollectionAsCapped":"orders","size":100000,"toCollection":"capped)" +
                    tag + R"("})");
  p.run("shop", R"({"emptycapped":"log"})");
  p.insert("shop.log", R"({"n":100})");
  p.insert("made.system.js", R"({"_id":"one","value":{"$code":"function() {}"}})");
  // Drops, and a collection of the same name after.
  p.insert("made.twice", R"({"_id":1,"life":1})");
  p.run("made", R"({"drop":"twice"})");
  p.insert("made.twice", R"({"_id":2,"life":2})");
  p.run("old", R"({"dropDatabase":1})");
  p.insert("old.one", R"({"_id":"new"})");
  // An applyOps of an application, and one of its commands.
  p.run("admin", R"({"applyOps":[{"op":"i","ns":"shop.merged","o":{"_id":"applied"}},
                                 {"op":"c","ns":"made.$cmd","o":{"create":"applied"}}]})");
  // Transactions: small, of several collections, with a new collection, large, aborted.
  auto* session = p.begin();
  p.insert("shop.orders", R"({"_id":7,"total":7,"key":"g"})", session);
  p.run("shop", R"({"update":"orders","updates":[{"q":{"_id":7},"u":{"$inc":{"total":1}}}]})",
        session);
  p.insert("made.plain", R"({"_id":7})", session);
  Production::commit(session);
  session = p.begin();
  p.run("made", R"({"create":"in_transaction)" + tag + R"("})", session);
  p.run(
      "made",
      R"({"createIndexes":"in_transaction)" + tag + R"(","indexes":[{"key":{"a":1},"name":"a"}]})",
      session);
  p.insert("made.in_transaction" + tag, R"({"_id":1,"a":1})", session);
  Production::commit(session);
  session = p.begin();
  p.insert("shop.orders", R"({"_id":8,"total":8,"key":"h"})", session);
  Production::abort(session);
  session = p.begin();
  const std::string megabytes(6 << 20, 'x');
  for (int i = 0; i < 4; ++i)
    p.insert("made.large", R"({"_id":)" + std::to_string(i) + R"(,"x":")" + megabytes + R"("})",
             session);
  Production::commit(session);
  // Prepared, as the transactions of a sharded cluster are.
  p.run("made", R"({"create":"agreed"})");
  session = p.begin();
  p.insert("made.agreed", R"({"_id":"prepared"})", session);
  const Bson prepared = p.run("admin", R"({"prepareTransaction":1})", session);
  p.insert("made.agreed", R"({"_id":"between"})");
  EXPECT_TRUE(prepared.view().has("prepareTimestamp"));
  const Timestamp when = timestamp_in(prepared.view(), "prepareTimestamp").value_or(Timestamp{});
  p.run("admin",
        R"({"commitTransaction":1,"commitTimestamp":{"$timestamp":{"t":)" +
            std::to_string(when.seconds) + R"(,"i":)" + std::to_string(when.ordinal) + "}}}",
        session);
  mongoc_client_session_destroy(session);
  session = p.begin();
  p.insert("made.agreed", R"({"_id":"not to be"})", session);
  p.run("admin", R"({"prepareTransaction":1})", session);
  Production::abort(session);
  // Names, and documents of nearly 16 MB.
  const std::string odd = "made.odd name/with .%2F*\\u00e9";
  p.insert(odd, R"({"_id":1})");
  p.insert("made." + std::string(200, 'n'), R"({"_id":1})");
  const std::string large((16 << 20) - 200, 'y');
  p.insert("made.sixteen", R"({"_id":1,"x":")" + large + R"("})");
  p.run("made", R"({"update":"sixteen","updates":[{"q":{"_id":1},"u":{"$set":{"small":1}}}]})");
}

}  // namespace idmint::restore
