"""Sequences that are there more than once, perhaps cut, with other cameras or under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int

from niso.data.in_common import groups_in_common

_PARTS = {"train": "trained on", "validation": "validated on", "test": "tested on"}


def copies_of(names: Sequence[str], words: Sequence[Int[np.ndarray, " _frames"]]) -> dict[str, str]:
    """By the name of each sequence that has copies, the first name of these: one has half of its frames or more in the
    other.

    Args:
        words: of the frames of each sequence, equal where frames are; 0 where they are not known.
    """
    sequence = np.repeat(np.arange(len(names)), [len(one) for one in words])
    word, frame = np.unique(np.concatenate(list(words)), return_inverse=True)
    known = word[frame] != 0
    every = groups_in_common(sequence[known], frame[known], len(names))
    _, group, counts = np.unique(every, return_inverse=True, return_counts=True)
    firsts = dict[int, str]()
    return {
        name: firsts.setdefault(number, name)
        for name, number in zip(names, group.tolist(), strict=True)
        if counts[number] > 1
    }


def copies_note(copies: Mapping[str, str], parts: Mapping[str, Sequence[str]]) -> str:
    """That copies of a sequence are in several parts of the data, and what to do, in words; empty where none are.

    Args:
        copies: see `copies_of`.
        parts: names of the sequences to train on, to validate on and to test on.
    """
    found, across = dict[str, tuple[str, str]](), list[str]()
    for part, name in chain.from_iterable(((part, name) for name in parts.get(part, ())) for part in _PARTS):
        if name in copies:
            other, where = found.setdefault(copies[name], (name, part))
            if where != part:
                across.append(f"{other} ({_PARTS[where]}) and {name} ({_PARTS[part]})")
    if not across:
        return ""
    more = f" (and {len(across) - 1} more pairs)" if across[1:] else ""
    return f"{across[0]} have most of their frames in common{more}, so that metrics flatter: keep one of each"
