"""Echo over gRPC in Python, as grpc.cc: grpc_client.py FOLDER-OF-GENERATED-CODE PORT CALLS."""
import hashlib
import random
import sys
import time

sys.path.insert(0, sys.argv[1])
import echo_pb2  # noqa: E402
import echo_pb2_grpc  # noqa: E402
import grpc  # noqa: E402

port, calls = sys.argv[2], int(sys.argv[3])
SIZES = (0, 1, 100, 3000, 40000, 300000)


def body(i, size):
    return echo_pb2.Bytes(number=i, data=random.Random(i).randbytes(size))


def figure(name, count, since):
    print(f"figure: {name}: {count / (time.monotonic() - since)}", file=sys.stderr)


with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    echo = echo_pb2_grpc.EchoStub(channel)
    sums = hashlib.sha256()
    for i in range(120):
        sent = body(i, SIZES[i % len(SIZES)])
        came = echo.Back(sent)
        assert came == sent, i
        sums.update(came.data)
    sent = [body(i, SIZES[i % len(SIZES)]) for i in range(120)]
    for i, came in enumerate(echo.BackAll(iter(sent))):
        assert came == sent[i], i
        sums.update(came.data)
    assert i == 119
    # Four calls at once.
    sent = [body(i, 5000) for i in range(80)]
    for i in range(0, 80, 4):
        futures = [echo.Back.future(one) for one in sent[i : i + 4]]
        assert [future.result() for future in futures] == sent[i : i + 4]
    print(sums.hexdigest())
    short = body(0, 100)
    since = time.monotonic()
    for i in range(calls):
        assert echo.Back(short).number == 0
    figure("calls of 100 B a second", calls, since)
    long = body(1, 1_000_000)
    since = time.monotonic()
    for i in range(calls // 20):
        assert len(echo.Back(long).data) == 1_000_000
    figure("calls of 1 MB a second", calls // 20, since)
