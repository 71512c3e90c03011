"""The programs in `docs/python.md`, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOON
from test_recording import path as recorded  # noqa: F401 (a fixture)

PAGE = (Path(__file__).parents[2] / "docs/python.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def program(text: str, place: Path) -> Path:
    """The program that contains a text, as a file."""
    found = [program for program in PROGRAMS if text in program]
    assert len(found) == 1, f"{len(found)} programs contain {text!r}"
    path = place / f"{abs(hash(text))}.py"
    # Tests run beside each other: each has a name of its own.
    path.write_text(found[0].replace('"echo"', f'"{place.name}"'))
    return path


def output_of(path: Path) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, path], cwd=path.parent, capture_output=True, text=True, timeout=SOON)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("the client has finished", "waits up to 5 s"),
        ("barewire.events(node)", "waits up to 5 s"),
        ("barewire.events(node)", "aio.Node()"),
        ("the client has finished", "connection.reserve"),
    ],
)
def test_servers_and_clients(server, client, tmp_path):
    command = [sys.executable, program(server, tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            expected = "150.0\n" if "reserve" in client else "b'hello'\n"
            assert output_of(program(client, tmp_path)) == expected
        finally:
            if "events" in server:
                running.kill()
        output, _ = running.communicate(timeout=SOON)
    assert output == "the client has finished\n" or "events" in server


def test_memory_and_models(tmp_path):
    assert output_of(program("aperture.view()", tmp_path)) == ""
    lines = output_of(program("lab.Simulation", tmp_path)).splitlines()
    assert lines[0] == "0 us: host 0 has 3" and lines[3] == "45 us: host 1 has 0"


def test_recordings(recorded):  # noqa: F811
    recorded.rename(recorded.parent / "run-000001-builder-00-000.evb")
    assert output_of(program("recording.columns", recorded.parent)).startswith("1 [8, 1]\n")


def test_the_laboratory_is_written_as_it_is(tmp_path):
    # What it does takes long without optimization, and test_lab.py does it with fewer values.
    compile(program("lab.reproduce", tmp_path).read_text(), "docs/python.md", "exec")
    assert len(PROGRAMS) == 9
