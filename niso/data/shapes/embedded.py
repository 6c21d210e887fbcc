"""The embedded shapes: made and prepared on first use, then kept in the user's cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from niso.cache import cached, caching
from niso.data.prepared import REFUSED, Report, read_json
from niso.data.shapes.family import PLANS, write_family
from niso.data.shapes.preparation import Preparation, prepare_folder
from niso.data.shapes.prepared import FORMAT, PreparedShapes, open_shapes, prepared_names
from niso.data.shapes.sources import find_sources
from niso.files.digests import digest
from niso.files.search import files_below

_VERSION = 5  # raise it when a change of the code changes shapes or maps
_SEED = 0


KIND = "shapes"
"""Their folder of the cache."""


def embedded_shapes(
    preparation: Preparation, per_class: int, vertices: int, workers: int, report: Report, made: Callable[[int], None]
) -> PreparedShapes:
    """The embedded classes, prepared.

    The cache holds one preparation for each set of arguments; an interrupted one is resumed. If several processes ask
    for the same shapes, one prepares them and the others wait.

    Args:
        per_class: shapes of each class.
        vertices: of each shape, about.
        workers: number of processes.
        report: called after each shape that is prepared.
        made: called with the number of meshes made so far, of those that are prepared then; at first with 0; not where
            they are there.

    Raises:
        InputError: the cache cannot be written to.
    """
    recipe = repr((_VERSION, FORMAT, PLANS, preparation, per_class, vertices, _SEED))
    folder = cached(KIND) / digest(recipe.encode())
    meshes, prepared, count = folder / "meshes", folder / "prepared", per_class * len(PLANS)
    if not _complete(prepared, count):
        with caching(folder):
            if not _complete(prepared, count):
                if len(files_below(meshes, [".off"])) < count:
                    shutil.rmtree(meshes, ignore_errors=True)
                    made(0)
                    write_family(
                        meshes, per_class=per_class, seed=_SEED, vertices=vertices, report=lambda done, _: made(done)
                    )
                prepare_folder(find_sources(meshes), prepared, preparation, workers, report)
    return open_shapes(prepared)


def _complete(prepared: Path, count: int) -> bool:
    """Whether so many shapes were prepared or refused, and none was removed since, e.g. a damaged one."""
    ended = (prepared / REFUSED).is_file()
    return ended and len(prepared_names(prepared)) + len(read_json(prepared / REFUSED)) == count
