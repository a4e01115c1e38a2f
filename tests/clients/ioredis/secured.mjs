// ioredis takes ids from an idmintd with TLS. See `run`.
//
//   secured.mjs PORT
//
// IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import Redis from "ioredis";

const port = Number(process.argv[2]);
const token = process.env.IDMINT_TOKEN;
const read = (path) => (path ? readFileSync(path) : undefined);
const ca = read(process.env.IDMINT_CA);
const [cert, key] = [read(process.env.IDMINT_CERTIFICATE), read(process.env.IDMINT_KEY)];

const redis = new Redis({ host: "127.0.0.1", port, password: token, tls: { ca, cert, key } });
const value = await redis.incr("orders");
console.log("orders", value);
const later = await redis.pipeline().incr("orders").incr("orders").exec();
for (const [error, each] of later) {
  assert.equal(error, null);
  assert(each > value);
  console.log("orders", each);
}

// The first error of a client with these options.
async function refusal(options) {
  const client = new Redis({ host: "127.0.0.1", port, retryStrategy: null, ...options });
  client.ping().catch(() => {}); // it may hear no more than the end
  const [error] = await once(client, "error");
  client.disconnect();
  return error.message;
}
if (token) {
  await assert.rejects(redis.incr("customers"), /NOPERM /);
  assert.match(await refusal({ password: "other", tls: { ca } }), /WRONGPASS /);
} else {
  await refusal({ tls: { ca } }); // it has no certificate
}
assert.match(await refusal({ password: token, tls: {} }), /certificate/); // it trusts others
await redis.quit();
