"""Parts to train, validate and test on: what is related stays together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from niso.data.in_common import groups_in_common
from niso.data.pairs.table import Table, blocks
from niso.errors import InputError, counted
from niso.files.digests import digest
from niso.random import EVALUATION_SEED

_DRAWS = 20
"""Times that sources are drawn, where classes are missing in a part."""
_AGAIN = 0.1
"""Share of held-out pairs with observations that are trained on, from which a line says so."""
_MANY = 5
"""Observations of a part that differ from each other, from which on repeated ones are not named."""
_TRAINED = "those of held-out observations are trained on"
_FEW = f"transformations are too few or too unequal to hold out whole ones: {_TRAINED}"


Part = Literal["train", "validation", "test"]
PARTS: dict[Part, str] = {"train": "to train on", "validation": "to validate on", "test": "held out"}
"""What each part is, in words."""


class Parts(NamedTuple):
    """Rows of a table to train, validate and test on, in ascending order; what to know of the split; and where the x of
    a part are a few that are repeated, how many these are."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    note: str = ""
    repeated: str = ""


def split(table: Table, validation: float, test: float, gap: int = 0) -> Parts:
    """Rows of each part. Rows of one source, e.g. crops of one picture, are in one part, and so are a clip and copies
    of it.

    Of several draws of sources with labels that is taken in whose parts most classes are. Where many held-out pairs
    have observations that are trained on, as of few states of a game, or most held-out transformations are, the note
    says so.

    Without sources no observation is in two parts, and rows of one transformation (`table.group`) stay together, too,
    where each part then has two transformations or more. With labels, but none of these, parts are drawn evenly over
    classes where some would else be missing in one.

    Args:
        validation, test: shares of the units, and at most about of the rows; at least one unit each, if possible not
            the largest.
        gap: frames left out between the stretches of a clip that is cut, as neighbours are alike; at most a quarter of
            those to train on.

    Raises:
        InputError: all observations of a view are equal, or a part would have fewer than two rows: maps are tested on
            another one's.
    """
    _check_views(table)
    same = _equal(table)
    parts = _parts(table, same, validation, test, gap)
    for rows, what in zip(parts[:3], ("train on", "validate on", "hold out"), strict=True):
        if len(rows) < 2:
            problem, more = f"are left to {what} that occur in no other part", "more that differ"
            for units, word in ((table.source, "source"), (table.clip, "clip")):
                if units is not None:
                    problem = f"of {counted(len(np.unique(units)), word)} are left to {what}"
                    more = f"more {word}s (3 at least)"
            raise InputError(
                f"{table.name}: fewer than two observations {problem}: give {more}, or other shares by --validation "
                "and --test"
            )
    parts = parts._replace(repeated=_repeated(same[0], parts))
    if 2 * len(parts.train) >= len(table):
        return parts
    few = f"{len(parts.train):,} of {len(table):,} observations are left to train on"
    return parts._replace(note="; ".join(filter(None, [parts.note, few])))


def _check_views(table: Table) -> None:
    """InputError where all observations of a view are equal."""
    equal = [key for key, view in table.views.items() if all((rows == view[0]).all() for rows in blocks(view))]
    if len(equal) == len(table.views):
        raise InputError(f"{table.name}: all observations are equal: give some that differ")
    if equal:
        lost = "" if "x" in equal else ", so that nothing of x is left in them"
        raise InputError(f"{table.name}: all observations of {equal[0]} are equal{lost}: give some that differ")


def fingerprint(table: Table, parts: Parts) -> str:
    """A word that changes where rows come to the data or leave it, or parts have other rows."""
    columns = (*parts[:3], table.group, table.label, table.source, table.clip)
    shapes = repr([(key, view.shape) for key, view in table.views.items()]).encode()
    return digest(
        shapes, *(b"-" if rows is None else np.ascontiguousarray(rows, np.int64).tobytes() for rows in columns)
    )


def content(table: Table) -> str:
    """A word that changes where an observation, a class, a point or a weight does; of decoded pictures, a file."""
    if table.files:
        return table.files
    views = (digest(_bytes(rows)).encode() for view in table.views.values() for rows in blocks(view))
    places = (_bytes(values) for values in (table.points, table.weights) if values is not None)
    return digest(*views, *(str(name).encode() for name in table.classes), *places)


def _bytes(rows: np.ndarray) -> bytes:
    return np.ascontiguousarray(rows).tobytes()


