// ioredis takes ids from idmintd. See `run`.
//
//   client.mjs PORT

import assert from "node:assert/strict";
import { once } from "node:events";
import Redis from "ioredis";

const port = Number(process.argv[2]);
// Debian's Node.js 18 takes "localhost", the default, for ::1.
const redis = new Redis(port, "127.0.0.1");
const took = (source, ...values) => values.forEach((value) => console.log(source, String(value)));
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

assert.equal(await redis.ping(), "PONG");

const first = await redis.incr("orders");
const second = await redis.incr("orders");
assert.equal(second, first + 1);
let last = await redis.incrby("orders", 5); // five values; the reply is the last one
assert.equal(last, second + 5);
assert.equal(await redis.get("orders"), String(last));
took("orders", first, ...range(second, last));

// Several ids, and a range of consecutive values.
const ids = await redis.call("ID.NEXT", "orders", "COUNT", 3);
assert.deepEqual(ids, [`${last + 1}`, `${last + 2}`, `${last + 3}`]);
const [begin, end] = await redis.call("ID.RANGE", "orders", 10);
assert.deepEqual([begin, end], [last + 4, last + 13]);
took("orders", ...ids, ...range(begin, end));
last = end;

// A pipeline, and a transaction. An error is one of the replies.
for (const several of [redis.pipeline(), redis.multi()]) {
  const [one, two, three] = await several.incr("orders").incr("missing").incr("orders").exec();
  assert.deepEqual([one, three], [[null, last + 1], [null, last + 2]]);
  assert.match(two[0].message, /^NOTFOUND /);
  took("orders", one[1], three[1]);
  last = three[1];
}

// Numbers above 2^53-1 are not exact in JavaScript: idmintd gives them as text to a library that
// says it is ioredis, and refuses INCR to one that does not. ID.NEXT always gives text.
const before = await redis.incr("big");
const after = await redis.call("ID.NEXT", "big");
const later = await redis.incr("big");
assert(BigInt(before) > 2n ** 53n);
assert.deepEqual([after, later], [`${BigInt(before) + 1n}`, `${BigInt(before) + 2n}`]);
assert.deepEqual(await redis.call("ID.RANGE", "big", 2), [`${BigInt(later) + 1n}`, `${BigInt(later) + 2n}`]);
took("big", before, after, later, BigInt(later) + 1n, BigInt(later) + 2n);
for (const options of [{}, { protocol: 2 }, { stringNumbers: true }, { keyPrefix: "" }]) {
  const client = new Redis(port, "127.0.0.1", options);
  const many = await Promise.all(Array.from({ length: 2000 }, () => client.incr("web")));
  assert.equal(new Set(many).size, 2000);
  took("web", ...many);
  client.disconnect();
}
const unnamed = new Redis(port, "127.0.0.1", { disableClientInfo: true });
await assert.rejects(unnamed.incr("web"), /nothing was taken/);
const lastBig = BigInt(later) + 2n;
assert.equal(await redis.get("big"), `${lastBig}`);
await assert.rejects(unnamed.incrby("big", 2), /nothing was taken/);
assert.equal(await unnamed.call("ID.NEXT", "big"), `${lastBig + 1n}`);
took("big", lastBig + 1n);
unnamed.disconnect();

// A UUID of version 7, and ids of the other kinds of sequences.
assert.match(await redis.call("ID.NEXT", "uuid7"), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
for (const source of ["tickets", "cards", "web"]) {
  const some = await redis.call("ID.NEXT", source, "COUNT", 100);
  assert.equal(new Set(some).size, 100);
  took(source, ...some);
}

// What there is.
const state = await redis.call("ID.PEEK", "orders"); // a list of names and values
assert.equal(state[state.indexOf("strategy") + 1], "counter");
assert.equal(state[state.indexOf("next") + 1], last + 1);
const names = [];
for await (const some of redis.scanStream()) names.push(...some);
assert(names.includes("orders"));
assert.equal(await redis.exists("orders", "uuid7", "missing"), 2);
assert.equal(await redis.type("orders"), "string");
assert.equal(await redis.type("missing"), "none");
assert.deepEqual(await redis.mget("orders", "big", "missing"), [`${last}`, `${lastBig + 1n}`, null]);

// What is refused.
await assert.rejects(redis.incr("missing"), /NOTFOUND /);
await assert.rejects(redis.set("orders", 1), /SET is refused/);
await assert.rejects(redis.del("orders"), /DEL is refused/);
const withPassword = new Redis(port, "127.0.0.1", { password: "secret" });
const [error] = await once(withPassword, "error");
assert.match(error.message, /asks for no password/);
withPassword.disconnect();

// The client connects anew to a server that was restarted.
redis.on("error", () => {}); // while it is away
console.log("ready");
await once(process.stdin, "data");
for (let i = 0; i < 100; ++i) {
  const value = await redis.incr("orders");
  assert(value > last);
  last = value;
  took("orders", value);
}
await redis.quit();
process.stdin.destroy();
