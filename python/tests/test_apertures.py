"""Apertures: copies, words, views in place, tripwires, bulk transfers."""

from __future__ import annotations

import gc

import numpy
import pytest
from conftest import SOON, Pair
from test_events import wanted

import barewire


def granted(pair: Pair, size: int = 4096, rights: str = "read-write"):
    aperture = pair.server.export(size, rights=rights)
    pair.accepted.grant(aperture, 7)
    cookie, far = pair.opened.import_aperture(SOON)
    assert cookie == 7 and far.rights == rights and len(far) == size
    return aperture, far


def test_copies_and_words(pair: Pair):
    aperture, far = granted(pair)
    far.put(100, b"stored by the peer")
    assert aperture.get(100, 18) == b"stored by the peer"
    aperture.put(0, numpy.arange(4, dtype="u8"))
    into = numpy.zeros(4, "u8")
    far.get_into(0, into)
    assert into.tolist() == [0, 1, 2, 3]
    far.store(8, 40)
    assert far.add(8, 2) == 40 and aperture.load(8) == 42
    assert far.compare_exchange(8, 1, 9) == 42 and aperture.load(8) == 42
    assert aperture.compare_exchange(8, 42, 9) == 42 and far.load(8) == 9
    for wrong in (lambda: far.load(4), lambda: far.get(4090, 10), lambda: far.put(5000, b"x")):
        with pytest.raises(barewire.errors.Access) as caught:
            wrong()
        assert caught.value.fault == "caller"


def test_views_are_of_the_memory_itself(pair: Pair):
    aperture, far = granted(pair)
    ours = numpy.frombuffer(aperture.view(), "f8")
    theirs = numpy.frombuffer(far.view(), "f8")
    ours[:] = numpy.arange(512)
    assert theirs[511] == 511.0
    theirs[0] = -1.5
    assert ours[0] == -1.5 and aperture.get(0, 8) == ours[0].tobytes()
    view = aperture.view()
    assert (view.format, view.nbytes, view.readonly) == ("B", 4096, False)


def test_read_only_is_read_only(pair: Pair):
    aperture, far = granted(pair, rights="read")
    aperture.put(0, b"look")
    view = far.view()
    assert view.readonly and bytes(view[:4]) == b"look"
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(ValueError):
        numpy.frombuffer(view, "u1")[0] = 1
    with pytest.raises(barewire.errors.Access):
        far.put(0, b"x")


def test_a_view_keeps_the_memory(pair: Pair):
    aperture, far = granted(pair)
    ours, theirs = numpy.frombuffer(aperture.view(), "u8"), numpy.frombuffer(far.view(), "u8")
    ours[3] = 33
    aperture.close()
    far.close()
    pair.opened.close()
    pair.accepted.close()
    pair.server.close()
    del aperture, far
    gc.collect()
    # Revoked: each side goes on with what it has.
    assert ours[3] == 33 and theirs[3] == 33
    ours[4] = 44
    assert ours[4] == 44 and theirs[4] == 0


def test_revoked(pair: Pair):
    aperture, far = granted(pair)
    aperture.put(0, b"kept")
    aperture.revoke()
    with pytest.raises(barewire.errors.Revoked):
        far.put(0, b"x")
    assert aperture.get(0, 4) == b"kept"
    aperture.close()
    aperture.close()
    with pytest.raises(barewire.errors.Closed):
        aperture.load(0)


def test_tripwires(pair: Pair):
    aperture, far = granted(pair)
    with aperture.tripwire(64, 8, cookie=5) as trap, aperture.tripwire(0, 4096, action="count") as counting:
        far.put(0, b"beside")
        far.store(64, 1)
        fired = wanted(pair.server, barewire.TripwireFired)
        assert (fired.cookie, fired.aperture) == (5, aperture.id)
        assert trap.is_armed and counting.count == 2
    with far.tripwire(0, 8, cookie=6, once=True) as trap:
        aperture.store(0, 1)
        fired = wanted(pair.client, barewire.TripwireFired)
        assert (fired.cookie, fired.aperture) == (6, far.id)
        assert not trap.is_armed
    with far.tripwire(0, 8, action="wake"):
        aperture.store(0, 2)
        assert pair.client.wait(timeout=SOON) == [] and far.load(0) == 2
    with pytest.raises(ValueError, match="action"):
        aperture.tripwire(0, 8, action="shout")


def test_bulk_transfers(pair: Pair):
    aperture, far = granted(pair, 1 << 20)
    far.bulk_put(0, b"b" * (1 << 20), 1)
    done = wanted(pair.client, barewire.Completion)
    assert (done.cookie, len(done.data), done.error) == (1, 1 << 20, None)
    far.bulk_get(5, 3, 2)
    match wanted(pair.client, barewire.Completion):
        case barewire.Completion(cookie, data, error):
            assert (cookie, data, error) == (2, b"bbb", None)
    assert aperture.get((1 << 20) - 1, 1) == b"b"


def test_granted_comes_as_an_event(pair: Pair):
    aperture = pair.server.export(8)
    pair.accepted.grant(aperture)
    event = wanted(pair.client, barewire.Granted)
    assert (event.id, event.cookie) == (pair.opened.id, 0)
    event.aperture.store(0, 1)
    with pytest.raises(barewire.errors.GrantedAlready):
        pair.accepted.grant(aperture)
