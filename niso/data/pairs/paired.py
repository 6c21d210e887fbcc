"""A folder with a/ and b/ (and c/): pictures of the same names are ψ, Tψ (and T²ψ)."""

from __future__ import annotations

from pathlib import Path

from niso.data.pairs.squares import check_memory, read_pictures
from niso.data.pairs.table import FEWEST, VIEWS, Reader, Reading, Table
from niso.data.photographs import passed_over, pictures_in
from niso.errors import InputError
from niso.files import digest_of_files

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
        if _by_name(folders["a"]).keys() == _by_name(folders["b"]).keys():
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
        files = {name: _by_name(folder) for name, folder in folders.items()}
        first = files["a"]
        for folder in list(folders)[1:]:
            for here, there in ((folder, "a"), ("a", folder)):
                if lonely := sorted(files[here].keys() - files[there].keys()):
                    more = f" (and {len(lonely) - 1} more)" if len(lonely) > 1 else ""
                    raise InputError(
                        f"{path}: {here}/{files[here][lonely[0]].name}{more} has no picture of the same name in "
                        f"{there}/: add or remove it"
                    )
        if len(first) < FEWEST:
            raise InputError(f"{path} holds {len(first)} pairs of pictures: at least {FEWEST} are needed")
        check_memory("pictures", len(first) * len(folders), size, reading.memory)
        views = {_FOLDERS[name]: read_pictures([files[name][stem] for stem in first], size) for name in folders}
        word = digest_of_files([file for named in files.values() for file in named.values()], path)
        return Table(str(path), "images", views, note=passed_over(path), files=word)


def _folders(path: Path) -> dict[str, Path]:
    """Folders a, b and c by their names, which may be in capitals."""
    found = {folder.name.lower(): folder for folder in sorted(path.iterdir()) if folder.is_dir()}
    return {name: found[name] for name in _FOLDERS if name in found}


def _by_name(folder: Path) -> dict[str, Path]:
    """Pictures of a folder by their names without extension."""
    files = pictures_in(folder)
    named = {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    if len(named) < len(files):
        twice = next(file for file in files if file not in named.values())
        raise InputError(f"{folder} holds two pictures named {twice.stem}: rename one of them")
    return named
