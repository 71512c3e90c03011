"""Barewire with ``asyncio``: nodes, connections and streams to await.

A :class:`Node` belongs to the event loop in which it is made. Its descriptor is in the loop; nothing polls, and no thread is
started::

    import asyncio
    from barewire import aio

    async def main():
        async with aio.Node() as node, await node.connect("echo") as connection:
            await connection.send(b"hello")
            print(await connection.recv())

    asyncio.run(main())

What is cancelled while it waits loses nothing: a message that has come is there for the next ``recv``. Only a message longer
than the receiver's ring that was sent in part closes its direction.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Optional, TypeVar

from . import errors
from . import _native as native

T = TypeVar("T")

# Events that are taken at a time, so that other tasks get their turn.
_EVENTS_MAX = 64
# Pauses between two tries to connect to a name that nobody listens to yet, in seconds.
_PAUSE_FIRST, _PAUSE_LONGEST = 0.001, 0.02
_MAY_PASS = (errors.NoSuchName, errors.PeerGone, errors.PeerDied, errors.HostUnreachable, errors.HostLost)


class _Queue(Generic[T]):
    """What has come and nobody has taken yet, and who waits for it."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._come = asyncio.Event()
        self._error: Optional[Exception] = None

    def put(self, item: T) -> None:
        self._items.append(item)
        self._come.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._come.set()

    async def get(self) -> T:
        while not self._items:
            if self._error is not None:
                raise self._error
            self._come.clear()
            await self._come.wait()
        return self._items.popleft()


