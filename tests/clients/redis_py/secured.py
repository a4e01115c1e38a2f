"""redis-py takes ids from an idmintd with TLS. See `run`.

secured.py PORT

IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.
"""

import os
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

port = int(sys.argv[1])
ca, token = os.environ["IDMINT_CA"], os.environ.get("IDMINT_TOKEN")
certificate, key = os.environ.get("IDMINT_CERTIFICATE"), os.environ.get("IDMINT_KEY")

r = redis.Redis(host="127.0.0.1", port=port, password=token, ssl=True, ssl_ca_certs=ca,
                ssl_certfile=certificate, ssl_keyfile=key)


def refused(call, *arguments):
    try:
        reply = call(*arguments)
    except redis.RedisError as error:
        return str(error)
    raise AssertionError(f"{arguments} is answered: {reply}")


value = r.incr("orders")
print("orders", value)
pipeline = r.pipeline()
for each in pipeline.incr("orders").incr("orders").execute():
    assert each > value
    print("orders", each)

once = {"host": "127.0.0.1", "port": port, "ssl": True, "retry": Retry(NoBackoff(), 0)}
other = once | {"ssl_ca_certs": ca}
if token:
    assert "does not allow next" in refused(r.incr, "customers")
    assert "invalid username-password pair" in refused(redis.Redis(password="other", **other).ping)
    assert "already authenticated" in refused(redis.Redis(**other).incr, "orders")
else:
    refused(redis.Redis(**other).ping)  # it has no certificate
assert "certificate" in refused(redis.Redis(password=token, **once).ping)  # it trusts others
