"""redis-py takes ids from idmintd. See `run`.

client.py PORT [PROTOCOL]    PROTOCOL: 2 or 3, the version of RESP
"""

import sys
import uuid

import redis

port = int(sys.argv[1])
options = {"protocol": int(sys.argv[2])} if len(sys.argv) > 2 else {}
r = redis.Redis(port=port, decode_responses=True, **options)


def took(source, *values):
    for value in values:
        print(source, value)


def refused(call, *arguments):
    try:
        reply = call(*arguments)
    except redis.RedisError as error:
        return str(error)
    raise AssertionError(f"{arguments} is answered: {reply}")


assert r.ping()

first = r.incr("orders")
second = r.incr("orders")
assert second == first + 1
last = r.incrby("orders", 5)  # five values; the reply is the last one
assert last == second + 5
assert r.get("orders") == str(last)
took("orders", first, *range(second, last + 1))

# Several ids, and a range of consecutive values.
ids = r.execute_command("ID.NEXT", "orders", "COUNT", 3)
assert ids == [str(last + 1), str(last + 2), str(last + 3)]
begin, end = r.execute_command("ID.RANGE", "orders", 10)
assert (begin, end) == (last + 4, last + 13)
took("orders", *ids, *range(begin, end + 1))
last = end

# A pipeline is a transaction unless told otherwise. An error is one of its replies.
for transaction in (True, False):
    pipeline = r.pipeline(transaction=transaction)
    pipeline.incr("orders").incr("missing").incr("orders")
    one, error, two = pipeline.execute(raise_on_error=False)
    assert (one, two) == (last + 1, last + 2)
    assert str(error).startswith("NOTFOUND "), error
    took("orders", one, two)
    last = two

# Values above 2^53-1 are exact, as redis-py says what it is.
before = r.incr("big")
after = int(r.execute_command("ID.NEXT", "big"))
assert before > 2**53 and after == before + 1
took("big", before, after)
many = [r.incr("web") for _ in range(2000)]
assert len(set(many)) == 2000 and all(isinstance(each, int) for each in many)
took("web", *many)

# A UUID of version 7, and ids of the other kinds of sequences.
assert uuid.UUID(r.execute_command("ID.NEXT", "uuid7")).version == 7
for source in ("tickets", "cards", "web"):
    ids = r.execute_command("ID.NEXT", source, "COUNT", 100)
    assert len(set(ids)) == 100 and all(isinstance(each, str) for each in ids)
    took(source, *ids)

# What there is.
state = r.execute_command("ID.PEEK", "orders")
if isinstance(state, list):  # RESP2 has no maps
    state = dict(zip(state[::2], state[1::2]))
assert state["strategy"] == "counter" and state["next"] == last + 1, state
assert "orders" in r.scan_iter()
assert list(r.scan_iter(match="order?")) == ["orders"]
assert r.exists("orders", "uuid7", "missing") == 2
assert (r.type("orders"), r.type("missing")) == ("string", "none")
assert r.mget("orders", "big", "missing") == [str(last), str(after), None]

# What is refused.
assert refused(r.incr, "missing").startswith("NOTFOUND ")
assert "SET is refused" in refused(r.set, "orders", 1)
assert "DEL is refused" in refused(r.delete, "orders")
assert "asks for no password" in refused(redis.Redis(port=port, password="secret", **options).ping)

# The client connects anew to a server that was restarted.
print("ready", flush=True)
input()
for _ in range(100):
    value = r.incr("orders")
    assert value > last
    last = value
    took("orders", value)
