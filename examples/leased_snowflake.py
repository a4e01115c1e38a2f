#!/usr/bin/env python3
"""Snowflake ids by a worker id that idmintd leases: made in this process, and unique whatever clocks and networks do.

    from leased_snowflake import SnowflakeGenerator
    web = SnowflakeGenerator("http://127.0.0.1:7380", "web")   # idmint create web --kind pool
    id = web.next()
    web.close()

Threads may share it. A child of fork() needs one of its own. It needs nothing but Python 3.9; docs/server.md has the rules
that it keeps. As a command it prints ids: leased_snowflake.py URL POOL COUNT.
"""

import hashlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid


class Refused(Exception):
    """The daemon answered, and said no: `code`, such as FAILED_PRECONDITION."""

    def __init__(self, problem):
        super().__init__(problem["detail"])
        self.code = problem["code"]
        self.is_known = not problem["may_have_been_applied"]


class SnowflakeGenerator:
    def __init__(self, url, pool, *, token=None, holder="", window_ms=15_000, clock=time.time_ns, ask=None):
        self._url, self._path = urllib.parse.urlsplit(url), f"/v1/pools/{urllib.parse.quote(pool, safe='')}/leases"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._holder, self._window_ms, self._clock, self._send = holder, window_ms, clock, ask or self._http
        self._minting, self._asking, self._ended = threading.Lock(), threading.Lock(), threading.Event()
        self._pid = os.getpid()
        self._lease = None    # of the latest acknowledged answer
        self._wanted = None   # a lease that was asked for and not answered yet
        self._pending = None  # an extension, likewise
        self._why = None      # why nothing is made any more
        self._from = self._to = 0
        self._last, self._sequence = -1, 0
        with self._asking:
            self._acquire()
        threading.Thread(target=self._renew, daemon=True).start()

    def next(self):
        """The next id, larger than those before it. Waits for the daemon only where a lease ends."""
        deadline = None
        while True:
            if os.getpid() != self._pid:  # before a lock, which a thread of the parent may have held
                raise RuntimeError("this generator is of the parent process: make one of its own after fork()")
            with self._minting:
                if self._why:
                    raise self._why
                now = self._tick()
                tick, sequence = max(now, self._last, self._from), 0
                if tick == self._last:
                    sequence = self._sequence + 1
                    if sequence > self._most:
                        tick, sequence = tick + 1, 0
                if tick < self._to and tick - now <= self._window:  # the id's own time, after the carry
                    self._last, self._sequence = tick, sequence
                    return tick << self._time_shift | self._worker_bits | sequence << self._sequence_shift
            if tick >= self._to:
                self._ask(tick)
                continue
            deadline = deadline or time.monotonic() + 5  # all ids of this time are used, or the clock was set back
            if time.monotonic() > deadline:
                raise RuntimeError("the clock is behind the ids that were made: no id until it has caught up")
            time.sleep(0.001)

    def close(self):
        """Gives the worker id back. No next() may be under way."""
        self._ended.set()
        if os.getpid() != self._pid:
            return
        with self._asking, self._minting:
            self._why, lease, self._lease = RuntimeError("the generator is closed"), self._lease, None
            if lease:
                try:
                    query = urllib.parse.urlencode({key: lease[key] for key in ("token", "generation")})
                    self._send("DELETE", f"{self._path}/{lease['worker']}?{query}", None)
                except (OSError, http.client.HTTPException, Refused):
                    pass  # then it lapses by itself

    def _tick(self):
        return (self._clock() - self._epoch) // self._unit

    def _renew(self):
        while not self._ended.wait(self._window_ms / 3000):
            try:
                self._ask(None)
            except Exception:  # who comes to the end of the lease asks again, and is told
                pass

    def _ask(self, tick):
        with self._asking:
            if self._why or (tick is not None and tick < self._to):
                return  # another thread has asked
            try:
                if self._lease:
                    while self._pending:  # it decides which end the next one extends
                        self._extend()
                    to = max(self._to, self._tick() + self._window, (tick or 0) + 1)
                    self._pending = {"new_to": to, "new_nonce": nonce()}
                    self._extend()
                elif tick is not None:
                    self._acquire()
            except Refused as refused:
                if refused.code == "DATA_LOSS":
                    self._why = refused  # the store went back: nothing more
                if refused.code != "FAILED_PRECONDITION" or not self._lease:
                    raise
                self._lease = self._pending = None  # lost; what is left of it may be used

    def _acquire(self):
        self._wanted = self._wanted or {"token": nonce()}
        answer = self._call("_wanted", "POST", self._path, {"holder": self._holder, "window_ms": self._window_ms})
        layout = answer["layout"]
        with self._minting:
            self._lease = answer
            self._epoch, self._unit = int(layout["epoch"]), int(layout["unit"])
            self._most, self._time_shift = (1 << layout["sequence_bits"]) - 1, layout["time_shift"]
            self._worker_bits, self._sequence_shift = answer["worker"] << layout["worker_shift"], layout["sequence_shift"]
            self._window = self._window_ms * 1_000_000 // self._unit + 1
            # Above the last time that this process used, also where the new range begins before it.
            self._from, self._to = max(int(answer["from"]), self._last + 1), int(answer["to"])

    def _extend(self):
        lease = self._lease
        answer = self._call("_pending", "POST", f"{self._path}/{lease['worker']}/extend", {
            key: lease[key] for key in ("token", "generation", "from", "to", "nonce")} | {"window_ms": self._window_ms})
        with self._minting:
            self._lease, self._to = answer, int(answer["to"])

    def _call(self, pending, method, path, body):
        """Sends what is pending. Without an answer it stays so, and is sent again as it is before anything else."""
        said = getattr(self, pending)
        first = "repeated" not in said
        if pending == "_wanted":
            body = body | {"repeated": False} | said
        else:
            body = body | {key: said[key] for key in ("new_to", "new_nonce")}
        said["repeated"] = True
        try:
            answer = self._send(method, path, body)
        except Refused as refused:
            if first and refused.is_known:
                setattr(self, pending, None)
            raise
        setattr(self, pending, None)
        return answer

    def _http(self, method, path, body):
        make = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = make(self._url.netloc, timeout=10)
        try:
            connection.request(method, path, json.dumps(body) if body else None, self._headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 400:
                raise Refused(json.loads(text))
            return json.loads(text) if text else None
        finally:
            connection.close()


def nonce():
    """A name that no copy of this process draws as well: a snapshot copies the random numbers of the kernel, too."""
    moment = f"{time.time_ns()} {time.monotonic_ns()}".encode()
    return str(uuid.UUID(bytes=hashlib.sha256(os.urandom(16) + moment).digest()[:16]))


if __name__ == "__main__":
    generator = SnowflakeGenerator(sys.argv[1], sys.argv[2])
    for _ in range(int(sys.argv[3])):
        print(generator.next())
    generator.close()
