// node-redis takes ids from an idmintd with TLS. See `run`.
//
//   secured.mjs PORT
//
// IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createClient } from "redis";

const url = `rediss://127.0.0.1:${process.argv[2]}`;
const token = process.env.IDMINT_TOKEN;
const read = (path) => (path ? readFileSync(path) : undefined);
const ca = read(process.env.IDMINT_CA);
const [cert, key] = [read(process.env.IDMINT_CERTIFICATE), read(process.env.IDMINT_KEY)];

const client = createClient({ url, password: token, socket: { tls: true, ca, cert, key } });
client.on("error", (error) => assert.fail(error));
await client.connect();
const value = await client.incr("orders");
console.log("orders", value);
for (const each of await client.multi().incr("orders").incr("orders").exec()) {
  assert(each > value);
  console.log("orders", each);
}

// Whether a client with these options is refused, and why.
async function refusal(options, socket) {
  const other = createClient({ url, ...options, socket: { tls: true, reconnectStrategy: false, ...socket } });
  other.on("error", () => {});
  try {
    await other.connect();
    await other.ping();
  } catch (error) {
    return error.message;
  } finally {
    other.destroy();
  }
  return assert.fail("it is answered");
}
if (token) {
  await assert.rejects(client.incr("customers"), /NOPERM /);
  assert.match(await refusal({ password: "other" }, { ca }), /WRONGPASS /);
} else {
  await refusal({}, { ca }); // it has no certificate
}
assert.match(await refusal({ password: token }, {}), /certificate/); // it trusts others
await client.close();
