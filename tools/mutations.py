"""Damaged versions of files: bytes, numbers, lines and nodes are replaced, removed, repeated and moved."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

WORDS = (
    *(b"0", b"-1", b"1", b"nan", b"inf", b"-inf", b"1e999", b"1e-320", b"1e38", b"0x10", b"1_0", b"", b"#", b'"', b"/"),
    *(b"255", b"65536", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775808", b"1" * 5000),
    *("１２".encode(), "²".encode(), b"\xff\xfe", b"\x00", b"\x1b[31m", b"\r", b"\n\n", b"null", b"true", b"[]", b"{}"),
)
"""What takes the place of a number or a word."""

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 0.5, 2**31, 2**63, 10**400, 1e308, -1e-320, float("nan"), float("inf")),
    *("", "0", "nan", "a\nb", "\x1b[31m", "../../../etc/passwd", "/", "\x00", "x" * 5000, "\ud800", "４"),
    *([], {}, [[]], [None], {"": None}, [0] * 4, [[0.0] * 4] * 4, [[1, 2], [3]]),
)
"""What takes the place of a node of JSON or YAML."""

BOMB = """
a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
experiment: *g
preset: *g
config: *g
"""
"""Ten million words, once its references are followed."""

Mutation = Callable[[bytes, random.Random], bytes]


def any_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to four changes of bytes, whatever the format."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        content = chance.choice(_BYTE_MUTATIONS)(content, chance)
    return content


def text(content: bytes, chance: random.Random) -> bytes:
    """Numbers, words and lines of a text change, or any bytes."""
    if chance.random() < 0.3:
        return any_bytes(content, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        content = chance.choice((_word, _word, _lines))(content, chance)
    return content


def json_nodes(content: bytes, chance: random.Random) -> bytes:
    """Nodes of a JSON document change, or its text does; sometimes it becomes deep."""
    if chance.random() < 0.02:
        return chance.choice((b"[" * 200_000, b'{"frames":' * 100_000, content + b"[" * 100_000))
    if chance.random() < 0.4:
        return text(content, chance)
    return json.dumps(_changed(json.loads(content), chance)).encode()


def yaml_nodes(content: bytes, chance: random.Random) -> bytes:
    """Nodes of a YAML document change, or its text does; sometimes it becomes deep, or refers to itself."""
    if chance.random() < 0.03:
        itself = b"experiment: &a {experiment: *a, config: [*a]}\n"
        return chance.choice((b"[" * 5_000, BOMB.encode(), content + BOMB.encode(), itself, content + itself))
    if chance.random() < 0.4:
        return text(content, chance)
    return yaml.safe_dump(_changed(yaml.safe_load(content), chance), sort_keys=False).encode(errors="replace")


def zipped(inner: Mutation) -> Mutation:
    """The content of a gzipped file changes, or the file does; sometimes it holds a gigabyte of zeros."""

    def mutate(content: bytes, chance: random.Random) -> bytes:
        if chance.random() < 0.005:
            return _zeros()
        if chance.random() < 0.4:
            return any_bytes(content, chance)
        return gzip.compress(inner(gzip.decompress(content), chance), 1)

    return mutate


def safetensors(content: bytes, chance: random.Random) -> bytes:
    """The header's JSON changes, its length too, or any bytes do."""
    if chance.random() < 0.5:
        return any_bytes(content, chance)
    (length,) = struct.unpack("<Q", content[:8])
    header = json_nodes(content[8 : 8 + length], chance)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def _changed(root: Any, chance: random.Random) -> Any:
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(root))
        if not places:
            return deepcopy(chance.choice(VALUES))
        parent, key = chance.choice(places)
        action = chance.random()
        if action < 0.75:
            parent[key] = deepcopy(chance.choice(VALUES))
        elif action < 0.9:
            del parent[key]
        elif isinstance(parent, list):
            parent.append(parent[key])
        else:
            parent[chance.choice(("", "x", "seed", "frames", "w"))] = parent[key]
    return root


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Containers and keys of all nodes below one."""
    found, waiting, seen = [], [node], set()
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict | list) and id(here) not in seen:
            seen.add(id(here))
            keys = list(here) if isinstance(here, dict) else range(len(here))
            found += [(here, key) for key in keys]
            waiting += [here[key] for key in keys]
    return found


def _place(content: bytes, chance: random.Random) -> int:
    """More often near the beginning, where headers are."""
    near = min(len(content), 200) if chance.random() < 0.5 else len(content)
    return chance.randrange(near) if near else 0


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed, place = bytearray(content), _place(content, chance)
    for offset in range(chance.choice((1, 1, 2, 8))):
        if place + offset < len(changed):
            changed[place + offset] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _extreme(content: bytes, chance: random.Random) -> bytes:
    size, order = chance.choice((1, 2, 4, 8)), chance.choice(("little", "big"))
    value = chance.choice((0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), 2 ** (8 * size - 1) - 1, 255, 127))
    place = _place(content, chance)
    return content[:place] + (value % 2 ** (8 * size)).to_bytes(size, order) + content[place + size :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _remove(content: bytes, chance: random.Random) -> bytes:
    place = _place(content, chance)
    return content[:place] + content[place + chance.choice((1, 2, 4, 16, 256)) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    place = _place(content, chance)
    return content[:place] + chance.randbytes(chance.choice((1, 2, 4, 16, 256))) + content[place:]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    first, place = _place(content, chance), _place(content, chance)
    return (
        content[:place]
        + content[first : first + chance.choice((4, 64, 1024))] * chance.choice((1, 2, 50))
        + content[place:]
    )


_BYTE_MUTATIONS: tuple[Mutation, ...] = (_flip, _flip, _extreme, _extreme, _cut, _remove, _insert, _repeat)


def _word(content: bytes, chance: random.Random) -> bytes:
    pattern = rb"-?\d[\d.eE+-]*" if chance.random() < 0.7 else rb"[^\s,:{}\[\]]+"
    found = list(re.finditer(pattern, content[:100_000]))
    if not found:
        return any_bytes(content, chance)
    match = chance.choice(found[:20] if chance.random() < 0.4 else found)
    return content[: match.start()] + chance.choice(WORDS) + content[match.end() :]


def _lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    action = chance.randrange(4)
    if action == 0:
        del lines[first]
    elif action == 1:
        lines[first], lines[second] = lines[second], lines[first]
    elif action == 2:
        lines.insert(second, lines[first])
    else:
        lines[first] = lines[first].strip()
    return b"".join(lines)


@cache
def _zeros() -> bytes:
    packer, block = zlib.compressobj(9, wbits=31), bytes(1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(1024)), packer.flush()])
