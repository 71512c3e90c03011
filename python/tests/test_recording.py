"""Files of events. They are written here by hand, as `crates/daq/src/record.rs` describes them."""

from __future__ import annotations

import struct

import numpy
import pytest

from barewire import recording


def crc32c(data: bytes) -> int:
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def checked(data: bytes) -> bytes:
    return data + struct.pack("<I", crc32c(data))


def fragment(event: int, source: int, at_ns: int, data: bytes) -> bytes:
    begin, end = struct.pack("<HH", source, event & 0xFFFF), struct.pack("<QQ", at_ns, len(data)) + data
    return begin + struct.pack("<I", crc32c(begin + end)) + end


def record(event: int, missing: int, fragments: list[bytes]) -> bytes:
    body = b"".join(fragments)
    head = b"EVNT" + struct.pack("<IQQI", missing, event, len(body), len(fragments))
    return checked(head) + body


def samples(event: int, source: int) -> bytes:
    return numpy.arange(event, event + 4, dtype="<u2").tobytes() if source == 3 else bytes(event)


@pytest.fixture
def path(tmp_path):
    head = checked(b"BWEVENT1" + struct.pack("<IH14x", 42, 5))
    events = [
        record(number, 1 if number == 3 else 0, [fragment(number, s, 1000 * number, samples(number, s)) for s in (3, 9)])
        for number in range(1, 6)
    ]
    path = tmp_path / "run-000042-builder-05-000.evb"
    path.write_bytes(head + b"".join(events))
    return path


def test_events_one_by_one(path):
    with recording.open(path) as events:
        assert (events.run, events.builder, events.about) == (42, 5, None)
        found = list(events)
        assert events.damage is None
    assert [event.number for event in found] == [1, 2, 3, 4, 5]
    assert [event.missing for event in found] == [0, 0, 1, 0, 0]
    third = found[2].fragments[0]
    assert (third.source, third.at_ns, third.data) == (3, 3000, samples(3, 3))
    with pytest.raises(ValueError, match="closed"):
        next(events)


def test_as_numpy_arrays(path):
    table, data = recording.columns(path)
    assert table["event"].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert table["source"].tolist() == [3, 9] * 5
    assert table["at_ns"].tolist() == [1000 * (number // 2 + 1) for number in range(10)]
    row = table[9]
    assert data[row["offset"] : row["offset"] + row["length"]].tobytes() == samples(5, 9)
    matrix = recording.matrix(path, 3, "<u2")
    assert matrix.tolist() == [list(range(number, number + 4)) for number in range(1, 6)]
    assert recording.matrix(path, 77, "u1").size == 0
    with pytest.raises(ValueError, match="use columns"):
        recording.matrix(path, 9, "u1")


def test_damage_is_left_out_and_told(path):
    content = bytearray(path.read_bytes())
    content[32 + 32 + 24] ^= 0xFF
    path.write_bytes(content)
    with recording.open(path) as events:
        found = list(events)
        assert (found[0].damaged, len(found[0].fragments), len(found)) == (1, 1, 5)
        assert events.damage is not None and "1" in events.damage


def test_what_is_no_file_of_events(tmp_path):
    with pytest.raises(FileNotFoundError):
        recording.open(tmp_path / "nothing.evb")
    other = tmp_path / "other.evb"
    other.write_bytes(bytes(1000))
    with pytest.raises(ValueError, match="no file of events"):
        recording.open(other)
