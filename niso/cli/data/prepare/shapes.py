"""`niso data prepare shapes IN OUT`: signatures of closed meshes on the sphere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.data.prepare.common import Preparing
from niso.data.shapes import summary
from niso.data.shapes.preparation import Preparation, prepare_folder
from niso.data.shapes.sources import find_sources


@dataclass(frozen=True, kw_only=True)
class Options(Preparing):
    """Prepare shapes: signatures of closed meshes of genus 0 and of their conformal variants, on the sphere.

    After an interruption, the same command continues. Shapes that have to be refused are listed, and written to
    OUT/refused.json; the exit status is then 3. A line for each shape says how good its map is, and what the grid keeps
    of its signature; a table at the end says so for each class.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso data prepare shapes meshes prepared": "a folder of meshes for each class",
        "niso data prepare shapes meshes prepared --height 24 --width 48 --maps shared": "coarse and quick",
    }
    takes: ClassVar[str] = "IN OUT"
    main_settings: ClassVar[dict[str, str]] = {
        "leave-out": "classes to leave out",
        "labels": "CSV file with the header file,label, for meshes without class folders",
        "height": "rows of the grid, 96; with --width 192",
        "variants": "conformal variants of each shape, 30",
        "eigenpairs": "of the Laplacian in the signature, 128",
        "times": "times of the heat kernel signature, 16",
        "maps": "own: a flow for each variant; shared: one for the shape, 30 times faster",
        "tolerance": "largest error of a map, relative to the sphere's radius, 0.02; worse are refused",
        "workers": "processes; one for each core",
        "seed": "of the variants, 0",
    }

    source: Annotated[Path, Positional, arg(metavar="IN")]
    """Folder with a folder of .off, .obj, .ply or .stl files for each class; a CSV file with the header "file,label";
    or the folder of Conformal SHREC'11 (with base, mobius, base_sphere and mobius_sphere)."""
    labels: Path | None = None
    """CSV file with the header "file,label", for meshes without class folders; files relative to IN, or to IN/base."""
    leave_out: Annotated[tuple[str, ...], arg(metavar="CLASS…", help_behavior_hint="(default: none)")] = ()
    """Classes to leave out. Conformal SHREC'11: glasses lamp snake two_balls myScissor."""
    preparation: Annotated[Preparation, arg(name="")] = field(default_factory=Preparation)

    def __call__(self) -> int:
        sources = find_sources(self.source, self.labels, self.leave_out)
        work = partial(prepare_folder, sources, self.out, self.preparation, self.workers)
        status = self.prepare_all(work, len(sources), "shapes", lambda name: summary.line(self.out, name))
        for line in summary.table(self.out):
            print(line)
        return status
