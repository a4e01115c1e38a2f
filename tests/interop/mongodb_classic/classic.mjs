// The classic recipes for ids from MongoDB, as programs in Node.js have them: see `run`.
//
//   classic.mjs URL DATABASE set-up COUNTERS SIZE
//   classic.mjs URL DATABASE counter ROUNDS BATCH
//   classic.mjs URL DATABASE counters ROUNDS BATCH   (ROUNDS 0: until all are used up)
//   classic.mjs URL DATABASE ids ROUNDS STEP

import { once } from "node:events";
import { MongoClient } from "mongodb";

const [url, database, recipe, first, second] = process.argv.slice(2);
const client = new MongoClient(url, { writeConcern: { w: "majority" } });
const counters = client.db(database).collection("uniqueIdentifierCounter");
const ids = client.db(database).collection("ids");
const ONE = "UNIQUE COUNT DOCUMENT IDENTIFIER";
const NOTES =
  "Increment COUNT using findAndModify to ensure that the COUNT field will be incremented atomically with the fetch of this document";

const insertWhatIsMissing = (collection, documents) =>
  collection.insertMany(documents, { ordered: false }).catch((error) => {
    if (error.code !== 11000) throw error; // a duplicate key: it is there already
  });

async function setUp(count, size) {
  await insertWhatIsMissing(counters, [{ _id: ONE, COUNT: 0, NOTES }]);
  await insertWhatIsMissing(ids, [{ _id: "orders", index: 1000 }]);
  await insertWhatIsMissing(counters, Array.from({ length: count }, (_, k) => (
    { _id: `COUNTER DOCUMENT NUMBER ${k}`, COUNT: k * size, MAX_VALUE: (k + 1) * size - 1, NOTES })));
}

async function waitForTheOthers() {
  await client.db("admin").command({ ping: 1 });
  process.stdout.write("ready\n");
  await once(process.stdin, "data"); // readSync() throws EAGAIN where the pipe does not block
  process.stdin.destroy();
}

const print = (from, end) => {
  let lines = "";
  for (let value = from; value < end; ++value) lines += `${value}\n`;
  process.stdout.write(lines);
};

async function takeFromOne(rounds, batch) {
  await waitForTheOthers();
  for (let round = 0; round < rounds; ++round) {
    const before = await counters.findOneAndUpdate(
      { _id: ONE }, { $inc: { COUNT: batch } }, { returnDocument: "before" });
    print(before.COUNT, before.COUNT + batch);
  }
}

async function takeFromMany(rounds, batch) {
  await waitForTheOthers();
  const names = (await counters.find({ MAX_VALUE: { $exists: true } }).toArray()).map((each) => each._id);
  for (let round = 0; names.length > 0 && (rounds === 0 || round < rounds); ++round) {
    const at = Math.floor(Math.random() * names.length);
    const before = await counters.findOneAndUpdate(
      { _id: names[at] }, { $inc: { COUNT: batch } }, { returnDocument: "before" });
    if (before.COUNT > before.MAX_VALUE) names.splice(at, 1);
    print(before.COUNT, Math.min(before.COUNT + batch, before.MAX_VALUE + 1));
  }
}

async function takeRanges(rounds, step) {
  await waitForTheOthers();
  for (let round = 0; round < rounds; ++round) {
    const after = await ids.findOneAndUpdate(
      { _id: "orders" }, { $inc: { index: step } }, { returnDocument: "after" });
    print(after.index - step, after.index);
  }
}

const recipes = { "set-up": setUp, counter: takeFromOne, counters: takeFromMany, ids: takeRanges };
await recipes[recipe](Number(first), Number(second));
await client.close();
