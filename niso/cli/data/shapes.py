"""`niso data shapes OUT`: closed meshes in classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from niso.data.shapes.family import write_family


@dataclass(frozen=True)
class Options:
    """Make closed meshes of genus 0, a folder of .off files for each class, as input of `niso data prepare shapes`."""

    out: Annotated[Path, Positional, arg(metavar="OUT")]
    """Folder to write to."""
    originals: Path | None = None
    """Folder of meshes to deform, each into a class of its own; by default the program's own classes."""
    per_class: int = 14
    """Shapes of each class."""
    seed: int = 0
    """Seed of everything random."""
    vertices: int = 2000
    """Approximate number of vertices of each mesh; deformed meshes keep theirs."""
    strength: float | None = None
    """Root mean square of the deformations' strain; by default 0.15 for the program's own classes, 0.4 for others."""

    def __post_init__(self) -> None:
        if self.per_class < 1 or self.vertices < 100 or not 0 <= (self.strength or 0) <= 1:
            raise ValueError("--per-class must be at least 1, --vertices at least 100, --strength between 0 and 1")

    def __call__(self) -> None:
        count = write_family(self.out, self.originals, self.per_class, self.seed, self.vertices, self.strength)
        print(f"{count} shapes in {self.out}")
