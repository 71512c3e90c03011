"""Messages built and read in place: the memory itself, and that nobody sees memory which is used for something else."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy
import pytest
from conftest import SOON, Pair
from test_aio import joined, run

import barewire
from barewire.errors import Busy, Closed, Finished, PeerDeaf, PeerGone, Timeout


def test_a_message_is_built_and_read_in_place(pair: Pair):
    for length in (0, 1, 56, 57, 300, 900):
        sent = numpy.arange(length, dtype="u1").tobytes()
        with pair.opened.reserve(length) as view:
            assert (len(view), view.readonly, view.format) == (length, False, "B")
            view[:] = sent
        with pair.accepted.peek(SOON) as view:
            assert (len(view), view.readonly) == (length, True)
            assert view == sent
            with pytest.raises(TypeError):
                view[:1] = b"x"
    with pair.opened.reserve(80) as view:
        numpy.frombuffer(view, "f8")[:] = numpy.arange(10)
    assert numpy.frombuffer(pair.accepted.recv(SOON), "f8").tolist() == list(range(10))


def test_short_and_long_messages_are_read_alike(pair: Pair):
    # Short ones go through the duplex line, long ones arrive in several frames, those of a batch in one.
    pair.opened.send(b"short")
    with pair.accepted.peek(SOON) as view:
        assert view == b"short"
    long = numpy.arange(50_000, dtype="u8")
    thread = threading.Thread(target=pair.opened.send, args=(long,))
    thread.start()
    message = pair.accepted.peek(SOON)
    with message as view:
        assert len(message) == 400_000
        assert (numpy.frombuffer(view, "u8") == long).all()
    thread.join()
    assert pair.opened.send_batch([b"one", b"two", b"three"]) == 3
    for expected in (b"one", b"two", b"three"):
        with pair.accepted.peek(SOON) as view:
            assert view == expected


def test_less_is_sent_or_nothing(pair: Pair):
    room = pair.opened.reserve(100)
    assert len(room) == 100
    with room as view:
        view[:5] = b"hello"
        with pytest.raises(ValueError, match="101 bytes of 100"):
            room.send(101)
        room.send(5)
        with pytest.raises(ValueError):
            room.send(5)
        with pytest.raises(ValueError):
            view[0] = 1
    with pytest.raises(ValueError), room:
        pass
    with pytest.raises(KeyError), pair.opened.reserve(100) as view:
        view[:5] = b"never"
        raise KeyError
    room = pair.opened.reserve(8)
    room.cancel()
    room.cancel()
    # Forgotten.
    room = pair.opened.reserve(8)
    del room
    pair.opened.send(b"last")
    assert pair.accepted.recv_batch() == [b"hello", b"last"]


def test_a_message_stays_the_next_one_after_an_exception(pair: Pair):
    pair.opened.send(b"a" * 300)
    with pytest.raises(KeyError), pair.accepted.peek(SOON) as view:
        raise KeyError
    message = pair.accepted.peek(SOON)
    message.cancel()
    message.cancel()
    message = pair.accepted.peek(SOON)
    with message as view:
        message.release()
        with pytest.raises(ValueError):
            view[0]
        with pytest.raises(ValueError):
            message.release()
    assert pair.accepted.try_recv() is None


def test_a_view_that_is_kept_can_not_be_used(pair: Pair):
    with pair.opened.reserve(300) as kept:
        kept[:] = b"s" * 300
    with pair.accepted.peek(SOON) as read:
        assert read[0] == ord("s")
    for view in (kept, read):
        with pytest.raises(ValueError, match="released"):
            view[0]
        with pytest.raises(ValueError, match="released"):
            numpy.frombuffer(view, "u1")


@pytest.mark.parametrize("derive", [lambda view: view[10:20], lambda view: numpy.frombuffer(view, "u1")])
def test_what_was_made_of_a_view_must_be_gone(pair: Pair, derive):
    with pytest.raises(BufferError, match="still there"), pair.opened.reserve(300) as view:
        made = derive(view)
    # Nothing else gets that memory, until the array has gone.
    for use in (
        lambda: pair.opened.send(b"x"),
        lambda: pair.opened.try_send(b"x"),
        lambda: pair.opened.send_batch([b"x"]),
        lambda: pair.opened.send_parts([b"x"]),
        lambda: pair.opened.reserve(8),
        pair.opened.finish,
        pair.opened.split,
        pair.opened.into_stream,
    ):
        with pytest.raises(Busy, match="reserved"):
            use()
    made[:] = memoryview(b"\xff" * len(made))
    del made, view
    pair.opened.send(b"after it")
    assert pair.accepted.recv_batch() == [b"after it"]

    pair.opened.send(b"r" * 300)
    with pytest.raises(BufferError, match="still there"), pair.accepted.peek(SOON) as view:
        made = derive(view)
    for use in (
        pair.accepted.recv,
        pair.accepted.try_recv,
        pair.accepted.recv_batch,
        pair.accepted.peek,
        lambda: pair.accepted.recv_into(bytearray(1000)),
        lambda: pair.accepted.try_recv_into(bytearray(1000)),
        pair.accepted.split,
    ):
        with pytest.raises(Busy, match="read in place"):
            use()
    assert bytes(made) == b"r" * len(made)
    del made, view
    # Nobody has received it.
    assert pair.accepted.recv(SOON) == b"r" * 300


def test_two_at_once(pair: Pair):
    with pair.opened.reserve(8) as view:
        with pytest.raises(Busy):
            pair.opened.reserve(8)
        # The other direction is free.
        pair.accepted.send(b"back")
        assert pair.opened.recv(SOON) == b"back"
        view[:] = b"12345678"
    with pair.accepted.peek(SOON) as view:
        with pytest.raises(Busy):
            pair.accepted.peek(SOON)
        pair.accepted.send(b"back")
        with pair.opened.peek(SOON) as other:
            assert (view, other) == (b"12345678", b"back")
    with pair.opened.reserve(8) as ours, pair.accepted.reserve(8) as theirs:
        ours[:], theirs[:] = b"to them.", b"to us..."
    assert (pair.accepted.recv(SOON), pair.opened.recv(SOON)) == (b"to them.", b"to us...")


def test_closed_inside(pair: Pair):
    with pytest.raises(Closed), pair.opened.reserve(300) as view:
        array = numpy.frombuffer(view, "u1")
        pair.opened.close()
        assert pair.opened.closed
        with pytest.raises(Closed):
            pair.opened.send(b"x")
        # It is still room of its own.
        array[:] = 7
        del array
    with pytest.raises(Finished):
        pair.accepted.recv(SOON)
    assert pair.accepted.closed is False


def test_closed_with_an_array_left(pair: Pair):
    pair.opened.send(b"m" * 300)
    with pytest.raises(BufferError), pair.accepted.peek(SOON) as view:
        kept = numpy.frombuffer(view, "u1")
    pair.accepted.close()
    pair.server.close()
    with pytest.raises(Closed):
        pair.accepted.recv()
    del view
    gc.collect()
    assert (kept == ord("m")).all()
    # Only now the connection goes.
    del kept
    with pytest.raises((Finished, PeerGone)):
        pair.opened.recv(SOON)


def test_the_peer_leaves_inside(pair: Pair):
    with pytest.raises((PeerGone, PeerDeaf)), pair.opened.reserve(300) as view:
        pair.accepted.close()
        pair.server.close()
        with pytest.raises((Finished, PeerGone)):
            pair.opened.recv(SOON)
        view[:] = bytes(300)


def test_limits_and_timeouts(pair: Pair):
    most = pair.opened.reserve_bytes_max
    with pair.opened.reserve(most) as view:
        view[:] = b"f" * most
    assert pair.accepted.recv(SOON) == b"f" * most
    with pytest.raises(barewire.errors.OutOfLimits):
        pair.opened.reserve(most + 1)
    with pytest.raises(OverflowError):
        pair.opened.reserve(-1)
    for timeout in (0, 0.01):
        with pytest.raises(Timeout):
            pair.accepted.peek(timeout)
    while pair.opened.try_send(b"x" * 500):
        pass
    for timeout in (0, 0.01):
        with pytest.raises(Timeout):
            pair.opened.reserve(500, timeout)
    # A wait for room ends when there is some.
    rooms: list[barewire.Reservation] = []
    thread = threading.Thread(target=lambda: rooms.append(pair.opened.reserve(500, SOON)))
    thread.start()
    while thread.is_alive():
        pair.accepted.recv_batch()
    thread.join()
    with rooms[0] as view:
        view[:] = b"y" * 500
    received: list[bytes] = []
    while b"y" * 500 not in received:
        received += pair.accepted.recv_batch()


def test_halves_and_threads(pair: Pair):
    sender, _ = pair.opened.split()
    _, receiver = pair.accepted.split()
    count = 2000
    largest = sender.reserve_bytes_max

    def send() -> None:
        for number in range(count):
            with sender.reserve(8 * (number % (largest // 8) + 1)) as view:
                numpy.frombuffer(view, "u8")[:] = number

    thread = threading.Thread(target=send)
    thread.start()
    for number in range(count):
        with receiver.peek(SOON) as view:
            assert len(view) == 8 * (number % (largest // 8) + 1)
            assert (numpy.frombuffer(view, "u8") == number).all()
    thread.join()
    # Who shares a sender is told, and does not wait for what the same thread may hold.
    with sender.reserve(8) as view:
        with pytest.raises(Busy):
            sender.send(b"x")
        view[:] = b"the last"
    assert receiver.recv(SOON) == b"the last"


def test_a_shared_sender_is_closed_at_the_end(pair: Pair):
    sender, _ = pair.opened.split()
    with pytest.raises(Closed), sender.reserve(8):
        sender.close()
    with pytest.raises((Finished, PeerGone)):
        pair.accepted.recv(SOON)


def test_in_an_event_loop(name):
    async def main() -> None:
        _, _, accepted, opened = await joined(name)
        peeking = asyncio.create_task(accepted.peek())
        await asyncio.sleep(0)
        with await opened.reserve(4) as view:
            view[:] = b"loop"
        with await peeking as view:
            assert view == b"loop"
        while opened.native.try_send(b"x" * 500):
            pass
        reserving = asyncio.create_task(opened.reserve(500))
        await asyncio.sleep(0)
        assert not reserving.done()
        received = 0
        while not reserving.done():
            await accepted.recv()
            received += 1
            await asyncio.sleep(0)
        with await reserving as view:
            view[:] = b"y" * 500
        while await accepted.recv() != b"y" * 500:
            received += 1
        assert received > 3

    run(main())
