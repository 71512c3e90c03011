"""What the tests share: names that nobody else has, connected pairs, and other processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import barewire

# Nobody waits longer than this for something that should come.
SOON = 20.0
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A name that nobody listens to."""
    return f"python-{os.getpid()}-{next(_numbers)}"


@dataclass
class Pair:
    """Two nodes and their connection."""

    server: barewire.Node
    client: barewire.Node
    accepted: barewire.Connection
    opened: barewire.Connection


def connect(server: barewire.Node, client: barewire.Node, name: str) -> Pair:
    """Connects two nodes of this process."""
    with server.listen(name):
        opened: list[barewire.Connection] = []
        thread = threading.Thread(target=lambda: opened.append(client.connect(name, timeout=SOON)))
        thread.start()
        accepted = server.next_request(SOON).accept()
        thread.join()
    return Pair(server, client, accepted, opened[0])


@pytest.fixture
def pair(name: str) -> Iterator[Pair]:
    """Two connected nodes of this process."""
    pair = connect(barewire.Node(), barewire.Node(), name)
    yield pair
    pair.accepted.close()
    pair.opened.close()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python programs, and stops them in the end."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
