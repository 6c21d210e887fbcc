"""Triangle meshes from .off, .obj, .ply and .stl files, and to .off files. Polygons become fans of triangles; concave
ones fans from a corner that sees all others.

Readers keep the order of vertices and merge none, except where no two faces share a vertex, as in all .stl files: there
corners of equal coordinates are one vertex. They report what is wrong with a file; `surface.check` reports what is
wrong with the surface in it. The readers of libraries are not exact enough for closed surfaces: libigl's ends the
process on a damaged file or mixed polygons (2.6), and drops what a truncated STL text lacks without an error;
trimesh's (5.2, `process=False`) tears surfaces apart where materials meet, misplaces OBJ corners that count backwards,
and drops what a truncated text file lacks without an error.
"""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from niso.errors import InputError
from niso.files.writing import write_atomically
from niso.geometry.mesh.surface import Mesh

Rows = list[list[Any]]
"""Coordinates of vertices, or corners of polygons, as numbers or as words."""

_PLY_CODES = {
    **{"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"},
    **{"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"},
    **{"float32": "f", "float64": "d"},
}
_PLY_END = re.compile(rb"[\r\n][ \t]*end_header[ \t]*(?:\r*\n|\r|\Z)")  # a line of its own: comments may name it
_PLY_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


_FOLDED = 1e-4
"""Share of a polygon's area by which a triangle of its fan may be turned over, as rounded coordinates do."""


class _Truncated(Exception):
    """The file ends before what it announced."""


