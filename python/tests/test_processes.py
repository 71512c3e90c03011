"""Errors that other processes and signals cause: deaths, forks, Ctrl-C."""

from __future__ import annotations

import os
import signal

import pytest
from conftest import SOON

import barewire


def test_whose_fault(name):
    node = barewire.Node()
    with pytest.raises(barewire.errors.NoSuchName) as caught:
        node.connect(name, wait_for_name=False)
    assert (caught.value.code, caught.value.fault) == ("NoSuchName", "peer")
    assert isinstance(caught.value, ConnectionRefusedError)
    # The time is for waiting for the name: what is wrong is the same.
    with pytest.raises(barewire.errors.NoSuchName):
        node.connect(name, timeout=0.01)
    with pytest.raises(barewire.errors.BadName) as caught:
        node.listen("")
    assert caught.value.fault == "caller" and isinstance(caught.value, ValueError)
    with node.listen(name), pytest.raises(barewire.errors.NameTaken, match="is taken by process"):
        barewire.Node().listen(name)
    for cls in vars(barewire.errors).values():
        if isinstance(cls, type) and issubclass(cls, barewire.Error):
            assert cls.__doc__, cls


DIES = """
import os, signal, sys, barewire
connection = barewire.Node().connect(sys.argv[1])
connection.send(b"last words")
connection.recv()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_peer_that_is_killed(start, name):
    node = barewire.Node()
    with node.listen(name):
        process = start(DIES, name)
        connection = node.next_request(SOON).accept()
        assert connection.recv(SOON) == b"last words"
        connection.send(b"die")
        with pytest.raises(barewire.errors.PeerDied, match=str(process.pid)) as caught:
            connection.recv(SOON)
        assert isinstance(caught.value, ConnectionResetError)


FORKS = """
import os, sys, barewire
name = sys.argv[1]
node = barewire.Node()
listener = node.listen(name)
connecting = node.start_connect(name)
accepted = node.next_request(20).accept()
aperture = node.export(4096)
opened = next(e.connection for e in barewire.events(node, 20) if isinstance(e, barewire.Connected))
accepted.send(b"for the parent")
room = accepted.reserve(8)
child = os.fork()
if child == 0:
    refused = 0
    calls = [
        lambda: node.poll(), lambda: node.wait(timeout=0), lambda: node.connect(name), lambda: node.listen("x"),
        lambda: opened.recv(0.1), lambda: opened.try_recv(), lambda: opened.send(b"x"), lambda: node.export(8),
        lambda: accepted.grant(aperture), lambda: node.next_request(0.1), lambda: opened.reserve(8),
        lambda: room.send(), lambda: opened.peek(0.1),
    ]
    for call in calls:
        try:
            call()
        except barewire.errors.Forked as error:
            refused += "make a node of its own" in str(error)
    # A node of its own works.
    own = barewire.Node()
    with own.listen(name + "-child"):
        pass
    del opened, accepted, connecting, listener, aperture, node, room
    os._exit(0 if refused == len(calls) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with room as view:
    view[:] = b"8 bytes."
assert opened.recv(20) == b"for the parent" and opened.recv(20) == b"8 bytes."
with listener:
    opened.send(b"still there")
    assert accepted.recv(20) == b"still there"
print("both well")
"""


def test_after_fork_the_child_is_refused(start, name):
    process = start(FORKS, name)
    output, _ = process.communicate(timeout=SOON)
    assert (process.returncode, output) == (0, "both well\n")


WAITS = {
    "recv": "opened.recv()",
    "recv_into": "opened.recv_into(bytearray(8))",
    "send": "while True: opened.send(bytes(500))",
    "send_long": "opened.send(bytes(100_000))",
    "send_parts": "while True: opened.send_parts([bytes(500)])",
    "reserve": "\n    while True: opened.reserve(500).send()",
    "peek": "opened.peek()",
    "import": "opened.import_aperture()",
    "stream_read": "opened.into_stream().read()",
    "stream_write": "opened.into_stream().write(bytes(1_000_000))",
    "wait": "\n    while True: node.wait(timeout=None)",
    "events": "\n    for _ in barewire.events(node): pass",
    "next_request": "node.next_request()",
    "connect": "node.connect('nobody-listens-here', timeout=1000)",
    "lab": "barewire.lab.run('cbn-load', replications=10000)",
}
INTERRUPTED = """
import sys, barewire, barewire.lab
name = sys.argv[1]
node, other = barewire.Node(), barewire.Node()
listener = other.listen(name)
node.start_connect(name)
accepted = other.next_request(20).accept()
opened = next(e.connection for e in barewire.events(node, 20) if isinstance(e, barewire.Connected))
try:
    print("waiting", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(0)
"""


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_every_wait(start, name, wait):
    process = start(INTERRUPTED.format(wait=WAITS[wait]), name)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    # It may come before the wait has begun, but not be lost.
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SOON)
    assert output == "interrupted\n"


def test_a_signal_handler_runs_and_the_wait_goes_on(start, name):
    program = INTERRUPTED.format(wait="signal.signal(signal.SIGUSR1, handle); print('set', flush=True); opened.recv()")
    program = "import signal\ndef handle(*_): accepted.send(b'from the handler')\n" + program + "print('received')\n"
    process = start(program, name)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["waiting\n", "set\n"]
    os.kill(process.pid, signal.SIGUSR1)
    output, _ = process.communicate(timeout=SOON)
    assert output == "received\n"
