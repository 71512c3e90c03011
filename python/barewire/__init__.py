"""Barewire: programs on one host talk through shared memory, without the kernel on the data path.

A :class:`Node` is a program's attachment to the network. It listens under names, connects to names, and has one queue of
events::

    import barewire

    node = barewire.Node()
    with node.listen("echo"), node.next_request().accept() as connection:
        connection.send(connection.recv())

and in another process::

    import barewire

    with barewire.Node().connect("echo") as connection:
        connection.send(b"hello")
        assert connection.recv() == b"hello"

====================== ====================================================
``barewire``           nodes, connections, streams, apertures, events
``barewire.aio``       the same with ``asyncio``
``barewire.errors``    exceptions: what went wrong, and whose fault it is
``barewire.lab``       the laboratory: models of networks
``barewire.recording`` files of the event builder
====================== ====================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from . import errors
from ._native import (
    Aperture,
    Budget,
    Closed,
    Completion,
    ConnectFailed,
    Connected,
    Connecting,
    Connection,
    Credentials,
    Granted,
    Hosts,
    Listener,
    Message,
    Node,
    NodeCounters,
    OutOfBand,
    Peer,
    Port,
    Ready,
    Receiver,
    RemoteAperture,
    Request,
    Reservation,
    Sender,
    Tripwire,
    TripwireFired,
    counters,
)
from .errors import Error
from .stream import Stream

Event = Union[Request, Connected, ConnectFailed, Ready, Closed, OutOfBand, Granted, TripwireFired, Completion]


def events(node: Node, timeout: float | None = None) -> Iterator[Event]:
    """The events of a node, one by one: for ever, or until none comes for ``timeout`` seconds.

    It also ends when the node is closed. Where many events come, ``node.wait`` is faster: it takes up to 64 at a time. A wake-up by a tripwire with the action ``"wake"`` gives no event: programs that
    set such tripwires call ``node.wait`` themselves.
    """
    while True:
        try:
            # One at a time: who leaves the loop loses none.
            found = node.wait(1, timeout)
        except errors.Closed:
            return
        if not found and timeout is not None:
            return
        yield from found


__all__ = [
    "Aperture",
    "Budget",
    "Closed",
    "Completion",
    "ConnectFailed",
    "Connected",
    "Connecting",
    "Connection",
    "Credentials",
    "Error",
    "Event",
    "Granted",
    "Hosts",
    "Listener",
    "Message",
    "Node",
    "NodeCounters",
    "OutOfBand",
    "Peer",
    "Port",
    "Ready",
    "Receiver",
    "RemoteAperture",
    "Request",
    "Reservation",
    "Sender",
    "Stream",
    "Tripwire",
    "TripwireFired",
    "counters",
    "errors",
    "events",
]
