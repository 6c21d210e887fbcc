"""`niso data shapes` and `niso data prepare shapes`: closed meshes, and their signatures on the sphere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from niso.cli.data.progress import list_refused, with_bar
from niso.cli.parsing import parse
from niso.data.shapes.family import write_family
from niso.data.shapes.folder import prepare_folder
from niso.data.shapes.preparation import Preparation
from niso.data.shapes.sources import find_sources
from niso.data.workers import cores


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
    workers: int = field(default_factory=cores)
    """Processes; by default as many as there are cores."""
    preparation: Annotated[Preparation, tyro.conf.arg(name="")] = field(default_factory=Preparation)


def make(arguments: list[str]) -> int:
    """`niso data shapes …`: the exit status."""
    options = parse(MakeShapes, "niso data shapes", arguments)
    count = write_family(
        options.out, options.originals, options.per_class, options.seed, options.vertices, options.strength
    )
    print(f"{count} shapes in {options.out}")
    return 0


def prepare(arguments: list[str]) -> int:
    """`niso data prepare shapes …`: the exit status."""
    options = parse(PrepareShapes, "niso data prepare shapes", arguments)
    sources = find_sources(options.source, options.labels, options.leave_out)
    outcome = with_bar(
        lambda report: prepare_folder(sources, options.out, options.preparation, options.workers, report),
        len(sources),
        "shapes",
    )
    return list_refused("shapes", options.out, outcome.prepared, outcome.kept, outcome.refused)