def _parts(table: Table, same: list[np.ndarray], validation: float, test: float, gap: int) -> Parts:
    if table.clip is not None:
        return _clips(_without_copies(same[0], table.clip), validation, test, table.label, gap)
    if table.source is not None:
        parts = _drawn_often(table.source, validation, test, table.label)
        trained = np.concatenate([view[parts.train] for view in same])
        again = int(np.isin(np.stack([view[parts.test] for view in same]), trained).any(0).sum())
        notes = []
        if again > _AGAIN * len(parts.test):
            told = f"{again:,} of {len(parts.test):,} held-out pairs have observations that other sources have, too"
            notes.append(f"{told}: these are trained on")
        if table.group is not None:
            held_out = np.unique(table.group[parts.test])
            if 2 * np.isin(held_out, table.group[parts.train]).sum() > len(held_out):
                notes.append(f"sources share transformations: {_TRAINED}")
        return parts._replace(note="; ".join(notes))
    rows = np.arange(len(table))
    if table.group is not None:
        joined = _joined(same, table.group)
        if _largest(joined) <= 0.25:
            parts = _drawn(joined, validation, test, least=2)
            if all(len(np.unique(table.group[part])) > 1 for part in parts[:3]):
                return parts  # else metrics would be those of one transformation, perhaps of the identity
    joined = _joined(same)
    if _largest(joined) <= 0.25:
        label = None if table.group is not None else table.label
        parts = _drawn(joined, validation, test, label, least=2)
        return parts if table.group is None else parts._replace(note=_FEW)
    parts = _blocks(rows, validation, test)
    seen = [np.unique(np.concatenate([view[part] for view in same])) for part in parts[:3]]
    train = parts.train[~np.isin(np.stack([view[parts.train] for view in same]), np.union1d(*seen[1:])).any(0)]
    kept = parts.validation[~np.isin(np.stack([view[parts.validation] for view in same]), seen[2]).any(0)]
    note = (
        "observations occur in many pairs: consecutive rows are held out, and rows that share one are left out; "
        "source, such as numbers of episodes, holds out by that alone"
    )
    return Parts(train, kept, parts.test, note)


def _repeated(x: np.ndarray, parts: Parts) -> str:
    """How many observations differ in the parts where hardly any do; empty where there is none."""
    told = list[str]()
    for rows, what in zip(parts[:3], PARTS.values(), strict=True):
        distinct = len(np.unique(x[rows]))
        if distinct < _MANY and 2 * distinct <= len(rows):
            told.append(f"{distinct} of the {len(rows):,} {'' if told else 'observations '}{what}")
    return f"only {', '.join(told)} differ from each other: give more that do" if told else ""


def _equal(table: Table) -> list[np.ndarray]:
    """Numbers of the observations of each view: equal ones have one number."""
    digests = [_digests(values) for values in table.views.values()]
    numbers = np.unique(np.concatenate(digests), return_inverse=True)[1]
    return np.split(numbers, len(digests))


def _digests(values: np.ndarray) -> np.ndarray:
    zero = np.zeros((), values.dtype)  # −0 + 0 is 0, which is equal, and so must their bytes be
    return np.array([hashlib.blake2b(_bytes(row + zero), digest_size=8).digest() for row in values], "V8").view("<u8")


def _joined(views: list[np.ndarray], group: np.ndarray | None = None) -> np.ndarray:
    """Number of the component of each row; rows are joined that share an observation or, where given, a group."""
    count, after = len(views[0]), 1 + max(int(view.max()) for view in views)
    links = [*views, *([] if group is None else [after + group])]
    nodes = count + 1 + max(int(link.max()) for link in links)
    rows = np.tile(np.arange(count), len(links))
    graph = coo_array((np.ones(len(rows)), (rows, count + np.concatenate(links))), (nodes, nodes))
    return connected_components(graph, directed=False)[1][:count]


def _without_copies(frame: np.ndarray, clip: np.ndarray) -> np.ndarray:
    """Numbers of clips; one for copies of a clip and cuts of it."""
    names, number = np.unique(clip, return_inverse=True)
    return groups_in_common(number, frame, len(names))[number]


def _largest(units: np.ndarray) -> float:
    """Share of the rows that the largest unit has."""
    return float(np.unique(units, return_counts=True)[1].max()) / len(units)


