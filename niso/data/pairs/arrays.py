"""Arrays: an .npz, .safetensors or HDF5 file, or a folder of .npy files. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from niso.data.pairs.hdf5 import HDF5, names_in, read_sets
from niso.data.pairs.reader import Reader
from niso.data.pairs.reading import Reading
from niso.data.pairs.table import Table, make_table
from niso.errors import InputError, unreadable
from niso.files.json import parse_json

ARRAYS = (".npy", ".npz", ".safetensors", *HDF5)
"""Endings of array files."""
_LARGE = 1 << 20
"""Bytes of an array above which it is memory-mapped in an .npz file."""
_TYPES = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "FIU" for size in (1, 2, 4, 8)} | {"BOOL": "?"}
"""NumPy's names of the types of .safetensors files; they have no F8."""


class ArrayReader(Reader):
    """Arrays x, tx and, where there are any, ttx, group, label, source, points and weights."""

    takes = "a file .npz, .safetensors or .h5, or a folder of .npy, with x and tx"
    reads = frozenset({"kind"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        if path.is_dir():
            return bool(array_files(path))
        return path.suffix.lower() in ARRAYS

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        with _reading(path):
            if path.is_dir():
                return {file.stem for file in array_files(path)}
            if path.suffix.lower() == ".npz":
                with zipfile.ZipFile(path) as archive:
                    return {Path(name).stem for name in archive.namelist()}
            if path.suffix.lower() == ".safetensors":
                from safetensors import safe_open

                with safe_open(path, framework="numpy") as file:
                    return set(file.keys())
            if path.suffix.lower() in HDF5:
                return names_in(path)
        return {"x"}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        return make_table(str(path), columns_of(path), reading)


def array_files(folder: Path) -> list[Path]:
    """The .npy files of a folder, but hidden ones, in the order of their names."""
    return sorted(file for file in folder.glob("*.npy") if not file.name.startswith("."))


def columns_of(path: Path) -> Mapping[str, Any]:
    """All arrays: memory-mapped where the file allows it, which a compressed one does not.

    Raises:
        InputError: the file is damaged, or holds Python objects or values of a type that NumPy lacks.
    """
    if path.is_dir():
        return {file.stem: columns_of(file)["x"] for file in array_files(path)}
    with _reading(path):
        return _columns(path)


def _columns(path: Path) -> Mapping[str, Any]:
    if path.suffix.lower() == ".npy":
        return {"x": np.load(path, mmap_mode="r", allow_pickle=False)}
    if path.suffix.lower() == ".safetensors":
        return _tensors(path)
    if path.suffix.lower() in HDF5:
        return read_sets(path)
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.zip.infolist()}
        large = {
            name
            for name, entry in entries.items()
            if entry.compress_type == zipfile.ZIP_STORED and entry.file_size > _LARGE
        }
        return {
            name: _mapped(path, archive.zip, entries[name]) if name in large else _plain(archive, name)
            for name in archive.files
        }


def _plain(archive: Any, name: str) -> np.ndarray:
    """An array of an .npz file, which NumPy would have to unpickle if it held Python objects."""
    try:
        return np.asarray(archive[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file, memory-mapped: its own reader for NumPy copies them."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy"):  # which checks the header, and that the file is whole
        content = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    arrays = {}
    for name, entry in parse_json(content[8:start].tobytes()).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _TYPES:
            raise InputError(f"{path}: {name} is of type {entry['dtype']}, which is not read: save it as float32")
        first, end = (start + offset for offset in entry["data_offsets"])
        arrays[name] = content[first:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def _mapped(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """A memory-mapped array that lies uncompressed in an .npz file, which is read once to see that it is whole."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        header = file.tell()
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded")
        while file.read(_LARGE):  # which compares the checksum at the end
            pass
    with open(path, "rb") as raw:
        raw.seek(entry.header_offset + 26)
        lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
    start = entry.header_offset + 30 + lengths + header
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # NumPy, zipfile, safetensors and h5py raise errors of many kinds for damaged files
        problem = " ".join(str(error).split())
        if "pickled" in problem and path.is_file() and not _pickled(path):  # what NumPy says of any file
            problem = "it is no NumPy file"
        if any(words in problem for words in ("Object arrays", "allow_pickle", "Python objects")):
            where = problem.split(":")[0] if ": Object arrays" in problem else ""
            raise InputError(
                f"{path} holds Python objects{where and f' in {where}'}, which are never unpickled: save arrays of "
                "numbers, np.savez(path, x=…), and words as label.astype(str)"
            ) from error
        raise InputError(f"{path} cannot be read {unreadable(error, 'save it again', problem)}") from error


def _pickled(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(1) == b"\x80"
