"""What type checkers must make of the package: only looked at by mypy, never run."""

from typing import assert_type

import barewire
from barewire import aio, lab, recording

node = barewire.Node(spin="never", hosts=barewire.Hosts(security="keys"))
connection = node.connect("name", data=b"x")
assert_type(connection.recv(1.0), bytes)
assert_type(connection.try_recv(), bytes | None)
assert_type(connection.into_stream(), barewire.Stream)
assert_type(connection.import_aperture(), tuple[int, barewire.RemoteAperture])
with connection.reserve(8) as room, connection.peek() as found:
    assert_type(room, memoryview)
    assert_type(found, memoryview)
connection.send("text")  # type: ignore[arg-type]
node.export(8, rights="write")  # type: ignore[arg-type]
for event in barewire.events(node):
    match event:
        case barewire.Ready(id):
            assert_type(id, int)
        case barewire.Closed(_, reason):
            assert_type(reason.fault, str)
        case _:
            pass
assert_type(lab.run("cbn-ping").tables[0].name, str)
assert_type([event.fragments[0].data for event in recording.open("file.evb")], list[bytes])


async def main() -> None:
    async with aio.Node() as node, await node.connect("name") as connection:
        assert_type(await connection.recv(), bytes)
        assert_type(await connection.reserve(8), barewire.Reservation)
        assert_type(await connection.peek(), barewire.Message)
        assert_type(connection.into_stream(), aio.Stream)
