"""Observations as arrays, and what is known of them: what every reader gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from unicodedata import normalize

import numpy as np

from niso.data.pairs.geometry import GEOMETRY, normalised
from niso.data.pairs.reading import Reading
from niso.errors import InputError, counted, nearest

Kind = Literal["images", "volumes", "signals", "points"]
"""Observations: images (C, H, W), volumes (C, D, H, W), signals (L, C), functions on points (N, C)."""
CHANNELS_FIRST: frozenset[Kind] = frozenset({"images", "volumes"})
"""Observations whose first axis is that of channels; of others it is the last."""

VIEWS = ("x", "tx", "ttx")
FEWEST = 15
"""Examples that can be cut into parts to train, validate and test on, of two or more each."""
_BLOCK = 1 << 24
"""Bytes of an array that are looked at together; digests of contents depend on it."""
_MANY_CHANNELS = 16
_OF_ROWS = ("group", "label", "source")
_MISSING = ("", "nan", "<NA>", "None")
"""Words that stand for no word: empty cells of tables, as their readers and `astype(str)` write them."""
_PERHAPS_MISSING = ("na", "n/a", "#n/a", "nan", "none", "null")
"""Words, in any case, that stand for no word in many tables, and may be names."""
_TRANSPOSED = "in NumPy x.transpose(0, 2, 1)"


@dataclass(frozen=True, eq=False)
class Table:
    """Observations, a row each.

    Attributes:
        name: what messages call it.
        kind: of the observations.
        views: "x" and, where they are there, "tx" and "ttx": arrays (rows, *shape) of integers or floats, perhaps
            memory-mapped, see `Kind`.
        group: (rows,) number of the transformation of each row; None where every row has its own.
        label: (rows,) class of each row; None where there are none.
        classes: labels of the classes, words, whole numbers or booleans, as they were given.
        clip: (rows,) number of the clip that each row is the next frame of; None where rows are not frames.
        source: (rows,) number of what each row is a part of, a picture or a recording; None where rows are of their
            own. Rows of one are in one part.
        points: (N, dimensions) coordinates of points; weights: (N,) areas of points or latent masses to start from,
            scaled to a mean of 1.
        note: what a user should know of how it was read.
        cropped: whether rows are random crops of pictures, of which there may be few.
        files: a word for the pictures or videos that values are decoded from, see `digest_of_files`: decoders differ
            from machine to machine. Empty where values are read as they are.
    """

    name: str
    kind: Kind
    views: dict[str, np.ndarray]
    group: np.ndarray | None = None
    label: np.ndarray | None = None
    classes: tuple[str | int, ...] = ()
    clip: np.ndarray | None = None
    source: np.ndarray | None = None
    points: np.ndarray | None = None
    weights: np.ndarray | None = None
    note: str = ""
    cropped: bool = False
    files: str = ""

    def __len__(self) -> int:
        return len(self.views["x"])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.views["x"].shape[1:]

    @property
    def channels(self) -> int:
        """Channels of an observation."""
        return self.shape[0 if self.channels_first else -1]

    @property
    def channels_first(self) -> bool:
        """Whether the first axis of an observation is that of channels; else it is the last."""
        return self.kind in CHANNELS_FIRST


def make_table(name: str, columns: Mapping[str, Any], reading: Reading) -> Table:
    """A table from arrays as a user has them.

    Args:
        columns: "x" and any of "tx", "ttx", "group", "label", "source", "points", "weights".

    Raises:
        InputError: they do not go together, or are not observations; one line says which and what to do.
    """
    known = {*VIEWS, *_OF_ROWS, *GEOMETRY}
    if unknown := [key for key in columns if key not in known]:
        if len(unknown) == len(columns) >= FEWEST:  # a file for each observation
            held = f"{unknown[0]!r} and {len(columns) - 1} others"
            raise InputError(f"{name} holds {held}: give all observations as one array, numpy.stack([…]), named x")
        raise InputError(f"{name} holds {unknown[0]!r}, which is not known{nearest(unknown[0], sorted(known))}")
    if "x" not in columns:
        raise InputError(f"{name} has no x{nearest('x', columns) if columns else ''}: name the observations x")
    if "ttx" in columns and "tx" not in columns:
        raise InputError(f"{name} has ttx, T applied twice, but no tx: add tx")
    arrays = {key: plain(name, key, values) for key, values in columns.items()}
    views = {key: arrays[key] for key in VIEWS if key in arrays}
    for key, values in views.items():
        check_numbers(name, key, values)
    kind = kind_of(name, views["x"], reading, "points" in arrays)
    views = {key: canonical(values, kind) for key, values in views.items()}
    if len({values.dtype for values in views.values()}) > 1:  # one type may be in two orders of bytes
        views = {key: values.astype(values.dtype.newbyteorder("="), copy=False) for key, values in views.items()}
    first = views["x"]
    for key, values in views.items():
        if len(values) != len(first):
            raise InputError(f"{name}: x has {len(first)} observations and {key} {len(values)}: give one for each")
        if values.shape != first.shape:
            shapes = f"{first.shape[1:]} in x and {values.shape[1:]} in {key}"
            raise InputError(f"{name}: observations are {shapes}: both views must have one shape")
        if values.dtype != first.dtype:
            raise InputError(f"{name}: x is of type {first.dtype} and {key} of {values.dtype}: give both one type")
    for key in _OF_ROWS:
        if key in arrays and arrays[key].shape != (len(first),):
            given = arrays[key].shape
            raise InputError(f"{name}: {key} is {given}, not ({len(first)},): give one for each observation")
    if len(first) < FEWEST:
        raise InputError(
            f"{name} holds {len(first)} observations: at least {FEWEST} are needed to train, validate and test on"
        )
    group, source = (integers(name, key, arrays[key])[0] if key in arrays else None for key in ("group", "source"))
    label, classes = integers(name, "label", arrays["label"]) if "label" in arrays else (None, ())
    if label is not None and len(classes) < 2:
        raise InputError(f"{name}: all labels are {classes[0]}: give two classes or more, or leave label out")
    points, weights = (_geometry(name, key, arrays, first, kind) for key in GEOMETRY)
    if label is not None and len(classes) == len(first):
        raise InputError(f"{name}: every label occurs once: give classes of several observations, or leave label out")
    check_finite(name, views)
    note = "; ".join(filter(None, (_short(kind, first), _perhaps_wrong(label, classes))))
    return Table(name, kind, views, group, label, classes, None, source, points, weights, note)


def blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of an array, perhaps on the disk, a few megabytes at a time."""
    rows = max(1, _BLOCK // max(1, values[:1].nbytes))
    return (values[start : start + rows] for start in range(0, len(values), rows))


def kind_of(name: str, x: np.ndarray, reading: Reading, on_points: bool) -> Kind:
    """What observations are, by their shape; InputError where that does not tell."""
    shape = " × ".join(map(str, x.shape)) or "a single number"
    if x.ndim not in (2, 3, 4, 5):
        raise InputError(
            f"{name}: x is {shape}: give images (n, C, H, W) or (n, H, W), volumes (n, C, D, H, W), signals (n, L, C) "
            "or (n, L), or functions on points (n, N, C)"
        )
    if reading.kind != "auto":
        fitting = {"images": (3, 4), "volumes": (4, 5), "signals": (2, 3), "points": (2, 3)}[reading.kind]
        if x.ndim not in fitting:
            raise InputError(f"{name}: x is {shape}, which are not {reading.kind}: choose another --kind")
    if x.ndim == 4 and reading.kind != "volumes" and _channels_last(x.shape, asked=reading.kind == "auto"):
        other = "" if _channels_last(x.shape, asked=False) else "; if it is that already, say --kind images"
        raise InputError(
            f"{name}: x is {shape}, with channels last: give (n, C, H, W), in NumPy x.transpose(0, 3, 1, 2){other}"
        )
    if x.ndim == 5 and reading.kind == "auto" and x.shape[4] <= 4 < min(x.shape[1:4]):
        raise InputError(
            f"{name}: x is {shape}, with channels last: give (n, C, D, H, W), in NumPy x.transpose(0, 4, 1, 2, 3); if "
            "it is that already, say --kind volumes"
        )
    if reading.kind == "signals" and x.ndim == 3 and x.shape[1] == 1:
        raise InputError(f"{name}: x is {shape}, signals of one sample: give (n, L, C), {_TRANSPOSED}")
    if reading.kind != "auto":
        return reading.kind
    if x.ndim == 5:
        return "volumes"
    if x.ndim == 4 and _perhaps_volumes(x.shape):
        raise InputError(
            f"{name}: x is {shape}: if these are images of {x.shape[1]} channels, say --kind images; if volumes "
            "(n, D, H, W), say --kind volumes"
        )
    if x.ndim == 4:
        return "images"
    if on_points:
        return "points"
    if x.ndim == 2:
        return "signals"
    if x.shape[1] == x.shape[2] or (x.dtype == np.uint8 and min(x.shape[1:]) > _MANY_CHANNELS):
        return "images"
    if x.shape[2] <= _MANY_CHANNELS and x.shape[2] < x.shape[1]:
        return "signals"
    raise InputError(
        f"{name}: x is {shape}: are these images (n, H, W) or signals (n, L, C)? Say so by --kind; if they are signals "
        f"(n, C, L), give {_TRANSPOSED}"
    )


def _short(kind: Kind, x: np.ndarray) -> str:
    """What to know of signals with more channels than samples, which may have them first; empty for others."""
    _, samples, channels = x.shape if kind == "signals" else (0, 0, 0)
    if not samples <= _MANY_CHANNELS < channels or channels < 3 * samples:
        return ""
    read = f"signals are read as {samples} samples of {channels} channels"
    return f"{read}: if they are {samples} channels of {channels} samples, give them {_TRANSPOSED}"


def _perhaps_volumes(shape: tuple[int, ...]) -> bool:
    """Whether images have about as many channels as rows and columns, as volumes (n, D, H, W) would."""
    _, channels, *sides = shape
    cubes = channels > 4 and sides == [channels, channels]
    return cubes or (channels > _MANY_CHANNELS and max(channels, *sides) <= 2 * min(channels, *sides))


def _channels_last(shape: tuple[int, ...], asked: bool) -> bool:
    """Whether images look as if channels were last; of those that a user calls images, square colour ones alone."""
    _, height, width, channels = shape
    if channels <= 4:
        return 4 < height and channels < width and (asked or height == width)
    if height == width > 4:  # as of many spectral bands: (n, C, H, W) hardly has as many channels as rows
        return asked and channels != width
    return asked and channels <= _MANY_CHANNELS and 2 * channels <= min(height, width)


def canonical(x: np.ndarray, kind: Kind) -> np.ndarray:
    """With an axis of channels."""
    if kind in CHANNELS_FIRST:
        return x[:, None] if x.ndim == (3 if kind == "images" else 4) else x
    return x[..., None] if x.ndim == 2 else x


def plain(name: str, key: str, values: Any) -> np.ndarray:
    """Values as an array of no subclass, such as a matrix, which NumPy itself handles wrongly with three axes;
    InputError where some are masked."""
    if np.ma.is_masked(values):
        raise InputError(f"{name}: some values of {key} are masked: fill them, or leave their observations out")
    return np.asarray(values)


def check_numbers(name: str, key: str, values: np.ndarray) -> None:
    """InputError unless these are numbers, and some."""
    if values.dtype == object and any(isinstance(value, str) for value in values.flat):
        raise InputError(f"{name}: {key} holds words: give one array of numbers, and classes as label")
    if values.dtype == object:
        raise InputError(f"{name}: {key} holds Python objects, or misses values: give one array of numbers")
    if values.dtype.kind not in "buif":
        parts = ", real and imaginary parts as two channels" if values.dtype.kind == "c" else ""
        raise InputError(f"{name}: {key} is of type {values.dtype}: give integers or floating-point numbers{parts}")
    if not values.size:
        raise InputError(f"{name}: {key} is empty {values.shape}: give some observations")


def check_finite(name: str, views: Mapping[str, np.ndarray]) -> None:
    """InputError where a value is NaN or infinite; it names the first row, or says that all lack the same values."""
    for key, values in views.items():
        if values.dtype.kind != "f":
            continue
        parts = list(blocks(values))
        for number, part in enumerate(parts):
            finite = np.isfinite(part).reshape(len(part), -1)
            if finite.all():
                continue
            first = np.isfinite(values[0])
            if first.any() and len(values) > 1 and all((np.isfinite(other) == first).all() for other in parts):
                raise InputError(  # as over land or sea
                    f"{name}: {np.sum(~first)} of {first.size} values are NaN or infinite in every observation of "
                    f"{key}: fill them, or leave their points out: functions (n, N, C) may be of any points"
                )
            row = number * len(parts[0]) + int(np.flatnonzero(~finite.all(1))[0])
            raise InputError(f"{name}: {key}[{row}] holds NaN or infinite values: repair or remove it")


def integers(name: str, key: str, values: np.ndarray) -> tuple[np.ndarray, tuple[str | int, ...]]:
    """Numbers 0, 1, … of groups or classes, and what these are; from whole numbers, booleans or words, which may be
    Python objects.

    Raises:
        InputError: they are neither, or a word is missing.
    """
    if values.dtype.kind in ("O", "T", "f"):
        given = values.tolist()
        if absent := [row for row, word in enumerate(given) if is_missing(word)]:
            raise _absent(name, key, absent, [given[row] for row in absent])
        if any(all(isinstance(word, kind) for word in given) for kind in (str, bytes)):  # bytes as of h5py
            values = np.array(given)
    whole = values.dtype.kind == "f" and (values == np.floor(values)).all()
    if whole and (np.abs(values.astype(np.float64)) < 2**53).all():
        values = values.astype(np.int64)  # as of columns that had missing values once
    if values.dtype.kind not in "uibUS":
        raise InputError(f"{name}: {key} is of type {values.dtype}: give whole numbers or words")
    names, numbers = np.unique(values, return_inverse=True)
    words = tuple(n.decode(errors="backslashreplace") if isinstance(n, bytes) else n for n in names.tolist())
    composed = [composed_word(word) for word in words]
    if composed != [*words]:
        words = tuple(sorted(set(composed)))  # words: numbers are composed as they are
        numbers = np.array([words.index(word) for word in composed])[numbers]
    if missing := [number for number, word in enumerate(words) if is_missing(word)]:
        rows = np.flatnonzero(np.isin(numbers, missing)).tolist()
        raise _absent(name, key, rows, [words[number] for number in missing])
    return numbers.astype(np.int64), words


def as_array(classes: Sequence[str | int]) -> np.ndarray:
    """What classes are, see `integers`, as an array. NumPy makes floats, which round, of numbers some of which are
    beyond int64."""
    beyond = any(isinstance(name, int) and name >= 2**63 for name in classes)
    return np.array(classes, np.uint64 if beyond else None)


def composed_word(word: Any) -> Any:
    """A word with its accents in their letters (Unicode's NFC), however they are written; another label as it is."""
    return normalize("NFC", word) if isinstance(word, str) else word


def is_missing(word: object) -> bool:
    """Whether a label stands for none, as an empty cell of a table does."""
    return word is None or str(word).strip() in _MISSING


def _perhaps_wrong(label: np.ndarray | None, classes: tuple[str | int, ...]) -> str:
    """How many labels are a word that may stand for none, and which hardly differ; empty where none do."""
    found = [
        f"{counted(int(np.count_nonzero(label == number)), 'label is', 'labels are')} {word!r}"
        for number, word in enumerate(classes)
        if isinstance(word, str) and word.strip().casefold() in _PERHAPS_MISSING
    ]
    told = [f"{', '.join(found)}: if that stands for none, leave their observations out"] if found else []
    plain = {word: " ".join(word.split()).casefold() for word in classes if isinstance(word, str)}
    for one in dict.fromkeys(plain.values()):
        if len(same := [repr(word) for word in plain if plain[word] == one]) > 1:
            told.append(f"classes {' and '.join(same)} differ in blanks or capitals alone")
    return "; ".join(told)


def _absent(name: str, key: str, rows: list[int], words: Collection[object]) -> InputError:
    """That observations have no label or group; `words` are what they have instead."""
    count = counted(len(rows), "observation")
    but = " but 'None'" if {str(word).strip() for word in words if word is not None} == {"None"} else ""
    return InputError(f"{name}: {count} ({key}[{rows[0]}], …) have no {key}{but}: give one, or leave them out")


def _geometry(name: str, key: str, arrays: Mapping[str, np.ndarray], x: np.ndarray, kind: Kind) -> np.ndarray | None:
    """Coordinates or weights of the points that functions are given on."""
    if key not in arrays:
        return None
    values, count = arrays[key], x.shape[1]
    check_numbers(name, key, values)
    wanted = f"({count}, 1), ({count}, 2) or ({count}, 3)" if key == "points" else f"({count},)"
    fits = values.shape == (count,) if key == "weights" else values.shape in ((count, 1), (count, 2), (count, 3))
    if kind != "points" or not fits:
        remedy = "say --kind points" if arrays["x"].ndim < 4 else f"leave {key} out"
        problem = f"x are {kind}, {remedy}" if kind != "points" else f"it is {values.shape}, not {wanted}"
        raise InputError(f"{name}: {key} is of functions on points (n, N, C): {problem}")
    if not np.isfinite(values).all() or (key == "weights" and (values <= 0).any()):
        raise InputError(f"{name}: {key} must be finite{' and positive' if key == 'weights' else ''}")
    return normalised(key, values)
