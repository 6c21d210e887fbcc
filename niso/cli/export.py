"""`niso export RUN`: a trained model as programs, of which only map needs niso's code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from niso.cli.options import Command, ModelName, check_model
from niso.errors import InputError
from niso.files.paths import check_place


@dataclass(frozen=True)
class Options(Command):
    """Write the model of a finished run as programs for torch (pt2) or for ONNX runtimes, for batches of any size.

    encode takes observations, as floats in the units of those trained on, with the axis of channels, and gives
    coefficients (n, rank, channels); decode is the way back; map takes observations and transformed ones and gives maps
    (n, rank, rank); predict gives probabilities (n, classes), where the run trained a classifier. A line for each says
    what it takes and gives, which ONNX runtimes call x, a and probabilities. ONNX has no singular value decomposition,
    so that map is there as pt2 only; it is read after `import niso.linalg`.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso export photographs": "encode, decode and map as .pt2 in exported/",
        "niso export runs/mine --format onnx -o mine": "encode and decode for ONNX runtimes",
    }

    run: ModelName
    form: Annotated[Literal["pt2", "onnx"], tyro.conf.arg(name="format")] = "pt2"
    """Kind of file."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("exported")
    """Folder to write to."""

    def __post_init__(self) -> None:
        check_model(self.run)

    def __call__(self) -> None:
        from niso.export import export
        from niso.loading import load

        if (ending := self.out.suffix) in (".pt2", ".onnx"):
            form = f", and give --format {ending[1:]}" if ending[1:] != self.form else ""
            raise InputError(f"--out {self.out}: programs are written to a folder, leave out {ending}{form}")
        check_place(self.out, "--out")
        names = {path.stem for path in self.out.glob(f"*.{self.form}")}
        if names and not names <= {"decode", "map", "predict"}:  # these alone are of an export that was cut off
            raise InputError(f"{self.out} holds .{self.form} files already: choose another --out")
        for path, axes in export(load(self.run), self.out, self.form).items():
            print(f"{path}: {axes}")
