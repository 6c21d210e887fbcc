"""`niso find RUN GALLERY QUERIES`: observations that are found by transformed views of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import OBSERVED, Command, ModelName, check_observed, check_pictures
from niso.config import require
from niso.errors import InputError, counted, one_line
from niso.files.paths import check_place

if TYPE_CHECKING:
    from niso.data.pairs.observations import Observed
    from niso.fitted import Matches

PRINTED, MATCHES = 20, 5
"""Queries whose matches are printed, and how many of these."""
DRAWN, ACROSS = 12, 8
"""Queries whose matches are drawn, and how many of these."""


@dataclass(frozen=True)
class Options(Command):
    """Find the observations of a gallery that transformations take nearest to each query, by the model of a finished
    run.

    They are compared by invariants, which T does not change, and the nearest then by the best map to the query. The
    .npz file holds `rows` (n, count) of the gallery, nearest first, `similarity` (n, count), at most 1, and
    `names` and `gallery_names` of pictures. Of pictures, a PNG file beside it shows queries and what was found.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso find photographs pictures warped": "pictures by warped ones; found.npz and found.png",
        "niso find runs/mine x.npz tx.npz --count 1": "the nearest alone",
    }

    run: ModelName
    gallery: Annotated[Path, Positional, arg(metavar="GALLERY", help=OBSERVED)]
    queries: Annotated[Path, Positional, arg(metavar="QUERIES")]
    """What to find the nearest of; of one file with x and tx that is given twice, tx."""
    count: int = 5
    """How many to find for each query."""
    candidates: int = 20
    """How many, nearest by invariants, are compared by maps; more miss fewer where the gallery is large."""
    out: Annotated[Path, arg(aliases=["-o"])] = Path("found.npz")
    """The .npz file to write."""

    def __post_init__(self) -> None:
        require(self, "count", "candidates", least=1)
        check_observed(self.run, self.out, "rows", self.gallery, self.queries)

    def __call__(self) -> None:
        import numpy as np

        from niso.data.pairs.observations import view_beside
        from niso.files.writing import write_arrays
        from niso.loading import load
        from niso.training.progress import stage

        check_place(self.out, "--out", file=True)
        fitted = load(self.run)
        if not fitted.method.has_invariants:
            raise InputError(f"{self.run} was trained by {fitted.settings.method}, which has no invariants to find by")
        gallery = fitted.read(self.gallery)
        if len(gallery.values) < 2:
            raise InputError(f"{self.gallery} holds one observation: give two or more, of which to find the nearest")
        queries = fitted.read(self.queries, view_beside(self.gallery, self.queries))
        count = min(self.count, len(gallery.values))
        with stage("comparing"):
            found = fitted.find(queries.values, gallery.values, count, self.candidates)
        drawn = bool(queries.names and gallery.names) and fitted.units.bytes  # else they are maps of shapes
        picture = self.out.with_suffix(".png")
        if drawn:
            check_pictures([picture], self.out, self.gallery, self.queries)
            picture.unlink(missing_ok=True)  # else a kill would leave that of an earlier call beside these numbers
        names = {"names": queries.names, "gallery_names": gallery.names}
        write_arrays(self.out, found._asdict() | {key: np.array(of) for key, of in names.items() if of})
        _print(queries, gallery, found)
        looked = f"{counted(len(queries.values), 'query', 'queries')} among {len(gallery.values):,} observations"
        print(f"{looked} in {self.out}")
        if drawn:
            _draw(queries, gallery, found, picture)
            print(picture)


def _print(queries: Observed, gallery: Observed, found: Matches) -> None:
    """The first queries and what is nearest to each, with its similarity."""
    for query, (rows, similarity) in enumerate(zip(found.rows[:PRINTED, :MATCHES], found.similarity, strict=False)):
        of = [one_line(gallery.names[row]) if gallery.names else row for row in rows]
        print(
            f"{one_line(queries.names[query]) if queries.names else query}:",
            ", ".join(f"{name} ({value:.3f})" for name, value in zip(of, similarity[:MATCHES], strict=True)),
        )
    if len(found.rows) > PRINTED:
        print(f"… and {len(found.rows) - PRINTED:,} more")


def _draw(queries: Observed, gallery: Observed, found: Matches, path: Path) -> None:
    """Queries, and in each row what was found."""
    import numpy as np

    from niso.figures import image_rows  # matplotlib is slow to import
    from niso.files.writing import write_atomically
    from niso.report.pictures import as_png

    lines = []
    for query, rows in enumerate(found.rows[:DRAWN, :ACROSS]):
        pictures = np.concatenate([queries.values[query : query + 1], gallery.values[rows]]).transpose(0, 2, 3, 1)
        colours = np.broadcast_to(pictures, (*pictures.shape[:3], 3)) / np.float32(255)
        lines.append((one_line(queries.names[query]), colours))
    with warnings.catch_warnings():
        # names of files may be in scripts that matplotlib's font lacks: a box stands for each letter
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        content = as_png(image_rows(lines))
    write_atomically(path, content)
