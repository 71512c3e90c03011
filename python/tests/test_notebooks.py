"""The notebooks run from their beginning to their end."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit it"
    nbclient.NotebookClient(notebook, timeout=120).execute()
    last = notebook.cells[-1]
    assert last.outputs, "its last cell shows nothing"


def test_there_are_notebooks():
    assert NOTEBOOKS
