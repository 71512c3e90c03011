"""Calls the server of thrift_server.py: thrift_client.py FOLDER-OF-GENERATED-CODE PORT CALLS."""
import hashlib
import random
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
from echo import Echo  # noqa: E402
from echo.ttypes import Bytes, Refused  # noqa: E402
from thrift.protocol import TBinaryProtocol  # noqa: E402
from thrift.transport import TSocket, TTransport  # noqa: E402

port, calls = int(sys.argv[2]), int(sys.argv[3])
SIZES = (0, 1, 100, 3000, 40000, 300000)


def connect():
    transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", port))
    transport.open()
    return transport, Echo.Client(TBinaryProtocol.TBinaryProtocolAccelerated(transport))


def one(name, results):
    transport, client = connect()
    sums = hashlib.sha256()
    for i in range(90):
        data = random.Random(name * 1000 + i).randbytes(SIZES[i % len(SIZES)])
        came = client.back(Bytes(i, data))
        assert (came.number, came.data) == (i, data), (name, i)
        sums.update(came.data)
    try:
        client.back(Bytes(-1, b""))
        raise AssertionError("not refused")
    except Refused as refused:
        assert refused.why == "a number below 0"
    transport.close()
    results[name] = sums.hexdigest()


results = {}
threads = [threading.Thread(target=one, args=(i, results)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for name in sorted(results):
    print(name, results[name])
transport, client = connect()
since = time.monotonic()
for i in range(calls):
    assert client.back(Bytes(i, b"x" * 100)).number == i
print(f"figure: calls of 100 B a second: {calls / (time.monotonic() - since)}", file=sys.stderr)
since = time.monotonic()
for i in range(calls // 100):
    assert len(client.back(Bytes(i, b"x" * 1_000_000)).data) == 1_000_000
print(f"figure: calls of 1 MB a second: {calls // 100 / (time.monotonic() - since)}", file=sys.stderr)
transport.close()
