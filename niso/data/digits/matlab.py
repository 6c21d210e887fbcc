"""Arrays of numbers in MATLAB's version 5 files.

SciPy's reader (1.17) ends the process on some damaged files; this one reads real arrays only, and checks every length.
Source: MathWorks, "MAT-File Format", level 5.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

Order = Literal["<", ">"]

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How elements may be stored: fewer bytes than the array's class where they suffice."""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800


def read_arrays(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Those of the named arrays that a version 5 file holds, with MATLAB's order of axes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or a named variable is not an array of real numbers.
        zlib.error: a compressed part is damaged.
    """
    content = memoryview(path.read_bytes())
    if len(content) < _HEADER or (mark := bytes(content[126:128])) not in (b"IM", b"MI"):
        raise ValueError("its header is cut off or names no byte order")
    order: Order = "<" if mark == b"IM" else ">"
    arrays = {}
    for kind, element in _elements(content[_HEADER:], order, padded=False):
        inner = [(kind, element)]
        if kind == _COMPRESSED:
            inner = list(_elements(_decompressed(element, order), order, padded=False))
        for kind, element in inner:
            if kind != _MATRIX:
                raise ValueError(f"it has an element of type {kind} where a variable is expected")
            name, array = _matrix(element, order, names)
            if array is not None:
                arrays[name] = array
    return arrays


def _decompressed(element: memoryview, order: Order) -> memoryview:
    """One element, and no more than its tag announces."""
    unpacker = zlib.decompressobj()
    tag = unpacker.decompress(element, 8)
    if len(tag) < 8:
        raise ValueError("a compressed variable is cut off")
    length = int(np.frombuffer(tag, f"{order}u4", 1, 4)[0])
    return memoryview(tag + unpacker.decompress(unpacker.unconsumed_tail, length)) if length else memoryview(tag)


def _elements(content: memoryview, order: Order, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Types and contents of consecutive elements."""
    place = 0
    while place + 8 <= len(content):
        first, length = (int(value) for value in np.frombuffer(content, f"{order}u4", 2, place))
        if first >> 16:  # a small element: both in four bytes, the data in the next four
            kind, length, begin, end = first & 0xFFFF, first >> 16, place + 4, place + 8
            if length > 4:
                raise ValueError(f"a small element has {length} bytes")
        else:
            kind, begin, end = first, place + 8, place + 8 + length
            end += -length % 8 if padded else 0
        if begin + length > len(content):
            raise ValueError(f"an element of {length:,} bytes is cut off after {len(content) - begin:,}")
        yield kind, content[begin : begin + length]
        place = end


def _matrix(content: memoryview, order: Order, names: Collection[str]) -> tuple[str, np.ndarray | None]:
    """Name of a variable, and its array where the name is wanted."""
    parts = _elements(content, order)
    head = [_numbers(kind, data, order) for kind, data in islice(parts, 3)]
    if len(head) < 3:
        raise ValueError("a variable is cut off")
    flags, shape, name = head
    title = name.astype(np.uint8).tobytes().decode("ascii", errors="replace")
    if title not in names:
        return title, None
    code = _CLASSES.get(int(flags[0]) & 0xFF) if len(flags) else None
    if code is None or int(flags[0]) & _COMPLEX:
        raise ValueError(f"{title} is not an array of real numbers")
    sizes = [int(size) for size in shape]
    values = next((_numbers(kind, data, order) for kind, data in parts), None)
    if values is None or min(sizes, default=-1) < 0 or len(values) != math.prod(sizes):
        count = "no" if values is None else f"{len(values):,}"
        raise ValueError(f"{title} has {count} numbers, not {' × '.join(map(str, sizes))}")
    return title, values.astype(np.dtype(code), copy=False).reshape(sizes, order="F")


def _numbers(kind: int, data: memoryview, order: Order) -> np.ndarray:
    if kind not in _STORED:
        raise ValueError(f"it has an element of type {kind} where numbers are expected")
    dtype = np.dtype(_STORED[kind]).newbyteorder(order)
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data):,} bytes are no whole number of elements")
    return np.frombuffer(data, dtype)
