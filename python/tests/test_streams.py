"""Byte streams, as files and as sockets."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import socket
import socketserver
import threading

import pytest
from conftest import SOON, Pair

import barewire


@pytest.fixture
def streams(pair: Pair):
    ours, theirs = pair.opened.into_stream(), pair.accepted.into_stream()
    for stream in (ours, theirs):
        stream.settimeout(SOON)
    with ours, theirs:
        yield ours, theirs


def in_thread(work, *arguments) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    return thread


def test_reads_and_writes_like_a_file(streams):
    ours, theirs = streams
    assert ours.write(b"line one\nline two\nrest") == 22
    ours.finish()
    assert theirs.readline() == b"line one\n"
    assert theirs.peek()[:4] == b"line"
    assert theirs.read(5) == b"line "
    buffer = bytearray(3)
    assert theirs.readinto(buffer) == 3 and buffer == b"two"
    assert theirs.read() == b"\nrest"
    assert theirs.read(1) == b"" and theirs.readline() == b""
    with pytest.raises(barewire.errors.Closed):
        ours.write(b"more")


def test_pickles_in_turn(streams):
    ours, theirs = streams
    things = [{"a": [1, 2.5, None]}, "text" * 10_000, os.urandom(300_000)]

    def answer() -> None:
        for _ in things:
            pickle.dump(pickle.load(theirs), theirs)

    thread = in_thread(answer)
    for thing in things:
        pickle.dump(thing, ours)
        assert pickle.load(ours) == thing
    thread.join(SOON)


def test_files_are_copied(streams):
    ours, theirs = streams
    content = os.urandom(1_000_000)

    def copy() -> None:
        shutil.copyfileobj(io.BytesIO(content), ours)
        ours.finish()

    thread = in_thread(copy)
    copied = io.BytesIO()
    shutil.copyfileobj(theirs, copied)
    thread.join(SOON)
    assert copied.getvalue() == content


def test_text_over_makefile(streams):
    ours, theirs = streams
    with ours.makefile("w", encoding="utf-8") as file:
        json.dump({"temperature": "21 °C"}, file)
        file.write("\n")
    with theirs.makefile("r", encoding="utf-8") as file:
        assert json.loads(file.readline()) == {"temperature": "21 °C"}
    # The stream is still there, in both directions.
    theirs.sendall(b"done")
    assert ours.recv(100) == b"done"
    with pytest.raises(ValueError, match="mode"):
        ours.makefile("a")


def test_both_directions_at_once(streams):
    ours, theirs = streams
    length = 2_000_000
    received: list[int] = []
    threads = [in_thread(stream.write, bytes(length)) for stream in streams]
    readers = [in_thread(lambda s=stream: received.append(len(s.read(length)))) for stream in (ours, theirs)]
    for thread in threads + readers:
        thread.join(SOON)
    assert received == [length, length]


def test_timeouts_and_shutdown(streams):
    ours, theirs = streams
    theirs.settimeout(0.01)
    with pytest.raises(TimeoutError):
        theirs.recv(1)
    theirs.settimeout(SOON)
    ours.shutdown(socket.SHUT_WR)
    assert theirs.recv(1) == b""
    ours.settimeout(0.01)
    theirs.settimeout(0.01)
    with pytest.raises(TimeoutError):
        theirs.write(bytes(1_000_000))


def test_closing_tells_the_other_side(streams):
    ours, theirs = streams
    ours.write(b"last")
    ours.close()
    assert ours.closed
    assert theirs.read() == b"last"
    with pytest.raises(ValueError):
        ours.read(1)


class Server(socketserver.BaseServer):
    """What `socketserver` needs of a server: a descriptor, and a request."""

    def __init__(self, name: str, handler: type) -> None:
        super().__init__(name, handler)
        self.node = barewire.Node()
        self.listener = self.node.listen(name)
        self.requests: list[barewire.Request] = []

    def fileno(self) -> int:
        return self.node.fileno()

    def service_actions(self) -> None:
        # Only after an empty poll does the descriptor tell of more.
        while events := self.node.poll():
            self.requests += [event for event in events if isinstance(event, barewire.Request)]
        while self.requests:
            self._handle_request_noblock()

    def get_request(self):
        if not self.requests:
            raise OSError("the next round has them")
        stream = self.requests.pop(0).accept().into_stream()
        return stream, stream.peer

    def shutdown_request(self, request) -> None:
        request.close()

    def server_close(self) -> None:
        self.listener.close()
        self.node.close()


class Upper(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line.upper())


def test_a_socketserver_serves(name):
    server = Server(name, Upper)
    thread = in_thread(server.serve_forever, 0.01)
    for _ in range(3):
        with barewire.Node().connect(name, timeout=SOON).into_stream() as stream:
            stream.settimeout(SOON)
            stream.write(b"one\ntwo\n")
            stream.finish()
            assert stream.read() == b"ONE\nTWO\n"
    server.shutdown()
    thread.join(SOON)
    server.server_close()
