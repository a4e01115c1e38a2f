"""Python's http.client takes ids from an idmintd with TLS. See `run`.

python_http.py PORT

IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.
"""

import http.client
import json
import os
import ssl
import sys

port = int(sys.argv[1])
ca, token = os.environ["IDMINT_CA"], os.environ.get("IDMINT_TOKEN")
certificate, key = os.environ.get("IDMINT_CERTIFICATE"), os.environ.get("IDMINT_KEY")

tls = ssl.create_default_context(cafile=ca)
if certificate:
    tls.load_cert_chain(certificate, key)
connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls)
headers = {"Authorization": f"Bearer {token}"} if token else {}


def ask(path, **more):
    connection.request("POST", path, headers=headers | more)
    response = connection.getresponse()
    return response.status, response.read()


status, body = ask("/v1/ids/orders?count=2", Accept="application/json")
assert status == 200, body
ids = [int(each) for each in json.loads(body)["ids"]]
assert len(ids) == 2
for each in ids:
    print("orders", each)
connected = connection.sock
assert connected is not None and connected.version() in ("TLSv1.2", "TLSv1.3")

if token:
    assert ask("/v1/ids/customers")[0] == 403
    assert ask("/v1/ids/orders", Authorization="Bearer other")[0] == 401
    assert connection.sock is connected, "one connection for all"
else:
    try:
        without = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cafile=ca))
        without.request("POST", "/v1/ids/orders")
        answer = without.getresponse()
    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
        pass
    else:
        raise AssertionError(f"a client without a certificate is answered: {answer.status}")
try:
    http.client.HTTPSConnection("127.0.0.1", port).request("POST", "/v1/ids/orders")
except ssl.SSLCertVerificationError:
    pass
else:
    raise AssertionError("a certificate that nobody vouches for is trusted")
