"""Files of the event builder: recordings (``.evb``) and HDF5 files, event by event or as NumPy arrays.

::

    from barewire import recording

    with recording.open("run-000001-builder-00-000.evb") as events:
        for event in events:
            print(event.number, [len(fragment.data) for fragment in event.fragments])

    table, data = recording.columns("run-000001-builder-00-000.evb")      # NumPy
    samples = recording.matrix("run-000001-builder-00-000.evb", source=3, dtype="<u2")

Of a recording what is damaged is left out; ``damage`` says what that was. In an HDF5 file it is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native as native

if TYPE_CHECKING:
    import numpy

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Fragment:
    """What one source has of one event."""

    source: int
    # When the event was triggered, in ns on the clock of the run.
    at_ns: int
    data: bytes


@dataclass(frozen=True)
class Event:
    """What happened at one trigger."""

    number: int
    # Fragments that were missing when it was recorded.
    missing: int
    # Fragments that were recorded and are damaged in the file.
    damaged: int
    fragments: list[Fragment]


@dataclass(frozen=True)
class About:
    """What a file says of its run."""

    seed: int
    version: str
    # The configuration of the run, as TOML.
    config: str
    # When the file was made, and when the clock of the run was 0: ns since 1970.
    made_unix_ns: int
    clock_unix_ns: int


class Recording:
    """A file of events, read once from its beginning to its end: an iterator of :class:`Event`."""

    def __init__(self, path: Path) -> None:
        self._file: Optional[native.RecordingFile] = native.RecordingFile(os.fspath(path))

    def _open(self) -> native.RecordingFile:
        if self._file is None:
            raise ValueError("the recording is closed")
        return self._file

    @property
    def run(self) -> int:
        """The number of the run."""
        return self._open().run

    @property
    def builder(self) -> int:
        """The builder that wrote it."""
        return self._open().builder

    @property
    def about(self) -> Optional[About]:
        """What it says of its run; ``None`` in files of older versions."""
        about = self._open().about
        return None if about is None else About(*about)

    @property
    def damage(self) -> Optional[str]:
        """What was damaged in what was read so far, in words."""
        return self._open().damage

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self._open().next_event()
        if event is None:
            raise StopIteration
        number, missing, damaged, fragments = event
        return Event(number, missing, damaged, [Fragment(*fragment) for fragment in fragments])

    def close(self) -> None:
        """Closes the file."""
        self._file = None

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open(path: Path) -> Recording:
    """Opens a file of events."""
    return Recording(path)


def columns(path: Path, source: Optional[int] = None) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """All fragments of a file, of one source if that is given, as two NumPy arrays.

    The first has a row for each fragment: ``event``, ``source``, ``at_ns``, ``offset``, ``length``. The second has the bytes
    of all of them: those of row ``i`` are ``data[offset:offset + length]``.
    """
    import numpy

    *numbers, data = native.RecordingFile(os.fspath(path)).columns(source)
    names = ("event", "source", "at_ns", "offset", "length")
    types = ("u8", "u2", "u8", "u8", "u8")
    table = numpy.empty(len(numbers[0]) // 8, dtype=list(zip(names, types)))
    for name, type, column in zip(names, types, numbers):
        table[name] = numpy.frombuffer(column, type)
    return table, numpy.frombuffer(data, "u1")


def matrix(path: Path, source: int, dtype: Any) -> numpy.ndarray[Any, Any]:
    """The fragments of one source, all of one length, as an array with a row for each event."""
    import numpy

    table, data = columns(path, source)
    lengths = numpy.unique(table["length"])
    if len(lengths) > 1:
        raise ValueError(
            f"the fragments of source {source} have lengths from {lengths[0]} to {lengths[-1]} bytes: use columns()"
        )
    return data.view(dtype).reshape(len(table), -1) if len(table) else numpy.empty((0, 0), dtype)
