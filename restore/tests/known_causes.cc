#include "restore/tests/known_causes.h"

#include <map>
#include <memory>
#include <string>

#include "restore/tests/simulated_set.h"

namespace idmint::restore {
using mongo::Bson;
using mongo::BsonArray;

namespace {

constexpr int kMistaken = 999;  // the session of whoever makes the mistake
constexpr std::int64_t kOrders = 50'000;
constexpr std::int64_t kCustomers = 30'000;

}  // namespace

// The programs of a shop, which write to `set`.
struct Shop {
  SimulatedSet& set;
  int sessions = 3;
  std::int64_t first_order = 1;
  std::int64_t orders = kOrders;
  bool customers = true;  // they are there
  std::int64_t events = 0;
  std::int64_t expired = 0;  // logins that the TTL monitor deleted
  std::int64_t invoice = 184'000;
  std::int64_t visits = 0;
  std::map<std::int64_t, std::int64_t> points{};

  int session() { return static_cast<int>(set.random(sessions)); }
  std::int64_t some_order() { return first_order + set.random(orders - first_order + 1); }
  // An order is a counter, a document, and later its payment.
  void order() {
    const int by = session();
    set.update("shop.counters", 1, Bson("u", Bson("seq", ++orders)), by);
    Bson document("_id", orders, "customer", set.random(kCustomers), "total",
                  set.random(10'000) + 100, "status", "new");
    document.add("at", set.now());
    set.insert("shop.orders", document, by);
  }
  void payment() {
    set.update("shop.counters", 2, Bson("u", Bson("seq", ++invoice)), session());
    set.update("shop.orders", some_order(),
               Bson("u", Bson("status", "paid"), "i", Bson("paidAt", set.now())), session());
  }
  void visit() {
    const std::int64_t id = set.random(kCustomers);
    if (customers)
      set.update("shop.customers", id, Bson("u", Bson("seen", set.now(), "visits", ++visits)),
                 session());
    const std::int64_t holder = set.random(3'000);
    const auto [at, added] = points.try_emplace(holder, 1'000);
    at->second += 1 + set.random(30);
    if (set.random(4) == 0)
      set.update("bank.points", holder, Bson("u", Bson("points", at->second)), session());
  }
  void cart() {
    const std::int64_t id = 1'000'000 + set.random(1'000'000);
    set.insert("shop.carts", Bson("_id", id, "lines", 2), session());
    if (set.random(3) == 0) set.remove("shop.carts", id, session());
  }
  // A balance goes up and down, in a transaction of two accounts.
  void transfer() {
    const auto side = [&](std::int64_t id) {
      const Bson of("_id", id);
      return SimulatedSet::operation(
          "u", "bank.accounts",
          Bson("$v", 2, "diff", Bson("u", Bson("balance", set.random(100'000)))), &of);
    };
    const std::int64_t from = set.random(5'000);
    set.transaction(session(), mongo::array(side(from), side(set.random(5'000))), true);
  }
  void event() { set.insert("shop.events", Bson("_id", ++events, "kind", "click"), session()); }
};

namespace {

// ---- the usual work

void quiet(SimulatedSet& set, const std::shared_ptr<Shop>& shop) {
  set.every(1'000, [shop] { shop->order(); });
  set.every(1'500, [shop] { shop->payment(); });
  set.every(2'000, [shop] { shop->visit(); });
  set.every(3'000, [shop] { shop->cart(); });
  set.every(10'000, [&set] { set.noop(); });
}

void routine_work(SimulatedSet& set, const std::shared_ptr<Shop>& shop) {
  // The TTL monitor, each minute.
  set.every(60'000, [&set, shop] {
    const std::int64_t some = 100 + set.random(200);
    for (std::int64_t i = 0; i < some; ++i) {
      set.remove("shop.logins", ++shop->expired);
      if (i % 10 == 0) set.work(1);
    }
  });
  // A report by $out.
  set.every(60'000, [&set] {
    const std::string name = "tmp.agg_out." + set.random_name();
    set.command("shop", Bson("create", name.c_str(), "temp", true));
    for (std::int64_t i = 0; i < 20; ++i)
      set.insert(("shop." + name).c_str(), Bson("_id", i, "sum", set.random(1'000'000)));
    set.rename("shop", name, "report", 20);
  });
  // A cache that is dropped and filled again.
  set.every(60'000, [&set] {
    set.drop("shop", "cache", 50);
    set.work(5);
    set.create("shop", "cache");
    for (std::int64_t i = 0; i < 50; ++i) set.insert("shop.cache", Bson("_id", i, "page", "x"), 7);
  });
  // Collections that a job makes for itself and takes away.
  set.every(40'000, [&set] {
    const std::string name = "import_" + set.random_name();
    set.create("shop", name);
    for (std::int64_t i = 0; i < 30; ++i) set.insert(("shop." + name).c_str(), Bson("_id", i), 8);
    set.work(200);
    set.drop("shop", name, 30);
  });
  // Orders are archived and old events deleted, each time some hundreds.
  set.every(120'000, [&set, shop] {
    const std::int64_t some = 150 + set.random(100);
    for (std::int64_t i = 0; i < some; ++i) {
      set.update("shop.orders", shop->some_order(), Bson("u", Bson("archived", true)));
      if (i % 10 == 0) set.work(1);
    }
  });
  set.every(180'000, [&set, shop] {
    for (std::int64_t i = 0; i < 100; ++i)
      set.remove("shop.events", shop->events > 1'000 ? shop->events - 1'000 + i : i);
  });
}

void busy(SimulatedSet& set, const std::shared_ptr<Shop>& shop, double own_updates) {
  shop->sessions = 24;
  set.every(150, [shop] { shop->order(); });
  set.every(120, [shop] { shop->payment(); });
  set.every(90, [shop] { shop->visit(); });
  set.every(200, [shop] { shop->cart(); });
  set.every(500, [shop] { shop->transfer(); });
  set.every(100, [shop] { shop->event(); });
  set.every(10'000, [&set] { set.noop(); });
  routine_work(set, shop);
  if (own_updates == 0) return;
  set.every(own_updates, [&set, shop] {
    set.update("shop.orders", shop->some_order(), Bson("u", Bson("total", set.random(10'000))),
               shop->session());
  });
}

// A deployment looks like a mistake and is none: an index is replaced by a wider one, customers get
// a new field, a collection that was never used goes.
void deploy(SimulatedSet& set) {
  set.build_index("shop", "customers",
                  Bson("v", 2, "key", Bson("city", 1, "name", 1), "name", "city_name"));
  const Bson old("v", 2, "key", Bson("city", 1), "name", "city");
  set.command("shop", Bson("dropIndexes", "customers", "index", "city"), &old);
  for (std::int64_t i = 0; i < 400; ++i) {
    set.update("shop.customers", i, Bson("i", Bson("tier", 1)));
    if (i % 10 == 0) set.work(1);
  }
  set.drop("shop", "trial", 0);
}

// ---- mistakes

// Each of `count` documents in one command, some in a millisecond.
template <class Each>
void in_one_command(SimulatedSet& set, std::int64_t count, const Each& each) {
  for (std::int64_t i = 0; i < count; ++i) {
    each(i);
    if (i % 12 == 0) set.wait(1);
  }
}

Timestamp drop_database(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first = set.drop("bank", "accounts", 5'000);
  set.work(2);
  set.drop("bank", "audit", 9'000);
  set.work(90);
  set.command("bank", Bson("dropDatabase", 1));
  return first;
}

Timestamp drop_collection(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first = set.drop("shop", "orders", kOrders);
  shop.first_order = shop.orders + 1;
  set.work(20);
  set.create("shop", "orders");  // the next order makes it anew
  shop.order();
  return first;
}

Timestamp drop_unique_index(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Bson old("v", 2, "unique", true, "key", Bson("email", 1), "name", "email");
  const Timestamp first =
      set.command("shop", Bson("dropIndexes", "customers", "index", "email"), &old);
  // Somebody tries to bring it back, and duplicates are there already.
  set.wait(60'000);
  for (const char* const name : {"startIndexBuild", "abortIndexBuild"}) {
    Bson o(name, "customers");
    o.add_binary("indexBuildUUID", BSON_SUBTYPE_UUID, std::string(16, 'c'));
    set.command("shop", o.add("indexes", mongo::array(old)));
    set.work(200);
  }
  return first;
}

// The TTL monitor comes within a minute, and again each minute.
void expire(SimulatedSet& set, const char* ns, std::int64_t first, std::int64_t count) {
  set.wait(3'000 + set.random(50'000));
  in_one_command(set, count, [&](std::int64_t i) { set.remove(ns, first + i); });
  set.wait(60'000);
  for (std::int64_t i = 0; i < 40; ++i) set.remove(ns, first + count + i);
}

Timestamp shorter_ttl(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Bson old("collectionOptions_old", Bson("validationLevel", "strict"), "indexOptions_old",
                 Bson("expireAfterSeconds", std::int64_t{7'776'000}));
  const Timestamp first = set.command(
      "shop",
      Bson("collMod", "audit", "index", Bson("name", "at", "expireAfterSeconds", std::int64_t{60})),
      &old);
  expire(set, "shop.audit", 0, 8'000);
  return first;
}

Timestamp new_ttl(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first = set.build_index("shop", "customers",
                                          Bson("v", 2, "key", Bson("seen", 1), "name", "seen",
                                               "expireAfterSeconds", std::int64_t{3'600}));
  expire(set, "shop.customers", 100, 25'000);
  return first;
}

Timestamp out_over(Shop& shop) {
  SimulatedSet& set = shop.set;
  const std::string name = "tmp.agg_out.0f8d8d3e-9c7c-4a39-a3d7-0b8f32b6f8a1";
  set.command("shop", Bson("create", name.c_str(), "temp", true));
  for (std::int64_t i = 0; i < 12; ++i)
    set.insert(("shop." + name).c_str(), Bson("_id", i, "count", i * 100));
  shop.customers = false;
  return set.rename("shop", name, "customers", kCustomers);
}

Timestamp merge_over(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  in_one_command(set, 6'000, [&](std::int64_t i) {
    const Timestamp at = set.replace("shop.customers", i * 3, Bson("_id", i * 3, "orders", i % 9));
    if (i == 0) first = at;
  });
  return first;
}

Timestamp rename_over(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first = set.rename("shop", "orders_test", "orders", kOrders);
  shop.first_order = shop.orders + 1;
  shop.order();
  return first;
}

Timestamp delete_many(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  in_one_command(set, 20'000, [&](std::int64_t i) {
    const Timestamp at = set.remove("shop.orders", 1 + i * 2);
    if (i == 0) first = at;
  });
  return first;
}

Timestamp delete_in_transaction(Shop& shop) {
  SimulatedSet& set = shop.set;
  const auto deletes = [](std::int64_t from, std::int64_t to) {
    BsonArray all;
    for (std::int64_t i = from; i < to; ++i)
      all.items.add(std::to_string(i - from).c_str(),
                    SimulatedSet::operation("d", "shop.orders", Bson("_id", i)));
    return all;
  };
  // Nobody else may write under this number meanwhile, so the clock alone moves.
  set.transaction(kMistaken, deletes(0, 1'000), false);
  set.work(40);
  return set.transaction(kMistaken, deletes(1'000, 1'600), true);
}

Timestamp script_of_updates(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  for (std::int64_t i = 0; i < 100'000; ++i) {
    const Timestamp at =
        set.update("shop.orders", 1 + i, Bson("u", Bson("total", set.random(10'000))), kMistaken);
    if (i == 0) first = at;
    set.wait(4);
  }
  return first;
}

Timestamp script_of_deletes(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  for (std::int64_t i = 0; i < 3'000; ++i) {
    const Timestamp at = set.remove("shop.carts", 3'000'000 + i, kMistaken);
    if (i == 0) first = at;
    set.wait(25 + set.random(20));
  }
  return first;
}

Timestamp update_many(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  in_one_command(set, 20'000, [&](std::int64_t i) {
    const Timestamp at = set.update("shop.orders", 1 + i, Bson("u", Bson("status", "cancelled")));
    if (i == 0) first = at;
  });
  return first;
}

Timestamp unset_field(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  in_one_command(set, kCustomers, [&](std::int64_t i) {
    const Timestamp at = set.update("shop.customers", i, Bson("d", Bson("email", false)));
    if (i == 0) first = at;
  });
  return first;
}

// $inc: -20 where +20 was meant: each balance falls.
Timestamp wrong_sign(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  for (std::int64_t i = 0; i < 3'000; ++i) {
    const Timestamp at = set.update("bank.points", i, Bson("u", Bson("points", 1'000 + i - 20)));
    if (i == 0) first = at;
    if (i % 12 == 0) set.wait(1);
  }
  return first;
}

Timestamp counter_back(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first =
      set.update("shop.counters", 2, Bson("u", Bson("seq", std::int64_t{1'000})), kMistaken);
  shop.invoice = 1'000;
  return first;
}

Timestamp delete_one(Shop& shop) {
  SimulatedSet& set = shop.set;
  for (int i = 0; i < 4; ++i) {
    set.update("shop.customers", 4'711, Bson("u", Bson("seen", set.now())), 1);
    set.wait(5'000);
  }
  return set.remove("shop.customers", 4'711, kMistaken);
}

Timestamp convert_to_capped(Shop& shop) {
  SimulatedSet& set = shop.set;
  const std::string name = "tmpn2WmO.convertToCapped.audit";
  Bson o("create", name.c_str(), "capped", true, "size", std::int64_t{4'096}, "temp", true);
  set.command("shop", o);
  for (std::int64_t i = 7'970; i < 8'000; ++i)
    set.insert(("shop." + name).c_str(), Bson("_id", i, "text", "x"));
  return set.rename("shop", name, "audit", 8'000);
}

// A dump of the test system is loaded into production with --drop.
Timestamp load_with_drop(Shop& shop) {
  SimulatedSet& set = shop.set;
  Timestamp first{};
  struct Part {
    const char* name;
    std::int64_t was;
    std::int64_t is;
  };
  for (const Part& each : {Part{"carts", 900, 10}, Part{"products", 4'000, 300},
                           Part{"customers", kCustomers, 500}, Part{"orders", kOrders, 700}}) {
    const Timestamp at = set.drop("shop", each.name, each.was);
    if (first == Timestamp{}) first = at;
    set.work(3);
    set.create("shop", each.name);
    const std::string ns = std::string("shop.") + each.name;
    in_one_command(set, each.is, [&](std::int64_t i) {
      set.insert(ns.c_str(), Bson("_id", 9'000'000 + i, "test", true), kMistaken);
    });
    set.build_index("shop", each.name, Bson("v", 2, "key", Bson("at", 1), "name", "at"));
  }
  shop.customers = false;
  shop.first_order = shop.orders + 1;
  shop.order();
  return first;
}

Timestamp rename_away(Shop& shop) {
  SimulatedSet& set = shop.set;
  const Timestamp first = set.rename("shop", "customers", "customers_old", -1);
  shop.customers = false;
  set.wait(200);
  set.create("shop", "customers");  // a program makes it anew
  set.insert("shop.customers", Bson("_id", kCustomers + 1, "name", "x"), shop.session());
  return first;
}

}  // namespace

const std::array<KnownCause, 20> kKnownCauses = {{
    {"drop_database", drop_database},
    {"drop_collection", drop_collection},
    {"drop_unique_index", drop_unique_index},
    {"shorter_ttl", shorter_ttl},
    {"new_ttl", new_ttl},
    {"out_over", out_over},
    {"merge_over", merge_over},
    {"rename_over", rename_over},
    {"delete_many", delete_many},
    {"delete_in_transaction", delete_in_transaction},
    {"script_of_updates", script_of_updates, 0, 6},
    {"script_of_deletes", script_of_deletes},
    {"update_many", update_many},
    {"unset_field", unset_field},
    {"wrong_sign", wrong_sign},
    {"counter_back", counter_back},
    {"delete_one", delete_one, 4'711},
    {"convert_to_capped", convert_to_capped},
    {"load_with_drop", load_with_drop},
    {"rename_away", rename_away},
}};

Timestamp write_oplog(const KnownCause& cause, Setting setting,
                      const std::function<void(mongo::Document)>& take) {
  SimulatedSet set(take);
  const auto shop = std::make_shared<Shop>(Shop{.set = set});
  if (setting == Setting::kQuiet) {
    quiet(set, shop);
    set.wait(300'000);
  } else {
    busy(set, shop, cause.own_updates);
    set.wait(240'000);
    deploy(set);
    set.wait(480'000);
  }
  const Timestamp limit = cause.make(*shop);
  set.wait(setting == Setting::kQuiet ? 120'000 : 300'000);
  return limit;
}

}  // namespace idmint::restore
