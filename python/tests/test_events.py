"""Events, requests, and what a node says of itself."""

from __future__ import annotations

import os
import select

import pytest
from conftest import SOON, Pair

import barewire


def wanted(node: barewire.Node, kind: type):
    """The next event of this kind."""
    for event in barewire.events(node, SOON):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def test_one_thread_serves_many(name):
    server, client = barewire.Node(), barewire.Node()
    connections: dict[int, barewire.Connection] = {}
    with server.listen(name):
        begun = [client.start_connect(name, data=bytes([number])) for number in range(5)]
        opened: dict[int, barewire.Connection] = {}
        asked = []
        while len(connections) < 5:
            request = wanted(server, barewire.Request)
            assert request.name == name and request.peer.pid == os.getpid()
            asked.append(request.data)
            connection = request.accept()
            connections[connection.id] = connection
        assert sorted(asked) == [bytes([number]) for number in range(5)]
        while len(opened) < 5:
            match wanted(client, barewire.Connected):
                case barewire.Connected(id, connection):
                    opened[id] = connection
        assert set(opened) == {connecting.id for connecting in begun}
        for number, connection in opened.items():
            connection.send(str(number).encode())
        received = set()
        while len(received) < 5:
            match wanted(server, barewire.Ready):
                case barewire.Ready(id):
                    message = connections[id].try_recv()
                    if message is not None:
                        received.add(message)
        assert received == {str(number).encode() for number in opened}


def test_refused_with_a_reason(name):
    server, client = barewire.Node(), barewire.Node()
    with server.listen(name) as listener:
        assert listener.name == name
        connecting = client.start_connect(name)
        server.next_request(SOON).reject("full")
        failed = wanted(client, barewire.ConnectFailed)
        assert failed.id == connecting.id
        assert isinstance(failed.error, barewire.errors.Refused) and "full" in str(failed.error)
        request = None
        client.start_connect(name)
        request = server.next_request(SOON)
        # Forgotten is refused, too.
        del request
        assert isinstance(wanted(client, barewire.ConnectFailed).error, ConnectionRefusedError)
        client.start_connect(name).cancel()


def test_the_end_of_a_peer_comes_as_an_event(pair: Pair):
    pair.opened.send(b"left behind")
    number = pair.accepted.id
    pair.opened.close()
    del pair.client
    assert wanted(pair.server, barewire.Ready).id == number
    assert pair.accepted.recv(SOON) == b"left behind"


def test_out_of_band(pair: Pair):
    while pair.opened.try_send(b"work"):
        pass
    assert pair.opened.send_out_of_band(b"stop")
    event = wanted(pair.server, barewire.OutOfBand)
    assert (event.id, event.data) == (pair.accepted.id, b"stop")
    with pytest.raises(barewire.errors.OutOfLimits):
        pair.opened.send_out_of_band(bytes(5000))


def test_the_descriptor_tells_of_events(pair: Pair):
    # It is readable once without an event, when it is first asked for.
    while pair.server.poll() or select.select([pair.server], [], [], 0)[0]:
        pass
    pair.opened.send(b"news")
    assert select.select([pair.server], [], [], SOON)[0] == [pair.server]
    assert any(isinstance(event, barewire.Ready) for event in pair.server.poll())


def test_settings(pair: Pair):
    pair.server.set({"spin": "20us", "backlog_max": "64"})
    assert pair.server.settings()["backlog_max"] == "64"
    with pytest.raises(barewire.errors.BadSetting, match="can be set"):
        pair.server.set({"colour": "red"})
    assert pair.server.credentials.uid == os.getuid()
    for wrong in ({"spin": "often"}, {"huge_pages": "maybe"}, {"ring_bytes": 1000}):
        with pytest.raises(ValueError):
            barewire.Node(**wrong)
    with pytest.raises(TypeError):
        barewire.Node(no_such_setting=1)


def test_counters(pair: Pair):
    pair.opened.send(b"counted")
    assert pair.accepted.recv(SOON) == b"counted"
    found = [node.connections for node in barewire.counters(os.getpid()) if node.pid == os.getpid()]
    ours = [connection for connections in found for connection in connections.values()]
    assert {"messages_in", "bytes_out", "full"} <= set(ours[0])
    assert any(connection["bytes_out"] == 7 for connection in ours)
    assert all("events" in node.node for node in barewire.counters())


def test_events_end_with_time_and_with_the_node():
    node = barewire.Node()
    assert list(barewire.events(node, 0.01)) == []
    node.close()
    assert list(barewire.events(node)) == []
    assert node.closed
    with pytest.raises(barewire.errors.Closed):
        node.poll()


def test_a_capture_is_written(name, tmp_path):
    path = tmp_path / "capture.pcapng"
    server, client = barewire.Node(capture=path), barewire.Node()
    with server.listen(name):
        client.start_connect(name)
        connection = server.next_request(SOON).accept()
        connection.send(b"captured bytes")
        server.flush_capture()
    assert b"captured bytes" in path.read_bytes()


def test_another_host(name):
    hosts = barewire.Hosts(security="insecure", shortcut=False)
    server, client = barewire.Node(hosts=hosts), barewire.Node(hosts=hosts)
    with server.listen(name), server.listen_on("127.0.0.1:0") as port:
        client.start_connect(f"{port.address}/{name}")
        accepted = server.next_request(SOON).accept()
        opened = wanted(client, barewire.Connected).connection
        opened.send(b"over TCP")
        assert accepted.recv(SOON) == b"over TCP"
        assert accepted.remote.how == "nobody" and not accepted.remote.is_encrypted
        aperture = server.export(4096)
        accepted.grant(aperture, 5)
        cookie, far = opened.import_aperture(SOON)
        assert cookie == 5
        far.put(8, b"far")
        assert far.add(0, 3) == 0 and far.load(0) == 3
        assert aperture.get(8, 3) == b"far"
        with pytest.raises(BufferError, match="another host"):
            far.view()
