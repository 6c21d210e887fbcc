"""Which reader a path is for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from niso.data.pairs import READERS
from niso.data.pairs.reader import Reader
from niso.data.pairs.reading import Reading
from niso.data.pictures import EXTENSIONS as PICTURES
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.errors import InputError, some_of
from niso.files.search import files_below


def find_reader(path: Path, reading: Reading) -> type[Reader]:
    """The reader of a path.

    Raises:
        InputError: there is no such path, or nothing that is read.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist: give --data, or to a run in its config.yaml, {choices()}")
    if not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} is a device, a pipe or a socket, not a file or folder: give --data {choices()}")
    for reader in READERS.found().values():
        if reader.fits(path, reading):
            return reader
    if path.suffix.lower() in PICTURES:
        kinds = "a folder of pictures, with --transform, or of clips (videos, or a folder of frames each)"
        raise InputError(f"{path} is one picture: give {kinds}")
    if path.is_file() and path.suffix.lower() not in VIDEOS:
        problem = f"{path} is not a file that is read: save its arrays by numpy.savez('pairs.npz', x=…, tx=…)"
        raise InputError(f"{problem}, or give --data {choices()}")
    if path.is_dir() and (videos := files_below(path, VIDEOS)):
        if reading.transform is not None:
            raise InputError(f"{path} holds videos, whose frames are paired without --transform: leave it out")
        raise InputError(f"{videos[0]} lies too deep: videos are looked for down to CATEGORY/NAME in DATA")
    read = f"pictures are read of {' '.join(sorted(PICTURES))}, videos of {' '.join(sorted(VIDEOS))}"
    raise InputError(f"{path} holds nothing that can be paired ({_endings(path)}; {read}): give --data {choices()}")


def _endings(path: Path) -> str:
    """The most frequent endings of the files of a folder, and how many have each."""
    files = path.rglob("*") if path.is_dir() else [path]
    found = Counter(file.suffix.lower() or "without ending" for file in files if file.is_file())
    return "there are " + some_of([f"{count:,} {suffix}" for suffix, count in found.most_common()] or ["no files"])


def choices() -> str:
    """What DATA can be, in words."""
    kinds = list(READERS.found().values())
    return "; ".join(kind.takes for kind in kinds[:-1]) + f"; or {kinds[-1].takes}"