class Node:
    """A node in an event loop. As ``barewire.Node``, with the same keywords; calls that wait are coroutines."""

    def __init__(self, **settings: Any) -> None:
        self.native = native.Node(**settings)
        self._loop = asyncio.get_running_loop()
        self._ready: dict[int, asyncio.Event] = {}
        self._opening: dict[int, asyncio.Future[native.Connection]] = {}
        self._requests: _Queue[native.Request] = _Queue()
        self._tripwires: dict[int, _Queue[int]] = {}
        self._bulk: dict[int, asyncio.Future[bytes]] = {}
        self._cookies = 0
        self._connections: dict[int, Connection] = {}
        self._loop.add_reader(self.native.fileno(), self._look)
        # Only after an empty poll does the descriptor tell of events.
        self._look()

    def _look(self) -> None:
        """Hands out the events that are there."""
        if self.native.closed:
            return
        try:
            events = self.native.poll(_EVENTS_MAX)
        except errors.Error as error:
            self._fail(error)
            return
        for event in events:
            self._handle(event)
        if events:
            self._loop.call_soon(self._look)

    def _handle(self, event: Any) -> None:
        if isinstance(event, native.Ready):
            if (ready := self._ready.get(event.id)) is not None:
                ready.set()
        elif isinstance(event, native.Request):
            self._requests.put(event)
        elif isinstance(event, (native.Connected, native.ConnectFailed)):
            waiting = self._opening.pop(event.id, None)
            if waiting is None or waiting.done():
                if isinstance(event, native.Connected):
                    event.connection.close()
            elif isinstance(event, native.Connected):
                waiting.set_result(event.connection)
            else:
                waiting.set_exception(event.error)
        elif isinstance(event, native.Closed):
            if (ready := self._ready.get(event.id)) is not None:
                ready.set()
            if (connection := self._connections.get(event.id)) is not None:
                connection._out_of_band.fail(event.reason)
                connection._granted.fail(event.reason)
        elif isinstance(event, native.OutOfBand):
            if (connection := self._connections.get(event.id)) is not None:
                connection._out_of_band.put(event.data)
        elif isinstance(event, native.Granted):
            if (connection := self._connections.get(event.id)) is not None:
                connection._granted.put((event.cookie, event.aperture))
        elif isinstance(event, native.TripwireFired):
            if (fired := self._tripwires.get(event.cookie)) is not None:
                fired.put(event.cookie)
        elif isinstance(event, native.Completion):
            if (bulk := self._bulk.pop(event.cookie, None)) is not None and not bulk.done():
                if event.data is not None:
                    bulk.set_result(event.data)
                else:
                    bulk.set_exception(event.error or errors.Error())

    def _fail(self, error: Exception) -> None:
        """Nothing will come any more."""
        self._loop.remove_reader(self.native.fileno())
        self._requests.fail(error)
        futures: list[asyncio.Future[Any]] = [*self._opening.values(), *self._bulk.values()]
        for waiting in futures:
            if not waiting.done():
                waiting.set_exception(error)
        for ready in self._ready.values():
            ready.set()
        for connection in self._connections.values():
            connection._out_of_band.fail(error)
            connection._granted.fail(error)

    def listen(self, name: str, **policy: Any) -> native.Listener:
        """Listens under a name, as ``barewire.Node.listen``."""
        return self.native.listen(name, **policy)

    async def accept(self) -> Connection:
        """The next connection to any of the names, accepted."""
        while True:
            request = await self.next_request()
            try:
                return self.adopt(request.accept())
            except (errors.PeerGone, errors.PeerDied):
                # It has given up meanwhile.
                continue

    async def next_request(self) -> native.Request:
        """The next request to connect, to be accepted or rejected; what it accepts goes to ``adopt``."""
        return await self._requests.get()

    def adopt(self, connection: native.Connection) -> Connection:
        """A connection of this node, to be awaited."""
        return Connection(self, connection)

    async def connect(
        self, name: str, *, timeout: float = 5.0, wait_for_name: bool = True, **options: Any
    ) -> Connection:
        """Connects to a name, as ``barewire.Node.connect``."""
        deadline = time.monotonic() + timeout
        pause = _PAUSE_FIRST
        while True:
            left = deadline - time.monotonic()
            try:
                return await self._connect_once(name, max(left, 0.0), options)
            except _MAY_PASS:
                if not wait_for_name or left <= pause:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LONGEST)

    async def _connect_once(self, name: str, left: float, options: dict[str, Any]) -> Connection:
        connecting = self.native.start_connect(name, **options)
        waiting: asyncio.Future[native.Connection] = self._loop.create_future()
        self._opening[connecting.id] = waiting
        # The answer may be there already.
        self._look()
        try:
            return self.adopt(await asyncio.wait_for(waiting, left))
        except (asyncio.TimeoutError, TimeoutError):
            self._give_up(connecting)
            raise errors._of("timed out", code="Timeout", fault="peer") from None
        except asyncio.CancelledError:
            self._give_up(connecting)
            raise

    def _give_up(self, connecting: native.Connecting) -> None:
        self._opening.pop(connecting.id, None)
        connecting.cancel()

    def _cookie(self) -> int:
        self._cookies += 1
        return self._cookies

    async def bulk_put(self, aperture: native.RemoteAperture, offset: int, data: Any) -> None:
        """Copies bytes into an aperture in the background."""
        await self._bulk_of(lambda cookie: aperture.bulk_put(offset, data, cookie))

    async def bulk_get(self, aperture: native.RemoteAperture, offset: int, length: int) -> bytes:
        """Copies bytes out of an aperture in the background."""
        return await self._bulk_of(lambda cookie: aperture.bulk_get(offset, length, cookie))

    async def _bulk_of(self, begin: Callable[[int], None]) -> bytes:
        cookie = self._cookie()
        waiting: asyncio.Future[bytes] = self._loop.create_future()
        self._bulk[cookie] = waiting
        try:
            begin(cookie)
        except errors.Error:
            del self._bulk[cookie]
            raise
        return await waiting

    async def fired(
        self, aperture: native.Aperture | native.RemoteAperture, offset: int, length: int
    ) -> AsyncIterator[None]:
        """Sets a tripwire on a range, and yields whenever it has fired. It yields once at the beginning, when it is set."""
        cookie = self._cookie()
        fired = self._tripwires[cookie] = _Queue()
        try:
            with aperture.tripwire(offset, length, cookie=cookie):
                yield
                while True:
                    await fired.get()
                    yield
        finally:
            del self._tripwires[cookie]

    def close(self) -> None:
        """Closes its connections and itself; what waits gets ``Closed``."""
        if self.native.closed:
            return
        self._fail(errors._of("the node is closed", code="Closed", fault="caller"))
        for connection in list(self._connections.values()):
            connection.close()
        self.native.close()

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Waiting:
    """Something with a number on a node, which events tell to try again."""

    def __init__(self, node: Node, number: int) -> None:
        self._node, self.id = node, number
        self._event = node._ready[number] = asyncio.Event()

    async def _until(self, attempt: Callable[[], Optional[T]]) -> T:
        """Tries until it gives something."""
        while True:
            # Before the attempt: what comes during it is not missed.
            self._event.clear()
            if (found := attempt()) is not None:
                return found
            await self._event.wait()

    def _forget(self) -> None:
        if self._node._ready.get(self.id) is self._event:
            del self._node._ready[self.id]
        self._event.set()


