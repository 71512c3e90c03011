"""Messages over a connection: all ways to send and to receive."""

from __future__ import annotations

import array
import os
import threading

import pytest
from conftest import SOON, Pair, connect

import barewire

ECHO = """
import sys, barewire
node = barewire.Node()
with node.listen(sys.argv[1]), node.next_request(20).accept() as connection:
    try:
        while True:
            connection.send(connection.recv(20))
    except barewire.errors.Finished:
        pass
"""


def test_two_processes_talk(start, name):
    echo = start(ECHO, name)
    with barewire.Node().connect(name, timeout=SOON) as connection:
        assert connection.peer.pid == echo.pid and connection.peer.uid == os.getuid()
        for length in (0, 1, 56, 64, 4000, 5000, 100_000):
            message = os.urandom(length)
            connection.send(message)
            assert connection.recv(SOON) == message
    assert echo.wait(SOON) == 0


def test_whatever_has_bytes_can_be_sent(pair: Pair):
    numbers = array.array("d", [1.5, 2.5])
    for data in (b"bytes", bytearray(b"array"), memoryview(b"view"), numbers, memoryview(b"abcdef")[::2]):
        pair.opened.send(data)
        assert pair.accepted.recv(SOON) == memoryview(data).tobytes()
    with pytest.raises(TypeError):
        pair.opened.send("text")


def test_without_waiting(pair: Pair):
    assert pair.accepted.try_recv() is None
    assert pair.opened.try_send(b"one")
    assert pair.accepted.recv(SOON) == b"one"
    sent = 0
    while pair.opened.try_send(b"x" * 500):
        sent += 1
    assert sent >= 4
    assert pair.accepted.recv_batch(3) == [b"x" * 500] * 3
    assert len(pair.accepted.recv_batch()) == sent - 3
    assert pair.accepted.recv_batch() == []


def test_into_a_buffer(pair: Pair):
    buffer = bytearray(b"........")
    pair.opened.send(b"12345")
    assert pair.accepted.recv_into(buffer, SOON) == 5
    assert buffer == b"12345..."
    assert pair.accepted.try_recv_into(buffer) is None
    pair.opened.send(b"too long for it")
    with pytest.raises(barewire.errors.BufferTooSmall):
        pair.accepted.recv_into(buffer, SOON)
    with pytest.raises(BufferError):
        pair.accepted.recv_into(bytes(100), SOON)
    # It is still there.
    assert pair.accepted.recv(SOON) == b"too long for it"
    numbers = array.array("q", [0, 0])
    pair.opened.send(array.array("q", [7, -8]))
    assert pair.accepted.recv_into(numbers, SOON) == 16
    assert numbers.tolist() == [7, -8]


def test_batches_and_parts(pair: Pair):
    assert pair.opened.send_batch([b"a", bytearray(b"b"), b""]) == 3
    received: list[bytes] = []
    while len(received) < 3:
        received += pair.accepted.recv_batch()
    assert received == [b"a", b"b", b""]
    pair.opened.send_parts([b"head", bytearray(4), b"tail"])
    assert pair.accepted.recv(SOON) == b"head\0\0\0\0tail"
    long = [b"h" * 3000, b"t" * 300_000]
    thread = threading.Thread(target=pair.opened.send_parts, args=(long,))
    thread.start()
    assert pair.accepted.recv(SOON) == b"".join(long)
    thread.join()


def test_timeouts(pair: Pair):
    with pytest.raises(TimeoutError) as caught:
        pair.accepted.recv(0.01)
    assert isinstance(caught.value, barewire.errors.Timeout) and caught.value.code == "Timeout"
    with pytest.raises(barewire.errors.Timeout):
        pair.accepted.recv_into(bytearray(8), 0)
    while pair.opened.try_send(b"x" * 500):
        pass
    with pytest.raises(barewire.errors.Timeout):
        pair.opened.send(b"x" * 500, 0.01)
    with pytest.raises(barewire.errors.Timeout):
        pair.opened.send_parts([b"x" * 500], 0.01)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="number of seconds"):
            pair.accepted.recv(wrong)


def test_a_long_message_that_times_out_closes_its_half(pair: Pair):
    with pytest.raises(barewire.errors.Timeout):
        pair.opened.send(b"x" * 100_000, 0.01)
    with pytest.raises(barewire.errors.Closed):
        pair.opened.send(b"more")


def test_halves_for_two_threads(pair: Pair):
    sender, _ = pair.opened.split()
    _, receiver = pair.accepted.split()
    with pytest.raises(barewire.errors.Closed):
        pair.opened.send(b"")
    count, threads = 500, 4

    def send_many() -> None:
        for number in range(count):
            sender.send(number.to_bytes(300, "little"))

    senders = [threading.Thread(target=send_many) for _ in range(threads)]
    for thread in senders:
        thread.start()
    received = [int.from_bytes(receiver.recv(SOON), "little") for _ in range(count * threads)]
    for thread in senders:
        thread.join()
    assert sorted(received) == sorted(list(range(count)) * threads)
    sender.finish()
    with pytest.raises(barewire.errors.Finished):
        receiver.recv(SOON)


def test_one_thread_at_a_time_and_close_ends_a_wait(pair: Pair):
    problems: list[BaseException] = []
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        try:
            pair.accepted.recv()
        except barewire.Error as error:
            problems.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    busy = None
    while busy is None:
        try:
            pair.accepted.try_recv()
        except barewire.errors.Busy as error:
            busy = error
    assert "split()" in str(busy) and busy.fault == "caller"
    pair.accepted.close()
    thread.join(SOON)
    assert isinstance(problems[0], barewire.errors.Closed)
    assert pair.accepted.closed
    with pytest.raises(barewire.errors.Finished):
        pair.opened.recv(SOON)


def test_finish_and_the_end(pair: Pair):
    pair.opened.send(b"last")
    pair.opened.finish()
    with pytest.raises(barewire.errors.Closed):
        pair.opened.send(b"more")
    assert pair.accepted.recv(SOON) == b"last"
    with pytest.raises(EOFError) as caught:
        pair.accepted.recv(SOON)
    assert (caught.value.code, caught.value.fault) == ("Finished", "peer")
    pair.accepted.send(b"back")
    assert pair.opened.recv(SOON) == b"back"


def test_limits_are_told(name: str):
    pair = connect(barewire.Node(message_bytes_max=1000), barewire.Node(), name)
    assert pair.opened.message_bytes_max == 1000
    with pytest.raises(barewire.errors.TooLong, match="at most 1000"):
        pair.opened.send(b"x" * 1001)
