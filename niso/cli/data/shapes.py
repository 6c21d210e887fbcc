"""`niso data shapes OUT`: closed meshes in classes."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import Command
from niso.config import require
from niso.data.shapes.family import write_family
from niso.errors import InputError, Interrupted, counted
from niso.files.paths import check_place, no_folder
from niso.messages import say
from niso.training.progress import Bar

FEWEST = 700
"""Vertices below which `niso data prepare shapes` refuses some shapes of the program's own classes, as tried: with so
few, maps of long limbs are off by more than its --tolerance."""


@dataclass(frozen=True)
class Options(Command):
    """Make closed meshes of genus 0, a folder of .off files for each class, as input of `niso data prepare shapes`."""

    examples: ClassVar[dict[str, str]] = {
        "niso data shapes family": "ten classes of its own",
        "niso data shapes family --originals meshes": "yours, each deformed into a class",
    }

    out: Annotated[Path, Positional, arg(metavar="OUT")]
    """Folder to write to."""
    originals: Path | None = None
    """Folder of meshes to deform, each into a class of its own; by default the program's own classes."""
    per_class: int = 14
    """Shapes of each class."""
    seed: int = 0
    """Seed of everything random."""
    vertices: int = 2000
    """Approximate number of vertices of each mesh; deformed meshes keep theirs. With fewer than 700 `niso data prepare
    shapes` refuses some of these shapes, unless its --tolerance is larger."""
    strength: float | None = None
    """Root mean square of the deformations' strain; by default 0.15 for the program's own classes, 0.4 for others."""

    def __post_init__(self) -> None:
        require(self, "seed")
        require(self, "per_class", positive=True)
        require(self, "vertices", least=100)
        require(self, "strength", most=1.0)

    def unread(self) -> dict[str, str]:
        """Options that others put out of force, and why."""
        return {} if self.originals is None else {"vertices": "the meshes of --originals keep theirs"}

    def __call__(self) -> None:
        if self.originals is not None and not self.originals.is_dir():
            raise InputError(f"--originals {self.originals} {no_folder(self.originals)}: give a folder of meshes")
        check_place(self.out, "OUT")
        with ExitStack() as shown:
            bar: Bar | None = None

            def report(done: int, total: int) -> None:
                nonlocal bar
                bar = bar or shown.enter_context(Bar("make", total, 0, visible=True, unit="shapes"))
                bar.show(done, {})

            try:
                made = self.per_class, self.seed, self.vertices, self.strength, report
                count = write_family(self.out, self.originals, *made)
            except KeyboardInterrupt:
                raise Interrupted("interrupted; the same command makes them anew", signal.SIGINT) from None
        print(f"{counted(count, 'shape')} in {self.out}")
        if self.originals is None and self.vertices < FEWEST:
            remedy = f"ask for {FEWEST} or more, or prepare them with a larger --tolerance"
            say(f"! of fewer than {FEWEST} vertices `niso data prepare shapes` refuses some of these shapes → {remedy}")
