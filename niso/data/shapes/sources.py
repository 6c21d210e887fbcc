"""Sources of shapes: class folders of meshes, a table of labels, or the folders of Conformal SHREC'11."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from niso.errors import InputError, counted, nearest
from niso.files.search import files_below

SUFFIXES = (".off", ".obj", ".ply", ".stl")
UNREAD = (".glb", ".gltf", ".dae", ".fbx", ".3ds", ".wrl", ".vtk", ".vtp", ".msh", ".mesh", ".usd", ".blend")
"""Other formats of meshes: a shape that has no other file would be missing without a word."""
RELEASED = ("base", "mobius", "base_sphere", "mobius_sphere")


class Source(NamedTuple):
    """One shape before its preparation.

    Attributes:
        name: "class/shape".
        mesh: file of its mesh.
        spheres: files of the maps of the shape and of its variants to the sphere, if they are given.
    """

    name: str
    mesh: Path
    spheres: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Fingerprint of all its files; InputError where one cannot be read."""
        digest = hashlib.sha256()
        for path in (self.mesh, *self.spheres):
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror}") from error
        return digest.hexdigest()


def refuse_unread(files: Sequence[Path], read: Collection[Path]) -> None:
    """InputError where one of these files is of a format that is not read, and no file beside it of its name is."""
    names = {path.with_suffix("") for path in read}
    lost = [path for path in files if path.suffix.lower() in UNREAD and path.with_suffix("") not in names]
    if lost:
        raise InputError(
            f"{lost[0]} is of a format that is not read{f', and {len(lost) - 1} more are' if lost[1:] else ''}: "
            f"convert it to one of {', '.join(SUFFIXES)}, or move it away"
        )


def find_sources(given: Path, labels: Path | None = None, leave_out: Sequence[str] = ()) -> list[Source]:
    """All shapes of a folder or a table, sorted by name.

    Args:
        given: one of
            a folder with a folder of .off, .obj, .ply or .stl files for each class;
            a CSV file with the header "file,label", files relative to its own folder; equal rows count once, with a
            warning;
            a folder with the folders base, mobius, base_sphere and mobius_sphere. The latter two hold meshes of the
            unit sphere with the faces of the shape: base_sphere one with the same path as in base, mobius_sphere
            those of the variants, as "<shape>_<number>" beside it or "<number>" in a folder <shape>.
        labels: such a CSV file for meshes that are in no class folders.
        leave_out: classes to leave out.

    Raises:
        InputError: there are no shapes; a mesh is in no class's folder, or of a format that is not read; a label or a
            file is missing; two files have the same class and name; a class to leave out does not exist.
    """
    if not given.exists():
        raise InputError(f"{given} does not exist: give a folder of meshes, or a CSV file of labels")
    folders = {name for name in RELEASED if (given / name).is_dir()}
    released = "base" in folders and len(folders) > 1
    if released and not {"base_sphere", "mobius_sphere"} <= folders:
        raise InputError(f"{given} lacks one of the folders {', '.join(RELEASED)}: add it")
    root = given / "base" if released else given
    if _is_mesh(given):
        raise InputError(f"{given} is a single mesh: give a folder with a folder of meshes for each class")
    if given.is_file():
        if labels:
            raise InputError(f"{given} is a table of labels itself: leave --labels out, or give the folder of meshes")
        named = _of_table(given, given.parent)
    elif labels:
        named = _of_table(labels, root)
    else:
        named = [(path.parent.name, path) for path in root.glob("[!.]*/*") if _is_mesh(path)]
        meshes = files_below(root, (*SUFFIXES, *UNREAD))
        refuse_unread(meshes, [path for _, path in named])
        outside = [path for path in meshes if path.suffix.lower() in SUFFIXES and path.parent.parent != root]
        if named and outside:
            raise InputError(
                f"{outside[0]} is in no class's folder"
                f"{f', and {len(outside) - 1} more meshes are not' if len(outside) > 1 else ''}: "
                f"a class is a folder of meshes in {given}; move or remove the others, or give --labels"
            )
    if unknown := sorted(set(leave_out) - {label for label, _ in named}):
        raise InputError(f"no class {unknown[0]!r} to leave out{nearest(unknown[0], {label for label, _ in named})}")
    kept = [(label, path) for label, path in named if label not in leave_out]
    if not kept:
        raise InputError(
            f"{given} holds no meshes: put {', '.join(SUFFIXES)} files in a folder a class, or give --labels"
        )
    sources = _named_by_folders([Source(f"{label}/{path.stem}", path) for label, path in kept])
    if released:
        sources = [source._replace(spheres=_spheres(given, source.mesh.relative_to(root))) for source in sources]
    for one, other in pairwise(sources := sorted(sources)):
        if one.name == other.name:
            raise InputError(f"{one.mesh} and {other.mesh} are both the shape {one.name}: rename one, or move it away")
    return sources


