// The rules of the generator in JavaScript, each with a fake daemon that gives the answers of a list.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Refused, SnowflakeGenerator } from '../../examples/leased_snowflake.mjs';

const layout = {
  epoch: '0', unit: '1000000', time_bits: 41, worker_bits: 10, sequence_bits: 1, time_shift: 11, worker_shift: 1, sequence_shift: 0,
};
const lease = (from, to, other = {}) => ({
  pool: 'web', worker: 3, generation: '7', from: String(from), to: String(to), nonce: 'n', now: '1000', latest: '20000000000', layout, ...other,
});
const granted = Symbol('an extension, as it was asked for');
const refused = (code, mayHaveBeenApplied = false) => new Refused({ detail: code, code, may_have_been_applied: mayHaveBeenApplied });
const parts = (id) => [Number(id >> 11n), Number((id >> 1n) & 1023n), Number(id & 1n)];

// A daemon and a clock, in milliseconds. By default the window is so long that the timer never renews within a test.
async function faked(answers, now = 1000, windowMs = 3_600_000) {
  const daemon = { asked: [], now };
  const send = async (method, url, body) => {
    daemon.asked.push({ method, url, body: body && { ...body } });
    let answer = answers.shift();
    if (typeof answer === 'function') answer = answer(body, daemon);
    if (answer instanceof Error) throw answer;
    if (answer === granted) answer = { ...daemon.latest, to: body.new_to, nonce: body.new_nonce };
    else if (answer) answer = { token: body.token, ...answer };
    daemon.latest = answer;
    return answer;
  };
  daemon.web = await SnowflakeGenerator.lease('http://daemon', 'web', {
    windowMs, clock: () => BigInt(daemon.now) * 1_000_000n, send,
  });
  return daemon;
}
const take = async (daemon, count) => {
  const all = [];
  for (let i = 0; i < count; ++i) all.push(parts(await daemon.web.next()));
  return all;
};

test('an id has its time, worker and sequence, and carries', async () => {
  const daemon = await faked([lease(1000, 5000)]);
  assert.deepEqual(await take(daemon, 3), [[1000, 3, 0], [1000, 3, 1], [1001, 3, 0]]);
});

test('it begins where the lease does, and not at its clock', async () => {
  assert.deepEqual(await take(await faked([lease(1200, 5000)]), 1), [[1200, 3, 0]]);
});

test("the id's own time is below the end after the carry, whatever the clock shows", async () => {
  const daemon = await faked([lease(1000, 1001), granted]);
  await take(daemon, 2);
  assert.equal(daemon.asked.length, 1);
  assert.deepEqual(await take(daemon, 1), [[1001, 3, 0]]); // the clock is still at 1000
  assert.equal(daemon.asked.length, 2);
});

test('it sends what the latest answer had', async () => {
  const daemon = await faked([lease(1000, 1001), granted, granted]);
  await take(daemon, 3);
  daemon.now = 9_000_000;
  await take(daemon, 1);
  const [{ body: asked }, { body: first }, { body: second }] = daemon.asked;
  assert.deepEqual([first.token, first.generation, first.from, first.to, first.nonce], [asked.token, '7', '1000', '1001', 'n']);
  assert.deepEqual([second.to, second.nonce], [first.new_to, first.new_nonce]);
  assert.notEqual(first.new_nonce, second.new_nonce);
});

for (const lost of [new Error('lost'), refused('UNKNOWN', true)]) {
  test(`an unknown outcome (${lost.message}) moves nothing, and is sent again as it was`, async () => {
    const daemon = await faked([lease(1000, 1001), lost, lost, granted, granted]);
    await take(daemon, 2);
    for (let i = 0; i < 2; ++i) await assert.rejects(daemon.web.next());
    daemon.now = 9_000_000; // another end would be wanted by now
    assert.equal((await take(daemon, 1))[0][0], 9_000_000);
    const sent = daemon.asked.slice(1).map(({ body }) => body);
    assert.equal(new Set(sent.slice(0, 3).map((body) => `${body.new_to} ${body.new_nonce}`)).size, 1);
    assert.notEqual(sent[3].new_nonce, sent[0].new_nonce);
    assert.equal(sent[3].to, sent[0].new_to);
  });
}

test('a refusal that did nothing is no pending extension', async () => {
  const daemon = await faked([lease(1000, 1001), refused('UNAVAILABLE'), granted]);
  await take(daemon, 2);
  await assert.rejects(daemon.web.next());
  await take(daemon, 1);
  assert.notEqual(daemon.asked[1].body.new_nonce, daemon.asked[2].body.new_nonce);
});

test('a lease without an answer is asked for again by its token', async () => {
  const daemon = await faked([lease(1000, 1001), refused('FAILED_PRECONDITION'), new Error('lost'), lease(1001, 5000, { worker: 4 })]);
  await take(daemon, 2);
  await assert.rejects(daemon.web.next());
  assert.deepEqual(await take(daemon, 1), [[1001, 4, 0]]);
  const [first, second] = daemon.asked.slice(2).map(({ body }) => body);
  assert.deepEqual([first.repeated, second.repeated], [false, true]);
  assert.equal(first.token, second.token);
  assert.notEqual(first.token, daemon.asked[0].body.token);
});