def read_mesh(path: Path | str) -> Mesh:
    """Read a mesh; the suffix tells the format.

    Returns:
        Vertices in float64 and faces in int64. Colours, normals and texture coordinates are skipped.

    Raises:
        InputError: the file is missing, of another format, truncated, or damaged, or a polygon is no fan of triangles;
            the message says which.
    """
    path = Path(path)
    readers = {".off": _read_off, ".obj": _read_obj, ".ply": _read_ply, ".stl": _read_stl}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} is not a mesh that can be read: choose from {', '.join(readers)}")
    try:
        points, polygons = readers[path.suffix.lower()](path.read_bytes().removeprefix(codecs.BOM_UTF8))
        if any(len(point) < 3 for point in points):
            raise _Truncated("a vertex has fewer than three coordinates")
        vertices = np.array([point[:3] for point in points], dtype=np.float64).reshape(-1, 3)
        if (fewest := min(map(len, polygons), default=3)) < 3:
            raise ValueError(f"a face has {fewest} corners")
        vertices, polygons = _joined(vertices, polygons)
        if not _unfold(polygons, vertices):
            raise InputError(f"{path} has concave polygons that are no fans of triangles: triangulate it")
        triangles = [(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)]
        return Mesh(vertices, np.array(triangles, dtype=np.int64).reshape(-1, 3))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except _Truncated as error:
        raise InputError(f"{path} is truncated: {error}; copy or download it again") from error
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _joined(vertices: Float[np.ndarray, "vertices 3"], polygons: Rows) -> tuple[Float[np.ndarray, "joined 3"], Rows]:
    """Vertices of equal coordinates as one, in the order of the first, where each is a corner of one polygon alone."""
    if not np.array_equal(np.sort([*chain.from_iterable(polygons)]), np.arange(len(vertices))):
        return vertices, polygons
    # Adding 0 makes -0 and 0 the same.
    _, first, place = np.unique(vertices + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.argsort(order)[place.ravel()].tolist()
    return vertices[first[order]], [[numbers[corner] for corner in polygon] for polygon in polygons]


def _unfold(polygons: Rows, vertices: Float[np.ndarray, "vertices 3"]) -> bool:
    """Let polygons begin with a corner from which no triangle of the fan is turned over; False where one has none."""
    counts = np.fromiter(map(len, polygons), np.int64, len(polygons))
    for count in np.unique(counts[counts > 3]).tolist():
        places = np.flatnonzero(counts == count)
        corners = np.array([polygons[place] for place in places], dtype=np.int64)
        known = ((corners >= 0) & (corners < len(vertices))).all(1)  # others are left to `check`
        places, corners = places[known], corners[known]
        for first in range(count):
            fans = np.roll(corners, -first, 1)
            folded = _is_folded(vertices[fans])
            if first:
                for place, fan in zip(places[~folded], fans[~folded].tolist(), strict=True):
                    polygons[place] = fan
            places, corners = places[folded], corners[folded]
            if not len(places):
                break
        else:
            return False
    return True


def _is_folded(points: Float[np.ndarray, "polygons corners 3"]) -> Bool[np.ndarray, " polygons"]:
    """Whether the fan from a polygon's first corner has a triangle whose normal is opposed to the polygon's."""
    with np.errstate(invalid="ignore", over="ignore"):  # of coordinates that are not finite, which `check` refuses
        spokes = points[:, 1:] - points[:, :1]
        triangles = np.cross(spokes[:, :-1], spokes[:, 1:])
        whole = triangles.sum(1)  # Newell's normal
        along = np.einsum("nti,ni->nt", triangles, whole)
        return (along < -_FOLDED * (whole**2).sum(1)[:, None]).any(1)


def write_off(path: Path, mesh: Mesh) -> None:
    """Write a mesh as an .off file, coordinates with nine digits, whole or not at all.

    Raises:
        OSError: as the file system does.
    """
    points = "".join(f"{x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in mesh.vertices.tolist())
    triangles = "".join(f"3 {a} {b} {c}\n" for a, b, c in mesh.faces.tolist())
    content = f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n{points}{triangles}"
    write_atomically(path, content.encode())


def _lines(content: bytes) -> Iterator[list[str]]:
    """Words of the lines that are not empty, without comments."""
    for line in content.decode("utf-8", errors="replace").splitlines():
        if words := line.partition("#")[0].split():
            yield words


def _read_off(content: bytes) -> tuple[Rows, Rows]:
    """See https://people.sc.fsu.edu/~jburkardt/data/off/off.html. Lines need not be one for each vertex and face where
    these have neither colours nor normals."""
    lines = _lines(content)
    head = next(lines, [""])
    if head[0][:3].upper() == "OFF" and head[0][3:].isdigit():  # as many files of ModelNet have it
        head = ["OFF", head[0][3:], *head[1:]]
    if head[0][-4:].upper() == "4OFF":
        raise ValueError("its points have four coordinates (4OFF): save three")
    if not head[0].upper().endswith("OFF") or head[1:2] == ["BINARY"]:
        raise ValueError("it does not begin with OFF, the header of the text format")
    counts = head[1:] or next(lines, [])
    if len(counts) < 2:
        raise _Truncated("it has no counts of vertices and faces")
    vertices, faces = (max(int(word), 0) for word in counts[:2])
    rest = list(lines)
    if counts[3:] or len(rest) < vertices + faces or any(len(row) < 3 for row in rest[:vertices]):
        rest = _regrouped([*counts[3:], *chain.from_iterable(rest)], vertices, faces) or rest
    points = _checked(rest[:vertices], vertices, "vertices")
    rows = _checked(rest[vertices:][:faces], faces, "faces")
    polygons = [[int(word) for word in row[1 : 1 + int(row[0])]] for row in rows]
    if any(len(polygon) < int(row[0]) for polygon, row in zip(polygons, rows, strict=True)):
        raise _Truncated("a face has fewer corners than announced")
    return points, polygons


def _regrouped(words: list[str], vertices: int, faces: int) -> Rows | None:
    """Words as a row for each vertex, of three, and each face; None where these are not all words, and no others."""
    place = 3 * vertices
    rows = [words[start : start + 3] for start in range(0, min(place, len(words)), 3)]
    for _ in range(faces):
        if place >= len(words) or not words[place].isdecimal():
            return None
        end = place + 1 + int(words[place])
        rows.append(words[place:end])
        place = end
    return rows if place == len(words) else None


def _checked(rows: Rows, count: int, what: str) -> Rows:
    if len(rows) < count:
        raise _Truncated(f"{count} {what} are announced and {len(rows)} are there")
    return rows


def _read_obj(content: bytes) -> tuple[Rows, Rows]:
    """Corners are counted from 1, or backwards from the last vertex so far. A backslash continues a line."""
    points, polygons = Rows(), Rows()
    for words in _lines(re.sub(rb"\\\r?\n", b" ", re.sub(rb"#[^\r\n]*", b"", content))):
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
    return points, polygons


def _read_ply(content: bytes) -> tuple[Rows, Rows]:
    """A header lists elements and their properties; rows in text or binary follow (paulbourke.net/dataformats/ply)."""
    if not content.startswith(b"ply"):
        raise ValueError("it does not begin with ply")
    end = _PLY_END.search(content)
    if end is None:
        raise _Truncated("its header has no end")
    order, elements = _ply_header(content[: end.start()])
    body = content[end.end() :]
    take = _binary_values(body, order) if order else _text_values(body)
    columns: dict[str, dict[str, Rows]] = {}
    for element, count, properties in elements:
        columns[element] = {name: [] for name, *_ in properties}
        try:
            for _ in range(count if properties else 0):
                for name, kind, length in properties:
                    columns[element][name].append(take(kind, take(length, 1)[0] if length else 1))
        except (StopIteration, struct.error) as error:
            raise _Truncated(f"it ends inside element {element}, of which {count} rows are announced") from error
    if "vertex" not in columns:
        raise ValueError("it has no element vertex")
    if not {"x", "y", "z"} <= columns["vertex"].keys():
        raise ValueError("its vertices have no properties x, y, z")
    faces = columns.get("face", {"vertex_indices": []})  # a cloud of points has none
    polygons = faces.get("vertex_indices", faces.get("vertex_index"))
    if polygons is None:
        raise ValueError("its faces have no property vertex_indices")
    x, y, z = (columns["vertex"][axis] for axis in "xyz")
    return [[*point[0], *point[1], *point[2]] for point in zip(x, y, z, strict=True)], polygons


def _ply_header(head: bytes) -> tuple[str, list[tuple[str, int, list[tuple[str, str, str]]]]]:
    """Byte order, empty for text; of each element name, rows, and properties: name, `struct` code, code of a length."""
    order, elements = None, list[tuple[str, int, list[tuple[str, str, str]]]]()
    for words in map(str.split, head.decode("ascii", errors="replace").splitlines()):
        match words:
            case ["format", name, _] if name in _PLY_ORDERS:
                order = _PLY_ORDERS[name]
            case ["element", name, count]:
                elements.append((name, int(count), []))
            case ["property", "list", length, kind, name] if elements and {length, kind} <= _PLY_CODES.keys():
                elements[-1][2].append((name, _PLY_CODES[kind], _PLY_CODES[length]))
            case ["property", kind, name] if elements and kind in _PLY_CODES:
                elements[-1][2].append((name, _PLY_CODES[kind], ""))
            case ["format" | "element" | "property", *_]:
                raise ValueError(f"its header has a line {' '.join(words)!r}")
    if order is None:
        raise ValueError("its header names no format")
    return order, elements


def _text_values(body: bytes) -> Callable[[str, int], list[Any]]:
    words = iter(body.split())
    return lambda kind, count: [float(next(words)) if kind in "fd" else int(next(words)) for _ in range(count)]


def _binary_values(body: bytes, order: str) -> Callable[[str, int], list[Any]]:
    offset = 0

    def take(kind: str, count: int) -> list[Any]:
        nonlocal offset
        values = struct.unpack_from(f"{order}{count}{kind}", body, offset)
        offset += struct.calcsize(f"{order}{count}{kind}")
        return list(values)

    return take


_STL_HEADER = 84
"""Bytes of a binary file before its triangles: 80 of any content, and their number."""
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def _read_stl(content: bytes) -> tuple[Rows, Rows]:
    """Triangles by their corners' coordinates, in text or binary (paulbourke.net/dataformats/stl)."""
    count = int.from_bytes(content[80:_STL_HEADER], "little")
    # The highest byte of any usual count is 0, which no text has; and binary files too may begin with "solid".
    if b"\0" in content[:_STL_HEADER] or len(content) == _STL_HEADER + count * _STL_TRIANGLE.itemsize:
        there = max(len(content) - _STL_HEADER, 0) // _STL_TRIANGLE.itemsize
        if len(content) < _STL_HEADER or there < count:
            raise _Truncated(f"{count} triangles are announced and {there} are there")
        triangles = np.frombuffer(content, _STL_TRIANGLE, count, _STL_HEADER)
        points = triangles["corners"].astype(np.float64).reshape(-1, 3).tolist()
        return points, np.arange(len(points)).reshape(-1, 3).tolist()
    return _stl_text(content)


def _stl_text(content: bytes) -> tuple[Rows, Rows]:
    """Words other than corners and what holds them together, such as colours, are skipped."""
    if not content.lstrip().lower().startswith(b"solid"):
        raise ValueError("it does not begin with solid, the header of the text format, and is not binary")
    points, polygons, polygon, ended = Rows(), Rows(), list[int](), True
    for word, *rest in _lines(content):
        match word.lower():
            case "solid" | "endsolid" | "facet" if polygon:
                raise ValueError("a facet has no endloop")
            case "solid" | "endsolid":
                ended = word.lower() == "endsolid"
            case "vertex":
                polygon.append(len(points))
                points.append(rest)
            case "endloop":
                polygons.append(polygon)
                polygon = []
    if not ended:
        raise _Truncated("it has no endsolid")
    return points, polygons
