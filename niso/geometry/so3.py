"""Rotations of space: the functions of roma, which is imported with the first of them.

With it comes torch's compiler, which is slow to import: trained models are listed, loaded and used without.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    import roma

    return getattr(roma, name)
