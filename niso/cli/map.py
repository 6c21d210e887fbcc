"""`niso map RUN A B`: the isometry between observations, and how another observation looks transformed by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import OBSERVED, Command, ModelName, check_observed, check_pictures
from niso.errors import InputError, counted, one_line
from niso.files.paths import check_place


@dataclass(frozen=True)
class Options(Command):
    """Solve for the map τ from A to B, by the model of a finished run, and apply it to C.

    The .npz file holds `tau` (n, rank, rank), a map for each pair or one for all, the `eigenvalues` of the operator
    where there is one, `error` (n,), ‖τa − b‖² / ‖b‖², and `applied`, C as it would look transformed. Pictures of C are
    also written as PNG files beside it. `names` and `applied_names` are those of the pictures of A and C.

    Arrays go together row by row; folders of pictures by their names without extension, which must be the same in both.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso map photographs a.png b.png --apply c.png": "map.npz, and c transformed: map-c.png",
        "niso map runs/mine x.npz tx.npz -o maps.npz": "a map for each pair",
    }

    run: ModelName
    first: Annotated[Path, Positional, arg(metavar="A", help=OBSERVED)]
    second: Annotated[Path, Positional, arg(metavar="B")]
    """The same transformed, as many; of one file with x and tx that is given twice, tx."""
    apply: Path | None = None
    """C, observations to transform: any number with a single map or a shared one, or one for each map, in a folder with
    the names of A's."""
    shared: bool = False
    """One map for all pairs, which share one T, solved from all of them together."""
    out: Annotated[Path, arg(aliases=["-o"])] = Path("map.npz")
    """The .npz file to write."""

    def __post_init__(self) -> None:
        check_observed(self.run, self.out, "tau", self.first, self.second, self.apply)

    def __call__(self) -> None:
        import numpy as np
        import torch

        from niso.data.pairs.observations import matched, picture_paths, view_beside, write_pictures
        from niso.files.writing import write_arrays
        from niso.loading import load
        from niso.metrics import equivariance_error

        check_place(self.out, "--out", file=True)
        fitted = load(self.run)
        if not fitted.method.has_maps:
            raise InputError(f"{self.run} was trained by {fitted.settings.method}, which has no maps")
        x, tx = fitted.read(self.first), fitted.read(self.second, view_beside(self.first, self.second))
        other = None if self.apply is None else fitted.read(self.apply)
        if self.apply is None or other is None or self.shared or len(x.values) == 1:
            x, tx = matched((self.first, x), (self.second, tx))
        else:
            x, tx, other = matched((self.first, x), (self.second, tx), (self.apply, other))
        if len(x.values) != len(tx.values):
            numbers = f"{counted(len(x.values), 'observation')} and {self.second} {len(tx.values)}"
            raise InputError(f"{self.first} has {numbers}: give as many of both")
        if other is not None and not self.shared and len(x.values) not in (1, len(other.values)):
            raise InputError(
                f"{self.apply} has {counted(len(other.values), 'observation')} for {len(x.values)} maps: give one for "
                "each, a single pair A and B, or --shared"
            )
        drawn = other is not None and fitted.units.bytes  # other names are those of maps of shapes
        pictures = picture_paths(self.out.with_suffix(""), other.names) if other is not None and drawn else []
        check_pictures(pictures, self.out, self.first, self.second, self.apply)
        a, b = fitted.encode(x.values), fitted.encode(tx.values)
        tau = fitted.solve(a, b, self.shared)
        error = equivariance_error(torch.from_numpy(a), torch.from_numpy(b), tau=torch.from_numpy(tau)).numpy()
        arrays = {"tau": tau, "error": error}
        if (spectrum := fitted.spectrum) is not None:
            arrays["eigenvalues"] = spectrum.eigenvalues.numpy()
        if other is not None:
            arrays["applied"] = fitted.transport(other.values, tau)
        for key, names in (("names", x.names), ("applied_names", other.names if other is not None else ())):
            if names:
                arrays[key] = np.array(names)
        for picture in pictures:  # else a kill would leave those of an earlier call beside these numbers
            picture.unlink(missing_ok=True)
        write_arrays(self.out, arrays)
        size = "×".join(map(str, tau.shape[1:]))
        print(f"{counted(len(tau), 'map')} of {size} in {self.out}; ‖τa − b‖² / ‖b‖² is {error.mean():.3g}")
        if pictures:
            write_pictures(pictures, arrays["applied"])
            print(*(one_line(str(picture)) for picture in pictures), sep="\n")
