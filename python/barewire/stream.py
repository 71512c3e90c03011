"""Byte streams that behave like files, and like sockets where programs expect one."""

from __future__ import annotations

import io
import socket
from typing import IO, Any

from . import errors
from ._native import Credentials, RawStream


class _Reader(io.RawIOBase):
    """The reading direction, without a buffer: what ``io.BufferedReader`` stands on."""

    def __init__(self, raw: RawStream, stream: Stream) -> None:
        self._raw, self._stream = raw, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._raw.readinto(buffer, self._stream.gettimeout())


class Stream(io.BufferedIOBase):
    """A connection as a byte stream, from ``Connection.into_stream``.

    It is a binary file with a buffer for reading: ``pickle``, ``shutil.copyfileobj``, ``json`` over ``makefile`` and the like
    work. ``write`` writes all of what it is given at once, so there is nothing to flush. ``recv``, ``sendall``,
    ``shutdown`` and ``makefile`` are those of a socket. One thread may read while another one writes.
    """

    def __init__(self, raw: RawStream) -> None:
        self._raw = raw
        self._timeout: float | None = None
        self._reader = io.BufferedReader(_Reader(raw, self), 1 << 16)

    @property
    def id(self) -> int:
        """Its number on its node, as events name it."""
        return self._raw.id

    @property
    def name(self) -> str:
        """The name that was connected to."""
        return self._raw.name

    @property
    def peer(self) -> Credentials:
        """Who is at the other end, as the kernel says."""
        return self._raw.peer

    def settimeout(self, seconds: float | None) -> None:
        """How long a call waits before it raises ``Timeout``; ``None``: for ever.

        After a ``Timeout`` while writing it is not known how much was written.
        """
        self._timeout = seconds

    def gettimeout(self) -> float | None:
        """What ``settimeout`` has set."""
        return self._timeout

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads so many bytes, fewer only at the end; without a number, all until the end."""
        return self._reader.read(size)

    def read1(self, size: int = -1, /) -> bytes:
        """Reads what is there, and waits only if nothing is; ``b""`` at the end."""
        return self._reader.read1(size)

    def peek(self, size: int = 0, /) -> bytes:
        """What comes next, without taking it."""
        return self._reader.peek(size)

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer; less only at the end."""
        return self._reader.readinto(buffer)

    def readinto1(self, buffer: Any, /) -> int:
        """Reads what is there into a buffer, and waits only if nothing is; 0 at the end."""
        return self._reader.readinto1(buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Reads up to and with the next newline."""
        return self._reader.readline(-1 if size is None else size)

    def write(self, data: Any, /) -> int:
        """Writes all of it, and waits while the other side does not read."""
        written = self._raw.write(data, self._timeout)
        if written < memoryview(data).nbytes:
            raise errors._of("timed out", code="Timeout", fault="peer")
        return written

    def finish(self) -> None:
        """Says that nothing more will be written: the peer reads what was, then the end."""
        self._raw.finish()

    def close(self) -> None:
        """Closes both directions. What was written before can still be read at the other end."""
        if not self.closed:
            self._raw.close()
        super().close()

    # As a socket.

    def recv(self, size: int, /) -> bytes:
        """``read1``, as sockets call it."""
        return self.read1(size)

    def recv_into(self, buffer: Any, size: int = 0, /) -> int:
        """``readinto1``, as sockets call it."""
        view = memoryview(buffer).cast("B")
        return self.readinto1(view[:size] if size else view)

    def sendall(self, data: Any, /) -> None:
        """``write``, as sockets call it."""
        self.write(data)

    def send(self, data: Any, /) -> int:
        """``write``, as sockets call it: it never sends a part."""
        return self.write(data)

    def shutdown(self, how: int, /) -> None:
        """Ends one direction or both, as ``socket.shutdown``."""
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._raw.finish()
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            self._raw.close_reader()

    def makefile(
        self,
        mode: str = "r",
        buffering: int = -1,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """A file of this stream, as ``socket.makefile``. Closing it does not close the stream; flush what you write."""
        if not set(mode) <= set("rwb"):
            raise ValueError(f"mode is made of r, w and b; not {mode!r}")
        both = "r" in mode and "w" in mode
        kept = _Kept(self, readable="w" not in mode or both, writable="w" in mode)
        if "b" in mode and buffering == 0:
            return kept  # type: ignore[return-value]
        size = io.DEFAULT_BUFFER_SIZE if buffering < 0 else max(buffering, 1)
        buffered: Any
        if both:
            buffered = io.BufferedRWPair(kept, kept, size)
        elif "w" in mode:
            buffered = io.BufferedWriter(kept, size)
        else:
            buffered = io.BufferedReader(kept, size)
        if "b" in mode:
            return buffered  # type: ignore[no-any-return]
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)


class _Kept(io.RawIOBase):
    """A stream that is not closed with the file that is made of it."""

    def __init__(self, stream: Stream, *, readable: bool, writable: bool) -> None:
        self._stream, self._readable, self._writable = stream, readable, writable

    def readable(self) -> bool:
        return self._readable

    def writable(self) -> bool:
        return self._writable

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto1(buffer)

    def write(self, data: Any) -> int:
        return self._stream.write(data)
