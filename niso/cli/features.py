"""`niso features RUN DATA`: what a trained model makes of observations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import OBSERVED, Command, ModelName, check_observed
from niso.errors import counted
from niso.files.paths import check_place


@dataclass(frozen=True)
class Options(Command):
    """Write what the model of a finished run makes of observations to an .npz file.

    It holds `coefficients` (n, rank, channels) and, where maps are isometries, `invariants` (n, features), which
    isometries do not change; `eigenvalues` of the operator; `names` of pictures, and of frames, CLIP/NUMBER; `label`,
    where DATA has it or is pictures, videos or prepared shapes in folders of classes.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso features photographs pictures": "a folder of pictures, by a model that comes with niso",
        "niso features runs/mine x.npz -o mine.npz": "an array file, by a run",
    }

    run: ModelName
    data: Annotated[Path, Positional, arg(metavar="DATA", help=OBSERVED)]
    out: Annotated[Path, arg(aliases=["-o"])] = Path("features.npz")
    """The .npz file to write."""

    def __post_init__(self) -> None:
        check_observed(self.run, self.out, "coefficients", self.data)

    def __call__(self) -> None:
        from niso.files.writing import write_arrays
        from niso.loading import load

        check_place(self.out, "--out", file=True)
        fitted = load(self.run)
        arrays = fitted.features(fitted.read(self.data))
        write_arrays(self.out, arrays)
        shapes = ", ".join(f"{name} {'×'.join(map(str, values.shape))}" for name, values in arrays.items())
        print(f"{counted(len(arrays['coefficients']), 'observation')} in {self.out}: {shapes}")
