"""What commands have in common: how one is described and called, options that several take, and their checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from zipfile import BadZipFile, ZipFile

from tyro.conf import Positional, arg

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from niso.runs.cluster import Launcher


PARTLY = 3
"""Exit status where a part of the input was refused, or could not be read, and the rest was used."""


class Command(ABC):
    """Base of the options of a command, dataclasses whose docstrings are its help."""

    examples: ClassVar[dict[str, str]]
    """Calls, and what each does."""
    takes: ClassVar[str] = ""
    """The words of a call that stand for positional options; for the help of `main_settings` alone."""
    main_settings: ClassVar[dict[str, str]] = {}
    """Options that people change, and what they do, where `--help` is to show these alone and `--help-all` all."""

    @abstractmethod
    def __call__(self) -> int | None:
        """Do the work; the exit status, if not 0.

        Raises:
            NisoError: anything wrong with the call or its input, in one line.
        """

    def unread(self) -> dict[str, str]:
        """Options that others put out of force, and why."""
        return {}


RunFolders = Annotated[tuple[Path, ...], Positional, arg(metavar="RUN…", help_behavior_hint="(required)")]
"""Type of an option: the runs that a command works on."""


@dataclass(frozen=True)
class Runs(Command):
    """Base of the options of commands that take several runs."""

    runs: RunFolders
    """Run folders, or folders of them."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("name one or more run folders")
        for path in self.runs:
            check_run(path)


RunFolder = Annotated[Path, Positional, arg(metavar="RUN")]
"""Type of an option: the run folder that a command works on."""
ModelName = Annotated[
    str,
    Positional,
    arg(
        metavar="RUN",
        help="A finished run folder, a model that `Fitted.save` wrote, the name of one that comes with niso "
        "(`niso models`), or hf://owner/name.",
    ),
]
"""Type of an option: the trained model that a command uses, see `niso.load`."""

OBSERVED = (
    "Observations as the run was trained on: an array file (.npz, .safetensors or .h5 with x, or .npy), a picture, a "
    "video, or a folder of pictures, videos or prepared shapes."
)
"""Help of an option: what a trained model takes, see `niso.Fitted.read`."""


def check_run(path: Path) -> None:
    """Refuse a path where nothing is, before what takes seconds to import."""
    if path.exists():
        return
    from niso.hub import bundled

    if str(path) in bundled.names():
        raise ValueError(f"{path} is a model that comes with niso, not a run: `niso models {path}` says what it can do")
    raise ValueError(f"{path} is not a run folder: there is no such folder")


def check_model(name: str) -> None:
    """The same of a trained model, see `niso.load`."""
    from niso.hub import SCHEME, bundled

    names = bundled.names()
    if not (name.startswith(SCHEME) or name in names or Path(name).exists()):
        raise ValueError(f"{name} is neither a run folder nor a model of niso's{nearest(name, names)}")


def check_observed(run: str, out: Path, holds: str, *data: Path | None) -> None:
    """Refuse a model or observations that are not there, and a file to write that is no .npz file, is read, or is
    there without the array `holds` that the command writes: another's."""
    check_model(run)
    for path in data:
        if path is not None and not path.exists():
            raise ValueError(f"{path} does not exist: give an array file, a picture, a video, or a folder of either")
    if out.suffix != ".npz":
        raise ValueError(f"--out must name an .npz file, not {out}")
    if out.exists() and any(path is not None and out.samefile(path) for path in data):
        raise ValueError(f"--out {out} would overwrite what is read: choose another file")
    if out.is_file() and holds not in _arrays_of(out):
        raise ValueError(f"--out {out} is there, and is no file of this command: choose another, or remove it")


def _arrays_of(path: Path) -> list[str]:
    """Names of the arrays of an .npz file; none where it is damaged."""
    try:
        with ZipFile(path) as file:
            return [name.removesuffix(".npy") for name in file.namelist()]
    except BadZipFile:
        return []


def check_pictures(pictures: Iterable[Path], out: Path, *data: Path | None) -> None:
    """Refuse pictures to write beside `out` that are read, or would be by the next call, for they lie in a folder that
    is, or that are there while `out` is not: another's.

    Raises:
        InputError: one is.
    """
    read = [path.resolve() for path in data if path is not None]
    for picture in pictures:
        place = picture.resolve()
        if folder := next((path for path in read if path.is_dir() and path in place.parents), None):
            raise InputError(f"--out {out} would write pictures into {folder}, which is read: choose another folder")
        if picture.exists() and (not out.exists() or place in read):
            raise InputError(f"--out {out} would overwrite {picture}, which is there: choose another file")


def make_launcher(cluster: Literal["slurm", "local"] | None, job: Mapping[str, Any], parallel: int) -> Launcher | None:
    """The launcher that --launcher and --job ask for, if any.

    Raises:
        InputError: --job or --parallel beside which it has no effect.
    """
    if cluster is None:
        if job:
            raise InputError("--job has no effect, leave it out: it is for --launcher")
        return None
    if parallel > 1:
        raise InputError("--parallel has no effect, leave it out: with --launcher the cluster decides on that")
    from niso.runs.cluster import Launcher  # slow to import

    return Launcher(cluster, job)
