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

// The daemon, or what is before it, said no: `code`, such as FAILED_PRECONDITION.
export class Refused extends Error {
  constructor(problem) {
    super(problem?.detail ?? "an answer that is not the daemon's");
    this.code = problem?.code ?? 'UNKNOWN';
    this.didNothing = problem?.may_have_been_applied === false;
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

// That it is the answer to what was asked, and not one that something on the way had kept.
function mustBe(answer, expected) {
  for (const [key, value] of Object.entries(expected)) {
    if (JSON.stringify(answer[key]) !== JSON.stringify(value)) throw new Error('an answer to another request');
  }
}

// Until the generator is closed, or nobody has it any more.
function renew(generator, pause, timer) {
  if (timer.ended) return;
  timer.handle = setTimeout(() => {
    const its = generator.deref();
    its?.renew().then(() => renew(generator, pause, timer), () => renew(generator, Math.min(pause, 500 + 500 * Math.random()), timer));
  }, pause).unref();
}

export class SnowflakeGenerator {
  #url; #headers; #holder; #windowMs; #clock; #send;
  #timer = {};
  #range = null; // of the latest acknowledged answer; replaced as a whole
  #lease = null; // that answer; null: the lease is lost
  #wanted = null; // a lease that was asked for and not answered yet
  #pending = null; // an extension, likewise
  #why = null; // why nothing is made any more
  #asking = null; // the call under way, which all who wait share, with its failure
  #last = -1n; #sequence = 0n;

  static async lease(url, pool, options) {
    const generator = new SnowflakeGenerator(url, pool, options);
    await generator.#acquire();
    renew(new WeakRef(generator), generator.#windowMs / 3, generator.#timer);
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
      if (deadline && performance.now() > deadline) throw new Error('no id in 10 s: the clock is behind the ids of the lease, or the leases end at once');
      if (this.#why) throw this.#why;
      const its = this.#range;
      const now = this.#now(its);
      let tick = most(now, this.#last, its.begin);
      let sequence = 0n;
      if (tick === this.#last && (sequence = this.#sequence + 1n) > its.most) {
        tick += 1n;
        sequence = 0n;
      }
      if (tick < its.to && tick - now <= its.ahead) { // the id's own time, after the carry
        this.#last = tick;
        this.#sequence = sequence;
        return (tick << its.timeShift) | its.workerBits | (sequence << its.sequenceShift);
      }
      if (tick >= its.to) await this.#ask(tick);
      // All ids of this time are made, or they are ahead of the clock, which was set back or is behind the daemon's.
      if (deadline || tick < its.to) await sleep(1);
      deadline ??= performance.now() + 10_000;
    }
  }

  // The clock, which may be behind; but no further ahead of the daemon's than a lease may reach.
  #now(its) {
    const passed = (process.hrtime.bigint() - its.came) / its.unit;
    const clock = (this.#clock() - its.epoch) / its.unit;
    const furthest = its.latest - its.window + passed;
    return clock < furthest ? clock : furthest;
  }

  // Extends the lease. It does so by itself, too.
  renew() {
    return this.#ask(null);
  }

  // Gives the worker id back. No next() may be under way.
  async close() {
    this.#timer.ended = true;
    clearTimeout(this.#timer.handle);
    this.#why ??= new Error('the generator is closed');
    await this.#asking?.catch(() => {});
    const lease = this.#lease;
    this.#lease = null;
    if (!lease) return;
    const query = new URLSearchParams({ token: lease.token, generation: lease.generation });
    await this.#send('DELETE', `${this.#url}/${lease.worker}?${query}`).catch(() => {}); // then it lapses by itself
  }

  #ask(tick) {
    this.#asking ??= this.#askNow(tick).finally(() => { this.#asking = null; });
    return this.#asking;
  }

  async #askNow(tick) {
    if (this.#why) return;
    try {
      if (this.#lease) {
        while (this.#pending) await this.#extend(); // it decides which end the next one extends
        const its = this.#range;
        this.#pending = { new_to: most(its.to, this.#now(its) + its.window, (tick ?? 0n) + 1n).toString(), new_nonce: nonce() };
        await this.#extend();
      } else if (tick !== null) {
        await this.#acquire();
      }
    } catch (error) {
      if (error.code === 'FAILED_PRECONDITION' && this.#lease) {
        this.#lease = this.#pending = null; // lost; what is left of it may be used
        return;
      }
      // The store does not know the lease any more: nothing more.
      if (error.code === 'DATA_LOSS' || (error.code === 'NOT_FOUND' && this.#lease)) this.#why = error;
      throw error;
    }
  }

  // Without an answer the outcome is unknown: it stays pending, and is sent again as it is before anything else.
  async #acquire() {
    const repeated = this.#wanted !== null;
    this.#wanted ??= nonce();
    let answer;
    try {
      answer = await this.#send('POST', this.#url, { holder: this.#holder, window_ms: this.#windowMs, token: this.#wanted, repeated });
    } catch (error) {
      if (!repeated && error.didNothing) this.#wanted = null;
      throw error;
    }
    mustBe(answer, { token: this.#wanted });
    // Above the last time that this generator used, also where the new range begins before it.
    this.#publish(answer, most(BigInt(answer.from), this.#last + 1n));
    this.#wanted = null;
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
      if (!sent && error.didNothing) this.#pending = null;
      throw error;
    }
    mustBe(answer, { worker, token, generation, from, layout: this.#lease.layout, to: wish.new_to, nonce: wish.new_nonce });
    this.#publish(answer, this.#range.begin);
    this.#pending = null;
  }

  // All of it, or nothing if the answer is not understood.
  #publish(answer, begin) {
    const { layout } = answer;
    const unit = BigInt(layout.unit);
    const latest = BigInt(answer.latest);
    const { time_bits: time, worker_bits: worker, sequence_bits: sequence } = layout;
    const shifts = JSON.stringify([layout.time_shift, layout.worker_shift, layout.sequence_shift]);
    const isWhole = [time, worker, sequence, answer.worker].every((value) => Number.isInteger(value) && value >= 0);
    if (!(isWhole && unit > 0n && time > 0 && worker <= 31 && sequence <= 22 && time + worker + sequence <= 64
      && [[worker + sequence, sequence, 0], [worker + sequence, 0, worker]].some((order) => JSON.stringify(order) === shifts)
      && answer.worker < 2 ** worker && /^[0-9]+$/.test(answer.from) && BigInt(answer.from) < BigInt(answer.to))) {
      throw new Error("an answer that is not idmintd's");
    }
    this.#range = {
      begin, to: BigInt(answer.to), epoch: BigInt(layout.epoch), unit,
      most: (1n << BigInt(sequence)) - 1n,
      workerBits: BigInt(answer.worker) << BigInt(layout.worker_shift),
      timeShift: BigInt(layout.time_shift), sequenceShift: BigInt(layout.sequence_shift),
      window: (BigInt(this.#windowMs) * 1_000_000n) / unit + 1n, latest, came: process.hrtime.bigint(),
      ahead: latest - BigInt(answer.now), // so far a daemon may let a lease begin ahead of its clock
    };
    this.#lease = answer;
  }

  async #http(method, url, body) {
    const answer = await fetch(url, { method, headers: this.#headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10_000), redirect: 'error' });
    const text = await answer.text();
    if (answer.ok) return text ? JSON.parse(text) : null;
    let problem = null;
    try {
      problem = JSON.parse(text);
    } catch {} // of a gateway, perhaps
    throw new Refused(problem);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const generator = await SnowflakeGenerator.lease(process.argv[2], process.argv[3]);
  for (let left = Number(process.argv[4]); left > 0; --left) console.log(String(await generator.next()));
  await generator.close();
}