def _drawn_often(units: np.ndarray, validation: float, test: float, label: np.ndarray | None) -> Parts:
    """The first draw of units whose parts have all classes; of `_DRAWS` the first that lacks fewest, where none has."""
    orders = np.random.default_rng(EVALUATION_SEED)
    best = _drawn(units, validation, test, orders=orders)
    if label is None:
        return best
    names, classes = np.unique(label, return_inverse=True)

    def found(parts: Parts) -> int:
        return sum(len(np.unique(classes[rows])) for rows in parts[:3])

    most = found(best)
    for _ in range(_DRAWS - 1):
        if most == 3 * len(names):
            break
        drawn = _drawn(units, validation, test, orders=orders)
        if (has := found(drawn)) > most:
            best, most = drawn, has
    return best


def _drawn(
    units: np.ndarray,
    validation: float,
    test: float,
    label: np.ndarray | None = None,
    least: int = 1,
    orders: np.random.Generator | None = None,
) -> Parts:
    """Parts of units drawn at random; evenly over classes, where there are any and some would else be missing in a
    part. The largest unit, of several the last drawn, is left to train on. Where there are many more units, each part
    has at least `least`."""
    names, first, counts = np.unique(units, return_index=True, return_counts=True)
    sizes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    order = (orders or np.random.default_rng(EVALUATION_SEED)).permutation(names).tolist()
    largest = max(reversed(order), key=sizes.__getitem__)
    fewest = least if len(names) >= 4 * least else 1

    def parts(classes: dict[int, int]) -> Parts:
        left, held_out = order, list[np.ndarray]()
        for later, share in ((2, validation), (1, test)):
            candidates = _over_classes([unit for unit in left if unit != largest] or left, classes, later)
            part = _taken(candidates, sizes, max(fewest, round(share * len(names))))
            left = [unit for unit in left if unit not in part]
            held_out.append(np.flatnonzero(np.isin(units, list(part))))
        return Parts(np.flatnonzero(np.isin(units, left)), held_out[0], held_out[1])

    drawn = parts({})
    if label is None or all(len(np.unique(label[rows])) == len(np.unique(label)) for rows in drawn[:3]):
        return drawn
    return parts(dict(zip(names.tolist(), label[first].tolist(), strict=True)))


def _over_classes(units: list[int], classes: Mapping[int, int], later: int) -> list[int]:
    """Units in such an order that the first ones are evenly spread over their classes; as they are without classes.

    One of each class comes first, where that leaves one for each of the parts drawn `later`.
    """
    if not classes:
        return units
    count, seen = Counter(classes[unit] for unit in units), Counter[int]()
    place = dict[int, float]()
    for unit in units:
        group = classes[unit]
        place[unit] = 0.0 if not seen[group] and count[group] > later else (seen[group] + 0.5) / count[group]
        seen[group] += 1
    return sorted(units, key=place.__getitem__)


def _taken(order: list[int], sizes: dict[int, int], count: int) -> set[int]:
    """At most `count` units in order, with about as many rows as these have on average; the smallest if none fits."""
    taken, rows, average = set[int](), 0, sum(sizes.values()) / len(sizes)
    most = max(2, (count + 0.5) * average)  # sizes that hardly differ make no difference
    for unit in order:
        if len(taken) < count and rows + sizes[unit] <= most:
            taken.add(unit)
            rows += sizes[unit]
    return taken or set(sorted(order, key=sizes.__getitem__)[:1])


def _blocks(rows: np.ndarray, validation: float, test: float) -> Parts:
    """Consecutive rows."""
    ends = [round((1 - validation - test) * len(rows)), round((1 - test) * len(rows))]
    train, validated, tested = np.split(rows, ends)
    return Parts(train, validated, tested)


def _clips(clip: np.ndarray, validation: float, test: float, label: np.ndarray | None, gap: int) -> Parts:
    """Whole clips, of labelled ones as many as there are classes or more; of fewer than three clips, consecutive
    stretches of each, with a gap between them."""
    if len(np.unique(clip)) >= 3:
        return _drawn(clip, validation, test, label, least=1 if label is None else len(np.unique(label)))
    stretches = []
    for number in np.unique(clip):
        frames = np.flatnonzero(clip == number)
        train, validated, tested = _blocks(frames, validation, test)[:3]
        left_out = min(gap, len(train) // 4)
        end, start = len(train) - 2 * left_out, len(train) - left_out
        stretches.append((frames[:end], frames[start : start + len(validated)], tested))
    train, validated, tested = (np.concatenate(part) for part in zip(*stretches, strict=True))
    note = "there are fewer than three clips: the last stretch of each is held out"
    between = f"; up to {counted(gap, 'frame')} between stretches are left out" if gap else ""
    return Parts(train, validated, tested, note + between)
