"""Meshes that are there more than once."""

from __future__ import annotations

from collections.abc import Mapping


def copies_note(fingerprints: Mapping[str, str]) -> str:
    """That meshes of several names are the same, and what to do, in words; empty where all differ.

    Args:
        fingerprints: of each mesh, by its name.
    """
    first, copies = dict[str, str](), list[str]()
    for name, word in fingerprints.items():
        if first.setdefault(word, name) != name:
            copies.append(f"{first[word]} and {name}")
    if not copies:
        return ""
    more = f" (and {len(copies) - 1} more pairs)" if copies[1:] else ""
    return f"{copies[0]} are of the same mesh{more}: what is trained on may be tested on; remove all but one"