def _unless_late(attempt: Callable[[], T]) -> Optional[T]:
    """What a call gives that would have to wait for nothing; else ``None``."""
    try:
        return attempt()
    except errors.Timeout:
        return None


class Connection(_Waiting):
    """A connection of a :class:`Node`. One task at a time receives."""

    def __init__(self, node: Node, connection: native.Connection) -> None:
        super().__init__(node, connection.id)
        self.native = connection
        self._sending = asyncio.Lock()
        self._out_of_band: _Queue[bytes] = _Queue()
        self._granted: _Queue[tuple[int, native.RemoteAperture]] = _Queue()
        node._connections[self.id] = self

    @property
    def peer(self) -> native.Credentials:
        """Who is at the other end, as the kernel says."""
        return self.native.peer

    @property
    def name(self) -> str:
        """The name that was connected to."""
        return self.native.name

    async def recv(self) -> bytes:
        """Receives a message."""
        return await self._until(self.native.try_recv)

    async def recv_into(self, buffer: Any) -> int:
        """Receives a message into a buffer; its length."""
        return await self._until(lambda: self.native.try_recv_into(buffer))

    async def send(self, message: Any) -> None:
        """Sends a message; waits while the receiver's ring is full. Tasks take turns."""
        async with self._sending:
            try:
                await self._until(lambda: self.native.try_send(message) or None)
            except errors.OutOfLimits:
                await self._send_long(native.LongMessage(message))

    async def reserve(self, size: int) -> native.Reservation:
        """Room for a message in the receiver's memory, as ``barewire.Connection.reserve``: ``with await connection.reserve(8)
        as view``. One task at a time: until the block ends, others that send get ``Busy``."""
        async with self._sending:
            return await self._until(lambda: _unless_late(lambda: self.native.reserve(size, 0)))

    async def peek(self) -> native.Message:
        """The next message, to be read in place: ``with await connection.peek() as view``."""
        return await self._until(lambda: _unless_late(lambda: self.native.peek(0)))

    async def _send_long(self, message: native.LongMessage) -> None:
        """Sends a message that is longer than the ring."""
        try:
            await self._until(lambda: self.native.try_send_part(message) or None)
        except asyncio.CancelledError:
            if message.sent_bytes:
                # Its end can not be sent any more.
                self.native.finish()
            raise

    def __aiter__(self) -> Connection:
        """The messages until the peer has finished."""
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.recv()
        except errors.Finished:
            raise StopAsyncIteration from None

    def send_out_of_band(self, data: Any) -> bool:
        """As ``barewire.Connection.send_out_of_band``."""
        return self.native.send_out_of_band(data)

    async def recv_out_of_band(self) -> bytes:
        """The next message outside the queue."""
        return await self._out_of_band.get()

    def grant(self, aperture: native.Aperture, cookie: int = 0) -> None:
        """As ``barewire.Connection.grant``."""
        self.native.grant(aperture, cookie)

    async def import_aperture(self) -> tuple[int, native.RemoteAperture]:
        """The next aperture that the peer grants: its cookie and itself."""
        return await self._granted.get()

    def finish(self) -> None:
        """Says that nothing more will be sent."""
        self.native.finish()

    def into_stream(self) -> Stream:
        """The connection as a byte stream; this object can not be used any more."""
        raw = self.native.into_stream()._raw
        self._leave()
        return Stream(self._node, raw)

    def _leave(self) -> None:
        if self._node._connections.get(self.id) is self:
            del self._node._connections[self.id]
        self._forget()

    def close(self) -> None:
        """Closes it; may be called twice."""
        self._leave()
        self.native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()