def _named_by_folders(sources: Sequence[Source]) -> list[Source]:
    """Shapes of one name in a class by their folders too, as few as it takes: chair/a/model.obj is chair/a-model."""
    found, alike = list[Source](), defaultdict[str, list[Source]](list)
    for source in sources:
        alike[source.name].append(source)
    for name, group in alike.items():
        label, _, stem = name.partition("/")
        folders = [Path(os.path.abspath(source.mesh)).parts[1:-1] for source in group]
        tried = (
            ["-".join((*parts[max(len(parts) - count, 0) :], stem)).lstrip(".") for parts in folders]
            for count in range(max(map(len, folders)) + 1)
        )
        names = max(tried, key=lambda names: len({*names}))  # of several, the first
        found += [source._replace(name=f"{label}/{one}") for source, one in zip(group, names, strict=True)]
    return found


def _of_table(table: Path, root: Path) -> list[tuple[str, Path]]:
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows = [(reader.line_num, row) for row in reader]  # of which empty ones are left out
            header = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read the labels of {table} ({error}): save it as CSV in UTF-8") from error
    if not {"file", "label"} <= set(header):
        raise InputError(f'{table}: its first line must be "file,label", not "{",".join(header)}"')
    named, labelled, repeated = [], dict[Path, str](), list[int]()
    for number, row in rows:
        if any(value.strip() for value in row.get(None, ())):
            raise InputError(f"{table}, line {number}: more values than columns; put what holds a comma in quotes")
        name, label = ((row.get(key) or "").strip() for key in ("file", "label"))
        if not name or not label:
            raise InputError(f"{table}, line {number}: no file or no label; add it, or remove the line")
        if not re.fullmatch(r"[^./\\][^/\\]*", label):
            raise InputError(f"{table}, line {number}: {label!r} cannot be the name of a folder; choose another label")
        if not (root / name).is_file() or not _is_mesh(root / name):
            problem = "is not a mesh that can be read" if (root / name).is_file() else "is missing"
            raise InputError(f"{table}, line {number}: {root / name} {problem}; correct or remove the line")
        if root / name in labelled:
            if labelled[root / name] != label:
                raise InputError(f"{table}, line {number}: {name} is {labelled[root / name]} already; remove one line")
            repeated.append(number)
            continue
        labelled[root / name] = label
        named.append((label, root / name))
    if repeated:
        count = counted(len(repeated), "repeated row")
        warnings.warn(f"{table}: {count} left out, the first in line {repeated[0]}", stacklevel=3)
    return named


def _is_mesh(path: Path) -> bool:
    """Links to nothing are too, and refused where they are read."""
    linked = path.is_symlink() and not path.exists()
    return path.suffix.lower() in SUFFIXES and path.name[0] != "." and (path.is_file() or linked)


def _spheres(folder: Path, shape: Path) -> tuple[Path, ...]:
    """Sphere maps of a shape, given by its path inside of base, and of its variants in their order."""
    base = folder / "base_sphere" / shape
    place = folder / "mobius_sphere" / shape.parent
    pattern = re.compile(re.escape(shape.stem) + r"[_-]\D*(\d+)")
    matches = [(path, pattern.fullmatch(path.stem)) for path in place.glob("*") if _is_mesh(path)]
    variants = [(int(match[1]), path) for path, match in matches if match]
    inside = [
        (int(path.stem), path) for path in (place / shape.stem).glob("*") if _is_mesh(path) and path.stem.isdecimal()
    ]
    ordered = sorted(variants or inside)
    for (number, one), (other_number, other) in pairwise(ordered):
        if number == other_number:
            raise InputError(f"{one} and {other} both have the number {number}: remove one of them")
    return (base, *(path for _, path in ordered))
