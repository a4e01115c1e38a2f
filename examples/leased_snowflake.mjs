#!/usr/bin/env node
// Snowflake ids by a worker id that idmintd leases: made in this process, and unique whatever clocks and networks do.
//
//     import { SnowflakeGenerator } from './leased_snowflake.mjs';
//     const web = await SnowflakeGenerator.lease('http://127.0.0.1:7380', 'web');   // idmint create web --kind pool
//     const id = await web.next();   // a BigInt
//     await web.close();
//
// It needs nothing but Node.js 18; docs/server.md has the rules that it keeps. As a command it prints ids:
// leased_snowflake.mjs URL POOL COUNT.

import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

// The daemon answered, and said no: `code`, such as FAILED_PRECONDITION.
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail);
    this.code = problem.code;
    this.isKnown = !problem.may_have_been_applied;
  }
}

const nanoseconds = () => BigInt(Date.now()) * 1_000_000n;
const most = (...values) => values.reduce((a, b) => (a > b ? a : b));

// A name that no copy of this process draws as well: a snapshot copies the random numbers of the kernel, too.
function nonce() {
  const moment = `${Date.now()} ${process.hrtime.bigint()}`;
  const hex = createHash('sha256').update(randomBytes(16)).update(moment).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
}

export class SnowflakeGenerator {
  #url; #headers; #holder; #windowMs; #clock; #send; #timer;
  #lease = null; // of the latest acknowledged answer
  #wanted = null; // a lease that was asked for and not answered yet
  #pending = null; // an extension, likewise
  #why = null; // why nothing is made any more
  #asking = null; // the call under way, which all who wait share
  #from = 0n; #to = 0n; #last = -1n; #sequence = 0n;
  #epoch; #unit; #mostSequence; #timeShift; #workerBits; #sequenceShift; #window;

  static async lease(url, pool, options) {
    const generator = new SnowflakeGenerator(url, pool, options);
    await generator.#acquire();
    generator.#timer = setInterval(() => generator.#ask(null).catch(() => {}), generator.#windowMs / 3).unref();
    return generator;
  }

  constructor(url, pool, { token, holder = '', windowMs = 15_000, clock = nanoseconds, send } = {}) {
    this.#url = `${url}/v1/pools/${encodeURIComponent(pool)}/leases`;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#holder = holder;
    this.#windowMs = windowMs;
    this.#clock = clock;
    this.#send = send ?? this.#http;
  }

  // The next id, larger than those before it. Waits for the daemon only where a lease ends.
  async next() {
    let deadline = null;
    for (;;) {
      if (this.#why) throw this.#why;
      const now = this.#tick();
      let tick = most(now, this.#last, this.#from);
      let sequence = 0n;
      if (tick === this.#last && (sequence = this.#sequence + 1n) > this.#mostSequence) {
        tick += 1n;
        sequence = 0n;
      }
      if (tick < this.#to && tick - now <= this.#window) { // the id's own time, after the carry
        this.#last = tick;
        this.#sequence = sequence;
        return (tick << this.#timeShift) | this.#workerBits | (sequence << this.#sequenceShift);
      }
      if (tick >= this.#to) {
        await this.#ask(tick);
        continue;
      }
      deadline ??= performance.now() + 5000; // all ids of this time are used, or the clock was set back
      if (performance.now() > deadline) throw new Error('the clock is behind the ids that were made: no id until it has caught up');
      await sleep(1);
    }
  }

  // Gives the worker id back. No next() may be under way.
  async close() {
    clearInterval(this.#timer);
    this.#why = new Error('the generator is closed');
    await this.#asking?.catch(() => {});
    const lease = this.#lease;
    this.#lease = null;
    if (!lease) return;
    const query = new URLSearchParams({ token: lease.token, generation: lease.generation });
    await this.#send('DELETE', `${this.#url}/${lease.worker}?${query}`).catch(() => {}); // then it lapses by itself
  }

  #tick() {
    return (this.#clock() - this.#epoch) / this.#unit;
  }

  // One call at a time; who comes meanwhile waits for it.
  #ask(tick) {
    this.#asking ??= this.#askNow(tick).finally(() => { this.#asking = null; });
    return this.#asking;
  }

  async #askNow(tick) {
    if (this.#why) return;
    try {
      if (this.#lease) {
        while (this.#pending) await this.#extend(); // it decides which end the next one extends
        this.#pending = { new_to: most(this.#to, this.#tick() + this.#window, (tick ?? 0n) + 1n).toString(), new_nonce: nonce() };
        await this.#extend();
      } else if (tick !== null) {
        await this.#acquire();
      }
    } catch (error) {
      if (error.code === 'DATA_LOSS') this.#why = error; // the store went back: nothing more
      if (error.code !== 'FAILED_PRECONDITION' || !this.#lease) throw error;
      this.#lease = this.#pending = null; // lost; what is left of it may be used
    }
  }

  async #acquire() {
    const repeated = this.#wanted !== null;
    this.#wanted ??= nonce();
    let answer;
    try {
      answer = await this.#send('POST', this.#url, { holder: this.#holder, window_ms: this.#windowMs, token: this.#wanted, repeated });
    } catch (error) {
      if (!repeated && error.isKnown) this.#wanted = null; // without an answer it is asked for again
      throw error;
    }
    const { layout } = answer;
    this.#wanted = null;
    this.#lease = answer;
    this.#epoch = BigInt(layout.epoch);
    this.#unit = BigInt(layout.unit);
    this.#mostSequence = (1n << BigInt(layout.sequence_bits)) - 1n;
    this.#timeShift = BigInt(layout.time_shift);
    this.#workerBits = BigInt(answer.worker) << BigInt(layout.worker_shift);
    this.#sequenceShift = BigInt(layout.sequence_shift);
    this.#window = (BigInt(this.#windowMs) * 1_000_000n) / this.#unit + 1n;
    // Above the last time that this process used, also where the new range begins before it.
    this.#from = most(BigInt(answer.from), this.#last + 1n);
    this.#to = BigInt(answer.to);
  }

  async #extend() {
    const { worker, token, generation, from, to, nonce: its } = this.#lease;
    const { sent, ...wish } = this.#pending;
    this.#pending.sent = true;
    let answer;
    try {
      answer = await this.#send('POST', `${this.#url}/${worker}/extend`,
        { token, generation, from, to, nonce: its, ...wish, window_ms: this.#windowMs });
    } catch (error) {
      if (!sent && error.isKnown) this.#pending = null; // without an answer it is sent again as it is
      throw error;
    }
    this.#pending = null;
    this.#lease = answer;
    this.#to = BigInt(answer.to);
  }

  async #http(method, url, body) {
    const answer = await fetch(url, { method, headers: this.#headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10_000) });
    const text = await answer.text();
    if (!answer.ok) throw new Refused(JSON.parse(text));
    return text ? JSON.parse(text) : null;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const generator = await SnowflakeGenerator.lease(process.argv[2], process.argv[3]);
  for (let left = Number(process.argv[4]); left > 0; --left) console.log(String(await generator.next()));
  await generator.close();
}
