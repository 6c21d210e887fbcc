"""Reading triangle meshes from .off, .obj and .ply files, and writing .off; polygons are cut into fans of triangles.

Readers keep the order of vertices and merge none. They say what is wrong with a file; what is wrong with the surface
in it, `mesh.check` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from niso.errors import InputError
from niso.files import write_atomically
from niso.geometry.mesh.surface import Mesh

_PLY_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_PLY_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


def read_mesh(path: Path | str) -> Mesh:
    """Read a mesh; the suffix tells the format.

    Returns:
        Vertices in float64 and faces in int64. Colours, normals and texture coordinates are skipped.

    Raises:
        InputError: the file is missing, of another format, truncated, or not what its format allows; says which.
    """
    path = Path(path)
    readers = {".off": _read_off, ".obj": _read_obj, ".ply": _read_ply}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} is not a mesh that can be read: choose from {', '.join(readers)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        vertices, polygons = readers[path.suffix.lower()](content)
        faces = _triangles(polygons)
    except _Truncated as error:
        raise InputError(f"{path} is truncated: {error}; copy or download it again") from error
    except (ValueError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return Mesh(vertices, faces)


def write_off(path: Path, mesh: Mesh) -> None:
    """Write a mesh as an .off file, coordinates with nine digits, whole or not at all.

    Raises:
        OSError: as the file system does.
    """
    points = "".join(f"{x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in mesh.vertices.tolist())
    triangles = "".join(f"3 {a} {b} {c}\n" for a, b, c in mesh.faces.tolist())
    content = f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n{points}{triangles}"
    write_atomically(path, content.encode())


class _Truncated(Exception):
    """The file ends before what it announced."""


Polygons = np.ndarray | Sequence[Sequence[int]]
"""Corners of faces: an array where all have as many, else a list of lists."""


def _triangles(polygons: Polygons) -> np.ndarray:
    if not isinstance(polygons, np.ndarray):
        fewest = min(map(len, polygons), default=3)
        if fewest == max(map(len, polygons), default=3):
            polygons = np.array(polygons, dtype=np.int64).reshape(-1, fewest)
    if isinstance(polygons, np.ndarray):
        corners = polygons.astype(np.int64)
        if corners.shape[1] < 3:
            raise ValueError(f"a face has {corners.shape[1]} corners")
        fans = [corners[:, [0, k, k + 1]] for k in range(1, corners.shape[1] - 1)]
        return np.stack(fans, axis=1).reshape(-1, 3)
    if fewest < 3:
        raise ValueError(f"a face has {fewest} corners")
    return np.array([(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)], dtype=np.int64)


def _lines(content: bytes) -> Iterator[list[str]]:
    """Words of the lines that are not empty, without comments."""
    for line in content.decode("utf-8", errors="replace").splitlines():
        if words := line.partition("#")[0].split():
            yield words


# OFF: https://people.sc.fsu.edu/~jburkardt/data/off/off.html


def _read_off(content: bytes) -> tuple[np.ndarray, Polygons]:
    lines = _lines(content)
    head = next(lines, [""])
    if not head[0].upper().endswith("OFF") or head[1:2] == ["BINARY"]:
        raise ValueError("it does not begin with OFF, the header of the text format")
    counts = head[1:] or next(lines, [])
    if len(counts) < 2:
        raise _Truncated("it has no counts of vertices and faces")
    vertices, faces = int(counts[0]), int(counts[1])
    points = _take(lines, vertices, "vertices")
    rows = _take(lines, faces, "faces")
    polygons = [[int(word) for word in row[1 : 1 + int(row[0])]] for row in rows]
    if any(len(polygon) < int(row[0]) for polygon, row in zip(polygons, rows, strict=True)):
        raise _Truncated("a face has fewer corners than announced")
    return _positions(points), polygons


def _take(lines: Iterator[list[str]], count: int, what: str) -> list[list[str]]:
    taken = list(islice(lines, max(count, 0)))
    if len(taken) < count:
        raise _Truncated(f"{count} {what} are announced and {len(taken)} are there")
    return taken


def _positions(rows: Sequence[Sequence[str]]) -> np.ndarray:
    if any(len(row) < 3 for row in rows):
        raise _Truncated("a vertex has fewer than three coordinates")
    return np.array([row[:3] for row in rows], dtype=np.float64).reshape(-1, 3)


# OBJ: corners are counted from 1, or backwards from the last vertex so far


def _read_obj(content: bytes) -> tuple[np.ndarray, Polygons]:
    points: list[list[str]] = []
    polygons: list[list[int]] = []
    for words in _lines(content):
        if words[0] == "v":
            points.append(words[1:])
        elif words[0] == "f":
            corners = [int(word.partition("/")[0]) for word in words[1:]]
            if 0 in corners:
                raise ValueError("a face has a corner 0, where corners are counted from 1")
            if len(corners) < 3:
                raise _Truncated(f"a face has {len(corners)} corners")
            polygons.append([corner - 1 if corner > 0 else len(points) + corner for corner in corners])
    last = max(map(max, polygons), default=-1)
    if last >= len(points):
        raise _Truncated(f"faces have corners up to {last + 1} and {len(points)} vertices are there")
    return _positions(points), polygons


# PLY: a header in text that lists elements and their properties, then text or binary rows
# https://paulbourke.net/dataformats/ply/


class _Property(NamedTuple):
    name: str
    kind: str  # NumPy's code of the value, or of a list's values
    length: str | None  # NumPy's code of a list's length


class _Element(NamedTuple):
    name: str
    rows: int
    properties: list[_Property]


def _read_ply(content: bytes) -> tuple[np.ndarray, Polygons]:
    head, end, body = content.partition(b"end_header")
    if not content.startswith(b"ply"):
        raise ValueError("it does not begin with ply")
    if not end:
        raise _Truncated("its header has no end")
    body = body.lstrip(b"\r").removeprefix(b"\n")
    order, elements = _ply_header(head)
    data = _ply_text(body, elements) if order == "" else _ply_binary(body, elements, order)
    missing = [name for name in ("vertex", "face") if name not in data]
    if missing:
        raise ValueError(f"it has no element {' and no '.join(missing)}")
    points, faces = data["vertex"], data["face"]
    if not {"x", "y", "z"} <= points.keys():
        raise ValueError("its vertices have no properties x, y, z")
    corners = next((faces[name] for name in ("vertex_indices", "vertex_index") if name in faces), None)
    if corners is None:
        raise ValueError("its faces have no property vertex_indices")
    return np.stack([np.asarray(points[axis], dtype=np.float64) for axis in "xyz"], axis=1), corners


def _ply_header(head: bytes) -> tuple[str, list[_Element]]:
    order, elements = None, list[_Element]()
    for words in (line.split() for line in head.decode("ascii", errors="replace").splitlines()):
        match words:
            case ["format", name, _] if name in _PLY_ORDERS:
                order = _PLY_ORDERS[name]
            case ["element", name, count]:
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length, kind, name] if elements and {length, kind} <= _PLY_TYPES.keys():
                elements[-1].properties.append(_Property(name, _PLY_TYPES[kind], _PLY_TYPES[length]))
            case ["property", kind, name] if elements and kind in _PLY_TYPES:
                elements[-1].properties.append(_Property(name, _PLY_TYPES[kind], None))
            case ["format" | "element" | "property", *_]:
                raise ValueError(f"its header has a line {' '.join(words)!r}")
    if order is None:
        raise ValueError("its header names no format")
    return order, elements


def _ply_text(body: bytes, elements: list[_Element]) -> dict[str, dict]:
    lines, data = _lines(body), {}
    for element in elements:
        columns: dict[str, list] = {p.name: [] for p in element.properties}
        for row in _take(lines, element.rows, f"rows of element {element.name}"):
            words = iter(row)
            for name, kind, length in element.properties:
                number = float if kind[0] == "f" else int
                size = 1 if length is None else int(next(words, 0))
                values = [number(word) for word in islice(words, size)]
                if len(values) < size:
                    raise _Truncated(f"a row of element {element.name} has too few numbers")
                columns[name].append(values[0] if length is None else values)
        data[element.name] = columns
    return data


def _ply_binary(body: bytes, elements: list[_Element], order: str) -> dict[str, dict]:
    data, offset = {}, 0
    for element in elements:
        data[element.name], offset = _ply_rows(body, offset, element, order)
    return data


def _ply_rows(body: bytes, offset: int, element: _Element, order: str) -> tuple[dict, int]:
    """Rows of an element at once, where its lists are all as long as in the first row; else one by one."""
    if element.rows == 0:
        return {p.name: [] for p in element.properties}, offset
    first, dtype = _ply_row(body, offset, element, order)
    end = offset + element.rows * dtype.itemsize
    if end <= len(body):
        rows = np.frombuffer(body, dtype, element.rows, offset)
        lists = [p for p in element.properties if p.length]
        if all((rows[_length(p)] == first[_length(p)]).all() for p in lists):
            return {p.name: rows[p.name] for p in element.properties}, end
    columns: dict[str, list] = {p.name: [] for p in element.properties}
    for _ in range(element.rows):
        row, dtype = _ply_row(body, offset, element, order)
        offset += dtype.itemsize
        for p in element.properties:
            columns[p.name].append(row[p.name].tolist())
    return columns, offset


def _ply_row(body: bytes, offset: int, element: _Element, order: str) -> tuple[np.void, np.dtype]:
    fields: list[tuple] = []
    for p in element.properties:
        if p.length:
            before = np.dtype([*fields, (_length(p), order + p.length)])
            size = int(_ply_value(body, offset, before, element)[_length(p)])
            fields += [(_length(p), order + p.length), (p.name, order + p.kind, (size,))]
        else:
            fields.append((p.name, order + p.kind))
    dtype = np.dtype(fields)
    return _ply_value(body, offset, dtype, element), dtype


def _ply_value(body: bytes, offset: int, dtype: np.dtype, element: _Element) -> np.void:
    if offset + dtype.itemsize > len(body):
        raise _Truncated(f"it ends inside element {element.name}, of which {element.rows} rows are announced")
    return np.frombuffer(body, dtype, 1, offset)[0]


def _length(p: _Property) -> str:
    return f"length of {p.name}"
