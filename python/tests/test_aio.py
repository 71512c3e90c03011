"""Nodes, connections and streams in an event loop."""

from __future__ import annotations

import asyncio
import os

import pytest
from conftest import SOON

import barewire
from barewire import aio


def run(main) -> None:
    asyncio.run(asyncio.wait_for(main, SOON))


async def joined(name: str):
    """Two connected nodes of this loop."""
    server, client = aio.Node(), aio.Node()
    with server.listen(name):
        opened, accepted = await asyncio.gather(client.connect(name), server.accept())
    return server, client, accepted, opened


def test_messages_there_and_back(name):
    async def main() -> None:
        async def echo(connection: aio.Connection) -> None:
            async for message in connection:
                await connection.send(message)

        async def client(number: int) -> None:
            async with aio.Node() as node, await node.connect(name) as connection:
                assert connection.peer.pid == os.getpid() and connection.name == name
                for length in (1, 64, 5000, 100_000):
                    message = bytes([number]) * length
                    receiving = asyncio.create_task(connection.recv())
                    await connection.send(message)
                    assert await receiving == message

        async with aio.Node() as node:
            server = asyncio.create_task(aio.serve(node, name, echo))
            await asyncio.gather(*(client(number) for number in range(20)))
            server.cancel()
            with pytest.raises(asyncio.CancelledError):
                await server

    run(main())


def test_other_tasks_run_while_one_waits(name):
    async def main() -> None:
        _, _, accepted, opened = await joined(name)
        receiving = asyncio.create_task(accepted.recv())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not receiving.done()
        await opened.send(b"now")
        assert await receiving == b"now"
        buffer = bytearray(8)
        await opened.send(b"again")
        assert await accepted.recv_into(buffer) == 5 and buffer[:5] == b"again"

    run(main())


def test_a_full_ring_holds_up_the_sender_alone(name):
    async def main() -> None:
        _, _, accepted, opened = await joined(name)
        count = 1000

        async def send() -> None:
            for number in range(count):
                await opened.send(number.to_bytes(500, "little"))
            opened.finish()

        sending = asyncio.create_task(send())
        received = [int.from_bytes(message, "little") async for message in accepted]
        await sending
        assert received == list(range(count))

    run(main())


def test_what_is_cancelled_loses_nothing(name):
    async def main() -> None:
        _, client, accepted, opened = await joined(name)
        for number in range(50):
            receiving = asyncio.create_task(accepted.recv())
            await asyncio.sleep(0)
            await opened.send(bytes([number]))
            receiving.cancel()
            try:
                message = await receiving
            except asyncio.CancelledError:
                message = await accepted.recv()
            assert message == bytes([number])
        with pytest.raises(TimeoutError):
            await client.connect(name + "-nobody", timeout=0.02)

    async def nobody() -> None:
        try:
            await main()
        except barewire.errors.NoSuchName:
            # What the last try said.
            pass

    run(nobody())


def test_refused_and_late(name):
    async def main() -> None:
        server, client = aio.Node(), aio.Node()
        with server.listen(name):
            connecting = asyncio.create_task(client.connect(name, data=b"me"))
            request = await server.next_request()
            assert request.data == b"me"
            request.reject("not today")
            with pytest.raises(barewire.errors.Refused, match="not today"):
                await connecting
            with pytest.raises(barewire.errors.Timeout):
                await client.connect(name, timeout=0.05)
        # The name appears after the call.
        connecting = asyncio.create_task(client.connect(name + "-late"))
        await asyncio.sleep(0.01)
        with server.listen(name + "-late"):
            while True:
                accepted = await server.accept()
                if accepted.name == name + "-late":
                    break
            await (await connecting).send(b"there")
            assert await accepted.recv() == b"there"

    run(main())


def test_streams_read_and_write(name):
    async def main() -> None:
        _, _, accepted, opened = await joined(name)
        ours, theirs = opened.into_stream(), accepted.into_stream()
        content = os.urandom(500_000)

        async def write() -> None:
            ours.write(b"head\n")
            ours.writelines([content, b"\ntail"])
            await ours.drain()
            ours.write_eof()

        writing = asyncio.create_task(write())
        assert await theirs.readline() == b"head\n"
        assert await theirs.readexactly(len(content)) == content
        assert await theirs.readuntil(b"\nt") == b"\nt"
        assert await theirs.read(2) == b"ai"
        assert await theirs.read() == b"l" and theirs.at_eof()
        with pytest.raises(asyncio.IncompleteReadError):
            await theirs.readexactly(1)
        await writing
        theirs.write(b"one\ntwo")
        await theirs.drain()
        theirs.close()
        assert theirs.is_closing() and not ours.is_closing()
        assert [line async for line in ours] == [b"one\n", b"two"]
        assert ours.get_extra_info("peername").pid == os.getpid()
        ours.close()
        await ours.wait_closed()

    run(main())


def test_the_end_of_a_node_ends_its_waits(name):
    async def main() -> None:
        server, client, accepted, opened = await joined(name)
        waits = [accepted.recv(), accepted.recv_out_of_band(), server.accept(), accepted.import_aperture()]
        waiting = [asyncio.create_task(wait) for wait in waits]
        await asyncio.sleep(0)
        server.close()
        for task in waiting:
            with pytest.raises(barewire.errors.Closed):
                await task
        with pytest.raises(barewire.Error):
            while True:
                await opened.recv()

    run(main())


def test_out_of_band_apertures_and_tripwires(name):
    async def main() -> None:
        server, client, accepted, opened = await joined(name)
        assert accepted.send_out_of_band(b"urgent")
        assert await opened.recv_out_of_band() == b"urgent"
        aperture = server.native.export(1 << 20)
        accepted.grant(aperture, 9)
        cookie, far = await opened.import_aperture()
        assert cookie == 9
        await client.bulk_put(far, 16, b"x" * 100_000)
        assert await client.bulk_get(far, 100_015, 2) == b"x\0"
        fired = server.fired(aperture, 0, 8)
        await anext(fired)
        far.store(0, 1)
        await anext(fired)
        assert aperture.load(0) == 1
        await fired.aclose()

    run(main())
