#!/usr/bin/env python3
"""Snowflake ids by a worker id that idmintd leases: made in this process, and unique whatever clocks and networks do.

    from leased_snowflake import SnowflakeGenerator
    with SnowflakeGenerator("http://127.0.0.1:7380", "web") as web:   # idmint create web --kind pool
        id = web.next()

Threads may share it; it is not copied. A child of fork() needs one of its own. It needs nothing but Python 3.9. docs/server.md
has the rules that it keeps. As a command it prints ids: leased_snowflake.py URL POOL COUNT.
"""

import hashlib
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.parse
import uuid
import weakref
from types import SimpleNamespace

_forks = 0


def _count_fork():
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Refused(Exception):
    """The daemon, or what is before it, said no: `code`, such as FAILED_PRECONDITION."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", "an answer that is not the daemon's"))
        self.code = problem.get("code", "UNKNOWN")
        self.did_nothing = problem.get("may_have_been_applied") is False


class SnowflakeGenerator:
    def __init__(self, url, pool, *, token=None, holder="", window_ms=15_000, clock=time.time_ns, send=None):
        self._url, self._path = urllib.parse.urlsplit(url), f"/v1/pools/{urllib.parse.quote(pool, safe='')}/leases"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._holder, self._window_ms, self._clock, self._send = holder, window_ms, clock, send or self._http
        self._minting, self._asking, self._ended = threading.Lock(), threading.Lock(), threading.Event()
        self._of_forks = _forks
        self._range = None    # of the latest acknowledged answer; replaced as a whole
        self._lease = None    # that answer; None: the lease is lost
        self._wanted = None   # a lease that was asked for and not answered yet
        self._pending = None  # an extension, likewise
        self._why = None      # why nothing is made any more
        self._failure = None  # when and why the daemon was asked in vain
        self._last, self._sequence = -1, 0
        with self._asking:
            self._acquire()
        threading.Thread(target=_renew, args=(weakref.ref(self), self._ended, window_ms / 3000), daemon=True).start()

    def __reduce__(self):  # copy and pickle: two with one lease would make the same ids
        raise TypeError("a generator is not copied: make another one")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def next(self):
        """The next id, larger than those before it. Waits for the daemon only where a lease ends."""
        deadline = None
        while True:
            if deadline and time.monotonic() > deadline:
                raise RuntimeError("no id in 10 s: the clock is behind the ids of the lease, or the leases end at once")
            if self._of_forks != _forks:  # before a lock, which a thread of the parent may have held
                raise RuntimeError("this generator is the parent's: make one of its own after fork()")
            with self._minting:
                if self._why:
                    raise self._why
                its = self._range
                now = self._now(its)
                tick, sequence = max(now, self._last, its.begin), 0
                if tick == self._last:
                    sequence = self._sequence + 1
                    if sequence > its.most:
                        tick, sequence = tick + 1, 0
                if tick < its.to and tick - now <= its.ahead:  # the id's own time, after the carry
                    self._last, self._sequence = tick, sequence
                    return tick << its.time_shift | its.worker_bits | sequence << its.sequence_shift
            if tick >= its.to:
                self._ask(tick)
            if deadline or tick < its.to:
                # All ids of this time are made, or they are ahead of the clock, which was set back or is behind the daemon's.
                time.sleep(0.001)
            deadline = deadline or time.monotonic() + 10

    def close(self):
        """Gives the worker id back. No next() may be under way."""
        if self._of_forks != _forks:
            return
        self._ended.set()
        with self._asking, self._minting:
            self._why, lease, self._lease = RuntimeError("the generator is closed"), self._lease, None
            if lease:
                try:
                    query = urllib.parse.urlencode({key: lease[key] for key in ("token", "generation")})
                    self._send("DELETE", f"{self._path}/{lease['worker']}?{query}", None)
                except (OSError, ValueError, http.client.HTTPException, Refused):
                    pass  # then it lapses by itself

    def _now(self, its):
        """The clock, which may be behind; but no further ahead of the daemon's than a lease may reach."""
        passed = (time.monotonic_ns() - its.came) // its.unit
        return min((self._clock() - its.epoch) // its.unit, its.latest - its.window + passed)

    def _ask(self, tick):
        """Extends the lease, or takes another one if it is lost and `tick` is wanted. Who waited meanwhile shares a failure."""
        begun = time.monotonic()
        with self._asking:
            if self._why or (tick is not None and tick < self._range.to):
                return
            if self._failure and self._failure[0] > begun:
                raise self._failure[1]
            try:
                if self._lease:
                    while self._pending:  # it decides which end the next one extends
                        self._extend()
                    to = max(self._range.to, self._now(self._range) + self._range.window, (tick or 0) + 1)
                    self._pending = {"new_to": to, "new_nonce": _nonce()}
                    self._extend()
                elif tick is not None:
                    self._acquire()
            except Exception as error:
                code = getattr(error, "code", None)
                if code == "FAILED_PRECONDITION" and self._lease:
                    self._lease = self._pending = None  # lost; what is left of it may be used
                    return
                if code == "DATA_LOSS" or (code == "NOT_FOUND" and self._lease):
                    self._why = error  # the store does not know the lease any more: nothing more
                self._failure = (time.monotonic(), error)
                raise

    def _acquire(self):
        self._wanted = self._wanted or {"token": _nonce(), "repeated": False}
        answer = self._call("_wanted", self._path, {"holder": self._holder, **self._wanted})
        _must_be(answer, {"token": self._wanted["token"]})
        # Above the last time that this generator used, also where the new range begins before it.
        self._publish(answer, max(int(answer["from"]), self._last + 1))
        self._wanted = None

    def _extend(self):
        lease = {key: self._lease[key] for key in ("worker", "token", "generation", "from", "to", "nonce")}
        path = f"{self._path}/{lease.pop('worker')}/extend"
        wish = {key: self._pending[key] for key in ("new_to", "new_nonce")}
        answer = self._call("_pending", path, {**lease, **wish})
        _must_be(answer, {**{key: self._lease[key] for key in ("worker", "token", "generation", "from", "layout")},
                          "to": str(wish["new_to"]), "nonce": wish["new_nonce"]})
        self._publish(answer, self._range.begin)
        self._pending = None

    def _publish(self, answer, begin):
        """All of it, or nothing if the answer is not understood."""
        layout, unit, latest = answer["layout"], int(answer["layout"]["unit"]), int(answer["latest"])
        time_bits, worker, sequence = (layout[f"{name}_bits"] for name in ("time", "worker", "sequence"))
        shifts = tuple(layout[f"{name}_shift"] for name in ("time", "worker", "sequence"))
        if not (unit > 0 and 0 < time_bits and 0 <= worker <= 31 and 0 <= sequence <= 22 and time_bits + worker + sequence <= 64
                and shifts in ((worker + sequence, sequence, 0), (worker + sequence, 0, worker))
                and 0 <= answer["worker"] < 1 << worker and 0 <= int(answer["from"]) < int(answer["to"])):
            raise ValueError("an answer that is not idmintd's")
        its = SimpleNamespace(
            begin=begin, to=int(answer["to"]), epoch=int(layout["epoch"]), unit=unit,
            most=(1 << sequence) - 1, worker_bits=answer["worker"] << shifts[1], time_shift=shifts[0], sequence_shift=shifts[2],
            window=self._window_ms * 1_000_000 // unit + 1, latest=latest, came=time.monotonic_ns(),
            ahead=latest - int(answer["now"]))  # so far a daemon may let a lease begin ahead of its clock
        with self._minting:
            self._range = its  # first: without the lease nothing is extended that was not published
            self._lease = answer

    def _call(self, pending, path, body):
        """Without an answer its outcome is unknown: it stays pending, and is sent again as it is before anything else."""
        said = getattr(self, pending)
        first = not said.get("repeated")
        said["repeated"] = True
        try:
            return self._send("POST", path, {**body, "window_ms": self._window_ms})
        except Refused as refused:
            if first and refused.did_nothing:
                setattr(self, pending, None)
            raise

    def _http(self, method, path, body):
        make = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = make(self._url.netloc, timeout=10)
        connection.connect()
        late = threading.Timer(10, connection.sock.shutdown, (socket.SHUT_RDWR,))  # however slowly the answer comes
        late.start()
        try:
            connection.request(method, path, json.dumps(body) if body else None, self._headers)
            answer = connection.getresponse()
            text = answer.read(65_536)
            said = json.loads(text) if text else None
            if answer.status >= 300:
                raise Refused(said if isinstance(said, dict) else {})
            return said
        finally:
            late.cancel()
            connection.close()


def _must_be(answer, expected):
    """That it is the answer to what was asked, and not one that something on the way had kept."""
    if {key: answer.get(key) for key in expected} != expected:
        raise ValueError("an answer to another request")


def _renew(generator, ended, pause):
    """Until the generator is closed, or nobody has it any more."""
    wait = pause
    while not ended.wait(wait):
        its = generator()
        if its is None:
            return
        try:
            its._ask(None)
            wait = pause
        except Exception:  # who comes to the end of the lease asks again, and is told
            wait = min(pause, 1) * random.uniform(0.5, 1)
        del its


def _nonce():
    """A name that no copy of this process draws as well: a snapshot copies the random numbers of the kernel, too."""
    moment = f"{time.time_ns()} {time.monotonic_ns()}".encode()
    return str(uuid.UUID(bytes=hashlib.sha256(os.urandom(16) + moment).digest()[:16]))


if __name__ == "__main__":
    with SnowflakeGenerator(sys.argv[1], sys.argv[2]) as generator:
        for _ in range(int(sys.argv[3])):
            print(generator.next())
