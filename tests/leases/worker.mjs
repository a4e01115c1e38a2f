// Takes ids and appends each to a file of its own, 8 bytes, until it is stopped: worker.mjs URL POOL WINDOW_MS FOLDER
// REST. It rests so many seconds after each 1,000.
import { openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SnowflakeGenerator } from '../../examples/leased_snowflake.mjs';

const [url, pool, windowMs, folder, rest] = process.argv.slice(2);
let stopping = false;
process.on('SIGTERM', () => { stopping = true; });

const file = openSync(`${folder}/node-${process.pid}-${process.hrtime.bigint()}.ids`, 'wx');
const bytes = Buffer.alloc(8);
let generator = null;
while (!stopping && !generator) {
  // The daemon may be away, and each worker id owned by one that was killed.
  generator = await SnowflakeGenerator.lease(url, pool, { windowMs: Number(windowMs), holder: 'node' }).catch(() => null);
  if (!generator) await sleep(50);
}
for (let taken = 0; !stopping; ++taken) {
  try {
    bytes.writeBigUInt64LE(await generator.next());
    writeSync(file, bytes);
  } catch {
    await sleep(10);
  }
  if (taken % 1000 === 0) await sleep(Number(rest) * 1000); // for signals and timers, too
}
await generator?.close();
