"""Executes examples/notebook.ipynb with a real kernel, and checks that plan, result and diagnosis show as tables.

Needs `pip install nbclient ipykernel` beside Batchwright. It takes 10 to 20 seconds: too long for a test.

    python benchmarks/notebook.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
SHOWN = {"plan": "<td", "train": "mean return", "doctor": "<p>"}
"""Text that the HTML of a cell must hold, by the cell's id."""


def main() -> int:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="batchwright-notebook-") as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    cells = {cell["id"]: cell for cell in notebook.cells}
    for name, text in SHOWN.items():
        pages = [output["data"].get("text/html", "") for output in cells[name].outputs if "data" in output]
        assert any(text in page for page in pages), f"the cell {name} shows no {text!r}: {cells[name].outputs}"
    errors = [
        output for cell in cells.values() for output in cell.get("outputs", []) if output["output_type"] == "error"
    ]
    assert not errors, errors
    print(f"{len(cells)} cells in {time.monotonic() - start:.1f} s; plan, result and diagnosis are HTML")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
