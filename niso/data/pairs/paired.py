"""A folder with a/ and b/ (and c/): pictures of the same names are ψ, Tψ (and T²ψ)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from unicodedata import normalize

from niso.data.pairs.reader import Reader
from niso.data.pairs.reading import Reading
from niso.data.pairs.squares import check_memory, read_pictures
from niso.data.pairs.table import FEWEST, VIEWS, Table
from niso.data.pictures import about_pictures, pictures_in
from niso.errors import InputError
from niso.files.digests import digest_of_files

_FOLDERS = dict(zip("abc", VIEWS, strict=True))


class PairedReader(Reader):
    """Pictures in folders a, b and perhaps c, or A, B, C; names are compared without their extensions."""

    takes = "a folder with a/ and b/, pictures of the same names"
    reads = frozenset({"size"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        folders = _folders(path) if path.is_dir() else {}
        if not {"a", "b"} <= folders.keys():
            return False
        others = (other for other in sorted(path.iterdir()) if other not in folders.values() and other.name[0] != ".")
        other = next((folder for folder in others if folder.is_dir() and pictures_in(folder)), None)
        if other is None or reading.transform:
            return other is None
        if _pictures(folders["a"]).keys() == _pictures(folders["b"]).keys():
            raise InputError(
                f"{path} holds a/ and b/ with pictures of the same names, and {other.name}/: for pairs leave a/ and b/ "
                "(and c/) alone there; for classes give --transform; give clips other names than a and b"
            )
        return False

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        return {_FOLDERS[folder] for folder in _folders(path)}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        folders = _folders(path)
        files = {name: _pictures(folder) for name, folder in folders.items()}
        check_same_names(files, f"{path}: ")
        first = files["a"]
        if len(first) < FEWEST:
            raise InputError(f"{path} holds {len(first)} pairs of pictures: at least {FEWEST} are needed")
        check_memory("pictures", len(first) * len(folders), size, reading.memory)
        views = {
            _FOLDERS[name]: read_pictures([folder / files[name][stem] for stem in first], size)
            for name, folder in folders.items()
        }
        word = digest_of_files([folders[name] / file for name, named in files.items() for file in named.values()], path)
        return Table(str(path), "images", views, note=about_pictures(path), files=word)


def is_paired(path: Path) -> bool:
    """Whether a folder holds pairs of pictures, and nothing else: not where a/ and b/ have no name in common."""
    try:
        if not PairedReader.fits(path, Reading()):
            return False
        folders = _folders(path)
        return bool(_pictures(folders["a"]).keys() & _pictures(folders["b"]).keys())
    except InputError:  # pairs, or classes: nothing says
        return False


def pictures_of(path: Path, view: str) -> tuple[Path, list[Path]]:
    """The folder of a view, x or tx, in one of pairs, and its pictures, in the order of those of x.

    Raises:
        InputError: pictures have other names there than in the folder of x.
    """
    folders = _folders(path)
    files = {name: _pictures(folder) for name, folder in folders.items()}
    check_same_names(files, f"{path}: ")
    name = next(name for name in folders if _FOLDERS[name] == view)
    return folders[name], [folders[name] / files[name][stem] for stem in files["a"]]


def _folders(path: Path) -> dict[str, Path]:
    """Folders a, b and c by their names, which may be in capitals."""
    found = {folder.name.lower(): folder for folder in sorted(path.iterdir()) if folder.is_dir()}
    return {name: found[name] for name in _FOLDERS if name in found}


def _pictures(folder: Path) -> dict[str, str]:
    return by_name(folder, [file.relative_to(folder).as_posix() for file in pictures_in(folder)])


def by_name(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Names of pictures in a folder by what they are without extension.

    Raises:
        InputError: two differ in their extension alone.
    """
    named = {normalize("NFC", Path(name).with_suffix("").as_posix()): name for name in names}  # files of a Mac have NFD
    if len(named) < len(names):
        twice = next(name for name in names if name not in named.values())
        raise InputError(f"{folder} holds two pictures named {Path(twice).stem}: rename one of them")
    return named


def check_same_names(folders: Mapping[str, Mapping[str, str]], place: str = "") -> None:
    """Refuse folders, each with its pictures by name, where one lacks a picture that the first has, or the reverse.

    Raises:
        InputError: the first such picture, after the words of `place`.
    """
    names = list(folders)
    for other in names[1:]:
        if not folders[other].keys() & folders[names[0]].keys() and all((folders[other], folders[names[0]])):
            first = min(folders[other].values())
            raise InputError(
                f"{place}no picture in {other}/ has the name of one in {names[0]}/, as {first} has not: give the "
                "pictures of a pair one name"
            )
        for here, there in ((other, names[0]), (names[0], other)):
            if lonely := sorted(folders[here].keys() - folders[there].keys()):
                more = f" (and {len(lonely) - 1} more)" if len(lonely) > 1 else ""
                raise InputError(
                    f"{place}{here}/{folders[here][lonely[0]]}{more} has no picture of the same name in {there}/: "
                    "add or remove it"
                )