test('after another lease it goes on above its own last time', async () => {
  const daemon = await faked([lease(1000, 2000), refused('FAILED_PRECONDITION'), lease(500, 5000, { worker: 9 })], 1999);
  await take(daemon, 2);
  daemon.now = 900;
  assert.deepEqual(await take(daemon, 1), [[2000, 9, 0]]);
});

test('a clock that goes back repeats nothing', async () => {
  const daemon = await faked([lease(1000, 50_000)], 2000);
  const first = await daemon.web.next();
  daemon.now = 1500;
  assert.ok((await daemon.web.next()) > first);
});

test('it stops if the store went back', async () => {
  const daemon = await faked([lease(1000, 1001), refused('DATA_LOSS')]);
  await take(daemon, 2);
  for (let i = 0; i < 2; ++i) await assert.rejects(daemon.web.next(), { code: 'DATA_LOSS' });
  assert.equal(daemon.asked.length, 2);
});

test('what is left of a lost lease is used, and then another one', async () => {
  const daemon = await faked([lease(1000, 1003), refused('FAILED_PRECONDITION'), lease(1003, 5000, { worker: 9 })]);
  await take(daemon, 1);
  await daemon.web.renew();
  assert.deepEqual((await take(daemon, 6)).map(([, worker]) => worker), [3, 3, 3, 3, 3, 9]);
});

test('an answer that is not understood is not used in part', async () => {
  const { latest, ...broken } = lease(9000, 9500, { worker: 5 });
  const daemon = await faked([lease(1000, 1001), refused('FAILED_PRECONDITION'), broken, lease(9100, 9600, { worker: 5 })]);
  await take(daemon, 2);
  await assert.rejects(daemon.web.next());
  await daemon.web.renew();
  assert.equal(daemon.asked.length, 3);
  assert.deepEqual((await take(daemon, 1))[0].slice(0, 2), [9100, 5]);
});

test('the answer of something else than the daemon is an unknown outcome', async () => {
  const daemon = await faked([lease(1000, 1001), new Refused({ message: 'Bad Gateway' }), granted, granted]);
  await take(daemon, 2);
  await assert.rejects(daemon.web.next());
  await take(daemon, 1);
  assert.equal(daemon.asked[1].body.new_nonce, daemon.asked[2].body.new_nonce);
});

test('it stops if the pool is gone', async () => {
  const daemon = await faked([lease(1000, 5000), refused('NOT_FOUND')]);
  await assert.rejects(daemon.web.renew(), { code: 'NOT_FOUND' });
  await assert.rejects(daemon.web.next(), { code: 'NOT_FOUND' });
});

test("a clock that is ahead of the daemon's is followed no further than a lease may reach", async () => {
  const daemon = await faked([lease(1000, 1001, { latest: '21000' }), granted], 900_000, 15_000);
  const [[time]] = await take(daemon, 1);
  assert.ok(time >= 5_999 && time < 20_000, String(time)); // 21,000 less the window, and the time that passes
});

test('an answer to another request is not used', async () => {
  await assert.rejects(faked([lease(1000, 5000, { token: 'kept on the way' })]));
  for (const other of [{ worker: 4 }, { token: 'b' }, { generation: '8' }, { from: '999' }, { nonce: 'm' }, { to: '1002' },
    { layout: { ...layout, epoch: '1' } }]) {
    const daemon = await faked([lease(1000, 1001), (body, its) => ({
      ...its.latest, to: body.new_to, nonce: body.new_nonce, ...other,
    })]);
    await take(daemon, 2);
    await assert.rejects(daemon.web.next(), /another request/);
  }
});

test('a layout that makes one id of two is refused', async () => {
  for (const wrong of [{ sequence_shift: 1 }, { time_shift: 10 }, { worker_shift: 0 }, { sequence_bits: 2_000_000_000 }, { worker_bits: -1 },
    { unit: '0' }]) {
    await assert.rejects(faked([lease(1000, 5000, { layout: { ...layout, ...wrong } })]), JSON.stringify(wrong));
  }
  for (const [worker, from, to] of [[1024, 1, 2], [-1, 1, 2], [0, 2, 2], [0, -5, 2]]) {
    await assert.rejects(faked([lease(from, to, { worker })]));
  }
});

test('a timer renews', async () => {
  let renewed;
  const once = new Promise((resolve) => { renewed = resolve; });
  const renew = (body) => {
    renewed();
    return body && granted;
  };
  const stay = setInterval(() => {}, 1000);
  const daemon = await faked([lease(1000, 2000), ...Array(1000).fill(renew)], 1000, 30);
  await once;
  await daemon.web.close();
  clearInterval(stay);
});

test('many that wait share one call, and each gets its own id', async () => {
  const daemon = await faked([lease(1000, 1001), granted]);
  await take(daemon, 2);
  const ids = await Promise.all(Array.from({ length: 50 }, () => daemon.web.next()));
  assert.equal(new Set(ids).size, 50);
  assert.equal(daemon.asked.length, 2);
});

test('closed, it gives the worker id back and makes nothing', async () => {
  const daemon = await faked([lease(1000, 5000), null]);
  await daemon.web.close();
  assert.deepEqual([daemon.asked[1].method, daemon.asked[1].url],
    ['DELETE', `http://daemon/v1/pools/web/leases/3?token=${daemon.asked[0].body.token}&generation=7`]);
  await assert.rejects(daemon.web.next());
});
