"""`niso data …`: make shapes, and prepare shapes for experiments."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from niso.cli_options import first_message
from niso.data.shape_preparation import Preparation
from niso.errors import InputError, Interrupted, nearest

C = TypeVar("C")

HELP = """usage: niso data COMMAND …

commands:
  shapes OUT [options]               make classes of closed meshes, or deform given ones (--originals) into classes
  prepare shapes IN OUT [options]    map closed meshes and conformal variants to the sphere, for `niso run shapes`

`niso data COMMAND --help` lists the options. Exit status: 0 all is done, 2 wrong call or bad input, 3 some shapes were
refused (the others are prepared)."""

REFUSED_STATUS = 3


@dataclass(frozen=True)
class MakeShapes:
    """Make closed meshes of genus 0 in a folder for each class, as .off files, to be given to `niso data prepare`."""

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder to write to."""
    originals: Path | None = None
    """Folder of meshes to be deformed, each into a class of its own; by default the program's own classes."""
    per_class: int = 14
    """Shapes of each class."""
    seed: int = 0
    """Of all that is random."""
    vertices: int = 2000
    """Of each mesh, about; deformed meshes keep theirs."""
    strength: float | None = None
    """Root mean square of the deformations' strain; by default 0.15 for the program's own classes, 0.4 for others."""

    def __post_init__(self) -> None:
        if self.per_class < 1 or self.vertices < 100 or not 0 <= (self.strength or 0) <= 1:
            raise ValueError("--per-class must be at least 1, --vertices at least 100, --strength between 0 and 1")


@dataclass(frozen=True)
class PrepareShapes:
    """Prepare shapes: signatures of closed meshes of genus 0 and of their conformal variants, on the sphere.

    Interrupted at any moment, the same command goes on. Shapes that have to be refused are listed, and in
    OUT/refused.json; the exit status is 3 then.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")]
    """Folder with a folder of .off, .obj or .ply files for each class; or a CSV file with the header "file,label"; or
    the folder of Conformal SHREC'11 (with base, mobius, base_sphere and mobius_sphere)."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder to write to."""
    labels: Path | None = None
    """CSV file with the header "file,label", for meshes that are in no class folders; files relative to IN, or to
    IN/base."""
    leave_out: tuple[str, ...] = ()
    """Classes to leave out. Conformal SHREC'11: glasses lamp snake two_balls myScissor."""
    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """Processes; by default as many as there are cores."""
    preparation: Annotated[Preparation, tyro.conf.arg(name="")] = field(default_factory=Preparation)


def main(arguments: list[str]) -> int:
    """`niso data …`: the exit status.

    Raises:
        InputError: anything wrong with the call or the data, in one line.
        Interrupted: Ctrl-C.
    """
    commands = {("shapes",): _make_shapes, ("prepare", "shapes"): _prepare_shapes}
    words = tuple(word for word in arguments[:2] if not word.startswith("-"))
    for name, command in commands.items():
        if words[: len(name)] == name:
            return command(arguments[len(name) :])
    if not arguments or {"-h", "--help"} & set(arguments):
        print(HELP, file=None if arguments else sys.stderr)
        return 0 if arguments else 2
    known = [" ".join(name) for name in commands]
    raise InputError(f"unknown command `niso data {' '.join(words)}`{nearest(' '.join(words), known)}")


def _make_shapes(arguments: list[str]) -> int:
    from niso.data.shape_family import write_family

    options = _parse(MakeShapes, "niso data shapes", arguments)
    count = write_family(
        options.out, options.originals, options.per_class, options.seed, options.vertices, options.strength
    )
    print(f"{count} shapes in {options.out}")
    return 0


def _prepare_shapes(arguments: list[str]) -> int:
    from niso.data.prepared import AGAIN
    from niso.data.shape_folder import prepare_folder
    from niso.data.shape_sources import find_sources
    from niso.progress import Bar

    options = _parse(PrepareShapes, "niso data prepare shapes", arguments)
    sources = find_sources(options.source, options.labels, options.leave_out)
    counts = {"done": 0, "refused": 0}
    bar = Bar("prepare", len(sources), 0, visible=True, unit="shapes")

    def report(name: str, problem: str | None) -> None:
        counts["done"] += 1
        counts["refused"] += problem is not None
        bar.show(counts["done"], {"refused": float(counts["refused"])})

    try:
        with bar:
            outcome = prepare_folder(sources, options.out, options.preparation, options.workers, report)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {AGAIN}", signal.SIGINT) from None
    for name, problem in outcome.refused.items():
        print(f"refused {name}: {problem}", file=sys.stderr)
    kept = f", {outcome.kept} were there" if outcome.kept else ""
    print(f"{outcome.prepared} shapes prepared in {options.out}{kept}, {len(outcome.refused)} refused")
    return REFUSED_STATUS if outcome.refused else 0


def _parse(kind: type[C], program: str, arguments: list[str]) -> C:
    problem = io.StringIO()
    try:
        with contextlib.redirect_stderr(problem):
            return tyro.cli(kind, args=arguments, prog=program)
    except ValueError as error:  # from a dataclass's own checks
        raise InputError(str(error)) from error
    except SystemExit as stop:
        if not stop.code:
            raise
        message = re.split(r" (?:Argument|For full) helptext", first_message(problem.getvalue()))[0]
        raise InputError(f"{message.rstrip('.')}; see `{program} --help`") from stop
