"""The laboratory: models of classic networks, and the published tables beside what the models give.

The same as the command ``barewire lab``, with results as objects::

    from barewire import lab

    result = lab.run("cbn-ping", ring={"line_rate": "800 Mbit/s"})
    print(result)                    # as the command shows it
    result.tables[0].rows            # lists of numbers and names
    result.dataframe()               # with pandas
    result.plot("rate")              # with matplotlib

Models of your own, in Python, are driven by the same event kernel: :class:`Simulation`.
"""

from __future__ import annotations

import csv
import io
import json
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from . import _native as native

if TYPE_CHECKING:
    import pandas

# A value of a key: a number, a text such as "30 us", a list.
Value = Union[bool, int, float, str, Sequence[Any]]
# Values of keys; a mapping within is a table: {"ring": {"line_rate": "512 Mbit/s"}}.
Settings = Mapping[str, Any]


def _toml(value: Value) -> str:
    """A value as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    return json.dumps(list(value))


def _flat(settings: Settings, before: str = "") -> list[tuple[str, str]]:
    """Keys with dots and their values."""
    flat: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat += _flat(value, f"{before}{key}.")
        else:
            flat.append((before + key, _toml(value)))
    return flat


def _changes(
    set: Optional[Settings], sections: Settings, seed: Optional[int], replications: Optional[int]
) -> list[tuple[str, str]]:
    changes = _flat(set or {}) + _flat(sections)
    numbers = {"seed": seed, "replications": replications}
    return changes + _flat({key: value for key, value in numbers.items() if value is not None})


@dataclass(frozen=True)
class Plan:
    """A built-in plan: what can be asked of the model of a system."""

    name: str
    system: str
    question: str


@dataclass(frozen=True)
class Table:
    """A table of a result: ``rows`` of numbers, names, and ``None`` where there is no value."""

    name: str
    columns: list[str]
    units: list[str]
    rows: list[list[Union[float, str, None]]]
    # How many columns, from the left, say what was varied.
    keys: int
    # With replications: half widths of the 95 % intervals, in the same places.
    half_widths: list[list[Optional[float]]] = field(default_factory=list)

    def __getitem__(self, column: str) -> list[Union[float, str, None]]:
        """A column by its name."""
        if column not in self.columns:
            raise KeyError(f"no column {column!r} in {self.name!r}; there are: {', '.join(self.columns)}")
        at = self.columns.index(column)
        return [row[at] for row in self.rows]

    def dataframe(self) -> pandas.DataFrame:
        """As a DataFrame; ``attrs["units"]`` has the units."""
        import pandas

        frame = pandas.DataFrame(self.rows, columns=self.columns)
        frame.attrs["units"] = dict(zip(self.columns, self.units))
        return frame

    def plot(self, *columns: str, ax: Any = None) -> Any:
        """Plots columns over the first one (by default all others that hold numbers), with matplotlib; the axes."""
        import matplotlib.pyplot

        numbers = [
            name for name in self.columns[1:] if not any(isinstance(value, str) for value in self[name])
        ]
        shown = list(columns) or numbers
        if ax is None:
            ax = matplotlib.pyplot.figure().add_subplot()
        for column in shown:
            unit = self.units[self.columns.index(column)] if column in self.columns else ""
            ax.plot(self[self.columns[0]], self[column], marker="o", label=f"{column}, {unit}" if unit else column)
        ax.set_xlabel(f"{self.columns[0]}, {self.units[0]}" if self.units[0] else self.columns[0])
        ax.set_title(self.name)
        ax.legend()
        return ax


class Result:
    """What came out of a plan or a sweep, with all that it came from."""

    def __init__(self, text: str, shown: str, capture: bytes = b"") -> None:
        # The whole result, as `result.json` of the command.
        self.dict: dict[str, Any] = json.loads(text)
        # What went over the links, as a file for Wireshark, if it was asked for.
        self.capture = capture
        self._shown = shown
        self.tables = [
            Table(
                name=table["name"],
                columns=[column["name"] for column in table["columns"]],
                units=[column["unit"] for column in table["columns"]],
                rows=table["rows"],
                keys=table["keys"],
                half_widths=table.get("half_widths", []),
            )
            for table in self.dict["tables"]
        ]

    def table(self, name: str) -> Table:
        """The table of this name, or the one whose name contains it."""
        found = [table for table in self.tables if table.name == name]
        found = found or [table for table in self.tables if name in table.name]
        if len(found) != 1:
            raise KeyError(f"{name!r} names {len(found)} of: {', '.join(table.name for table in self.tables)}")
        return found[0]

    def dataframe(self, table: Optional[str] = None) -> pandas.DataFrame:
        """A table as a DataFrame; without a name, the first."""
        return (self.table(table) if table else self.tables[0]).dataframe()

    def plot(self, *columns: str, table: Optional[str] = None, ax: Any = None) -> Any:
        """Plots a table; without a name, the first."""
        return (self.table(table) if table else self.tables[0]).plot(*columns, ax=ax)

    @property
    def plan(self) -> str:
        """The plan, whole: saved in a file and run, it gives the same."""
        return str(self.dict["resolved_plan"])

    @property
    def trace_hash(self) -> str:
        """A number over all events of all runs: two runs with the same one were the same."""
        return str(self.dict["trace_hash"])

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"<barewire.lab.Result of {self.dict['plan']}, {len(self.tables)} tables>"

    def _repr_html_(self) -> str:
        """In notebooks."""
        import html

        return f"<pre>{html.escape(self._shown)}</pre>"


def plans() -> list[Plan]:
    """The built-in plans."""
    return [Plan(*plan) for plan in native.lab_plans()]


def show(plan: str, *, set: Optional[Settings] = None, include: Sequence[str] = (), **sections: Any) -> str:
    """A plan, whole, as a file of TOML: all its inputs and parameters."""
    return native.lab_show(plan, _changes(set, sections, None, None), list(include))


def run(
    plan: str,
    *,
    set: Optional[Settings] = None,
    include: Sequence[str] = (),
    seed: Optional[int] = None,
    replications: Optional[int] = None,
    packets_per_link: int = 0,
    **sections: Any,
) -> Result:
    """Runs a plan: a built-in one, a file, or the folder of a result.

    Keys are changed by sections, ``ring={"line_rate": "512 Mbit/s"}``, or by ``set``, ``{"ring.line_rate": "512 Mbit/s"}``.
    ``include``: files or built-in fragments whose values come before these. With ``packets_per_link`` so many packets of
    each link are recorded: ``result.capture``.
    """
    changes = _changes(set, sections, seed, replications)
    return Result(*native.lab_run(plan, changes, list(include), packets_per_link))


def _over(over: Mapping[str, Union[str, Iterable[Value]]]) -> list[str]:
    """Axes as the command line takes them."""
    axes = []
    for key, values in over.items():
        text = values if isinstance(values, str) else ", ".join(_toml(value) for value in values)
        axes.append(f"{key}={text}")
    return axes


def sweep(
    plan: str,
    over: Mapping[str, Union[str, Iterable[Value]]],
    *,
    set: Optional[Settings] = None,
    include: Sequence[str] = (),
    seed: Optional[int] = None,
    replications: Optional[int] = None,
    **sections: Any,
) -> Result:
    """Runs a plan while keys take several values: ``over={"driver.wake": ["10 us", "20 us"]}``.

    Values may also be a text as for ``barewire lab sweep``: ``"10 us..50 us step 20 us"``. Of several keys every combination
    is run.
    """
    changes = _changes(set, sections, seed, replications)
    return Result(*native.lab_sweep(plan, _over(over), changes, list(include)))


def sweep_system(
    system: str,
    over: Mapping[str, Union[str, Iterable[Value]]],
    *,
    set: Optional[Settings] = None,
    seed: int = 1,
    only: Optional[str] = None,
) -> list[dict[str, str]]:
    """Runs the published tables of a system while parameters take several values: a dict for each quantity and point.

    ``only``: quantities whose table, row or name contains this.
    """
    text, _ = native.lab_sweep_system(system, _over(over), _flat(set or {}), seed, only)
    return list(csv.DictReader(io.StringIO(text)))


class Reproduction:
    """Published values beside the models'."""

    def __init__(self, text: str, shown: str, page: str) -> None:
        # A dict for each value: system, table, row, quantity, unit, published, model, error_pct, kind, verdict.
        self.values: list[dict[str, Any]] = json.loads(text)
        # A page with tables and plots that has all in itself.
        self.html = page
        self._shown = shown

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Values that are outside of their tolerance or missing."""
        return [value for value in self.values if value["verdict"] in ("outside", "missing")]

    def dataframe(self) -> pandas.DataFrame:
        """As a DataFrame."""
        import pandas

        return pandas.DataFrame(self.values)

    def __str__(self) -> str:
        return self._shown


def published() -> list[str]:
    """The systems of which something was published."""
    return native.lab_published()


def reproduce(*systems: str, set: Optional[Settings] = None, seed: int = 1) -> Reproduction:
    """Runs systems, by default all of ``published()``, and sets what they give beside what was published."""
    names = list(systems) or published()
    if set and len(names) != 1:
        raise ValueError("set changes parameters of one system: name it")
    return Reproduction(*native.lab_reproduce(names, _flat(set or {}), seed))


# Times of simulations are whole picoseconds.
ps = 1
ns = 1000 * ps
us = 1000 * ns
ms = 1000 * us
s = 1000 * ms


class Entity(Protocol):
    """A part of a model: a device, a host, a network."""

    def handle(self, now: int, input: Any) -> None:
        """Reacts to an input at a time in picoseconds."""


class Simulation:
    """Models in Python on the laboratory's event kernel.

    Each part of the model is an object with a method ``handle(now, input)``. It sends inputs to others, or to itself as a
    timer, with ``after``::

        class Host:
            def __init__(self, sim, peer=None):
                self.sim, self.peer, self.number = sim, peer, sim.add(self)

            def handle(self, now, input):
                if input > 0:
                    self.sim.after(15 * us, self.peer.number, input - 1)

    Inputs of one time come in the order of the parts, then in the order in which they were sent, so a run follows from the
    model and ``random`` alone. ``trace_hash`` tells whether two runs were the same; for it, inputs have a ``repr`` that says
    all that matters, and no address: numbers, texts, tuples, dataclasses. A model in Python takes about a microsecond an
    event, one in Rust a tenth of that.
    """

    def __init__(self, seed: int = 1) -> None:
        # Chance for models: the same seed gives the same numbers.
        self.random = random.Random(seed)
        self._kernel = native.Kernel()
        self._entities: list[Entity] = []
        self._stopped = False

    def add(self, entity: Entity) -> int:
        """Adds a part; its number, by which others send to it."""
        self._entities.append(entity)
        if len(self._entities) > 1 << 16:
            raise ValueError("a simulation has at most 65536 parts")
        return len(self._entities) - 1

    def after(self, delay: int, to: int, input: Any) -> int:
        """Lets a part have an input after a delay in picoseconds; a number to ``cancel`` it by."""
        if not 0 <= to < len(self._entities):
            raise ValueError(f"no part has the number {to}: there are {len(self._entities)}")
        if delay < 0:
            raise ValueError(f"a delay is 0 or more picoseconds, not {delay}")
        digest = zlib.crc32(repr(input).encode())
        return self._kernel.after(delay, to, input, digest)

    def cancel(self, number: int) -> bool:
        """Takes an input back; whether it was still to come."""
        return self._kernel.cancel(number)

    def stop(self) -> None:
        """Ends ``run`` after the input that is being handled."""
        self._stopped = True

    def run(self, until: Optional[int] = None) -> None:
        """Runs until nothing is to come, until a time, or until ``stop``."""
        self._stopped = False
        while not self._stopped:
            found = self._kernel.next(until)
            if found is None:
                return
            entity, input = found
            self._entities[entity].handle(self._kernel.now_ps, input)

    @property
    def now(self) -> int:
        """The time in picoseconds."""
        return self._kernel.now_ps

    @property
    def handled(self) -> int:
        """How many inputs were handled."""
        return self._kernel.fired

    @property
    def trace_hash(self) -> int:
        """A number over all that happened: when, to whom, and what."""
        return self._kernel.trace_hash
