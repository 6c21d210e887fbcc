"""Pages that are notebooks: Markdown that Jupyter opens by jupytext, run from top to bottom.

A code cell's tags and settings stand behind its language, as jupytext writes them:

- `tags=["parameters"] small={"steps": 30}` sets values, and which of them a test takes instead;
- `alt="…"` says in words what the cell's picture shows.

Shell commands stand indented: jupytext would make cells of fenced ones.

Run: python -m tools.notebooks PAGE… prints what pages print, and their processor time; --small runs them as tests
do.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from niso.registry import Registry


@dataclass
class Cell:
    """A cell after it ran."""

    kind: str
    """"markdown" or "code"."""
    source: str
    alt: str = ""
    printed: str = ""
    """What it printed, and the value of its last expression."""
    pictures: list[bytes] = field(default_factory=list)
    """PNG files of the figures that it drew."""


def run(text: str, small: bool = False, execute: bool = True) -> Iterator[Cell]:
    """Run a page in the working directory, cell by cell. What it registers is forgotten after it.

    Args:
        text: of the page.
        small: take the small values of its parameters.
        execute: run its code; otherwise cells are as they stand.
    """
    names = vars(sys.modules.setdefault("notebook", ModuleType("notebook")))  # where registries find its classes
    names.clear()
    names.update(__name__="notebook", __builtins__=builtins)
    with _registries():
        for number, cell in enumerate(jupytext.reads(text, fmt="md").cells):
            shown = Cell(cell.cell_type, cell.source, cell.metadata.get("alt", ""))
            if cell.cell_type == "code" and execute:
                _run_cell(shown, f"<cell {number}>", names)
                names.update(cell.metadata.get("small", {}) if small else {})
            yield shown


@contextmanager
def _registries() -> Iterator[None]:
    try:
        yield
    finally:
        for registry in Registry.all:
            registry.reset()


def _run_cell(cell: Cell, name: str, names: dict[str, Any]) -> None:
    tree = ast.parse(cell.source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if isinstance(value, Figure):
                cell.pictures.append(_png(value))
            elif value is not None and not isinstance(value, Artist):
                print(value)
    cell.printed = out.getvalue().rstrip()
    cell.pictures += [_png(pyplot.figure(number)) for number in pyplot.get_fignums()]
    pyplot.close("all")


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, dpi=110, bbox_inches="tight")
    return file.getvalue()


if __name__ == "__main__":
    pages = [page for page in sys.argv[1:] if page != "--small"]
    for page in pages:
        began = time.process_time()
        for done in run(Path(page).read_text(encoding="utf-8"), small="--small" in sys.argv):
            if done.printed:
                print(done.printed)
        print(f"{page}: {time.process_time() - began:.1f} s")