class Stream(_Waiting):
    """A byte stream with the methods of ``asyncio.StreamReader`` and ``asyncio.StreamWriter``."""

    def __init__(self, node: Node, raw: native.RawStream, limit: int = 1 << 16) -> None:
        super().__init__(node, raw.id)
        self._raw, self._limit = raw, limit
        self._chunk = bytearray(limit)
        self._read = bytearray()
        self._unsent = bytearray()
        self._is_at_end = False

    async def _more(self) -> bool:
        """Reads something more; ``False`` at the end."""
        if self._is_at_end:
            return False
        count = await self._until(lambda: self._raw.try_readinto(self._chunk))
        self._is_at_end = count == 0
        self._read += memoryview(self._chunk)[:count]
        return count > 0

    def _take(self, count: int) -> bytes:
        taken = bytes(memoryview(self._read)[:count])
        del self._read[:count]
        return taken

    async def read(self, n: int = -1) -> bytes:
        """Reads at most ``n`` bytes, at least one unless at the end; without ``n``, all until the end."""
        if n < 0:
            while await self._more():
                pass
            return self._take(len(self._read))
        if n > 0 and not self._read:
            await self._more()
        return self._take(n)

    async def readexactly(self, n: int) -> bytes:
        """Reads so many bytes; ``asyncio.IncompleteReadError`` if the end comes before."""
        while len(self._read) < n:
            if not await self._more():
                raise asyncio.IncompleteReadError(self._take(len(self._read)), n)
        return self._take(n)

    async def readuntil(self, separator: bytes = b"\n") -> bytes:
        """Reads up to and with the separator."""
        searched = 0
        while (at := self._read.find(separator, searched)) < 0:
            searched = max(0, len(self._read) - len(separator) + 1)
            if len(self._read) > self._limit:
                raise asyncio.LimitOverrunError("no separator within the limit", searched)
            if not await self._more():
                raise asyncio.IncompleteReadError(self._take(len(self._read)), None)
        return self._take(at + len(separator))

    async def readline(self) -> bytes:
        """Reads a line, or what is left before the end."""
        try:
            return await self.readuntil()
        except asyncio.IncompleteReadError as error:
            return error.partial

    def at_eof(self) -> bool:
        """Whether everything was read until the end."""
        return self._is_at_end and not self._read

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def write(self, data: Any) -> None:
        """Writes what there is room for at once; ``drain`` writes the rest."""
        view = memoryview(data).cast("B")
        written = 0 if self._unsent else self._raw.try_write(view)
        self._unsent += view[written:]

    def writelines(self, data: Any) -> None:
        """Writes several."""
        for one in data:
            self.write(one)

    async def drain(self) -> None:
        """Waits until everything was written."""

        def write_some() -> Optional[bool]:
            while self._unsent:
                written = self._raw.try_write(self._unsent)
                del self._unsent[:written]
                if not written:
                    return None
            return True

        await self._until(write_some)

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def write_eof(self) -> None:
        """Says that nothing more will be written; call ``drain`` before."""
        if self._unsent:
            raise RuntimeError("bytes are left to be written: await drain() before write_eof()")
        self._raw.finish()

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._node._ready.get(self.id) is not self._event

    def close(self) -> None:
        """Closes it. What ``drain`` has not written is lost."""
        self._forget()
        self._raw.close()

    async def wait_closed(self) -> None:
        """Nothing to wait for."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """``peername`` gives the process at the other end."""
        return self._raw.peer if name == "peername" else default

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()


async def serve(node: Node, name: str, handle: Callable[[Connection], Awaitable[None]]) -> None:
    """Listens under a name and has ``handle`` serve each connection, in a task of its own, until it is cancelled."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(connection: Connection) -> None:
        with connection:
            await handle(connection)

    with node.listen(name):
        try:
            while True:
                task = asyncio.create_task(one(await node.accept()))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
