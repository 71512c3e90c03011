"""The laboratory: plans, sweeps, published tables, models in Python."""

from __future__ import annotations

import struct

import pytest

from barewire import lab

# A plan in little time: what is tested runs without optimization.
FEW = {"cells": [1, 2], "conditions": ["first"], "pings": 5}


def test_plans_are_listed_and_shown():
    names = {plan.name: plan for plan in lab.plans()}
    assert names["cbn-ping"].system == "cbn" and names["cbn-ping"].question
    text = lab.show("cbn-ping", driver={"wake": "31 us"})
    assert "31 us" in text and 'system = "cbn"' in text


def test_a_run_is_what_the_command_gives():
    usual = lab.run("cbn-ping", inputs=FEW)
    again = lab.run("cbn-ping", inputs=FEW)
    assert usual.trace_hash == again.trace_hash and usual.dict == again.dict
    assert usual.dict["system"] == "cbn" and usual.table(usual.tables[0].name) is usual.tables[0]
    faster = lab.run("cbn-ping", inputs=FEW, ring={"line_rate": "800 Mbit/s"}, seed=7)
    assert faster.dict["seed"] == 7
    changes = {change["key"]: change["value"] for change in faster.dict["changes"]}
    assert changes["parameters.ring.line_rate"] == '"800 Mbit/s"'
    same = lab.run("cbn-ping", set={"ring.line_rate": "800 Mbit/s"}, inputs=FEW, seed=7)
    assert same.trace_hash == faster.trace_hash
    table = faster.tables[0]
    frame = faster.dataframe()
    assert list(frame.columns) == table.columns and len(frame) == len(table.rows)
    assert frame.attrs["units"][table.columns[0]] == table.units[0]
    assert str(faster).startswith(faster.dict["title"] or faster.dict["plan"])
    assert "<pre>" in faster._repr_html_()


def test_a_result_can_be_run_again(tmp_path):
    path = tmp_path / "mine.toml"
    first = lab.run("cbn-ping", driver={"wake": "31 us"}, inputs=FEW, replications=2)
    path.write_text(first.plan)
    assert lab.run(str(path)).trace_hash == first.trace_hash
    assert first.tables[0].half_widths


def test_what_is_wrong_is_told():
    with pytest.raises(ValueError, match="no plan `cbn-pong`.*cbn-ping"):
        lab.run("cbn-pong")
    with pytest.raises(ValueError, match="line_rat"):
        lab.run("cbn-ping", ring={"line_rat": 5})
    with pytest.raises(KeyError, match="there are"):
        lab.run("cbn-ping", inputs=FEW).tables[0]["no such column"]


def test_a_sweep_has_a_row_for_each_point():
    by_list = lab.sweep("cbn-ping", {"driver.wake": ["10 us", "20 us", "30 us"]}, inputs=FEW)
    by_text = lab.sweep("cbn-ping", {"driver.wake": "10 us..30 us step 10 us"}, inputs=FEW)
    assert by_list.trace_hash == by_text.trace_hash
    table = by_list.tables[0]
    assert table.columns[0].endswith("driver.wake") and len(set(map(str, table[table.columns[0]]))) == 3
    values = lab.sweep_system("penn", {"clock.cycle": ["25 ns", "50 ns"]}, only="table-1")
    assert values and {value["value"] for value in values} == {"25 ns", "50 ns"}


def test_the_published_tables():
    assert "cbn" in lab.published()
    report = lab.reproduce("penn")
    assert report.values and not report.failures
    assert {"table", "row", "published", "model", "verdict"} <= set(report.dataframe().columns)
    assert "<html" in report.html and "within" in str(report)
    with pytest.raises(ValueError):
        lab.reproduce(set={"ring.line_rate": "1 Mbit/s"})
    with pytest.raises(ValueError, match="no system"):
        lab.reproduce("token-bus")


def test_links_are_captured():
    found = lab.run("cbn-ping", inputs=FEW, packets_per_link=10)
    assert struct.unpack("<I", found.capture[:4]) == (0x0A0D0D0A,)


class Queue:
    """A server with one queue: exponential times, as in any textbook."""

    def __init__(self, sim: lab.Simulation, arrivals: float, services: float, count: int) -> None:
        self.sim, self.number = sim, sim.add(self)
        self.arrivals, self.services, self.left = arrivals, services, count
        self.waiting: list[int] = []
        self.waited: list[int] = []
        sim.after(0, self.number, "arrival")

    def handle(self, now: int, input: str) -> None:
        if input == "arrival":
            self.waiting.append(now)
            self.left -= 1
            if self.left:
                self.later(self.arrivals, "arrival")
            if len(self.waiting) == 1:
                self.later(self.services, "done")
        else:
            self.waited.append(now - self.waiting.pop(0))
            if self.waiting:
                self.later(self.services, "done")

    def later(self, rate: float, input: str) -> None:
        self.sim.after(round(self.sim.random.expovariate(rate) * lab.us), self.number, input)


def test_a_model_in_python_has_its_known_answer():
    def one(seed: int) -> tuple[float, int]:
        sim = lab.Simulation(seed)
        queue = Queue(sim, arrivals=0.5, services=1.0, count=40_000)
        sim.run()
        assert sim.handled == 80_000
        return sum(queue.waited) / len(queue.waited) / lab.us, sim.trace_hash

    mean, trace_hash = one(1)
    # 1 / (service rate - arrival rate)
    assert mean == pytest.approx(2.0, rel=0.05)
    assert one(1) == (mean, trace_hash) and one(2)[1] != trace_hash


def test_time_order_cancel_and_stop():
    class Log:
        def __init__(self) -> None:
            self.seen: list[tuple[int, object]] = []

        def handle(self, now: int, input: object) -> None:
            self.seen.append((now, input))
            if input == "stop":
                sim.stop()

    sim = lab.Simulation()
    first, second = Log(), Log()
    one, two = sim.add(first), sim.add(second)
    sim.after(20 * lab.ns, two, "later")
    sim.after(10 * lab.ns, two, "b")
    sim.after(10 * lab.ns, one, "a")
    gone = sim.after(5 * lab.ns, one, "cancelled")
    assert sim.cancel(gone) and not sim.cancel(gone)
    sim.run(until=15 * lab.ns)
    assert (sim.now, first.seen, second.seen) == (15_000, [(10_000, "a")], [(10_000, "b")])
    sim.after(0, one, "stop")
    sim.run()
    assert sim.now == 15_000
    sim.run()
    assert second.seen[-1] == (20_000, "later")
    for wrong in (lambda: sim.after(-1, one, "x"), lambda: sim.after(1, 2, "x")):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(KeyError):
        sim.cancel(1000)

    class Broken:
        def handle(self, now: int, input: object) -> None:
            raise RuntimeError("in the model")

    sim.after(1, sim.add(Broken()), None)
    with pytest.raises(RuntimeError, match="in the model"):
        sim.run()
