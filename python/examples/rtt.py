"""What a message there and back takes between two Python processes, each on a processor of its own, polling.

    python rtt.py [BYTES]

Beside it `barewire bench rtt --size 64 --transport barewire,unix` measures the same in Rust, and a Unix socket.
"""

import os
import statistics
import subprocess
import sys
import time

import barewire

ROUNDS, BATCHES = 20_000, 21


def answer(name: str, processor: str) -> None:
    """Sends back what comes."""
    os.sched_setaffinity(0, {int(processor)})
    node = barewire.Node(spin="forever")
    with node.connect(name) as connection:
        send, recv = connection.send, connection.recv
        try:
            while True:
                send(recv())
        except barewire.errors.Finished:
            pass


def main(size: int) -> None:
    """Measures, and prints the median of the batches and the fastest."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[0]})
    name = f"rtt-{os.getpid()}"
    node = barewire.Node(spin="forever")
    with node.listen(name):
        other = subprocess.Popen([sys.executable, __file__, "answer", name, str(processors[-1])])
        connection = node.next_request(20).accept()
    message = bytes(size)
    send, recv = connection.send, connection.recv
    times = []
    for _ in range(BATCHES):
        begun = time.perf_counter_ns()
        for _ in range(ROUNDS):
            send(message)
            recv()
        times.append((time.perf_counter_ns() - begun) / ROUNDS)
    connection.close()
    other.wait()
    print(f"{size} bytes there and back: median {statistics.median(times):.0f} ns, fastest {min(times):.0f} ns")


if __name__ == "__main__":
    if sys.argv[1:2] == ["answer"]:
        answer(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 64)
