// node-redis takes ids from idmintd. See `run`.
//
//   client.mjs PORT

import assert from "node:assert/strict";
import { once } from "node:events";
import { createClient, RESP_TYPES } from "redis";

const url = `redis://127.0.0.1:${process.argv[2]}`;
const client = createClient({ url });
client.on("error", () => {}); // while the server is away; without it such an error ends the program
await client.connect();
const took = (source, ...values) => values.forEach((value) => console.log(source, String(value)));
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

assert.equal(await client.ping(), "PONG");

const first = await client.incr("orders");
const second = await client.incr("orders");
assert.equal(second, first + 1);
let last = await client.incrBy("orders", 5); // five values; the reply is the last one
assert.equal(last, second + 5);
assert.equal(await client.get("orders"), String(last));
took("orders", first, ...range(second, last));

// Several ids, and a range of consecutive values.
const ids = await client.sendCommand(["ID.NEXT", "orders", "COUNT", "3"]);
assert.deepEqual(ids, [`${last + 1}`, `${last + 2}`, `${last + 3}`]);
const [begin, end] = await client.sendCommand(["ID.RANGE", "orders", "10"]);
assert.deepEqual([begin, end], [last + 4, last + 13]);
took("orders", ...ids, ...range(begin, end));
last = end;

// What is sent in one tick is a pipeline.
const [one, two, three] = await Promise.allSettled(
  [client.incr("orders"), client.incr("missing"), client.incr("orders")]);
assert.deepEqual([one.value, three.value], [last + 1, last + 2]);
assert.match(two.reason.message, /^NOTFOUND /);
took("orders", one.value, three.value);
last = three.value;

// A transaction. An error is one of the replies.
const failed = await client.multi().incr("orders").incr("missing").incr("orders").exec().catch((error) => error);
assert.deepEqual(failed.errorIndexes, [1]);
assert.match(failed.replies[1].message, /^NOTFOUND /);
assert.deepEqual([failed.replies[0], failed.replies[2]], [last + 1, last + 2]);
took("orders", failed.replies[0], failed.replies[2]);
last = failed.replies[2];

// Numbers above 2^53-1 are not exact in JavaScript: idmintd gives them as text to a library that
// says it is node-redis, and refuses INCR to one that does not. ID.NEXT always gives text.
const before = await client.incr("big");
const after = await client.sendCommand(["ID.NEXT", "big"]);
const later = await client.withTypeMapping({ [RESP_TYPES.NUMBER]: String }).incr("big");
assert(BigInt(before) > 2n ** 53n);
assert.deepEqual([after, later], [`${BigInt(before) + 1n}`, `${BigInt(before) + 2n}`]);
took("big", before, after, later);
for (const options of [{}, { RESP: 2 }, { clientInfoTag: "shop" }]) {
  const other = createClient({ url, ...options });
  await other.connect();
  const many = await Promise.all(Array.from({ length: 1000 }, () => other.incr("web")));
  const several = other.multi();
  for (let i = 0; i < 1000; ++i) several.incr("web");
  many.push(...(await several.exec()));
  assert.equal(new Set(many).size, 2000);
  took("web", ...many);
  await other.close();
}
const unnamed = createClient({ url, disableClientInfo: true });
await unnamed.connect();
await assert.rejects(unnamed.incr("web"), /nothing was taken/);
await unnamed.close();

// A UUID of version 7, and ids of the other kinds of sequences.
assert.match(await client.sendCommand(["ID.NEXT", "uuid7"]), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
for (const source of ["tickets", "cards", "web"]) {
  const some = await client.sendCommand(["ID.NEXT", source, "COUNT", "100"]);
  assert.equal(new Set(some).size, 100);
  took(source, ...some);
}

// What there is.
const state = await client.sendCommand(["ID.PEEK", "orders"]);
assert.equal(state.strategy, "counter");
assert.equal(state.next, last + 1);
const names = [];
for await (const some of client.scanIterator()) names.push(...some);
assert(names.includes("orders"));
assert.equal(await client.exists(["orders", "uuid7", "missing"]), 2);
assert.equal(await client.type("orders"), "string");
assert.equal(await client.type("missing"), "none");
assert.deepEqual(await client.mGet(["orders", "big", "missing"]), [`${last}`, `${later}`, null]);

// What is refused.
await assert.rejects(client.incr("missing"), /NOTFOUND /);
await assert.rejects(client.set("orders", 1), /SET is refused/);
await assert.rejects(client.del("orders"), /DEL is refused/);
const withPassword = createClient({ url, password: "secret", socket: { reconnectStrategy: false } });
withPassword.on("error", () => {});
await assert.rejects(withPassword.connect(), /asks for no password/);

// The client connects anew to a server that was restarted.
console.log("ready");
await once(process.stdin, "data");
for (let i = 0; i < 100; ++i) {
  const value = await client.incr("orders");
  assert(value > last);
  last = value;
  took("orders", value);
}
await client.close();
process.stdin.destroy();
