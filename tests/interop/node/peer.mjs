// Node.js libraries for ids: see ../run for what is asked of a peer.
import { createInterface } from "node:readline";

import { Snowflake } from "@sapphire/snowflake";
import { ObjectId } from "bson";
import KSUID from "ksuid";
import { nanoid, urlAlphabet } from "nanoid";
import { TypeID } from "typeid-js";
import * as ulid from "ulid";
import * as uuid from "uuid";

const hex = (bytes) => Buffer.from(bytes).toString("hex");

// 100 ns since 1582, from the bytes in the order of version 6.
const gregorianMs = (bytes) => {
  const view = Buffer.from(bytes);
  const ticks =
    (BigInt(view.readUInt32BE(0)) << 28n) |
    (BigInt(view.readUInt16BE(4)) << 12n) |
    BigInt(view.readUInt16BE(6) & 0xfff);
  return (ticks - 0x01b21dd213814000n) / 10000n;
};

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ulidHex = (text) => {
  let value = 0n;
  for (const c of text) value = value * 32n + BigInt(crockford.indexOf(c));
  return value.toString(16).padStart(32, "0");
};

// It has no parser: the places of the characters in its alphabet, six bits each.
const nanoidHex = (text) => {
  let value = 0n;
  for (const c of text) value = value * 64n + BigInt(urlAlphabet.indexOf(c));
  return value.toString(16).padStart(32, "0");
};

const twitter = new Snowflake(1288834974657n);
const discord = new Snowflake(1420070400000n);
const snowflake = (library) => (text) => {
  const parts = library.deconstruct(text);
  return [BigInt(text).toString(16).padStart(16, "0"), parts.timestamp];
};

const read = {
  uuid1: (t) => [hex(uuid.parse(t)), gregorianMs(uuid.parse(uuid.v1ToV6(t)))],
  uuid4: (t) => [hex(uuid.parse(t)), "-"],
  uuid6: (t) => [hex(uuid.parse(t)), gregorianMs(uuid.parse(t))],
  uuid7: (t) => [hex(uuid.parse(t)), Buffer.from(uuid.parse(t)).readUIntBE(0, 6)],
  ulid: (t) => [ulidHex(t), ulid.decodeTime(t)],
  ksuid: (t) => [hex(KSUID.parse(t).raw), KSUID.parse(t).date.getTime()],
  "object-id": (t) => [new ObjectId(t).toHexString(), new ObjectId(t).getTimestamp().getTime()],
  nanoid: (t) => [nanoidHex(t), "-"],
  typeid: (t) => [TypeID.fromString(t).toUUID().replaceAll("-", ""), "-"],
  "snowflake --layout twitter --worker 5": snowflake(twitter),
  "snowflake --layout discord --worker 5": snowflake(discord),
};

let increments = 0n;
const make = {
  uuid1: () => uuid.v1(),
  uuid4: () => uuid.v4(),
  uuid6: () => uuid.v6(),
  uuid7: () => uuid.v7(),
  ulid: () => ulid.ulid(),
  ksuid: () => KSUID.randomSync().string,
  "object-id": () => new ObjectId().toHexString(),
  nanoid: () => nanoid(),
  typeid: () => new TypeID("user", TypeID.fromUUID("", uuid.v7()).getSuffix()).toString(),
  "snowflake --layout twitter --worker 5": () =>
    twitter.generate({ workerId: 0n, processId: 5n, increment: increments++ % 4096n }).toString(),
  "snowflake --layout discord --worker 5": () =>
    discord.generate({ workerId: 0n, processId: 5n, increment: increments++ % 4096n }).toString(),
};

const [verb, what, count] = process.argv.slice(2);
const out = [];
if (verb === "formats") {
  for (const format of Object.keys(read)) out.push(`read\t${format}`);
  for (const format of Object.keys(make)) out.push(`make\t${format}`);
} else if (verb === "read") {
  for await (const line of createInterface({ input: process.stdin })) out.push(read[what](line).join("\t"));
} else if (verb === "make") {
  for (let i = 0; i < Number(count); ++i) {
    const text = make[what]();
    out.push([text, ...read[what](text)].join("\t"));
  }
}
process.stdout.write(out.join("\n") + (out.length ? "\n" : ""));
